"""A job in plain words, for the person who decides."""

from collections.abc import Mapping, Sequence

import numpy as np

from ...analysis.protocol import SiteRows
from ._columns import smallest_cell


def describe_job(
    rows: SiteRows,
    columns: Mapping[str, np.ndarray],
    mode: str,
    exchanges: int,
    sites: Sequence[str],
    doubts: Sequence[str],
) -> list[str]:
    """A job in plain words, for the person who decides; names are quoted."""
    plan, cell = rows.plan, smallest_cell(columns)
    sums = "only a sum over all sites can be read" if mode == "sum" else "read by itself"
    asked = getattr(plan, "formula", None)
    lines = [
        "A job asks for sums over rows of this site:",
        f"  analysis: {plan.analysis!r}" + (f", family {plan.family!r}" if asked else ""),
        *([f"  formula: {asked!r}"] if asked else []),
        f"  columns of this site that enter: {', '.join(map(repr, rows.columns))}",
        f"  rows: {rows.n}, and {rows.dropped} left out since a value is missing",
        f"  smallest cell of categories: {'none' if cell is None else f'{cell} rows'}",
        f"  exchanges: at most {exchanges}",
        f"  what leaves: {len(columns)} columns' sums; {sums}",
        f"  who takes part: {', '.join(map(repr, sites))}",
    ]
    return lines + [f"  NOTE: {doubt}" for doubt in doubts]
