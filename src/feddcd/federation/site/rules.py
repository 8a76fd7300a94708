"""What a site checks of a job before anything, and of every answer: in this order.

    check_plan     before a row is looked at: what may be told by name, and the budget
    check_job      on the finished columns: support, cells, sets of rows, cohorts
    check_counts   where answers are summed: rows and support of the whole cohort
    check_answer   of every question: dominance, and how many there were

What depends on the rows raises `Ruled`, which tells others nothing but that it was refused.
"""

import hashlib
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from ..._errors import FeddcdError, Refused
from ..._text import plural
from ...analysis.protocol import Analysis, SiteRows, arrays
from ...analysis.registry import ANALYSES, numbers_expected, numbers_told
from ...data.draft import is_identifier
from . import _columns as numbers
from ._clusters import check_by_site, check_clusters
from ._identity import changed_since as changed_since
from ._identity import unchanged_since as unchanged_since
from ._ledger import budget_lines as budget_lines
from ._ledger import check_release, check_room
from ._named_cells import cells_cure, is_of_levels, small_cells_told
from ._overlaps import check_told
from ._roles import check_alone, check_named, check_roles, is_read_alone
from ._sets import check_sets, doubts_of
from ._sets import needed_after_withdrawal as needed_after_withdrawal
from .approval import check_running
from .memory import Memory
from .policy import Policy, Ruled, not_allowed

MOST_PER_ROW = "max_parameters_per_row"
OF_CELLS = ("times the outcome", "of two categories")  # counts of cells, of categories


class JobFacts(NamedTuple):
    """What is known of a job beside its plan."""

    job: str  # a digest of plan, agreement, sites and mode
    sites: tuple[str, ...]
    mode: str = "each"
    exchanges: int = 50  # at most
    plan: str = ""  # as JSON, to be remembered
    agreed: str = ""
    identity: np.ndarray | None = None  # salted digests of its rows, and of all in the file
    whole: np.ndarray | None = None
    file: str = ""  # a digest of the data file, and what became of the one before
    story: str = ""
    caps: str = ""  # that the codebook has now, as JSON: an earlier job may have had others
    rebuild: Callable[..., SiteRows] | None = None  # of an earlier plan, its agreement and caps


def check_plan(
    policy: Policy,
    plan: Any,
    analysis: Analysis,
    names: Sequence[str],
    facts: JobFacts,
    memory: Memory,
) -> None:
    """`names` are those of the site's columns. No value is looked at, so refusals are by name."""
    check_running(memory.site)
    entering = analysis.columns(plan, names)
    if policy.methods is not None and analysis.method not in policy.methods:
        named = f"methods = {list(policy.methods)}"
        raise not_allowed(f"the method {analysis.method[:50]!r}", named)
    check_named(policy, plan, analysis, names)
    check_alone(policy, facts.mode == "each")
    if len(facts.sites) < policy.min_sites:
        told = f"a sum over only {plural(len(facts.sites), 'site')}"
        raise not_allowed(told, f"min_sites = {policy.min_sites}")
    check_roles(policy, plan, entering, memory)
    check_by_site(policy, plan)
    _check_budget(policy, facts, memory)
    memory.begin(facts.job)


def check_offer(
    policy: Policy, plan: Any, analysis: Analysis, names: Sequence[str], id: str, memory: Memory
) -> None:
    """Before names and levels of columns leave; `id` is a digest of the plan."""
    check_running(memory.site)
    entering = analysis.columns(plan, names)
    check_alone(policy, is_read_alone(plan))
    check_named(policy, plan, analysis, names)
    check_roles(policy, plan, entering, memory)
    most = policy.max_jobs_per_month
    if most and id not in memory.offers() and memory.offered() >= most:
        told = f"more than {plural(most, 'plan')} with questions about columns in a month"
        raise not_allowed(told, f"max_jobs_per_month = {most}")
    memory.begin_offer(id)


def _check_budget(policy: Policy, facts: JobFacts, memory: Memory) -> None:
    if facts.job in memory.jobs():
        return
    most = policy.max_jobs_per_month
    if most and memory.lately() >= most:
        told = f"more than {plural(most, 'job')} in a month"
        raise not_allowed(told, f"max_jobs_per_month = {most}")


def check_job(
    policy: Policy, rows: SiteRows, analysis: Analysis, facts: JobFacts, memory: Memory
) -> list[str]:
    """`check_plan` was before. Passes again, and at once, for a job that has passed. What only a
    person can judge is given back."""
    known = memory.jobs().get(facts.job)
    if known is None:
        raise Refused("this job has not begun at this site")
    id = None if facts.identity is None else memory.keep(facts.identity)
    if known["set"] is not None and (known["set"], known.get("file")) != (id, facts.file):
        raise Ruled("frozen", "the rows of this job changed after the job began; start a new job")
    if memory.answered_from(facts.job) - {facts.file}:
        told = "site.toml names another data file than when this job began; start a new job"
        raise Ruled("frozen", told)
    columns, k = dict(analysis.columns_of(rows)), policy.min_support
    parameters = parameters_of(columns)
    if known["set"] is None or not known.get("passed"):
        _check_parameters(policy, parameters, rows.n, facts.mode)
        check_release(policy, parameters, memory)
        check_room(policy, rows.n, rows.columns, numbers_expected(rows, k), memory)
        earlier = earlier_columns(facts, id, memory) if k > 1 else {}
        check_columns(columns, earlier, rows.n, policy, facts.mode, rows.plan, rows.levels)
        check_sets(policy, facts, parameters, id, memory)
        check_clusters(policy, rows, facts, parameters, id, memory)
        hidden = hides_cells(policy, facts.mode)
        described = check_told(policy, rows, analysis, facts, hidden, memory)
        whole = None if facts.whole is None else memory.keep(facts.whole)
        what = {"set": id, "cohort": list(facts.sites), "parameters": parameters, "whole": whole}
        what |= {"file": facts.file, "columns": list(rows.columns)} | described
        made_of = {"plan": facts.plan, "agreed": facts.agreed, "caps": facts.caps}
        memory.note(facts.job, **what, **made_of, passed=True)
    return doubts_of(policy, facts, id, memory)


def parameters_of(columns: Mapping[str, Any]) -> int:
    """Of a model: its columns, for each class but the first where there are several."""
    outcomes = sum(name.startswith("(outcome)") for name in columns)
    return sum(not name.startswith("(") for name in columns) * max(outcomes, 1)


def check_identifiers(policy: Policy, plan: Any, frame: Any, entering: Sequence[str]) -> None:
    """Columns that identify people, although nobody declared them."""
    if policy.min_support < 2:
        return
    for name in entering:
        if name != getattr(plan, "cluster", None):
            values = frame[name].dropna().tolist()
            if is_identifier(name, values):
                told = f"the column {name!r} can identify a person"
                raise Ruled("identifiers", f"{told}, because each row has a different value")


def check_columns(
    columns: Mapping[str, np.ndarray],
    earlier: Mapping[str, np.ndarray],
    n: int,
    policy: Policy,
    mode: str,
    plan: Any = None,
    levels: Mapping[str, Mapping[str, int]] = {},
) -> None:
    """The finished columns of a job, and what they reveal together with those of earlier jobs."""
    k = policy.min_support
    if n < k:
        told = f"the job has {plural(n, 'row')} at this site, but this site requires at least {k}"
        raise Ruled("min_support", told)
    if k < 2:
        return
    for name, column in columns.items():
        if numbers.unsupported(column, k):
            why = f"in the column {name!r}, fewer than {k} rows differ from the most frequent value"
            raise Ruled("support", f"{why}. {numbers.advice(plan, name, column)}")
        if numbers.lonely(column, k, policy.max_share):
            told = f"in the column {name!r}, {numbers.rare(column, k, policy.max_share)}"
            told = f"{told} (max_share = {policy.max_share})"
            raise Ruled("dominance", f"{told}. {numbers.advice(plan, name, column)}{numbers.SHARE}")
    few = small_cells_told(columns, earlier, k, levels)
    for cell in () if hides_cells(policy, mode) else few:
        raise Ruled("cells", f"fewer than {k} rows have {cell}. {cells_cure(mode)}")
    for one, other in numbers.nearly_alike(columns, earlier, k):
        told = f"fewer than {k} rows cause most of the difference between {one!r} and {other!r}"
        raise Ruled("alike", told if one else "too many columns are similar to each other")
    why, name = numbers.singled_out(columns, earlier, k, mode, policy.max_leverage)
    if why:
        remedy = numbers.remedy(plan, name, "") if name else ""
        raise Ruled("combinations", ". ".join(filter(None, (why, remedy))))


def hides_cells(policy: Policy, mode: str) -> bool:
    """Whether small cells may enter a sum over sites, which shows only those of all together."""
    return mode == "sum" and policy.small_cells == "sum"


def earlier_columns(facts: JobFacts, id: str | None, memory: Memory) -> dict[str, np.ndarray]:
    """The columns of earlier jobs over the same rows, be they of another analysis."""
    found: dict[str, np.ndarray] = {}
    if facts.rebuild is None or id is None:
        return found
    for job, known in memory.jobs().items():
        if job != facts.job and known["set"] == id and known.get("plan"):
            try:
                again = facts.rebuild(known["plan"], known["agreed"], known.get("caps", ""))
            except FeddcdError:  # the export of today lacks what it was made of
                continue
            own = ANALYSES[again.plan.analysis].columns_of(again)
            found |= {f"{name} of an earlier job ({job[:8]})": x for name, x in own.items()}
    return found


def _check_parameters(policy: Policy, parameters: int, n: int, mode: str) -> None:
    most = policy.max_parameters_per_row
    if mode == "sum" or math.isinf(most):
        return
    if n < math.ceil(parameters / Fraction(repr(most))):
        told = f"{parameters} parameters are too many for {n} rows ({MOST_PER_ROW} = {most})"
        raise Ruled(MOST_PER_ROW, told)


def first_counts(rows: SiteRows, analysis: Analysis) -> dict[str, np.ndarray]:
    """What a site adds to the first exchange of sums: its rows, and 1 by column that varies."""
    columns = analysis.columns_of(rows)
    varies = [float(np.any(x != x[0])) for name, x in columns.items() if not name.startswith("(")]
    return {"n": np.array([float(rows.n)]), "support": np.array(varies)}


def check_counts(
    policy: Policy, rows: SiteRows, analysis: Analysis, sums: Mapping[str, np.ndarray]
) -> None:
    """With the sums of these counts, which all can read: so refusals are by name."""
    columns = analysis.columns_of(rows)
    names = [name for name in columns if not name.startswith("(")]
    most, n = policy.max_parameters_per_row, float(np.ravel(sums["n"])[0])
    parameters = parameters_of(columns)
    if not math.isinf(most) and n < math.ceil(parameters / Fraction(repr(most))):
        told = f"{plural(parameters, 'parameter')} from a sum over {plural(int(n), 'row')}"
        raise not_allowed(told, f"max_parameters_per_row = {most}")
    for name, sites in zip(names, np.ravel(sums["support"]), strict=True):
        if 0 < sites < policy.min_sites:
            told = f"the column {name[:80]!r}, because its values differ at only"
            told = f"{told} {plural(int(sites), 'site')}"
            raise not_allowed(told, f"min_sites = {policy.min_sites}")


def check_answer(
    policy: Policy,
    rows: SiteRows,
    analysis: Analysis,
    question: Any,
    facts: JobFacts | None = None,
    memory: Memory | None = None,
) -> None:
    """Of any question, whoever chose its point."""
    if facts is not None and memory is not None:
        _check_number(policy, rows, question, facts, memory)
    k = policy.min_support
    if k < 2:
        return
    if not analysis.definite(question):
        raise Refused("the question has a matrix that is not positive definite")
    hidden = facts is not None and hides_cells(policy, facts.mode)
    for what, parts in analysis.contributions(rows, question):
        if hidden and what.endswith(OF_CELLS):
            continue
        wrong = np.flatnonzero(numbers.dominated(parts, k, policy.max_share))
        if wrong.size:
            which = numbers.entry_of(what, rows.names, question, parts.shape[1], int(wrong[0]))
            told = numbers.domination(parts[:, int(wrong[0])], k, policy.max_share, which)
            column = next((name for name in rows.columns if what.endswith(f" of {name}")), "")
            told = f"{told} (max_share = {policy.max_share})"
            other = numbers.OF_LEVELS if is_of_levels(rows, which) else numbers.REMEDY
            cure = numbers.remedy(rows.plan, column, other)
            raise Ruled("dominance", f"{told}. {cure}{numbers.SHARE}")


def _check_number(
    policy: Policy, rows: SiteRows, question: Any, facts: JobFacts, memory: Memory
) -> None:
    """The number of different questions, and of all numbers; a repeated question counts once."""
    total, limit = hashlib.sha256(), policy.max_exchanges or math.inf
    for name, array in sorted(arrays(question).items()):
        total.update(name.encode() + repr(array.shape).encode() + np.ascontiguousarray(array).data)
    asked, id = memory.jobs()[facts.job]["questions"], total.hexdigest()[:16]
    if id not in asked and len(asked) >= min(limit, facts.exchanges):
        raise not_allowed(
            f"more than {min(limit, facts.exchanges)} questions in one job "
            "(max_exchanges in policy.toml or in the plan)"
        )
    numbers = numbers_told(rows, question)
    if id not in asked:
        check_room(policy, rows.n, rows.columns, numbers, memory)
    memory.ask(facts.job, id, numbers)
