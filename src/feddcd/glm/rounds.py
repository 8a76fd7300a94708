"""Newton rounds with whoever is there, until closing may begin."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from ..algorithms import FedNewton
from ..engines.simulate import advance, federation, round_keys, start
from ..participation import AbstractParticipation
from .certificate import solve
from .points import quadratic
from .sites import Sites

NEAR = 0.25  # closing begins when the decrement's square per row is below
NEAR_ABSENT = 0.1  # or the decrement, in standard errors, as a closing takes several exchanges
BYTES = 8


class Clock:
    """Counts what the exchanges cost, and says who is there."""

    def __init__(self, who: AbstractParticipation, key, limit: int):
        self.who, self.key, self.limit = who, key, limit
        self.exchanges = self.uploads = self.bytes_up = 0

    @property
    def over(self) -> bool:
        return self.exchanges >= self.limit

    def present(self, t: int) -> np.ndarray:
        cohort = self.who(round_keys(self.key, jnp.asarray(t, jnp.int32))[0])
        there = np.zeros(self.who.N, bool)
        there[np.asarray(cohort.ids)] = np.asarray(cohort.arrived)
        return there

    def count(self, uploads: int, numbers: int) -> None:
        self.exchanges += 1
        self.uploads += uploads
        self.bytes_up += uploads * numbers * BYTES


class Remembered(NamedTuple):
    """What the server knows when closing begins: a Hessian and each site's w_i in it."""

    w: np.ndarray
    H: np.ndarray
    seen: np.ndarray
    step: np.ndarray


def rounds(sites: Sites, w: np.ndarray, clock: Clock, seed: int, extra: int) -> Remembered:
    """FedNewton, until closing may begin."""
    who, like = clock.who, jnp.asarray(w)
    fed = federation(FedNewton(like=like), sites.problem, who, seed=seed + 1)
    state, seen, known = start(fed, like), np.tile(w, (who.N, 1, 1)), np.zeros(who.N, bool)
    drawn = Clock(who, fed.key, clock.limit)
    numbers = w.size * (w.size + 3) // 2 + 3 + extra
    while not clock.over:
        trial, there = np.asarray(state.server.points.trial).copy(), drawn.present(int(state.t))
        state, _, _ = advance(fed, state, jnp.ones((), jnp.int32), 1)
        clock.count(int(there.sum()), numbers)
        if np.array_equal(np.asarray(state.server.points.w), trial):
            seen[there], known = trial.reshape(w.shape), known | there
        near = _remember(sites, state.server, seen)
        if near is not None and known.all() and _is_near(sites, near, who.certain):
            return near
    raise ValueError(
        f"max_exchanges={clock.limit} is too few: the model is still changing "
        f"and {int(known.sum())} of {who.N} sites have answered"
    )


def _is_near(sites: Sites, near: Remembered, certain: bool) -> bool:
    square = float(near.step @ near.H @ near.step)
    weight = sites.c * len(near.seen)
    return quadratic(sites) or square <= (NEAR * weight if certain else NEAR_ABSENT**2)


def _remember(sites: Sites, server, seen: np.ndarray) -> Remembered | None:
    p, Q = server.points.w.size, jax.tree.map(np.asarray, server.Q)
    upper = np.zeros((p, p))
    upper[np.triu_indices(p)] = Q.H
    H = (upper + np.triu(upper, 1).T) * sites.c * len(seen)
    w = np.asarray(server.points.w)
    try:
        step = solve(H, Q.b * sites.c * len(seen) - H @ w)
    except np.linalg.LinAlgError:
        return None
    return Remembered(w.reshape(seen.shape[1:]), H, seen, step)
