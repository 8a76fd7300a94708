"""What the names in a regression table stand for: a class, a column, a level of a category."""

import re
from typing import Any, NamedTuple

from .frame import INTERCEPT

LEVEL = re.compile(
    r"(?:C\((?P<a>[^,()]+)(?:,.*)?\)|(?P<b>[^\[\]():]+))\[(?P<t>T\.)?(?P<level>.+)\]"
)


class Level(NamedTuple):
    column: str
    level: str
    relative: bool  # to a reference category, which has no column of its own


class Coefficient(NamedTuple):
    label: str  # as in the table
    column: str  # of the design matrix
    label_of_class: str | None  # of a multinomial model


def coefficients(fit: Any) -> list[Coefficient]:
    """Every row of the table, in its order."""
    labels = [str(label) for label in fit.table_.index]
    if fit.family != "multinomial":
        return [Coefficient(label, label, None) for label in labels]
    classes = [str(c) for c in fit.classes_[1:]]
    size = len(labels) // len(classes)
    found = []
    for i, label in enumerate(labels):
        c = classes[i // size]
        found.append(Coefficient(label, label.removeprefix(f"{c}: "), c))
    return found


def design(fit: Any) -> list[str]:
    """The columns of the design matrix, without the intercept."""
    columns = dict.fromkeys(c.column for c in coefficients(fit))
    return [name for name in columns if name != INTERCEPT]


def is_made(fit: Any, column: str) -> bool:
    """Whether the column was made by a formula or stands for a site; others mean what they say."""
    return fit.formula is not None or (fit.site_effects == "fixed" and column.startswith("site["))


def level(column: str) -> Level | None:
    """`C(sex)[T.m]` is sex = m against the reference; None for a column of numbers."""
    found = LEVEL.fullmatch(column)
    if found is None or len(factors(column)) > 1:
        return None
    name = (found["a"] or found["b"]).strip()
    return Level(name, found["level"], found["t"] is not None)


def factors(column: str) -> list[str]:
    """`a:C(b)[T.x]` is a product of two; a colon within brackets does not divide."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(column):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
        if letter == ":" and depth == 0:
            parts.append(column[start:at])
            start = at + 1
    return [*parts, column[start:]]


def response(fit: Any) -> str | None:
    """The left side of the formula."""
    return None if fit.formula is None else fit.formula.split("~")[0].strip()
