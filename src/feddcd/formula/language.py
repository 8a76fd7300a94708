"""A formula: its response, its right side, and the columns that each uses."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from .._errors import DataError, SpecError
from ._habits import BASES, CATEGORIES
from ._parse import parse
from ._rows import Kinds, check_number, evaluate, is_boolean
from ._terms import expand, without_dot
from ._tokens import clipped, shown
from ._tree import (
    Argument,
    Bracket,
    Call,
    Compare,
    Dot,
    Items,
    Name,
    Node,
    Power,
    Sequel,
    Sign,
    short,
    text_of,
)

INTERCEPT = "Intercept"
FIRST = (*CATEGORIES, *BASES, "cut")  # functions of one column; the rest is written down


class Formula(NamedTuple):
    text: str
    left: Node
    right: Node

    @property
    def response(self) -> str:
        """The left side, as text."""
        return self.outcome or text_of(self.left)

    @property
    def outcome(self) -> str | None:
        """The column that is the response, where it is one."""
        match self.left:
            case Name(name) | Call("C" | "factor" | "as.factor", (Argument(None, Name(name)),)):
                return name
        return None

    @property
    def is_counts(self) -> bool:
        """Whether the response is cbind(a, b): counts of two kinds."""
        return isinstance(self.left, Call) and self.left.function == "cbind"

    @property
    def left_columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(_columns(self.left)))

    @property
    def right_columns(self) -> tuple[str, ...]:
        """Without those that a dot stands for."""
        return tuple(dict.fromkeys(_columns(self.right)))

    @property
    def categories(self) -> frozenset[str]:
        """Columns of which C() makes categories, be they numbers."""
        return frozenset(_categories(self.right))

    @property
    def has_dot(self) -> bool:
        return any(isinstance(node, Dot) for node in _nodes(self.right))

    @property
    def offsets(self) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(
                text_of(node.arguments[0].value)
                for node in _nodes(self.right)
                if isinstance(node, Call) and node.function == "offset" and node.arguments
            )
        )

    def named(self, columns: Sequence[str], apart: Sequence[str] = ()) -> "Formula":
        """With all other columns in place of the dot; `apart` have a role of their own."""
        if not self.has_dot:
            return self
        others = [c for c in columns if c not in self.left_columns and c not in apart]
        for name in others:
            if "`" in name or not name.strip():
                told = (
                    f"the name of the column {clipped(name)!r} cannot be written in a formula; "
                    "rename this column. Or, in place of '.', write the names of all other columns"
                )
                raise DataError(f"formula: {told}", column=name)
        right = without_dot(self.right, others)
        return Formula(f"{text_of(self.left)} ~ {text_of(right)}", self.left, right)

    def check(self) -> None:
        """Refuses what is wrong whatever the columns hold."""
        explains = set(_columns(self.right, offsets=False))
        both = [name for name in self.left_columns if name in explains]
        if both:
            raise SpecError(f"the formula has {both[0]!r} on both sides of ~")
        if not self.left_columns:
            raise SpecError(
                f"there is no column on the left of ~ in the formula {shown(self.text)}"
            )
        expand(without_dot(self.right, [".", *self.right_columns]))

    def values(self, frame: Any, kinds: Kinds) -> tuple[np.ndarray, np.ndarray | None]:
        """The response where it is no plain column; of cbind(a, b) the share and the total."""
        if not isinstance(self.left, Call) or not self.is_counts:
            is_boolean(self.left, kinds)
            return evaluate(self.left, frame), None
        arguments = self.left.arguments
        if len(arguments) != 2 or any(argument.key is not None for argument in arguments):
            raise SpecError(
                "formula: cbind needs exactly two columns, for example cbind(died, survived)"
            )
        for _, node in arguments:
            check_number(node, kinds)
        won, lost = (evaluate(node, frame) for _, node in arguments)
        bad = np.flatnonzero((won < 0) | (lost < 0))
        if len(bad):
            told = f"{short(self.left)} has a count below 0 <row>"
            raise DataError(told, row=int(frame.index[bad[0]]), column=self.response)
        total = won + lost
        return np.divide(won, total, out=np.zeros_like(won), where=total != 0) + 0 * total, total


@lru_cache(maxsize=64)
def _read(text: str) -> Formula:
    left, right, text = parse(text)
    formula = Formula(text, left, right)
    formula.check()
    return formula


def read_formula(text: Any) -> Formula:
    """Refuses what is no formula of this language, with the place and the remedy."""
    return _read(text) if isinstance(text, str) else parse(text)  # pyright: ignore


def _columns(node: Node, offsets: bool = True) -> Iterator[str]:
    """Names of columns, in order; not those of contrasts, nor what knots are made of."""
    if isinstance(node, Name):
        yield node.name
    elif isinstance(node, Call) and node.function == "offset" and not offsets:
        return
    elif isinstance(node, Call) and node.function in FIRST:
        for argument in node.arguments[:1]:
            yield from _columns(argument.value, offsets)
    else:
        for inner in inner_nodes(node):
            yield from _columns(inner, offsets)


def _categories(node: Node) -> Iterator[str]:
    for each in _nodes(node):
        if isinstance(each, Call) and each.function in CATEGORIES and each.arguments:
            first = each.arguments[0].value
            if isinstance(first, Name):
                yield first.name


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for inner in inner_nodes(node):
        yield from _nodes(inner)


def inner_nodes(node: Node) -> tuple[Node, ...]:
    """The parts of a node."""
    match node:
        case Bracket(inner) | Sign(_, inner):
            return (inner,)
        case Power(base, exponent):
            return (base, exponent)
        case Sequel(first, rest):
            return (first, *(step.node for step in rest))
        case Compare(_, left, right):
            return (left, right)
        case Call(_, arguments):
            return tuple(argument.value for argument in arguments)
        case Items(items):
            return items
    return ()
