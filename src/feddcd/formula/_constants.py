"""Numbers that a formula sets rows apart with: of comparisons, cut points and knots, and those that
are added to a column.

`I(age > 50)` and `I(age > 51)` are over the same rows and may differ by one person; so do
combinations of `abs(age - 60)`, `abs(age - 61)` and `abs(age - 62)`. A site may want such numbers
from its codebook alone. Factors and a few powers are free, where they move no such point.
"""

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ._habits import BASES, CATEGORIES
from ._tree import (
    Argument,
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
    short,
)
from .language import Formula, inner_nodes

FREE = ("df", "degree", "raw", "intercept", "right", "include.lowest", "labels")
POWERS = (-1, 0.5, 1, 2, 3)
LOGS = ("log", "log10", "log1p", "log2")  # where a factor is a number that is added


class WrittenNumber(NamedTuple):
    """`column` is what it is compared with; None where that is no column as it stands. The value is
    nan where it is computed, from columns or flags, and so is not known."""

    value: float
    column: str | None
    text: str


def written_numbers(formula: Formula) -> list[WrittenNumber]:
    return [*_outer(formula.left), *_terms(formula.right)]


def _terms(node: Node) -> Iterator[WrittenNumber]:
    """Of the right side: signs and powers between terms are no arithmetic."""
    if isinstance(node, Call | Compare):
        yield from _outer(node)
        return
    for inner in inner_nodes(node):
        yield from _terms(inner)


def _outer(node: Node) -> Iterator[WrittenNumber]:
    """Of a finished column: factors within a logarithm shift it as a whole, which is free."""
    match node:
        case Bracket(inner) | Call("I" | "offset", (Argument(None, inner),)):
            yield from _outer(inner)
        case Call(function, (Argument(None, inner),)) if function in LOGS:
            yield from _arithmetic(inner)
        case _:
            yield from _arithmetic(node)


def _arithmetic(node: Node) -> Iterator[WrittenNumber]:
    match node:
        case Compare(_, left, right):
            yield from _compared(node, left, right)
        case Call(function, (Argument(_, first), *rest)) if function in (*BASES, "cut"):
            column = _column(first)
            for argument in rest:
                if argument.key not in FREE and not _is_degree(function, argument):
                    for value in _numbers(argument.value):
                        yield WrittenNumber(value, column, short(node))
            yield from _arithmetic(first)
        case Call(function, (Argument(_, first), *_)) if function in CATEGORIES:
            yield from _arithmetic(first)
        case Call(function, (Argument(_, first),)) if function in LOGS:
            yield from _told(node, _factors(first), _column_of(first))
            yield from _arithmetic(first)
        case Power(base, exponent):
            free = _value(exponent) in POWERS
            yield from _told(node, () if free else [*_numbers(node)][-1:])
            yield from _arithmetic(base)
        case Sequel(_, rest) if rest[0].mark in "+-":
            yield from _added(node)
        case _:
            for inner in inner_nodes(node):
                yield from _arithmetic(inner)


def _added(node: Node) -> Iterator[WrittenNumber]:
    """A number beside one column; 1 beside anything without factors, which would make it another.
    Of several columns each has a factor at most: of what is more, nobody sees that it varies."""
    summands = list(_summands(node, 1))
    constants = [(sign, each) for sign, each in summands if not _has_column(each)]
    rest = [(sign, each) for sign, each in summands if _has_column(each)]
    values = [(sign, _value(each)) for sign, each in constants]
    total = math.fsum(sign * value for sign, value in values if value is not None)
    column = _column(rest[0][1]) if len(rest) == 1 else None
    made = any(value is None for _, value in values)
    if made or (total and not column and any(True for _, x in rest for _ in _factors(x, True))):
        yield WrittenNumber(total or 1.0, None, short(node))
    elif rest:
        yield from _told(node, [-rest[0][0] * total if column else total], column)
    for _, each in rest:
        if not _is_scaled_column(each):
            yield from _told(each, _factors(each))
        yield from _arithmetic(each)


def _told(
    node: Node, values: Iterable[float], column: str | None = None
) -> Iterator[WrittenNumber]:
    for value in values:
        if abs(value) not in (0, 1):
            yield WrittenNumber(float(value), column, short(node))


def _summands(node: Node, sign: int) -> Iterator[tuple[int, Node]]:
    """Of a sum, its sums within brackets among them."""
    match node:
        case Bracket(inner) | Call("I", (Argument(None, inner),)):
            yield from _summands(inner, sign)
        case Sign(mark, inner):
            yield from _summands(inner, -sign if mark == "-" else sign)
        case Sequel(first, rest) if rest[0].mark in "+-":
            yield from _summands(first, sign)
            for mark, each in rest:
                yield from _summands(each, -sign if mark == "-" else sign)
        case _:
            yield sign, node


def _has_column(node: Node) -> bool:
    return isinstance(node, Name) or any(map(_has_column, inner_nodes(node)))


def _factors(node: Node, added: bool = False) -> Iterator[float]:
    """Numbers that columns are multiplied with, and with `added` those that are added. What is
    within a comparison is looked at there, and so are exponents."""
    match node:
        case Number(value) | Flag(value):
            yield float(value)
        case Compare():
            return
        case Power(base, _):
            yield from _factors(base, added)
        case Sequel(_, rest) if rest[0].mark in "+-" and not added:
            for _, each in _summands(node, 1):
                yield from _factors(each) if _has_column(each) else ()
        case _:
            for inner in inner_nodes(node):
                yield from _factors(inner, added)


def _is_scaled_column(node: Node) -> bool:
    """A column, or a power or a product of columns, times numbers."""
    match node:
        case Name():
            return True
        case Bracket(inner) | Sign(_, inner) | Call("I", (Argument(None, inner),)):
            return _is_scaled_column(inner)
        case Power(base, exponent):
            return _column(base) is not None and _value(exponent) in (2, 3)
        case Sequel(first, rest) if rest[0].mark in "*/":
            parts = [("*", first), *rest]
            return all(
                _value(each) is not None or (mark == "*" and _is_scaled_column(each))
                for mark, each in parts
            )
    return False


def _is_degree(function: str, argument: Argument) -> bool:
    return function == "poly" and isinstance(argument.value, Number)


def _compared(node: Node, left: Node, right: Node) -> Iterator[WrittenNumber]:
    """A column beside a number; any other way to write one has no column. Beside a word or a flag
    there is no number; what is computed stands for one that nobody wrote, nan."""
    column = _column(left) or _column(right)
    value = _value(left) if _value(right) is None else _value(right)
    plain = column is not None and value is not None
    if not plain and not (column and any(isinstance(x, Word | Flag) for x in (left, right))):
        yield WrittenNumber(math.nan, None, short(node))
    for number in [value] if plain else [*_numbers(left), *_numbers(right)]:
        yield WrittenNumber(float(number), column if plain else None, short(node))  # pyright: ignore


def _column(node: Node) -> str | None:
    match node:
        case Bracket(inner) | Call("I", (Argument(None, inner),)):
            return _column(inner)
        case Name(name):
            return name
    return None


def _column_of(node: Node) -> str | None:
    """The one column of a product with numbers."""
    match node:
        case Bracket(inner):
            return _column_of(inner)
        case Sequel(Name(name), ((_, Number()),)) | Sequel(Number(), (("*", Name(name)),)):
            return name
    return None


def _value(node: Node) -> float | None:
    match node:
        case Bracket(inner):
            return _value(inner)
        case Number(value):
            return float(value)
        case Sign(mark, inner) if _value(inner) is not None:
            value = float(_value(inner))  # pyright: ignore
            return -value if mark == "-" else value
    return None


def _numbers(node: Node) -> Iterator[float]:
    value = _value(node)
    if value is not None:
        yield value
        return
    for inner in inner_nodes(node):
        yield from _numbers(inner)
