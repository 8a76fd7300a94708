"""The right side as terms: R's expansion of + - : * / ^ and R's rule for coding factors."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from .._errors import SpecError
from ._arguments import number_of
from ._tree import (
    Bracket,
    Call,
    Compare,
    Dot,
    Link,
    Name,
    Node,
    Number,
    Power,
    Sequel,
    Sign,
    short,
    text_of,
)

MOST_TERMS = 5_000
MOST_STEPS = 1_000_000  # of multiplying terms, so that no formula occupies a site


class TermList(NamedTuple):
    """TermList are sets of variables, as bits; sorted by their number, as R does."""

    variables: tuple[Node, ...]
    terms: tuple[int, ...]
    intercept: bool
    offsets: tuple[Node, ...]


def members(term: int) -> list[int]:
    """The places of the variables of a term."""
    return [i for i in range(term.bit_length()) if term >> i & 1]


def expand(right: Node) -> TermList:
    expansion = _Expansion()
    found = expansion.sum(right, True)
    return TermList(
        tuple(expansion.variables.values()),
        tuple(sorted(found, key=int.bit_count)),
        expansion.intercept,
        tuple(expansion.offsets.values()),
    )


def contrasted(terms: Sequence[int], intercept: bool, factors: Iterable[int]) -> list[set[int]]:
    """By term: which of its factors are coded by contrasts, R's TermCode: those without which the
    term is part of an earlier one. Without an intercept the first factor of all is coded fully."""
    factors, covered, coded = set(factors), {0}, []
    for term in terms:
        own = [i for i in members(term) if i in factors]
        coded.append({i for i in own if term & ~(1 << i) in covered})
        covered |= {term, *(term & ~(1 << i) for i in members(term))}
    first = next((i for i, term in enumerate(terms) if factors & set(members(term))), None)
    if not intercept and first is not None:
        coded[first].discard(min(factors & set(members(terms[first]))))
    return coded


def without_dot(node: Node, others: Sequence[str]) -> Node:
    """The dot written out."""
    again = lambda inner: without_dot(inner, others)
    match node:
        case Dot():
            if not others:
                raise SpecError("formula: '.' means all other columns, but no other column is left")
            first, *rest = (Name(name) for name in others)
            return Bracket(
                Sequel(first, tuple(Link("+", name) for name in rest)) if rest else first
            )
        case Bracket(inner):
            return Bracket(again(inner))
        case Sign(mark, inner):
            return Sign(mark, again(inner))
        case Power(base, exponent):
            return Power(again(base), exponent)
        case Sequel(first, rest):
            return Sequel(again(first), tuple(Link(mark, again(each)) for mark, each in rest))
    return node


class _Expansion:
    def __init__(self):
        self.variables: dict[str, Node] = {}
        self.places: dict[str, int] = {}
        self.offsets: dict[str, Node] = {}  # equal ones count once, as in R
        self.intercept, self.steps, self.alone = True, 0, 0  # alone: 0, 1 and offsets, counted

    def sum(self, node: Node, adds: bool) -> list[int]:
        """A summand, or a sum of them; `adds` is False behind a minus."""
        match node:
            case Number(value) if value in (0, 1):
                self.intercept = (value == 1) == adds
                self.alone += 1
                return []
            case Bracket(inner) | Sign("+", inner):
                return self.sum(inner, adds)
            case Sign("-", Number() as inner):
                return self.sum(inner, not adds)
            case Call("offset", arguments):
                return self.offset(node, arguments, adds)
            case Sequel(first, rest) if rest[0].mark in "+-":
                return self.sums(first, rest, adds)
        return self.product(node)

    def sums(self, first: Node, rest: Sequence[Link], adds: bool) -> list[int]:
        found = dict.fromkeys(self.sum(first, adds))
        for mark, node in rest:
            if mark == "+":
                found |= dict.fromkeys(self.sum(node, adds))
                self.check(len(found))
                continue
            for term in self.sum(node, not adds):
                if term not in found:
                    told = f"{short(node)} is removed with -, but the formula does not contain it"
                    raise SpecError(f"formula: {told}")
                del found[term]
        return list(found)

    def offset(self, node: Node, arguments: Sequence, adds: bool) -> list[int]:
        if not arguments:
            raise SpecError("formula: offset() is empty")
        if len(arguments) != 1 or arguments[0].key is not None:
            raise SpecError(
                f"formula: {short(node)}: write exactly one column or expression into offset(), "
                "as in offset(log(days))"
            )
        if not adds:
            raise SpecError(
                f"formula: {short(node)} can only be added with +, as in y ~ x + {short(node)}"
            )
        self.alone += 1
        self.offsets.setdefault(text_of(arguments[0].value), arguments[0].value)
        return []

    def product(self, node: Node) -> list[int]:
        match node:
            case Bracket(inner):
                return self.enclosed(inner)
            case Power(base, exponent):
                return self.power(base, exponent)
            case Sequel(first, rest) if rest[0].mark not in "+-":
                found = self.product(first)
                for mark, each in rest:
                    found = self.times(mark, found, self.product(each))
                return found
            case Name() | Call():
                return [self.variable(node)]
            case Compare():
                raise SpecError(f"formula: write I({short(node)}) for {short(node)}")
            case Dot():
                raise SpecError(
                    "formula: '.' is not possible here, because feddcd does not know the names of "
                    "the columns; write the names"
                )
            case Number(value):
                if value in (0, 1):
                    told = f"{value:g} is part of a product; write it as a separate term, with +"
                    raise SpecError(f"formula: {told}")
                raise SpecError(
                    f"formula: {value:g} is not a term; the only numbers allowed as terms are 0 "
                    "and 1, for the intercept"
                )
        raise SpecError(f"formula: {short(node)} is not a term; write I(...) for arithmetic")

    def enclosed(self, inner: Node) -> list[int]:
        """A bracket within a product: 0 and 1 have no meaning there."""
        before = self.alone
        found = self.sum(inner, True)
        if before != self.alone or not found:
            told = (
                f"({short(inner)}) is part of a product; write 0, 1 and offset() as separate "
                "terms, with +"
            )
            raise SpecError(f"formula: {told}")
        return found

    def power(self, base: Node, exponent: Node) -> list[int]:
        value = number_of(exponent)
        if not isinstance(base, Bracket | Dot):
            text = short(Power(base, exponent))
            told = (
                f"{text}: in a formula, ^ does not compute the power of a number; for the power, "
                f"write I({text})"
            )
            raise SpecError(f"formula: {told}")
        if value is None or not 1 <= value <= MOST_TERMS or value % 1:
            told = f"^{short(exponent)}: the power must be a whole number, at least 1"
            raise SpecError(f"formula: {told}")
        found = own = self.product(base)
        for _ in range(int(value) - 1):
            more = self.times("^", found, own)
            if len(more) == len(found):
                break
            found = more
        return found

    def times(self, mark: str, left: list[int], right: list[int]) -> list[int]:
        self.steps += len(left) * len(right)
        if self.steps > MOST_STEPS:
            raise SpecError(
                f"formula: the products combine more than {MOST_STEPS:,} pairs of terms; use fewer"
            )
        if mark == "/":
            whole = 0
            for term in left:
                whole |= term
            both = [whole | term for term in right]
        else:
            both = [a | b for a in left for b in right]
        before = {":": [], "/": left, "^": left, "*": [*left, *right]}[mark]
        found = list(dict.fromkeys([*before, *both]))
        self.check(len(found))
        return found

    def check(self, count: int) -> None:
        if count > MOST_TERMS:
            raise SpecError(f"formula: there are more than {MOST_TERMS:,} terms; use fewer")

    def variable(self, node: Node) -> int:
        if isinstance(node, Call) and node.function == "offset":
            raise SpecError(
                f"formula: {short(node)} must be a term of its own, as in y ~ x + {short(node)}"
            )
        text = text_of(node)
        self.variables.setdefault(text, node)
        return 1 << self.places.setdefault(text, len(self.places))
