"""Which method a run takes where none is named: rules that were made on the race (docs/race.md)
and, without a penalty, on benchmarks/unpenalised.py.

Few bytes decide, as they travel from the clients. Whoever knows better names a method.
"""

from collections.abc import Iterable
from typing import NamedTuple

from .spec import Spec

AUTO = "auto"
LARGE = 20_000  # parameters; measured at 7,800 (mnist) and at 47,236 (rcv1-subset), with l2 = 0
STAND_IN = "fedavg"  # for checks before the data are known: it asks for nothing


OF_SETTINGS = (
    f"method: {Spec.algorithm}, because the command has a setting of a method, but no "
    "--algorithm, and feddcd is then the default; to use another method, add --algorithm"
)


def unnamed(settings: Iterable[str]) -> str:
    """The method where nobody named one. Settings are then those of FedDCD, but for the bits, which
    every method has."""
    return Spec.algorithm if set(settings) - {"bits"} else AUTO


def shown(label: str | None, algorithm: str) -> str:
    """What a run is called: `auto (fedqn)` where a comparison has the name auto for its method."""
    return f"{AUTO} ({algorithm})" if label == AUTO else label or algorithm


class MethodChoice(NamedTuple):
    algorithm: str
    why: str


def choose_method(*, convex: bool, l2: float, size: int, everyone: bool) -> MethodChoice:
    """By the model (`size` is its number of parameters), the penalty and whether all clients take
    part in every round."""
    if not convex:
        why = (
            "it needs no step size. The model is not convex, so no method can prove how far its "
            "result is from the best one"
        )
        return MethodChoice("feddcd", why)
    if l2 <= 0 and size > LARGE and everyone:
        why = (
            f"the model is convex and has more than {LARGE:,} parameters, there is no penalty "
            "(l2 = 0), and all clients take part in every round. When we compared "
            "methods in such a case, the clients sent the fewest bytes with this method"
        )
        return MethodChoice("fedlbfgs", why)
    why = (
        "the model is convex, and in most of our comparisons the clients sent the fewest bytes "
        "with this method"
    )
    return MethodChoice("fedqn", why)
