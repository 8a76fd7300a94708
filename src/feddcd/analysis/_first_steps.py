"""From the pilot, the exchange at w = 0, the server guesses first steps.

binomial: what the sites guess of their own rows leads to them (`_first_guess`), where most can.
multinomial, and binomial where they cannot: Newton's first step from w = 0 falls short, and linear
discriminant analysis goes too far where the columns are far from normal. With n rows, class shares
π and means μ, and the pooled covariance C within classes,

    b = (v C + P)⁻¹ v (μ_k - μ_0),  v = n π_k (1 - π_k),  ln(π_k/π_0) - b'(μ_k + μ_0)/2

is the latter. The guess lies between the two, about as far from 0 as the geometric mean of their
distances: that saves one or two exchanges.
gaussian: Newton's first step, which is exact. All others: the first step of iteratively reweighted
least squares, from means guessed by row.
"""

import numpy as np

from ._first_guess import COVERED
from ._model import Model
from ._points import Point, penalties, solve
from ._sums import Moments, square

RIDGE = 1e-6


def first_steps(
    model: Model, D: np.ndarray, sums: Moments, G: np.ndarray, first: Point, start
) -> tuple[np.ndarray, ...]:
    """From w = 0, in units of D, the best guess first; Newton's own is the last."""
    own = -solve(first.H, first.g).reshape(first.w.shape)
    if start is not None:
        return start * D[:, None], own
    shares = model.loss.fits
    if sums.start.size and not shares:
        return reweighted(model, D, sums, own)
    guessed = spoken(model, D, sums) if shares else ()
    far = None
    if not model.quadratic and model.intercept is not None:
        far = discriminant(sums, G, model.penalty, model.intercept)
    if far is None:
        return *guessed, own
    return *guessed, between(own, far * D[:, None], first.H), own


def spoken(model: Model, D: np.ndarray, sums: Moments) -> tuple[np.ndarray, ...]:
    """What the sites' own guesses of their rows lead to, where most rows speak."""
    d = len(D)
    size = d * (d + 1) // 2
    if not sums.start[-1] > COVERED * float(sums.weight):
        return ()
    A = square(sums.start[:size], d) / np.outer(D, D) + np.diag(penalties(model, D) + RIDGE)
    return (np.linalg.solve(A, sums.start[size:-1] / D)[:, None],)


def between(near: np.ndarray, far: np.ndarray, H: np.ndarray) -> np.ndarray:
    """On the line between two steps. Where these have one direction and lengths 1 and r, in the
    metric H, the length is sqrt(r)."""
    one, other = (float(x.reshape(-1) @ H @ x.reshape(-1)) for x in (near, far))
    if not (one > 0 and np.isfinite(other)):
        return near
    return near + (far - near) / (1 + (other / one) ** 0.25)


def reweighted(model: Model, D: np.ndarray, sums: Moments, own) -> tuple[np.ndarray, ...]:
    """One step of reweighted least squares; where it may leave what the link allows, parts of the
    way from the constant model come after it."""
    d = len(D)
    size = d * (d + 1) // 2
    A = square(sums.start[:size], d) / np.outer(D, D) + np.diag(penalties(model, D) + RIDGE)
    far = np.linalg.solve(A, sums.start[size:] / D)[:, None]
    if model.loss.canonical or model.intercept is None:
        return far, own
    middle = np.zeros_like(far)
    with np.errstate(all="ignore"):
        mean = model.loss.inverse(sums.y / sums.weight)
    if not np.isfinite(mean).all():  # the link has no such mean
        return far, own
    middle[model.intercept] = mean - sums.o[0] / sums.weight
    return far, *(middle + t * (far - middle) for t in (0.5, 0.2, 0.05, 0.0))


def discriminant(sums: Moments, G: np.ndarray, P: np.ndarray, intercept: int) -> np.ndarray | None:
    """d by k, from the moments, G = sum s x x' and the penalty of each column."""
    n = float(sums.weight)
    counts = np.concatenate([[n - sums.y.sum()], sums.y])
    if np.any(counts <= 0):
        return None
    first = sums.x - sums.xy.sum(1)
    means = np.column_stack([first, sums.xy]).T / counts[:, None]
    share = counts / n
    C = G / n - means.T @ (share[:, None] * means)
    C += RIDGE * np.diag(np.diag(C) + 1e-3 * np.diag(G) / n)
    w = np.zeros((len(G), len(share) - 1))
    for k in range(1, len(share)):
        v = n * share[k] * (1 - share[k])
        b = np.linalg.solve(v * C + np.diag(P), v * (means[k] - means[0]))
        b[intercept] = 0
        b[intercept] = np.log(share[k] / share[0]) - b @ (means[k] + means[0]) / 2
        w[:, k - 1] = b
    w[intercept] -= sums.o[0] / n
    return w
