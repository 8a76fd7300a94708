"""A table held against a codebook: what does not fit, in plain words, and its columns as agreed."""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._errors import DataError
from .._text import listed, plural
from ._cells import TRUTH, any_number
from .capping import Capping, cappings
from .codebook import Codebook, ColumnEntry
from .frames import PLAIN, Frame, Reading, read_frame

WORDS = "; if this word means a missing value, list it in the codebook under missing = [...]"


class CodebookError(DataError):
    """A column does not fit the codebook; `public` says so without any value."""


class Mismatch(NamedTuple):
    """What does not fit: `public` names the column and no value, `told` names all. What depends on
    values beyond kinds and levels has no public words: whether 93 occurs is nobody's business."""

    column: str
    public: str | None
    told: str
    row: int | None = None
    value: Any = None

    def error(self, table: Frame) -> DataError:
        fields: dict[str, Any] = {"row": self.row, "column": self.column, "value": self.value}
        told = self.told
        made = CodebookError(told, public=self.public, **fields) if self.public else None
        return (made or DataError(told, **fields)).placed(table.file, table.place)


def read_agreed(
    path: str | os.PathLike[str],
    book: Codebook | None,
    text: Collection[str] = (),
    how: Reading = PLAIN,
) -> Frame:
    """A file, with the columns that the codebook has as words read as words."""
    if book is None:
        return read_frame(path, text, how)
    return read_frame(path, {*text, *book.words}, how, book.missing)


def check_table(table: Frame, book: Codebook, names: Iterable[str] | None = None) -> list[Mismatch]:
    """All that does not fit, by column of the codebook (or of `names`)."""
    found = []
    for name in book.columns if names is None else names:
        if name not in table.frame.columns:
            public = f"there is no column {name!r}"
            found.append(Mismatch(name, public, f"{public}, which the codebook has"))
        elif name in book.columns:
            found += _check_column(table, name, book.columns[name])
    return found


def conform(
    table: Frame,
    book: Codebook,
    names: Iterable[str],
    caps: Mapping[str, Capping] | None = None,
    whole: Collection[str] = (),
) -> Frame:
    """The table with these columns as the codebook has them; the first misfit is raised. `caps` are
    in place of those of the codebook. Columns in `whole` keep the levels that have no row."""
    import pandas

    frame, names = table.frame.copy(), [name for name in names if name in book.columns]
    for finding in check_table(table, book, names):
        raise finding.error(table)
    for name in names:
        entry = book.columns[name]
        if entry.type == "category":
            values = pandas.Categorical(_levels(table, name, entry), categories=entry.ordered)
            # as R drops them; the order stays
            frame[name] = values if name in whole else values.remove_unused_categories()
        elif entry.type == "boolean":
            frame[name] = _booleans(table, name)
    cap_columns(frame, names, caps_of(book) if caps is None else caps)
    doubts = {name: doubt for name, doubt in table.doubts.items() if name not in names}
    return table._replace(frame=frame, doubts=doubts)


def caps_of(book: Codebook | None) -> dict[str, Capping]:
    """Of columns that are capped or rounded."""
    return {} if book is None else cappings(book.to_dict()["columns"])


def cap_columns(frame: Any, names: Iterable[str], caps: Mapping[str, Capping]) -> None:
    """In place: the values that all else is made of. Whole numbers stay whole numbers."""
    for name in names:
        if name in caps and frame[name].dtype.kind in "iuf":
            own = frame[name]
            made = caps[name].of(own.to_numpy(float))
            whole = own.dtype.kind in "iu" and np.array_equal(made, np.rint(made))
            frame[name] = made.astype(own.dtype if whole else float)


def changed_by_caps(table: Frame, book: Codebook) -> dict[str, tuple[int, int]]:
    """By column: how many values the cap changes, and how many others the step."""
    found = {}
    for name, capping in caps_of(book).items():
        if name in table.frame.columns and table.frame[name].dtype.kind in "iuf":
            x = table.frame[name].dropna().to_numpy(float)
            ends = Capping(capping.cap).of(x)
            beyond = int(np.sum(ends != x))
            found[name] = beyond, int(np.sum((capping.of(x) != x) & (ends == x)))
    return found


def _check_column(table: Frame, name: str, entry: ColumnEntry) -> list[Mismatch]:
    checks = {
        "category": _check_category, "number": _check_numbers, "integer": _check_numbers,
        "boolean": _check_booleans, "date": _check_dates,
    }  # fmt: skip
    return checks[entry.type](table, name, entry) if entry.type in checks else []


def _values(table: Frame, name: str) -> list[Any]:
    """As Python has them, None where nothing is."""
    column = table.frame[name]
    return [None if gone else v for v, gone in zip(column.tolist(), column.isna(), strict=True)]


def _levels(table: Frame, name: str, entry: ColumnEntry) -> list[Any]:
    """Values as the levels are: words, or whole numbers."""
    as_word = lambda v: v if isinstance(v, str) else f"{v:.15g}" if not _is_truth(v) else str(v)
    change = as_word if isinstance(entry.levels[0], str) else _whole
    return [None if value is None else change(value) for value in _values(table, name)]


def _whole(value: Any) -> Any:
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_truth(value: Any) -> bool:
    return isinstance(value, bool | np.bool)


def _check_category(table: Frame, name: str, entry: ColumnEntry) -> list[Mismatch]:
    wrong = lambda value: value not in entry.levels or _is_truth(value)
    public = f"column {name!r} has a level that is not in the codebook"
    close = f"; the levels are {listed(entry.levels, 12)}"
    return _findings(_levels(table, name, entry), wrong, name, public, "not a level", close)


def _check_numbers(table: Frame, name: str, entry: ColumnEntry) -> list[Mismatch]:
    values, what = _values(table, name), "whole number" if entry.type == "integer" else "number"
    real = lambda v: isinstance(v, int | float) and not _is_truth(v) and np.isfinite(v)
    public = f"column {name!r} contains values that are not {what}s"
    wrong = lambda v: not real(v) and not (isinstance(v, str) and any_number(v))
    found = _findings(values, wrong, name, public, f"not a {what}", WORDS)
    if found or any(isinstance(value, str) for value in values):
        return found or [_doubtful(table, name, public)]
    if entry.type == "integer":
        found = _findings(values, lambda v: v != int(v), name, public, "not a whole number")
    if entry.range is None:
        return found
    low, high = entry.range
    wrong = lambda v: not low <= v <= high
    return found + _findings(values, wrong, name, None, f"outside {low:g} to {high:g}")


def _doubtful(table: Frame, name: str, public: str) -> Mismatch:
    """Numbers that may mean two things."""
    doubt = table.doubts[name]
    return Mismatch(name, public, str(doubt.placed(place=lambda row: "<row>")), doubt.row)


def _check_booleans(table: Frame, name: str, entry: ColumnEntry) -> list[Mismatch]:
    wrong = lambda v: not (_is_truth(v) or v in (0, 1) or str(v).strip().lower() in TRUTH)
    public = f"column {name!r} contains values that are not true or false"
    return _findings(_values(table, name), wrong, name, public, "not true, false, 1 or 0")


def _booleans(table: Frame, name: str) -> np.ndarray:
    truth = lambda v: TRUTH.get(str(v).strip().lower(), v)
    values = [None if v is None else bool(truth(v)) for v in _values(table, name)]
    return np.array(values, object if None in values else bool)


def _check_dates(table: Frame, name: str, entry: ColumnEntry) -> list[Mismatch]:
    public = f"column {name!r} contains values that are not dates"
    values = [None if v is None else str(v).strip() for v in _values(table, name)]
    close = "; write a date as in 2024-12-31"
    found = _findings(values, lambda v: not _is_date(v), name, public, "not a date", close)
    if found or entry.range is None:
        return found
    low, high = map(str, entry.range)
    wrong = lambda v: not low <= v <= high
    return _findings(values, wrong, name, None, f"outside {low} to {high}")


def _is_date(text: str) -> bool:
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _findings(
    values: list[Any],
    wrong: Callable[[Any], bool],
    name: str,
    public: str | None,
    why: str,
    close: str = "",
) -> list[Mismatch]:
    """One finding for all values that are wrong, with the first of them."""
    rows = [row for row, value in enumerate(values) if value is not None and wrong(value)]
    if not rows:
        return []
    first = values[rows[0]]
    count = f"{plural(len(rows), 'value')} {'is' if len(rows) == 1 else 'are'}"
    told = f"in the column {name!r}, {count} {why}; the first is {first!r} <row>{close}"
    return [Mismatch(name, public, told, rows[0], first)]
