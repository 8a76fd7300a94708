"""What each method promises: its contraction per round, and the settings that achieve it."""

import math
from typing import NamedTuple

from ._check import check, check_eps


class Rate(NamedTuple):
    """E error_t <= constant · (1 - gain)^(t - delay) · error_0."""

    gain: float
    constant: float = 1.0
    delay: int = 0

    @property
    def factor(self) -> float:
        return 1 - self.gain

    def at(self, t: float) -> float:
        """The bound on E error_t / error_0."""
        return self.constant * self.factor ** max(t - self.delay, 0)

    def rounds(self, eps: float) -> int:
        """The first t at which the bound is at most ε."""
        check_eps(eps)
        if self.gain >= 1:
            return self.delay + 1
        return self.delay + math.ceil(math.log(self.constant / eps) / -math.log1p(-self.gain))


def feddcd(N: int, tau: int, alpha: float, beta: float) -> Rate:
    """1 - r α/β, r = (τ-1)/(N-1)."""
    check(N, tau, alpha, beta)
    return Rate((tau - 1) / (N - 1) * alpha / beta)


class InexactSettings(NamedTuple):
    kappa: float
    delta: float  # the oracle's error
    eta: float


def inexact_settings(N: int, tau: int, alpha: float, beta: float) -> InexactSettings:
    """κ = (τ-1) α/(32 (N-1) β), δ = (1-κ)/4, η = 1/4."""
    check(N, tau, alpha, beta)
    kappa = (tau - 1) * alpha / (32 * (N - 1) * beta)
    return InexactSettings(kappa, (1 - kappa) / 4, 0.25)


def inexact_feddcd(N: int, tau: int, alpha: float, beta: float) -> Rate:
    """1 - κ, if the first local solve is exact (its error is missing in the paper's proof)."""
    return Rate(inexact_settings(N, tau, alpha, beta).kappa)


class Acceleration(NamedTuple):
    a: float
    b: float
    r: float
    s: float
    kappa: float


def acceleration(N: int, tau: int, alpha: float, beta: float) -> Acceleration:
    """a = sqrt(κ)/(1/r + sqrt(κ)), b = a κ r², s = b/(a² + b), κ = α/β, r = (τ-1)/(N-1)."""
    check(N, tau, alpha, beta)
    r, kappa = (tau - 1) / (N - 1), alpha / beta
    a = math.sqrt(kappa) / (1 / r + math.sqrt(kappa))
    b = a * kappa * r**2
    return Acceleration(a, b, r, b / (a**2 + b), kappa)


def accfeddcd(N: int, tau: int, alpha: float, beta: float) -> Rate:
    """2 (1 - a)^t; the 2 is for the z term of the Lyapunov function, which the paper drops."""
    return Rate(acceleration(N, tau, alpha, beta).a, constant=2.0)


def pointsaga_rho(N: int, tau: int, alpha: float, beta: float) -> float:
    """ρ = (α/2) (sqrt((n-1)² + 4 n β/α) + n - 1), n = N/τ."""
    check(N, tau, alpha, beta)
    n = N / tau
    return alpha / 2 * (math.sqrt((n - 1) ** 2 + 4 * n * beta / alpha) + n - 1)


def pointsaga(N: int, tau: int, alpha: float, beta: float) -> Rate:
    """1/(1 + α/ρ) = 1 - α/(α + ρ).

    Defazio's proof for one client a round uses n only as the chance 1/n that a client renews its
    g_i, which is τ/N here; and |mean_I w_i - x*|² is at most the mean of |w_i - x*|².
    """
    return Rate(alpha / (alpha + pointsaga_rho(N, tau, alpha, beta)), delay=1)
