"""What a site says of its columns before a job, without a look at any value.

The kinds and levels are those of a codebook. Rows that nobody has are made of it, and the analysis
makes its offer of them: so the offer is the same whoever the patients are.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...analysis.protocol import Analysis, Offered
from ...data.codebook import Codebook, ColumnEntry
from ...data.frames import Frame
from ...formula import read_formula
from ._words import only_complete
from .policy import Outgoing, not_allowed

NUMBERS = ("number", "integer")


def offer_of(book: Codebook, plan: Any, analysis: Analysis, entering: Sequence[str]) -> Offered:
    """Refuses by name what the codebook does not say: levels of a column of numbers."""
    made = analysis.offer(_nobody(book, entering), plan)
    known = book.levels(entering)
    told = dict(made.offer.levels)
    if made.offer.classes is not None:
        told[str(read_formula(plan.formula).outcome)] = made.offer.classes
    for name, levels in told.items():
        if not set(levels) <= set(known.get(name, ())):
            raise not_allowed(
                f"levels of the column {name[:50]!r}, because the codebook of this site does not "
                "list them"
            )
    return made._replace(classes={}, levels={})  # no rows are behind these names


def behind(out: Outgoing, found: Offered) -> Outgoing:
    """With the rows behind the names, for the rules; and with what leaves, for the log."""
    offer = found.offer
    sent = {"names": offer.columns or [], "levels": offer.levels, "classes": offer.classes or []}
    return out._replace(classes=found.classes, levels=found.levels, sent=sent)


def plain_numbers(table: Frame, plan: Any, entering: Sequence[str]) -> Codebook | None:
    """Of a plan of nothing but columns of numbers, to which nothing was declared. Of columns that
    are only in `complete` nothing is sent, so they may have words."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    declared = plan.codebook or plan.levels or getattr(plan, "classes", None)
    number = lambda column: is_numeric_dtype(column) and not is_bool_dtype(column)
    sent = {*entering} - {*only_complete(plan, entering)}
    plain = all(number(table.frame[name]) and name not in table.doubts for name in sent)
    if declared or not plain:
        return None
    return Codebook({name: ColumnEntry("number") for name in entering})


def _nobody(book: Codebook, entering: Sequence[str]) -> Any:
    """As many rows as the longest list of levels, so that each level is there."""
    import pandas

    levels = book.levels(entering)
    n = max([3, *map(len, levels.values())])
    cycle = lambda values: [values[i % len(values)] for i in range(n)]

    def column(name: str, entry: ColumnEntry) -> Any:
        if entry.type == "category":
            return pandas.Categorical(cycle(levels[name]), categories=levels[name])
        if entry.type == "boolean":
            return np.array(cycle([False, True]))
        if entry.type not in NUMBERS:
            return cycle(["a date"])
        low, high = (1.0, float(n)) if entry.range is None else entry.range
        low, high = entry.capping.of(np.array([low, high]))  # no row has more
        return np.linspace(low, high, n)

    return pandas.DataFrame({name: column(name, book.columns[name]) for name in entering})
