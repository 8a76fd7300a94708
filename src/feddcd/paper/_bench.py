"""What the cells of one problem and split share: the clients' data and the optimum. Like runs at
work (a cell's seeds, a grid's step sizes): each on a core of the CPU, or as lanes of one vmap on
an accelerator."""

import hashlib
import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .. import tree
from .._errors import Diverged
from .._files import write_atomically
from .._types import Params, Scalar
from ..algorithms import AbstractAlgorithm
from ..data import Dataset, load, partition
from ..data.federate import Federated, federate
from ..participation import UniformSubset
from ..problems import AbstractProblem, Clients, mlp_params, with_stacks
from ..runs.build import check_names, default_dtype, make_algorithm
from ..runs.spec import Spec
from ..simulator.lanes import advance_lanes, lanes
from ..simulator.simulate import Federation, Record, State, federation, start
from ..simulator.threads import alone, cores
from ..solvers import NewtonCG, Tolerance
from .cells import PROBLEMS, Cell, is_mlp

OPTIMUM_TOLERANCE = 1e-9
LANE_CHUNK = 10  # iterations between two looks at the clock


@dataclass(eq=False)
class Bench:
    """One split for all seeds: a seed moves the cohorts, the batches and an MLP's start."""

    federated: Federated
    find: Callable[[], float]  # the optimum, or what stands in for it
    double: bool
    prepared: dict[str, Clients] = field(default_factory=dict)

    @classmethod
    def build(cls, problem: str, data: str, split: str, folder: Path) -> "Bench":
        kind = PROBLEMS[problem]
        spec = Spec(data=data, model=kind.model, l2=kind.l2)
        dtype = default_dtype(spec)
        double = dtype is np.float64
        with jax.enable_x64(double):
            rows = load(data)
            parts = partition(rows.y, split, kind.clients, X=rows.X)
            made = federate(rows, parts, model=kind.model, l2=kind.l2, dtype=dtype)
            if (known := kind.reference) is not None:
                return cls(made, lambda: known, double)
        key = f"optimum-{problem}-{data}-{split}-{_digest(rows, parts)}"
        file = folder / "cells" / f"{key}.json"
        return cls(made, lambda: _optimum(file, lambda: optimum(load(data), parts, kind)), double)

    @cached_property
    def optimum(self) -> float:
        """Found when it is first needed: runs that stop at no gap can begin before."""
        with jax.enable_x64(self.double):
            return self.find()

    def below(self, gap: float | None) -> float | None:
        """The objective at which the gap is reached."""
        return None if gap is None else self.optimum + gap

    def federation(self, cell: Cell) -> Federation:
        spec, clients = cell.spec(), PROBLEMS[cell.problem].clients
        check_names(spec)
        algorithm = make_algorithm(spec, clients, cell.tau, self.federated)
        participation = UniformSubset(clients, cell.tau)
        problem, test = self.problem(algorithm), self.federated.test
        return federation(algorithm, problem, participation, seed=0, test=test, share=False)

    def problem(self, algorithm: AbstractAlgorithm) -> Clients:
        """The clients with what the local solver computes once, which is kept."""
        key = eqx.tree_pformat(getattr(algorithm, "solver", None))
        if key not in self.prepared:
            self.prepared[key] = with_stacks(self.federated.problem, algorithm.prepare)
        return self.prepared[key]

    def start(self, cell: Cell, seed: int):
        """The first model: zero, or the seed's own random one."""
        w = self.federated.w
        if not is_mlp(cell.problem):
            return w
        widths = (w[0][0].shape[0], *(layer[0].shape[1] for layer in w))
        return mlp_params(widths, jax.random.key(seed), w[0][0].dtype)


def optimum(data: Dataset, parts: list[np.ndarray], kind) -> float:
    """min F/N, clients counted equally, by Newton's method on all rows together."""
    pooled = federate(data, [np.arange(len(data.y))], model=kind.model, l2=kind.l2)
    f = tree.first(pooled.problem)
    s = np.empty(len(data.y))
    for part in parts:
        s[part] = 1 / (len(part) * len(parts))
    f = eqx.tree_at(lambda f: f.s, f, jax.device_put(s))
    solver = NewtonCG(stop=Tolerance(OPTIMUM_TOLERANCE), space="parameters")
    value, grad_norm = _minimum(solver, f, pooled.w)
    if not grad_norm <= 1e3 * OPTIMUM_TOLERANCE:
        raise Diverged(
            f"feddcd found no optimum for {data.name}: the norm of the gradient is still "
            f"{grad_norm:.1e}"
        )
    return float(value)


@eqx.filter_jit
def _minimum(solver: NewtonCG, f: AbstractProblem, w: Params) -> tuple[Scalar, Scalar]:
    """The least value of f, from w on, and how long the gradient is there."""
    w, grad_norm, _ = solver(f, w, jax.random.key(0))
    return f(w), grad_norm


def _optimum(file: Path, compute) -> float:
    if file.exists():
        return float(json.loads(file.read_text())["optimum"])
    value = compute()
    file.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"optimum": value})
    write_atomically(file, lambda path: path.write_text(text + "\n"))
    return value


def _digest(data: Dataset, parts: list[np.ndarray]) -> str:
    digest = hashlib.sha256(np.ascontiguousarray(data.y).data)
    for part in parts:
        digest.update(np.ascontiguousarray(part).data)
    return digest.hexdigest()[:10]


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


def player(
    feds: list[Federation], states: list[State], optimum: Callable[[], float]
) -> "Threads | Lanes":
    """Compiled and ready. It can `play` some iterations, down to the objective `below`: finished
    runs by their place in the list; none of those that `stop` cut short."""
    kind = Threads if jax.default_backend() == "cpu" else Lanes
    return kind(feds, states, optimum)


def seeds_of(cell: Cell, bench: Bench, seeds: Sequence[int]) -> "Threads | Lanes":
    base = bench.federation(cell)
    feds = [eqx.tree_at(lambda fed: fed.key, base, jax.random.key(seed)) for seed in seeds]
    states = [start(base, bench.start(cell, seed)) for seed in seeds]
    return player(feds, states, lambda: bench.optimum)


class _Logged(NamedTuple):
    objective: jax.Array
    score: jax.Array
    arrived: jax.Array


def _logged(record: Record) -> _Logged:
    return _Logged(record.objective, record.score, record.arrived)


class _Log:
    """Rounds in, the iterations' last rounds out."""

    def __init__(self, per_iteration: int):
        self.per = per_iteration
        self.rows: list[tuple[float, float, int]] = []
        self.uploads = 0

    def add(self, logged: "_Logged", rounds: int) -> None:
        columns = [np.asarray(x)[:rounds] for x in logged]
        for k, (objective, score, arrived) in enumerate(zip(*columns, strict=True)):
            self.uploads += int(arrived)
            if (k + 1) % self.per == 0:
                self.rows.append((float(objective), min(float(score), 1.0), self.uploads))

    @property
    def last(self) -> float:
        return self.rows[-1][0] if self.rows else float("nan")

    def reached(self, below: float | None) -> bool:
        return below is not None and any(row[0] <= below for row in self.rows)

    def curve(self, iterations: int, below: float | None, optimum: float) -> RunCurve:
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
        return RunCurve(table[:, 0], table[:, 1], table[:, 2].astype(int), optimum)


class Threads:
    def __init__(self, feds: list[Federation], states: list[State], optimum: Callable[[], float]):
        self.feds, self.optimum = feds, optimum
        self.states: list[Any] = [*states]  # None once taken
        self.per = feds[0].algorithm.rounds_per_iteration
        self.advance = alone(feds[0], states[0], self.per)

    def play(self, iterations, below, watch, stop):
        double = jnp.zeros(()).dtype == jnp.float64  # this thread's; others do not inherit it
        lock = threading.Lock()

        def one(k: int) -> tuple[int, RunCurve] | None:
            with jax.enable_x64(double):
                state, log = self.states[k], _Log(self.per)
                self.states[k] = None
                while len(log.rows) < iterations and not log.reached(below):
                    if stop():
                        return None
                    state, trace, sound = self.advance(self.feds[k], state, self.per)
                    if not sound:
                        break
                    log.add(_logged(trace), self.per)
                    with lock:
                        watch(len(log.rows), log.last)
                return k, log.curve(iterations, below, self.optimum())

        with ThreadPoolExecutor(cores()) as pool:
            yield from filter(None, pool.map(one, range(len(self.feds))))


class Lanes:
    def __init__(self, feds: list[Federation], states: list[State], optimum: Callable[[], float]):
        self.count, self.optimum = len(feds), optimum
        self.per = feds[0].algorithm.rounds_per_iteration
        self.runs = lanes(feds)
        self.states: State | None = jax.tree.map(lambda *x: jnp.stack(x), *states)
        room = LANE_CHUNK * self.per
        lowered = advance_lanes.lower(self.runs, self.states, _count(0), room, _logged)  # pyright: ignore
        self.compiled = lowered.compile()

    def play(self, iterations, below, watch, stop):
        logs = [_Log(self.per) for _ in range(self.count)]
        states, room, at = self.states, LANE_CHUNK * self.per, 0
        self.states = None
        while at < iterations and not all(log.reached(below) for log in logs):
            if stop():
                return
            rounds = min(LANE_CHUNK, iterations - at) * self.per
            states, trace = self.compiled(self.runs, states, _count(rounds), room, _logged)
            trace = jax.tree.map(np.asarray, trace)
            for lane, log in enumerate(logs):
                log.add(jax.tree.map(lambda x, lane=lane: x[:, lane], trace), rounds)
            at += rounds // self.per
            watch(at, float(np.median([log.last for log in logs])))
        best = self.optimum()
        yield from ((k, log.curve(iterations, below, best)) for k, log in enumerate(logs))


def _count(rounds: int) -> jax.Array:
    return jnp.asarray(rounds, jnp.int32)
