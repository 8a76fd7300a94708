"""`feddcd codebook` and `feddcd site check`: a codebook drafted from files, and files held
against it. Both are run where the data are."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .._errors import DataError, SpecError
from .._text import listed, plural, sentence_list
from ._habits import found
from ._terminal import Decimal, Encoding, Missing, Sep, SheetName, say, warn

if TYPE_CHECKING:
    from ..data.codebook import Codebook
    from ..data.frames import Reading

site_app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")


def codebook(
    data: Annotated[
        list[Path],
        typer.Argument(help="Read this data file, or several data files.", metavar="DATA..."),
    ],
    out: Annotated[Path, typer.Option(help="Write the codebook into this file.")] = Path(
        "codebook.toml"
    ),
    cap_rare: Annotated[
        int | None,
        typer.Option(
            help="Propose a cap and a step for each column of whole numbers, such as ages. The cap "
            "is a smallest and a largest value. Each value is rounded to a multiple of the step. "
            "With this cap and step, each value occurs in at least this number of rows of each "
            "file. Default: no proposal.",
            min=2,
            metavar="ROWS",
        ),
    ] = None,
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    na: Missing = None,
    sheet: SheetName = None,
) -> None:
    """Make a draft of codebook.toml from your files. Read the draft, and complete columns, types
    and levels.

    Example: feddcd codebook patients.csv --out codebook.toml
    """
    from ..data.draft import draft
    from ..data.frames import Reading, read_frame

    if out.exists():
        raise SpecError(f"{out} exists already; choose another --out, or move the old file away")
    how = Reading(sep, decimal, encoding, tuple(na or ()), sheet)
    tables = [read_frame(file, how=how) for file in data]
    for table in tables:
        for note in table.notes:
            warn(note)
        for doubt in table.doubts.values():
            warn(str(doubt.placed(table.file, table.place)))
    out.write_text(draft(tables, cap_rare), "utf-8")
    found(file=out, rows=sum(len(table.frame) for table in tables))
    say(
        f"{out}: read this codebook before you send it to others, because it names the levels of "
        "your data"
    )
    if cap_rare:
        say(f"{out}: read the caps and steps, too, because feddcd computed them from your data")


@site_app.command("check")
def check(
    data: Annotated[Path, typer.Argument(help="Check this data file of the site.", metavar="DATA")],
    codebook: Annotated[Path, typer.Option(help="Compare the data with this codebook.")] = Path(
        "codebook.toml"
    ),
    sep: Sep = None,
    decimal: Decimal = None,
    encoding: Encoding = None,
    na: Missing = None,
    sheet: SheetName = None,
) -> None:
    """Compare a file with the codebook: the command says which values do not fit, how many, and
    where.

    The exit code is 0 if all columns fit, and 1 if a column does not fit. The command sends
    nothing. Example: feddcd site check patients.csv --codebook codebook.toml
    """
    from ..data.codebook import load_codebook
    from ..data.frames import Reading

    how = Reading(sep, decimal, encoding, tuple(na or ()), sheet)
    if not check_data(data, load_codebook(codebook), str(codebook), how):
        sys.exit(1)


def check_data(data: Path, book: "Codebook", where: str, how: "Reading") -> int:
    """The rows of a file that fits a codebook; else none, and says what does not fit."""
    from ..data.conform import changed_by_caps, check_table, read_agreed
    from ._keys import undeclared

    table = read_agreed(data, book, how=how)
    for note in table.notes:
        warn(note)
    beyond = [name for name in table.frame.columns if name not in book.columns]
    if beyond:
        few = len(beyond) == 1
        warn(
            f"the codebook does not have the {'column' if few else 'columns'} {listed(beyond)}, so "
            f"no study can use {'this column' if few else 'these columns'}"
        )
    if not len(table.frame):
        raise DataError("no rows", file=str(data))
    for note in undeclared(table, book):
        warn(note)
    findings = check_table(table, book)
    told = [str(finding.error(table)) for finding in findings]
    found(file=data, rows=len(table.frame), fits=not findings, findings=told)
    for line in told:
        say(line)
    changes = changed_by_caps(table, book)
    found(changed={name: {"cap": a, "step": b} for name, (a, b) in changes.items()})
    for name, (beyond, rounded) in changes.items():
        entry = book.columns[name]
        parts = [] if entry.cap is None else [f"the cap changes {beyond:,}"]
        parts += [] if entry.step is None else [f"the step changes {rounded:,}"]
        of = plural(int(table.frame[name].count()), "value")
        say(f"column {name!r}: of {of}, {sentence_list(parts)}")
    if findings:
        wrong = len({finding.column for finding in findings})
        do = "does" if wrong == 1 else "do"
        say(f"{wrong} of {plural(len(book.columns), 'column')} {do} not fit {where}")
        return 0
    rows, columns = plural(len(table.frame), "row"), plural(len(book.columns), "column")
    say(f"{data} fits {where}: {rows}, {columns}")
    return len(table.frame)
