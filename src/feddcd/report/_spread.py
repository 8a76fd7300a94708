"""Several runs of one method as one: medians, and between which values half of the runs lie."""

from collections.abc import Sequence

import numpy as np

from ..history import COLUMNS, COUNTS, History
from ._entry import RunEntry
from ._numbers import QUARTILES


def median_entry(entries: Sequence[RunEntry]) -> RunEntry:
    """Round by round; a run that ended early keeps its last values, as its model does."""
    first, rounds = entries[0], max(entry.history.rounds for entry in entries)
    columns, bands = {}, {}
    for name in COLUMNS:
        values = np.stack([_to_the_end(entry.history[name], rounds) for entry in entries])
        low, middle, high = (_quantile(values, q) for q in (QUARTILES[0], 0.5, QUARTILES[1]))
        columns[name] = np.rint(middle) if name in COUNTS else middle
        bands[name] = (low, high)
    seeds = ", ".join(str(e.config["seed"]) for e in entries if "seed" in e.config)
    config = first.config | ({"seed": seeds} if seeds else {})
    each = tuple(entries) if len(entries) > 1 else ()
    return first._replace(history=History(columns), config=config, bands=bands, each=each)


def _to_the_end(column: np.ndarray, rounds: int) -> np.ndarray:
    column = column.astype(float)
    return np.concatenate([column, np.repeat(column[-1:], rounds - len(column))])


def _quantile(values: np.ndarray, q: float) -> np.ndarray:
    """Of the runs that have a value; nan where none has."""
    nobody = ~np.isfinite(values).any(0)
    found = np.nanquantile(np.where(nobody, 0.0, values), q, axis=0)
    return np.where(nobody, np.nan, found)
