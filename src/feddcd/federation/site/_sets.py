"""Sets of rows of several jobs: what their sums reveal together."""

import math
from fractions import Fraction
from typing import Any

from ..._text import plural
from .memory import Memory, difference, smallest_atom
from .policy import Policy, Ruled


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
        told = f"{some} in some jobs and not in others. This number must be 0 or at least {least}"
        remedy = "Write all columns of the study under complete in the plan of every job"
        raise Ruled("sets", f"{told}. {remedy}, so that all jobs have the same rows")


def least_apart(policy: Policy, parameters: int) -> int:
    """By how many rows two jobs with these parameters differ, if they differ."""
    k, most = policy.min_support, policy.max_parameters_per_row
    return k if math.isinf(most) else max(k, math.ceil(parameters / Fraction(repr(most))))


def doubts_of(k: int, facts: Any, id: str | None, memory: Memory) -> list[str]:
    """What only a person can judge, whatever `approve` says."""
    if id is None or k < 2:
        return []
    found, own, retired = _other_file(facts, memory), memory.rows_of(id), memory.retired()
    for job, known in memory.jobs().items():
        if job == facts.job or not known["set"]:
            continue
        if known["set"] == id and set(known["cohort"]) != set(facts.sites):
            other = sorted(set(known["cohort"]) ^ set(facts.sites))
            found.append(
                "an earlier job summed the same rows with other sites; only one of the two jobs "
                f"has these sites: {other}"
            )
        elif known["set"] in retired - {id} and difference(own, memory.rows_of(known["set"])) < k:
            told = (
                "this job and an earlier job, from before a withdrawal of consent, differ by fewer "
                f"than {k} rows"
            )
            found.append(f"{told}; a person with both results may learn about these rows")
    return list(dict.fromkeys(found))


def _other_file(facts: Any, memory: Memory) -> list[str]:
    """Until a person has let one job run on the file of today."""
    others = [job for name, job in memory.jobs().items() if name != facts.job and job["set"]]
    before = [job for job in others if job.get("file", facts.file) != facts.file]
    if not before or any(job.get("file") == facts.file and job["questions"] for job in others):
        return []
    told = f"the data file changed after the last job ({facts.story})"
    return [f"{told}; a person with both results may learn about the rows that changed"]
