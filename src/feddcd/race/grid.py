"""The whole race: which runs are missing, and all of them on several processes.

Methods run by their defaults; then, if asked, once more with the best settings of a grid, which is
judged with a seed of its own. What is finished is a file, so the race goes on where it stopped.
"""

import dataclasses
import multiprocessing
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._errors import DataError, SpecError
from .cells import LIMIT, TARGETS, RaceCell, RaceOutcome, read_outcome, trials


class RaceJob(NamedTuple):
    """The runs of one method on one problem at one share: they share what is compiled."""

    folder: Path
    cells: tuple[RaceCell, ...]
    tune: bool


def jobs(folder: Path, cells: Iterable[RaceCell], tune: bool) -> list[RaceJob]:
    key = lambda cell: (cell.problem.name, cell.share, cell.method)
    return [RaceJob(folder, tuple(group), tune) for _, group in groupby(cells, key)]


def work(job: RaceJob) -> str:
    """Runs what is missing; says why where a problem's data are not at hand."""
    try:
        for cell in job.cells:
            _run(job.folder, cell)
        if job.tune:
            for cell in _tuned_cells(job):
                _run(job.folder, cell)
    except DataError as error:
        return str(error)
    return ""


def _run(folder: Path, cell: RaceCell) -> RaceOutcome:
    found = read_outcome(cell.file(folder))
    if found is None or not found.is_enough(cell):
        from ._play import play  # with JAX, in the process that needs it

        found = play(cell)
        found.save(cell.file(folder))
    return found


def _tuned_cells(job: RaceJob) -> Iterator[RaceCell]:
    """Each cell of the job with the settings that were best for the first of them, unless the
    defaults were."""
    best = tuned_settings(job.folder, job.cells[0], lambda cell: _run(job.folder, cell))
    for cell in job.cells if best else ():
        yield dataclasses.replace(cell, settings=best, tuned=True)


def tuned_settings(
    folder: Path, cell: RaceCell, run: Callable[[RaceCell], RaceOutcome | None]
) -> tuple:
    """Those with the fewest bytes to the smallest target that any of the grid reached."""
    first = read_outcome(cell.file(folder))
    if first is None:
        return ()
    # as many uploads as the cell may send, in doubles
    wide = dataclasses.replace(cell, bits=64, limit=min(LIMIT, cell.limit * 64 / cell.bits))
    tried = [(one.settings, run(one)) for one in trials(wide, first.chosen)]
    for target in sorted(TARGETS[:2]):
        costs = [np.inf if found is None else found.to(target) for _, found in tried]
        if costs and np.isfinite(min(costs)):
            return tried[int(np.argmin(costs))][0]
    return ()


def behind(
    folder: Path, cells: Sequence[RaceCell], leader: str, factor: float, target: float
) -> list[RaceCell]:
    """Each cell with a limit of `factor` times the bytes that the leader sent to the target at the
    same place and bits (median of its seeds). Where the leader did not come there, as it was."""
    key = lambda cell: (cell.problem, cell.share, cell.bits)
    models: dict[tuple, list[float]] = defaultdict(list)
    for cell in cells:
        if cell.method == leader and (found := read_outcome(cell.file(folder))) is not None:
            models[key(cell)].append(found.to(target) / max(8 * found.size, 1))

    def limit(cell: RaceCell) -> float:
        sent = np.median(models.get(key(cell), [np.inf]))
        return cell.limit if cell.method == leader else min(cell.limit, float(factor * sent))

    return [dataclasses.replace(cell, limit=limit(cell)) for cell in cells]


def run_race(
    found: Sequence[RaceJob], processes: int, watch: Callable[[int, int, str], None]
) -> list[str]:
    """All jobs; the reasons of those that could not run."""
    if processes < 1:
        raise SpecError(f"the race needs at least one process, got {processes}")
    if processes == 1:
        return _one_by_one(found, watch)
    missing, done = [], 0
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context, initializer=_alone) as pool:
        waiting = {pool.submit(work, job): job for job in found}
        for future in as_completed(waiting):
            done += 1
            reason = future.result()
            missing += [reason] if reason else []
            watch(done, len(found), _name(waiting[future]))
    return sorted(set(missing))


def _one_by_one(found: Sequence[RaceJob], watch: Callable[[int, int, str], None]) -> list[str]:
    missing = []
    for k, job in enumerate(found):
        reason = work(job)
        missing += [reason] if reason else []
        watch(k + 1, len(found), _name(job))
    return sorted(set(missing))


def _alone() -> None:
    """A process of several takes one core."""
    os.environ["FEDDCD_THREADS"] = "1"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"


def _name(job: RaceJob) -> str:
    cell = job.cells[0]
    return f"{cell.problem.name}, {cell.share:.0%}, {cell.method}"
