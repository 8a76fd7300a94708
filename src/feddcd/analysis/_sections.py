"""The numbers of one table of a description, by its cells: for text, files and a page."""

from typing import NamedTuple

import numpy as np

from ._bars import Histogram
from ._bins import Quantile


class NumberSummary(NamedTuple):
    """By cell, the first being all rows; nan where it is not shown."""

    name: str
    present: np.ndarray
    missing: np.ndarray
    mean: np.ndarray
    sd: np.ndarray
    quantiles: tuple[tuple[Quantile | None, ...], ...]
    histogram: Histogram | None = None


class LevelSummary(NamedTuple):
    name: str
    levels: tuple[str, ...]
    counts: np.ndarray  # levels by cells
    share: np.ndarray  # of the rows without a missing value
    missing: np.ndarray


class Section(NamedTuple):
    """One table: its columns are cells, the first being all rows."""

    cells: tuple[str, ...]
    rows: np.ndarray
    numbers: tuple[NumberSummary, ...]
    levels: tuple[LevelSummary, ...]
