"""The negative binomial with a theta that is estimated with the coefficients, as MASS::glm.nb does.

Variance m + m²/θ, and τ = ln θ is a parameter beside the columns: with r = y + θ and
p = m/(m + θ) the loss, all of -(log-likelihood) of a row, has

    f_η = r p - y,  f_θ = ln(m + θ) + r/(m + θ) - ψ(r) + ψ(θ) - ln θ - 1,
    f_ηη = r p (1 - p),  f_ηθ = p (m - y)/(m + θ),
    f_θθ = 2/(m + θ) - r/(m + θ)² - ψ'(r) + ψ'(θ) - 1/θ.

Fisher's information of the coefficients is that of a known θ, and the two do not mix; for τ
something positive stands in its place, p²/2, which it is where θ is large.
"""

from typing import Any

import numpy as np
from scipy.special import polygamma, psi, xlogy

from ._distributions import counted
from ._geometry import Arms
from ._links import exp
from .families import THETA, Family, RowTerms, family_of

Array = np.ndarray
MOST = 16.0  # of τ: beyond it the counts are as good as poisson's
JOINT = "no bound on the error is known if theta is estimated together with the coefficients"


def estimated() -> Family:
    start = family_of("negative_binomial", theta=1.0)
    return start._replace(
        terms=_terms, mean=lambda z: exp(z[:, :1]), expected=_expected, unproven=JOINT,
        least=lambda Y: np.zeros(len(Y)), constant=lambda Y, s: 0 * s,
        geometry=_geometry, theta=None, extras=(THETA,), origin=(0.0,), at=_at, floor=_floor,
    )  # fmt: skip


def theta_of(w: Array) -> float:
    return float(np.exp(np.clip(w[-1, 0], -MOST, MOST)))


def theta_fields(loss: Family, w: Array, H: Array) -> dict[str, float | None]:
    """Of the result; theta's standard error as MASS has it, the coefficients being known."""
    if loss.floor is None:
        return {"theta": loss.theta, "theta_se": None}
    return {"theta": theta_of(w), "theta_se": theta_of(w) / float(np.sqrt(H[-1, -1]))}


def _at(w: Array, place: int) -> Family:
    """Theta being known, with the same loss: all of -(log-likelihood)."""
    theta = theta_of(w[place:])
    known = family_of("negative_binomial", theta=theta)

    def terms(z: Array, Y: Array) -> RowTerms:
        at = known.terms(z, Y)
        return at._replace(value=at.value - counted(Y[:, 0], theta))

    return known._replace(terms=terms)


def _geometry(rows: Any, place: int) -> Arms:
    own = np.zeros_like(rows.X)
    own[:, place] = 1
    return Arms((rows.X, own), np.column_stack([rows.offset, 0 * rows.offset]))


def _terms(z: Array, Y: Array) -> RowTerms:
    m, theta, y = exp(z[:, 0]), exp(np.clip(z[:, 1], -MOST, MOST)), Y[:, 0]
    r, t = y + theta, m + theta
    p = m / t
    value = r * np.log(t) - y * z[:, 0] - counted(y, theta)
    by_theta = np.log(t) + r / t - psi(r) + psi(theta) - np.log(theta) - 1
    twice = 2 / t - r / t**2 - polygamma(1, r) + polygamma(1, theta) - 1 / theta
    slope = np.column_stack([r * p - y, theta * by_theta])
    cross = theta * p * (m - y) / t
    C = np.stack([np.stack([r * p * (1 - p), cross], 1),
                  np.stack([cross, theta**2 * twice + theta * by_theta], 1)], 1)  # fmt: skip
    size = np.column_stack([r * p + y, theta * (abs(np.log(t)) + r / t + abs(psi(r)) + 2)])
    return RowTerms(value, slope, C, size)


def _expected(z: Array) -> Array:
    m, theta = exp(z[:, 0]), exp(np.clip(z[:, 1], -MOST, MOST))
    F = np.zeros((len(z), 2, 2))
    p = m / (m + theta)
    F[:, 0, 0], F[:, 1, 1] = theta * p, p**2 / 2 + 1e-12
    return F


def _floor(Y: Array, w: Array, place: int) -> Array:
    """What the deviance is counted from, which changes with theta."""
    theta, y = theta_of(w[place:]), Y[:, 0]
    return (y + theta) * np.log(y + theta) - xlogy(y, y) - counted(y, theta)
