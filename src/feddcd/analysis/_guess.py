"""What the server guesses from the pilot, the exchange at w = 0: first steps, the constant model,
bins for predictions.

binomial, multinomial: Newton's first step from w = 0 falls short, and linear discriminant
analysis goes too far where the columns are far from normal. With n rows, class shares π and means
μ, and the pooled covariance C within classes,

    b = (v C + P)⁻¹ v (μ_k - μ_0),  v = n π_k (1 - π_k),  ln(π_k/π_0) - b'(μ_k + μ_0)/2

is the latter; a quarter of it and three quarters of the former save one or two exchanges.
poisson: the first step of iteratively reweighted least squares, each row's mean guessed as half
its count and half its site's. gaussian: Newton's first step, which is exact.
"""

import numpy as np

from ..losses import LOSSES
from ._certificate import Answers, Point, penalties, solve
from ._model import Model
from ._sums import Moments, square

RIDGE = 1e-6
DISCRIMINANT = 0.25  # its share of the guess; found by trial on a9a and phishing
BINS = {"binomial": 100, "gaussian": 40, "poisson": 40}
SPREAD = 2.5  # standard deviations of the linear predictor that the bins cover


def first_steps(
    model: Model, D: np.ndarray, sums: Moments, G: np.ndarray, first: Point, start
) -> tuple[np.ndarray, ...]:
    """From w = 0, in units of D, the best guess first; Newton's own is the last."""
    own = -solve(first.H, first.g).reshape(first.w.shape)
    if start is not None:
        return start * D[:, None], own
    if model.family == "poisson":
        d = len(D)
        size = d * (d + 1) // 2
        A = square(sums.start[:size], d) / np.outer(D, D) + np.diag(penalties(model, D) + RIDGE)
        return np.linalg.solve(A, sums.start[size:] / D)[:, None], own
    far = None
    if not model.quadratic and model.intercept is not None:
        far = discriminant(sums, G, model.penalty, model.intercept)
    if far is None:
        return (own,)
    return DISCRIMINANT * far * D[:, None] + (1 - DISCRIMINANT) * own, own


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


def gram(model: Model, D: np.ndarray, first: Point) -> np.ndarray:
    """sum s x x' in the user's units, from the curvature at w = 0 (exactly so without offset)."""
    curvature = {"binomial": 1 / 4, "multinomial": model.k / (model.k + 1) ** 2}
    H = first.H - np.diag(penalties(model, D))
    return H[:: model.k, :: model.k] * np.outer(D, D) / curvature.get(model.family, 1.0)


def first_null(model: Model, sums: Moments) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return LOSSES[model.family].inverse(sums.y / sums.weight) - sums.o[0] / sums.weight


def next_null(answers: Answers, c: np.ndarray) -> tuple[float, np.ndarray]:
    """The loss of the best constant model, to second order from c, and a better c."""
    each, k = np.sum([a.null for a in answers.values()], 0), len(c)
    value, g, H = float(each[0]), each[1 : 1 + k], each[1 + k :].reshape(k, k)
    step = np.linalg.lstsq(H, g, rcond=None)[0]
    return value - float(g @ step) / 2, c - step * np.minimum(1, 1 / np.maximum(abs(step), 1e-300))


def edges(model: Model, sums: Moments, G: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Between bins of the predicted mean; G as `gram` gives it."""
    if model.family not in BINS:
        return np.zeros(0)
    count = BINS[model.family]
    if model.family == "binomial":
        return np.linspace(0, 1, count + 1)[1:-1]
    n = float(sums.weight)
    own = float(sums.x @ w[:, 0]) / n
    spread = np.sqrt(max(float(w[:, 0] @ G @ w[:, 0]) / n - own**2, 0)) or 1.0
    mean = own + float(sums.o[0]) / n
    middle = np.linspace(mean - SPREAD * spread, mean + SPREAD * spread, count - 1)
    return np.exp(np.minimum(middle, 700)) if model.family == "poisson" else middle
