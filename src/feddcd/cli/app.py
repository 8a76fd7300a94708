"""The command line. Everything heavy is imported inside the commands, so that help is quick."""

import dataclasses
import inspect
import sys
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from .._errors import FeddcdError
from .._extras import explained
from .._origin import typed, with_origin
from ..runs.spec import Spec
from ._codebook import codebook, site_app
from ._data import data_app
from ._describe_app import describe
from ._ending import INTERRUPTED, WRONG, complain, importing, leave, told_when_stopped
from ._enrolment_app import federation_app
from ._glm_app import glm
from ._habits import Wordy, be_wordy, equip
from ._paper import reproduce, theory, tune
from ._race_app import race
from ._terminal import READING, Quiet, option

app = typer.Typer(
    name="feddcd",
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"feddcd {metadata.version('feddcd')}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version of feddcd."
        ),
    ] = False,
    verbose: Wordy = False,
) -> None:
    """Make tables and train models over sites that keep their data. feddcd needs few exchanges and
    proves how close the result is to the best result.

    Exit codes: 0 the command is done; 1 the command is done, but the result is not proven, the
    data do not fit, or `federation verify` says NOT VERIFIED; 2 the input is wrong; 130 stopped
    by Ctrl-C. Example: feddcd glm patients.csv --formula "death ~ age" --group hospital
    """
    be_wordy(verbose)


USUAL = "feddcd, accfeddcd, pointsaga, fedavg, fedprox and scaffold"
# what each setting of a run is; its default, if Spec has one, is put behind it. Objects (`given`)
# are for Python alone
HELP = {
    "data": "A data set from `feddcd list data`, or a LIBSVM, CSV or Parquet file.",
    "test_data": "A file of the same kind as --data, to measure the accuracy of the model.",
    "label": "The column to predict, in a CSV or Parquet file.",
    "group": "The column with the name of the client of each row.",
    **READING,
    "model": "The model: softmax, logistic, ridge, poisson or mlp.",
    "partition": "How to divide the rows among clients. `feddcd list partitions` shows all ways.",
    "clients": "The number of clients, N.",
    "tau": "The number of clients in each round: at least 2, at most N. Default: N/4.",
    "algorithm": "A method from `feddcd list algorithms`, or auto: feddcd chooses one.",
    "settings": "Change a setting of the algorithm, written as key=value.",
    "l2": "The strength of the penalty (l2/2)|w|².",
    "weighting": "The weights: all clients are equal (clients), or all rows are equal (samples).",
    "participation": "Who takes part in a round. `feddcd list participation` explains all ways.",
    "loss": "The share of the uploads that get lost, from 0 to below 1.",
    "rounds": "Stop after this number of rounds.",
    "target_gap": "Stop when the certified gap is at most this number.",
    "certify_every": "Make a certificate once in this number of rounds (1: after every round).",
    "eval_every": "Measure the objective once in this number of rounds (1: after every round).",
    "seed": "The seed of all random numbers.",
    "split_seed": "A separate seed for the division of the rows among clients.",
    "dtype": "The type of the numbers: auto, float64 or float32.",
}
KINDS = {"test_data": Path, "settings": list[str], "na": list[str]}  # where they are not as in Spec
Config = Annotated[
    Path | None,
    typer.Argument(
        help="Read the settings from this TOML file. The options below can change these settings.",
        show_default=False,
    ),
]
Seeds = Annotated[
    int | None,
    option("Repeat the run with this number of random seeds, and show medians and quartiles."),
]
Out = Annotated[
    Path | None, option("Write the results into this folder. Default: a new folder in runs/.")
]
Bits = Annotated[
    int | None,
    option("Send each number with 8, 16, 32 or 64 bits. Default: 8 for fedqn, 64 for the others."),
]
Resume = Annotated[
    Path | None,
    option("Continue the run or comparison in this folder. Use --rounds to allow more rounds."),
]


def _takes_a_spec(**other: Any) -> Callable[[Any], Any]:
    """The options of a run: one for every field of Spec, so that none can be forgotten, or an
    `other` one instead."""
    fields = {f.name: _field_option(f) for f in dataclasses.fields(Spec) if f.name != "given"}
    own = {"bits": Bits, "seeds": Seeds, "out": Out, "resume": Resume, "quiet": Quiet}
    kinds = {"config": Config} | fields | other | own

    def decorate(command: Any) -> Any:
        command.__annotations__ = kinds
        command.__signature__ = inspect.Signature(
            [
                inspect.Parameter(
                    name, inspect.Parameter.KEYWORD_ONLY, annotation=kind,
                    default=False if name == "quiet" else None,
                )
                for name, kind in kinds.items()
            ]
        )  # fmt: skip
        return command

    return decorate


def _field_option(field: dataclasses.Field) -> Any:
    default = f"{field.default:g}" if type(field.default) in (int, float) else field.default
    default = "auto" if field.name == "algorithm" else default  # a run without a name chooses
    tail = f" Default: {default}." if isinstance(default, str) else ""
    names = {"settings": ["--set"], "l2": ["--l2"]}.get(field.name, [])
    kind = KINDS.get(field.name, field.type)
    return Annotated[kind | None, option(HELP[field.name] + tail, *names)]


@app.command(rich_help_panel="Commands")
@_takes_a_spec()
def run(
    config: Any, bits: Any, seeds: Any, out: Any, resume: Any, quiet: bool, **options: Any
) -> None:
    """Train a model with one algorithm. The command writes a run folder with a report.

    Example: feddcd run --data digits --clients 20 --tau 8 --algorithm pointsaga --target-gap 0.01
    --out runs/digits
    """
    with told_when_stopped():
        with importing():
            from ._run import run_command

        settings = options.pop("settings") or []
        settings += [] if bits is None else [f"bits={bits}"]
        run_command(options, config, settings, seeds, out, resume, quiet)


@app.command(rich_help_panel="Commands")
@_takes_a_spec(
    algorithm=Annotated[
        list[str] | None,
        option(f"Run this method. Repeat --algorithm for each method. Default: {USUAL}."),
    ],
    settings=Annotated[
        list[str] | None,
        option("Change a setting of one algorithm, written as algorithm.key=value.", "--set"),
    ],
)
def compare(
    config: Any, bits: Any, seeds: Any, out: Any, resume: Any, quiet: bool, **options: Any
) -> None:
    """Compare several algorithms on the same clients. The command writes curves, a table and a
    report.

    Example: feddcd compare --data digits --partition sorted --algorithm feddcd --algorithm
    fedavg --set fedavg.lr=0.1 --rounds 60 --out runs/race
    """
    with told_when_stopped():
        with importing():
            from ._run import compare_command, usual

        algorithms, settings = options.pop("algorithm") or [], options.pop("settings") or []
        settings += [] if bits is None else [f"{a}.bits={bits}" for a in algorithms or usual()]
        compare_command(options, config, algorithms, settings, seeds, out, resume, quiet)


app.command("glm", rich_help_panel="Commands")(glm)
app.command("describe", rich_help_panel="Commands")(describe)
app.command("codebook", rich_help_panel="Commands")(codebook)


@app.command("list", rich_help_panel="Commands")
def list_(
    what: Annotated[
        str | None,
        typer.Argument(
            help="What to show: algorithms, data, models, partitions, participation, solvers, "
            "weightings or problems; or the name of one algorithm, to show its formulas. "
            "Default: everything."
        ),
    ] = None,
) -> None:
    """Show the names of all algorithms, data sets, models, partitions, solvers and more, or the
    formulas of one algorithm.

    Example: feddcd list pointsaga
    """
    from ._list import list_command

    list_command(what)


@app.command(rich_help_panel="Commands")
def report(
    folders: Annotated[
        list[Path],
        typer.Argument(help="One or more folders of runs, or the folder of a comparison."),
    ],
    out: Annotated[
        Path | None,
        option(
            "Write the report into this HTML file. Default: report.html in the folder of the "
            "run; for several folders, report.html in the current folder."
        ),
    ] = None,
) -> None:
    """Write the report of a run again, or one report that compares several runs.

    Example: feddcd report runs/a9a runs/race/feddcd --out both.html
    """
    from ._run import report_command

    report_command(folders, out)


@app.command(rich_help_panel="Commands")
def demo(
    out: Annotated[Path, typer.Option(help="Write the results into this folder.")] = Path("demo"),
    quiet: Quiet = False,
) -> None:
    """Compare eight methods on handwritten digits of 20 clients, in about a minute.

    Example: feddcd demo --out demo
    """
    from ._run import demo_command

    demo_command(out, quiet)


for _command in (race, theory, reproduce, tune):
    app.command(rich_help_panel="Commands")(_command)

app.add_typer(
    data_app,
    name="data",
    help="Download and check the files of well-known data sets. Example: feddcd data fetch a9a",
    rich_help_panel="Commands",
)
app.add_typer(
    site_app,
    name="site",
    help="Commands for a site: compare the data of a site with the codebook of a study. "
    "Example: feddcd site check patients.csv --codebook codebook.toml",
    rich_help_panel="Commands",
)
app.add_typer(
    federation_app,
    name="federation",
    help="Make tables and train models across machines, while the sites keep their data. "
    "Example: feddcd federation init fed --job plan/job.toml --data patients.csv --group hospital",
    rich_help_panel="Commands",
)

equip(app)


def main(arguments: list[str] | None = None) -> Any:
    """The entry point: what a user can mend is one line on stderr and an exit code."""
    be_wordy(False)
    try:
        with with_origin(command=typed(sys.argv[1:] if arguments is None else arguments)):
            return app(arguments)
    except SystemExit as end:  # typer makes one of Ctrl-C
        if end.code == INTERRUPTED and arguments is None:
            leave(INTERRUPTED)
        raise
    except ModuleNotFoundError as error:
        if (missing := explained(error)) is None:
            raise
        print(f"error: {missing}", file=sys.stderr)
        sys.exit(WRONG)
    except (FeddcdError, OSError) as error:
        sys.exit(complain(error))
