"""`feddcd data`: the files of well-known sets, listed, fetched and checked."""

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal
from rich.progress import (
    BarColumn,
    DownloadColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from .._errors import DataError
from .._text import meant, plural
from ._habits import found
from ._terminal import bars, console, escape, say

if TYPE_CHECKING:
    from ..data.known import KnownSet

data_app = typer.Typer(no_args_is_help=True, rich_markup_mode="rich")
DataName = Annotated[
    str,
    typer.Argument(
        help="The name of a data set. `feddcd data list` shows all names.", metavar="NAME"
    ),
]


@data_app.command("list")
def list_sets() -> None:
    """Show the data sets: size, licence, and where their files are.

    Example: feddcd data list
    """
    from ..data.files import cache_dir
    from ..data.known import KNOWN, find
    from ..paper import authors

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for source in KNOWN.values():
        shape, bytes = f"{source.rows:,} x {source.features:,}", source.train.size
        size = "size not known" if bytes is None else f"{decimal(bytes)} of text"
        lines = [f"{shape}, {size}, licence: {source.licence}", source.about]
        paths = [path for file in source.files if (path := find(file))]
        here = _here(paths)
        one = {"rows": source.rows, "features": source.features, "licence": source.licence}
        found(**{source.name: one | {"about": source.about, "files": paths}})
        table.add_row(source.name, escape("\n".join([*lines, here])))
    lines = [f"{authors.PUBLISHED_RUNS} runs, 1.0 MB, licence: {authors.LICENCE}", authors.ABOUT]
    files = [authors.authors_folder() / name for name in (authors.RUNS_FILE, authors.CURVES_FILE)]
    here = _here([path for path in files if path.is_file()])
    table.add_row(authors.NAME, escape("\n".join([*lines, here])))
    console.print(table)
    named = os.environ.get("FEDDCD_DATA")
    say("")
    also = f"folders {named} (FEDDCD_DATA) and" if named else "folder"
    say(f"feddcd looked for these data sets in the {also} {cache_dir()}")


@data_app.command("fetch")
def fetch_set(
    name: DataName,
    test: Annotated[
        bool | None,
        typer.Option(
            help="Download the test file, too. Default: yes, except for the data set rcv1."
        ),
    ] = None,
) -> None:
    """Download a data set from its publisher into FEDDCD_DATA, or into the cache folder.

    An interrupted download continues. A file that is already here is not changed.
    Example: feddcd data fetch mnist
    """
    from ..data.fetch import fetch
    from ..data.known import find
    from ..paper import authors

    if name == authors.NAME:
        if authors.load_authors() is None:
            raise authors.authors_absent()
        found(name=name, files=[authors.authors_folder()])
        return say(f"already here: {authors.authors_folder()}")
    source = _source(name)
    before = {path for file in source.files if (path := find(file))}
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with bars(*columns, quiet=not console.is_terminal, transient=True) as progress:
        tasks = {}

        def watch(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = progress.add_task(name, total=total, completed=done)
            shown = f"{name}, checking it" if done == total else name
            progress.update(tasks[name], total=total, completed=done, description=shown)

        try:
            paths = fetch(source, test=test, watch=watch)
        except KeyboardInterrupt:
            say(
                "stopped. feddcd keeps the downloaded part; use the same command again to "
                "continue the download"
            )
            raise
    found(name=name, files=paths)
    for path in paths:
        say(f"{'already here' if path in before else 'fetched and checked'}: {path}")
    if source.test and len(paths) == 1 and test is None:
        say(
            f"the large file {source.test.name} was not downloaded; to download it: feddcd "
            f"data fetch {name} --test"
        )


@data_app.command("check")
def check_set(name: DataName) -> None:
    """Compare the files of a data set with their known sizes and checksums.

    Example: feddcd data check mnist
    """
    from ..data.check import check
    from ..paper import authors

    if name == authors.NAME:
        return _check_authors()
    source = _source(name)
    with console.status(f"reading the files of {name}"):
        findings = check(source)
    files = [
        {"file": f.file.name, "path": f.path, "right": f.good, "says": f.says} for f in findings
    ]
    found(name=name, files=files)
    for finding in findings:
        if finding.good:
            _report("right" if finding.path else "no file", finding.path or finding.file.name)
            say(f"         {finding.says}")
    if wrong := [finding.says for finding in findings if not finding.good]:
        raise DataError("; ".join(wrong))


def _check_authors() -> None:
    from ..paper import authors

    runs = authors.load_authors()
    if runs is None:
        raise authors.authors_absent()
    rounds = sum(run.rounds for run in runs.values())
    found(name=authors.NAME, runs=len(runs), rounds=rounds, folder=authors.authors_folder())
    _report("right", authors.authors_folder())
    say(
        f"         feddcd can read every line: {plural(len(runs), 'run')} with "
        f"{plural(rounds, 'round')} in all. The authors published {authors.PUBLISHED_RUNS} runs"
    )


def _report(verdict: str, what: Path | str) -> None:
    console.print(f"[green]{verdict:<7}[/]  {escape(str(what))}", soft_wrap=True, highlight=False)


def _source(name: str) -> "KnownSet":
    from ..data import available
    from ..data.known import KNOWN
    from ..paper import authors

    if name in KNOWN:
        return KNOWN[name]
    if name in available():
        told = f"the data set {name!r} is a part of feddcd"
        raise DataError(f"{told}, so there are no files to fetch or to check")
    names = (*KNOWN, authors.NAME)
    hint = meant(name, names, most=2)
    raise DataError(f"there is no data set {name!r}; {hint}the data sets are {', '.join(names)}")


def _here(paths: list[Path]) -> str:
    return "here: " + ("\n      ".join(map(str, paths)) or "no")
