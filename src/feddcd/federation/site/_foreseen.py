"""What a person should know before agreeing: which question of a job the rules would refuse.

The first question follows from the plan and from what the sites agreed on, so a refusal of it is
certain. Dominance, steps and changes depend on the points that are asked for later, and these on
all sites' sums. So the job is tried on this site's rows alone, and a refusal of a later question is
only a risk. What is found is shown to the person, and to nobody else.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..._errors import FeddcdError
from ...analysis.protocol import Agreement, Analysis, SiteRows
from ...analysis.registry import AskedJob
from ...analysis.replay import Replay
from ...data.capping import Capping
from ._again import check_changes, check_joint, check_steep
from ._earlier import earlier_jobs
from ._overlaps import as_told
from .log_words import COULD_REFUSE, WOULD_END
from .memory import Memory
from .policy import Policy, Ruled
from .rules import JobFacts, check_answer, check_columns, earlier_columns, hides_cells

MOST_WORK = 200_000_000  # rows times pairs of columns: above, the first question is enough
MOST_QUESTIONS = 12
TRIED = "feddcd tried this job with the rows of this site alone"
OF_ALL = (
    "After question 1, all questions of the real job depend on the sums of all sites, which this "
    f"site does not know yet. So {COULD_REFUSE}"
)
LATER = (
    f"{OF_ALL}, for example if few rows give most of a sum (rule 'dominance'). Then the job ends, "
    "and the log of this site says why"
)
PASSED = f"{TRIED}, and the rules refused no question. {LATER}"
PART = (
    "feddcd could try only a part of this job with the rows of this site alone, and the rules "
    f"refused no question of this part. {LATER}"
)
RISK = (
    f"{OF_ALL}, or accept all questions.\nYou can approve. If the rules then refuse a question, "
    "this site sends no sums for this question. Then the job ends without a result, and the log of "
    "this site says why"
)


def foreseen(
    policy: Policy, rows: SiteRows, analysis: Analysis, facts: JobFacts, memory: Memory
) -> list[str]:
    """In words for a person; nothing where the rules on rows are off."""
    if policy.min_support < 2:
        return []
    try:
        earlier = earlier_jobs(policy, facts, memory)
        return [_tried(policy, as_told(policy, rows, analysis), analysis, facts, earlier)]
    except (FeddcdError, ArithmeticError, ValueError, LookupError, np.linalg.LinAlgError):
        return [PART]  # of these rows alone there is no table


def refused_with(
    policy: Policy,
    analysis: Analysis,
    facts: JobFacts,
    memory: Memory,
    caps: Mapping[str, Capping],
) -> str:
    """Which rule would or could refuse the job if the codebook had these caps, too; nothing if none
    does, as far as this site can know. Nothing is remembered of it."""
    if facts.rebuild is None:
        return ""
    held = json.loads(facts.caps or "{}") | {name: each.plain() for name, each in caps.items()}
    try:
        rows = facts.rebuild(facts.plan, facts.agreed, json.dumps(held))
        known = earlier_columns(facts, memory.jobs().get(facts.job, {}).get("set"), memory)
        columns = dict(analysis.columns_of(rows))
        check_columns(columns, known, rows.n, policy, facts.mode, rows.plan, rows.levels)
        earlier = earlier_jobs(policy, facts, memory)
        told = _tried(policy, as_told(policy, rows, analysis), analysis, facts, earlier)
        return "" if told in (PASSED, PART) else told
    except Ruled as error:
        return f"rule {error.rule!r}: {error.story}"
    except (FeddcdError, ArithmeticError, ValueError, LookupError, np.linalg.LinAlgError):
        return ""


def _tried(
    policy: Policy,
    rows: SiteRows,
    analysis: Analysis,
    facts: JobFacts,
    earlier: Sequence[AskedJob],
) -> str:
    agreed = Agreement(**json.loads(facts.agreed))
    replay, before = Replay(analysis, rows.plan, agreed, elsewhere=False), []
    large = rows.n * len(rows.names or rows.columns) ** 2 > MOST_WORK
    for number in range(1, 2 if large else MOST_QUESTIONS):
        if (asked := replay.expected) is None:
            return PASSED
        if replay.begun > 1:  # without a column
            break
        if why := _refused(policy, rows, analysis, asked, facts, before, earlier):
            return _told(number, why)
        before.append(asked)
        replay.step(analysis.answer(rows._replace(least=0, alone=False), asked))
    return PART


def _told(number: int, why: str) -> str:
    if number == 1:
        return f"{TRIED}. The rules would refuse question 1, {WOULD_END}. The reason is the {why}"
    refused = f"{TRIED}. In this trial, the rules refused question {number}"
    return f"{refused}. The reason is the {why.rstrip('.')}.\n{RISK}"


def _refused(
    policy: Policy,
    rows: SiteRows,
    analysis: Analysis,
    asked: Any,
    facts: JobFacts,
    before: list[Any],
    earlier: Sequence[AskedJob],
) -> str:
    try:
        check_answer(policy, rows, analysis, asked, facts)
        check_steep(policy, rows, asked)
        known = rows._replace(k=policy.min_support, before=tuple(before))
        if facts.mode == "sum":
            check_changes(policy, known, asked)
        free = facts.mode != "sum"
        check_joint(policy, known, asked, hides_cells(policy, facts.mode), free, earlier)
    except Ruled as error:
        return f"rule {error.rule!r}: {error.story}"
    return ""
