"""What `feddcd describe` does."""

import dataclasses
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import tomli_w

from .._errors import DataError, FeddcdError
from .._files import fresh_folder
from .._origin import with_origin
from ..analysis.describing import (
    DescribePlan,
    LeftOut,
    careful,
    check_in_table,
    describe_plan,
    usual_columns,
    with_codebook,
)
from ..analysis.files import only_complete
from ..data.codebook import Codebook, load_codebook
from ..data.codes import missing_codes
from ..data.conform import conform, read_agreed
from ..data.frames import Frame, check_used, composed, no_column
from ._glm import Source, for_sites, usable
from ._habits import found, tables_in
from ._terminal import as_option, say, say_lines, warn, width

QUARTILES = (0.25, 0.5, 0.75)


class Wanted(NamedTuple):
    """What was asked for; None is not."""

    columns: tuple[str, ...]
    by: str | None
    site: str | None
    least: int | None
    quantiles: str | None
    shares: tuple[float, ...] | None
    median: tuple[str, ...] = ()  # columns without mean and SD


def describe_command(
    source: Source, wanted: Wanted, out: Path | None, force: bool, quiet: bool
) -> None:
    name = source.file.name.split(".")[0] or "table"
    folder = fresh_folder(f"describe-{name}") if out is None else usable(out, force)
    try:
        book = None if source.codebook is None else load_codebook(source.codebook)
        text = () if wanted.site is None else (composed(wanted.site),)
        table = read_agreed(source.file, book, text, source.how)
        plan, site, left = _plan(table, wanted, source.complete, book)
        if book is not None:
            table = conform(table, book, plan.entering)
        check_used(table, plan.used)
        table = only_complete(table, source.complete)
    except FeddcdError as error:
        raise error.placed(spell=_as_option) from None
    doubts = _doubts(table, left) if book is None else ()
    for note in (*table.notes, *doubts, *missing_codes(table.frame, plan.used)):
        warn(note)
    try:
        result = describe_plan(table.frame, plan, site, left)
    except FeddcdError as error:
        where = error.file if error.row is None else table.file
        raise error.placed(where, table.place, _as_option) from None
    folder.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(prefix=".", dir=folder) as new, with_origin(data=str(source.file)):
        job = Path(new, "job.toml")
        job.write_text(_job(plan, wanted), "utf-8")
        made = [job, *result.write(Path(new))]
        written = [folder / path.name for path in made]
        for path, end in zip(made, written, strict=True):
            os.replace(path, end)
    found(folder=folder, files=written, **dict(tables_in(folder)))
    if not quiet:
        say_lines(f"\n{result.summary(width())}\n")
    for path in written:
        say(str(path))
    if told := for_sites(source, plan):
        warn(told)


def _as_option(setting: str, value: Any) -> str:
    return as_option("group" if setting == "site" else setting, value)


def _plan(
    table: Frame, wanted: Wanted, complete: tuple[str, ...], book: Codebook | None
) -> tuple[DescribePlan, str | None, tuple[LeftOut, ...]]:
    if not len(table.frame):
        raise DataError(
            f"{table.file}: no rows; the file must have a line for each patient or case"
        )
    by, site = (None if name is None else composed(name) for name in (wanted.by, wanted.site))
    for option, name in (("by", by), ("group", site)):
        if name is not None and name not in table.frame.columns:
            raise no_column(table, name, f" for --{option}")
    columns, left = [composed(term) for term in wanted.columns], ()
    median = [composed(name) for name in wanted.median]
    if not columns:
        columns, left = usual_columns(table.frame, (by, site), book, table.doubts)
        check_in_table(median, table.frame, left)
    plan = DescribePlan(
        columns, by, wanted.least or 0, wanted.quantiles or "exact",
        list(wanted.shares or QUARTILES), by_site=site is not None,
        complete=[composed(name) for name in complete],
        median=median,
    )  # fmt: skip
    return (plan if book is None else with_codebook(plan, book)), site, left


def _doubts(table: Frame, left: tuple[LeftOut, ...]) -> Iterator[str]:
    """Which value is why a column is left out: for this terminal, not for the table."""
    for name in (name for each in left for name in each.names if name in table.doubts):
        doubt = table.doubts[name].placed(table.file, table.place, as_option)
        yield f"the column {name!r} is not in the table. {doubt}"


def _job(plan: DescribePlan, wanted: Wanted) -> str:
    """For a federation: settings that were not asked for are the careful ones."""
    plan = careful(plan, least=wanted.least, quantiles=wanted.quantiles)
    plan = dataclasses.replace(plan, by_site=False, answers=None)
    return tomli_w.dumps({"describe": {k: v for k, v in plan.to_dict().items() if k != "analysis"}})
