"""A site's part of an analysis: the names and levels of its columns, then blocks of its rows."""

import json
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Any, TypeVar

from ..._errors import DataError, FeddcdError
from ...analysis.protocol import Agreement, ColumnsOffer, Misfit, Offered, SiteRows, arrays
from ...analysis.registry import ANALYSES, read_plan
from ...data.capping import cappings
from ...data.codebook import FILE as CODEBOOK
from ...data.conform import CodebookError, caps_of
from ...data.frames import Frame
from ..wire import Envelope
from ._again import check_joint, check_steep
from ._disclosure import Outgoing, Release
from ._earlier import answered_before, earlier_jobs, keep_question
from ._foreseen import foreseen, refused_with
from ._identity import known_rows
from ._job_parts import check_size, digest_of
from ._offers import behind, offer_of, plain_numbers
from ._overlaps import as_told
from ._own_table import (
    SiteTable,
    as_agreed,
    book_of,
    errors_told,
    named_table,
    stamps,
    whole_table,
)
from ._persons import person_notes
from ._rare import Numbers, check_rare, numbers_of, warnings
from ._roles import own_codebook
from ._sets import if_denied, if_names_denied
from ._whose import question_of
from ._words import (
    against,
    describe_job,
    describe_offer,
    describe_plan,
    describe_refused,
    notes,
    only_complete,
    verdict,
)
from .approval import ID_LENGTH, Asker, asks_first, held, require
from .memory import Memory
from .policy import Check, Policy, Ruled, limit
from .rules import (
    JobFacts,
    check_answer,
    check_identifiers,
    check_job,
    check_offer,
    check_plan,
)
from .told import SEE_LOG

Made = TypeVar("Made")
MANY = 2**62  # rows, where none were counted
NAMES = "a request for names and levels of columns"
JOB = "this job"


def columns(
    envelope: Envelope, source: SiteTable, release: Release, check: Check
) -> tuple[Envelope, Outgoing]:
    """The kinds of the columns that the plan names, and their levels."""
    meta = envelope.meta
    check_size(meta["plan"])
    plan = read_plan(meta["plan"])
    analysis, policy, memory = ANALYSES[plan.analysis], release.policy(), memory_of(source)
    table, id = named_table(source, policy, plan), digest_of(plan.to_dict())
    with errors_told(source, table):
        names = list(table.frame.columns)
        entering = analysis.columns(plan, names)
        check_offer(policy, plan, analysis, names, id, memory)
        offered = _without_values(policy, source, table, plan, entering)
    key, n = question_of(meta["plan"]), len(table.frame)
    out = Outgoing("columns", analysis.method, entering, n, 0, {}, {}, 0, {})

    def judged() -> Offered:
        policy.check(out)
        made = _offered(policy, source, plan, entering)
        policy.check(behind(out, made))
        return made

    if offered is None and not asks_first(policy):
        check(out)  # before anything is evaluated
        offered = _offered(policy, source, plan, entering)
    elif offered is None:
        policy.check(out._replace(rows=MANY))  # the site names this reason
        declared = _plan_words(source, plan, entering)
        declared += if_names_denied(policy, key, memory, source.folder)
        shown = lambda found: describe_offer(plan, entering, found, declared)
        asked = release.asked._replace(bound=True)
        offered = held(source.folder, key, NAMES, judged, shown, asked)
    meta = {"client": source.client, **offered.offer._asdict()}
    # whoever sends this asks the rules again, now with the rows behind each name
    return Envelope("columns", meta, {}), behind(out, offered)


def _without_values(
    policy: Policy, source: SiteTable, table: Frame, plan: Any, entering: Sequence[str]
) -> Offered | None:
    """An offer for which no value was looked at; None where there can be none."""
    analysis, own = ANALYSES[plan.analysis], own_codebook(source.folder)
    if own is not None and policy.min_support >= 2:
        offered = offer_of(own, plan, analysis, entering)
    elif not asks_first(policy) or (book := plain_numbers(table, plan, entering)) is None:
        return None
    else:
        try:
            offered = offer_of(book, plan, analysis, entering)
        except FeddcdError:
            return None
    return offered._replace(offer=_declared(offered.offer, plan))


def _offered(policy: Policy, source: SiteTable, plan: Any, entering: Sequence[str]) -> Offered:
    """Of the values; a person decides about it where one is asked."""
    table = whole_table(source, plan)

    def make() -> Offered:
        made = ANALYSES[plan.analysis].offer(as_agreed(source, table, plan, entering).frame, plan)
        return made._replace(offer=_declared(made.offer, plan))

    with errors_told(source, table):
        return _evaluated(policy, source, make)


def sums(
    envelope: Envelope, source: SiteTable, release: Release, check: Check
) -> tuple[Envelope, Outgoing]:
    """What the site answers; cells of few rows are left empty."""
    meta, policy, memory = envelope.meta, release.policy(), memory_of(source)
    plan = read_plan(meta["plan"])
    analysis = ANALYSES[plan.analysis]
    facts = facts_of(source, meta["plan"], meta["agreed"], digest_of(meta["plan"], meta["agreed"]))
    judged = judged_rows(source, policy, facts, memory, release.asked)
    rows = as_told(policy, judged, analysis)
    question = analysis.question(envelope.arrays, rows)
    out = Outgoing(
        question.reveals, analysis.method, rows.columns, rows.n, question.parameters,
        rows.classes, rows.levels, len(meta["agreed"]["sites"]), {},
        complete=only_complete(plan, rows.columns),
    )  # fmt: skip
    check(out)
    check_answer(policy, rows, analysis, question, facts, memory)
    check_steep(policy, rows, question)
    check_joint(policy, rows, question, False, True, earlier_jobs(policy, facts, memory))
    if policy.min_support > 1:
        keep_question(memory, facts.job, rows, question, bins=False)
    may = lambda kind: policy.kinds is None or kind in policy.kinds
    # whoever chooses edges learns a row from two choices, so no bins leave by themselves
    bins = may("bins") and policy.min_support < 2
    least = limit(policy.min_per_level) if bins else rows.n + 1
    blocks = arrays(analysis.answer(rows._replace(least=least, alone=may("model")), question))
    told = rows.dropped if rows.dropped >= policy.min_support else 0  # no small count
    own = {"client": source.client, "dropped": told}
    return Envelope("sums", own, blocks), out._replace(arrays=blocks)


def judged_rows(
    source: SiteTable, policy: Policy, facts: JobFacts, memory: Memory, asked: Asker
) -> SiteRows:
    """The rows of a job, once the rules allow it. Where a person is asked, nothing that depends on
    values is told before."""
    plan = read_plan(json.loads(facts.plan))
    analysis, table = ANALYSES[plan.analysis], named_table(source, policy, plan)
    with errors_told(source, table):
        names = list(table.frame.columns)
        check_plan(policy, plan, analysis, names, facts, memory)
        entering = analysis.columns(plan, names)

    def judge() -> tuple[SiteRows, list[str]]:
        whole = whole_table(source, plan)
        with errors_told(source, whole):
            check_identifiers(policy, plan, whole.frame, entering)
            rows = _evaluated(policy, source, lambda: rows_of(source, facts))
            if policy.rare_values == "refuse" and not memory.jobs()[facts.job].get("passed"):
                check_rare(policy, plan, numbers(rows), refuses)
            known = identified(source, rows, facts, memory)
            return rows, check_job(policy, rows, analysis, known, memory)

    def agreed() -> Any:
        return as_agreed(source, whole_table(source, plan), plan, entering).frame

    def numbers(rows: SiteRows) -> Numbers:
        return numbers_of(rows, facts.agreed, agreed(), whole_table(source, plan).frame)

    refuses = partial(refused_with, policy, analysis, facts, memory)

    def shown(found: tuple[SiteRows, list[str]] | Exception) -> list[str]:
        declared = _plan_words(source, plan, entering)
        declared += answered_before(policy, facts, memory) + if_denied(facts, memory)
        if isinstance(found, Exception):
            return describe_refused(plan, entering, facts.sites) + declared + against(found)
        rows, doubts = found
        warn = policy.rare_values == "warn"
        rare = warnings(policy, plan, numbers(rows), refuses) if warn else []
        persons = person_notes(policy, rows, facts.agreed, agreed())
        tried = foreseen(policy, rows, analysis, facts, memory)
        doubts = [*doubts, *persons, *rare, *tried]
        columns = analysis.columns_of(rows)
        careful = policy.min_support >= 2
        job = describe_job(rows, columns, facts.mode, facts.exchanges, facts.sites, careful)
        return [*verdict(tried), *job, *declared, *notes(doubts)]

    id, asked = facts.job[:ID_LENGTH], asked._replace(bound=True)
    if asks_first(policy):
        return held(source.folder, id, JOB, judge, shown, asked)[0]
    rows, doubts = judge()
    if doubts or policy.approve == "job":
        entry = {"id": id, "shown": shown((rows, doubts))}
        require(source.folder, id, JOB, entry, asked=asked)
    return rows


def _plan_words(source: SiteTable, plan: Any, entering: Sequence[str]) -> list[str]:
    own = (source.folder / CODEBOOK).exists()
    return describe_plan(plan, book_of(source, plan), own, source.how.na, entering)


def _evaluated(policy: Policy, source: SiteTable, make: Callable[[], Made]) -> Made:
    """What cannot be computed here, as log(0), or a level that was not declared, says something of
    a row: so it is not told. Where the site has a codebook, what does not fit it is told: others
    cannot choose what is in it."""
    try:
        return make()
    except DataError as error:
        known = isinstance(error, CodebookError) and (source.folder / CODEBOOK).exists()
        if policy.min_support < 2 or known:
            raise
        story = "; ".join(str(each) for each in (error, error.__cause__) if each)
        raise Ruled("values", story, in_log=_without_value(error)) from None


def _without_value(error: DataError) -> str:
    """For the log of what left: nobody can take a line out of it once a patient withdraws."""
    where = f" of the column {error.column!r}" if error.column else ""
    told = str(error) if isinstance(error, Misfit) else f"a value{where} cannot be used"
    return f"{error.public or told}; {SEE_LOG}"


def memory_of(source: SiteTable) -> Memory:
    return Memory(source.folder, source.data)


def facts_of(source: SiteTable, plan: Any, agreed: Any, job: str, mode: str = "each") -> JobFacts:
    """Of a job in plain values."""
    check_size(plan, agreed)
    read = read_plan(plan)
    most, caps = getattr(read, "max_exchanges", 50), caps_of(book_of(source, read))
    rebuild = lambda plan, agreed, caps: _rows(source, plan, agreed, caps, *stamps(source))
    return JobFacts(
        job, tuple(agreed["sites"]), mode, int(most), json.dumps(plan), json.dumps(agreed),
        caps=json.dumps({name: each.plain() for name, each in caps.items()}), rebuild=rebuild,
    )  # fmt: skip


def rows_of(source: SiteTable, facts: JobFacts) -> SiteRows:
    """The site's rows of a job; what is wrong with them is told as `_guard` has it."""
    return _rows(source, facts.plan, facts.agreed, None, *stamps(source))


def identified(source: SiteTable, rows: SiteRows, facts: JobFacts, memory: Memory) -> JobFacts:
    """With digests of the job's rows, over all columns of the file."""
    ids, file, story = known_rows(source, memory)
    own = ids if rows.places is None else ids[rows.places]
    return facts._replace(identity=own, whole=ids, file=file, story=story)


def _declared(offer: ColumnsOffer, plan: Any) -> ColumnsOffer:
    """Levels that the plan declares are offered as declared: nobody hears which occur here."""
    for column, declared in plan.levels.items():
        other = [level for level in offer.levels.get(column, ()) if level not in declared]
        if other:
            own = DataError(f"{column!r} has the level {other[0]!r}, which the plan does not list")
            told = f"the site's column {column!r} has a level that the plan does not list"
            raise Misfit(told) from own
    entering = [c for c in plan.levels if c in (offer.columns or ())]
    return offer._replace(levels=offer.levels | {c: plan.levels[c] for c in entering})


@lru_cache(maxsize=32)  # one per site, of which `simulate` has all in one process
def _rows(source: SiteTable, plan: str, cohort: str, caps: str | None, *_: int) -> SiteRows:
    """`caps` are those of an earlier job; None: as the codebook has them now."""
    read = read_plan(json.loads(plan))
    held = None if caps is None else cappings(json.loads(caps or "{}"))
    agreed = Agreement(**json.loads(cohort))
    analysis, table = ANALYSES[read.analysis], whole_table(source, read)
    entering = analysis.columns(read, list(table.frame.columns))
    frame = as_agreed(source, table, read, entering, held).frame
    return analysis.rows(frame, read, agreed, source.client)
