"""The signature of `feddcd glm`; what it does is imported when it is called."""

from pathlib import Path
from typing import Annotated, Any

import typer

from ._terminal import (
    CodebookFile,
    CompleteColumns,
    Decimal,
    Encoding,
    Force,
    Missing,
    OutFolder,
    Quiet,
    Sep,
    SheetName,
)

# all other options are parameters of the model, under its own names
OF_THE_COMMAND = {
    "file", "label", "group", "clients", "weight", "offset", "seed", "out", "force", "quiet",
    "sep", "decimal", "encoding", "na", "sheet", "codebook", "cluster", "test",
    "contrast", "vif", "predict", "complete",
}  # fmt: skip


def _option(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help)


def _column(help: str, *names: str) -> Any:
    return typer.Option(*names, help=help, metavar="COLUMN", show_default=False)


def glm(
    file: Annotated[
        Path,
        typer.Argument(
            help=(
                "The data file: .csv or .tsv (also packed as .gz, .bz2 or .xz), .xlsx, .parquet "
                "or LIBSVM."
            ),
            metavar="FILE",
        ),
    ],
    formula: Annotated[
        str | None,
        typer.Option(
            help="The formula of the model, for example 'death ~ age + C(sex) + offset(log(t))'.",
            show_default=False,
        ),
    ] = None,
    label: Annotated[
        str | None,
        _column(
            "The column with the outcome, if you give no formula. All other columns with numbers "
            "are predictors."
        ),
    ] = None,
    group: Annotated[
        str | None,
        _column(
            "The column with the name of the site of each row, for example the hospital. "
            "Default with --formula: all rows belong to one site."
        ),
    ] = None,
    clients: Annotated[
        int | None,
        typer.Option(
            help=(
                "Divide the rows at random among this number of sites. Give --clients or "
                "--group, but not both."
            ),
            show_default=False,
        ),
    ] = None,
    family: Annotated[
        str,
        _option(
            "The family: binomial, gaussian, poisson, multinomial, ordinal, quasibinomial, "
            "quasipoisson, gamma, inverse_gaussian or negative_binomial."
        ),
    ] = "binomial",
    event: Annotated[
        str | None,
        typer.Option(
            help=(
                "If the outcome has two words as values, for example 'died' and 'lives': the word "
                "that counts as 1. Default: the word that comes second in alphabetical order."
            ),
            metavar="WORD",
            show_default=False,
        ),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(
            help=(
                "The link function, for example probit, cloglog or log. Default: the usual link "
                "of the family."
            ),
            show_default=False,
        ),
    ] = None,
    firth: Annotated[
        bool,
        typer.Option(
            "--firth",
            help=(
                "Use Firth's penalty. This penalty gives finite estimates even if a column "
                "predicts the outcome perfectly."
            ),
        ),
    ] = False,
    classes: Annotated[
        str | None,
        typer.Option(
            help=(
                "The levels of the outcome from the lowest to the highest, for example "
                "low,mid,high. Only for --family ordinal."
            ),
            show_default=False,
        ),
    ] = None,
    theta: Annotated[
        float | None,
        typer.Option(
            help=(
                "The value of theta, if you know it. Only for --family negative_binomial. "
                "Default: feddcd estimates theta."
            ),
            show_default=False,
        ),
    ] = None,
    l2: Annotated[
        float,
        _option(
            "The strength of the penalty l2/2 |w|², where w are the coefficients without the "
            "intercept.",
            "--l2",
        ),
    ] = 0.0,
    tol: Annotated[
        float,
        _option(
            "How far a coefficient may be from the exact coefficient of the pooled rows, in "
            "standard errors."
        ),
    ] = 1e-6,
    weight: Annotated[
        str | None,
        _column(
            "The column with the weight of each row. If the outcome is a share: the column with "
            "the number of trials."
        ),
    ] = None,
    offset: Annotated[
        str | None,
        _column(
            "Add this column to the linear predictor. With --formula, you can also give an "
            "expression, for example 'log(days)'."
        ),
    ] = None,
    site_effects: Annotated[
        str, _option("The effects of the sites: none, or fixed (one intercept for each site).")
    ] = "none",
    covariance: Annotated[
        str,
        _option(
            "The kind of standard errors: model, HC0 to HC3 (robust), or cluster "
            "(robust, by site or by --cluster)."
        ),
    ] = "model",
    cluster: Annotated[
        str | None,
        _column(
            "The column with the cluster of each row, for --covariance cluster. All rows of a "
            "cluster should be at one site."
        ),
    ] = None,
    test: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "Test each term of the model: wald (Wald test) or lr (likelihood-ratio test). For "
                "lr, feddcd fits the model again without the term. Repeat the option for both "
                "tests. Default: no test."
            ),
            show_default=False,
        ),
    ] = None,
    contrast: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "Test this contrast of coefficients, for example 'a - 2 * b = 0'. Repeat the "
                "option for more contrasts."
            ),
            show_default=False,
        ),
    ] = None,
    vif: Annotated[
        bool, typer.Option("--vif", help="Show the variance inflation factor of each term.")
    ] = False,
    predict: Annotated[
        Path | None,
        typer.Option(
            help=(
                "Predict the outcome for each row of this file, and print the predicted means "
                "with their intervals."
            ),
            show_default=False,
        ),
    ] = None,
    missing: Annotated[
        str, _option("What to do with missing values: drop (leave the row out), or error (stop).")
    ] = "drop",
    complete: CompleteColumns = None,
    standardize: Annotated[
        bool,
        typer.Option(
            "--standardize",
            help="Show each coefficient for a change of one standard deviation of its column.",
        ),
    ] = False,
    level: Annotated[float, _option("The level of the confidence intervals, in per cent.")] = 95,
    algorithm: Annotated[
        str, _option("The method that computes the table: auto, newton or pointsaga.")
    ] = "auto",
    absent: Annotated[
        float,
        _option("In simulation: the share of the sites that miss an exchange, from 0 to below 1."),
    ] = 0.0,
    latency: Annotated[
        float, _option("The seconds that one exchange takes. --algorithm auto uses this number.")
    ] = 0.1,
    bandwidth: Annotated[
        float,
        _option(
            "The speed of the server's network, in bytes per second. --algorithm auto uses this "
            "number."
        ),
    ] = 1e7,
    max_exchanges: Annotated[int, _option("Stop after this number of exchanges.")] = 50,
    seed: Annotated[int, _option("The seed of all random numbers.")] = 0,
    codebook: CodebookFile = None,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    na: Missing = None,
    sheet: SheetName = None,
    out: OutFolder = None,
    force: Force = False,
    quiet: Quiet = False,
) -> None:
    """Fit a regression over sites. The command writes the table, the model and a report.

    With --family binomial, the values of the outcome may be two words. The option --event says
    which word counts as 1. Exit code 1 means that the fit did not reach --tol. The command writes
    its files also with exit code 1. For some models (--firth, an estimated theta, some links)
    nobody knows a proof: the table says "Not proven", and exit code 0 means that the fit converged.
    Example: feddcd glm patients.csv --formula "death ~ age + C(sex)" --group hospital --out out
    """
    settings = {name: value for name, value in locals().items() if name not in OF_THE_COMMAND}
    settings["classes"] = None if classes is None else classes.split(",")
    from ._glm import Reading, Roles, Source, Wishes, glm_command

    roles = Roles(label, group, weight, offset, cluster)
    how = Reading(sep, decimal, encoding, tuple(na or ()), sheet)
    source = Source(file, how, codebook, tuple(complete or ()))
    wishes = Wishes(tuple(test or ()), tuple(contrast or ()), vif, predict)
    options = settings | {"random_state": seed}
    glm_command(source, roles, options, wishes, clients, out, force, quiet)
