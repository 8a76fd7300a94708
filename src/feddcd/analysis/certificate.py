"""How far w can be from the optimum, in standard errors.

With g, H the gradient and Hessian of the sum at w, λ² = g'H⁻¹g and S² at least the largest
leverage x'H⁻¹x of a row: along any direction v the third derivative is at most max_j|x_j'v|
times the second, so the Hessian changes by no more than e^{±t max|x'v|}, and if λS < 1

    |w - w*|_H <= r = -ln(1 - λS) / S        (r = λ for least squares, S = 0).

So no coefficient is further from its optimum than r sqrt((H⁻¹)_kk), which is r standard errors
if these come from H; at the optimum they may be smaller by e^{rS/2}, which is counted in.
"""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve


class Bound(NamedTuple):
    decrement: float  # λ
    S: float
    r: float  # inf where λS >= 1

    @property
    def reach(self) -> float:
        """r in standard errors, be they taken at w or at the optimum."""
        return (
            self.r * float(np.exp(min(self.r * self.S / 2, 700.0))) if self.r < np.inf else np.inf
        )


def bound(decrement: float, S: float) -> Bound:
    x = decrement * S
    if not x < 1:
        return Bound(decrement, S, np.inf)
    r = decrement if x < 1e-12 else -np.log1p(-x) / S
    return Bound(decrement, S, float(r))


def decrement(g: np.ndarray, H: np.ndarray, size: float) -> tuple[float, float]:
    """λ, and what rounding may add to it when g was summed from terms of that size."""
    try:
        V = inverse(H)
    except np.linalg.LinAlgError:
        return np.inf, 0.0
    rounding = np.finfo(float).eps * size * np.sqrt(len(g) * np.trace(V))
    return float(np.sqrt(max(g @ V @ g, 0.0))), float(rounding)


def leverage(M: np.ndarray, m: np.ndarray) -> float:
    """S, from the sites' numbers."""
    with np.errstate(over="ignore"):
        return float(np.sqrt(np.max(M)) * np.exp(np.max(m) / 2))


def solve(H: np.ndarray, b: np.ndarray, least: float = 0.0) -> np.ndarray:
    """H⁻¹b by Cholesky of H with a unit diagonal; LinAlgError where H is not positive, or a pivot
    is not above `least`."""
    if not (np.all(np.isfinite(H)) and np.all(np.diag(H) > 0)):
        raise np.linalg.LinAlgError("the Hessian has no positive diagonal")
    D = np.sqrt(np.diag(H))
    column = D.reshape(-1, *[1] * (b.ndim - 1))
    L, lower = cho_factor(H / np.outer(D, D), lower=True)
    if not np.min(np.diag(L)) ** 2 > least:
        raise np.linalg.LinAlgError("the Hessian is nearly singular")
    return cho_solve((L, lower), b / column) / column


def inverse(H: np.ndarray, least: float = 0.0) -> np.ndarray:
    V = solve(H, np.eye(len(H)), least)
    return (V + V.T) / 2
