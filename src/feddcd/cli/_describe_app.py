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
    PathsOnly,
    Sep,
    SheetName,
)


def describe(
    file: Annotated[
        Path,
        typer.Argument(
            help="A .csv or .tsv file (with .gz, .bz2 or .xz, too), .xlsx or .parquet.",
            metavar="FILE",
        ),
    ],
    column: Annotated[
        list[str] | None,
        typer.Option(
            help="A column; C(NAME) counts its values. Repeat for each. Default: all columns.",
            show_default=False,
        ),
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(
            help="The column that names the group of a row. The table has one column for "
            "each group.",
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None,
    site: Annotated[
        str | None,
        typer.Option(
            "--group",
            "--site",
            help="The column that names the site of a row.",
            metavar="COLUMN",
            show_default=False,
        ),
    ] = None,
    least: Annotated[
        int | None,
        typer.Option(
            help="Leave out counts below this number of rows. Default: 0.", show_default=False
        ),
    ] = None,
    quantiles: Annotated[
        str | None,
        typer.Option(
            help="How to give quantiles: exact, rounded or none. Default: exact.",
            show_default=False,
        ),
    ] = None,
    share: Annotated[
        list[float] | None,
        typer.Option(
            help="A quantile, such as 0.9. Repeat for each. Default: the quartiles.",
            show_default=False,
        ),
    ] = None,
    median: Annotated[
        list[str] | None,
        typer.Option(
            help="A skewed column: the table shows its median and quartiles, and no mean and SD. "
            "Repeat for each.",
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
    quiet: PathsOnly = False,
) -> None:
    """Describe a table: rows, missing values, means, counts by level, quantiles.

    The command writes table1.csv, numbers.csv, a report, and job.toml for a federation. Example:
    feddcd describe patients.csv --by sex --group hospital --out table1
    """
    from ._describe import Wanted, describe_command
    from ._glm import Reading, Source

    how = Reading(sep, decimal, encoding, tuple(na or ()), sheet)
    shares = tuple(share) if share else None
    wanted = Wanted(tuple(column or ()), by, site, least, quantiles, shares, tuple(median or ()))
    source = Source(file, how, codebook, tuple(complete or ()))
    describe_command(source, wanted, out, force, quiet)
