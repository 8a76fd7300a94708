"""What the theorems promise: contraction per round, rounds to an accuracy, and the lower bound.

Rounds are the paper's: one of AccFedDCD has two cohorts, so 2 τ uploads. An accuracy ε is
relative, E error_t <= ε error_0, where error is

    FedDCD, AccFedDCD    the dual gap G(y) - G*, with |w_i - w*|² <= 2 (G(y) - G*)/(N α) on average
    Point-SAGA           |x - x*|² + (1/(α β)) mean_i |g_i - ∇f_i(x*)|², from the first round on
    lower bound          F(w) - F* on the worst-case chain
"""

import math
from typing import Literal, NamedTuple

from .._errors import SpecError


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
        _check_eps(eps)
        if self.gain >= 1:
            return self.delay + 1
        return self.delay + math.ceil(math.log(self.constant / eps) / -math.log1p(-self.gain))


def feddcd(N: int, tau: int, alpha: float, beta: float) -> Rate:
    """1 - r α/β, r = (τ-1)/(N-1)."""
    _check(N, tau, alpha, beta)
    return Rate((tau - 1) / (N - 1) * alpha / beta)


class InexactSettings(NamedTuple):
    kappa: float
    delta: float  # the oracle's error
    eta: float


def inexact_settings(N: int, tau: int, alpha: float, beta: float) -> InexactSettings:
    """κ = (τ-1) α/(32 (N-1) β), δ = (1-κ)/4, η = 1/4."""
    _check(N, tau, alpha, beta)
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
    _check(N, tau, alpha, beta)
    r, kappa = (tau - 1) / (N - 1), alpha / beta
    a = math.sqrt(kappa) / (1 / r + math.sqrt(kappa))
    b = a * kappa * r**2
    return Acceleration(a, b, r, b / (a**2 + b), kappa)


def accfeddcd(N: int, tau: int, alpha: float, beta: float) -> Rate:
    """2 (1 - a)^t; the 2 is for the z term of the Lyapunov function, which the paper drops."""
    return Rate(acceleration(N, tau, alpha, beta).a, constant=2.0)


def pointsaga_rho(N: int, tau: int, alpha: float, beta: float) -> float:
    """ρ = (α/2) (sqrt((n-1)² + 4 n β/α) + n - 1), n = N/τ."""
    _check(N, tau, alpha, beta)
    n = N / tau
    return alpha / 2 * (math.sqrt((n - 1) ** 2 + 4 * n * beta / alpha) + n - 1)


def pointsaga(N: int, tau: int, alpha: float, beta: float) -> Rate:
    """1/(1 + α/ρ) = 1 - α/(α + ρ).

    Defazio's proof for one client a round uses n only as the chance 1/n that a client renews its
    g_i, which is τ/N here; and |mean_I w_i - x*|² is at most the mean of |w_i - x*|².
    """
    return Rate(alpha / (alpha + pointsaga_rho(N, tau, alpha, beta)), delay=1)


class LowerBound(NamedTuple):
    """For β > N α: E[F(w_t) - F*] >= (N α/2) (q²/(1-q²)) (1 - (τ/N)(1-q²))^t for every method,

    q = (s-1)/(s+1), s = sqrt(β/(N α)). As F(0) - F* = (β - N α) q/8 on the chain, that is
    (1/s)(1 - (τ/N)(1-q²))^t of the start. For β <= N α it is trivial: q = 0.
    """

    q: float
    step: float  # 1 - q² = 4 s/(s+1)²
    share: float  # τ/N
    start: float  # F(0) - F*
    constant: float  # 1/s

    @property
    def trivial(self) -> bool:
        return self.q == 0

    @property
    def gain(self) -> float:
        return self.share * self.step

    @property
    def factor(self) -> float:
        return 1 - self.gain

    def at(self, t: float) -> float:
        """In units of F."""
        return self.start * self.constant * self.factor**t

    def on_chain(self, t: float) -> float:
        """On the paper's own chain client 1 has the source too and reveals two coordinates at once,
        K_t = B_t + 1 if B_t ~ Binomial(t, τ/N) is positive, so in place of (1 - (τ/N)(1-q²))^t
        stands q² (1 - (τ/N)(1-q²))^t + (1-q²)(1 - τ/N)^t. Give client N the source, and `at` holds.
        """
        late = self.q**2 * self.factor**t + self.step * (1 - self.share) ** t
        return self.start * self.constant * late

    def rounds(self, eps: float) -> int:
        """Before this round no method has E gap <= ε (F(0) - F*) on the worst case."""
        _check_eps(eps)
        if self.trivial or eps >= self.constant:
            return 0
        return math.ceil(math.log(self.constant / eps) / -math.log1p(-self.gain))


def lower_bound(N: int, tau: int, alpha: float, beta: float) -> LowerBound:
    """The paper's theorem with its two cases kept apart."""
    _check(N, tau, alpha, beta)
    if beta <= N * alpha:
        return LowerBound(0.0, 1.0, tau / N, 0.0, 0.0)
    s = math.sqrt(beta / (N * alpha))
    q = (s - 1) / (s + 1)
    return LowerBound(q, 4 * s / (s + 1) ** 2, tau / N, (beta - N * alpha) * q / 8, 1 / s)


def lower_bound_as_printed(N: int, tau: int, alpha: float, beta: float) -> float:
    """1 - min{(τ/sqrt(N)) 4/sqrt(β/α), 8 sqrt(2)/(β/α), 1}: wrong, see `lower_bound`."""
    _check(N, tau, alpha, beta)
    c = beta / alpha
    return 1 - min(tau / math.sqrt(N) * 4 / math.sqrt(c), 8 * math.sqrt(2) / c, 1.0)


class Prediction(NamedTuple):
    """One row of the paper's Table 1, or beyond it; an order has no constant, and no gain."""

    method: str
    formula: str  # of the rounds for an order, else of the contraction
    kind: Literal["order", "bound", "lower", "trivial"]
    gain: float | None
    uploads_per_round: int
    rounds: float

    @property
    def uploads(self) -> float:
        return self.rounds * self.uploads_per_round


def predictions(
    N: int,
    tau: int,
    alpha: float,
    beta: float,
    eps: float,
    *,
    zeta: float = 1.0,
    sigma: float = 0.0,
    local_steps: int = 1,
) -> list[Prediction]:
    """In the formulas c = β/α, r = (τ-1)/(N-1), L = ln 1/ε, S = σ²/(τ α ε), K local steps."""
    where, K = (N, tau, alpha, beta), local_steps
    _check(*where)
    _check_eps(eps)
    if not (0 <= zeta < math.inf and 0 <= sigma < math.inf and K >= 1):
        got = f"zeta={zeta}, sigma={sigma}, local_steps={K}"
        raise SpecError(f"need zeta >= 0, sigma >= 0 and local_steps >= 1, got {got}")
    c, L, S = beta / alpha, math.log(1 / eps), sigma**2 / (tau * alpha * eps)
    absent = (1 - tau / N) * zeta**2 / (tau * alpha * eps)
    drift = math.sqrt(beta) * (zeta * K + sigma * math.sqrt(K)) / (alpha * math.sqrt(eps))
    least = lower_bound(*where)
    limit = ("trivial", None) if least.trivial else ("lower", least.gain)

    def order(name: str, formula: str, rounds: float) -> Prediction:
        return Prediction(name, formula, "order", None, tau, rounds)

    def bound(name: str, formula: str, rate: Rate, cohorts: int = 1) -> Prediction:
        return Prediction(name, formula, "bound", rate.gain, cohorts * tau, rate.rounds(eps))

    return [
        order("MB-SGD", "S+cL+ (1-τ/N)ζ²/ταε", S + absent + c * L),
        order("FedAvg", "S/K+cL+√(β/ε) (ζK+σ√K)/α", S / K + drift + c * L),
        order("SCAFFOLD", "S/K+(c+N/τ)L", S / K + (c + N / tau) * L),
        bound("FedDCD", "1-r/c", feddcd(*where)),
        bound("FedDCD inexact", "1-r/32c", inexact_feddcd(*where)),
        bound("AccFedDCD", "1-1/(1+√c/r)", accfeddcd(*where), cohorts=2),
        bound("Point-SAGA", "1/(1+α/ρ)", pointsaga(*where)),
        Prediction("any method", "1-τ(1-q²)/N", *limit, tau, least.rounds(eps)),
    ]


def _check(N: int, tau: int, alpha: float, beta: float) -> None:
    if not 2 <= tau <= N:
        raise SpecError(
            f"tau, the number of clients in a round, must be from 2 to N; got tau={tau}, N={N}"
        )
    if not 0 < alpha <= beta < math.inf:
        raise SpecError(f"need 0 < alpha <= beta, got alpha={alpha}, beta={beta}")


def _check_eps(eps: float) -> None:
    if not 0 < eps < 1:
        raise SpecError(f"need 0 < eps < 1, got eps={eps}")
