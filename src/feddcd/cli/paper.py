"""`feddcd reproduce` and `feddcd tune`: options in, tables, pictures and files out."""

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, TimeElapsedColumn

from ._terminal import Quiet, bars, console, say

if TYPE_CHECKING:
    from ..paper.grid import Step
    from ..paper.tune import Tried

Problems = Annotated[
    list[str] | None,
    typer.Option(
        "--problem",
        help="mnist-softmax, rcv1-softmax or mnist-mlp; repeat for several. Small ones to try "
        "things out: digits-softmax, digits-mlp. (the paper's three)",
        show_default=False,
    ),
]


def _option(help: str) -> Any:
    return typer.Option(help=help, show_default=False)


def reproduce(
    what: Annotated[str, typer.Argument(help="figure1, table2, figure3, table3 or all.")],
    problem: Problems = None,
    variant: Annotated[
        str, typer.Option(help="paper follows the text, authors their code where it differs.")
    ] = "paper",
    seeds: Annotated[int, typer.Option(help="Seeds 1 to K.", metavar="K")] = 3,
    out: Annotated[Path | None, _option("The folder to write. (reproduced/VARIANT)")] = None,
    quiet: Quiet = False,
) -> None:
    """Run the paper's experiments again: figures, tables and a report beside its own numbers.

    What is finished is kept: the same command goes on after an interruption, with more seeds
    or with other parts. Example: feddcd reproduce table2 --problem mnist-softmax --variant
    authors --seeds 3
    """
    from ..paper import reproduce as paper
    from ..paper.grid import Interrupted
    from ..paper.report import rich_table2, rich_table3

    folder = Path("reproduced") / variant if out is None else out
    chosen: Any = {"problems": problem or paper.PAPER_PROBLEMS, "variant": variant, "seeds": seeds}
    began = time.perf_counter()
    try:
        with _bar(quiet) as watch:
            made = paper.reproduce(what, **chosen, out=folder, watch=watch)
    except Interrupted:
        say(f"stopped; the same command goes on from {folder / 'cells'}")
        sys.exit(130)
    if quiet:
        return
    for rows, table in ((made.table2, rich_table2), (made.table3, rich_table3)):
        if rows:
            console.print(table(rows))
    for file in made.files:
        say(f"wrote {file}")
    say(f"{time.perf_counter() - began:.0f} s")


@contextmanager
def _bar(quiet: bool) -> "Iterator[Callable[[Step], None]]":
    """Cells done, and how the one at work is doing."""
    columns = ("{task.description}", BarColumn(), "{task.fields[how]}", TimeElapsedColumn())
    with bars(*columns, quiet=quiet) as progress:
        grid = progress.add_task("cells", total=None, how="reading data")
        cell = progress.add_task("", total=None, how="", visible=False)

        def watch(step: "Step") -> None:
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


def tune(
    problem: Problems = None,
    split: Annotated[list[str] | None, _option("iid or two-class; repeat for both. (both)")] = None,
    algorithm: Annotated[list[str] | None, _option("A method; repeat for several. (all)")] = None,
    rounds: Annotated[int, typer.Option(help="Rounds after which settings are compared.")] = 40,
    out: Annotated[Path, typer.Option(help="The file to write or to add to.")] = Path(
        "tuned/tuned.toml"
    ),
    quiet: Quiet = False,
) -> None:
    """Find step sizes and local epochs of FedAvg, FedProx and SCAFFOLD, and the η of FedDCD on
    linear models, over the stated grid.

    Hours on a CPU, minutes on an accelerator. The result that `reproduce --variant paper` uses
    is kept with the code, in paper/tuned.toml.
    """
    from ..paper import tune as paper
    from ..paper.cells import PAPER_PROBLEMS

    def show(tried: "Tried") -> None:
        if not quiet:
            settings = " ".join(f"{name}={value}" for name, value in tried.settings.items())
            where = f"{tried.problem} {tried.split} {tried.algorithm}"
            say(f"{where} {settings}: {tried.objective:.6f}")

    problems, splits = problem or list(PAPER_PROBLEMS), split or list(paper.SPLITS)
    methods = algorithm or list(paper.TUNED)
    paper.check_grid(problems, splits, methods, rounds)
    out.parent.mkdir(parents=True, exist_ok=True)
    for one, way in itertools.product(problems, splits):
        tried = paper.tune(
            [one], splits=[way], algorithms=methods, iterations=rounds,
            folder=out.parent, watch=show,
        )  # fmt: skip
        paper.write_best(tried, out, rounds)  # at once: a later Ctrl-C takes nothing back
    if not quiet:
        say(f"wrote {out}")
