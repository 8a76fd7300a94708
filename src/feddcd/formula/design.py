"""A design: how rows become columns. It is learned from the kinds of columns, never from rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from numbers import Number
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._errors import DataError, SpecError
from .._text import meant
from ._factors import variable
from ._rows import ColumnKind, Kinds, check_number, evaluate, is_numeric
from ._terms import TermList, contrasted, expand, members
from ._tokens import clipped
from ._tree import Node, short, text_of
from ._variables import Part, Variable
from .language import INTERCEPT, Formula

MOST_COLUMNS = 5_000


class NoColumn(DataError):
    """A formula names what is not a column."""


class DesignColumn(NamedTuple):
    """One column of the design, and what it is made of."""

    name: str
    term: str
    parts: tuple[Part, ...]  # its factors; none for the intercept


class TermBlock(NamedTuple):
    """The columns of one term."""

    variables: tuple[Variable, ...]
    contrasts: tuple[bool, ...]  # by variable


@dataclass(frozen=True)
class FormulaDesign:
    formula: Formula
    kinds: Kinds
    intercept: bool
    blocks: tuple[TermBlock, ...]
    offsets: tuple[Node, ...]
    columns: tuple[DesignColumn, ...]

    def __reduce__(self):
        return learn, (self.formula, self.kinds)

    @property
    def used(self) -> tuple[str, ...]:
        """The columns of a table that it needs; the response apart."""
        return self.formula.right_columns

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def matrix(self, frame: pd.DataFrame) -> np.ndarray:
        """A row for each row; errors name rows by the index of the frame."""
        known: dict[tuple[int, bool], np.ndarray] = {}

        def values(variable: Variable, contrast: bool) -> np.ndarray:
            key = (id(variable), contrast)
            if key not in known:
                known[key] = variable.values(frame, contrast)
            return known[key]

        with np.errstate(all="ignore"):
            parts = [np.ones((len(frame), 1))] if self.intercept else []
            for block in self.blocks:
                each = [values(v, c) for v, c in zip(*block, strict=True)]
                parts.append(_products(each))
            return np.hstack(parts)

    def offset(self, frame: pd.DataFrame) -> np.ndarray:
        return sum((evaluate(node, frame) for node in self.offsets), np.zeros(len(frame)))


def learn(formula: Formula, kinds: Kinds) -> FormulaDesign:
    """The design of a formula over columns of these kinds."""
    check_there(formula.right_columns, list(kinds))
    found = expand(formula.right)
    for node in found.offsets:
        _check_offset(node, kinds)
    variables = [variable(node, kinds) for node in found.variables]
    blocks = _blocks(found, variables)
    if sum(map(_width, blocks)) > MOST_COLUMNS:
        raise SpecError(f"formula: the formula makes more than {MOST_COLUMNS:,} columns")
    columns = [DesignColumn(INTERCEPT, INTERCEPT, ())] if found.intercept else []
    for block, term in zip(blocks, found.terms, strict=True):
        told = ":".join(text_of(found.variables[i]) for i in members(term))
        columns += [_column(told, parts) for parts in _combined(block)]
    names = [column.name for column in columns]
    if not names:
        raise SpecError("the formula has no column and no intercept: there is nothing to fit")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SpecError(
            f"formula: two columns of the model would have the same name {twice!r}; rename a "
            "column of the data"
        )
    kinds = {name: kinds[name] for name in formula.right_columns}
    return FormulaDesign(formula, kinds, found.intercept, blocks, found.offsets, tuple(columns))


def check_there(wanted: Iterable[str], names: Sequence[str]) -> None:
    """Refuses a name that is no column."""
    for name in wanted:
        if name not in names:
            there = ", ".join(clipped(known) for known in names[:30])
            told = f"formula: there is no column {clipped(name)!r}; {meant(name[:100], names)}"
            raise NoColumn(f"{told}the columns are {there}", column=name)


def kinds_of(
    frame: pd.DataFrame, names: Iterable[str], categories: Iterable[str] = ()
) -> dict[str, ColumnKind]:
    """As the rows of a frame have them; `categories` need levels, be they numbers."""
    kinds = {}
    for name in names:
        values: pd.Series = frame[name]  # pyright: ignore
        number = is_numeric(values)
        _check_plain(values, name)
        levels = () if number and name not in categories else levels_of(values)
        kinds[name] = ColumnKind(number, tuple(levels))
    return kinds


def _check_plain(values: pd.Series, name: str) -> None:
    """Numbers, words, TRUE and FALSE."""
    first = list(values.dropna()[:1])
    if any(
        not isinstance(v, str | bool | Number | np.bool) or isinstance(v, complex) for v in first
    ):
        told = (
            f"the column {name!r} contains values such as {first[0]!s:.50}, but a formula works "
            "only with numbers and words: change this column in the data file"
        )
        raise DataError(told, column=name)


def levels_of(values: pd.Series) -> list[Any]:
    """The levels that occur: in the order of the categories, or sorted, numbers first."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        there = set(values.dropna().unique())
        return [plain(level) for level in values.dtype.categories if level in there]
    return sorted_levels(values.dropna().unique())


def empty_levels(values: pd.Series) -> list[Any]:
    """The levels that are declared and do not occur."""
    if not isinstance(values.dtype, pd.CategoricalDtype):
        return []
    there = set(values.dropna().unique())
    return [plain(level) for level in values.dtype.categories if level not in there]


def sorted_levels(values: Iterable[Any]) -> list[Any]:
    """Numbers first. Words as people and R sort them, whatever a machine's language: signs,
    digits, letters without regard to case, and of two that differ by case alone the small one."""
    return sorted(map(plain, values), key=lambda v: (isinstance(v, str), _order(v)))


def _order(level: Any) -> Any:
    if not isinstance(level, str):
        return level
    kind = lambda letter: 1 if letter.isdigit() else 2 if letter.isalpha() else 0
    return [(kind(c), c) for c in level.casefold()], level.swapcase()


def plain(level: Any) -> Any:
    """A level as JSON has it; a whole number is an int."""
    level = level.item() if isinstance(level, np.generic) else level
    if isinstance(level, str | bool | int):
        return level
    try:
        value = float(level)
    except (TypeError, ValueError):
        return str(level)
    return int(value) if value.is_integer() else value


def _check_offset(node: Node, kinds: Kinds) -> None:
    try:
        check_number(node, kinds)
    except DataError as error:
        told = (
            f"offset({short(node)}) must be one column of numbers, but the column "
            f"{error.column!r} contains words"
        )
        raise DataError(f"formula: {told}", column=error.column) from None


def _blocks(found: TermList, variables: Sequence[Variable]) -> tuple[TermBlock, ...]:
    factors = [i for i, each in enumerate(variables) if each.is_category]
    coded = contrasted(found.terms, found.intercept, factors)
    return tuple(
        TermBlock(
            tuple(variables[i] for i in members(term)),
            tuple(i in own for i in members(term)),
        )
        for term, own in zip(found.terms, coded, strict=True)
    )


def _width(block: TermBlock) -> int:
    return prod(each.count(contrast) for each, contrast in zip(*block, strict=True))


def _combined(block: TermBlock) -> list[tuple[Part, ...]]:
    """The first factor changes fastest, as in R."""
    found: list[tuple[Part, ...]] = [()]
    for each, contrast in zip(*block, strict=True):
        found = [(*before, part) for part in each.parts(contrast) for before in found]
    return found


def _column(term: str, parts: tuple[Part, ...]) -> DesignColumn:
    return DesignColumn(":".join(part.name for part in parts), term, parts)


def _products(each: Sequence[np.ndarray]) -> np.ndarray:
    found = each[0]
    for more in each[1:]:
        found = (more[:, :, None] * found[:, None, :]).reshape(len(found), -1)
    return found
