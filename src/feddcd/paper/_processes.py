"""The cells of a grid in several processes that share one accelerator. Tracing is Python, and one
process traces one program at a time; and the small programs of one process leave most of an
accelerator idle."""

import multiprocessing
import os
import queue
import signal
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import (
    FIRST_EXCEPTION,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import jax

from .._errors import FolderError
from ..data import load
from ..data.known import KNOWN, find
from .cells import Cell, is_mlp

MOST = 10
LOOK = 0.2  # seconds between two looks at what the processes say

# a search for the best program of each matrix product took most of the compiling, the more so as
# it tries them on an accelerator that is at work; and a process must not take the others' memory
SETTINGS = {
    "XLA_FLAGS": "--xla_gpu_enable_triton_gemm=false --xla_gpu_autotune_level=0",
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
BEHIND = ("CUDA_MPS_CLIENT_PRIORITY", "1")  # for a process that lets those with long cells go first

_SHARED: list[Any] = []  # in a process of the pool: turn, what is said, whether to stop, reading


def enough_processes(backend: str) -> int:
    """One on a CPU, where the threads of one process keep all cores busy."""
    return 1 if backend == "cpu" else max(1, min(MOST, (os.cpu_count() or 1) * 2 // 3))


def run_in_processes(
    cells: Sequence[Cell],
    folder: Path,
    count: int,
    shown: Callable[[Cell, int, float, int], None],
    stop: Callable[[], bool],
) -> None:
    """Every cell's missing curves into the folder; `shown` gets the cell at work, its iteration,
    its objective and how many cells are done."""
    cells = sorted(cells, key=_rank)
    context = multiprocessing.get_context("spawn")
    turn, said, end = context.Value("i", 0), context.Queue(), context.Event()
    reading = {cell.data: context.Lock() for cell in cells}
    first = openings(cells, min(count, len(cells)))
    before = {name: os.environ.get(name) for name in SETTINGS}
    with _settings(before), ProcessPoolExecutor(
        len(first), context, _share, (turn, said, end, reading)
    ) as pool:  # fmt: skip
        futures = [pool.submit(_work, cells, folder, first, own) for own in first]
        try:
            _follow(cells, futures, said, end, shown, stop)
        finally:
            end.set()  # a process that fails ends the others


def _follow(cells, futures: list[Future], said, end, shown, stop) -> None:
    done = 0
    while True:
        if stop():
            end.set()
        finished, left = wait(futures, timeout=0, return_when=FIRST_EXCEPTION)
        for future in finished:
            _check(future)
        try:
            k, iteration, objective, last = said.get(timeout=LOOK)
        except queue.Empty:
            if not left:
                return
            continue
        done += last
        shown(cells[k], iteration, objective, done)


def _check(future: Future) -> None:
    try:
        future.result()
    except BrokenProcessPool:
        raise FolderError(
            "one of the processes stopped too early; perhaps the machine has too little memory. "
            "feddcd keeps the finished runs: give the same command again to continue"
        ) from None


def _rank(cell: Cell) -> tuple:
    """Long cells first, so that no process works alone at the end."""
    accelerated = cell.algorithm == "accfeddcd"
    return not is_mlp(cell.problem), not accelerated, cell.until is not None, cell.tau


def _long(cell: Cell) -> bool:
    return is_mlp(cell.problem) and cell.algorithm == "accfeddcd"


def size_of(data: str) -> int:
    """Of the file to read, in bytes; a set that is in a package is small."""
    known = KNOWN.get(data)
    path = None if known is None else find(known.train)
    return 0 if path is None else path.stat().st_size


def openings(cells: Sequence[Cell], count: int) -> list[list[int]]:
    """With which cells each process begins: its own of the first, the longest ones. While the
    first process reads a large file, the others run a cell of a smaller file before."""
    sizes = [size_of(cell.data) for cell in cells]
    small = [k for k in range(count, len(cells)) if sizes[k] < sizes[0]]
    return [[0]] + [[*small[k - 1 : k], k] for k in range(1, count)]


class _settings:
    """The environment with what the processes need, then as it was."""

    def __init__(self, before: dict[str, str | None]):
        self.before = before

    def __enter__(self):
        flags = self.before["XLA_FLAGS"]
        os.environ |= SETTINGS
        if flags is not None:  # what the user says last counts
            os.environ["XLA_FLAGS"] = f"{SETTINGS['XLA_FLAGS']} {flags}"

    def __exit__(self, *error):
        for name, value in self.before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _share(*shared) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; the first process decides
    _SHARED[:] = shared


def _work(cells: list[Cell], folder: Path, first: list[list[int]], own: list[int]) -> None:
    """Its own cells, then one of the others after the other; the next one is compiled while one
    runs."""
    from . import grid

    turn, said, end, reading = _SHARED
    groups: dict[tuple, grid.CellGroup] = {}
    mine, claimed = iter(own), {k for some in first for k in some}
    others = [k for k in range(len(cells)) if k not in claimed]
    if not _long(cells[own[-1]]):  # before this process first uses the accelerator
        os.environ.setdefault(*BEHIND)
    threading.Thread(target=jax.devices, daemon=True).start()  # takes seconds, as reading does

    def claim() -> int | None:
        if end.is_set():
            return None
        if (k := next(mine, None)) is not None:
            return k
        with turn.get_lock():
            turn.value += 1
            return None if turn.value > len(others) else others[turn.value - 1]

    def prepared():
        k = claim()
        if k is None:
            return None
        cell = cells[k]
        key = (cell.problem, cell.data, cell.split)
        if key not in groups:
            with reading[cell.data]:  # one process reads a file, the others get it from the cache
                load(cell.data)
        group = groups.setdefault(key, grid.CellGroup([cell], folder))
        return k, group, grid.prepare(cell, group, folder)

    with ThreadPoolExecutor(1) as pool:
        ready = pool.submit(prepared)
        while (made := ready.result()) is not None:
            ready = pool.submit(prepared)
            k, group, player = made
            last = [0, float("nan")]

            def shown(iteration: int, objective: float, k=k, last=last) -> None:
                last[:] = [iteration, objective]
                said.put((k, iteration, objective, False))

            grid.play(cells[k], group.bench(), player, folder, shown, end.is_set)
            if not end.is_set():
                said.put((k, *last, True))
