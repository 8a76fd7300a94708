"""The command line. Everything heavy is imported inside the commands, so that help is quick."""

import sys
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any

import typer

from .._errors import FeddcdError
from .._extras import explained
from .._origin import typed, with_origin
from ..runs import interrupt
from ._codebook import codebook, site_app
from ._data import data_app
from ._describe_app import describe
from ._ending import INTERRUPTED, WRONG, complain, importing, leave, say_stopping, told_when_stopped
from ._enrolment_app import federation_app
from ._glm_app import glm
from ._habits import Wordy, be_wordy, equip
from ._paper import reproduce, theory, tune
from ._race_app import race
from ._spec_options import USUAL, takes_a_spec
from ._terminal import Quiet, option

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

    Exit codes: 0 the command is done; 1 the command is done, but a fit did not reach --tol, a
    training diverged, the data do not fit, `federation verify` says NOT VERIFIED, or `federation
    status SITE_DIR` shows a problem; 2 the input is wrong; 130 stopped by Ctrl-C.

    Example: feddcd glm patients.csv --formula "death ~ age" --group hospital
    """
    be_wordy(verbose)


@app.command(rich_help_panel="Commands")
@takes_a_spec()
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
@takes_a_spec(
    algorithm=Annotated[
        list[str] | None,
        option(f"Run this method. Repeat --algorithm for each method. Default: {USUAL}."),
    ],
    settings=Annotated[
        list[str] | None,
        option("Change a setting of one algorithm: write algorithm.key=value.", "--set"),
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
    interrupt.heard[:] = [say_stopping]
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
