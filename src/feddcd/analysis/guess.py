"""What the server guesses from the pilot: first steps, the constant model, bins for predictions."""

import numpy as np

from ..losses import LOSSES
from .certificate import solve
from .points import Answers, Model, Point, penalties
from .site import Moments, square
from .start import DISCRIMINANT, RIDGE, discriminant

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


def gram(model: Model, D: np.ndarray, first: Point) -> np.ndarray:
    """sum s x x' in the user's units, from the curvature at w = 0 (exactly so without offset)."""
    curvature = {"binomial": 1 / 4, "multinomial": model.k / (model.k + 1) ** 2}
    H = first.H - np.diag(penalties(model, D))
    return H[:: model.k, :: model.k] * np.outer(D, D) / curvature.get(model.family, 1.0)


def first_null(model: Model, sums: Moments) -> np.ndarray:
    with np.errstate(divide="ignore"):
        return LOSSES[model.family].inverse(sums.y / sums.weight) - sums.o[0] / sums.weight


def next_null(said: Answers, c: np.ndarray) -> tuple[float, np.ndarray]:
    """The loss of the best constant model, to second order from c, and a better c."""
    each, k = np.sum([a.null for a in said.values()], 0), len(c)
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
