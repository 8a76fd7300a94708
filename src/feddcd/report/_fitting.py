"""How wide the columns of a table are in LaTeX, and how the table fits on a page of `article`.

Widths are those of Computer Modern at 10 pt, in points: a test compares them with LaTeX.
"""

import math
import re
from collections.abc import Sequence
from typing import NamedTuple

from .tables import Bold, Group, Row

TEXT = 330.0  # of 345 points: larger fonts have a little less room for their size
PAGE = 480.0  # of 550 points: a caption and notes are there, too
SIZES = (("normalsize", 1.0, 12.0), ("small", 0.93, 11.0), ("footnotesize", 0.86, 9.5))
LEAST = ("scriptsize", 0.8)  # before columns are torn apart
GAP = 4.0  # \tabcolsep
QUAD = 10.0
NAME = 0.25  # of the line, at least, for names that are broken
BOLD = 1.16
_WIDTHS = {
    letter: width
    for letters, width in {
        "ijlI.,:;'!|`[]\u2008": 2.8, "ft()/-’": 3.9, " ": 3.4, "r_s": 4.0, "ce": 4.5, "z": 4.5,
        "bdhknpquvxy": 5.6, "agoJ\u2007": 5.1, "L": 6.3, "FPSTZ": 6.9, "ABCDEGHKNOQRUVXY&": 7.9,
        "mw%@−+=<>≈≤≥≠×": 8.4, "MW∞": 10.3,
    }.items()
    for letter in letters
}  # fmt: skip
_DIGIT = 5.0
_OTHER = 6.5
_POWER = re.compile(r"\de[-−]?\d")


class PaperFit(NamedTuple):
    """`blocks` are the columns beside the names that stand together; `name` is the share of the
    line at which names are broken, or None."""

    size: str
    blocks: list[list[int]]
    name: float | None


def text_width(text: str) -> float:
    powers = 15.0 * len(_POWER.findall(text))
    usual = lambda letter: _DIGIT if letter.isdigit() else _OTHER
    width = powers + sum(_WIDTHS.get(letter) or usual(letter) for letter in text)
    return width * BOLD if isinstance(text, Bold) else width


def head_lines(name: str, room: float) -> list[str]:
    """The words of a head in lines that are no wider than this, or than the longest word."""
    words = name.split(" ")
    room = max([room, *map(text_width, words)])
    lines = [words[0]]
    for word in words[1:]:
        longer = f"{lines[-1]} {word}"
        if text_width(longer) <= room:
            lines[-1] = longer
        else:
            lines.append(word)
    return lines


def body_widths(head: Row, groups: Sequence[Group]) -> list[float]:
    """Of the columns beside the names, without their heads."""
    rows = [row for _, each in groups for row in each]
    return [max([0.0, *(text_width(row[j]) for row in rows)]) for j in range(1, len(head))]


def fitted(head: Row, groups: Sequence[Group]) -> PaperFit:
    bodies = body_widths(head, groups)
    wide = [
        max(map(text_width, head_lines(name, body)))
        for name, body in zip(head[1:], bodies, strict=True)
    ]
    wide = [max(pair) for pair in zip(wide, bodies, strict=True)]
    indent = QUAD if any(title for title, _ in groups) else 0.0
    firsts = [head[0], *(row[0] for _, rows in groups for row in rows)]
    longest = indent + max(map(text_width, firsts))
    word = indent + max(text_width(word) for name in firsts for word in name.split(" "))
    every = list(range(1, len(head)))
    tall = sum(len(rows) + 1.5 * bool(title) for title, rows in groups)
    for size, factor, line in SIZES:
        whole = factor * longest + _total(every, wide, factor) <= TEXT
        if whole and (tall * line <= PAGE or size == SIZES[-1][0]):
            return PaperFit(size, [every], None)
    for size, factor in (SIZES[-1][:2], LEAST):
        left = TEXT - _total(every, wide, factor)
        if factor * longest <= left:
            return PaperFit(size, [every], None)
        if left >= max(NAME * TEXT, factor * word):
            return PaperFit(size, [every], _share(left - factor * indent))
    size, factor, _ = SIZES[-1]
    first = min(factor * longest, max(NAME * TEXT, factor * word))
    name = _share(first - factor * indent) if first < factor * longest else None
    return PaperFit(size, _balanced(every, wide, factor, TEXT - first), name)


def _total(columns: Sequence[int], wide: Sequence[float], factor: float) -> float:
    return sum(factor * wide[j - 1] + 2 * GAP for j in columns)


def _share(points: float) -> float:
    """Of the line, rounded down."""
    return math.floor(100 * points / TEXT) / 100


def _balanced(
    every: Sequence[int], wide: Sequence[float], factor: float, left: float
) -> list[list[int]]:
    """As few blocks as there can be, the widest of them as narrow as it can be: otherwise one
    narrow column may stand alone below a full block."""
    total = lambda block: _total(block, wide, factor)
    blocks: list[list[int]] = [[]]
    for j in every:
        longer = [*blocks[-1], j]
        if blocks[-1] and total(longer) > left:
            blocks.append([j])
        else:
            blocks[-1] = longer
    widest = max(map(total, blocks))
    if len(blocks) == 1 or widest <= max(map(total, ([j] for j in every))):
        return blocks
    narrower = _balanced(every, wide, factor, widest - 0.01)
    return narrower if len(narrower) == len(blocks) else blocks
