"""Where to begin: a first guess from one exchange of sums, the pilot, which is counted.

binomial, multinomial: from class sums and X'SX come both Newton's first step from w = 0, which
falls short, and linear discriminant analysis, which goes too far where the columns are far from
normal. With n rows, class shares π and means μ, and the pooled covariance C within classes,

    b = (v C + P)⁻¹ v (μ_k - μ_0),  v = n π_k (1 - π_k),  ln(π_k/π_0) - b'(μ_k + μ_0)/2

is the latter; a quarter of it and three quarters of the former save one or two exchanges.
poisson: the first step of iteratively reweighted least squares, each row's mean guessed as half
its count and half its site's. gaussian: w = 0, the first step is exact anyway.
"""

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from .families import LOSS
from .sites import Rows

RIDGE = 1e-6
DISCRIMINANT = 0.25  # its share of the guess; found by trial on a9a and phishing


def has_pilot(family: str, intercept: int | None) -> bool:
    return family == "poisson" or (family != "gaussian" and intercept is not None)


def first_guess(
    rows: Rows, D: np.ndarray, intercept: int | None, there: np.ndarray
) -> tuple[np.ndarray, bool]:
    """w in the problem's units, from the sites that are there, and whether it beats w = 0."""
    zero = np.zeros((rows.X.shape[1], rows.Y.shape[1]))
    if not has_pilot(rows.family, intercept):
        return zero, True
    parts = [part for part, here in zip(rows.parts, there, strict=True) if here]
    if rows.family == "poisson":
        w = _reweighted(rows, D, parts)
    else:
        part = np.concatenate(parts)
        far, short = _discriminant(rows, D, part, intercept), _newton(rows, D, part)
        w = DISCRIMINANT * far + (1 - DISCRIMINANT) * short
    return (w, True) if _objective(rows, D, w) < _objective(rows, D, zero) else (zero, False)


def _discriminant(rows: Rows, D, part: np.ndarray, intercept: int | None) -> np.ndarray:
    X, s, P = rows.X[part] / D, rows.s[part], rows.penalty / D**2
    Y = np.column_stack([1 - rows.Y[part].sum(1), rows.Y[part]])
    n, sums = s.sum(), s @ Y
    w = np.zeros((X.shape[1], Y.shape[1] - 1))
    if np.any(sums <= 0):
        return w
    means, share = (Y * s[:, None]).T @ X / sums[:, None], sums / n
    C = X.T @ (s[:, None] * X) / n - means.T @ (share[:, None] * means)
    C += RIDGE * np.diag(np.diag(C) + 1e-3)
    for k in range(1, len(share)):
        v = n * share[k] * (1 - share[k])
        b = np.linalg.solve(v * C + np.diag(P), v * (means[k] - means[0]))
        b[intercept] = 0
        b[intercept] = np.log(share[k] / share[0]) - b @ (means[k] + means[0]) / 2
        w[:, k - 1] = b
    w[intercept] = (w[intercept] - s @ rows.offset[part] / n) / X[0, intercept]
    return w


def _newton(rows: Rows, D, part: np.ndarray) -> np.ndarray:
    """The step from w = 0, where every class has the probability 1/K."""
    X, s, K = rows.X[part] / D, rows.s[part], rows.Y.shape[1] + 1
    G = X.T @ (s[:, None] * X) + np.diag(2 * K * rows.penalty / D**2)
    B = X.T @ (s[:, None] * (rows.Y[part] - 1 / K))
    G += RIDGE * np.diag(np.diag(G) + 1e-3 * s.sum())
    return np.linalg.solve(G, K * (B + B.sum(1, keepdims=True)))


def _reweighted(rows: Rows, D, parts: Sequence[np.ndarray]) -> np.ndarray:
    A, b = np.diag(rows.penalty / D**2 + RIDGE), np.zeros(len(D))
    for part in parts:
        X, y, s, o = rows.X[part] / D, rows.Y[part, 0], rows.s[part], rows.offset[part]
        exposure = np.exp(o)
        mean = (y + exposure * max(s @ y, 0.5) / (s @ exposure)) / 2
        z = np.log(mean) - o + (y - mean) / mean
        A, b = A + X.T @ ((s * mean)[:, None] * X), b + X.T @ (s * mean * z)
    return np.linalg.solve(A, b)[:, None]


def _objective(rows: Rows, D, w: np.ndarray) -> float:
    """The next exchange says it, for both w: two numbers."""
    with np.errstate(all="ignore"):
        z = rows.X @ (w / D[:, None]) + rows.offset[:, None]
        loss = np.asarray(LOSS[rows.family].value(jnp.asarray(z), jnp.asarray(rows.Y)))
    return float(rows.s @ loss + np.sum((rows.penalty / D**2)[:, None] * w**2) / 2)
