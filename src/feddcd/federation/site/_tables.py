"""A site's part of an analysis: the names and levels of its columns, then blocks of its rows."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..._errors import DataError, FeddcdError, Refused
from ..._files import stamp
from ...analysis.protocol import Agreement, ColumnsOffer, Misfit, SiteRows, arrays
from ...analysis.registry import ANALYSES, read_plan
from ...data.codebook import read_codebook
from ...data.conform import CodebookError, conform, read_agreed
from ...data.frames import PLAIN, Frame, Reading, check_used
from ..wire import Envelope
from .disclosure import Outgoing
from .policy import Check


class SiteTable(NamedTuple):
    """Whose data, and where they are."""

    client: str
    data: Path
    how: Reading = PLAIN


def columns(envelope: Envelope, source: SiteTable, check: Check) -> tuple[Envelope, Outgoing]:
    """The kinds of the columns that the plan names, and their levels."""
    plan = read_plan(envelope.meta["plan"])
    analysis, table = ANALYSES[plan.analysis], _table(source, plan)
    with _guard(source, table):
        entering = analysis.columns(plan, list(table.frame.columns))
        frame = _agreed(table, plan, entering).frame
    out = Outgoing("columns", analysis.method, entering, len(frame), 0, {}, {}, 0, {})
    check(out)
    with _guard(source, table):
        offered = analysis.offer(frame, plan)
        offer = _declared(offered.offer, plan)
    meta = {"client": source.client, **offer._asdict()}
    # whoever sends this asks the rules again, now with the rows behind each name
    out = out._replace(classes=offered.classes, levels=offered.levels)
    return Envelope("columns", meta, {}), out


def sums(envelope: Envelope, source: SiteTable, check: Check) -> tuple[Envelope, Outgoing]:
    """What the site answers; cells of few rows are left empty if its policy wants that."""
    meta = envelope.meta
    table = _table(source, read_plan(meta["plan"]))
    with _guard(source, table):
        plan, cohort = json.dumps(meta["plan"]), json.dumps(meta["agreed"])
        rows = _rows(source, plan, cohort, *stamp(source.data))
    analysis = ANALYSES[rows.plan.analysis]
    question = analysis.question(envelope.arrays, rows)
    out = Outgoing(
        question.reveals, analysis.method, rows.columns, rows.n, question.parameters,
        rows.classes, rows.levels, len(meta["agreed"]["sites"]), {},
    )  # fmt: skip
    policy = check(out)
    may = lambda kind: policy.kinds is None or kind in policy.kinds
    least = policy.min_per_level if may("bins") else rows.n + 1
    blocks = arrays(analysis.answer(rows._replace(least=least, alone=may("model")), question))
    own = {"client": source.client, "dropped": rows.dropped}
    return Envelope("sums", own, blocks), out._replace(arrays=blocks)


@contextmanager
def _guard(source: SiteTable, table: Frame) -> Iterator[None]:
    """What is wrong with the data: columns may be named to others, all else is for the own log."""
    try:
        yield
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
