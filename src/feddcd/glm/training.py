"""A first guess, Newton rounds until near the optimum, closing exchanges until that is proven."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import numpy as np

from ..participation import Available, Everyone
from .certificate import solve
from .points import Point, at
from .rounds import Clock, Remembered, rounds
from .sites import Sites

STALLS = 5  # closings in a row without progress that mean separation


class Course(NamedTuple):
    point: Point
    error: float
    exchanges: int
    uploads: int
    bytes_up: int
    converged: bool


class Separated(Exception):
    """The step along which the likelihood keeps rising, d by k."""

    def __init__(self, direction: np.ndarray):
        self.direction = direction


def train(
    sites: Sites,
    guess: Callable[[np.ndarray], tuple[np.ndarray, int]],
    judge: Callable[[Point], float],
    *,
    tol: float,
    absent: float,
    seed: int,
    limit: int,
    extra: int,
) -> Course:
    """From a guess to a point that `judge` finds within tol, or the last of `limit` exchanges.

    `guess(who is there)` gives w and the exchanges it took; `extra` numbers for the table travel
    with every upload."""
    N, d = sites.problem.s.shape[0], len(sites.D)
    who = Available(N, 1 - absent) if absent else Everyone(N)
    clock = Clock(who, jax.random.key(seed), limit)
    there = clock.present(0)
    w, pilots = guess(there)
    for _ in range(pilots):
        clock.count(int(there.sum()), d * (d + 1) // 2 + d * (w.shape[1] + 1) + extra)
    near = rounds(sites, w, clock, seed, extra)
    point, error = _close(sites, near, judge, tol, clock, extra)
    return Course(point, error, clock.exchanges, clock.uploads, clock.bytes_up, error <= tol)


def _close(
    sites: Sites, near: Remembered, judge, tol: float, clock: Clock, extra: int
) -> tuple[Point, float]:
    """Closing exchanges, each from the step of the one before."""
    numbers = near.w.size * (near.w.size + 3) // 2 + 5 + extra
    w, H, seen, step, t = near.w, near.H, near.seen, near.step, 1.0
    best, error, stalls = None, np.inf, 0
    while _everyone_answers(clock, numbers, best):
        point = at(sites, w + t * step.reshape(w.shape), seen, H)
        if not _lower(point, best is not None or clock.who.certain):
            t /= 2
            continue
        error = judge(point) if point.bound.decrement < np.inf else np.inf
        if error <= tol or point.rounded:
            return point, error
        stalls = stalls + 1 if _stalled(point) else 0
        if stalls == STALLS or (stalls >= 2 and clock.over):
            raise Separated(point.w - w)
        step = _step(point, None if best is None and not clock.who.certain else (H, point.w - w))
        best, t = point, min(1.0, 2 * t)
        w, H, seen = point.w, point.H, np.broadcast_to(point.w, seen.shape)
    return best, error  # pyright: ignore


def _lower(point: Point, same: bool) -> bool:
    """Whether the step may be kept; if all sites come from the same point it must not rise."""
    slack = 1e-10 * abs(point.objective_before)
    if not same:
        return bool(np.isfinite(point.objective))
    return point.objective <= point.objective_before + slack


def _stalled(point: Point) -> bool:
    """Near by its decrement, yet moving on in large steps: the optimum is at infinity."""
    x = point.bound.decrement * point.bound.S
    return point.m > 0.3 and point.bound.decrement <= 1 and not x < 0.5


def _step(point: Point, before: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
    """Newton's step q, and where the last move v is known what it tells of the third derivative:
    ∇³f[v] = ΔH about, so with q = av + u the correction is -H⁻¹(a²ΔHv + 2aΔHu)/2."""
    try:
        q = -solve(point.H, point.g)
    except np.linalg.LinAlgError:
        raise Separated(np.linalg.eigh(point.H)[1][:, 0].reshape(point.w.shape)) from None
    if before is None:
        return q
    change, v = point.H - before[0], before[1].reshape(-1)
    size = v @ point.H @ v
    a = (q @ point.H @ v) / size if size > 0 else 0.0
    correction = -solve(point.H, change @ (a * a * v + 2 * a * (q - a * v))) / 2
    small = correction @ point.H @ correction < (q @ point.H @ q) / 2
    return q + correction if small else q


def _everyone_answers(clock: Clock, numbers: int, best: Point | None) -> bool:
    """Exchanges until all sites have answered at one point; false if there are too many."""
    missing = np.ones(clock.who.N, bool)
    while missing.any() and not clock.over:
        there = missing if clock.who.certain else missing & clock.present(clock.exchanges)
        clock.count(int(there.sum()), numbers)
        missing = missing & ~there
    if missing.any() and best is None:
        raise ValueError(f"max_exchanges={clock.limit} is too few for a closing exchange")
    return not missing.any()
