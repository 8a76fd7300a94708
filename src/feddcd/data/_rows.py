"""What the two LIBSVM parsers share: the rules of a file and the rows they return."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

MAX_INDEX = 2**31 - 2
MAX_FEATURES = 100_000_000


class Rules(NamedTuple):
    """How the indices of one file are to be read."""

    file: str
    base: int
    n_features: int | None

    @property
    def last(self) -> int:
        """The largest index allowed in the file."""
        return min((self.n_features or MAX_FEATURES) - 1 + self.base, MAX_INDEX)


class Rows(NamedTuple):
    """Parsed rows; `indices` count from 0 and are sorted in each of the rows."""

    y: np.ndarray
    data: np.ndarray
    indices: np.ndarray
    counts: np.ndarray
    unsorted: int
    first_unsorted: int

    @staticmethod
    def join(parts: list[Rows]) -> Rows:
        """All parts as one, in order."""
        return Rows(
            np.concatenate([part.y for part in parts]),
            np.concatenate([part.data for part in parts]),
            np.concatenate([part.indices for part in parts]),
            np.concatenate([part.counts for part in parts]),
            sum(part.unsorted for part in parts),
            next((part.first_unsorted for part in parts if part.unsorted), 0),
        )
