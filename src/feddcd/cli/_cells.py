"""How far `feddcd reproduce` is: a bar on a terminal, lines elsewhere."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.progress import BarColumn, TimeElapsedColumn

from ._terminal import bars, console, note, say

if TYPE_CHECKING:
    from ..paper.grid import Step


@contextmanager
def cells_shown(quiet: bool) -> "Iterator[Callable[[Step], None]]":
    """Cells done, which are called experiments here, and how the one at work is doing."""
    if not quiet and not console.is_terminal:
        yield _lines()
        return
    columns = ("{task.description}", BarColumn(), "{task.fields[how]}", TimeElapsedColumn())
    with bars(*columns, quiet=quiet) as progress:
        grid = progress.add_task("experiments", total=None, how="reading data")
        cell = progress.add_task("", total=None, how="", visible=False)

        told = _Already(say)

        def watch(step: "Step") -> None:
            c = step.cell
            told(step)
            progress.update(
                grid, total=step.cells, completed=step.done, how=f"{step.done}/{step.cells}"
            )
            progress.update(
                cell, description=_name(step), total=c.iterations, completed=step.iteration,
                how=f"objective {step.objective:.6f}", visible=True,
            )  # fmt: skip

        yield watch


def _lines() -> "Callable[[Step], None]":
    """Off a terminal: a line for each cell that is done."""
    began, told, already = time.monotonic(), -1, _Already(note)

    def watch(step: "Step") -> None:
        nonlocal told
        already(step)
        if step.done <= told:
            return
        told, seconds = step.done, round(time.monotonic() - began)
        now = f"; now running: {_name(step)}" if step.done < step.cells else ""
        done = f"{step.done} of {step.cells} experiments are finished{now}"
        note(f"{timedelta(seconds=seconds)}  {done}")

    return watch


class _Already:
    """Says once how much an earlier command has done."""

    def __init__(self, say: Callable[[str], None]):
        self.say, self.first = say, True

    def __call__(self, step: "Step") -> None:
        if self.first and step.done:
            self.say(f"{step.done} of {step.cells} experiments were finished by an earlier command")
        self.first = False


def _name(step: "Step") -> str:
    c = step.cell
    return f"{c.algorithm} on {c.problem}, {c.split}, tau={c.tau}"
