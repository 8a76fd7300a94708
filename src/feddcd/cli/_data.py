"""What `feddcd data` does: the files of known sets, listed, fetched and checked."""

import os
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)
from rich.table import Table

from .._errors import DataError
from .._text import meant
from ..data import available
from ..data.check import check
from ..data.fetch import fetch
from ..data.files import cache_dir
from ..data.known import KNOWN, KnownSet, find
from ..paper import authors

console = Console()
NAMES = (*KNOWN, authors.NAME)


def data_list_command() -> None:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="cyan", no_wrap=True)
    table.add_column(overflow="fold")
    for source in KNOWN.values():
        shape = f"{source.rows:,} x {source.features:,}"
        paths = [find(file) for file in source.files]
        lines = [f"{shape}, {_size(source)}, licence: {source.licence}", source.about]
        table.add_row(source.name, escape("\n".join([*lines, _here(paths)])))
    lines = [f"{authors.PUBLISHED_RUNS} runs, 1.0 MB, licence: {authors.LICENCE}", authors.ABOUT]
    table.add_row(authors.NAME, escape("\n".join([*lines, _here(_authors_paths())])))
    console.print(table)
    named = os.environ.get("FEDDCD_DATA")
    _say(f"\nlooked in {f'{named} (FEDDCD_DATA) and ' if named else ''}{cache_dir()}")


def data_fetch_command(name: str, test: bool | None) -> None:
    if name == authors.NAME:
        if authors.load_authors() is None:
            raise authors.authors_absent()
        return _say(f"already here: {authors.authors_folder()}")
    source = _source(name)
    before = {path for file in source.files if (path := find(file))}
    with _bars() as bars:
        tasks = {}

        def watch(name: str, done: int, total: int | None) -> None:
            if name not in tasks:
                tasks[name] = bars.add_task(name, total=total, completed=done)
            shown = f"{name}, checking it" if done == total else name
            bars.update(tasks[name], total=total, completed=done, description=shown)

        try:
            paths = fetch(source, test=test, watch=watch)
        except KeyboardInterrupt:
            _say("stopped; what came is kept, and the same command goes on from there")
            raise
    for path in paths:
        _say(f"{'already here' if path in before else 'fetched and checked'}: {path}")
    if source.test and len(paths) == 1 and test is None:
        _say(f"left out, for its size: {source.test.name}; feddcd data fetch {name} --test")


def _bars() -> Progress:
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


def data_check_command(name: str) -> None:
    if name == authors.NAME:
        return _check_authors()
    source = _source(name)
    with console.status(f"reading the files of {name}"):
        findings = check(source)
    for finding in findings:
        if finding.good:
            _report("right" if finding.path else "no file", finding.path or finding.file.name)
            _say(f"         {finding.says}")
    if wrong := [finding.says for finding in findings if not finding.good]:
        raise DataError("; ".join(wrong))


def _check_authors() -> None:
    runs = authors.load_authors()
    if runs is None:
        raise authors.authors_absent()
    rounds = sum(run.rounds for run in runs.values())
    _report("right", authors.authors_folder())
    _say(
        f"         every line reads: {len(runs)} runs, {rounds:,} rounds; "
        f"the authors published {authors.PUBLISHED_RUNS} runs"
    )


def _report(verdict: str, what: Path | str) -> None:
    console.print(f"[green]{verdict:<7}[/]  {escape(str(what))}", soft_wrap=True, highlight=False)


def _source(name: str) -> KnownSet:
    if name in KNOWN:
        return KNOWN[name]
    if name in available():
        raise DataError(f"{name} comes with the package: there are no files to fetch or to check")
    hint = meant(name, NAMES, most=2)
    raise DataError(f"no data set called {name!r}; {hint}there are {', '.join(NAMES)}")


def _size(source: KnownSet) -> str:
    size = source.train.size
    return "size not known" if size is None else f"{decimal(size)} of text"


def _here(paths: list[Path | None]) -> str:
    found = [str(path) for path in paths if path is not None]
    return "here: " + ("\n      ".join(found) or "no")


def _authors_paths() -> list[Path | None]:
    folder = authors.authors_folder()
    paths = (folder / name for name in (authors.RUNS_FILE, authors.CURVES_FILE))
    return [path for path in paths if path.is_file()]


def _say(text: str) -> None:
    console.print(text, soft_wrap=True, highlight=False, markup=False)
