"""Columns that depend on others, wholly or nearly, as years and their squares do.

The Hessian at w = 0 has the null space of sum s x x', be there an offset or not. Where the earlier
columns leave less than NEARLY of a column's square, sums cannot tell how much is left. Then the
columns are asked for a second time in another basis, row by row: such a column less its combination
of the earlier ones, which takes it about its pooled mean, too. What is left is seen now, and as in
R's lm a column depends on the others where less than ALIASED of its square is.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from .._errors import Above, DataError
from ..formula import INTERCEPT
from ._model import Model
from ._sums import NONE
from ._values import NO_PREDICTOR

NEARLY = 1e-8
DEPENDENT = 1e-11
ALIASED = 1e-14


class Constant(DataError):
    """A column that the working weights of the rows make constant, or that is."""


class ColumnSquares(NamedTuple):
    """sum s x x' by the pilot's curvature, with a penalty if there is one."""

    H: np.ndarray  # in units of D
    D: np.ndarray

    @property
    def squares(self) -> np.ndarray:
        return np.diag(self.H) * self.D**2


def column_squares(model: Model, H: np.ndarray, D: np.ndarray) -> ColumnSquares:
    return ColumnSquares(H[:: model.k, :: model.k], D)


def check_zero(model: Model, gram: ColumnSquares) -> None:
    for name, square in zip(model.names, gram.squares, strict=True):
        if square == 0:
            raise DataError(f"the column {name!r} is 0 in every row", column=name, value=0)


def basis(model: Model, gram: ColumnSquares) -> np.ndarray:
    """The columns' combinations to ask for, d by d; empty where they may stay as they are. Those
    with a penalty do, so that it keeps its form."""
    free, d = np.flatnonzero(model.penalty == 0), len(gram.D)
    B = np.eye(d)
    for k, share, earlier, b in _left(gram.H[np.ix_(free, free)]):
        if share < NEARLY:
            at, by = free[earlier], free[k]
            B[at, by] = -b * gram.D[by] / gram.D[at]
    return B if np.count_nonzero(B) > d else NONE


def check_dependent(model: Model, raw: ColumnSquares, now: ColumnSquares, B: np.ndarray) -> None:
    """Refuses a column that is a combination of earlier ones and is not penalised; B is the basis
    of `now`, `raw` holds the columns as they are."""
    B = B if B.size else np.eye(len(now.D))
    size = np.sqrt(raw.squares)
    for k, share, earlier, b in _left(now.H):
        square = now.squares[k] * share
        if share <= DEPENDENT or square <= ALIASED * raw.squares[k]:
            mixed = B[:, earlier] @ (b * now.D[k] / now.D[earlier]) - B[:, k]
            weight = np.where(np.arange(len(size)) == k, 0.0, np.abs(mixed) * size)
            raise _dependent(k, model.names, weight)


class _Left(NamedTuple):
    column: int
    share: float  # of its square that the earlier columns do not explain
    earlier: list[int]
    weights: np.ndarray  # of those, in its combination


def _left(G: np.ndarray) -> Iterator[_Left]:
    """Column by column; dependent ones are left out of what follows."""
    kept: list[int] = []
    L = np.zeros_like(G)
    for k in range(len(G)):
        r = np.linalg.solve(L[np.ix_(kept, kept)], G[kept, k]) if kept else np.zeros(0)
        left = float(G[k, k] - r @ r)
        share = left / G[k, k] if G[k, k] > 0 else 0.0
        b = np.linalg.solve(L[np.ix_(kept, kept)].T, r) if kept else r
        yield _Left(k, share, list(kept), b)
        if share > DEPENDENT:
            L[k, kept], L[k, k] = r, np.sqrt(left)
            kept.append(k)


def _dependent(k: int, names: Sequence[str], weight: np.ndarray) -> DataError:
    heavy = np.flatnonzero(weight > 1e-4 * weight.max())
    if [names[int(j)] for j in heavy] == [INTERCEPT]:
        told = f"the column {names[k]!r} has the same value in every row, up to rounding"
        return Constant(f"{told}, {NO_PREDICTOR}", column=names[k])
    on = ", ".join(repr(names[int(j)]) for j in heavy[:12]) + (", ..." if len(heavy) > 12 else "")
    told = (
        f"the column {names[k]!r} can be computed from {on}, so the data cannot separate the "
        "effects of these columns. Leave out one of these columns, or give <l2>"
    )
    return DataError(
        told,
        column=names[k],
        settings={"l2": Above(0)},
    )
