"""What the names in a regression table stand for: a class, a column, a level of a category."""

import re
from typing import NamedTuple

import numpy as np

from .formula import INTERCEPT
from .result import Fitted, TableResult, result_of

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


def coefficients(fit: TableResult | Fitted) -> list[Coefficient]:
    """Every row of the table, in its order."""
    result = result_of(fit)
    labels = [str(label) for label in result.table.index]
    if result.classes is None:
        return [Coefficient(label, label, None) for label in labels]
    classes = [str(c) for c in result.classes[1:]]
    each = np.repeat(classes, len(labels) // len(classes)).tolist()
    return [
        Coefficient(label, label.removeprefix(f"{c}: "), c)
        for label, c in zip(labels, each, strict=True)
    ]


def design(fit: TableResult | Fitted) -> list[str]:
    """The columns of the design matrix, without the intercept."""
    columns = dict.fromkeys(c.column for c in coefficients(fit))
    return [name for name in columns if name != INTERCEPT]


def is_made(fit: TableResult | Fitted, column: str) -> bool:
    """Whether the column was made by a formula or stands for a site; others mean what they say."""
    result = result_of(fit)
    of_site = result.site_effects == "fixed" and column.startswith("site[")
    return result.formula is not None or of_site


def level(column: str) -> Level | None:
    """`C(sex)[T.m]` is sex = m against the reference; None for a column of numbers."""
    match = LEVEL.fullmatch(column)
    if match is None or len(factors(column)) > 1:
        return None
    name = (match["a"] or match["b"]).strip()
    return Level(name, match["level"], match["t"] is not None)


def factors(column: str) -> list[str]:
    """`a:C(b)[T.x]` is a product of two; a colon within brackets does not divide."""
    parts, depth, start = [], 0, 0
    for at, letter in enumerate(column):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
        if letter == ":" and depth == 0:
            parts.append(column[start:at])
            start = at + 1
    return [*parts, column[start:]]


def response(fit: TableResult | Fitted) -> str | None:
    """The left side of the formula."""
    formula = result_of(fit).formula
    return None if formula is None else formula.split("~")[0].strip()
