"""Runs of the race: on one problem after the other, each run to the smallest target or its limit.

The gap is against an optimum that is computed beforehand, from all rows together.
"""

import time
from functools import lru_cache
from pathlib import Path

import equinox as eqx
import jax
import numpy as np

from .. import tree
from .._errors import DataError, Diverged, FeddcdError
from ..algorithms.catalogue import get_method
from ..data import Dataset, partition
from ..data.federate import federate
from ..runs.build import Built, Inputs, build
from ..runs.interrupt import Interrupted, Stop, never
from ..runs.sizes import message_sizes
from ..runs.spec import Spec
from ..simulator.simulate import start
from ..simulator.threads import compiled
from ..solvers import NewtonCG, Tolerance
from .cells import CHUNK, MOST_ROUNDS, TARGETS, RaceCell, RaceOutcome, allowed
from .problems import RaceProblem
from .trial import named

MAPS = Path("/proc/self/maps")  # of Linux, which allows a process 65,530 parts of memory;
MOST_MAPS = 30_000  # compiled programs of about 40 jobs of a race take as many
LEVELS = 10.0 ** -np.arange(0, 9.51, 0.25)


class Track:
    """A problem with its optimum, for all methods."""

    def __init__(self, problem: RaceProblem):
        self.problem = problem
        with jax.enable_x64(True):
            data = problem.load()
            self.parts = _parts(data, problem)
            self.data, self.N = data, len(self.parts)
            self.optimum = _optimum(data, problem)

    def tau(self, share: float) -> int:
        return max(2, round(share * self.N))

    def built(self, cell: RaceCell) -> Built:
        own = "bits" in get_method(cell.method).settings
        settings = dict(cell.settings) | ({"bits": cell.bits} if own or cell.bits != 64 else {})
        spec = Spec(
            data=self.problem.data, model=self.problem.model, l2=self.problem.l2,
            partition=self.problem.partition, clients=self.N, tau=self.tau(cell.share),
            algorithm=cell.method, settings=settings, weighting="samples", seed=cell.seed,
            participation="everyone" if cell.share == 1 else "uniform",
            given=("data", "parts"),
        )  # fmt: skip
        return build(spec, Inputs(data=self.data, parts=self.parts))


def _parts(data: Dataset, problem: RaceProblem) -> list[np.ndarray]:
    if problem.clients is not None:
        try:
            return partition(data.y, problem.partition, problem.clients, X=data.X)
        except FeddcdError as error:
            raise DataError(str(error)) from None
    if data.groups is None:
        raise DataError(
            "these data have no groups that could be clients, so give the number "
            "of clients in the file of the problem, for example clients = 20"
        )
    return [np.flatnonzero(data.groups == g) for g in np.unique(data.groups)]


@lru_cache(maxsize=1)
def track(problem: RaceProblem) -> Track:
    return Track(problem)


def _optimum(data: Dataset, problem: RaceProblem) -> float:
    pooled = federate(
        data, [np.arange(len(data.y))], model=problem.model, l2=problem.l2, weighting="samples"
    )
    f = tree.first(pooled.problem)
    solver = NewtonCG(stop=Tolerance(1e-10), max_steps=200, space="parameters")
    value, norm = _minimum(solver, f, pooled.w)
    if not norm**2 / (2 * problem.l2) <= 1e-10:
        raise Diverged(
            f"feddcd found no optimum for {problem.name}: the norm of the gradient is still "
            f"{float(norm):.1e}"
        )
    return float(value)


@eqx.filter_jit
def _minimum(solver: NewtonCG, f, w):
    w, norm, _ = solver(f, w, jax.random.key(0))
    return f(w), norm


def forget_programs() -> None:
    """Before a long race has compiled so much that nothing more can be compiled."""
    if MAPS.exists() and MAPS.read_bytes().count(b"\n") > MOST_MAPS:
        jax.clear_caches()


def play(cell: RaceCell, stop: Stop = never) -> RaceOutcome:
    with named(cell.method):
        return _outcome(cell, stop)


def _outcome(cell: RaceCell, stop: Stop) -> RaceOutcome:
    """What cannot be run at all is an outcome, too."""
    forget_programs()
    try:
        with jax.enable_x64(True):
            return _play(cell, stop)
    except (FeddcdError, FloatingPointError) as error:
        if isinstance(error, DataError):  # the data are not at hand
            raise
        return RaceOutcome(f"refused: {error}", {}, [], [], [], [], [], [], 0.0, 0)


def _play(cell: RaceCell, stop: Stop) -> RaceOutcome:
    road = track(cell.problem)
    began = time.perf_counter()
    built = road.built(cell)
    fed, w = built.federation, built.federated.w
    size = sum(x.size for x in jax.tree.leaves(w))
    if not allowed(get_method(cell.method), cell.share, size):
        return RaceOutcome("cannot run: too many parameters", {}, [], [], [], [], [], [], 0.0, size)
    bytes_, state = message_sizes(fed, w), start(fed, w)
    advance = compiled(fed, state, CHUNK)
    log, ended, most = _RaceLog(road.optimum, bytes_), "limit", cell.limit * 8 * size
    while log.round < MOST_ROUNDS and log.up < most:
        if stop():
            raise Interrupted
        state, trace, sound = advance(fed, state, CHUNK)
        log.add(trace, CHUNK)
        if not sound:
            ended = "diverged"
            break
        if log.best <= min(TARGETS):
            ended = "reached"
            break
    if ended == "limit" and log.up < most:
        ended = "rounds"
    chosen = {k: float(v) for k, v in fed.algorithm.chosen(state.server).items()}
    gap, rounds, up, down, uploads, steps = log.columns()
    seconds = time.perf_counter() - began
    counts = (gap, rounds, up, down, uploads, steps)
    sizes = (size, cell.limit, built.N, built.tau, len(road.data.y))
    return RaceOutcome(ended, chosen, *counts, seconds, *sizes)


class _RaceLog:
    """The first time at each level of the gap."""

    def __init__(self, optimum: float, sizes):
        self.optimum, self.sizes, self.rows = optimum, sizes, []
        self.round, self.up, self.down, self.uploads, self.steps = 0, 0.0, 0.0, 0, 0.0
        self.best = np.inf

    def add(self, trace, rounds: int) -> None:
        each = zip(
            *(np.asarray(x, float)[:rounds] for x in
              (trace.asked, trace.arrived, trace.steps, trace.extra, trace.objective)),
            strict=True,
        )  # fmt: skip
        for asked, arrived, steps, extra, objective in each:
            if not np.isfinite(objective):
                return
            self.round, self.uploads = self.round + 1, self.uploads + int(arrived)
            self.up += arrived * self.sizes.up + extra
            self.down += asked * self.sizes.down + arrived * self.sizes.answer
            self.steps += steps
            gap = max(objective - self.optimum, 0.0)
            passed = LEVELS[(gap <= LEVELS) & (self.best > LEVELS)]
            if len(passed):
                self.best = float(passed.min())
                row = (self.best, self.round, self.up, self.down, self.uploads, self.steps)
                self.rows.append(row)
            if self.best <= min(TARGETS):
                return

    def columns(self) -> list[list]:
        return [list(column) for column in zip(*self.rows, strict=True)] or [[] for _ in range(6)]
