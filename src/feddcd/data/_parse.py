"""LIBSVM text to rows: a quick parser of whole blocks, which gives up where anything looks odd, and
an exact one, a token at a time, which says what is wrong and where."""

from __future__ import annotations

import re
from typing import NamedTuple, NoReturn

import numpy as np

from .._errors import DataError

MAX_INDEX = 2**31 - 2
MAX_FEATURES = 100_000_000
TOKEN = re.compile(r"[^ \t]+")
NUMBER = re.compile(r"[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?")
NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
LONGEST_SHOWN = 40
BLANK, NEWLINE, COLON, DIGIT, NUMERIC, ODD = range(6)
CHARACTERS = (b" \t\r", b"\n", b":", b"0123456789", b"+-.eE")  # by kind; all others are odd
KIND_OF = {c: kind for kind, characters in enumerate(CHARACTERS) for c in characters}
KINDS = bytes(KIND_OF.get(c, ODD) for c in range(256))
SPACE = ord(" ")
INDEX_DIGITS = 10
COMMENT = re.compile(rb"#[^\n]*")


class Rules(NamedTuple):
    """How the indices of one file are to be read."""

    file: str
    base: int
    n_features: int | None

    @property
    def last(self) -> int:
        """The largest index allowed in the file."""
        return min((self.n_features or MAX_FEATURES) - 1 + self.base, MAX_INDEX)


class RowBlock(NamedTuple):
    """Parsed rows; `indices` count from 0 and are sorted in each of the rows."""

    y: np.ndarray
    data: np.ndarray
    indices: np.ndarray
    counts: np.ndarray
    unsorted: int
    first_unsorted: int

    @staticmethod
    def join(parts: list[RowBlock]) -> RowBlock:
        """All parts as one, in order."""
        y, data, indices, counts, unsorted, first = zip(*parts, strict=True)
        y, data, indices, counts = map(np.concatenate, (y, data, indices, counts))
        return RowBlock(y, data, indices, counts, sum(unsorted), next(filter(None, first), 0))


class _Layout(NamedTuple):
    first: np.ndarray
    colon: np.ndarray
    is_label: np.ndarray
    line: np.ndarray


def parse_block(text: bytes, first_line: int, rules: Rules) -> RowBlock | None:
    """RowBlock of `text`, whole lines ending in a newline; None if the exact parser must look."""
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
) -> RowBlock | None:
    row = np.repeat(np.arange(y.size), counts)
    falls = (np.diff(indices) <= 0) & (row[1:] == row[:-1])
    if not falls.any():
        return RowBlock(y, data, indices, counts, 0, 0)
    order = np.lexsort((indices, row))
    indices, data = indices[order], data[order]
    if ((np.diff(indices) == 0) & (row[1:] == row[:-1])).any():
        return None
    rows = np.unique(row[1:][falls])
    return RowBlock(y, data, indices, counts, rows.size, int(line[rows[0]]))


class _Place:
    """A token in a file, and how to refuse it."""

    def __init__(self, rules: Rules, line: int, column: int, token: str):
        self.rules, self.line, self.column, self.token = rules, line, column, token

    def refuse(self, what: str, hint: str) -> NoReturn:
        token = self.token
        shown = token if len(token) <= LONGEST_SHOWN else token[:LONGEST_SHOWN] + "..."
        where = f"{self.rules.file}:{self.line}:{self.column}"
        raise DataError(f"{where}: {what} (at {shown!r}); {hint}")


def parse_lines(text: bytes, first_line: int, rules: Rules) -> RowBlock:
    """RowBlock of `text`; DataError with line and column at the first thing that is wrong."""
    y, data, indices, counts = [], [], [], []
    unsorted: list[int] = []
    for line, raw in enumerate(text.split(b"\n"), first_line):
        tokens = _tokens(raw, line, rules)
        if not tokens:
            continue
        y.append(_label(tokens[0]))
        row = _features(tokens[1:])
        if list(row) != sorted(row):
            unsorted.append(line)
        indices.extend(sorted(row))
        data.extend(row[index] for index in sorted(row))
        counts.append(len(row))
    return RowBlock(
        np.array(y, np.float64),
        np.array(data, np.float64),
        np.array(indices, np.int32),
        np.array(counts, np.int64),
        len(unsorted),
        unsorted[0] if unsorted else 0,
    )


def _tokens(raw: bytes, line: int, rules: Rules) -> list[_Place]:
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        column = len(raw[: error.start].decode("utf-8")) + 1
        token = raw[error.start :].decode("utf-8", "replace").split()[0]
        what = f"byte 0x{raw[error.start]:02x} is not UTF-8"
        _Place(rules, line, column, token).refuse(what, "expected LIBSVM text")
    text = text.partition("#")[0].removesuffix("\r")
    if odd := CONTROL.search(text):
        place = _Place(rules, line, odd.start() + 1, odd.group())
        place.refuse(
            "there is a control character in this line",
            "a LIBSVM file is text with one row in each line",
        )
    return [_Place(rules, line, m.start() + 1, m.group()) for m in TOKEN.finditer(text)]


def _label(place: _Place) -> float:
    if ":" in place.token:
        place.refuse("this row has no label", "expected 'label index:value ...'")
    return _number(place, place.token, "the label")


def _features(places: list[_Place]) -> dict[int, float]:
    row: dict[int, float] = {}
    for place in places:
        index_text, colon, value_text = place.token.partition(":")
        if index_text == "qid":
            place.refuse(
                "this row has a query id", "feddcd cannot read files with query ids (qid:)"
            )
        if not colon or ":" in value_text:
            place.refuse("this is not an index and a value", "expected index:value")
        index = _index(place, index_text)
        if index in row:
            first = index + place.rules.base
            place.refuse(f"the index {first} occurs twice", "an index may occur only once in a row")
        row[index] = _number(place, value_text, "the value")
    return row


def _index(place: _Place, text: str) -> int:
    base, n_features = place.rules.base, place.rules.n_features
    if not text:
        place.refuse("the index is missing", "expected index:value without blanks")
    if re.fullmatch(r"-[0-9]+", text):
        place.refuse(f"the index {text[:LONGEST_SHOWN]} is negative", f"the first index is {base}")
    if not re.fullmatch(r"[0-9]+", text):
        place.refuse("the index is not a whole number", "expected index:value")
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(MAX_INDEX)) or int(digits) > MAX_INDEX:
        place.refuse("the index is too large", f"the largest index allowed is {MAX_INDEX}")
    index = int(digits)
    if index < base:
        place.refuse(
            "the index is 0, but the first index of this file should be 1",
            "if the first index is 0, give index_base=0",
        )
    if index <= place.rules.last:
        return index - base
    if n_features is not None:
        hint = f"the largest index allowed is {place.rules.last}"
        place.refuse(f"the index {index} is larger than n_features={n_features}", hint)
    place.refuse(
        f"with the index {index}, the data would have more than {MAX_FEATURES} features",
        "if this index is right, give n_features",
    )


def _number(place: _Place, text: str, what: str) -> float:
    if NOT_FINITE.fullmatch(text):
        place.refuse(f"{what} is not finite", "NaN and infinity are not allowed")
    if not text:
        place.refuse(f"{what} is missing", "expected index:value without blanks")
    if not NUMBER.fullmatch(text):
        place.refuse(f"{what} is not a number", "expected a decimal number such as -1.5e-3")
    number = float(text)
    if not np.isfinite(number):
        place.refuse(
            f"{what} is too large for a float64", "the largest possible number is about 1.8e308"
        )
    return number
