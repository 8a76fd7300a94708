"""Numbers that a formula sets rows apart with: of comparisons, cut points and knots.

`I(age > 50)` and `I(age > 51)` are over the same rows and may differ by one person, so a site may
want such numbers from its codebook alone.
"""

from collections.abc import Iterator
from typing import NamedTuple

from ._habits import BASES
from ._tree import Argument, Bracket, Call, Compare, Name, Node, Number, Sign, short
from .language import Formula, inner_nodes

FREE = ("df", "degree", "raw", "intercept", "right", "include.lowest", "labels")


class WrittenNumber(NamedTuple):
    """`column` is what it is compared with; None where that is no column as it stands."""

    value: float
    column: str | None
    text: str


def written_numbers(formula: Formula) -> list[WrittenNumber]:
    return [found for side in (formula.left, formula.right) for found in _written(side)]


def _written(node: Node) -> Iterator[WrittenNumber]:
    match node:
        case Compare(_, left, right):
            yield from _compared(node, left, right)
        case Call(function, (Argument(_, first), *rest)) if function in (*BASES, "cut"):
            column = _column(first)
            for argument in rest:
                if argument.key not in FREE and not _is_degree(function, argument):
                    for value in _numbers(argument.value):
                        yield WrittenNumber(value, column, short(node))
            yield from _written(first)
        case _:
            for inner in inner_nodes(node):
                yield from _written(inner)


def _is_degree(function: str, argument: Argument) -> bool:
    return function == "poly" and isinstance(argument.value, Number)


def _compared(node: Node, left: Node, right: Node) -> Iterator[WrittenNumber]:
    """A column beside a number; any other way to write one has no column."""
    column = _column(left) or _column(right)
    value = _value(left) if _value(right) is None else _value(right)
    plain = column is not None and value is not None
    for number in [value] if plain else [*_numbers(left), *_numbers(right)]:
        yield WrittenNumber(float(number), column if plain else None, short(node))  # pyright: ignore


def _column(node: Node) -> str | None:
    match node:
        case Bracket(inner):
            return _column(inner)
        case Name(name):
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
