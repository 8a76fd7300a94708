"""Links: the mean of a row from its linear predictor z, with two derivatives."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_ndtr, logit, ndtr, ndtri

Array = np.ndarray
Function = Callable[[Array], Array]
LARGE = 700.0  # beyond it exp would overflow: such a z is far from any optimum


class MeanLink(NamedTuple):
    name: str
    mean: Function
    slope: Function  # of the mean
    bend: Function  # its second derivative
    inverse: Function
    valid: Function = np.isfinite  # where z has a mean
    inside: float = 1.0  # a z that has one


def exp(z: Array) -> Array:
    return np.exp(np.minimum(z, LARGE))


def density(z: Array) -> Array:
    return np.exp(-np.minimum(z * z, 2 * LARGE) / 2) / np.sqrt(2 * np.pi)


def mills(z: Array) -> Array:
    """m = density / Φ, without loss where Φ is tiny."""
    return np.exp(-z * z / 2 - np.log(2 * np.pi) / 2 - log_ndtr(z))


def _positive(z: Array) -> Array:
    return np.isfinite(z) & (z > 0)


def _negative(z: Array) -> Array:
    return np.isfinite(z) & (z < 0)


def _cloglog_bend(z: Array) -> Array:
    a = exp(z)
    return np.exp(-a) * a * (1 - a)


IDENTITY = MeanLink("identity", lambda z: z, np.ones_like, np.zeros_like, lambda m: m)
LOG = MeanLink("log", exp, exp, exp, np.log)
INVERSE = MeanLink(
    "inverse", lambda z: 1 / z, lambda z: -1 / z**2, lambda z: 2 / z**3, lambda m: 1 / m,
    valid=lambda z: np.isfinite(z) & (z != 0),
)  # fmt: skip
SQRT = MeanLink(
    "sqrt", np.square, lambda z: 2 * z, lambda z: 2 * np.ones_like(z), np.sqrt, valid=_positive
)
SQUARE = MeanLink(
    "1/mu^2", lambda z: z**-0.5, lambda z: -0.5 * z**-1.5, lambda z: 0.75 * z**-2.5,
    lambda m: m**-2.0, valid=_positive,
)  # fmt: skip
LOGIT = MeanLink(
    "logit", expit, lambda z: expit(z) * expit(-z),
    lambda z: expit(z) * expit(-z) * (1 - 2 * expit(z)), logit,
)  # fmt: skip
PROBIT = MeanLink("probit", ndtr, density, lambda z: -z * density(z), ndtri)
CLOGLOG = MeanLink(
    "cloglog", lambda z: -np.expm1(-exp(z)), lambda z: exp(z) * np.exp(-exp(z)), _cloglog_bend,
    lambda m: np.log(-np.log1p(-m)),
)  # fmt: skip
CAUCHIT = MeanLink(
    "cauchit", lambda z: 0.5 + np.arctan(z) / np.pi, lambda z: 1 / (np.pi * (1 + z * z)),
    lambda z: -2 * z / (np.pi * (1 + z * z) ** 2), lambda m: np.tan(np.pi * (m - 0.5)),
)  # fmt: skip
LOG_OF_SHARE = LOG._replace(valid=_negative, inside=-1.0)  # of a probability, below 1

LINKS = {
    link.name: link
    for link in (IDENTITY, LOG, INVERSE, SQRT, SQUARE, LOGIT, PROBIT, CLOGLOG, CAUCHIT)
}
