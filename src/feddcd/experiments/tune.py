"""Step sizes and local epochs of the primal methods, over a stated grid, as the paper did.

The best is the setting whose objective is lowest after `ITERATIONS` rounds (the median of the
last five, since single-sample SGD is noisy) with tau = 0.3 N. What is found goes into
tuned.toml, which the variant `paper` reads; nothing is tuned while results are made.
"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from ..engines.simulate import start
from ._interrupt import patient_interrupt
from ._problems import PRIMAL, check_problems, data_of
from ._settings import batch_size
from .bench import Bench
from .folder import write_atomically
from .paper import NOT_IN_FIGURE3, TABLE2, Cell
from .players import player
from .spec import Setting, SpecError, nearest

SPLITS = ("iid", "two-class")
EPOCHS = (5, 20)
RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)
FEDPROX_M = 1e-4
ITERATIONS = 40
START = 1_000  # the seed of an MLP's first model; cohorts and batches are those of seed 0
NOISE = 5


class Tried(NamedTuple):
    problem: str
    split: str
    algorithm: str
    epochs: int
    rate: float
    objective: float  # nan where it diverged


def tune(
    problems: Sequence[str],
    *,
    splits: Sequence[str] = SPLITS,
    iterations: int = ITERATIONS,
    folder: Path,
    watch: Callable[[Tried], None] = lambda tried: None,
) -> list[Tried]:
    """Every setting of the grid, on problems and splits."""
    check_grid(problems, splits, iterations)
    found = []
    for problem in problems:
        for split in splits:
            if split == "two-class" and problem in NOT_IN_FIGURE3:
                continue
            bench = Bench.build(problem, data_of(problem), split, folder)
            for tried in _tune_bench(bench, problem, split, iterations):
                found.append(tried)
                watch(tried)
    return found


def check_grid(problems: Sequence[str], splits: Sequence[str], iterations: int) -> None:
    check_problems(problems)
    for split in splits:
        if split not in SPLITS:
            raise SpecError(f"unknown split {split!r}{nearest(split, SPLITS)}")
    if iterations < 1:
        raise SpecError(f"need rounds >= 1, got rounds={iterations}")


def _tune_bench(bench: Bench, problem: str, split: str, iterations: int) -> Iterator[Tried]:
    with jax.enable_x64(bench.double), patient_interrupt() as stop:
        for algorithm in PRIMAL:
            for epochs in EPOCHS:
                cell = _cell(problem, split, algorithm, epochs, iterations)
                base = bench.federation(cell)
                feds = [
                    eqx.tree_at(lambda fed: fed.algorithm.solver.lr, base, jnp.asarray(rate))
                    for rate in RATES
                ]
                states = [start(base, bench.start(cell, START)) for _ in RATES]
                made = player(feds, states, bench.optimum)
                for at, curve in made.play(iterations, None, lambda i, F: None, stop):
                    last = float(np.median(curve.objective[-NOISE:]))
                    yield Tried(problem, split, algorithm, epochs, RATES[at], last)
                if stop():
                    raise KeyboardInterrupt


def _cell(problem: str, split: str, algorithm: str, epochs: int, iterations: int) -> Cell:
    settings: dict[str, Setting] = {
        "lr": RATES[0], "epochs": epochs, "batch_size": batch_size(problem)
    }  # fmt: skip
    if algorithm == "fedprox":
        settings["m"] = FEDPROX_M
    tau = TABLE2[0].tau(problem)
    return Cell(
        problem, data_of(problem), split, tau, algorithm, tuple(settings.items()), iterations, 1
    )


def best(tried: Sequence[Tried]) -> dict[str, Any]:
    """As tuned.toml has it: problem, split, algorithm, and there the setting that won."""
    chosen: dict[str, Any] = {}
    for t in tried:
        if not np.isfinite(t.objective):
            continue
        by_algorithm = chosen.setdefault(t.problem, {}).setdefault(t.split, {})
        known = by_algorithm.get(t.algorithm)
        if known is None or t.objective < known["objective"]:
            row = {"lr": t.rate, "epochs": t.epochs, "objective": t.objective}
            by_algorithm[t.algorithm] = row | ({"m": FEDPROX_M} if t.algorithm == "fedprox" else {})
    return chosen


def write_best(tried: Sequence[Tried], file: Path, iterations: int) -> None:
    """Merged into what the file has for other problems and splits."""
    import tomllib

    import tomli_w

    kept = tomllib.loads(file.read_text()) if file.exists() else {}
    for problem, by_split in best(tried).items():
        kept.setdefault(problem, {}).update(by_split)
    kept["grid"] = {"epochs": list(EPOCHS), "lr": list(RATES), "iterations": iterations}
    write_atomically(file, lambda path: path.write_text(tomli_w.dumps(kept)))
