"""Which method a run takes where none is named: rules that were made on the race (docs/race.md).

Few bytes decide, as they travel from the clients. Whoever knows better names a method.
"""

from typing import NamedTuple

from .._text import plural

AUTO = "auto"
MATRIX = 2000  # parameters of which a client can send a matrix
STAND_IN = "fedavg"  # for checks before the data are known: it asks for nothing


class MethodChoice(NamedTuple):
    algorithm: str
    why: str


def choose_method(*, convex: bool, l2: float, size: int, N: int, tau: int) -> MethodChoice:
    """By the model (`size` is its number of parameters), the penalty and who takes part."""
    if not convex:
        why = "the model is not convex, so no method gives a proof; feddcd needs no step size"
        return MethodChoice("feddcd", why)
    if l2 <= 0:
        why = "the objective has no penalty (l2 = 0), and most other methods need strong convexity"
        large = "fedlbfgs" if tau == N else "fedavg"
        return MethodChoice("fednewton" if size <= MATRIX else large, why)
    facts = f"{plural(size, 'parameter')}, {tau} of {N} clients in each round, l2 = {l2:g}"
    why = f"in most races (docs/race.md), clients sent the fewest bytes with this method ({facts})"
    return MethodChoice("fedqn", why)
