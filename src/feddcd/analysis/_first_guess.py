"""What a site makes of its own rows before anything else is known: a first guess of their z.

Binary outcomes with the logit link. The site fits its rows with a normal prior about 0, a few steps
of Newton's method, and so has a mean z_j and a variance v_j of each row's linear predictor. Under
that normal distribution the row's slope f' has the mean p_j - y_j and moves by c_j with z, with

    p_j = expit(κz_j),  c_j = κ p_j (1 - p_j),  κ = (1 + πv_j/8)^{-1/2},

nearly so. The sums over all sites of c x x' and x(cz - p + y) are the normal equations of the
common first guess. The plain quadratic models at the sites' own solutions (v = 0) guess worse: the
curvature that they take is that at z_j itself, and z_j is not exact.

A site where hardly any outcome differs from the others knows nothing of z, and tells zeros. The
last number is the weight of the rows that speak.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit

Array = np.ndarray
PRIOR = 1.5  # precision of a coefficient, per change between two values, or by two deviations
CONSTANT = 0.1  # of a constant
STEPS = 8
MOST = 3.0  # by which a step may move any z
LEAST = 0.005  # the share of the rarer outcome
COVERED = 0.5  # the share of all weight that has to speak


def first_guess(rows: Any, of: Any = None) -> tuple[Array, Array]:
    """By row: s c, and s(cz - p + y) without the offset; zeros where nothing is known. `of`: what
    other rows would give, if these had made the guess."""
    X, Y, s, o = rows
    share = float(s @ Y[:, 0]) / max(float(s.sum()), 1e-300)
    units = _Units.of(X)
    w, C = _fit(units(X), Y[:, 0], s, o, units.P) if LEAST <= share <= 1 - LEAST else (None, None)
    X, Y, s, o = rows if of is None else of
    if w is None or C is None:
        return np.zeros(len(s)), np.zeros(len(s))
    Z, y = units(X), Y[:, 0]
    z, v = Z @ w + o, np.sum((Z @ C) * Z, 1)
    kappa = 1 / np.sqrt(1 + np.pi * np.maximum(v, 0.0) / 8)
    p = expit(kappa * z)
    c = kappa * p * (1 - p)
    return s * c, s * (c * (z - o) - p + y)


def shares_start(rows: Any) -> Array:
    """The upper triangle of sum s c x x', sum s x(cz - p + y), and the weight that speaks."""
    weight, target = first_guess(rows)
    A = rows.X.T @ (weight[:, None] * rows.X)
    told = float(rows.s.sum()) if np.any(weight) else 0.0
    return np.concatenate([A[np.triu_indices(len(A))], rows.X.T @ target, [told]])


class _Units(NamedTuple):
    """Columns about their means, where there is a constant, and the precision of each."""

    mean: Array
    unit: Array
    P: Array

    @classmethod
    def of(cls, X: Array) -> "_Units":
        low, high, mean = X.min(0), X.max(0), X.mean(0)
        fixed = (low == high) & (low != 0)
        two = np.all((low == X) | (high == X), axis=0)
        unit = np.where(two, high - low, 2 * X.std(0))
        unit = np.where(unit > 0, unit, np.maximum(np.abs(high), 1e-150))
        mean = np.where(fixed, 0.0, mean) if fixed.any() else np.zeros_like(mean)
        return cls(mean, unit, np.where(fixed, CONSTANT, PRIOR))

    def __call__(self, X: Array) -> Array:
        return (X - self.mean) / self.unit


def _fit(Z: Array, y: Array, s: Array, o: Array, P: Array) -> tuple[Array, Array]:
    """The mode of the posterior, nearly, and its covariance there."""
    w, ridge = np.zeros(Z.shape[1]), np.diag(P)
    mean = lambda w: expit(Z @ w + o)
    for _ in range(STEPS):
        p = mean(w)
        H = Z.T @ ((s * p * (1 - p))[:, None] * Z) + ridge
        step = -np.linalg.solve(H, Z.T @ (s * (p - y)) + P * w)
        size = float(np.max(np.abs(Z @ step), initial=0.0))
        w = w + step * min(1.0, MOST / max(size, 1e-300))
        if size < 1e-2:
            break
    p = mean(w)
    return w, np.linalg.inv(Z.T @ ((s * p * (1 - p))[:, None] * Z) + ridge)
