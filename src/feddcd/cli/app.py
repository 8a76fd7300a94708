"""The command line. Everything heavy is imported inside the commands, so that help is quick."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from .._errors import FeddcdError
from .federation import federation_app
from .glm import glm

app = typer.Typer(
    name="feddcd",
    help="Train one model over data that stays in several places, with few exchanges and a "
    "proof of how close to the best model it is.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)


def _option(help: str, *names: str) -> Any:
    """An option whose default, in brackets at the end of its help, is filled in later."""
    return typer.Option(*names, help=help, show_default=False)


Config = Annotated[
    Path | None,
    typer.Argument(help="A TOML file with the settings below.", show_default=False),
]
Data = Annotated[
    str | None, _option("A name from `feddcd list`, or a LIBSVM, CSV or Parquet file. (digits)")
]
TestData = Annotated[Path | None, _option("A file of the same kind to score the model on.")]
Label = Annotated[str | None, _option("The column of a CSV or Parquet file to predict.")]
Group = Annotated[str | None, _option("Its column whose every value is a client.")]
Model = Annotated[str | None, _option("softmax, logistic, ridge, poisson or mlp. (softmax)")]
Partition = Annotated[str | None, _option("How rows are shared among clients. (iid)")]
Clients = Annotated[int | None, _option("Number of clients N. (20)")]
Tau = Annotated[int | None, _option("Clients that take part in a round, 2 to N. (N/4)")]
L2 = Annotated[float | None, _option("Strength of the penalty (l2/2)|w|². (0.001)", "--l2")]
Weighting = Annotated[str | None, _option("Count clients or samples equally. (clients)")]
Participation = Annotated[
    str | None, _option("uniform, everyone, importance or available:0.5. (uniform)")
]
Loss = Annotated[float | None, _option("Share of uploads that get lost. (0)")]
Rounds = Annotated[int | None, _option("Exchanges at most. (100)")]
TargetGap = Annotated[float | None, _option("Stop once the certified gap is at most this.")]
CertifyEvery = Annotated[int | None, _option("Rounds between two certificates. (5)")]
Seed = Annotated[int | None, _option("Of all that is random. (0)")]
Dtype = Annotated[str | None, _option("auto, float64 or float32. (auto)")]
Out = Annotated[Path | None, _option("The folder to write. (runs/...)")]
Resume = Annotated[Path | None, _option("Go on with this folder, to --rounds if given.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no table.")]


@app.command(rich_help_panel="Commands")
def run(
    config: Config = None,
    data: Data = None,
    test_data: TestData = None,
    label: Label = None,
    group: Group = None,
    model: Model = None,
    partition: Partition = None,
    clients: Clients = None,
    tau: Tau = None,
    algorithm: Annotated[str | None, _option("A name from `feddcd list`. (feddcd)")] = None,
    settings: Annotated[
        list[str] | None, _option("A setting of the algorithm, as key=value.", "--set")
    ] = None,
    l2: L2 = None,
    weighting: Weighting = None,
    participation: Participation = None,
    loss: Loss = None,
    rounds: Rounds = None,
    target_gap: TargetGap = None,
    certify_every: CertifyEvery = None,
    seed: Seed = None,
    dtype: Dtype = None,
    out: Out = None,
    resume: Resume = None,
    quiet: Quiet = False,
) -> None:
    """Train with one algorithm; writes a run folder with a report.

    Example: feddcd run --data a9a --clients 50 --tau 15 --algorithm pointsaga --weighting
    samples --target-gap 1e-4 --out runs/a9a
    """
    from ._run import run_command

    options = dict(locals())
    run_command({k: options[k] for k in _SPEC}, config, settings or [], out, resume, quiet)


@app.command(rich_help_panel="Commands")
def compare(
    config: Config = None,
    data: Data = None,
    test_data: TestData = None,
    label: Label = None,
    group: Group = None,
    model: Model = None,
    partition: Partition = None,
    clients: Clients = None,
    tau: Tau = None,
    algorithm: Annotated[
        list[str] | None, _option("Repeat for each. (all but fednewton and mbsgd)")
    ] = None,
    settings: Annotated[
        list[str] | None, _option("A setting, as algorithm.key=value.", "--set")
    ] = None,
    l2: L2 = None,
    weighting: Weighting = None,
    participation: Participation = None,
    loss: Loss = None,
    rounds: Rounds = None,
    target_gap: TargetGap = None,
    certify_every: CertifyEvery = None,
    seed: Seed = None,
    dtype: Dtype = None,
    out: Out = None,
    resume: Resume = None,
    quiet: Quiet = False,
) -> None:
    """Race several algorithms on the same clients; writes curves, a table and a report.

    Example: feddcd compare --data digits --partition sorted --algorithm feddcd --algorithm
    fedavg --set fedavg.lr=0.1 --rounds 60 --out runs/race
    """
    from ._run import compare_command

    options = dict(locals())
    base = {k: options[k] for k in _SPEC if k != "algorithm"}
    compare_command(base, config, algorithm or [], settings or [], out, resume, quiet)


app.command("glm", rich_help_panel="Commands")(glm)


@app.command("list", rich_help_panel="Commands")
def list_(
    what: Annotated[
        str | None,
        typer.Argument(help="algorithms, data, models, partitions, participation or solvers."),
    ] = None,
) -> None:
    """Show the algorithms, data sets, models, partitions and solvers by name."""
    from ._run import list_command

    list_command(what)


@app.command(rich_help_panel="Commands")
def report(
    folders: Annotated[list[Path], typer.Argument(help="Run folders, or one of compare.")],
    out: Annotated[Path | None, typer.Option(help="The HTML file to write.")] = None,
) -> None:
    """Write the report of one run again, or one report that compares several."""
    from ._run import report_command

    report_command(folders, out)


@app.command(rich_help_panel="Commands")
def demo(
    out: Annotated[Path, typer.Option(help="The folder to write.")] = Path("demo"),
    quiet: Quiet = False,
) -> None:
    """Seven methods race on handwritten digits held by 20 clients: about a minute."""
    from ._run import demo_command

    demo_command(out, quiet)


@app.command(rich_help_panel="Commands")
def theory(
    N: Annotated[int, typer.Option("--N", help="Number of clients.")] = 100,
    tau: Annotated[int, typer.Option("--tau", help="Clients in a round, 2 to N.")] = 30,
    alpha: Annotated[float, typer.Option("--alpha", help="Strong convexity.")] = 0.01,
    beta: Annotated[float, typer.Option("--beta", help="Smoothness.")] = 2.5,
    eps: Annotated[float, typer.Option("--eps", help="Accuracy, of the start.")] = 1e-3,
    zeta: Annotated[float, typer.Option(help="How much the clients differ.")] = 1.0,
    sigma: Annotated[float, typer.Option(help="Noise of the primal methods' gradients.")] = 0.0,
    local_steps: Annotated[int, typer.Option(help="K of FedAvg and SCAFFOLD.")] = 1,
    out: Annotated[
        Path | None, typer.Option(help="Measure the rates too, and draw them in this folder.")
    ] = None,
) -> None:
    """Show how many rounds the theorems promise, and the fewest that any method needs.

    Example: feddcd theory --N 100 --tau 30 --alpha 0.01 --beta 2.5 --eps 1e-3
    """
    from ._theory import theory_command

    theory_command(N, tau, alpha, beta, eps, zeta, sigma, local_steps, out)


Problems = Annotated[
    list[str] | None,
    typer.Option(
        "--problem",
        help="mnist-softmax, rcv1-softmax or mnist-mlp; repeat for several. Small ones to try "
        "things out: digits-softmax, digits-mlp. (the paper's three)",
        show_default=False,
    ),
]


@app.command(rich_help_panel="Commands")
def reproduce(
    what: Annotated[str, typer.Argument(help="figure1, table2, figure3, table3 or all.")],
    problem: Problems = None,
    variant: Annotated[
        str, typer.Option(help="paper follows the text, authors their code where it differs.")
    ] = "paper",
    seeds: Annotated[int, typer.Option(help="Seeds 0 to K-1.")] = 3,
    out: Annotated[Path | None, _option("The folder to write. (reproduced/VARIANT)")] = None,
    quiet: Quiet = False,
) -> None:
    """Run the paper's experiments again: figures, tables and a report beside its own numbers.

    What is finished is kept: the same command goes on after an interruption, with more seeds
    or with other parts. Example: feddcd reproduce table2 --problem mnist-softmax --variant
    authors --seeds 3
    """
    from ._paper import reproduce_command

    reproduce_command(what, problem or [], variant, seeds, out, quiet)


@app.command(rich_help_panel="Commands")
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
    from ._paper import tune_command

    tune_command(problem or [], split or [], algorithm or [], rounds, out, quiet)


data_app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
app.add_typer(
    data_app,
    name="data",
    help="Fetch and check the files of well-known data sets.",
    rich_help_panel="Commands",
)
DataName = Annotated[str, typer.Argument(help="A name from `feddcd data list`.", metavar="NAME")]


@data_app.command("list")
def data_list() -> None:
    """Show the sets: size, licence, and where their files are."""
    from ._data import data_list_command

    data_list_command()


@data_app.command("fetch")
def data_fetch(
    name: DataName,
    test: Annotated[
        bool | None, typer.Option(help="With the test file or not. (with it; rcv1: without)")
    ] = None,
) -> None:
    """Download a set from its publisher into FEDDCD_DATA, or else into the cache folder.

    A download that was cut goes on where it stopped; a file that is here already is left alone.
    """
    from ._data import data_fetch_command

    data_fetch_command(name, test)


@data_app.command("check")
def data_check(name: DataName) -> None:
    """Compare the files that are here with what is known of the set."""
    from ._data import data_check_command

    data_check_command(name)


app.add_typer(
    federation_app,
    name="federation",
    help="Train across machines: sites keep their data, and crashes cannot spoil the model.",
    rich_help_panel="Commands",
)

_SPEC = (
    "data", "test_data", "label", "group", "model", "partition", "clients", "tau", "algorithm",
    "l2", "weighting", "participation", "loss", "rounds", "target_gap", "certify_every", "seed",
    "dtype",
)  # fmt: skip


def main(arguments: list[str] | None = None) -> Any:
    """The entry point: what a user can mend is one line on stderr and exit code 2."""
    try:
        return app(arguments)
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        if error.name not in ("cryptography", "flwr"):
            raise
        print("error: a federation needs Flower: pip install 'feddcd[flower]'", file=sys.stderr)
        sys.exit(2)
    except (FeddcdError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)
