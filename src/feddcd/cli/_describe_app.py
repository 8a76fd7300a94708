"""`feddcd describe`: a table in, Table 1 and a report out."""

from pathlib import Path
from typing import Annotated

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


def describe(
    file: Annotated[
        Path,
        typer.Argument(
            help=(
                "The data file: .csv or .tsv (also packed as .gz, .bz2 or .xz), .xlsx or .parquet."
            ),
            metavar="FILE",
        ),
    ],
    column: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "Describe this column; C(NAME) counts the values of the column NAME. Repeat the "
                "option for more columns. Default: all columns."
            ),
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help=(
                "Divide the rows into groups by the values of this column. The table then has "
                "one column for each group. Default: no groups."
            ),
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(
            "--group",
            "--site",
            help=(
                "The column with the name of the site of each row. feddcd then writes a second "
                "table with the numbers of each site. If you want one column for each site in "
                "Table 1, use --by in place of --group. Default: all rows belong to one site."
            ),
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None,
    least: Annotated[
        int | None,
        typer.Option(
            help=(
                "Do not show a count that is below this number of rows. Default: 0 (show all "
                "counts)."
            ),
            show_default=False,
        ),
    ] = None,
    quantiles: Annotated[
        str | None,
        typer.Option(
            help="How the table shows quantiles: exact, rounded or none. Default: exact.",
            show_default=False,
        ),
    ] = None,
    share: Annotated[
        list[float] | None,
        typer.Option(
            help=(
                "Show this quantile, for example 0.9. Repeat the option for more quantiles. "
                "Default: the three quartiles."
            ),
            show_default=False,
        ),
    ] = None,
    median: Annotated[
        list[str] | None,
        typer.Option(
            help=(
                "Show the median and the quartiles of this column, but not its mean and standard "
                "deviation (for a skewed column). Repeat the option for more columns."
            ),
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None,
    complete: CompleteColumns = None,
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
    """Describe a table: rows, missing values, means, counts by level, quantiles.

    The command writes table1.csv, numbers.csv, a report, and job.toml for a federation. Example:
    feddcd describe patients.csv --by sex --group hospital --out table1
    """
    from ._describe import Wanted, describe_command
    from ._glm import Reading, Source

    how = Reading(sep, decimal, encoding, tuple(na or ()), sheet)
    shares = tuple(sorted({*share})) if share else None
    wanted = Wanted(tuple(column or ()), by, site, least, quantiles, shares, tuple(median or ()))
    source = Source(file, how, codebook, tuple(complete or ()))
    describe_command(source, wanted, out, force, quiet)
