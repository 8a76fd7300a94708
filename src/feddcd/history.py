"""What a run recorded, one row per round, and how it is kept on disk."""

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ._errors import SpecError
from ._text import plural

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    "round",
    "iteration",
    "uploads",
    "bytes_up",
    "bytes_down",
    "objective",
    "lower_bound",
    "certified_gap",
    "accuracy",
    "dual_residual",
    "solver_steps",
    "seconds",
)
COUNTS = frozenset({"round", "iteration", "uploads", "bytes_up", "bytes_down", "solver_steps"})

UNCOUNTED = frozenset({"bytes_down", "solver_steps"})  # by the coordinator of a federation


class History(Mapping[str, np.ndarray]):
    """Columns by name, all of one length; `nan` where a round has no such value.

    `dual_residual` is the norm of the sums that the method keeps at zero (`measure.dual_residual`);
    it is rounding in a simulation, and not the distance from the optimum.
    """

    def __init__(self, columns: Mapping[str, np.ndarray]):
        missing = [name for name in COLUMNS if name not in columns]
        if missing:
            raise SpecError(f"the history has no columns {missing}")
        self._columns = {name: _column(name, columns[name]) for name in COLUMNS}
        lengths = {name: len(column) for name, column in self._columns.items()}
        if len(set(lengths.values())) > 1:
            raise SpecError(f"the columns of the history have different lengths: {lengths}")

    @classmethod
    def empty(cls) -> "History":
        return cls({name: np.zeros(0) for name in COLUMNS})

    def __getitem__(self, name: str) -> np.ndarray:
        return self._columns[name]

    def __iter__(self):
        return iter(self._columns)

    def __len__(self) -> int:
        """The number of columns, as for any mapping; `rounds` counts the rows."""
        return len(self._columns)

    def __repr__(self) -> str:
        return f"History({plural(self.rounds, 'round')}; columns {', '.join(self)})"

    @property
    def rounds(self) -> int:
        return len(self._columns["round"])

    def plus(self, other: "History") -> "History":
        return History({name: np.concatenate([self[name], other[name]]) for name in COLUMNS})

    def last(self, name: str) -> float:
        """The latest value that is not `nan`; `nan` if there is none."""
        column = self[name][~np.isnan(self[name].astype(float))]
        return float(column[-1]) if len(column) else float("nan")

    def rows(self, first: int = 0) -> list[dict[str, float]]:
        """What each round from the `first` on (counted from 0) has a value for."""
        row = lambda i: {name: self[name][i].item() for name in COLUMNS}
        return [
            {name: x for name, x in row(i).items() if x == x} for i in range(first, self.rounds)
        ]

    def to_pandas(self) -> "pd.DataFrame":
        import pandas as pd

        return pd.DataFrame(self._columns)

    def save(self, path: Path) -> None:
        with open(path, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(COLUMNS)
            for i in range(self.rounds):
                writer.writerow([_text(name, self[name][i]) for name in COLUMNS])

    @classmethod
    def load(cls, path: Path) -> "History":
        with open(path, newline="") as file:
            rows = list(csv.reader(file))
        if not rows or tuple(rows[0]) != COLUMNS:
            raise SpecError(f"the first line must be {','.join(COLUMNS)}")
        columns = {}
        for j, name in enumerate(COLUMNS):
            columns[name] = np.array([_number(i, row, j) for i, row in enumerate(rows[1:])])
        return cls(columns)


def _column(name: str, values: np.ndarray) -> np.ndarray:
    """Counts are whole numbers, but in a column that was not counted everywhere."""
    column = np.array(values, float)
    return np.array(values, np.int64) if name in COUNTS and not np.isnan(column).any() else column


def _text(name: str, value: float) -> str:
    if np.isnan(value):
        return ""
    return str(int(value)) if name in COUNTS else repr(float(value))


def _number(i: int, row: list[str], j: int) -> float:
    try:
        (text,) = row[j : j + 1]
        if COLUMNS[j] in COUNTS - UNCOUNTED or (text and COLUMNS[j] in COUNTS):
            return int(text)
        return float(text) if text else float("nan")
    except ValueError:
        got = (repr(row[j]) if row[j] else "an empty entry") if j < len(row) else "nothing"
        raise SpecError(
            f"line {i + 2} must have a number in the column {COLUMNS[j]!r}, but has {got}"
        ) from None
