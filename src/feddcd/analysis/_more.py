"""Tables that were asked for beside the coefficients: how they are shown, printed and exported."""

import math
from collections.abc import Mapping
from typing import Any

import pandas as pd

from .._text import printable
from . import _layout as layout

TESTED = "the model against a model without the term"
TITLES = {
    "wald_tests": "Wald test of each term",
    "lr_tests": f"Likelihood-ratio test of each term: {TESTED}",
    "contrasts": "Contrasts of coefficients",
    "vif": "Variance inflation",
}
Tables = Mapping[str, pd.DataFrame]


def title(name: str, table: pd.DataFrame) -> str:
    """Of nested models of which the dispersion is estimated, R's drop1 has an F test."""
    by_f = name == "lr_tests" and "F" in table
    return f"F test of each term: {TESTED}" if by_f else TITLES[name]


def lines(more: Tables, limit: int | None = None) -> list[str]:
    """As a summary prints them, in lines of `limit` letters."""
    made = []
    for name, table in more.items():
        made += ["", *layout.wrapped([title(name, table)], limit), *_lines(table, limit)]
    return made


def _lines(table: pd.DataFrame, limit: int | None) -> list[str]:
    head, *rows = cells(table)
    first = max(16, *(len(row[0]) for row in rows)) if rows else 16
    width = max(11, *(len(cell) + 2 for row in [head, *rows] for cell in row[1:]))
    if limit is not None and first + width * (len(head) - 1) > limit:
        names = [printable(row[0]) for row in rows]
        parts = layout.block(names, head[1:], [row[1:] for row in rows], limit)
        return [line for part in parts for line in part]
    show = lambda row: row[0].ljust(first) + "".join(f"{cell:>{width}}" for cell in row[1:])
    return [show(["", *head[1:]]), *map(show, rows)]


def cells(table: pd.DataFrame) -> list[list[str]]:
    """Words for a head, and for each row."""
    head = [str(table.index.name), *(str(name) for name in table.columns)]
    values = table.to_dict("index").items()
    rows = [[str(name), *(_cell(c, x) for c, x in row.items())] for name, row in values]
    return [head, *rows]


def _cell(column: Any, value: float) -> str:
    if math.isnan(value):
        return "-"
    if column == "p":
        return f"{value:.3f}" if value >= 0.001 else "< 0.001"
    return str(value) if isinstance(value, int) else f"{value:#.4g}".rstrip(".")


def document(more: Tables) -> dict[str, Any]:
    """As JSON has them: a list of rows for each."""
    plain = lambda x: None if isinstance(x, float) and not math.isfinite(x) else x
    return {
        name: [
            {str(k): plain(v) for k, v in row.items()}
            for row in table.reset_index().to_dict("records")
        ]
        for name, table in more.items()
    }
