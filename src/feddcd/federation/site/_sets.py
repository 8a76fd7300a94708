"""Sets of rows of several jobs: what their sums reveal together."""

import math
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from ..._errors import FeddcdError
from ..._text import plural, sentence_list
from ...sums.roster import FEWEST
from ..roster import load_roster
from .approval import SHORT
from .log_words import AFTER_DENIAL, STILL, TOO_FEW
from .memory import Memory, difference, smallest_atom
from .policy import Policy, Ruled

UNTOLD = "feddcd does not tell the other sites that rows were withdrawn here"
FEW = (
    f"    If you deny, the study ends, because {TOO_FEW}. But somebody can start the study again "
    f"{STILL}."
)
BOTH = "The coordinator and everyone at the sites that take part in both jobs"


def check_sets(policy: Policy, facts: Any, parameters: int, id: str | None, memory: Memory) -> None:
    """Rows that are in some sets and not in others are many: sums over sets, added and taken from
    each other, are sums over such a group, and from enough sums its rows can be computed."""
    if id is None or policy.min_support < 2:
        return
    known = [job for job in memory.jobs().values() if job["set"] not in {None, *memory.retired()}]
    sets = {job["set"] for job in known} | {id}
    if len(sets) < 2:
        return
    parameters = max([parameters, *(job.get("parameters", 0) for job in known)])
    least = least_apart(policy, parameters)
    if (rows := smallest_atom([memory.rows_of(each) for each in sorted(sets)])) < least:
        some = f"{plural(rows, 'row')} {'is' if rows == 1 else 'are'}"
        told = (
            f"only {some} in some jobs and not in others. There must be at least {least} such "
            "rows, or none"
        )
        remedy = "In the plan of every job, write all columns of the study under 'complete'"
        raise Ruled("sets", f"{told}. {remedy}: then all jobs have the same rows")


def least_apart(policy: Policy, parameters: int) -> int:
    """By how many rows two jobs with these parameters differ, if they differ."""
    k, most = policy.min_support, policy.max_parameters_per_row
    return k if math.isinf(most) else max(k, math.ceil(parameters / Fraction(repr(most))))


def doubts_of(policy: Policy, facts: Any, id: str | None, memory: Memory) -> list[str]:
    """What only a person can judge, whatever `approve` says."""
    if id is None or policy.min_support < 2:
        return []
    return [*_other_file(facts, memory), *told_by_both(policy, facts, id, memory)]


def told_by_both(policy: Policy, facts: Any, id: str, memory: Memory) -> list[str]:
    """What the sums of this job and of an earlier job reveal together, of a site or of few rows."""
    found, own, retired = [], memory.rows_of(id), memory.retired()
    parameters, close = memory.jobs()[facts.job].get("parameters", 0), list[int]()
    for job, known in memory.jobs().items():
        if job == facts.job or not known["set"]:
            continue
        if known["set"] == id and set(known["cohort"]) != set(facts.sites):
            found.append(_of_sites(known["cohort"], facts.sites, bool(known["questions"])))
        elif known["set"] in retired - {id}:
            both = max(parameters, known.get("parameters", 0))
            rows = difference(own, memory.rows_of(known["set"]))
            close += [both] if rows < least_apart(policy, both) else []
    found += [_of_withdrawn(policy, max(close), facts.job)] if close else []
    return list(dict.fromkeys(found))


def _of_sites(before: Sequence[str], now: Sequence[str], answered: bool) -> str:
    gone, new = sorted({*before} - {*now}), sorted({*now} - {*before})
    apart = sorted([*gone, *new])
    told = (
        "an earlier job used the same rows with another list of sites: "
        f"{_named(apart)} {'is' if len(apart) == 1 else 'are'} in only one of the two jobs"
    )
    if not answered:
        return f"{told}. For the earlier job, this site sent nothing, or only its number of rows."
    alone = "alone" if len(gone + new) == 1 else "together, without the other sites"
    what = f"the sums of {_named(gone or new)} {alone}"
    if gone and new:
        what = f"the sums of {_named(gone)} minus the sums of {_named(new)}"
    return (
        f"{told}.\n{BOTH} can calculate {what}: they subtract the sums of the two jobs.\n"
        f"Deny this job, unless {_named([*gone, *new])} agreed to reveal this."
    )


def _named(sites: Sequence[str]) -> str:
    return f"the site{'s' * (len(sites) > 1)} {sentence_list(list(map(repr, sites)))}"


def _of_withdrawn(policy: Policy, parameters: int, job: str) -> str:
    least = least_apart(policy, parameters)
    return (
        "rows were withdrawn at this site after an earlier job. This job and the earlier job "
        f"differ by fewer than {least} rows.\n{BOTH} can calculate the sums of these rows alone. "
        f"The sums of a single row are its values.\nDeny this job until at least {least} "
        f"rows have changed ({_demand(policy, parameters)}). Withdrawn rows count, too.\n"
        f"{UNTOLD}. Before you deny, {call(job)}"
    )


def call(job: str, ends: bool = False) -> str:
    """How a person at this site warns the others, who do not know what is known here. `ends`: a
    denial ends this job, so the others need not deny it."""
    this = f"this job, too (its ID is {job[:SHORT]}). Ask them also to deny "
    return (
        f"call the people at the other sites. Ask them to deny {'' if ends else this}every later "
        "job without this site on the same rows."
    )


def _demand(policy: Policy, parameters: int) -> str:
    """Why rows that differ have to be so many."""
    most = f"max_parameters_per_row = {policy.max_parameters_per_row}"
    if least_apart(policy, parameters) <= policy.min_support:
        return f"rule 7 demands this number of rows: min_support = {policy.min_support}"
    return f"rule 7 demands this for {plural(parameters, 'parameter')}: {most}"


def needed_after_withdrawal(policy: Policy, memory: Memory) -> tuple[int, str]:
    """How many rows have to change before an earlier job is repeated, and why so many."""
    used = max((job.get("parameters", 0) for job in memory.jobs().values()), default=0)
    return least_apart(policy, used), _demand(policy, used)


def if_denied(facts: Any, memory: Memory) -> list[str]:
    """What a denial can reveal, after a job with this site on rows of the same file, be it this
    very job: the others may then run this one without it."""
    jobs = memory.jobs()
    own = jobs.get(facts.job, {}).get("set")  # None where a rule refused
    before = [
        job for job in jobs.values() if job["questions"] and {*job["cohort"]} <= {*facts.sites}
    ]
    if facts.mode != "sum" or not before:
        return []
    same = own is not None and any(job["set"] == own for job in before)
    return _risk(facts.job, same, own is None, len(facts.sites) <= FEWEST)


def if_names_denied(policy: Policy, question: str, memory: Memory, folder: Path) -> list[str]:
    """The same, where names and levels are asked for before a job."""
    careful = policy.min_support > 1 and policy.answers == "sum"
    answered = any(job["questions"] for job in memory.jobs().values())
    few = _listed(folder) <= FEWEST
    return _risk(question, False, False, few) if careful and answered else []


def _listed(folder: Path) -> float:
    try:
        return len(load_roster(folder).names)
    except FeddcdError:  # a trial without sums has no list
        return math.inf


def _risk(id: str, same: bool, refused: bool, fewest: bool = False) -> list[str]:
    """`same`: the rows are those of an earlier job. But what counts are the rows of the others, of
    which nothing is known here; so there is a risk without it, too. `fewest`: no site can be
    missing from a sum."""
    where = "on the same rows" if same else "on this data file"
    others = "" if same else ", and use the same rows as in the earlier job"
    ruled = (
        "    This site refuses this job even if you approve. The refusal has the same risk as "
        "a denial."
    )
    return [
        f"  {AFTER_DENIAL} {where}. If the other sites now run this job without this site{others}, "
        "they and the coordinator can calculate the sums of this site alone"
        + ("." if same else ", over its rows in the earlier job."),
        *([FEW] if fewest else []),
        *([ruled] if refused else []),
        f"    {'So before' if fewest else 'Before'} you {'decide' if refused else 'deny'}, "
        + call(id, fewest),
    ]


def _other_file(facts: Any, memory: Memory) -> list[str]:
    """Until a person has let one job run on the file of today."""
    others = [job for name, job in memory.jobs().items() if name != facts.job and job["set"]]
    before = [job for job in others if job.get("file", facts.file) != facts.file]
    if not before or any(job.get("file") == facts.file and job["questions"] for job in others):
        return []
    told = f"the data file changed after the last job: {facts.story}"
    return [
        f"{told}. A person with the results of that job and of this job may learn something "
        "about the rows that changed"
    ]
