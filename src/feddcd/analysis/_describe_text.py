"""A description as Table 1: lines for the terminal, and CSV files."""

import io
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._text import NONE, count, number, plural, printable, trim
from ..report.tables import Group, terminal_table
from ._bins import Quantile
from ._describe_notes import ABOUT, changed, changed_rows
from ._describe_notes import notes as notes
from ._describe_plan import QUARTILES, DescribePlan
from ._description import DescribeResult, LevelSummary, NumberSummary, Section
from ._layout import wrapped
from ._printed import AbstractPrinted, PrintedTable, lacking
from .protocol import APART

WIDTH = 118
MOST_PLACES = 6


def head(result: DescribeResult, section: Section) -> list[str]:
    return ["", *map(printable, _cells(result, section))]


def _cells(result: DescribeResult, section: Section) -> list[str]:
    """The names of the table's columns; that of a group begins with the column of the groups."""
    by, (first, *rest) = result.plan.by, section.cells
    return [first, *(f"{by}: {name}" if by and section is result.table else name for name in rest)]


def groups(result: DescribeResult, section: Section, in_line: bool = False) -> list[Group]:
    """The rows of Table 1, one group of them for each column of the data; `in_line`: all numbers of
    a row have the same number of decimals, as a journal wants it."""
    left = changed_rows(result)
    found: list[Group] = [("", [("rows", *(_count(x, left) for x in section.rows))])]
    numbers = {each.name: each for each in section.numbers}
    levels = {each.name: each for each in section.levels}
    for name in result.plan.names:
        if name in numbers:
            about = result.careful[0] > 0  # no quantile is exact where a site joined values
            places = _places(numbers[name]) if in_line else None
            rows = _number_rows(numbers[name], result.plan, about, places)
            missing = _missing(numbers[name], changed(result, numbers[name]))
            found.append((printable(name), rows + missing))
        else:
            each = levels[name]
            found.append((printable(name), _level_rows(each, changed(result, each))))
    return [group for group in found if group[1]]


class _Places(NamedTuple):
    """Decimals of a row: of means, and of exact quantiles; None: each number has its own."""

    mean: int | None
    quantile: int | None


def _places(each: NumberSummary) -> _Places:
    """Three digits of the standard deviation, and of the distance of the quantiles, if they need so
    many."""
    sd = float(each.sd[0])
    exact = [q.value for cell in each.quantiles for q in cell if q and q.low == q.high]
    needed = [len(trim(value, 6).partition(".")[2]) for value in exact]
    if not 0 < sd < np.inf:
        return _Places(2, max(needed, default=0))
    own = [q.value for q in (each.quantiles[0] or ()) if q]  # of all rows
    far = max(own) - min(own) if own else 0.0
    mean, most = _third_digit(sd), _third_digit(min(sd, far) if far > 0 else sd)
    few = lambda places: places if places <= MOST_PLACES else None
    return _Places(few(mean), few(min(max(needed, default=0), most)))


def _third_digit(scale: float) -> int:
    return max(2 - int(np.floor(np.log10(scale))), 0)


def _number_rows(
    each: NumberSummary, plan: DescribePlan, about: bool = False, places: _Places | None = None
) -> list[tuple[str, ...]]:
    shares, rows = plan.shares, []
    mean, quantile = (None, None) if places is None else places
    if each.name not in plan.median:
        rows.append(("mean (SD)", *(_mean(*x, mean) for x in zip(each.mean, each.sd, strict=True))))
    if any(each.quantiles):
        if tuple(shares) == QUARTILES:
            shown = (_median(q, about, quantile) for q in each.quantiles)
            rows.append(("median [quartiles]", *shown))
        else:
            one = lambda q, i: _quantile(q[i] if q else None, about, quantile)
            rows += [
                (f"{100 * share:g} %", *(one(q, i) for q in each.quantiles))
                for i, share in enumerate(shares)
            ]
    return rows


def _level_rows(each: LevelSummary, about: bool = False) -> list[tuple[str, ...]]:
    rows = [
        (printable(level), *(_share(*x, about) for x in zip(counts, shares, strict=True)))
        for level, counts, shares in zip(each.levels, each.counts, each.share, strict=True)
    ]
    return rows + _missing(each, about)


def _missing(each: NumberSummary | LevelSummary, about: bool) -> list[tuple[str, ...]]:
    if not np.any(each.missing != 0):
        return []
    return [("missing", *(_count(x, about) for x in each.missing))]


def _count(x: float, about: bool = False) -> str:
    return NONE if np.isnan(x) else f"{ABOUT if about else ''}{count(x)}"


def _mean(mean: float, sd: float, places: int | None = None) -> str:
    return NONE if np.isnan(mean) else f"{_in_line(mean, places)} ({_in_line(sd, places)})"


def _in_line(value: float, places: int | None) -> str:
    small = places is None or not np.isfinite(value) or 0 < abs(value) < 10.0**-places
    if small or abs(value) >= 1e7:
        return number(value)
    return f"{value:,.{places}f}".replace("-", "−")


def _share(rows: float, share: float, about: bool = False) -> str:
    if np.isnan(rows) or np.isnan(share):
        return _count(rows, about)
    return f"{_count(rows, about)} ({100 * share:.1f} %)"


def _quantile(q: Quantile | None, about: bool = False, places: int | None = None) -> str:
    if q is None:
        return NONE
    if about or q.low != q.high:
        return f"{ABOUT}{trim(q.value, 3)}"
    return trim(q.value, 6) if places is None else _in_line(q.value, places)


def _median(
    each: tuple[Quantile | None, ...], about: bool = False, places: int | None = None
) -> str:
    if not each or all(q is None for q in each):
        return NONE
    low, middle, high = (_quantile(q, about, places) for q in each)
    return f"{middle} [{low}, {high}]"


def pattern_rows(result: DescribeResult) -> tuple[list[str], list[list[str]]]:
    """Columns that are missing together, and in how many rows."""
    pairs = zip(result.patterns["missing"], result.patterns["rows"], strict=True)
    about = result.careful[1] > 0
    return ["missing together", "rows"], [[printable(name), _count(n, about)] for name, n in pairs]


def summary(result: DescribeResult, limit: int | None = None) -> str:
    """For a terminal with lines of `limit` letters, or as files have it."""
    where = f" at {plural(result.n_sites, 'site')}" if result.n_sites > 1 else ""
    spent = plural(result.n_exchanges, "exchange")
    of = plural(len(result.plan.names), "column")
    parts = [
        *wrapped([f"{plural(result.n_rows, 'row')}{where}, {of}; {spent}"], limit),
        *_drawn(head(result, result.table), groups(result, result.table), limit),
    ]
    if len(result.patterns) > 1:
        names, rows = pattern_rows(result)
        parts += _drawn(names, [("", rows)], limit)
    if result.sites is not None:
        parts.append("By site")
        parts += _drawn(head(result, result.sites), groups(result, result.sites), limit)
        if result.site and not result.plan.by:
            parts += [*wrapped([_by_in_place(result.site)], limit), ""]
    gone = map(printable, lacking(result.refused))
    parts += wrapped([*gone, *notes(result), *([APART] if result.apart else [])], limit)
    return "\n".join(line.rstrip() for line in "\n".join(parts).splitlines())


def _by_in_place(site: str) -> str:
    """Who names a group often means the columns of Table 1."""
    option = shlex.quote(printable(site))
    return (
        f"If you want one column of Table 1 for each value of {site!r}, give --by {option} in "
        f"place of --group {option} (in Python: by={site!r})."
    )


def _drawn(names: list[str], each: list[Group], limit: int | None) -> list[str]:
    """A table, or several ones below one another where `limit` letters do not hold all columns."""
    most, end, parts = max(WIDTH, 22 * len(names)), 1, []
    if limit is None:
        return [_columns(names, each, range(1, len(names)), most)]
    while end < len(names):
        start, end = end, len(names)
        while True:
            made = _columns(names, each, range(start, end), most)
            if end == start + 1 or max(map(len, made.splitlines())) <= limit:
                break
            end -= 1
        fits = max(map(len, made.splitlines())) <= limit
        parts.append(made if fits else _columns(names, each, range(start, end), limit))
    return parts


def _columns(names: list[str], each: list[Group], of: range, wide: int) -> str:
    """The names of the rows, and some of the columns."""
    from rich.console import Console

    some = lambda cells: [cells[0], *(cells[k] for k in of)]
    table = terminal_table(some(names), *((title, list(map(some, rows))) for title, rows in each))
    file = io.StringIO()
    Console(file=file, width=wide, color_system=None).print(table)
    return "\n".join(line.rstrip() for line in file.getvalue().rstrip("\n").split("\n"))


def numbers(result: DescribeResult) -> pd.DataFrame:
    """Columns: table, column, level, cell, statistic, value, low, high."""
    lines: list[tuple[Any, ...]] = []
    tables = {"all": result.table} | ({"sites": result.sites} if result.sites else {})
    for name, section in tables.items():
        for i, cell in enumerate(section.cells):
            add = lambda *line, n=name, c=cell: lines.append((n, *line[:2], c, *line[2:]))
            add("", "", "rows", section.rows[i])
            for each in section.numbers:
                moments = () if each.name in result.plan.median else ("mean", "sd")
                for statistic in ("present", "missing", *moments):
                    add(each.name, "", statistic, getattr(each, statistic)[i])
                for share, q in zip(result.plan.shares, each.quantiles[i], strict=False):
                    add(each.name, "", f"q{share:g}", *(q or (np.nan, np.nan, np.nan)))
            for each in section.levels:
                add(each.name, "", "missing", each.missing[i])
                for k, level in enumerate(each.levels):
                    add(each.name, level, "count", each.counts[k, i])
                    add(each.name, level, "share", each.share[k, i])
    names = ["table", "column", "level", "cell", "statistic", "value", "low", "high"]
    return pd.DataFrame([(*line, *[np.nan] * (8 - len(line))) for line in lines], columns=names)


def write(result: DescribeResult, folder: Path) -> Iterator[Path]:
    from .export import for_spreadsheets

    table = folder / "table1.csv"
    lines = [[heading, *row] for heading, rows in groups(result, result.table) for row in rows]
    lines += [
        [name, f"not in the table, because {each.why}", *[""] * len(result.table.cells)]
        for each in result.left_out
        for name in each.names
    ]
    gone = zip(result.refused, lacking(result.refused), strict=True)
    blank = [""] * len(result.table.cells)
    lines += [[site, printable(told), *blank] for site, told in gone]
    shown = pd.DataFrame(lines, columns=["column", "statistic", *_cells(result, result.table)])
    for frame, name in (
        (shown, "table1"),
        *((_by_site(result, section), "by_site") for section in [result.sites] if section),
        (result.numbers(), "numbers"),
        (result.patterns, "patterns"),
    ):
        table = folder / f"{name}.csv"
        for_spreadsheets(frame).to_csv(table, index=False, lineterminator="\n")
        yield table
    text = folder / "summary.txt"
    text.write_text(result.summary() + "\n", encoding="utf-8", newline="\n")
    yield text


def _by_site(result: DescribeResult, section: Section) -> pd.DataFrame:
    lines = [[heading, *row] for heading, rows in groups(result, section) for row in rows]
    return pd.DataFrame(lines, columns=["column", "statistic", *_cells(result, section)])


class BySite(AbstractPrinted):
    """The second table, with a column for each site."""

    def __init__(self, result: DescribeResult, section: Section):
        self._result, self._section = result, section

    def printed(self) -> PrintedTable:
        whole, section = self._result, self._section
        return PrintedTable(
            head(whole, section), groups(whole, section, True), whole.printed().notes
        )
