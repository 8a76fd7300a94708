"""LIBSVM text, vectorised: a block of lines at a time, giving up where anything looks odd."""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np

from feddcd.data._rows import Rows, Rules

BLANK, NEWLINE, COLON, DIGIT, NUMERIC, ODD = range(6)
SPACE = ord(" ")
INDEX_DIGITS = 10
COMMENT = re.compile(rb"#[^\n]*")


def _kinds() -> bytes:
    table = bytearray([ODD] * 256)
    for kind, characters in (
        (BLANK, b" \t\r"),
        (NEWLINE, b"\n"),
        (COLON, b":"),
        (DIGIT, b"0123456789"),
        (NUMERIC, b"+-.eE"),
    ):
        for character in characters:
            table[character] = kind
    return bytes(table)


KINDS = _kinds()


class _Layout(NamedTuple):
    first: np.ndarray
    colon: np.ndarray
    is_label: np.ndarray
    line: np.ndarray


def parse_block(text: bytes, first_line: int, rules: Rules) -> Rows | None:
    """Rows of `text`, whole lines ending in a newline; None if the exact parser must look."""
    text = _plain(text)
    layout = _layout(text)
    if layout is None:
        return None
    buffer = np.frombuffer(text, np.uint8).copy()
    index = _take_indices(buffer, layout.first, layout.colon)
    if index is None or (index.size and not rules.base <= index.min() <= index.max() <= rules.last):
        return None
    fields = buffer.tobytes().split()
    try:
        numbers = np.fromiter(map(float, fields), np.float64, len(fields))
    except ValueError:
        return None
    if not np.isfinite(numbers).all():
        return None
    label = layout.is_label
    counts = np.diff(np.flatnonzero(label), append=label.size) - 1
    indices = (index - rules.base).astype(np.int32)
    return _sorted(numbers[label], numbers[~label], indices, counts, layout.line + first_line)


def _plain(text: bytes) -> bytes:
    if b"#" not in text:
        return text
    try:
        text.decode("utf-8")
    except UnicodeDecodeError:
        return text
    return COMMENT.sub(b"", text)


def _layout(text: bytes) -> _Layout | None:
    """Where labels, indices and values are, if every line reads `label (index:value)*`."""
    kind = np.frombuffer(text.translate(KINDS), np.uint8)
    if kind.max(initial=0) == ODD or text.count(b"\r") != text.count(b"\r\n"):
        return None
    token = kind >= COLON
    event = token.copy()
    event[1:] &= ~token[:-1]
    event |= (kind == COLON) | (kind == NEWLINE)
    at = np.flatnonzero(event)
    what = kind[at]
    start, colon, newline = what >= DIGIT, what == COLON, what == NEWLINE
    opens_line = np.concatenate(([True], newline[:-1]))
    feature = start & ~opens_line
    if colon[:1].any() or not np.array_equal(feature[:-1], colon[1:]):
        return None
    if (kind[at[colon] + 1] < DIGIT).any():
        return None
    is_label = opens_line[start]
    line = np.cumsum(newline)[start & opens_line]
    return _Layout(at[feature], at[colon], is_label, line)


def _take_indices(buffer: np.ndarray, first: np.ndarray, colon: np.ndarray) -> np.ndarray | None:
    """The indices before the colons, which are blanked in `buffer` so that values remain."""
    width = colon - first
    longest = int(width.max(initial=0))
    if longest > INDEX_DIGITS:
        return None
    index = np.zeros(colon.size, np.int64)
    for place in range(longest):
        here = np.flatnonzero(width > place)
        at = colon[here] - 1 - place
        digit = buffer[at] - np.uint8(48)
        if (digit > 9).any():
            return None
        index[here] += digit * np.int64(10**place)
        buffer[at] = SPACE
    buffer[colon] = SPACE
    return index


def _sorted(
    y: np.ndarray, data: np.ndarray, indices: np.ndarray, counts: np.ndarray, line: np.ndarray
) -> Rows | None:
    row = np.repeat(np.arange(y.size), counts)
    falls = (np.diff(indices) <= 0) & (row[1:] == row[:-1])
    if not falls.any():
        return Rows(y, data, indices, counts, 0, 0)
    order = np.lexsort((indices, row))
    indices, data = indices[order], data[order]
    if ((np.diff(indices) == 0) & (row[1:] == row[:-1])).any():
        return None
    rows = np.unique(row[1:][falls])
    return Rows(y, data, indices, counts, rows.size, int(line[rows[0]]))
