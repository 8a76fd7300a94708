"""Like runs at work (a cell's seeds, a grid's step sizes): each on a core of the CPU, or as lanes
of one vmap on an accelerator."""

import abc
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..simulator.lanes import advance_lanes, lanes
from ..simulator.simulate import Federation, Record, State, start
from ..simulator.threads import alone, cores
from ._bench import Bench
from .cells import Cell

LANE_CHUNK = 10  # iterations between two looks at the clock


class RunCurve(NamedTuple):
    """By iteration, 1 first; nan once a run has diverged."""

    objective: np.ndarray
    accuracy: np.ndarray
    uploads: np.ndarray
    optimum: float

    def reached(self, gap: float) -> int | None:
        """The first iteration with at most this gap, as the paper counts: from 1."""
        hits = np.flatnonzero(self.objective - self.optimum <= gap)
        return int(hits[0]) + 1 if len(hits) else None


Watch = Callable[[int, float], None]


class Player(abc.ABC):
    @abc.abstractmethod
    def play(
        self, iterations: int, below: float | None, watch: Watch, stop: Callable[[], bool]
    ) -> Iterator[tuple[int, RunCurve]]:
        """Finished runs by their place in the list; none of those that `stop` cut short."""


def player(feds: list[Federation], states: list[State], optimum: float) -> Player:
    """Compiled and ready."""
    kind = Threads if jax.default_backend() == "cpu" else Lanes
    return kind(feds, states, optimum)


def seeds_of(cell: Cell, bench: Bench, seeds: Sequence[int]) -> Player:
    base = bench.federation(cell)
    feds = [eqx.tree_at(lambda fed: fed.key, base, jax.random.key(seed)) for seed in seeds]
    return player(feds, [start(base, bench.start(cell, seed)) for seed in seeds], bench.optimum)


class _Log:
    """Rounds in, the iterations' last rounds out."""

    def __init__(self, per_iteration: int, optimum: float):
        self.per, self.optimum = per_iteration, optimum
        self.rows: list[tuple[float, float, int]] = []
        self.uploads = 0

    def add(self, record: Record, rounds: int) -> None:
        columns = [np.asarray(x)[:rounds] for x in (record.objective, record.score, record.arrived)]
        for k, (objective, score, arrived) in enumerate(zip(*columns, strict=True)):
            self.uploads += int(arrived)
            if (k + 1) % self.per == 0:
                self.rows.append((float(objective), min(float(score), 1.0), self.uploads))

    @property
    def last(self) -> float:
        return self.rows[-1][0] if self.rows else float("nan")

    def reached(self, below: float | None) -> bool:
        return below is not None and any(row[0] <= below for row in self.rows)

    def curve(self, iterations: int, below: float | None) -> RunCurve:
        """Cut right after the iteration that reached `below`; padded where a run diverged."""
        rows = self.rows
        if below is not None:
            hits = [k for k, row in enumerate(rows) if row[0] <= below]
            rows = rows[: hits[0] + 1] if hits else rows
        table = np.array(rows, float).reshape(-1, 3)
        if not self.reached(below) and len(table) < iterations:
            padding = np.full((iterations - len(table), 3), np.nan)
            padding[:, 2] = self.uploads
            table = np.concatenate([table, padding])
        return RunCurve(table[:, 0], table[:, 1], table[:, 2].astype(int), self.optimum)


class Threads(Player):
    def __init__(self, feds: list[Federation], states: list[State], optimum: float):
        self.feds, self.optimum = feds, optimum
        self.states: list[Any] = [*states]  # None once taken
        self.per = feds[0].algorithm.rounds_per_iteration
        self.advance = alone(feds[0], states[0], self.per)

    def play(self, iterations, below, watch, stop):
        double = jnp.zeros(()).dtype == jnp.float64  # this thread's; others do not inherit it
        lock = threading.Lock()

        def one(k: int) -> tuple[int, RunCurve] | None:
            with jax.enable_x64(double):
                state, log = self.states[k], _Log(self.per, self.optimum)
                self.states[k] = None
                while len(log.rows) < iterations and not log.reached(below):
                    if stop():
                        return None
                    state, trace, sound = self.advance(self.feds[k], state, self.per)
                    if not sound:
                        break
                    log.add(trace, self.per)
                    with lock:
                        watch(len(log.rows), log.last)
                return k, log.curve(iterations, below)

        with ThreadPoolExecutor(cores()) as pool:
            yield from filter(None, pool.map(one, range(len(self.feds))))


class Lanes(Player):
    def __init__(self, feds: list[Federation], states: list[State], optimum: float):
        self.count, self.optimum = len(feds), optimum
        self.per = feds[0].algorithm.rounds_per_iteration
        self.runs = lanes(feds)
        self.states: State | None = jax.tree.map(lambda *x: jnp.stack(x), *states)
        room = LANE_CHUNK * self.per
        lowered = advance_lanes.lower(self.runs, self.states, _count(0), room)  # pyright: ignore
        self.compiled = lowered.compile()

    def play(self, iterations, below, watch, stop):
        logs = [_Log(self.per, self.optimum) for _ in range(self.count)]
        states, room, at = self.states, LANE_CHUNK * self.per, 0
        self.states = None
        while at < iterations and not all(log.reached(below) for log in logs):
            if stop():
                return
            rounds = min(LANE_CHUNK, iterations - at) * self.per
            states, trace = self.compiled(self.runs, states, _count(rounds), room)
            trace = jax.tree.map(np.asarray, trace)
            for lane, log in enumerate(logs):
                log.add(jax.tree.map(lambda x, lane=lane: x[:, lane], trace), rounds)
            at += rounds // self.per
            watch(at, float(np.median([log.last for log in logs])))
        yield from ((k, log.curve(iterations, below)) for k, log in enumerate(logs))


def _count(rounds: int) -> jax.Array:
    return jnp.asarray(rounds, jnp.int32)
