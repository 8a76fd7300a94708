"""The values of a table's columns, refused or explained before `feddcd glm` fits a model."""

from collections.abc import Iterable
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import DataError
from .._text import listed
from ..data.frames import Frame, is_number
from .columns import check_mixed

if TYPE_CHECKING:
    from pandas import DataFrame, Series

MAX_LEVELS = 1000


def check_plain(table: Frame, names: Iterable[str]) -> None:
    """Numbers and words; Parquet has dates and lists as well."""
    for name in names:
        values = table.frame[name].dropna()
        odd = [v for v in values[:1] if not isinstance(v, str | bool | np.bool | Decimal)]
        if odd and not np.issubdtype(type(odd[0]), np.number):
            raise DataError(
                f"{table.file}: {name} holds values such as {odd[0]!s:.50}; a regression takes "
                "numbers and words"
            )


def check_words(table: Frame, names: Iterable[str], notes: list[str]) -> None:
    """Columns of words make categories: some, but not too many."""
    refuse_mixed(table, tuple(names))
    for name in names:
        column = table.frame[name]
        if not _is_text(column):
            continue
        check_alike(table, name, notes)
        if column.nunique() == 1:
            raise DataError(f"{table.file}: {name} is {column.dropna().iloc[0]!r} in every row")
        if column.nunique() > MAX_LEVELS:
            raise DataError(
                f"{table.file}: {name} has {column.nunique():,} different words: too many for a "
                f"category, the limit is {MAX_LEVELS:,}"
            )


def check_alike(table: Frame, name: str, notes: list[str]) -> None:
    """One name written in two ways would be two sites, or two categories."""
    column = table.frame[name]
    exact: dict[str, str] = {}
    loose: dict[str, str] = {}
    for value in column.dropna().unique():
        text = str(value)
        other = exact.setdefault(text.strip(), text)
        if other != text:
            row = int(np.flatnonzero(np.asarray(column == value))[0])
            raise DataError(
                f"{table.file}: {name} has {other!r} and {text!r} (first {table.place(row)}), "
                "which differ by spaces alone; write them in one way"
            )
        key = str(float(text)) if is_number(text) else text.casefold()
        other = loose.setdefault(key, text)
        if other != text:
            notes.append(f"{name} has {other!r} and {text!r}, taken for two different ones")


def refuse_mixed(table: Frame, names: tuple[str, ...]) -> None:
    """Numbers with a few words among them, which would become hundreds of categories."""
    for name in names:
        check_mixed(table.frame.loc[table.frame[name].notna()], (name,))


def outcome(table: Frame, name: str, family: str, weighted: bool, notes: list[str]) -> "DataFrame":
    """The frame with an outcome that the family takes."""
    frame, column = table.frame, table.frame[name]
    text = _is_text(column)
    if family == "multinomial" or (not text and family != "binomial"):
        return frame
    refuse_mixed(table, (name,))
    values = sorted(column.dropna().unique())
    if not text:
        _check_zero_one(table.file, name, values, weighted)
        return frame
    _check_two_words(table.file, name, values, family)
    notes.append(f"{name}: {values[1]!r} counts as 1, {values[0]!r} as 0")
    return frame.assign(**{name: column.map({values[0]: 0.0, values[1]: 1.0}).astype(float)})


def _check_two_words(file: str, name: str, values: list[str], family: str) -> None:
    if family != "binomial":
        raise DataError(
            f"{file}: {name} holds words such as {values[0]!r}: --family {family} needs numbers; "
            "binomial takes two words, multinomial more"
        )
    if len(values) == 1:
        raise DataError(f"{file}: {name} is {values[0]!r} in every row: binomial needs two values")
    if len(values) > 2:
        raise DataError(
            f"{file}: {name} has {len(values)} different words, {listed(values, 5)}: "
            "--family binomial takes two; multinomial takes more"
        )


def _check_zero_one(file: str, name: str, values: list[Any], weighted: bool) -> None:
    inside = bool(values) and values[0] >= 0 and values[-1] <= 1
    if not values or (inside and (weighted or set(values) <= {0, 1})):
        return
    if inside:
        raise DataError(
            f"{file}: {name} has shares such as {float(values[len(values) // 2]):g}; give "
            "--weight, the column with the number of trials, or --family gaussian"
        )
    raise DataError(
        f"{file}: {name} goes from {float(values[0]):g} to {float(values[-1]):g}: --family "
        "binomial takes 0 and 1; gaussian takes all numbers, poisson counts, multinomial classes"
    )


def _is_text(column: "Series") -> bool:
    return column.dtype.kind not in "biuf" and any(isinstance(v, str) for v in column)
