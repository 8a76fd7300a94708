"""All sites' answers at one point, added up, in units that suit the computer: w is multiplied by
D, the columns' root mean squares, and sums are divided by it."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from .certificate import Bound, bound, decrement, inverse, leverage
from .site import Answer, Moments, square, upper

Answers = Mapping[str, Answer]


class Model(NamedTuple):
    """What is fitted, as the server knows it before the first exchange."""

    family: str
    names: tuple[str, ...]  # of the columns
    k: int  # columns of w
    penalty: np.ndarray  # per column, user's units
    sites: tuple[str, ...]
    quadratic: bool
    intercept: int | None  # its place
    effects: int = 0  # columns at the end that stand for sites
    standardize: bool = False  # the penalty is of coefficients per standard deviation

    @property
    def p(self) -> int:
        return len(self.names) * self.k


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


def settled(model: Model, sums: Moments) -> Model:
    """The model with its penalty in the user's units."""
    if not model.standardize:
        return model
    return model._replace(penalty=model.penalty * variances(model, sums))


def total(parts: Sequence[Moments]) -> Moments:
    return Moments(*(np.sum(np.stack(each), 0) for each in zip(*parts, strict=True)))


def penalties(model: Model, D: np.ndarray) -> np.ndarray:
    """Of each coefficient, flat."""
    return np.repeat(model.penalty / D**2, model.k)


def point(model: Model, D: np.ndarray, w: np.ndarray, said: Answers) -> Point:
    """At w, in units of D, where all sites have answered."""
    each = [said[site] for site in model.sites]
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
