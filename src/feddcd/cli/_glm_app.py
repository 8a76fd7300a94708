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
    PathsOnly,
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
            help="A .csv or .tsv file (with .gz, .bz2 or .xz, too), .xlsx, .parquet or LIBSVM.",
            metavar="FILE",
        ),
    ],
    formula: Annotated[
        str | None,
        typer.Option(
            help="The model, such as 'death ~ age + C(sex) + offset(log(t))'.", show_default=False
        ),
    ] = None,
    label: Annotated[
        str | None,
        _column("Without a formula: the outcome. All other columns of numbers are predictors."),
    ] = None,
    group: Annotated[
        str | None,
        _column(
            "The column that names the site of a row: hospital, bank, ... With a formula and "
            "without --group, all rows are one site."
        ),
    ] = None,
    clients: Annotated[
        int | None,
        typer.Option(
            help="Without --group: divide the rows at random among N sites.", show_default=False
        ),
    ] = None,
    family: Annotated[
        str,
        _option("The family: binomial, gaussian, poisson, multinomial, gamma, ... (docs/glm.md)."),
    ] = "binomial",
    event: Annotated[
        str | None,
        typer.Option(
            help="For an outcome of two words: the word that counts as 1.",
            metavar="WORD",
            show_default=False,
        ),
    ] = None,
    link: Annotated[
        str | None,
        typer.Option(
            help="The link, such as probit, cloglog or log. Default: the family's usual link.",
            show_default=False,
        ),
    ] = None,
    firth: Annotated[
        bool, typer.Option("--firth", help="Use Firth's penalty, for separated outcomes.")
    ] = False,
    classes: Annotated[
        str | None,
        typer.Option(
            help="For family ordinal: the outcome's levels, lowest first, as in low,mid,high.",
            show_default=False,
        ),
    ] = None,
    theta: Annotated[
        float | None,
        typer.Option(
            help="Theta of the negative binomial, if you know it. Default: feddcd estimates theta.",
            show_default=False,
        ),
    ] = None,
    l2: Annotated[float, _option("Penalty l2/2 |w|², not on the intercept.", "--l2")] = 0.0,
    tol: Annotated[
        float, _option("Largest proven error of a coefficient, in standard errors.")
    ] = 1e-6,
    weight: Annotated[
        str | None, _column("The column of weights; for shares, the number of trials.")
    ] = None,
    offset: Annotated[str | None, _column("A column to add to the linear predictor.")] = None,
    site_effects: Annotated[
        str, _option("Site effects: none, or fixed (one intercept for each site).")
    ] = "none",
    covariance: Annotated[
        str,
        _option(
            "Standard errors: model, HC0, HC1, HC2, HC3 (robust), or "
            "cluster (by site or --cluster)."
        ),
    ] = "model",
    cluster: Annotated[
        str | None, _column("For --covariance cluster: the column of clusters within sites.")
    ] = None,
    test: Annotated[
        str | None,
        typer.Option(
            help="Test each term: wald, or lr (fits the model again without the term).",
            show_default=False,
        ),
    ] = None,
    contrast: Annotated[
        list[str] | None,
        typer.Option(
            help="Test a contrast, such as 'a - 2 * b = 0'. Repeat for each.", show_default=False
        ),
    ] = None,
    vif: Annotated[bool, typer.Option("--vif", help="Show variance inflation factors.")] = False,
    predict: Annotated[
        Path | None,
        typer.Option(
            help="A file of new rows: for each row, print the predicted mean and its interval.",
            show_default=False,
        ),
    ] = None,
    missing: Annotated[
        str, _option("Rows with missing values: drop (leave them out), or error.")
    ] = "drop",
    complete: CompleteColumns = None,
    standardize: Annotated[
        bool,
        typer.Option(
            "--standardize", help="Give each coefficient for one standard deviation of its column."
        ),
    ] = False,
    level: Annotated[float, _option("Level of the intervals, in per cent.")] = 95,
    algorithm: Annotated[
        str, _option("How to compute the table: auto, newton or pointsaga.")
    ] = "auto",
    absent: Annotated[
        float, _option("The part of the sites that miss an exchange, from 0 to 1, in simulation.")
    ] = 0.0,
    latency: Annotated[
        float, _option("Seconds that one exchange takes, for the choice by auto.")
    ] = 0.1,
    bandwidth: Annotated[
        float, _option("Bytes per second of the server's network connection.")
    ] = 1e7,
    max_exchanges: Annotated[int, _option("Largest number of exchanges.")] = 50,
    seed: Annotated[int, _option("The seed that decides which sites are absent.")] = 0,
    codebook: CodebookFile = None,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    na: Missing = None,
    sheet: SheetName = None,
    out: OutFolder = None,
    force: Force = False,
    quiet: PathsOnly = False,
) -> None:
    """Fit a regression over sites. The command writes the table, the model and a report.

    The outcome of family binomial may be two words. The word that --event names counts as 1.
    Without --event, the second word in sorted order counts as 1. Exit code 1 means that the
    coefficients are not proven to --tol. With exit code 1 the command still writes its files.
    Example: feddcd glm patients.csv --formula "death ~ age + C(sex)" --group hospital --out out
    """
    settings = {name: value for name, value in locals().items() if name not in OF_THE_COMMAND}
    settings["classes"] = None if classes is None else classes.split(",")
    from ._glm import Reading, Roles, Source, Wishes, glm_command

    roles = Roles(label, group, weight, offset, cluster)
    how = Reading(sep, decimal, encoding, tuple(na or ()), sheet)
    source = Source(file, how, codebook, tuple(complete or ()))
    wishes = Wishes(test, tuple(contrast or ()), vif, predict)
    options = settings | {"random_state": seed}
    glm_command(source, roles, options, wishes, clients, out, force, quiet)
