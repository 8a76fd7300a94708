"""The tree of a formula, and a tree as text again: as R writes it."""

from typing import NamedTuple

from ._tokens import is_bare


class Number(NamedTuple):
    value: float


class Word(NamedTuple):
    text: str


class Flag(NamedTuple):
    value: bool


class Name(NamedTuple):
    """A column."""

    name: str


class Dot(NamedTuple):
    """All columns that have no other role."""


class Argument(NamedTuple):
    key: str | None
    value: "Node"


class Call(NamedTuple):
    function: str
    arguments: tuple[Argument, ...]


class Items(NamedTuple):
    """c(1, 2) or [1, 2]"""

    items: tuple["Node", ...]


class Bracket(NamedTuple):
    """What stands in round brackets."""

    inner: "Node"


class Sign(NamedTuple):
    mark: str
    inner: "Node"


class Power(NamedTuple):
    base: "Node"
    exponent: "Node"


class Link(NamedTuple):
    mark: str
    node: "Node"


class Sequel(NamedTuple):
    """a + b - c: flat, so that a long sum is no deep tree; marks of one rank, from the left."""

    first: "Node"
    rest: tuple[Link, ...]


class Compare(NamedTuple):
    mark: str
    left: "Node"
    right: "Node"


Node = Number | Word | Flag | Name | Dot | Call | Items | Bracket | Sign | Power | Sequel | Compare
TIGHT = ":/^"  # R writes no spaces around them


def text_of(node: Node) -> str:
    match node:
        case Number(value):
            return constant(value)
        case Word(text):
            return quoted(text)
        case Flag(value):
            return "TRUE" if value else "FALSE"
        case Name(name):
            return name if is_bare(name) else f"`{name}`"
        case Dot():
            return "."
        case Call(function, arguments):
            return f"{function}({', '.join(map(_argument, arguments))})"
        case Items(items):
            return f"c({', '.join(map(text_of, items))})"
        case Bracket(inner):
            return f"({text_of(inner)})"
        case Sign(mark, inner):
            return mark + text_of(inner)
        case Power(base, exponent):
            return f"{text_of(base)}^{text_of(exponent)}"
        case Sequel(first, rest):
            steps = [f"{_spaced(step.mark)}{text_of(step.node)}" for step in rest]
            return text_of(first) + "".join(steps)
        case Compare(mark, left, right):
            return f"{text_of(left)} {mark} {text_of(right)}"


def short(node: Node) -> str:
    """For a message."""
    text = text_of(node)
    return text if len(text) <= 120 else f"{text[:120]}..."


def constant(value: float) -> str:
    """2 -> '2', 0.5 -> '0.5'"""
    return f"{value:.0f}" if value == int_or_none(value) and abs(value) < 1e15 else f"{value!r}"


def int_or_none(value: float) -> int | None:
    return int(value) if value == value and abs(value) != float("inf") else None


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def _argument(argument: Argument) -> str:
    value = text_of(argument.value)
    return value if argument.key is None else f"{argument.key}={value}"


def _spaced(mark: str) -> str:
    return mark if mark in TIGHT else f" {mark} "
