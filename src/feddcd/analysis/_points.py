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
from ._sums import NONE, Answer, Moments, square, upper
from .families import Family

Answers = Mapping[str, Answer]
BINS = {"binomial": 100, "gaussian": 40, "poisson": 40}
SPREAD = 2.5  # standard deviations of the linear predictor that the bins cover


class Bound(NamedTuple):
    decrement: float  # λ
    S: float
    r: float  # inf where λS >= 1
    turned: float = 0.0  # the log of how far the Hessian at w can be from the one that is known
    moved: float = 0.0  # how far a row's z can be from where its site was asked

    @property
    def turn(self) -> float:
        """The log of how far the known Hessian can be from that at the optimum."""
        return self.turned + self.r * self.S

    @property
    def reach(self) -> float:
        """r in standard errors, be they taken at w or at the optimum."""
        return self.r * float(np.exp(min(self.turn / 2, 700.0))) if self.r < np.inf else np.inf


def bound(decrement: float, S: float) -> Bound:
    x = decrement * S
    if not x < 1:
        return Bound(decrement, S, np.inf)
    r = decrement if x < 1e-12 else -np.log1p(-x) / S
    return Bound(decrement, S, float(r))


def claim(loss: Family, decrement: float, S: float) -> Bound:
    """Where c changes with z, only as long as no z moves by more than 1/c, which rS <= 1 means.
    Where nothing is proven, r is the decrement: an estimate."""
    if loss.unproven:
        return Bound(decrement, S, decrement)
    found = bound(decrement, S)
    return found if loss.bend is None or found.r * S <= 1 else found._replace(r=np.inf)


def decrement(
    g: np.ndarray, H: np.ndarray, size: float, entry: float = 0.0, E: np.ndarray = NONE
) -> tuple[float, float]:
    """λ, and what rounding may add to it when g was summed from terms of that size, and an entry of
    a sum, before it is divided by E, may be off by `entry`: |Δg| <= e sqrt(s) and |ΔH| <= e s with
    s = sum 1/E², and to first order λ changes by half of |ΔH| tr H⁻¹, too."""
    try:
        V = inverse(H)
    except np.linalg.LinAlgError:
        return np.inf, 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # of huge values; of rows that are separated
        found, trace = float(np.sqrt(max(g @ V @ g, 0.0))), np.trace(V)
        rounding = np.finfo(float).eps * size * np.sqrt(len(g) * trace)
        squares = float(np.sum(E**-2.0))
        rounding += entry * (np.sqrt(squares * trace) + found * squares * trace)
    return found, float(rounding)


def leverage(M: np.ndarray, m: np.ndarray) -> float:
    """S, from the sites' numbers."""
    with np.errstate(over="ignore"):
        return float(np.sqrt(np.max(M)) * np.exp(np.max(m) / 2))


def solve(H: np.ndarray, b: np.ndarray, least: float = 0.0) -> np.ndarray:
    """H⁻¹b by Cholesky of H with a unit diagonal; LinAlgError where H is not positive, or a pivot
    is not above `least`."""
    if not (np.all(np.isfinite(H)) and np.all(np.diag(H) > 0)):
        raise np.linalg.LinAlgError("a number on the diagonal of the Hessian is not positive")
    D = np.sqrt(np.diag(H))
    column = D.reshape(-1, *[1] * (b.ndim - 1))
    with np.errstate(all="ignore"):
        scaled, right = H / np.outer(D, D), b / column
    if not (np.all(np.isfinite(scaled)) and np.all(np.isfinite(right))):
        raise np.linalg.LinAlgError("a number in the Hessian or in the gradient is too large")
    L, lower = cho_factor(scaled, lower=True)
    if not np.min(np.diag(L)) ** 2 > least:
        raise np.linalg.LinAlgError("the Hessian is nearly singular")
    with np.errstate(over="ignore"):  # inf tells more than no solution
        return cho_solve((L, lower), right) / column


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
    F: np.ndarray  # Fisher's information, from which standard errors come; often the same as H
    m: float
    bound: Bound
    pearson: float
    rounded: bool  # g is no more than rounding: no step can improve on w
    meat: np.ndarray | None = None  # of robust standard errors, where it was asked for
    clusters: int = 0
    slack: float = 0.0  # by which the value may be too large


def scales(sums: Moments) -> np.ndarray:
    """D: root mean squares; 1 for a column of zeros."""
    D = np.sqrt(sums.xx / sums.weight)
    return np.where(D > 0, D, 1.0)


def variances(model: Model, sums: Moments) -> np.ndarray:
    """Of the columns; 1 for the intercept and the site effects."""
    mean = sums.x / sums.weight
    free = np.arange(len(mean)) != model.intercept
    free[len(mean) - model.effects - len(model.loss.extras) :] = False
    return np.where(free, np.maximum(sums.xx / sums.weight - mean**2, 0), 1.0)


def with_penalty(model: Model, sums: Moments) -> Model:
    """The model with its penalty in the user's units."""
    if not model.standardize:
        return model
    return model._replace(penalty=model.penalty * variances(model, sums))


def total(parts: Sequence[Moments]) -> Moments:
    return Moments(*(np.sum(np.stack(each), 0) for each in zip(*parts, strict=True)))


def with_floor(sums: Moments, answers: Answers) -> Moments:
    """With the floor of these answers, where it changes with w."""
    each = [a.floor for a in answers.values()]
    return sums._replace(floor=np.sum(each)) if each[0].size else sums


def penalties(model: Model, D: np.ndarray) -> np.ndarray:
    """Of each coefficient, flat."""
    return np.repeat(model.penalty / D**2, model.k)


@np.errstate(over="ignore", invalid="ignore")  # far from the optimum, the bound is infinite
def point(model: Model, D: np.ndarray, w: np.ndarray, answers: Answers) -> Point:
    """At w, in units of D, where all sites have answered."""
    each = [answers[site] for site in model.sites]
    E, P, p = np.repeat(D, model.k), penalties(model, D), model.p
    g = np.sum([a.g for a in each], 0) / E + P * w.reshape(-1)
    H = square(np.sum([a.H for a in each], 0), p) / np.outer(E, E) + np.diag(P)
    value = float(np.sum([a.value for a in each]))
    bonus = 0.0
    if model.loss.firth:
        g, bonus = g - np.sum([a.firth for a in each], 0) / E, log_determinant(H) / 2
    M, m = np.array([a.M for a in each]), np.array([a.m for a in each])
    S = 0.0 if model.quadratic else leverage(M, m)
    F = square(np.sum([a.F for a in each], 0), p) / np.outer(E, E) if each[0].F.size else H
    cancelled = np.sum([a.size for a in each], 0) / E
    off = (2 if model.loss.firth else 1) * model.rounding
    largest = float(np.max(cancelled + np.abs(P * w.reshape(-1))))
    size, rounding = decrement(g, H, largest, off, E)
    return Point(
        w, value, value + float(P @ w.reshape(-1) ** 2) / 2 - bonus, g, H,
        F + np.diag(P) if each[0].F.size else H, float(np.max(m)),
        claim(model.loss, size + rounding, S), float(np.sum([a.pearson for a in each])),
        size < rounding,
    )  # fmt: skip


def log_determinant(H: np.ndarray) -> float:
    sign, size = np.linalg.slogdet(H)
    return float(size) if sign > 0 else -np.inf


def dispersion(model: Model, value: float, sums: Moments, pearson: float = np.nan) -> float:
    """Of the rows, from their loss at w (least squares) or from Pearson's X²; else 1."""
    if not model.loss.dispersed:
        return 1.0
    return (2 * value if model.quadratic else pearson) / (float(sums.n) - model.p)


def upper_inverse(H: np.ndarray, D: np.ndarray, k: int) -> np.ndarray:
    """The upper triangle of H⁻¹ in the user's units; empty where there is none."""
    try:
        V = inverse(H) / np.outer(np.repeat(D, k), np.repeat(D, k))
    except np.linalg.LinAlgError:
        return np.zeros(0)
    return V[upper(len(V))]


def gram(model: Model, D: np.ndarray, first: Point) -> np.ndarray:
    """sum s x x' in the user's units, from the curvature at w = 0 (exactly so without offset)."""
    curvature = {"binomial": 1 / 4, "multinomial": model.k / (model.k + 1) ** 2}
    H = first.H - np.diag(penalties(model, D))
    return H[:: model.k, :: model.k] * np.outer(D, D) / curvature.get(model.family, 1.0)


def edges(model: Model, sums: Moments, G: np.ndarray, w: np.ndarray) -> np.ndarray:
    """Between bins of the predicted mean; G as `gram` gives it."""
    if model.family not in BINS or not (model.family == "binomial" or model.loss.canonical):
        return np.zeros(0)
    count = BINS[model.family]
    if model.family == "binomial":
        return np.linspace(0, 1, count + 1)[1:-1]
    n = float(sums.weight)
    own = float(sums.x @ w[:, 0]) / n
    with np.errstate(over="ignore", invalid="ignore"):
        spread = np.sqrt(np.maximum(w[:, 0] @ G @ w[:, 0] / n - np.square(own), 0)) or 1.0
    if not np.isfinite(spread):
        raise np.linalg.LinAlgError("the spread of the predictions is too large")
    mean = own + float(sums.o[0]) / n
    middle = np.linspace(mean - SPREAD * spread, mean + SPREAD * spread, count - 1)
    return np.exp(np.minimum(middle, 700)) if model.family == "poisson" else middle
