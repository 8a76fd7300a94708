"""Which method a run takes where none is named: rules that were made on the race (docs/race.md)
and, without a penalty, on benchmarks/unpenalised.py.

Few bytes decide, as they travel from the clients. Whoever knows better names a method.
"""

from typing import NamedTuple

AUTO = "auto"
STAND_IN = "fedavg"  # for checks before the data are known: it asks for nothing


class MethodChoice(NamedTuple):
    algorithm: str
    why: str


def choose_method(*, convex: bool) -> MethodChoice:
    if not convex:
        why = "the model is not convex, so no method gives a proof; feddcd needs no step size"
        return MethodChoice("feddcd", why)
    why = (
        "the model is convex, and in most of our comparisons the clients sent the fewest bytes "
        "with this method (see the page The race, docs/race.md)"
    )
    return MethodChoice("fedqn", why)
