"""What is proven of a family with a link: its curvature, and how fast that can change.

A row's loss f(z) is convex, and c(z) is such that |f'''| <= c f'' wherever z is moved by no more
than 1/c. Where c = 1 holds for all z, `bend` is None. If |f'''| <= u f'' for an increasing u, then
max(1, u(z + 1/max(1, u(z)))) is such a c. Families without a row here are not proven: with their
links the loss is not convex, so that more than one optimum is possible.

The table, n(t) standing for 1/(e^t - 1) and m(z) for the normal density by its integral Φ(z):

gamma, log            f = y e^-z + z:  f''' = -f''
gamma, inverse        f = y z - ln z:  |f'''| = 2/z f'', and 2/(z - 1/c) <= c for c = 3/z
inverse gaussian      1/mu^2:  f = y z/2 - sqrt z:  |f'''| = 1.5/z f'', likewise c = 3/z
inverse gaussian      inverse:  f = y z²/2 - z:  f''' = 0, and c = 3/z keeps z positive
poisson, identity     f = z - y ln z:  as gamma with inverse link, c = 3/z
poisson, sqrt         f = z² - 2y ln z:  |f'''| = 4y/z³ <= 2/z f'', c = 3/z
negative binomial     log:  f = (y + θ) ln(θ + e^z) - y z:  f''' = f''(1 - 2p), p = e^z/(θ + e^z)
binomial, log         y = 1: linear. y = 0: f = -ln(1 - e^z), with t = -z f'' = n(n + 1) and
                      |f'''| = coth(t/2) f'' <= (1 + 2/t) f'', so that c = 1 + 4/t (`gap`)
binomial, probit      y = 1: f = -ln Φ, f'' = m(m + z), |f'''| = f''(m + z + m - 1/(m + z)), and as
                      f'' < 1 (Sampford 1953) that is at most u f'', u = m + z; y = 0: at -z
binomial, cloglog     y = 0: f = e^z. y = 1, a = e^z: f' = -B(a), B = a n(a), and f'''/f'' =
                      1 + aB''/B' is in [1 - a, 1], as 0 <= B'' <= -B' (tanh x <= x <= sinh x)
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import log_ndtr

from ._links import exp, mills

Array = np.ndarray
Function = Callable[[Array, Array], Array]


class Proof(NamedTuple):
    curvature: Function  # f'' at z, y
    bend: Function | None = None  # c; None where it is 1 for all z


class Half(NamedTuple):
    """A loss of z with two derivatives."""

    value: Array
    slope: Array
    curvature: Array


class Share(NamedTuple):
    """A binomial row of share y: its loss is y one(z) + (1 - y) zero(z)."""

    one: Callable[[Array], Half]
    zero: Callable[[Array], Half]
    bend: Function


def _by_z(z: Array, y: Array) -> Array:
    return 3 / z


def _quicker(u: Callable[[Array], Array], z: Array) -> Array:
    """c from an increasing u."""
    return np.maximum(1, u(z + 1 / np.maximum(1, u(z))))


def gap(t: Array) -> Half:
    """-ln(1 - e^-t), t > 0."""
    n = 1 / np.expm1(np.minimum(t, 700.0))
    return Half(-np.log(-np.expm1(-t)), -n, n * (n + 1))


def gap_bend(t: Array) -> Array:
    """coth(t/2) <= 1 + 2/t, and with 1/c <= t/4 it is at most 1 + 8/(3t)."""
    return 1 + 4 / t


def _probit(z: Array) -> Half:
    m = mills(z)
    return Half(-log_ndtr(z), -m, m * np.maximum(m + z, 0))


def _probit_bend(z: Array, y: Array) -> Array:
    u = lambda z: np.maximum(mills(z) + z, 0)
    one, zero = np.where(y > 0, z, -np.inf), np.where(y < 1, -z, -np.inf)
    return _quicker(u, np.maximum(np.maximum(one, zero), -30.0))


def _cloglog(z: Array) -> Half:
    a = exp(z)
    B = np.where(a > 0, a / np.expm1(np.minimum(a, 700.0)), 1.0)
    B = np.where(a > 700, 0.0, B)
    rest = np.where(a < 1e-4, a / 2 + a * a / 12, B + a - 1)  # without cancellation
    value = np.where(a > 1, -np.log1p(-np.exp(-a)), -np.log(-np.expm1(-np.minimum(a, 1.0))))
    return Half(value, -B, B * rest)


def _exponential(z: Array) -> Half:
    return Half(*[exp(z)] * 3)


def _cloglog_bend(z: Array, y: Array) -> Array:
    return np.where(y > 0, _quicker(lambda z: exp(z) - 1, z), 1.0)


def _linear(z: Array) -> Half:
    return Half(-z, -np.ones_like(z), np.zeros_like(z))


def _mirror(half: Half) -> Half:
    return half._replace(slope=-half.slope)


LOSSES_OF_SHARES = {
    "probit": Share(_probit, lambda z: _mirror(_probit(-z)), _probit_bend),
    "cloglog": Share(_cloglog, _exponential, _cloglog_bend),
    "log": Share(_linear, lambda z: _mirror(gap(-z)), lambda z, y: gap_bend(-z)),
}
PROOFS = {
    ("gamma", "log"): Proof(lambda z, y: y * exp(-z)),
    ("gamma", "inverse"): Proof(lambda z, y: z**-2.0, _by_z),
    ("inverse_gaussian", "1/mu^2"): Proof(lambda z, y: z**-1.5 / 4, _by_z),
    ("inverse_gaussian", "inverse"): Proof(lambda z, y: y, _by_z),
    ("poisson", "identity"): Proof(lambda z, y: y / z**2, _by_z),
    ("poisson", "sqrt"): Proof(lambda z, y: 2 + 2 * y / z**2, _by_z),
}
