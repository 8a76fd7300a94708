"""A site's part of an analysis: the names and levels of its columns, then blocks of its rows."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

from ..._errors import DataError, FeddcdError, Refused
from ..._files import stamp
from ...analysis.protocol import Agreement, Analysis, ColumnsOffer, Misfit, SiteRows, arrays
from ...analysis.registry import ANALYSES, read_plan
from ...data.codebook import FILE as CODEBOOK
from ...data.codebook import read_codebook
from ...data.conform import CodebookError, conform, read_agreed
from ...data.frames import PLAIN, Frame, Reading, check_used
from ..wire import Envelope
from ._again import check_steep
from .disclosure import Outgoing, Release
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

Made = TypeVar("Made")


class SiteTable(NamedTuple):
    """Whose data, where they are, and where the site keeps what it remembers."""

    client: str
    data: Path
    folder: Path
    how: Reading = PLAIN


def table_of(place: Any) -> SiteTable:
    return SiteTable(place.client, place.data, place.folder, place.how)


def columns(
    envelope: Envelope, source: SiteTable, release: Release, check: Check
) -> tuple[Envelope, Outgoing]:
    """The kinds of the columns that the plan names, and their levels."""
    plan = read_plan(envelope.meta["plan"])
    analysis, policy, memory = ANALYSES[plan.analysis], release.policy(), memory_of(source)
    table = _table(source, plan)
    with _guard(source, table):
        names = list(table.frame.columns)
        entering = analysis.columns(plan, names)
        check_offer(policy, plan, analysis, names, digest_of(plan.to_dict()), memory)
    out = Outgoing("columns", analysis.method, entering, len(table.frame), 0, {}, {}, 0, {})
    check(out)  # before anything is evaluated
    with _guard(source, table):
        make = lambda: analysis.offer(_agreed(table, plan, entering).frame, plan)
        offered = _evaluated(policy, source, make)
        offer = _evaluated(policy, source, lambda: _declared(offered.offer, plan))
    meta = {"client": source.client, **offer._asdict()}
    # whoever sends this asks the rules again, now with the rows behind each name
    out = out._replace(classes=offered.classes, levels=offered.levels)
    return Envelope("columns", meta, {}), out


def sums(
    envelope: Envelope, source: SiteTable, release: Release, check: Check
) -> tuple[Envelope, Outgoing]:
    """What the site answers; cells of few rows are left empty."""
    meta, policy, memory = envelope.meta, release.policy(), memory_of(source)
    plan = read_plan(meta["plan"])
    analysis = ANALYSES[plan.analysis]
    facts = facts_of(source, meta["plan"], meta["agreed"], digest_of(meta["plan"], meta["agreed"]))
    rows = guarded(judged_rows(source, policy, facts, memory), analysis, policy)
    question = analysis.question(envelope.arrays, rows)
    out = Outgoing(
        question.reveals, analysis.method, rows.columns, rows.n, question.parameters,
        rows.classes, rows.levels, len(meta["agreed"]["sites"]), {},
    )  # fmt: skip
    check(out)
    check_answer(policy, rows, analysis, question, facts, memory)
    check_steep(policy, rows, question)
    may = lambda kind: policy.kinds is None or kind in policy.kinds
    # whoever chooses edges learns a row from two choices, so no bins leave by themselves
    bins = may("bins") and policy.min_support < 2
    least = limit(policy.min_per_level) if bins else rows.n + 1
    blocks = arrays(analysis.answer(rows._replace(least=least, alone=may("model")), question))
    told = rows.dropped if rows.dropped >= policy.min_support else 0  # no small count
    own = {"client": source.client, "dropped": told}
    return Envelope("sums", own, blocks), out._replace(arrays=blocks)


def judged_rows(source: SiteTable, policy: Policy, facts: JobFacts, memory: Memory) -> SiteRows:
    """The rows of a job, once the rules allow it."""
    plan = read_plan(json.loads(facts.plan))
    analysis, table = ANALYSES[plan.analysis], _table(source, plan)
    with _guard(source, table):
        check_plan(policy, plan, analysis, list(table.frame.columns), facts, memory)
        check_identifiers(policy, plan, table.frame, analysis.columns(plan, list(table.frame)))
        rows = _evaluated(policy, source, lambda: rows_of(source, facts))
        check_job(policy, rows, analysis, identified(source, rows, facts, memory), memory)
    return rows


def guarded(rows: SiteRows, analysis: Analysis, policy: Policy) -> SiteRows:
    """The rows as they are told: where the policy is careful, never about fewer than k."""
    k = policy.min_support
    return analysis.guarded(rows, max(k, limit(policy.min_per_level)) if k > 1 else 0)


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
        raise Ruled("values", f"{error}; {error.__cause__ or ''}") from None


def digest_of(*parts: Any) -> str:
    """Of plain values, in any order of their names."""
    held = json.dumps(parts, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(held.encode()).hexdigest()


def memory_of(source: SiteTable) -> Memory:
    return Memory(source.folder, source.data)


def facts_of(source: SiteTable, plan: Any, agreed: Any, job: str, mode: str = "each") -> JobFacts:
    """Of a job in plain values."""
    most = getattr(read_plan(plan), "max_exchanges", 50)
    rebuild = lambda plan, agreed: _rows(source, plan, agreed, *stamp(source.data))
    return JobFacts(
        job, tuple(agreed["sites"]), mode, int(most), json.dumps(plan), json.dumps(agreed),
        rebuild=rebuild,
    )  # fmt: skip


def rows_of(source: SiteTable, facts: JobFacts) -> SiteRows:
    """The site's rows of a job; what is wrong with them is told as `_guard` has it."""
    return _rows(source, facts.plan, facts.agreed, *stamp(source.data))


def identified(source: SiteTable, rows: SiteRows, facts: JobFacts, memory: Memory) -> JobFacts:
    """With digests of the job's rows, over all columns of the file."""
    each = _identities(source.data, source.how, memory.salt, *stamp(source.data))
    return facts._replace(identity=each if rows.places is None else each[rows.places])


@lru_cache(maxsize=4)
def _identities(data: Path, how: Reading, salt: bytes, *_: int) -> np.ndarray:
    """Of each row of the file: of its words and numbers, whatever its place."""
    frame = _read(data, how, "{}", *stamp(data)).frame
    lists = [frame[name].map(repr).tolist() for name in sorted(frame.columns)]
    each = (
        hashlib.blake2b("\x1f".join(row).encode(), digest_size=8, key=salt).digest()
        for row in zip(*lists, strict=True)
    )
    return np.frombuffer(b"".join(each), "<u8")


@contextmanager
def _guard(source: SiteTable, table: Frame) -> Iterator[None]:
    """What is wrong with the data: columns may be named to others, all else is for the own log."""
    try:
        yield
    except Refused:
        raise
    except Misfit as error:
        raise Refused(f"{source.client}: {error}") from error.__cause__  # for the own log
    except CodebookError as error:
        raise Refused(f"{source.client}: its {error.public}") from error  # which the log gets
    except FeddcdError as error:
        raise error.placed(str(source.data), table.place) from None
    except ValueError as error:
        raise DataError(str(error), file=str(source.data)) from None


def _table(source: SiteTable, plan: Any) -> Frame:
    return _read(source.data, source.how, json.dumps(plan.codebook), *stamp(source.data))


@lru_cache(maxsize=2)
def _read(data: Path, how: Reading, codebook: str, *_: int) -> Frame:
    book = json.loads(codebook)
    return read_agreed(data, read_codebook(book) if book else None, how=how)


def _agreed(table: Frame, plan: Any, entering: Sequence[str]) -> Frame:
    """The columns that enter as the plan's codebook has them."""
    if plan.codebook:
        book = read_codebook(plan.codebook)
        for name in entering:
            if name not in book.columns or book.columns[name].type == "identifier":
                raise Misfit(f"the codebook gives its column {name!r} no role")
        table = conform(table, book, entering)
    try:
        check_used(table, entering)
    except DataError as error:
        public = f"column {error.column!r} holds neither plain numbers nor categories"
        raise CodebookError(str(error), public=public, column=error.column) from None
    return table


def _declared(offer: ColumnsOffer, plan: Any) -> ColumnsOffer:
    """Levels that the plan declares are offered as declared: which occur here is not told."""
    for column, declared in plan.levels.items():
        other = [level for level in offer.levels.get(column, ()) if level not in declared]
        if other:
            own = DataError(f"{column} has the level {other[0]!r}, which was not declared")
            raise Misfit(f"its column {column!r} has a level that was not declared") from own
    entering = [c for c in plan.levels if c in (offer.columns or ())]
    return offer._replace(levels=offer.levels | {c: plan.levels[c] for c in entering})


@lru_cache(maxsize=32)  # one per site, of which `simulate` has all in one process
def _rows(source: SiteTable, plan: str, cohort: str, *_: int) -> SiteRows:
    read = read_plan(json.loads(plan))
    agreed = Agreement(**json.loads(cohort))
    analysis, table = ANALYSES[read.analysis], _table(source, read)
    frame = _agreed(table, read, analysis.columns(read, list(table.frame.columns))).frame
    return analysis.rows(frame, read, agreed, source.client)
