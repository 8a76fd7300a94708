"""feddcd reproduce and feddcd tune: options in, tables, pictures and files out."""

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from ..paper.grid import Interrupted, Step
from ..paper.problems import PAPER_PROBLEMS
from ..paper.reproduce import reproduce
from ..paper.tune import SPLITS, TUNED, Tried, check_grid, tune, write_best

console = Console()


def reproduce_command(
    what: str, problems: list[str], variant: Any, seeds: int, out: Path | None, quiet: bool
) -> None:
    from ..paper.report import rich_table2, rich_table3

    folder = Path("reproduced") / variant if out is None else out
    chosen = problems or list(PAPER_PROBLEMS)
    began = time.perf_counter()
    try:
        with _bar(quiet) as watch:
            found = reproduce(
                what, problems=chosen, variant=variant, seeds=seeds, out=folder, watch=watch
            )
    except Interrupted:
        console.print(f"stopped; the same command goes on from {folder / 'cells'}", soft_wrap=True)
        sys.exit(130)
    if quiet:
        return
    for rows, table in ((found.table2, rich_table2), (found.table3, rich_table3)):
        if rows:
            console.print(table(rows))
    for file in found.files:
        console.print(f"wrote {file}", soft_wrap=True)
    console.print(f"{time.perf_counter() - began:.0f} s")


@contextmanager
def _bar(quiet: bool) -> Iterator[Callable[[Step], None]]:
    """Cells done, and how the one at work is doing."""
    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[how]}"))
    with Progress(*columns, TimeElapsedColumn(), console=console, disable=quiet) as progress:
        grid = progress.add_task("cells", total=None, how="reading data")
        cell = progress.add_task("", total=None, how="", visible=False)

        def watch(step: Step) -> None:
            c = step.cell
            progress.update(
                grid, total=step.cells, completed=step.done, how=f"{step.done}/{step.cells}"
            )
            name = f"{c.problem} {c.split} tau={c.tau} {c.algorithm}"
            progress.update(
                cell, description=name, total=c.iterations, completed=step.iteration,
                how=f"objective {step.objective:.6f}", visible=True,
            )  # fmt: skip

        yield watch


def tune_command(
    problems: list[str],
    splits: list[str],
    algorithms: list[str],
    iterations: int,
    out: Path,
    quiet: bool,
) -> None:
    def show(tried: Tried) -> None:
        if not quiet:
            settings = " ".join(f"{name}={value}" for name, value in tried.settings.items())
            console.print(
                f"{tried.problem} {tried.split} {tried.algorithm} {settings}: "
                f"{tried.objective:.6f}",
                soft_wrap=True,
            )

    chosen, ways = problems or list(PAPER_PROBLEMS), splits or list(SPLITS)
    methods = algorithms or list(TUNED)
    check_grid(chosen, ways, methods, iterations)
    out.parent.mkdir(parents=True, exist_ok=True)
    for problem, split in itertools.product(chosen, ways):
        found = tune(
            [problem], splits=[split], algorithms=methods, iterations=iterations,
            folder=out.parent, watch=show,
        )  # fmt: skip
        write_best(found, out, iterations)  # at once, so that a later Ctrl-C takes nothing back
    if not quiet:
        console.print(f"wrote {out}", soft_wrap=True)
