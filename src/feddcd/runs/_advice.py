"""What a run says of its own speed: a constant is in doubt, or the rounds are too few.

AccFedDCD's theorem has the gap fall by exp(-P), P the sum of a over the iterations, if κ <= α/β.
On average over the cohorts, (y, z) moves in the dual's flattest direction as

    y' = a (z - y),    z' = a (y - z) - (a/q) y,    κ = q α/β,

so by exp(-P) if q <= 1, and by exp(-P (1 - sqrt(1 - 1/q))) if q > 1. The gap goes with the square:
it falls `USUAL` times as fast as promised if κ is right, and less than once if q > 4/3, when a
better κ saves more than 1.7 times the rounds. From a gap that fell ρ times as fast as promised

    1/q = 1 - (1 - ρ/2)² = ρ (1 - ρ/4).
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np

from .._text import count
from ..history import History
from ..simulator.simulate import Federation

USUAL = 2.0
FIRST = 1.0  # of P: steep directions end first, and say nothing of the flat ones
LEAST = 3.0  # of P: the gap goes up and down on its way
ROUNDING = 1e4  # machine epsilons: a certificate's rounding, which does not fall
OTHERS = "pointsaga or fedqn"


def advice(fed: Federation, server: Any, history: History, target: float | None) -> str:
    """Nothing where the method promises nothing, or some uploads are lost."""
    proven = np.flatnonzero(~np.isnan(history["certified_gap"]))
    if not fed.participation.certain or not len(proven):
        return ""
    t, gap = history["round"][proven], history["certified_gap"][proven]
    promise = fed.algorithm.promised(server, np.append(t, t[-1] + 1))
    if promise is None:
        return ""
    name, value, (power, after) = promise.constant, promise.value, np.split(promise.power, [-1])
    scale = max(1.0, abs(history.last("objective")))
    floor = ROUNDING * float(jnp.finfo(fed.weights.dtype).eps) * scale
    speed = _speed(power, gap, floor)
    if speed is not None and speed < 1:
        return _doubt(name, value, speed)
    if target is None or gap[-1] <= target:
        return ""
    return _distance(name, value, (speed or USUAL) * (after[0] - power[-1]), gap[-1], target)


def _speed(power: np.ndarray, gap: np.ndarray, floor: float) -> float | None:
    """ρ: how much faster than promised the gap fell; None if the run is too short to tell."""
    clear = len(gap) if np.all(gap > floor) else int(np.argmax(gap <= floor))
    power, gap = power[:clear], gap[:clear]
    if not clear or power[-1] < FIRST + LEAST:
        return None
    late = power >= power[-1] - max(LEAST, power[-1] / 2)
    if np.sum(late) < 4:
        return None
    return -float(np.polyfit(power[late], np.log(gap[late]), 1)[0])


def _doubt(name: str, value: float, speed: float) -> str:
    seen = max(speed, 0.01)
    return (
        f"{name} = {value:.3g} may be a wrong setting: the certified gap fell too slowly, at only "
        f"{seen:.2g} of the speed that this {name} promises. Try --set "
        f"{name}={value * seen * (1 - seen / 4):.2g}, or another method: {OTHERS}."
    )


def _distance(name: str, value: float, rate: float, gap: float, target: float) -> str:
    rounds = count(math.ceil(math.log(gap / target) / rate), "more round")
    tenth = count(math.ceil(math.log(10) / rate), "round")
    return (
        f"the run did not reach the target gap {target:g}. With {name} = {value:.3g} the gap "
        f"becomes ten times smaller in about {tenth}, so "
        f"the run needs about {rounds}. Another method may need fewer rounds: {OTHERS}."
    )
