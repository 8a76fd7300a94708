"""How far a model can be from the optimum, though its intercept is not penalised.

F(w, b) = L(w, b) + (l2/2)|w|², L jointly convex, so φ(w) = min_b F(w, b) is l2-strongly convex,
∇φ(w) = ∇_w F(w, b(w)), and F* = min φ >= φ(w) - |∇φ(w)|²/(2 l2). Two things are between this and
what is known at (w, b): how far F(w, b) is above φ(w), and how much ∇_w F changes from b to b(w).

With h, H the gradient and Hessian of F in b alone and λ² = h'H⁻¹h: along a direction v in which
no z_j spreads by more than S|v|_H, the third derivative is at most S|v|_H times the second, so
F(w, b + v) >= F(w, b) - λr + (e^{-Sr} + Sr - 1)/S², r = |v|_H. Minimised over r, with u = λS < 1,

    F(w, b) - φ(w) <= (u + (1-u) ln(1-u)) / S²,    |b(w) - b|_H <= r = -ln(1-u) / S

(λ²/2 and λ for least squares). So no z_j changes by more than δ = Sr, no mean by more than
bend_j (e^δ - 1), and |∇φ(w)| <= |∇_w F(w, b)| + sum_j s_j |x_j| bend_j (e^δ - 1).
Everything is a sum over the clients' rows.
"""

from typing import NamedTuple

import numpy as np
import scipy.sparse

from ..losses import Loss
from ._rows import EstimatorRows

ROUNDING = 8 * np.finfo(float).eps
SINGULAR = 1e-12  # nothing is said below this ratio of the intercept's curvatures
STEPS, CLOSE = 30, 1e-10  # of Newton's method for the intercept, and where it ends


class GapProof(NamedTuple):
    b: np.ndarray
    objective: float
    gap: float
    steps: int  # Newton steps from the given b


class _Above(NamedTuple):
    """F(w, b) is at most `gap` above φ(w), no z differs by more than `delta` from that at b(w)."""

    gap: float
    delta: float
    decrement: float
    step: np.ndarray


@np.errstate(over="ignore", invalid="ignore")
def prove(rows: EstimatorRows, w: np.ndarray, b: np.ndarray, *, refine: bool) -> GapProof:
    """The gap at (w, b), or at (w, b(w)) to rounding if b is to be refined."""
    X, Y, s, link = rows.X, rows.Y, rows.s, rows.link
    z, norms, steps = X @ w, _row_norms(X), 0
    p = link.mean(z + b)
    above = _above(rows, p, _size(rows, p, norms, w, b))
    while refine and above.decrement > CLOSE and steps < STEPS:
        b, steps = b + above.step, steps + 1
        p = link.mean(z + b)
        above = _above(rows, p, _size(rows, p, norms, w, b))
    gradient = np.linalg.norm(X.T @ (s[:, None] * (p - Y)) + rows.l2 * w)
    change = above.delta if link.quadratic else np.expm1(min(above.delta, 700.0))
    size = (s * norms) @ _size(rows, p, norms, w, b) + rows.l2 * np.linalg.norm(w)
    slope = gradient + (s * norms) @ link.bend(p) * change + ROUNDING * size
    objective = s @ link.value(z + b, Y) + rows.l2 / 2 * np.sum(w**2)
    gap = above.gap + slope**2 / (2 * rows.l2)
    return GapProof(b, float(objective), np.inf if np.isnan(gap) else float(gap), steps)


def _above(rows: EstimatorRows, p: np.ndarray, size: np.ndarray) -> _Above:
    """What is known about b from its own gradient and Hessian."""
    k, s, link = p.shape[1], rows.s, rows.link
    if not rows.intercept:
        return _Above(0.0, 0.0, 0.0, np.zeros(k))
    h, H = s @ (p - rows.Y), link.hessian(p, s)
    if k > 1:  # all b alike change nothing; h has no part in that direction
        H = H + np.trace(H) / k**2
    values, vectors = np.linalg.eigh(H)
    if not values[0] > SINGULAR * values[-1]:
        return _Above(np.inf, np.inf, 0.0, np.zeros(k))
    V = vectors / values @ vectors.T
    lam, S = float(np.sqrt(max(h @ V @ h, 0.0))), float(np.sqrt(_spread(V)))
    sure = lam + ROUNDING * np.sqrt(np.trace(V)) * (s @ size)
    return _Above(*_bound(sure, S, link), lam, -V @ h * _damping(lam * S, link))


def _bound(lam: float, S: float, link: Loss) -> tuple[float, float]:
    u = lam * S
    if link.quadratic:
        return lam**2 / 2, S * lam
    if not u < 1:
        return np.inf, np.inf
    series = lam**2 * (1 / 2 + u)  # 1/2 + u/6 + u²/12 + ...
    exact = (u + (1 - u) * np.log1p(-u)) / S**2 if u > 1e-3 else series
    return float(exact), float(-np.log1p(-u))


def _damping(u: float, link: Loss) -> float:
    """The step along which the bound from above is least: ln(1 + u)/u."""
    return 1.0 if link.quadratic or u < 1e-8 else float(np.log1p(u) / u)


def _spread(V: np.ndarray) -> float:
    """The largest |e_k - e_l|² in the metric V; V itself for one column."""
    if len(V) == 1:
        return float(V[0, 0])
    diagonal = np.diag(V)
    return float(np.max(diagonal[:, None] + diagonal[None, :] - 2 * V))


def _size(rows: EstimatorRows, p, norms: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """By row: the size of what is added up in a gradient, of which rounding takes its part."""
    of_z = norms * np.linalg.norm(w) + np.linalg.norm(b)
    return np.linalg.norm(p, axis=1) + np.linalg.norm(rows.Y, axis=1) + rows.link.bend(p) * of_z


def _row_norms(X) -> np.ndarray:
    if scipy.sparse.issparse(X):
        return np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return np.sqrt(np.einsum("ij,ij->i", X, X))
