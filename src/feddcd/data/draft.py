"""The draft of a codebook from files. It holds names, types and levels, and no other value: not the
smallest and not the largest number, which are those of a person. Only where caps are asked for, it
has round numbers near values of some rows."""

from __future__ import annotations

import datetime
import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .._text import listed
from ._cells import DATE, fits
from .capping import WIDEST, by_others, is_guessable, proposals
from .frames import Frame

RARE = 5  # rows: levels with fewer are marked
MOST_LEVELS = 50  # more make a column of words an identifier, or free text
SHARED = 3  # rows: of one person with some visits, say; an age or a count has more
MOST_PLAIN = 20  # different values: with so few, a column is a category or a count
SCALE = 200  # from the least to the largest: ages, pressures and weights are within it
FILLED = 0.9  # of the whole numbers between both ends: measurements leave more of them out
BARE = re.compile(r"[A-Za-z0-9_-]+")
NAMED = re.compile(r"(^|[^a-z])(id|nr|mrn|number|code|name|uuid|key)$", re.IGNORECASE)
HEAD = """\
# This is a draft of a codebook, made from {files}.
# Read this codebook before you send it to others: it has names of columns and levels, {but}.
# The type is number, integer, category, boolean, date or identifier. You can also give:
#   label = "Age at admission"    unit = "years"    range = [0, 120]    missing = ["NA", "-9"]
#   roles = ["outcome", "predictor", "weight", "group", "offset"]
#   cap = [18, 90]    step = 5    (every site caps and rounds its values before a study uses them)
# A model compares the levels of a category with its first level, or with reference = "...".
"""


def draft(tables: Sequence[Frame], cap_rare: int | None = None) -> str:
    """The text of codebook.toml: all columns of all tables, levels of all of them together. With
    `cap_rare` caps are proposed, so that each value has this many rows in each of the tables."""
    names = list(dict.fromkeys(name for table in tables for name in table.frame.columns))
    but = "and caps that are computed from the data" if cap_rare else "but no other value"
    parts = [HEAD.format(files=listed([table.file for table in tables], 5), but=but)]
    for name in names:
        series = [table.frame[name] for table in tables if name in table.frame.columns]
        lacking = [table.file for table in tables if name not in table.frame.columns]
        values = [v for each in series for v in each.dropna().tolist()]
        notes = [f"# this column is missing in {listed(lacking, 5)}"] if lacking else []
        lines = _lines(name, values)
        if cap_rare and lines[0].startswith(('type = "integer"', 'type = "number"')):
            lines += _capped(by_others([table.frame for table in tables], name), cap_rare)
        parts.append("\n".join([f"[columns.{toml_key(name)}]", *notes, *lines, ""]))
    return "\n".join(parts)


def _capped(parts: Sequence[Sequence[np.ndarray]], k: int) -> list[str]:
    """Where others can list the values that a column may have, and some value has few rows."""
    counts = lambda x: np.unique(x, return_counts=True)[1]
    rare = [x for x in parts[0] if is_guessable(x) and counts(x).min() < k]
    if not rare:
        return []
    found = next(iter(proposals(parts, k)), None)
    if found is None:
        return [
            f"# feddcd found no cap and step that give each value at least {k} rows: use "
            "levels, or remove this column"
        ]
    names, lines = list(found.plain()), [f"{n} = {v}" for n, v in found.plain().items()]
    why = (
        f"  # feddcd chose {' and '.join(names)} from the data, so that each value has at least "
        f"{k} rows: check {'it' if len(names) == 1 else 'them'}"
    )
    return [lines[0] + why, *lines[1:]]


def _lines(name: str, values: list[Any]) -> list[str]:
    """The type of a column and its levels."""
    words = [v for v in values if isinstance(v, str)]
    if not values:
        return ['type = "number"  # check the type: this column has only missing values']
    if words:
        return _of_words([str(v) for v in values])
    if all(isinstance(v, bool) for v in values):
        return ['type = "boolean"']
    if any(not isinstance(v, int | float) for v in values):
        return ['type = "date"']
    if any(float(v) % 1 for v in values):
        return ['type = "number"']
    kinds = set(values)
    if is_identifier(name, values):
        return ['type = "identifier"']
    note = (
        "  # this column has few different values, so it can also be a category with levels = [...]"
        if 2 < len(kinds) < 10
        else ""
    )
    if may_identify(name, values):
        note = '  # if each value belongs to one person, write type = "identifier"'
    return [f'type = "integer"{note}']


def is_identifier(name: str, values: Sequence[Any]) -> bool:
    """Whether a column identifies people: no two rows share a word, or a whole number where
    the column's name says so, as mrn or patient_id do."""
    if len(values) < 2 or len(set(values)) < len(values):
        return False
    if all(isinstance(v, str) for v in values):
        return len(values) > RARE
    whole = all(isinstance(v, int | float) and not float(v) % 1 for v in values)
    return whole and NAMED.search(name) is not None


def may_identify(name: str, values: Sequence[Any]) -> bool:
    """Whether a column may number people of whom some have several rows, so that a count of rows
    does not protect them: the column's name says so, or most rows share their value with few
    others. Whole numbers must also lie further apart than those of a usual scale, or follow each
    other as patients in a list do."""
    counts = Counter(values)
    if len(counts) <= MOST_PLAIN or is_identifier(name, values):
        return False
    few = 2 * sum(n for n in counts.values() if n <= SHARED) > len(values)
    named = NAMED.search(name) is not None
    if all(isinstance(v, str) for v in counts):
        return few or named
    if not all(isinstance(v, int | float) and not float(v) % 1 for v in counts):
        return False
    apart = max(counts) - min(counts)
    in_order = apart >= SCALE and len(counts) >= FILLED * (apart + 1)
    return named or (few and (apart >= WIDEST or in_order))


def is_date(values: Iterable[Any]) -> bool:
    """Whether all values are dates or times, be they words."""
    worded = lambda v: isinstance(v, str) and fits(DATE, v.strip())
    return all(isinstance(v, datetime.date | datetime.time) or worded(v) for v in values)


def _of_words(values: list[str]) -> list[str]:
    counts = Counter(values)
    if is_date(counts):
        return ['type = "date"']
    if len(counts) > MOST_LEVELS or len(counts) == len(values) > RARE:
        return [f'type = "identifier"  # {len(counts)} different words are too many for a category']
    lines = ['type = "category"', "levels = ["]
    for level in sorted(counts):
        rare = (
            f"  # fewer than {RARE} rows have this level: may others know this level?"
            if counts[level] < RARE
            else ""
        )
        lines.append(f"  {_quoted(level)},{rare}")
    return [*lines, "]"]


def toml_key(name: str) -> str:
    """As a codebook names a column."""
    return name if BARE.fullmatch(name) else _quoted(name)


def _quoted(text: str) -> str:
    """A TOML string: JSON's, but for what it escapes beyond the basic plane; DEL is escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
