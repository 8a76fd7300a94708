"""From text to a tree. Nothing is looked up and nothing is evaluated here.

Rank, from the tightest, as in R: ^ (from the right), signs, :, * and /, + and -, comparisons.
"""

import unicodedata
from typing import Any, NamedTuple

from .._errors import SpecError
from ._habits import named_settings, remedy
from ._tokens import FLAGS, LONGEST, Token, place, shown, tokens
from ._tree import (
    Argument,
    Bracket,
    Call,
    Compare,
    Dot,
    Flag,
    Items,
    Link,
    Name,
    Node,
    Number,
    Power,
    Sequel,
    Sign,
    Word,
)

DEEPEST = 50  # brackets within brackets
CALLED = 60  # letters of a call in a message
RANKS = (("+", "-"), ("*", "/"), (":",))  # from the loosest
COMPARED = ("==", "!=", "<", "<=", ">", ">=")


class Sides(NamedTuple):
    left: Node
    right: Node
    text: str


def parse(text: Any) -> Sides:
    """Both sides of `y ~ x1 + x2`."""
    if not isinstance(text, str):
        raise SpecError(f"a formula must have the form 'y ~ x1 + x2', got {str(text)[:50]!r}")
    if len(text) > LONGEST:
        raise SpecError(f"a formula may have at most {LONGEST:,} characters, got {len(text):,}")
    text = unicodedata.normalize("NFC", text)
    found = tokens(text)
    waves = [at for at, token in enumerate(found) if token.kind == "~"]
    if len(waves) != 1:
        equals = not waves and any(token.kind == "=" for token in found)
        raise SpecError(
            f"a formula must have the form 'y ~ x1 + x2', got {shown(text)}"
            + (". Write ~ in place of =" if equals else "")
        )
    (wave,) = waves
    for side, empty in (("left", wave == 0), ("right", wave == len(found) - 2)):
        if empty:
            raise SpecError(f"there is nothing on the {side} of ~ in the formula {shown(text)}")
    here = found[wave]
    left = [*found[:wave], Token("end", "~", here.start, here.end)]
    return Sides(_Parser(left, text).whole(), _Parser(found[wave + 1 :], text).whole(), text)


class _Parser:
    def __init__(self, found: list[Token], text: str):
        self.found, self.text, self.at, self.depth = found, text, 0, 0

    def whole(self) -> Node:
        node = self.comparison()
        if self.token.kind != "end":
            more = self.token.kind == "name" and self.at and self.found[self.at - 1].kind == "name"
            hint = "Put a name with spaces into backticks, as in `my column`" if more else ""
            hint = self.after_comma() if self.token.kind == "," else hint
            raise self.wrong("this does not belong here", hint=hint)
        return node

    def after_comma(self) -> str:
        """An argument of R's glm beside its formula."""
        name, equals, *_ = *self.found[self.at + 1 :], self.token, self.token
        if name.text == "offset" and equals.kind == "=":
            return f"Write + offset({self.text[equals.end :].strip()}) instead"
        return "Give settings, such as weights, outside of the formula"

    @property
    def token(self) -> Token:
        return self.found[self.at]

    def wrong(self, told: str, token: Token | None = None, hint: str = "") -> SpecError:
        token = self.token if token is None else token
        if token.kind == "end":
            return SpecError(f"formula: {told}: {shown(self.text)} ends too early")
        return SpecError(f"formula: {told}, {place(self.text, token.start, token.end, hint)}")

    def take(self, *kinds: str) -> Token | None:
        """The next token, if it is one of these."""
        token = self.token
        if token.kind not in kinds:
            return None
        self.at += 1
        return token

    def deeper(self, step: int = 1) -> None:
        self.depth += step
        if self.depth > DEEPEST:
            raise SpecError(
                f"formula: more than {DEEPEST} brackets or signs are inside each other; use fewer"
            )

    def comparison(self) -> Node:
        left = self.chain(0)
        if (mark := self.take(*COMPARED)) is None:
            return left
        node = Compare(mark.kind, left, self.chain(0))
        if self.token.kind in COMPARED:
            hint = "Write I((a < x) * (x < b)), which is 1 in rows where both comparisons are true"
            raise self.wrong("write only one comparison at a time", hint=hint)
        return node

    def chain(self, rank: int) -> Node:
        if rank == len(RANKS):
            return self.sign()
        first, rest = self.chain(rank + 1), []
        while mark := self.take(*RANKS[rank]):
            rest.append(Link(mark.kind, self.chain(rank + 1)))
        return Sequel(first, tuple(rest)) if rest else first

    def sign(self) -> Node:
        if mark := self.take("+", "-"):
            self.deeper()
            node = Sign(mark.kind, self.sign())
            self.deeper(-1)
            return node
        return self.power()

    def power(self) -> Node:
        base = self.atom()
        if self.take("^", "**") is None:
            return base
        self.deeper()
        node = Power(base, self.sign())
        self.deeper(-1)
        return node

    def atom(self) -> Node:
        token = self.token
        self.at += token.kind != "end"
        match token.kind:
            case "number":
                value = float(token.text)
                if value == float("inf"):
                    raise self.wrong("this number is too large", token)
                return Number(value)
            case "word":
                return Word(token.text)
            case "dot":
                return Dot()
            case "name":
                return self.named(token)
            case "(":
                return Bracket(self.enclosed(token, "("))
            case "[":
                return self.listed(token)
            case _:
                raise self.wrong("a name, a number or a bracket is missing", token)

    def named(self, token: Token) -> Node:
        if self.token.kind == "(" and not token.quoted:
            return self.call(token)
        if self.token.kind in ("(", "["):
            raise self.wrong(
                f"a formula cannot have {self.token.kind} after the name {token.text!r}", self.token
            )
        if not token.quoted and token.text in FLAGS:
            return Flag(FLAGS[token.text])
        return Name(token.text)

    def enclosed(self, opened: Token, called: str) -> Node:
        self.deeper()
        node = self.comparison()
        self.close(opened, called, ")")
        return node

    def close(self, opened: Token, called: str, mark: str) -> None:
        self.deeper(-1)
        if self.take(mark) is not None:
            return
        if self.token.kind == "end":
            raise SpecError(
                f"formula: {called} has no closing bracket in the formula {shown(self.text)}"
            )
        raise self.wrong(f"the closing {mark} of {called} is missing")

    def call(self, token: Token) -> Node:
        unknown = remedy(token.text, self.called(token))
        if unknown is not None:
            why, hint = unknown
            told = f"formula: {why}, {place(self.text, token.start, token.end, hint)}"
            raise SpecError(told, settings=named_settings(told))
        opened = self.take("(")
        arguments = self.arguments(opened or token, f"{token.text}(", ")")
        if token.text != "c":
            return Call(token.text, tuple(arguments))
        if any(argument.key is not None for argument in arguments):
            raise self.wrong("the values in c(...) must not have names", token)
        return Items(tuple(argument.value for argument in arguments))

    def called(self, token: Token) -> str:
        """The call with all that is between its brackets, for a message."""
        depth = 0
        for each in self.found[self.at :]:
            depth += (each.kind == "(") - (each.kind == ")")
            if depth == 0:
                text = self.text[token.start : each.end]
                return text if len(text) <= CALLED else f"{token.text}(...)"
        return token.text

    def listed(self, opened: Token) -> Node:
        return Items(tuple(a.value for a in self.arguments(opened, "[", "]")))

    def arguments(self, opened: Token, called: str, mark: str) -> list[Argument]:
        self.deeper()
        found: list[Argument] = []
        while self.token.kind not in (mark, "end"):
            found.append(self.argument())
            if self.take(",") is None:
                break
        self.close(opened, called, mark)
        return found

    def argument(self) -> Argument:
        token, after = self.token, self.found[min(self.at + 1, len(self.found) - 1)]
        if token.kind == "name" and after.kind == "=":
            self.at += 2
            return Argument(token.text, self.comparison())
        return Argument(None, self.comparison())
