"""Run cells: seeds side by side, results kept one file per cell and seed, so that a grid that
is interrupted goes on where it was."""

import csv
import itertools
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import jax
import numpy as np

from .._errors import FolderError
from .._files import write_atomically
from ..runs.interrupt import Interrupted, patient_interrupt
from ._bench import Bench, Lanes, RunCurve, Threads, seeds_of
from ._processes import enough_processes, run_in_processes, size_of
from .cells import Cell

COLUMNS = ("iteration", "uploads", "objective", "accuracy")


class Step(NamedTuple):
    """How far a grid is: the cell at work, its iterations, and cells done of all."""

    cell: Cell
    iteration: int
    objective: float
    done: int
    cells: int


Results = dict[str, list[RunCurve]]  # by cell id, one curve per seed


def run_grid(
    cells: Sequence[Cell],
    folder: Path,
    watch: Callable[[Step], None] = lambda step: None,
    processes: int | None = None,
) -> Results:
    """Every cell's curves, from the folder where they are there already. `processes` share an
    accelerator; by default one on a CPU, and up to ten elsewhere."""
    results: Results = {}
    if processes is None:
        processes = enough_processes(jax.default_backend())
    if processes > 1:
        _run_missing(cells, folder, processes, watch)
    key = lambda c: (c.problem, c.data, c.split)
    groups = [CellGroup(list(cells), folder) for _, cells in itertools.groupby(cells, key)]
    with patient_interrupt() as stop, ThreadPoolExecutor(_compilers()) as pool:
        if _compilers() > 1:  # an accelerator has work sooner if small files are read first
            groups.sort(key=lambda group: size_of(group.members[0].data))
            for group in groups:
                if group.missing:
                    pool.submit(group.bench)
        ready = (pool.submit(prepare, c, group, folder) for group in groups for c in group.missing)
        made = _ahead(ready, _compilers())
        done = len(cells) - sum(len(group.missing) for group in groups)
        for group in groups:
            for cell, future in zip(group.missing, made, strict=False):
                at = (done, len(cells))
                shown = lambda i, F, c=cell, at=at: watch(Step(c, i, F, *at))
                play(cell, group.bench(), future.result(), folder, shown, stop)
                if stop():
                    raise Interrupted
                done += 1
            group.forget()
            for c in group.members:
                results[c.id] = [load(c, seed, folder) for seed in c.draws]
            c = group.members[-1]  # the cells themselves were shown while they ran
            last = float(results[c.id][-1].objective[-1])
            watch(Step(c, c.iterations, last, done, len(cells)))
    return results


def _run_missing(cells: Sequence[Cell], folder: Path, processes: int, watch) -> None:
    missing = [c for c in cells if _missing(c, folder)]
    if not missing:
        return
    there = len(cells) - len(missing)
    shown = lambda cell, i, F, done: watch(Step(cell, i, F, there + done, len(cells)))
    with patient_interrupt() as stop:
        run_in_processes(missing, folder, processes, shown, stop)
        if stop():
            raise Interrupted


class CellGroup:
    """The cells of one problem and split. Whoever needs their data first reads them; an
    accelerator thus gets the next group's programs while it still runs this one's."""

    def __init__(self, members: list[Cell], folder: Path):
        self.members = members
        self.missing = [c for c in members if _missing(c, folder)]
        self.folder, self.lock, self.found = folder, threading.Lock(), None

    def bench(self) -> Bench:
        with self.lock:
            if self.found is None:
                c = self.members[0]
                self.found = Bench.build(c.problem, c.data, c.split, self.folder)
            return self.found

    def forget(self) -> None:
        self.found = None


def prepare(cell: Cell, group: CellGroup, folder: Path) -> tuple[list[int], Threads | Lanes]:
    """Traced and compiled, ahead of its turn."""
    seeds, bench = _missing(cell, folder), group.bench()
    with jax.enable_x64(bench.double):
        return seeds, seeds_of(cell, bench, seeds)


def play(cell: Cell, bench: Bench, prepared, folder: Path, shown, stop) -> None:
    seeds, made = prepared
    with jax.enable_x64(bench.double):
        for at, curve in made.play(cell.iterations, bench.below(cell.until), shown, stop):
            save(cell, seeds[at], curve, folder)


def _compilers() -> int:
    return 1 if jax.default_backend() == "cpu" else min(14, os.cpu_count() or 1)


def _ahead(jobs: Iterable, width: int):
    """The jobs in order, with `width` of them started ahead of the one that is needed."""
    jobs = iter(jobs)
    waiting = list(itertools.islice(jobs, width))
    while waiting:
        yield waiting.pop(0)
        waiting.extend(itertools.islice(jobs, 1))


def _missing(cell: Cell, folder: Path) -> list[int]:
    return [seed for seed in cell.draws if not _serves(cell, seed, folder)]


def _serves(cell: Cell, seed: int, folder: Path) -> bool:
    """Whether the kept curve is long enough, or reached what was asked."""
    if not path(cell, seed, folder).exists():
        return False
    curve = load(cell, seed, folder)
    enough = len(curve.objective) >= cell.iterations
    return enough or (cell.until is not None and curve.reached(cell.until) is not None)


def path(cell: Cell, seed: int, folder: Path) -> Path:
    return folder / "cells" / cell.id / f"seed{seed}.csv"


def save(cell: Cell, seed: int, curve: RunCurve, folder: Path) -> None:
    file = path(cell, seed, folder)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(file.with_name("cell.toml"), lambda p: p.write_text(cell.to_toml()))

    def write(p: Path) -> None:
        with open(p, "w", newline="") as stream:
            out = csv.writer(stream)
            out.writerow([*COLUMNS, f"optimum={curve.optimum!r}"])
            for k in range(len(curve.objective)):
                row = (curve.objective[k], curve.accuracy[k])
                out.writerow([k + 1, int(curve.uploads[k]), *(repr(float(x)) for x in row)])

    write_atomically(file, write)


def load(cell: Cell, seed: int, folder: Path) -> RunCurve:
    file = path(cell, seed, folder)
    try:
        with open(file, newline="") as stream:
            head, *rows = csv.reader(stream)
        optimum = float(head[-1].removeprefix("optimum="))
        table = np.array(rows, float).reshape(-1, len(COLUMNS)).T
        return RunCurve(table[2], table[3], table[1].astype(int), optimum)
    except (OSError, ValueError) as error:
        raise FolderError(
            f"{file} is damaged: {error}; delete this file, and feddcd computes it again"
        ) from None
