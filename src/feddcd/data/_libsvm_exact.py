"""LIBSVM text, one token at a time: slow, and exact about what is wrong and where."""

from __future__ import annotations

import re
from typing import NoReturn

import numpy as np

from feddcd.data._rows import MAX_FEATURES, MAX_INDEX, Rows, Rules

from .._errors import DataError

TOKEN = re.compile(r"[^ \t]+")
NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
NOT_FINITE = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)
CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f]")
LONGEST_SHOWN = 40


class _Place:
    """A token in a file, and how to refuse it."""

    def __init__(self, rules: Rules, line: int, column: int, token: str):
        self.rules, self.line, self.column, self.token = rules, line, column, token

    def refuse(self, what: str, hint: str) -> NoReturn:
        token = self.token
        shown = token if len(token) <= LONGEST_SHOWN else token[:LONGEST_SHOWN] + "..."
        where = f"{self.rules.file}:{self.line}:{self.column}"
        raise DataError(f"{where}: {what} (token {shown!r}); {hint}")


def parse_lines(text: bytes, first_line: int, rules: Rules) -> Rows:
    """Rows of `text`; DataError with line and column at the first thing that is wrong."""
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
    return Rows(
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
        place.refuse("control character inside a line", "expected LIBSVM text, one row per line")
    return [_Place(rules, line, m.start() + 1, m.group()) for m in TOKEN.finditer(text)]


def _label(place: _Place) -> float:
    if ":" in place.token:
        place.refuse("a row without a label", "expected 'label index:value ...'")
    return _number(place, place.token, "label")


def _features(places: list[_Place]) -> dict[int, float]:
    row: dict[int, float] = {}
    for place in places:
        index_text, colon, value_text = place.token.partition(":")
        if index_text == "qid":
            place.refuse("a query id", "ranking files with qid: are not supported")
        if not colon or ":" in value_text:
            place.refuse("malformed feature", "expected index:value")
        index = _index(place, index_text)
        if index in row:
            first = index + place.rules.base
            place.refuse(f"duplicate index {first}", "an index may appear once in a row")
        row[index] = _number(place, value_text, "value")
    return row


def _index(place: _Place, text: str) -> int:
    base, n_features = place.rules.base, place.rules.n_features
    if not text:
        place.refuse("missing index", "expected index:value without blanks")
    if re.fullmatch(r"-[0-9]+", text):
        place.refuse(f"negative index {text[:LONGEST_SHOWN]}", f"indices start at {base}")
    if not re.fullmatch(r"[0-9]+", text):
        place.refuse("index is not a whole number", "expected index:value")
    digits = text.lstrip("0") or "0"
    if len(digits) > len(str(MAX_INDEX)) or int(digits) > MAX_INDEX:
        place.refuse("index is too large", f"the largest index allowed is {MAX_INDEX}")
    index = int(digits)
    if index < base:
        place.refuse("index 0 in a 1-based file", "pass index_base=0 if indices start at 0")
    if index <= place.rules.last:
        return index - base
    if n_features is not None:
        hint = f"the largest index allowed is {place.rules.last}"
        place.refuse(f"index {index} is beyond n_features={n_features}", hint)
    place.refuse(
        f"index {index} would make more than {MAX_FEATURES} features",
        "pass n_features if that is meant",
    )


def _number(place: _Place, text: str, what: str) -> float:
    if NOT_FINITE.fullmatch(text):
        place.refuse(f"{what} is not finite", "NaN and infinity are refused")
    if not text:
        place.refuse(f"missing {what}", "expected index:value without blanks")
    if not NUMBER.fullmatch(text):
        place.refuse(f"{what} is not a number", "expected a decimal number such as -1.5e-3")
    number = float(text)
    if not np.isfinite(number):
        place.refuse(f"{what} is too large for a float64", "the largest is about 1.8e308")
    return number
