"""Step sizes and local epochs of the primal methods over a stated grid, as the paper did, and
FedDCD's η where local problems are solved exactly: any η < 2 descends, and local curvature
above l2 makes room for more than the theorem's 1. (AccFedDCD's theorem has no such room.)

The best is the setting with the lowest objective after `ITERATIONS` rounds (the median of the
last five, since single-sample SGD is noisy) with tau = 0.3 N. What is found goes into
tuned.toml, which the variant `paper` reads; nothing is tuned while results are made, and
they have other seeds.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from .._errors import SpecError
from .._files import write_atomically
from .._text import nearest
from ..runs.interrupt import patient_interrupt
from ..simulator.simulate import start
from ._bench import Bench, player
from .cells import (
    NOT_IN_FIGURE3,
    PRIMAL,
    TABLE2,
    TEXT_NEWTON,
    Cell,
    Settings,
    batch_size,
    check_problems,
    data_of,
    is_mlp,
)

SPLITS = ("iid", "two-class")
TUNED = (*PRIMAL, "feddcd")
EPOCHS = (5, 20)
RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)
ETAS = (1.0, 1.25, 1.5, 1.75)
FEDPROX_M = 1e-4
ITERATIONS = 40
START = 1_000  # the seed of an MLP's first model; cohorts and batches are those of seed 0
NOISE = 5


class Tried(NamedTuple):
    problem: str
    split: str
    algorithm: str
    settings: Settings  # those of the grid
    objective: float  # nan where it diverged


class GridLine(NamedTuple):
    """Settings that differ in one number, and where a federation has it."""

    algorithm: str
    settings: Settings
    name: str
    values: tuple[float, ...]
    where: Callable[[Any], Any]


def lines(problem: str, algorithms: Sequence[str]) -> Iterator[GridLine]:
    for algorithm in algorithms:
        if algorithm in PRIMAL:
            more: Settings = {"m": FEDPROX_M} if algorithm == "fedprox" else {}
            for epochs in EPOCHS:
                rate = lambda fed: fed.algorithm.solver.lr
                yield GridLine(algorithm, {"epochs": epochs, **more}, "lr", RATES, rate)
        elif not is_mlp(problem):
            yield GridLine(algorithm, {}, "eta", ETAS, lambda fed: fed.algorithm.eta)


def tune(
    problems: Sequence[str],
    *,
    splits: Sequence[str] = SPLITS,
    algorithms: Sequence[str] = TUNED,
    iterations: int = ITERATIONS,
    folder: Path,
    watch: Callable[[Tried], None] = lambda tried: None,
) -> list[Tried]:
    """Every setting of the grid, on problems and splits."""
    check_grid(problems, splits, algorithms, iterations)
    results = []
    for problem in problems:
        for split in splits:
            if split == "two-class" and problem in NOT_IN_FIGURE3:
                continue
            bench = Bench.build(problem, data_of(problem), split, folder)
            for tried in _tune_bench(bench, problem, split, algorithms, iterations):
                results.append(tried)
                watch(tried)
    return results


def check_grid(
    problems: Sequence[str], splits: Sequence[str], algorithms: Sequence[str], iterations: int
) -> None:
    check_problems(problems)
    for algorithm in algorithms:
        if algorithm not in TUNED:
            raise SpecError(f"{algorithm!r} has no setting to tune{nearest(algorithm, TUNED)}")
    for split in splits:
        if split not in SPLITS:
            raise SpecError(f"unknown split {split!r}{nearest(split, SPLITS)}")
    if iterations < 1:
        raise SpecError(f"rounds must be at least 1, got rounds={iterations}")


def _tune_bench(
    bench: Bench, problem: str, split: str, algorithms: Sequence[str], iterations: int
) -> Iterator[Tried]:
    with jax.enable_x64(bench.double), patient_interrupt() as stop:
        for line in lines(problem, algorithms):
            cell = _cell(problem, split, line, iterations)
            base = bench.federation(cell)
            feds = [eqx.tree_at(line.where, base, jnp.asarray(value)) for value in line.values]
            states = [start(base, bench.start(cell, START)) for _ in line.values]
            made = player(feds, states, lambda: bench.optimum)
            for at, curve in made.play(iterations, None, lambda i, F: None, stop):
                last = float(np.median(curve.objective[-NOISE:]))
                tried = {line.name: line.values[at], **line.settings}
                yield Tried(problem, split, line.algorithm, tried, last)
            if stop():
                raise KeyboardInterrupt


def _cell(problem: str, split: str, line: GridLine, iterations: int) -> Cell:
    local: Settings = {"batch_size": batch_size(problem)} if line.name == "lr" else TEXT_NEWTON
    settings = {line.name: line.values[0], **line.settings, **local}
    tau, data = TABLE2[0].tau(problem), data_of(problem)
    return Cell(problem, data, split, tau, line.algorithm, tuple(settings.items()), iterations, 1)


def best(tried: Sequence[Tried]) -> dict[str, Any]:
    """As tuned.toml has it: problem, split, algorithm, and there the setting that won."""
    chosen: dict[str, Any] = {}
    for t in tried:
        if not np.isfinite(t.objective):
            continue
        by_algorithm = chosen.setdefault(t.problem, {}).setdefault(t.split, {})
        best_so_far = by_algorithm.get(t.algorithm)
        if best_so_far is None or t.objective < best_so_far["objective"]:
            by_algorithm[t.algorithm] = {**t.settings, "objective": t.objective}
    return chosen


def write_best(tried: Sequence[Tried], file: Path, iterations: int) -> None:
    """Merged into what the file has for other problems, splits and methods."""
    import tomllib

    import tomli_w

    kept = tomllib.loads(file.read_text()) if file.exists() else {}
    for problem, by_split in best(tried).items():
        for split, found in by_split.items():
            kept.setdefault(problem, {}).setdefault(split, {}).update(found)
    grid = {"epochs": list(EPOCHS), "lr": list(RATES), "eta": list(ETAS)}
    kept["grid"] = grid | {"iterations": iterations}
    write_atomically(file, lambda path: path.write_text(tomli_w.dumps(kept)))
