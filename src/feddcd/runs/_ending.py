"""What is said at the end of a run of any method: its model is worse than the one with which it
began, it may have no optimum to reach, its method is not for this model, or it missed its target.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from .._text import count, fixed, tiny_bound
from .._types import Params
from ..algorithms import FedQN
from ..algorithms.catalogue import get_method
from ..data.federate import Federated
from ..history import History
from ..measure import is_convex, training_score
from ..problems import AbstractSamples, Clients, stacks_of
from ._inputs import Inputs
from .build import Built, known_settings

NEAR = 0.5  # of the objective: with a smaller proven gap a run did not diverge
LONG, FLAT = 20, 0.85  # certificates of a run that can be judged; the part of a gap that remains
SMALL = "1e-4"  # a penalty that changes a model little


class Ending(NamedTuple):
    said: str
    diverged: bool = False


def ending(
    built: Built, given: Inputs, history: History, w: Params, *, unproven: str,
    target: float | None, start: Callable[[], float],
) -> Ending:  # fmt: skip
    """`start` is the objective at the start, which is asked for only where nothing proves that the
    run came near the optimum."""
    measured = history["objective"][np.isfinite(history["objective"])]
    if not len(measured):
        return Ending("")
    objective, gap = measured[-1], history.last("certified_gap")
    near = objective <= measured[0] if unproven else gap <= NEAR * abs(objective)
    if not near and objective > (began := start()):
        return Ending(
            f"the run diverges: the objective was {fixed(began, 4)} at the start, and is "
            f"{fixed(objective, 4)} now. {remedy(built, given)}",
            diverged=True,
        )
    convex = is_convex(built.federated.problem)
    if isinstance(built.federation.algorithm, FedQN) and not convex:
        return Ending(
            "FedQN is made for convex models, and this model is not convex, so the result may be "
            "bad. Compare this result with the results of the methods feddcd and fedavg."
        )
    if convex and built.spec.l2 == 0 and all_right(built.federated, w):
        return Ending(
            "the model predicts every training row correctly, and there is no penalty (l2 = 0). "
            "So there may be no finite optimum: the parameters may grow without end. With a small "
            f"penalty there is a finite optimum: for example --l2 {SMALL}."
        )
    if target is None or gap <= target:
        return Ending("")
    if unproven:
        return Ending(f"the run did not reach the target gap {target:g}, because {unproven}")
    missed = (
        f"the run did not reach the target gap {target:g}: after "
        f"{count(history.rounds, 'round')} the certified gap is {tiny_bound(gap)}. "
    )
    eps = float(np.finfo(built.federation.weights.dtype).eps)
    if target < eps * max(1.0, abs(objective)):
        return Ending(
            f"{missed}Rounding errors are larger than this target: choose a larger target."
        )
    return Ending(missed + _next(built, given, history))


def _next(built: Built, given: Inputs, history: History) -> str:
    """What may lead to the target gap."""
    name = built.spec.algorithm
    other = "--algorithm " + ("pointsaga" if name == "fedqn" else "fedqn")
    if given.algorithm is None and not get_method(name).exact:
        return (
            f"With the method {name}, the gap may stay above this target, so more rounds may not "
            f"help: use {other}."
        )
    if _is_flat(history["certified_gap"]):
        return f"The gap does not fall any more, so more rounds will not help: use {other}."
    return "More rounds may help: --rounds."


def _is_flat(gaps: np.ndarray) -> bool:
    """Whether the last quarter of a run lies hardly below the one before it, despite noise."""
    gaps = gaps[np.isfinite(gaps)]
    if len(gaps) < LONG:
        return False
    _, _, before, last = (float(np.median(part)) for part in np.array_split(gaps, 4))
    return last > FLAT * before


def unproven(history: History, problem: Clients) -> str:
    """Why there is no certificate, where there is none."""
    if not history.rounds:
        return "no round has run"
    if not is_convex(problem):
        return "the model is not convex"
    return "feddcd can prove a bound only with a penalty (l2 above 0)"


def remedy(built: Built, given: Inputs) -> str:
    """What can help a run that diverges, in settings that its method has."""
    spec, own = built.spec, given.algorithm is not None
    endless = (
        " Without a penalty (l2 = 0), there may be no finite optimum: if a model can predict all "
        "training rows correctly, the parameters can grow without end."
        if spec.l2 == 0 and _separates(built.federated)
        else ""
    )
    if not own and "lr" in known_settings(given.named(spec), get_method(spec.algorithm)):
        return f"A smaller step size usually helps: --set lr=...{endless and '.'}{endless}"
    ways = ["a smaller step size (if the method has a step size)"] * own
    if built.tau < built.N:
        ways.append(f"more clients in a round (--tau, now {built.tau} of {built.N})")
    if given.problem is None:
        now = f"a larger penalty (--l2, now {spec.l2:g})"
        ways.append(now if spec.l2 else f"a small penalty (for example --l2 {SMALL})")
    best = " fedqn" * (is_convex(built.federated.problem) and spec.algorithm != "fedqn")
    ways.append(f"another method (--algorithm{best})")
    *most, last = ways
    return f"This can help: {', '.join(most)}{' or ' * bool(most)}{last}.{endless}"


def _separates(federated: Federated) -> bool:
    """Whether a model without a penalty can have no optimum because it predicts all rows."""
    return federated.classes is not None and is_convex(federated.problem)


def all_right(federated: Federated, w: Params) -> bool:
    stacks = stacks_of(federated.problem)
    if federated.classes is None or not all(isinstance(f, AbstractSamples) for f in stacks):
        return False
    score = float(training_score(stacks, w))  # pyright: ignore
    return score >= 1 - 64 * float(np.finfo(np.asarray(stacks[0].mu).dtype).eps)  # sums round
