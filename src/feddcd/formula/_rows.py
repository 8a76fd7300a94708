"""Expressions on rows: each row's value depends on that row alone."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._errors import DataError, SpecError
from .._text import DECIMAL, listed, number_note
from ._arguments import number_of
from ._habits import ROW_WISE
from ._tree import (
    Bracket,
    Call,
    Compare,
    Flag,
    Name,
    Node,
    Number,
    Power,
    Sequel,
    Sign,
    Word,
    constant,
    short,
    text_of,
)

FUNCTIONS = {
    "abs": np.abs, "exp": np.exp, "log": np.log, "log10": np.log10, "log1p": np.log1p,
    "log2": np.log2, "sqrt": np.sqrt,
}  # fmt: skip
COMPARE = {
    "==": np.equal, "!=": np.not_equal, "<": np.less, "<=": np.less_equal, ">": np.greater,
    ">=": np.greater_equal,
}  # fmt: skip
STEPS = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}


class ColumnKind(NamedTuple):
    """What is known of a column before any row: numbers, or categories with levels in order.
    Numbers have levels where a formula makes categories of them."""

    number: bool
    levels: tuple[Any, ...] = ()


Kinds = Mapping[str, ColumnKind]


def label(level: Any) -> str:
    """A level as names of columns have it."""
    if isinstance(level, bool | np.bool):
        return str(bool(level))
    if isinstance(level, int | float | np.number):
        return constant(float(level))
    return str(level)


def find(levels: tuple[Any, ...], node: Node) -> Any:
    """The place of a level that a formula writes down, or None."""
    written = label(node.value) if isinstance(node, Number | Flag) else None
    written = node.text if isinstance(node, Word) else written
    if isinstance(node, Sign) and isinstance(node.inner, Number):
        written = node.mark.replace("+", "") + label(node.inner.value)
    named = [label(level) for level in levels]
    return named.index(written) if written in named else None


def is_boolean(node: Node, kinds: Kinds) -> bool:
    """Whether it is TRUE or FALSE, not a number; words in arithmetic are refused."""
    match node:
        case Bracket(inner) | Call("I", ((None, inner),)):
            return is_boolean(inner, kinds)
        case Compare(_, left, right):
            _check_compared(node, left, right, kinds)
            return True
        case Name(name) if not kinds[name].number and _is_flag(kinds[name]):
            return True
        case _:
            check_number(node, kinds)
            return False


def check_number(node: Node, kinds: Kinds) -> None:
    """Refuses what has no value in numbers."""
    try:
        _check_number(node, kinds)
    except DataError as error:
        told = error.message.removeprefix("formula: ")
        raise DataError(f"formula: {short(node)}: {told}", column=error.column) from None


def _check_number(node: Node, kinds: Kinds) -> None:
    match node:
        case Number() | Flag():
            pass
        case Name(name):
            kind = kinds[name]
            if not kind.number and not _is_flag(kind):
                raise DataError(f"{name} contains words, not numbers", column=name)
        case Bracket(inner) | Sign(_, inner) | Call("I", ((None, inner),)):
            _check_part(inner, kinds)
        case Power(base, exponent):
            _check_part(base, kinds)
            _check_part(exponent, kinds)
        case Sequel(first, rest):
            _check_chain(first, rest, kinds)
        case Call(function, ((None, inner),)) if function in ROW_WISE:
            _check_part(inner, kinds)
        case Call(function) if function in (*ROW_WISE, "I"):
            told = f"formula: {short(node)}: {function} needs exactly one value"
            raise SpecError(told + _without_base(node))
        case _:
            raise SpecError(
                f"formula: feddcd cannot compute a number in each row from {short(node)}"
            )


def _without_base(node: Call) -> str:
    """Of R's log(x, base=2): how it is written here; of any other call, nothing."""
    if node.function != "log" or len(node.arguments) != 2:
        return ""
    (key, x), (name, given) = node.arguments
    base = number_of(given)
    if (
        key not in (None, "x")
        or name not in (None, "base")
        or base is None
        or not 1 < base < np.inf
    ):
        return ""
    own, value = {2.0: "log2", 10.0: "log10"}.get(base), text_of(x)
    return f"; write {own}({value})" if own else f"; write I(log({value}) / log({constant(base)}))"


def _check_part(node: Node, kinds: Kinds) -> None:
    if isinstance(node, Bracket | Compare):
        is_boolean(node, kinds)  # TRUE counts as 1
    else:
        _check_number(node, kinds)


def _check_chain(first: Node, rest: Any, kinds: Kinds) -> None:
    for node in (first, *(step.node for step in rest)):
        _check_part(node, kinds)
    for mark, node in rest:
        if mark == ":":
            raise SpecError(
                f"formula: ':{short(node)}' is not allowed inside I(); write * for the product"
            )


def _check_compared(node: Node, left: Node, right: Node, kinds: Kinds) -> None:
    """A column of words with a word, or numbers with numbers."""
    found = _with_level(left, right)
    if found is None or kinds[found[0].name].number:
        _check_number(left, kinds)
        _check_number(right, kinds)
        return
    column, word = found
    levels = kinds[column.name].levels
    if not isinstance(node, Compare) or node.mark not in ("==", "!="):
        told = f"{short(node)}: categories can be compared only with == and !="
        raise SpecError(f"formula: {told}")
    if find(levels, word) is None:
        told = f"{short(node)}: the column {column.name!r} has only the levels "
        told += listed(map(label, levels))
        raise DataError(f"formula: {told}", column=column.name)


def _with_level(left: Node, right: Node) -> tuple[Name, Node] | None:
    """A column and what is written down beside it. None where both sides have a value in each row:
    these are numbers, and TRUE is 1."""
    column, word = (left, right) if isinstance(left, Name) else (right, left)
    number = word.inner if isinstance(word, Sign) else word
    written = isinstance(word, Word | Flag) or isinstance(number, Number)
    return (column, word) if isinstance(column, Name) and written else None


def _is_flag(kind: ColumnKind) -> bool:
    return all(isinstance(level, bool | np.bool) for level in kind.levels)


def evaluate(node: Node, frame: Any) -> np.ndarray:
    """One number per row."""
    with np.errstate(all="ignore"):  # log(0) and the like are refused with their row
        return np.broadcast_to(_value(node, frame), len(frame)).astype(float)


def _value(node: Node, frame: Any) -> Any:
    match node:
        case Number(value) | Flag(value):
            return float(value)
        case Name(name):
            return numbers(frame, name)
        case Bracket(inner) | Call("I", ((None, inner),)):
            return _value(inner, frame)
        case Sign(mark, inner):
            value = _value(inner, frame)
            return -value if mark == "-" else value
        case Power(base, exponent):
            return np.power(_value(base, frame), _value(exponent, frame))
        case Sequel(first, rest):
            value = _value(first, frame)
            for mark, each in rest:
                value = STEPS[mark](value, _value(each, frame))
            return value
        case Call(function, ((None, inner),)):
            return FUNCTIONS[function](_value(inner, frame))
        case Compare(mark, left, right):
            return _compared(mark, left, right, frame)
    raise SpecError(f"formula: feddcd cannot compute a number in each row from {short(node)}")


def _compared(mark: str, left: Node, right: Node, frame: Any) -> np.ndarray:
    found = _with_level(left, right)
    if found is not None and not is_numeric(frame[found[0].name]):
        column, word = found
        values = frame[column.name]
        unique = tuple(values.dropna().unique())
        at = find(unique, word)
        same = np.zeros(len(frame), bool) if at is None else np.asarray(values == unique[at], bool)
        return np.where(values.isna(), np.nan, (same if mark == "==" else ~same).astype(float))
    a, b = (np.asarray(_value(node, frame), float) for node in (left, right))
    return np.where(np.isnan(a) | np.isnan(b), np.nan, COMPARE[mark](a, b).astype(float))


def is_numeric(values: pd.Series) -> bool:
    """Numbers proper: neither TRUE and FALSE nor categories of numbers."""
    if isinstance(values.dtype, pd.CategoricalDtype):
        return False
    if values.dtype.kind in "iuf":
        return True
    if values.dtype.kind != "O":
        return False
    there = values.dropna()
    return not any(isinstance(v, str | bool | np.bool) for v in there) and _all_numbers(there)


def _all_numbers(values: pd.Series) -> bool:
    try:
        values.to_numpy(float)
    except (TypeError, ValueError):
        return False
    return True


def numbers(frame: Any, name: str) -> np.ndarray:
    """A column of numbers, or of TRUE and FALSE."""
    values = frame[name]
    try:
        if isinstance(values.dtype, pd.CategoricalDtype):
            values = values.astype(values.dtype.categories.dtype)
        if not isinstance(values.dtype, pd.StringDtype) and values.dtype.kind not in "mMc":
            return values.to_numpy(float, na_value=np.nan)
    except (TypeError, ValueError):
        pass
    read = np.asarray(pd.to_numeric(values, errors="coerce"), float)
    bad = np.flatnonzero(np.asarray(values.notna()) & np.isnan(read))
    at = int(bad[0]) if len(bad) else 0
    value = values.iloc[at]
    row = int(values.index[at])
    told = f"{name} must be numbers, got {value!r} <row>{number_note(value)}"
    raise DataError(told, row=row, column=name, value=value, settings=DECIMAL)
