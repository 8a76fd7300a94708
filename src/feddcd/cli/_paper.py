"""What is of the paper: `feddcd theory`, `reproduce` and `tune`: options in, tables, pictures and
files out."""

import itertools
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.progress import BarColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from .._errors import SpecError
from ._cells import cells_shown
from ._habits import found
from ._programs import keep_programs
from ._terminal import Quiet, bars, console, option, say

if TYPE_CHECKING:
    from ..paper.theory import Prediction
    from ..paper.tune import Tried

Problems = Annotated[
    list[str] | None,
    typer.Option(
        "--problem",
        help=(
            "Run this problem: mnist-softmax, rcv1-softmax or mnist-mlp. Repeat --problem "
            "for several problems. Two small problems for a first try are digits-softmax and "
            "digits-mlp. Default: the three problems of the paper."
        ),
        show_default=False,
    ),
]


def reproduce(
    what: Annotated[
        str,
        typer.Argument(
            help="The part of the paper to run again: figure1, table2, figure3, table3 or all."
        ),
    ],
    problem: Problems = None,
    variant: Annotated[
        str,
        option(
            "The settings: `paper` follows the text of the paper; `authors` follows the "
            "authors' code where the code differs from the text."
        ),
    ] = "paper",
    seeds: Annotated[
        int,
        typer.Option(
            help="Run each experiment this number of times, each time with another random seed.",
            metavar="K",
        ),
    ] = 3,
    out: Annotated[
        Path | None, option("Write the results into this folder. Default: reproduced/VARIANT.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Run the paper's experiments again: figures, tables and a report with the paper's numbers.

    The command keeps finished work. After an interruption, the same command continues. With
    more seeds or another part, the command computes only what is missing. Example: feddcd
    reproduce table2 --problem mnist-softmax --variant authors --seeds 3
    """
    from ..paper import reproduce as paper
    from ..paper.report import rich_table2, rich_table3
    from ..runs.interrupt import Interrupted

    folder = Path("reproduced") / variant if out is None else out
    chosen: Any = {"problems": problem or paper.PAPER_PROBLEMS, "variant": variant, "seeds": seeds}
    keep_programs(folder / "programs")
    began = time.perf_counter()
    try:
        with cells_shown(quiet) as watch:
            made = paper.reproduce(what, **chosen, out=folder, watch=watch)
    except Interrupted:
        say(f"stopped; the same command continues from {folder / 'cells'}")
        sys.exit(130)
    found(folder=folder, table2=made.table2, table3=made.table3, files=made.files)
    if quiet:
        return
    for rows, table in ((made.table2, rich_table2), (made.table3, rich_table3)):
        if rows:
            console.print(table(rows))
    for file in made.files:
        say(f"wrote {file}")
    say(f"{time.perf_counter() - began:.0f} s")


def tune(
    problem: Problems = None,
    split: Annotated[
        list[str] | None,
        option("How the rows are divided among the clients: iid or two-class. Default: both."),
    ] = None,
    algorithm: Annotated[
        list[str] | None,
        option("Tune this method. Repeat --algorithm for several methods. Default: all methods."),
    ] = None,
    rounds: Annotated[int, option("Compare the settings after this number of rounds.")] = 40,
    out: Annotated[
        Path, option("Write the best settings into this file. Other settings in the file stay.")
    ] = Path("tuned/tuned.toml"),
    quiet: Quiet = False,
) -> None:
    """Find step sizes and local epochs of FedAvg, FedProx and SCAFFOLD, and the η of FedDCD on
    linear models. The command tries all settings of a grid.

    The command takes hours on a CPU, and minutes on an accelerator (a GPU). It does not change
    `reproduce --variant paper`, which uses settings that come with feddcd. Example: feddcd tune
    --problem digits-softmax --split iid
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
    every: list[dict[str, Any]] = []
    for one, way in itertools.product(problems, splits):
        tried = paper.tune(
            [one], splits=[way], algorithms=methods, iterations=rounds,
            folder=out.parent, watch=show,
        )  # fmt: skip
        every += [one._asdict() for one in tried]
        paper.write_best(tried, out, rounds)  # at once: a later Ctrl-C takes nothing back
    found(file=out, tried=every)
    if not quiet:
        say(f"wrote {out}")


NOTES = """\
N, τ, α, β, ε, ζ, σ, K: the options --N, --tau, --alpha, --beta, --eps, --zeta,
  --sigma and --local-steps.
c = β/α, r = (τ-1)/(N-1), L = ln 1/ε, S = σ²/(ταε), s² = β/(Nα),
  q = (s-1)/(s+1), n = N/τ, ρ = α (√((n-1)² + 4nc) + n - 1)/2.

The column "per round" shows a factor: each round multiplies the bound on the
error by this factor.

The column "remark" says what the number of rounds means:
bound: After this number of rounds, the expected error is at most ε times the
  error at the start.
order: The paper's O(...) without its unknown constant. This number shows only
  how the number of rounds grows.
lower: On the worst problem, every method needs at least this number of rounds.
trivial: The paper has no such lower bound for β <= Nα.
A round of AccFedDCD has two cohorts. In the first round, even Inexact FedDCD
solves the local problems exactly."""


def theory(
    N: Annotated[int, typer.Option("--N", help="The number of clients.")] = 100,
    tau: Annotated[
        int,
        typer.Option("--tau", help="The number of clients in each round: at least 2, at most N."),
    ] = 30,
    alpha: Annotated[
        float,
        typer.Option("--alpha", help="The strong convexity constant of the loss of a client."),
    ] = 0.01,
    beta: Annotated[
        float, typer.Option("--beta", help="The smoothness constant of the loss of a client.")
    ] = 2.5,
    eps: Annotated[
        float,
        typer.Option(
            "--eps",
            help="Count the rounds until the error is at most eps times the error at the start.",
        ),
    ] = 1e-3,
    zeta: Annotated[float, option("How much the clients differ (zeta in the paper).")] = 1.0,
    sigma: Annotated[
        float,
        option("The standard deviation of the noise in the gradients of primal methods (sigma)."),
    ] = 0.0,
    local_steps: Annotated[
        int, option("The number of local steps of FedAvg and SCAFFOLD (K in the paper).")
    ] = 1,
    out: Annotated[
        Path | None,
        option("Also measure the convergence rates, and write a figure of them into this folder."),
    ] = None,
) -> None:
    """Show how many rounds the theorems of the paper promise, and the smallest number of rounds
    that any method needs.

    Example: feddcd theory --N 100 --tau 30 --alpha 0.01 --beta 2.5 --eps 1e-3
    """
    from ..paper.theory import predictions

    rows = predictions(N, tau, alpha, beta, eps, zeta=zeta, sigma=sigma, local_steps=local_steps)
    if out is not None:
        if out.exists() and not out.is_dir():
            raise SpecError(f"{out} is a file, not a folder")
        out.mkdir(parents=True, exist_ok=True)
    found(predictions=[row._asdict() | {"uploads": row.uploads} for row in rows])
    console.print(_table(rows, eps))
    console.print(NOTES)
    if out is not None:
        _figure(out)


def _table(rows: "list[Prediction]", eps: float) -> Table:
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column("method", no_wrap=True)
    table.add_column("formula", overflow="fold")
    to = f"to {_count(eps)}"
    for name in ("per round", "uploads\n/round", f"rounds\n{to}", f"uploads\n{to}"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("remark", no_wrap=True)
    for row in rows:
        factor = "–" if row.gain is None else _factor(row.gain)
        counts = (str(row.uploads_per_round), _count(row.rounds), _count(row.uploads))
        table.add_row(*map(Text, (row.method, row.formula, factor, *counts, row.kind)))
    return table


def _factor(gain: float) -> str:
    """0.99883, or 1-2.9e-6 where digits would hide it."""
    return f"{1 - gain:.5f}" if gain > 1e-4 else f"1-{_scientific(gain)}"


def _count(x: float) -> str:
    return f"{x:,.0f}" if x == 0 or 1 <= x < 1e6 else _scientific(x)


def _scientific(x: float) -> str:
    mantissa, exponent = f"{x:.1e}".split("e")
    return f"{mantissa.removesuffix('.0')}e{int(exponent)}"


def _figure(out: Path) -> None:
    """rates.png, rates.svg and rates.csv: less than a minute."""
    import numpy as np

    from ..paper import rates
    from ..paper.rates_figure import figure, write_csv
    from ..paper.theory import lower_bound
    from ..report.figures import save_png, save_svg

    contractions, curves = [], []
    steps = len(rates.METHODS) + len(rates.CHAIN_METHODS)
    columns = ("{task.description:<24}", BarColumn(bar_width=24), TimeElapsedColumn())
    with bars(*columns) as progress:
        task = progress.add_task("", total=steps)
        for name in rates.METHODS:
            progress.update(task, description=f"contraction, {name}")
            contractions += rates.contractions(name)
            progress.advance(task)
        for name in rates.CHAIN_METHODS:
            progress.update(task, description=f"worst case, {name}")
            curves.append(rates.chain_curve(name))
            progress.advance(task)
        progress.update(task, description="measured")
    bound = lower_bound(rates.CHAIN_N, rates.CHAIN_TAU, rates.CHAIN_ALPHA, rates.CHAIN_BETA)
    longest = max(len(curve.mean) for curve in curves)
    least = np.array([bound.on_chain(t) / bound.start for t in range(longest)])
    drawn = figure(contractions, curves, least)
    save_png(drawn, out / "rates.png")
    save_svg(drawn, out / "rates.svg")
    write_csv(out / "rates.csv", contractions, curves, least, rates.CHAIN_TAU)
    say(f"picture: {out / 'rates.png'}")
