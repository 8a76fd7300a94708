"""Numbers that are 0 or 1 in every row: what Table 1 shows of them are counts, not means."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ._describe_rows import Shape

if TYPE_CHECKING:
    from ._description import CellTable

LEVELS = [0, 1]


def zero_one(s1: np.ndarray, s2: np.ndarray, rows: np.ndarray, decimals: np.ndarray) -> np.ndarray:
    """By number, from sums of values and of squares over all rows: of whole numbers both are equal
    only if each is 0 or 1. A column that does not vary stays a number."""
    ones, squares, n = (each[:, -1] for each in (s1, s2, rows))
    return (ones == squares) & (ones > 0) & (ones < n) & (decimals == 0)


def as_levels(
    shape: Shape, tables: Sequence["CellTable"], flags: np.ndarray
) -> tuple[Shape, list["CellTable"], np.ndarray]:
    """The same tables, in which these numbers are categories of the levels 0 and 1; and which
    numbers are left. One stays a number where the sums of some group are not known."""
    flags = flags & np.all([_known(table) for table in tables], axis=0)
    kept = np.flatnonzero(~flags)
    moved = {shape.numbers[j]: int(j) for j in np.flatnonzero(flags)}
    levels = shape.levels | dict.fromkeys(moved, LEVELS)
    numbers = tuple(shape.numbers[j] for j in kept)
    new = shape._replace(numbers=numbers, levels={n: levels[n] for n in shape.names if n in levels})
    return new, [_moved(table, moved, kept) for table in tables], kept


def _known(table: "CellTable") -> np.ndarray:
    rows = table.known.by_cell
    return (table.seen.open | (rows == 0)).all(1)


def _moved(table: "CellTable", moved: dict[str, int], kept: np.ndarray) -> "CellTable":
    known, cells = table.known, len(table.known.n)
    counts = dict(known.levels)
    for name, j in moved.items():
        there = known.present[j]
        ones = np.rint(np.where(there > 0, table.mean[j, :cells], 0.0) * there).astype(np.int64)
        counts[name] = np.stack([there - ones, ones, known.n - there])
    place = {int(j): i for i, j in enumerate(kept)}
    quantiles = {(place[j], c): q for (j, c), q in table.quantiles.items() if j in place}
    return table._replace(
        known=known._replace(present=known.present[kept], levels=counts),
        seen=table.seen._replace(open=table.seen.open[kept]),
        mean=table.mean[kept],
        sd=table.sd[kept],
        quantiles=quantiles,
    )
