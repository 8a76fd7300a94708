"""What no method can beat on the worst-case chain."""

import math
from typing import NamedTuple

from ._check import check, check_eps


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
        check_eps(eps)
        if self.trivial or eps >= self.constant:
            return 0
        return math.ceil(math.log(self.constant / eps) / -math.log1p(-self.gain))


def lower_bound(N: int, tau: int, alpha: float, beta: float) -> LowerBound:
    """The paper's theorem with its two cases kept apart."""
    check(N, tau, alpha, beta)
    if beta <= N * alpha:
        return LowerBound(0.0, 1.0, tau / N, 0.0, 0.0)
    s = math.sqrt(beta / (N * alpha))
    q = (s - 1) / (s + 1)
    return LowerBound(q, 4 * s / (s + 1) ** 2, tau / N, (beta - N * alpha) * q / 8, 1 / s)


def lower_bound_as_printed(N: int, tau: int, alpha: float, beta: float) -> float:
    """1 - min{(τ/sqrt(N)) 4/sqrt(β/α), 8 sqrt(2)/(β/α), 1}: wrong, see `lower_bound`."""
    check(N, tau, alpha, beta)
    c = beta / alpha
    return 1 - min(tau / math.sqrt(N) * 4 / math.sqrt(c), 8 * math.sqrt(2) / c, 1.0)
