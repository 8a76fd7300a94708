"""The whole race: which runs are missing, and all of them on several processes.

Methods run by their defaults; then, if asked, once more with the best settings of a grid, which is
judged with a seed of its own. What is finished is a file, so the race goes on where it stopped.
"""

import dataclasses
import multiprocessing
import os
import signal
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._errors import DataError, SpecError
from .._text import sentence_list, whole_percent
from ..runs.interrupt import Interrupted, Stop, never, patient_interrupt
from .cells import LIMIT, TARGETS, RaceCell, RaceOutcome, read_outcome, trials
from .methods import add_methods

Watch = Callable[[int, str], None]  # the finished runs so far, and where the last ones were
LOOK = 0.2  # seconds between two looks at whether Ctrl-C was pressed


class RaceJob(NamedTuple):
    """The runs of one method on one problem at one share: they share what is compiled."""

    folder: Path
    cells: tuple[RaceCell, ...]
    tune: bool


def jobs(folder: Path, cells: Iterable[RaceCell], tune: bool) -> list[RaceJob]:
    key = lambda cell: (cell.problem.name, cell.share, cell.method)
    return [RaceJob(folder, tuple(group), tune) for _, group in groupby(cells, key)]


def work(job: RaceJob, stop: Stop = never) -> str:
    """Runs what is missing; says why where a problem's data are not at hand."""
    try:
        for cell in job.cells:
            _run(job.folder, cell, stop)
        if job.tune:
            for cell in _tuned_cells(job, stop):
                _run(job.folder, cell, stop)
    except DataError as error:
        return str(error)
    return ""


def _run(folder: Path, cell: RaceCell, stop: Stop) -> RaceOutcome:
    if (found := finished(folder, cell)) is None:
        if stop():
            raise Interrupted
        from ._play import play  # with JAX, in the process that needs it

        found = play(cell, stop)
        found.save(cell.file(folder))
    return found


def finished(folder: Path, cell: RaceCell) -> RaceOutcome | None:
    found = read_outcome(cell.file(folder))
    return found if found is not None and found.is_enough(cell) else None


def _tuned_cells(job: RaceJob, stop: Stop) -> Iterator[RaceCell]:
    """Each cell of the job with the settings that were best for the first of them, unless the
    defaults were."""
    best = tuned_settings(job.folder, job.cells[0], lambda cell: _run(job.folder, cell, stop))
    for cell in job.cells if best else ():
        yield dataclasses.replace(cell, settings=best, tuned=True)


def tuned_settings(
    folder: Path, cell: RaceCell, run: Callable[[RaceCell], RaceOutcome | None]
) -> tuple:
    """Those with the fewest bytes to the smallest target that any of the grid reached; nothing if
    these are the cell's own."""
    first = read_outcome(cell.file(folder))
    if first is None:
        return ()
    # as many uploads as the cell may send, in doubles
    wide = dataclasses.replace(cell, bits=64, limit=min(LIMIT, cell.limit * 64 / cell.bits))
    tried = [(one.settings, run(one)) for one in trials(wide, first.chosen)]
    for target in sorted(TARGETS[:2]):
        costs = [np.inf if found is None else found.to(target) for _, found in tried]
        if costs and np.isfinite(min(costs)):
            best = tried[int(np.argmin(costs))][0]
            return () if best == cell.settings else best
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
    found: Sequence[RaceJob], processes: int, watch: Watch, files: Sequence[Path] = ()
) -> list[str]:
    """All jobs; the problems that could not run, and why. `files` have methods. Ctrl-C ends it
    between two steps of a run with `Interrupted`: the files of finished runs stay."""
    if processes < 1:
        raise SpecError(f"the setting 'processes' of the race must be at least 1; got {processes}")
    with patient_interrupt() as stop:
        one_by_one = _one_by_one(found, stop)
        done = one_by_one if processes == 1 else _side_by_side(found, processes, stop, files)
        runs, missing = 0, defaultdict(set)
        for job, reason in done:
            if reason:
                missing[reason].add(job.cells[0].problem.name)
            else:
                runs += len(job.cells)
                watch(runs, _name(job))
    return sorted(f"{_named(sorted(names))}: {reason}" for reason, names in missing.items())


def _named(problems: list[str]) -> str:
    return (
        f"the problem{'s' * (len(problems) > 1)} {sentence_list([repr(name) for name in problems])}"
    )


def _one_by_one(found: Sequence[RaceJob], stop: Stop) -> Iterator[tuple[RaceJob, str]]:
    for job in found:
        yield job, work(job, stop)


def _side_by_side(
    found: Sequence[RaceJob], processes: int, stop: Stop, files: Sequence[Path]
) -> Iterator[tuple[RaceJob, str]]:
    context = multiprocessing.get_context("spawn")
    end = context.Event()
    with ProcessPoolExecutor(processes, context, _alone, (end, files)) as pool:
        waiting = {pool.submit(work, job): job for job in found}
        try:
            for future in _as_completed(set(waiting), stop):
                yield waiting[future], future.result()
        except Interrupted:
            end.set()
            pool.shutdown(cancel_futures=True)
            raise


def _as_completed(futures: set[Future], stop: Stop) -> Iterator[Future]:
    while futures:
        done, futures = wait(futures, timeout=LOOK, return_when=FIRST_COMPLETED)
        yield from done
        if stop():
            raise Interrupted


def _alone(end: Any, files: Sequence[Path]) -> None:
    """A process of several takes one core, and ends when the first process says so: all that it
    keeps is in files of finished runs."""
    os.environ["FEDDCD_THREADS"] = "1"
    os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    os.environ["OPENBLAS_NUM_THREADS"] = os.environ["OMP_NUM_THREADS"] = "1"
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the first process decides

    def leave() -> None:
        end.wait()
        os._exit(0)

    threading.Thread(target=leave, daemon=True).start()
    add_methods(files)


def _name(job: RaceJob) -> str:
    cell = job.cells[0]
    return f"{cell.problem.name}, {whole_percent(cell.share)}, {cell.method}"
