"""Earlier jobs on the same data file, as they were answered: who has their answers may hold those
of a new job against them."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..._errors import FeddcdError
from ...analysis.protocol import SiteRows, arrays
from ...analysis.registry import ANALYSES, AskedJob, told_together
from ...durable.codec import pack, unpack
from ._job_file import has_answered
from ._overlaps import as_told, few_apart
from .memory import Memory
from .policy import Policy

NONE = np.zeros(0)


def keep_question(
    memory: Memory, job: str, rows: SiteRows, question: Any, bins: bool = True
) -> None:
    """One that is about to be answered, and whether with `bins`. Of a description it is enough that
    there was one."""
    if not hasattr(rows.plan, "formula"):
        return memory.keep_question(job, pack({}, {}))
    given = arrays(question) | {"own": NONE}
    if not (question.closing or rows.plan.firth):
        given["V"] = NONE
    if not bins:
        given["edges"] = NONE
    memory.keep_question(job, pack({"names": list(rows.names)}, given))


def answered_before(policy: Policy, facts: Any, memory: Memory) -> list[str]:
    """For the person who decides about a job that this site knows, perhaps of another study."""
    if not memory.jobs().get(facts.job, {}).get("questions"):
        return []
    asks = policy.min_support > 1 and facts.mode == "sum" and has_answered(memory.site, facts.job)
    again = " If you approve this job, this site asks you once more before it answers."
    return [f"  this site answered the same job before.{again if asks else ''}"]


def earlier_jobs(policy: Policy, facts: Any, memory: Memory) -> list[AskedJob]:
    """Those of which something was answered, over the rows of today."""
    found = []
    for job, known in memory.jobs().items() if policy.min_support > 1 else ():
        if job == facts.job or facts.rebuild is None or not known.get("plan"):
            continue
        held = memory.questions_of(job)
        try:
            made_of = known["plan"], known["agreed"], known.get("caps", "")
            rows = facts.rebuild(*made_of) if held else None
        except FeddcdError:  # the export of today lacks what it was made of
            continue
        if rows is not None:
            found += _asked(policy, rows, held)
    return found


def _asked(policy: Policy, rows: SiteRows, held: Sequence[bytes]) -> list[AskedJob]:
    """By the columns that the questions were about: some may have been left out on the way."""
    if not hasattr(rows.plan, "formula"):
        return [AskedJob(as_told(policy, rows, ANALYSES[rows.plan.analysis]))]
    analysis = ANALYSES[rows.plan.analysis]
    found: dict[tuple[str, ...], Any] = {}
    for each in held:
        with suppress(FeddcdError, LookupError, ValueError):
            meta, given = unpack(each)
            own = _narrowed(rows, meta["names"])
            asked = found.setdefault(own.names, AskedJob(own, [])).questions
            asked.append(analysis.question(given, own))
    return list(found.values())


def _narrowed(rows: SiteRows, names: Sequence[str]) -> SiteRows:
    at = [rows.names.index(name) for name in names]
    return rows._replace(data=rows.data._replace(X=rows.data.X[:, at]), names=tuple(names))


def groups_before(
    rows: SiteRows, question: Any, k: int, earlier: Sequence[AskedJob]
) -> np.ndarray | None:
    """Where bins of this answer, and bins of an earlier job, would be apart by 1 to k - 1 rows: the
    groups of rows of that job, in place of bins. Who knows those learns no other set of rows."""
    if k < 2 or not earlier:
        return None
    places = lambda rows: np.arange(rows.n) if rows.places is None else rows.places
    now = told_together(AskedJob(rows, [*rows.before, question]), k)
    for job in earlier if now else ():
        at = places(rows), places(job.rows)
        size = 1 + max(int(each.max(initial=-1)) for each in at)
        own, theirs = (
            [_placed(labels, each, size) for labels in made]
            for made, each in zip((now, told_together(job, k)), at, strict=True)
        )
        if any(few_apart(a, b, k) for a in own for b in theirs):
            return theirs[0][at[0]]
    return None


def _placed(labels: np.ndarray, places: np.ndarray, size: int) -> np.ndarray:
    """By row of the site's table; -1 is in none."""
    whole = np.full(size, -1)
    whole[places] = labels
    return whole
