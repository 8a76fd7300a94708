"""Distributions of an outcome: their variance, their loss at a mean, and R's numbers of a fit."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy

from ..losses import LOGISTIC, POISSON

Array = np.ndarray
Row = Callable[[Array], Array]
Likelihood = Callable[[float, Any], float]  # from the loss of all rows and their `Moments`


def _likelihood(value: float, sums: Any) -> float:
    return float(sums.constant[0]) - value


def none_known(value: float, sums: Any) -> float:
    """A quasi-likelihood is no probability: R gives none, and no AIC."""
    return np.nan


class Distribution(NamedTuple):
    """The loss is -(log-likelihood) of a row of weight 1 times the dispersion, up to what does not
    depend on its mean; y and the mean m are flat, and s are weights."""

    name: str
    variance: Row
    slope: Row  # of the variance
    loss: Callable[[Array, Array], Array]  # of m, y
    guess: Callable[[Array, Array], Array]  # a first mean from y, s, as R's mustart
    least: Row  # the loss at m = y
    constant: Callable[[Array, Array], Array]  # of y, s: its sum enters the likelihood
    likelihood: Likelihood = _likelihood
    valid: Row = lambda m: m > 0
    dispersed: bool = False  # its dispersion is Pearson's X² by its degrees of freedom
    nuisance: int = 0  # parameters beside the coefficients that the AIC counts


@np.errstate(divide="ignore")  # of a model that fits each row exactly
def _gaussian_likelihood(value: float, sums: Any) -> float:
    n = float(sums.n)
    return -n / 2 * (np.log(2 * np.pi * 2 * value / n) + 1) + float(sums.constant[1]) / 2


@np.errstate(divide="ignore", invalid="ignore")
def _gamma_likelihood(value: float, sums: Any) -> float:
    """With R's guess of the dispersion, the mean deviance: the shape is one by it."""
    weight, logs = float(sums.weight), float(sums.constant[0])
    spread = 2 * (value - float(sums.floor)) / weight
    shape = np.divide(1, spread)
    rest = weight * (shape * np.log(spread) + gammaln(shape))
    return float(-shape * value - rest + (shape - 1) * logs)


@np.errstate(divide="ignore", invalid="ignore")
def _inverse_gaussian_likelihood(value: float, sums: Any) -> float:
    weight, logs = float(sums.weight), float(sums.constant[0])
    spread = 2 * (value - float(sums.floor)) / weight
    return float(-(weight * (np.log(2 * np.pi * spread) + 1) + 3 * logs) / 2)


def _above_zero(y: Array, s: Array) -> Array:
    """y; where it has no logarithm, a tenth of the mean size."""
    return np.where(y > 0, y, 0.1 * (s @ abs(y)) / max(s.sum(), 1e-300) + 1e-3)


GAUSSIAN = Distribution(
    "gaussian", np.ones_like, np.zeros_like,
    loss=lambda m, y: (y - m) ** 2 / 2,
    guess=_above_zero,
    least=np.zeros_like,
    constant=lambda y, s: 0 * y,
    likelihood=_gaussian_likelihood, valid=np.isfinite, dispersed=True, nuisance=1,
)  # fmt: skip
BINOMIAL = Distribution(
    "binomial", lambda m: m * (1 - m), lambda m: 1 - 2 * m,
    loss=lambda m, y: -xlogy(y, m) - xlog1py(1 - y, -m),
    guess=lambda y, s: (s * y + 0.5) / (s + 1),
    least=lambda y: LOGISTIC.least(y[:, None]),
    constant=lambda y, s: LOGISTIC.constant(y[:, None], s),
    valid=lambda m: (m > 0) & (m < 1),
)  # fmt: skip
COUNTS = Distribution(
    "poisson", lambda m: m, np.ones_like,
    loss=lambda m, y: m - xlogy(y, m),
    guess=lambda y, s: y + 0.1,
    least=lambda y: POISSON.least(y[:, None]),
    constant=lambda y, s: POISSON.constant(y[:, None], s),
)  # fmt: skip
GAMMA = Distribution(
    "gamma", np.square, lambda m: 2 * m,
    loss=lambda m, y: y / m + np.log(m),
    guess=lambda y, s: y,
    least=lambda y: 1 + np.log(y),
    constant=lambda y, s: s * np.log(y),
    likelihood=_gamma_likelihood, dispersed=True, nuisance=1,
)  # fmt: skip
INVERSE_GAUSSIAN = Distribution(
    "inverse_gaussian", lambda m: m**3, lambda m: 3 * m**2,
    loss=lambda m, y: y / (2 * m * m) - 1 / m,
    guess=lambda y, s: y,
    least=lambda y: -1 / (2 * y),
    constant=lambda y, s: s * np.log(y),
    likelihood=_inverse_gaussian_likelihood, dispersed=True, nuisance=1,
)  # fmt: skip


KNOWN = (GAUSSIAN, BINOMIAL, COUNTS, GAMMA, INVERSE_GAUSSIAN)


def overdispersed_counts(theta: float) -> Distribution:
    """The negative binomial with variance m + m²/theta."""
    return Distribution(
        "negative_binomial", lambda m: m + m * m / theta, lambda m: 1 + 2 * m / theta,
        loss=lambda m, y: (y + theta) * np.log(m + theta) - xlogy(y, m),
        guess=lambda y, s: np.where(y > 0, y, 1 / 6),
        least=lambda y: (y + theta) * np.log(y + theta) - xlogy(y, y),
        constant=lambda y, s: s * counted(y, theta),
    )  # fmt: skip


def counted(y: Array, theta: Any) -> Array:
    """log-likelihood + loss of the negative binomial, by row."""
    return gammaln(y + theta) - gammaln(theta) - gammaln(y + 1) + theta * np.log(theta)
