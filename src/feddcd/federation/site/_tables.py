"""A site's part of an analysis: the names and levels of its columns, then blocks of its rows."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from ..._errors import DataError, FeddcdError, Refused
from ..._files import stamp
from ...analysis.protocol import Agreement, Misfit, SiteRows, arrays, counts
from ...analysis.registry import ANALYSES, read_plan
from ...data.frames import Frame, read_frame
from ..wire import Envelope
from .disclosure import Outgoing
from .policy import Check


class SiteTable(NamedTuple):
    """Whose data, and where they are."""

    client: str
    data: Path


def columns(envelope: Envelope, source: SiteTable, check: Check) -> tuple[Envelope, Outgoing]:
    """The kinds of the columns that the plan names, and their levels."""
    plan, table = read_plan(envelope.meta["plan"]), _table(source)
    analysis, frame = ANALYSES[plan.analysis], table.frame
    with _guard(source, table):
        entering = analysis.columns(plan, list(frame.columns))
    out = Outgoing("columns", analysis.method, entering, len(frame), 0, {}, {}, 0, {})
    check(out)
    with _guard(source, table):
        offer = analysis.offer(frame, plan)
    levels = {name: counts(frame[name]) for name in offer.levels}
    meta = {"client": source.client, **offer._asdict()}
    return Envelope("columns", meta, {}), out._replace(levels=levels)


def sums(envelope: Envelope, source: SiteTable, check: Check) -> tuple[Envelope, Outgoing]:
    """What the site answers; cells of few rows are left empty if its policy wants that."""
    meta, table = envelope.meta, _table(source)
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
    bins = policy.kinds is None or "bins" in policy.kinds
    least = policy.min_per_level if bins else rows.n + 1
    blocks = arrays(analysis.answer(rows._replace(least=least), question))
    own = {"client": source.client, "dropped": rows.dropped}
    return Envelope("sums", own, blocks), out._replace(arrays=blocks)


@contextmanager
def _guard(source: SiteTable, table: Frame) -> Iterator[None]:
    """What is wrong with the data: columns may be named to others, all else is for the own log."""
    try:
        yield
    except Misfit as error:
        raise Refused(f"{source.client}: {error}") from None
    except FeddcdError as error:
        raise error.placed(str(source.data), table.place) from None
    except ValueError as error:
        raise DataError(str(error), file=str(source.data)) from None


def _table(source: SiteTable) -> Frame:
    return _read(source.data, *stamp(source.data))


@lru_cache(maxsize=2)
def _read(data: Path, *_: int) -> Frame:
    return read_frame(data)


@lru_cache(maxsize=32)  # one per site, of which `simulate` has all in one process
def _rows(source: SiteTable, plan: str, cohort: str, *_: int) -> SiteRows:
    read = read_plan(json.loads(plan))
    agreed = Agreement(**json.loads(cohort))
    return ANALYSES[read.analysis].rows(_table(source).frame, read, agreed, source.client)
