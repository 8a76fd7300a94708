"""How wide the columns of a table are in LaTeX, and how the table fits on a page of `article`.

Widths are those of Computer Modern at 10 pt, in points, and rough: a test compares them with LaTeX.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from .tables import Group, Row

TEXT = 330.0  # of 345 points: larger fonts have a little less room for their size
PAGE = 480.0  # of 550 points: a caption and notes are there, too
SIZES = (("normalsize", 1.0, 12.0), ("small", 0.93, 11.0), ("footnotesize", 0.86, 9.5))
GAP = 4.0  # \tabcolsep
QUAD = 10.0
NAME = 0.3  # of the line, at most, for a name
_WIDTHS = dict.fromkeys("ijlI.,;:'!|[]\u2008", 2.8) | dict.fromkeys("frst()- /", 3.9)
_WIDTHS |= dict.fromkeys("mMwW%@", 8.4) | dict.fromkeys("−+=<>≈≤≥≠×∞~^", 7.8)
_WIDTHS |= dict.fromkeys("ABCDEFGHJKLNOPQRSTUVXYZ&", 7.2)
_WIDE = 5.3  # of any other letter or digit
_POWER = re.compile(r"\de[-−]?\d")


class PaperFit(NamedTuple):
    """`blocks` are the columns beside the names that stand together; `name` is the share of the
    line at which names are broken, or None."""

    size: str
    blocks: list[list[int]]
    name: float | None


def text_width(text: str) -> float:
    powers = 14.0 * len(_POWER.findall(text))
    return powers + sum(_WIDTHS.get(letter, _WIDE) for letter in text)


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
    names = [text_width(row[0]) + QUAD * bool(title) for title, rows in groups for row in rows]
    longest = max([text_width(head[0]), *names])
    every, room = list(range(1, len(head))), lambda columns: 2 * GAP * len(columns)
    tall = sum(len(rows) + 1.5 * bool(title) for title, rows in groups)
    for size, factor, line in SIZES:
        narrow = factor * (longest + sum(wide)) + room(every) <= TEXT
        if narrow and (tall * line <= PAGE or size == SIZES[-1][0]):
            return PaperFit(size, [every], None)
    size, factor, _ = SIZES[-1]
    name = NAME if factor * longest > NAME * TEXT else None
    left = TEXT - min(factor * longest, NAME * TEXT)
    if factor * sum(wide) + room(every) <= left:
        return PaperFit(size, [every], name)
    blocks: list[list[int]] = [[]]
    for j in every:
        longer = [*blocks[-1], j]
        if blocks[-1] and factor * sum(wide[k - 1] for k in longer) + room(longer) > left:
            blocks.append([j])
        else:
            blocks[-1] = longer
    return PaperFit(size, blocks, name)
