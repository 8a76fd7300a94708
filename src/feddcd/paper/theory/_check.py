"""Bad input is refused at the door."""

import math

from ..._errors import SpecError


def check(N: int, tau: int, alpha: float, beta: float) -> None:
    if not 2 <= tau <= N:
        raise SpecError(f"need 2 <= tau <= N, got tau={tau}, N={N}")
    if not 0 < alpha <= beta < math.inf:
        raise SpecError(f"need 0 < alpha <= beta, got alpha={alpha}, beta={beta}")


def check_eps(eps: float) -> None:
    if not 0 < eps < 1:
        raise SpecError(f"need 0 < eps < 1, got eps={eps}")
