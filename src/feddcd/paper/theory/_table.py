"""The paper's Table 1 with numbers, and more."""

import math
from typing import Literal, NamedTuple

from ..._errors import SpecError
from ._check import check, check_eps
from ._lower import lower_bound
from ._upper import Rate, accfeddcd, feddcd, inexact_feddcd, pointsaga


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
    check(*where)
    check_eps(eps)
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
