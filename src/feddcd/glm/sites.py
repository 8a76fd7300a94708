"""The sites' rows as one stacked problem, in units that suit the computer.

Columns are divided by D (root mean squares), a gaussian response by its own, and the objective
by c = (sum of weights) / N. Newton's method does not see any of this: a deployed server would
do the same to the sums it receives, D being the diagonal of the first of them.
"""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from ..problems import Regression, stack_rows
from .families import LOSS


class Rows(NamedTuple):
    """All rows, in the user's units."""

    family: str
    X: np.ndarray
    Y: np.ndarray
    s: np.ndarray
    offset: np.ndarray
    parts: Sequence[np.ndarray]  # each site's rows
    penalty: np.ndarray  # per column of X


class Sites(NamedTuple):
    problem: Regression  # leading axis N
    D: np.ndarray
    unit: float  # of a gaussian response
    c: float

    def coefficients(self, w: np.ndarray) -> np.ndarray:
        """In the user's units, from those of the problem."""
        return self.unit * w / self.D[:, None]


def stacked(rows: Rows) -> Sites:
    N, n, k = len(rows.parts), max(map(len, rows.parts)), rows.Y.shape[1]
    D = column_scale(rows.X, rows.s)
    centred = rows.Y[:, 0] - rows.offset
    unit = 1.0 if rows.family != "gaussian" else _rms(centred, rows.s)
    c = float(rows.s.sum()) / N
    Y, s, offset = np.zeros((N, n, k)), np.zeros((N, n)), np.zeros((N, n, 1))
    for i, part in enumerate(rows.parts):
        Y[i, : len(part)], s[i, : len(part)] = rows.Y[part] / unit, rows.s[part] / c
        offset[i, : len(part), 0] = rows.offset[part] / unit
    penalty = rows.penalty / D**2 / (c * N)
    problem = Regression(
        X=stack_rows(rows.X / D, rows.parts, np.float64),
        Y=jnp.asarray(Y),
        s=jnp.asarray(s),
        family=LOSS[rows.family],
        mu=jnp.zeros(N),
        rows=jnp.asarray([len(part) for part in rows.parts]),
        loss_alpha=jnp.zeros(N),
        loss_beta=jnp.full(N, jnp.inf),
        offset=jnp.asarray(offset),
        penalty=jnp.asarray(np.tile(penalty[:, None], (N, 1, 1))),
    )
    return Sites(problem, D, unit, c)


def column_scale(X: np.ndarray, s: np.ndarray) -> np.ndarray:
    """Root mean squares; 1 for a column of zeros."""
    D = np.sqrt(s @ X**2 / s.sum())
    return np.where(D > 0, D, 1.0)


def _rms(x: np.ndarray, s: np.ndarray) -> float:
    return float(np.sqrt(s @ x**2 / s.sum())) or 1.0
