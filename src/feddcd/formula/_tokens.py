"""A formula's text as tokens: names, numbers, words in quotes and marks, each with its place."""

import re
import unicodedata
from typing import NamedTuple

from .._errors import SpecError
from ._habits import named_settings

LONGEST = 10_000  # characters
SHOWN = 200  # of them, in a message
NUMBER = re.compile(r"(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?L?")
MARKS = ("**", "==", "!=", "<=", ">=", "~", "+", "-", "*", "/", ":", "^", "(", ")", ",", "=", "<",
         ">", "[", "]")  # fmt: skip
BARE = re.compile(r"(?!__)(?:[^\W\d]|\.(?![\d.]|$))[\w.]*")
FLAGS = {"TRUE": True, "True": True, "FALSE": False, "False": False}
LOOKALIKES = {
    "−": "-", "–": "-", "—": "-", "×": "*", "∗": "*", "·": "*", "÷": "/", "∼": "~", "˜": "~",
    "‘": "'", "’": "'", "“": '"', "”": '"', "„": '"', "´": "'", "≤": "<=", "≥": ">=", "≠": "!=",
}  # fmt: skip
IN_BACKTICKS = "If the name of a column has this character, put the name into backticks"
OTHERS = {
    "|": (
        "A formula has no random effects and no 'or'. With <site_effects>, each site has its own "
        "intercept"
    ),
    "&": (
        "A formula has no 'and'. Write I((a > 5) * (b < 3)), which is 1 in rows where both "
        "comparisons are true"
    ),
    "!": "A formula has no 'not'. Write I(x <= 5) for 'not x > 5'",
    "%": (
        "A formula has no %in%, %% or %/%. For an interaction, write a:b. For a comparison, "
        "write I(x == 'a')"
    ),
    "{": "Write I(...) for arithmetic",
    "}": "Write I(...) for arithmetic",
    "$": "Write only the name of the column",
    "@": "Write only the name of the column",
    "#": (
        f"A formula cannot contain a comment. {IN_BACKTICKS}. If not, delete the # and everything "
        "after the #"
    ),
    ";": "Write only one formula",
}


class Token(NamedTuple):
    kind: str  # name, number, word, dot, end, or the mark itself
    text: str  # of a name or a word: without its quotes
    start: int
    end: int
    quoted: bool = False


def place(text: str, start: int, end: int, hint: str = "") -> str:
    """Where in a formula something stands, and then what to do, for a message."""
    whole = text if len(text) <= SHOWN else f"{text[:SHOWN]}..."
    piece = text[start:end][:40]
    return f"at {piece!r} (character {start + 1}) in the formula {whole!r}{'. ' * bool(hint)}{hint}"


def shown(text: str) -> str:
    return repr(text if len(text) <= SHOWN else f"{text[:SHOWN]}...")


def clipped(name: str) -> str:
    return name if len(name) <= 60 else f"{name[:60]}..."


def is_bare(name: str) -> bool:
    """Whether a name needs no backticks."""
    if name in (*FLAGS, "NA"):
        return False
    return BARE.fullmatch(name) is not None and unicodedata.normalize("NFKC", name) == name


def tokens(text: str) -> list[Token]:
    found, at = [], 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        found.append(_next(text, at))
        at = found[-1].end
    return [*found, Token("end", "", len(text), len(text))]


def _next(text: str, at: int) -> Token:
    letter = text[at]
    if letter in "`'\"":
        return _quoted(text, at)
    if match := NUMBER.match(text, at):
        return _number(text, match)
    if _begins(text, at):
        return _name(text, at)
    if letter == ".":
        if text[at + 1 : at + 2] == ".":
            raise SpecError(f"formula: '..' is not a name, {place(text, at, at + 3)}")
        return Token("dot", ".", at, at + 1)
    mark = next((mark for mark in MARKS if text.startswith(mark, at)), None)
    if mark is None:
        unknown, hint = _unknown(letter)
        told = f"formula: {unknown}, {place(text, at, at + 1, hint)}"
        raise SpecError(told, settings=named_settings(told))
    return Token(mark, mark, at, at + len(mark))


def _unknown(letter: str) -> tuple[str, str]:
    """What is wrong with a character, and what to do."""
    if letter in OTHERS:
        return "this character is not known", OTHERS[letter]
    if letter in LOOKALIKES:
        return f"{letter!r} only looks like {(own := LOOKALIKES[letter])!r}", f"Write {own!r}"
    called = unicodedata.name(letter, f"U+{ord(letter):04X}").lower()
    return f"this character ({called}) is not known", IN_BACKTICKS


def _begins(text: str, at: int) -> bool:
    letter, after = text[at], text[at + 1 : at + 2]
    return (
        letter.isalpha() or letter == "_" or (letter == "." and (after.isalpha() or after == "_"))
    )


def _goes_on(letter: str) -> bool:
    return letter.isalnum() or letter in "._" or unicodedata.category(letter)[0] == "M"


def _name(text: str, at: int) -> Token:
    end = at
    while end < len(text) and _goes_on(text[end]):
        end += 1
    name = text[at:end]
    if (read := unicodedata.normalize("NFKC", name)) != name:
        told = f"{clipped(name)!r} has letters that only look like the letters of {clipped(read)!r}"
        hint = (
            f"If a column has this name, write `{clipped(name)}` in backticks. For a square, "
            "write I(x^2)"
        )
        raise SpecError(f"formula: {told}, {place(text, at, end, hint)}")
    if name.startswith("__"):
        told = f"{clipped(name)!r} begins with __"
        hint = "If a column has this name, put the name into backticks"
        raise SpecError(f"formula: {told}, {place(text, at, end, hint)}")
    return Token("name", name, at, end)


def _number(text: str, match: re.Match[str]) -> Token:
    at, end = match.span()
    if end < len(text) and _goes_on(text[end]):
        told = "there are letters directly after a number"
        hint = "Put a name that begins with a digit into backticks"
        raise SpecError(f"formula: {told}, {place(text, at, end + 1, hint)}")
    return Token("number", match[0].removesuffix("L"), at, end)


def _quoted(text: str, at: int) -> Token:
    """A word, or a name in backticks; a backslash keeps the next letter as it is."""
    quote, letters, end = text[at], [], at + 1
    while end < len(text) and text[end] != quote:
        end += text[end] == "\\" and quote != "`"
        letters.append(text[end : end + 1])
        end += 1
    if end >= len(text):
        raise SpecError(f"formula: the closing {quote} is missing, {place(text, at, len(text))}")
    if quote == "`" and text[end + 1 : end + 2] == "`" and letters:
        told = "a name in backticks must not contain a backtick"
        raise SpecError(f"formula: {told}, {place(text, at, end + 2, 'Rename the column')}")
    word = "".join(letters)
    if quote == "`" and not word.strip():
        raise SpecError(
            f"formula: there is no name between the backticks of `{word}`, "
            f"{place(text, at, end + 1)}"
        )
    return Token("name" if quote == "`" else "word", word, at, end + 1, quoted=True)
