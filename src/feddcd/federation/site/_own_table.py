"""A site's table: how it is read, which codebook holds for it, what others hear of its errors."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from ..._errors import DataError, FeddcdError, Refused
from ..._files import stamp
from ...analysis.protocol import Misfit
from ...data.capping import Capping
from ...data.codebook import FILE as CODEBOOK
from ...data.codebook import Codebook, read_codebook
from ...data.conform import CodebookError, cap_columns, conform, read_agreed
from ...data.frames import PLAIN, Frame, Reading, check_used
from ._roles import own_codebook
from .approval import asks_first
from .policy import Policy


class SiteTable(NamedTuple):
    """The site, where its data are, and where the site keeps what it remembers."""

    client: str
    data: Path
    folder: Path
    how: Reading = PLAIN


def table_of(place: Any) -> SiteTable:
    return SiteTable(place.client, place.data, place.folder, place.how)


def stamps(source: SiteTable) -> tuple[int, ...]:
    book = source.folder / CODEBOOK
    return (*stamp(source.data), *(stamp(book) if book.exists() else ()))


@contextmanager
def errors_told(source: SiteTable, table: Frame) -> Iterator[None]:
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


def whole_table(source: SiteTable, plan: Any) -> Frame:
    book = book_of(source, plan)
    plain = json.dumps({} if book is None else book.to_dict())
    return read_own(source.data, source.how, plain, *stamp(source.data))


def named_table(source: SiteTable, policy: Policy, plan: Any) -> Frame:
    """The table for its names: where a person is asked, nobody else says before how it is read."""
    if not asks_first(policy) or own_codebook(source.folder) is not None:
        return whole_table(source, plan)
    return read_own(source.data, source.how, "{}", *stamp(source.data))


def book_of(source: SiteTable, plan: Any) -> Codebook | None:
    """The site's own, which the plan's has to equal where both have a column; else the plan's."""
    sent = read_codebook(plan.codebook) if plan.codebook else None
    return own_codebook(source.folder) or sent


@lru_cache(maxsize=2)
def read_own(data: Path, how: Reading, codebook: str, *_: int) -> Frame:
    book = json.loads(codebook)
    return read_agreed(data, read_codebook(book) if book else None, how=how)


def as_agreed(
    source: SiteTable,
    table: Frame,
    plan: Any,
    entering: Sequence[str],
    caps: Mapping[str, Capping] | None = None,
) -> Frame:
    """The columns that enter as the codebook has them; `caps` are in place of its own, for an
    earlier job: the codebook may have had others then."""
    if (book := book_of(source, plan)) is not None:
        for name in entering:
            if name not in book.columns or book.columns[name].type == "identifier":
                raise Misfit(f"the codebook does not allow the use of the column {name!r}")
        table = conform(table, book, entering, caps)
    elif caps:
        table = table._replace(frame=table.frame.copy())
        cap_columns(table.frame, entering, caps)
    try:
        check_used(table, entering)
    except DataError as error:
        public = f"column {error.column!r} contains neither plain numbers nor categories"
        raise CodebookError(str(error), public=public, column=error.column) from None
    return table
