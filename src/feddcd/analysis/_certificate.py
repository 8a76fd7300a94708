"""All sites' answers at one point, added up, and how far it can be from the optimum.

With g, H the gradient and Hessian of the sum at w, λ² = g'H⁻¹g and S² at least the largest
leverage x'H⁻¹x of a row: along any direction v the third derivative is at most max_j|x_j'v|
times the second, so the Hessian changes by no more than e^{±t max|x'v|}, and if λS < 1

    |w - w*|_H <= r = -ln(1 - λS) / S        (r = λ for least squares, S = 0).

So no coefficient is further from its optimum than r sqrt((H⁻¹)_kk), which is r standard errors
if these come from H; at the optimum they may be smaller by e^{rS/2}, which is counted in.

Numbers are in units that suit the computer: w is multiplied by D, the columns' root mean squares,
and sums are divided by it.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ._model import Model
from ._sums import Answer, Moments, square, upper

Answers = Mapping[str, Answer]


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


class Point(NamedTuple):
    """The sums at w, with the penalty unless said otherwise."""

    w: np.ndarray  # d by k
    value: float  # without the penalty
    objective: float
    g: np.ndarray
    H: np.ndarray
    site_g: np.ndarray  # N by p, without the penalty
    m: float
    bound: Bound
    rounded: bool  # g is no more than rounding: no step can improve on w


def scales(sums: Moments) -> np.ndarray:
    """D: root mean squares; 1 for a column of zeros."""
    D = np.sqrt(sums.xx / sums.weight)
    return np.where(D > 0, D, 1.0)


def variances(model: Model, sums: Moments) -> np.ndarray:
    """Of the columns; 1 for the intercept and the site effects."""
    mean = sums.x / sums.weight
    free = np.arange(len(mean)) != model.intercept
    free[len(mean) - model.effects :] = False
    return np.where(free, np.maximum(sums.xx / sums.weight - mean**2, 0), 1.0)


def with_penalty(model: Model, sums: Moments) -> Model:
    """The model with its penalty in the user's units."""
    if not model.standardize:
        return model
    return model._replace(penalty=model.penalty * variances(model, sums))


def total(parts: Sequence[Moments]) -> Moments:
    return Moments(*(np.sum(np.stack(each), 0) for each in zip(*parts, strict=True)))


def penalties(model: Model, D: np.ndarray) -> np.ndarray:
    """Of each coefficient, flat."""
    return np.repeat(model.penalty / D**2, model.k)


def point(model: Model, D: np.ndarray, w: np.ndarray, answers: Answers) -> Point:
    """At w, in units of D, where all sites have answered."""
    each = [answers[site] for site in model.sites]
    E, P, p = np.repeat(D, model.k), penalties(model, D), model.p
    site_g = np.stack([a.g for a in each]) / E
    g = site_g.sum(0) + P * w.reshape(-1)
    H = square(np.sum([a.H for a in each], 0), p) / np.outer(E, E) + np.diag(P)
    value = float(np.sum([a.value for a in each]))
    M, m = np.array([a.M for a in each]), np.array([a.m for a in each])
    S = 0.0 if model.quadratic else leverage(M, m)
    cancelled = np.sum([a.size for a in each], 0) / E
    size, rounding = decrement(g, H, float(np.max(cancelled + np.abs(P * w.reshape(-1)))))
    return Point(
        w, value, value + float(P @ w.reshape(-1) ** 2) / 2, g, H, site_g,
        float(np.max(m)), bound(size + rounding, S), size < rounding,
    )  # fmt: skip


def dispersion(model: Model, value: float, sums: Moments) -> float:
    """Of the rows, from their loss at w: 1 but for gaussian models."""
    return 2 * value / (float(sums.n) - model.p) if model.quadratic else 1.0


def upper_inverse(H: np.ndarray, D: np.ndarray, k: int) -> np.ndarray:
    """The upper triangle of H⁻¹ in the user's units; empty where there is none."""
    try:
        V = inverse(H) / np.outer(np.repeat(D, k), np.repeat(D, k))
    except np.linalg.LinAlgError:
        return np.zeros(0)
    return V[upper(len(V))]
