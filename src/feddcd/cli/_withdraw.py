"""After rows had to leave: the sets of rows of earlier jobs are closed."""

from pathlib import Path

from .._errors import PolicyError, SpecError
from .._files import shown
from .._text import plural
from ..federation.folder import load_place
from ..federation.site.log import append
from ..federation.site.memory import Memory
from ..federation.site.policy import FILE, load_policy
from ..federation.site.rules import changed_since, needed_after_withdrawal, unchanged_since
from ._habits import found
from ._site import check_site
from ._terminal import say

UNTOLD = "feddcd does not tell the other sites about this withdrawal. Call the people there"


def withdraw_command(folder: Path, why: str, early: bool) -> None:
    """Refused until so many rows changed that nobody can compute the removed ones, or `early`."""
    check_site(folder)
    if not why.strip():
        raise SpecError(
            "give the reason in a few words, for the log: --why 'one patient withdrew consent'"
        )
    place, policy = load_place(folder), load_policy(folder / FILE)
    memory = Memory(place.folder, place.data)
    if not memory.jobs() and (before := ", ".join(memory.forgotten())):
        told = f"this site remembers no job on {shown(place.data)}. It remembers jobs on {before}"
        raise SpecError(f"{told}. Write the old path into site.toml again, and repeat this command")
    if last := unchanged_since(place, memory):
        told = f"the data file {shown(place.data)} has not changed since job {last[:8]}. First"
        raise SpecError(f"{told} remove the rows from this file, and then give this command again")
    least, demand = needed_after_withdrawal(policy, memory)
    careful = policy.min_support > 1
    changed = changed_since(place, memory) if careful and not early else None
    if changed == 0:
        raise SpecError("this command is not necessary: no earlier job used the rows that changed")
    enough = changed is not None and changed >= least
    if changed is not None and not enough:
        raise PolicyError(_too_early(changed, least, demand))
    count = memory.retire()
    append(folder, {"withdrawal": why, "closed": count, "early": early})
    found(closed=count, why=why, changed=changed, needed=least)
    say(
        f"feddcd closed {plural(count, 'set')} of rows of earlier jobs. Rule 7 does not compare "
        "new jobs with a closed set, so new jobs can use the remaining rows. The log of this site "
        "has a line about the withdrawal."
    )
    for line in _enough(changed or 0, least, demand) if enough else _risks(least, demand, careful):
        say(line)
    say(
        "This site does not answer the plan of an earlier job again. To repeat a job, the "
        "coordinator has to change its plan first, for example the setting max_exchanges."
    )
    say(
        "Some files of this site still contain traces of the removed rows: the folders 'rules', "
        "'jobs', 'results' and 'outgoing', the files 'site.log' and 'state', and backups. The page "
        "'Security model' says how to erase them."
    )


def _too_early(changed: int, least: int, demand: str) -> str:
    some = f"{plural(changed, 'row')} of the data file {'has' if changed == 1 else 'have'} changed"
    return (
        f"too early: {some} since an earlier job. At least {least} rows have to change ({demand}). "
        "The withdrawn rows count, too. Until then, rule 7 protects the withdrawn rows: this site "
        "refuses new jobs by itself. You do not have to do anything at this site. Give this "
        f"command again when enough rows have changed. {UNTOLD}: ask them to deny every job "
        "that uses a column of an earlier job, until you call again. If you give this command "
        "with --early, rule 7 does not protect the withdrawn rows any more: then only the people "
        "who approve jobs protect them"
    )


def _enough(changed: int, least: int, demand: str) -> list[str]:
    return [
        f"{changed} rows of the data file have changed. This is enough: at least {least} had to "
        f"change ({demand}). A job with more parameters needs more changed rows. If they are "
        "too few for a job, the text that a person approves has a warning. Rule 17 does not "
        "compare new descriptions by groups with earlier ones any more. Deny such a description "
        "if only few rows of a group have changed.",
        f"{UNTOLD}: say that enough rows have changed, and that they can approve new jobs again.",
    ]


def _risks(least: int, demand: str, careful: bool) -> list[str]:
    """Where few rows may have changed."""
    why_so = f" ({demand})" if careful else ""
    return [
        "WARNING: rule 7 (sets of rows) does not compare new jobs with earlier jobs any more. If "
        "the sites repeat an earlier job, everyone who has the sums of both jobs can subtract "
        "them. The differences are the sums of the removed rows alone. If only one row was "
        "removed, they show the values of this row.",
        "If the coordinator repeats an earlier job, do not approve the repeat until at least "
        f"{plural(max(least, 1), 'row')} of the data file {'have' if least > 1 else 'has'} "
        f"changed{why_so}. The withdrawn rows count, too. A job with more parameters needs more "
        "changed rows.",
        f"{UNTOLD}: ask them to deny every repeat of an earlier job, until you say that enough "
        "rows have changed. If only this site denies a repeat and the other sites run it, everyone "
        "who has the sums of both jobs can calculate the sums of this site alone.",
        "Each new job waits for a person at this site. The text of the job says that few rows "
        "changed, and what a denial can reveal. In mode sum, a repeat of an earlier job waits for "
        "a second approval, because this site answered the same job before.",
    ]
