"""What keeps FedQN from running away, and notices where it gets nowhere.

c divides the step. It is the ratio of how far sites bend to what the metric says, where that is
above 2, and falls afterwards; the more slowly, the more often it was needed. `room` limits a step's
energy in the first metric, in units of the first loss. While sites are unseen a step is shorter.
None of them moves the fixed point.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .._types import Scalar

BENT = 2.0  # a ratio above it is trouble
MOST = 1e6  # of c
FALL = 0.7  # of c, where nothing was wrong for long
ROOM = (1e-4, 1.0)  # least and most
TROUBLES = 3.0  # in a row: the whole metric is too small
BETTER = 0.9  # of the least energy
PATIENCE = 5.0  # visits of everybody without a better energy, then c stays above more
GIVEN_UP = 20.0  # such visits: it says that it does not converge
LARGEST_LEAST = 1000.0
EASE = 0.5  # of c's least, at each better energy
UNSEEN = 0.3  # the weight, beside theirs, of sites that said nothing yet: they would stay
FAR = 1e-4  # of the first loss: an energy above it is not convergence


class Caution(NamedTuple):
    c: Scalar
    fall: Scalar
    room: Scalar
    troubles: Scalar  # in a row
    lift: Scalar  # by which the first metric is to grow, now
    least: Scalar  # of c
    energy: Scalar  # of the last round: about the gap that is left
    low: Scalar  # the least energy
    idle: Scalar  # visits of everybody since
    stuck: Scalar  # visits without a better one since c's least grew: once it was low by chance,
    # none may ever be lower
    lately: Scalar  # the least energy since c's least grew
    loss: Scalar  # the first


def new_guard(dtype) -> Caution:
    one = jnp.ones((), dtype)
    zero, never = 0 * one, jnp.inf * one
    return Caution(one, FALL * one, 0.1 * one, zero, one, one, never, never, zero, zero, never, one)


def judged(guard: Caution, ratio: Scalar) -> Caution:
    """After a round in which the sites bent `ratio` times as much as the metric says."""
    bad = ratio > BENT
    slower = 1 - jnp.maximum((1 - guard.fall) / 2, 0.02)
    fall = jnp.where(bad, slower, jnp.maximum(FALL, guard.fall - 0.01))
    eased = jnp.maximum(guard.least, jnp.minimum(fall * guard.c, jnp.sqrt(10 * guard.c)))
    c = jnp.where(bad, jnp.minimum(ratio, MOST), eased)
    wider = guard.room * (1 + (1 - fall) / (1 - FALL))
    room = jnp.clip(jnp.where(bad, guard.room / 2, wider), *ROOM)
    troubles = jnp.where(bad, guard.troubles + 1, 0.0)
    lifts = troubles >= TROUBLES
    return guard._replace(
        c=jnp.where(lifts, 1.0, c),
        fall=fall,
        room=room,
        troubles=jnp.where(lifts, 0.0, troubles),
        lift=jnp.where(lifts, jnp.minimum(c, 10.0), 1.0),
    )


def watched(guard: Caution, energy: Scalar, share: Scalar) -> Caution:
    """After a round; `energy` estimates the gap that is left."""
    better = (energy < BETTER * guard.low) | (energy < 1e-13 * guard.loss)
    idle = jnp.where(better, 0.0, guard.idle + share)
    falls = energy < BETTER * guard.lately
    stuck = jnp.where(better | falls, 0.0, guard.stuck + share)
    more = stuck > PATIENCE
    least = jnp.where(better, jnp.maximum(1.0, EASE * guard.least), guard.least)
    least = jnp.where(more, jnp.minimum(2 * least, LARGEST_LEAST), least)
    return guard._replace(
        energy=energy,
        low=jnp.where(better, energy, guard.low),
        idle=idle,
        least=least,
        stuck=jnp.where(more, 0.0, stuck),
        lately=jnp.where(more, jnp.inf, jnp.where(falls, energy, guard.lately)),
    )


def measured(guard: Caution, energy: Scalar) -> Caution:
    """With the first step's energy for a unit, where the first loss is nothing beside it."""
    return guard._replace(loss=jnp.where(guard.loss > 1e-12 * energy, guard.loss, energy))


def shortened(guard: Caution, energy: Scalar) -> Scalar:
    """The part of a step that is taken; `energy` is the step's in the first metric."""
    limit = guard.room * guard.loss
    return jnp.where(energy > limit, jnp.sqrt(limit / jnp.where(energy > 0, energy, 1)), 1.0)


def trusted(seen: Scalar) -> Scalar:
    """The part of a step that is taken while only such a part of all weight was seen."""
    return jnp.where(seen > 0, seen / (seen + UNSEEN * jnp.maximum(1 - seen, 0)), 1.0)


def stalled(guard: Caution) -> Bool[Array, ""]:
    return guard.idle > GIVEN_UP


def far(guard: Caution) -> Bool[Array, ""]:
    """The model is not to be believed yet, or is not finite."""
    return ~(guard.energy <= FAR * guard.loss)


def within_reach(value: Scalar, change: Float[Array, " d"]) -> Bool[Array, ""]:
    """Whether a site can tell what it found; else it sends no change, and an enormous bend."""
    return jnp.isfinite(value) & jnp.all(jnp.abs(change) < BEYOND)


BEYOND = 1e30
