"""The sites hear how a study ended, so that nobody there decides about what is over.

server/unheard.json    ends that a site did not hear, as it was away; it hears them with the next
                       study
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..._errors import DataError, FeddcdError, Stalled
from ..._files import Disk
from ..._text import sentence_list
from ...sums.roster import FEWEST
from .. import wire
from ..about import ALONE, StudyEnd, read_ended
from ..enrolment.departed import after_departure, departure_of
from ..folder import FederationFolder
from ..site.told import kind_of, lacked_by
from ..wire import Envelope
from .nodes import Cancelled, Nodes

FILE = "unheard.json"
MOST_BYTES = 1 << 22
SAY_S = 10.0  # in which a site that is here takes it
EACH = (
    "With --mode each, two sites are enough. In this mode, the coordinator reads the numbers of "
    "each site, and there is no proof file. The policy of every site must allow this mode "
    "(answers = 'each' in policy.toml)."
)
BEGUN = (
    "a site refused to continue after the first answers, so the other sites cannot finish this job"
)
GO_ON = (
    "If you write go_on_without = true in the plan, the other sites begin a new job without a site "
    "that refuses. From the sums of both jobs, the coordinator and everyone at the other sites can "
    "then calculate the sums of the site that refused."
)

SKEWED = (
    "A possible reason for a refusal: a careful site refuses the mean and SD of a column if few "
    "patients have much larger values than all others. The person at the site can tell you the "
    "name of the column. Then describe this column by its median and quartiles: write median = "
    '["COLUMN"] under [describe] in the job file, or give the command: feddcd describe ... '
    "--median COLUMN."
)


AT_ONE_SITE = "its values differ at only"  # a site's words of the rule min_sites
SAME_WORDS = (
    "Next: if other sites have other words for the same level, ask all sites to use the same "
    "words. Then start the study again. If the sites really have different levels, make a new job "
    "without this column."
)


class Withdrawn(Exception):
    """A site that took part refuses to go on."""


class TooFewSites(DataError):
    """Sites refused, and those that are left are too few. By site: why."""

    def __init__(self, lines: Iterable[str], refused: Mapping[str, str]):
        self.lines = tuple(lines)
        super().__init__(" ".join(self.lines))
        self.refused = dict(refused)


class SiteLeft(DataError):
    """Sites were retired or expelled while their study ran."""

    def __init__(self, message: str, sites: Sequence[str]):
        super().__init__(message)
        self.sites = list(sites)


def check_members(folder: FederationFolder, sites: Iterable[str]) -> None:
    """Raises where one of these is not in the federation any more: a study is for all its sites or
    for none, so nobody waits for who does not come."""
    gone = sorted(set(sites) - set(folder.invited()))
    if not gone:
        return
    left = departure_of(folder, gone[0])
    names, how = sentence_list(gone), left.how if left else "retired"
    was = f"the site {names} was {how}" if len(gone) == 1 else f"the sites {names} were {how}"
    raise SiteLeft(
        f"{was} while the study ran, so the study stops without a result. A study has a result "
        f"only if all its sites answer. {after_departure(folder, gone)}",
        gone,
    )


def left_over(sites: Iterable[str]) -> str:
    names = sorted(sites)
    told = f"only {' and '.join(names)} can take part" if names else "no site can take part"
    return f"a sum needs at least {FEWEST} sites, and {told}"


def next_step(refused: Mapping[str, str], job: str = "", again: str = "") -> str:
    """What the person at the coordinator can do now, and whom to call. `again`: the command that
    starts the study again; where people read this, others were named before."""
    if column := lacked_by(refused):
        names = sentence_list(sorted(refused))
        return (
            f"Next: check the name {column} in the job file, because {names} "
            "have no column of this name. Then start the study again with the corrected job file. "
            "If the name is right, ask the people at these sites to add the column."
        )
    ruled = any(kind_of(reason) == "rules" for reason in refused.values())
    denied = (
        "If a person there denied the request, a person there can still approve it, with: feddcd "
        f"federation approve SITE_DIR {job or 'ID'}. "
    )
    return (
        f"Next: ask the people at {sentence_list(sorted(refused))} for the reason. At a site, "
        "this command shows the reason: feddcd federation outgoing SITE_DIR --log. "
        f"{denied if ruled else ''}"
        f"Then start the study again{': ' * bool(again)}{again}."
    )


def too_few(
    why: str,
    refused: Mapping[str, str],
    more: str = "",
    job: str = "",
    head: str = "there is no table",
    again: str = "",
) -> TooFewSites:
    """For the person at the coordinator: what happened, who refused, and what can be done now."""
    said = _each(refused)
    parts = (f"Refused: {said}.", next_step(refused, job, again)) if said else ()
    told = filter(None, (f"{head}: {why}.", *parts, more))
    return TooFewSites(told, refused)


def _each(refused: Mapping[str, str]) -> str:
    """Sites with the same reason have it once."""
    sites = dict[str, list[str]]()
    for site in sorted(refused):
        sites.setdefault(refused[site].removeprefix(f"{site}: "), []).append(site)
    return "; ".join(
        refused[of[0]] if len(of) == 1 else f"{sentence_list(of)} (each: {why})"
        for why, of in sites.items()
    )


def broken_off(
    left: Sequence[str],
    refused: Mapping[str, str],
    plan: Any = None,
    job: str = "",
    lone: str = "",
    again: str = "",
) -> TooFewSites:
    """Sites of a job refused, and these are left. Why is not known here: what can be said of it
    is the same for all reasons, but for levels that exist at one site (`lone`)."""
    why, more = (left_over(left), "") if len(left) < FEWEST else (BEGUN, GO_ON)
    ruled = any(kind_of(reason) == "rules" for reason in refused.values())
    skewed = SKEWED if ruled and getattr(plan, "analysis", "") == "describe" else ""
    if lone and all(AT_ONE_SITE in reason for reason in refused.values()):
        told = (f"there is no table: {why}.", f"Refused: {_each(refused)}.", lone, SAME_WORDS, more)
        return TooFewSites(filter(None, told), refused)
    more = " ".join(filter(None, (skewed, more)))
    return too_few(why, refused, more, job, again=again)


def end_of(folder: FederationFolder, error: FeddcdError) -> StudyEnd:
    """As sites may hear it: by whom and of which kind, and no reason in words."""
    study = folder.study or ALONE
    if isinstance(error, TooFewSites):
        return StudyEnd(
            study, "refused", {site: kind_of(why) for site, why in error.refused.items()}
        )
    if isinstance(error, SiteLeft):
        return StudyEnd(study, "left", dict.fromkeys(error.sites, ""))
    if isinstance(error, Cancelled):
        return StudyEnd(study, "cancelled", {})
    if isinstance(error, Stalled):
        return StudyEnd(study, "late", dict.fromkeys(error.sites, ""))
    return StudyEnd(study, "sums" if isinstance(error, DataError) else "stopped", {})


def tell_end(folder: FederationFolder, nodes: Nodes, ended: StudyEnd, sites: Iterable[str]) -> None:
    """To those who are here; the others are remembered."""
    sites = sorted(sites)
    heard = nodes.tell(_message(ended), sites, SAY_S) if sites else set()
    remember(folder, ended, [site for site in sites if site not in heard])


def remember(folder: FederationFolder, ended: StudyEnd, sites: Iterable[str]) -> None:
    """For those who have not heard of it."""
    wish = {"ended": ended._asdict(), "sites": list(sites)}
    _save(folder, _unheard(folder) | {ended.study: wish})


def tell_done(folder: FederationFolder, nodes: Nodes) -> None:
    """To all: those without whom there is a result, and those who forget their keys for it."""
    tell_end(folder, nodes, StudyEnd(folder.study or ALONE, "done", {}), folder.invited())


def tell_earlier(folder: FederationFolder, nodes: Nodes) -> None:
    """What sites did not hear of earlier studies. The one that begins now has not ended."""
    held = _unheard(folder)
    left = {study: wish for study, wish in held.items() if study != (folder.study or ALONE)}
    for wish in left.values():
        ended = read_ended(wish["ended"])
        here = sorted(set(wish["sites"]) & nodes.here())
        if ended is not None and here:
            heard = nodes.tell(_message(ended), here, SAY_S)
            wish["sites"] = [site for site in wish["sites"] if site not in heard]
    if held:
        _save(folder, left)


def _message(ended: StudyEnd) -> bytes:
    return wire.pack_message(Envelope("ended", ended._asdict(), {}))


def _unheard(folder: FederationFolder) -> dict[str, Any]:
    data = Disk().read(folder.server / FILE, MOST_BYTES)
    try:
        return {} if data is None else dict(json.loads(data))
    except (ValueError, TypeError):
        return {}


def _save(folder: FederationFolder, held: Mapping[str, Any]) -> None:
    invited = set(folder.invited())
    kept = {
        study: wish | {"sites": sites}
        for study, wish in held.items()
        if (sites := [site for site in wish["sites"] if site in invited])
    }
    if kept or (folder.server / FILE).exists():
        folder.save(folder.server / FILE, kept)
