"""What a description found: counts by cell, which of them are shown, and one frozen result."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._text import plural
from ..formula import label
from ._bars import histograms
from ._bins import Quantile
from ._cells import Grouped, Hidden, hide, hide_groups, hide_levels, hide_patterns
from ._describe_plan import DescribePlan
from ._describe_rows import Shape, shape_of
from ._printed import AbstractPrinted, PrintedTable, lacking_in_paper
from ._sections import LevelSummary, NumberSummary, Section
from ._usual import LeftOut
from ._zero_one import as_levels
from .protocol import Agreement

ALL, NO_GROUP = "all", "(missing)"


class CellCounts(NamedTuple):
    """Rows, present numbers and levels (missing last), by cells that part the rows."""

    n: np.ndarray
    present: np.ndarray  # numbers by cells
    levels: Mapping[str, np.ndarray]  # levels by cells
    parted: bool  # whether there are groups

    @staticmethod
    def of(n: np.ndarray, present: np.ndarray, levels: np.ndarray, shape: Shape) -> "CellCounts":
        whole = lambda x: np.asarray(x).astype(np.int64)
        by_cell = whole(present).reshape(-1, shape.parted)
        return CellCounts(whole(n), by_cell, shape.split(whole(levels)), shape.groups is not None)

    @property
    def by_cell(self) -> np.ndarray:
        """Present numbers by all cells, the last being all rows."""
        if not self.parted:
            return self.present
        return np.hstack([self.present, self.present.sum(1, keepdims=True)])

    def gaps(self, shape: Shape) -> np.ndarray:
        """Missing values by column of the plan."""
        of = dict(zip(shape.numbers, self.n.sum() - self.present.sum(1), strict=True))
        of |= {name: counts[-1].sum() for name, counts in self.levels.items()}
        return np.array([of[name] for name in shape.names], np.int64)


class Visible(NamedTuple):
    """What may be known at all: groups that are hidden, and numbers by cells of which
    somebody may ask the sums."""

    groups: np.ndarray
    open: np.ndarray


def visible(known: CellCounts, least: int) -> Visible:
    groups = hide_groups(known.n, least) if known.parted else np.zeros(len(known.n), bool)
    opened = [_open(there, groups, least, known.parted) for there in known.present]
    return Visible(groups, np.array(opened, bool).reshape(-1, len(known.n) + known.parted))


class Masks(NamedTuple):
    """What is not shown of one table."""

    missing: list[Hidden]  # by number: of present, missing
    levels: Mapping[str, Hidden]


def masks(tables: Sequence[tuple[CellCounts, Visible]], least: int) -> list[Masks]:
    """Of tables that are shown together, so that none can be worked out from another."""
    first = tables[0][0]
    both = lambda known, j: np.stack([known.present[j], known.n - known.present[j]])
    numbers = [
        hide_levels([Grouped(both(known, j), seen.groups) for known, seen in tables], least)
        for j in range(len(first.present))
    ]
    levels = {
        name: hide_levels([Grouped(k.levels[name], seen.groups) for k, seen in tables], least)
        for name in first.levels
    }
    return [
        Masks([each[i] for each in numbers], {name: each[i] for name, each in levels.items()})
        for i in range(len(tables))
    ]


def _open(there: np.ndarray, groups: np.ndarray, least: int, parted: bool) -> np.ndarray:
    """Cells with sums that may be known: with enough rows, and as many in the others together."""
    enough = there.sum() >= max(least, 1)
    if not parted:
        return np.array([enough])
    gone = hide(there, [[(i, 1) for i in range(len(there))]], least, groups)
    return np.append(~gone & (there > 0) & enough, enough)


class Found(NamedTuple):
    """What the exchanges after the first one found."""

    mean: np.ndarray  # numbers by cells
    sd: np.ndarray
    quantiles: Mapping[tuple[int, int], list[Quantile | None]]
    edges: Sequence[np.ndarray]  # of histograms, by number
    bins: np.ndarray
    whole: Sequence[bool]  # by number: without decimals
    pattern: np.ndarray  # columns
    patterns: np.ndarray  # rows by pattern: bit i is the i-th of those columns
    own: Mapping[str, np.ndarray]
    flags: np.ndarray  # numbers of which every row is 0 or 1


@dataclass(frozen=True)
class DescribeResult(AbstractPrinted):
    """`sites` has one cell for each site, if all sites send their own numbers."""

    plan: DescribePlan
    table: Section
    sites: Section | None
    patterns: pd.DataFrame  # columns that are missing together, and in how many rows
    n_rows: int
    n_sites: int
    history: pd.DataFrame
    careful: tuple[int, int] = (0, 0)  # sites that hide few rows; sites that changed some
    n_dropped: int = 0
    refused: Mapping[str, str] = field(default_factory=dict)
    apart: bool = False  # a coordinator read each site's answers
    left_out: tuple[LeftOut, ...] = ()  # columns that nobody asked for
    site: str | None = None  # the column with the site of each row, in one process
    pooled: bool = False  # all rows were in this process, and nothing was sent

    @property
    def n_exchanges(self) -> int:
        return len(self.history)

    def with_sites(
        self, dropped: Mapping[str, int], refused: Mapping[str, str], apart: bool = False
    ) -> "DescribeResult":
        left = sum(dropped.values())
        return dataclasses.replace(self, n_dropped=left, refused=dict(refused), apart=apart)

    def facts(self) -> dict[str, Any]:
        return {"converged": True, "rows": self.n_rows}

    def numbers(self) -> pd.DataFrame:
        """All that is shown, with all digits: one row for each number."""
        from ._describe_text import numbers

        return numbers(self)

    def summary(self, width: int | None = None) -> str:
        """The table as text; `width` is the number of letters in a line of the terminal."""
        from ._describe_text import summary

        return summary(self, width)

    def printed(self) -> PrintedTable:
        from ._describe_text import groups, head, notes

        told = [*notes(self, paper=True), *lacking_in_paper(self.refused)]
        if self.n_sites > 1:
            told.insert(0, f"{plural(self.n_rows, 'row')} at {plural(self.n_sites, 'site')}.")
        return PrintedTable(head(self, self.table), groups(self, self.table, True), told)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        of = plural(len(self.plan.names), "column")
        return f"<DescribeResult of {plural(self.n_rows, 'row')}, {of}: print() shows the table>"

    def write(self, folder: Path) -> Iterator[Path]:
        """table1.csv, .tex and .md, the same of by_site if there is such a table, numbers.csv,
        patterns.csv, summary.txt; the report last."""
        from . import _describe_page, _describe_text

        folder.mkdir(parents=True, exist_ok=True)
        yield from _describe_text.write(self, folder)
        yield from self.write_printed(folder, "table1")
        if self.sites is not None:
            yield from _describe_text.BySite(self, self.sites).write_printed(folder, "by_site")
        yield _describe_page.write(self, folder / "report.html")


def conclude(
    plan: DescribePlan,
    cohort: Agreement,
    known: CellCounts,
    found: Found,
    history: list[dict[str, Any]],
    careful: np.ndarray,
) -> DescribeResult:
    shape = shape_of(plan, cohort)
    names = (*map(label, shape.groups), NO_GROUP) if shape.groups is not None else ()
    seen = visible(known, plan.least)
    told = CellTable(known, seen, names, found.mean, found.sd, found.quantiles)
    tables = [told, *filter(None, [_of_sites(plan, shape, found)])]
    drawn = histograms(found.edges, found.bins, plan.least, found.whole)
    shape, tables, kept = as_levels(shape, tables, found.flags)
    gone = masks([(each.known, each.seen) for each in tables], plan.least)
    table, *rest = (_section(shape, *each) for each in zip(tables, gone, strict=True))
    numbers = tuple(
        each._replace(histogram=drawn[j]) for each, j in zip(table.numbers, kept, strict=True)
    )
    return DescribeResult(
        plan,
        table._replace(numbers=numbers),
        rest[0] if rest else None,
        _pattern_table(plan, shape, tables[0].known, gone[0], found),
        int(known.n.sum()),
        len(cohort.sites),
        pd.DataFrame(history),
        (int(careful[0]), int(careful[1])),
    )


class CellTable(NamedTuple):
    """All that is known for one table."""

    known: CellCounts
    seen: Visible
    names: Sequence[str]  # of the cells that part the rows, if they are
    mean: np.ndarray  # numbers by cells, all rows last
    sd: np.ndarray
    quantiles: Mapping[tuple[int, int], list[Quantile | None]]


def _section(shape: Shape, told: CellTable, gone: Masks) -> Section:
    """Cells without any row are left out, and those that are hidden."""
    known, seen, names = told[:3]
    cells = [i for i in range(len(names)) if known.n[i] > 0 and not seen.groups[i]]
    places = [told.mean.shape[1] - 1, *cells]
    shown = lambda x, hidden: np.where(hidden, np.nan, x)

    def line(counts: np.ndarray, hidden: Hidden, i: int) -> np.ndarray:
        total = shown(counts[i].sum(), hidden.totals[i])
        own = [shown(counts[i, c], hidden.cells[i, c]) for c in cells]
        return np.array([total, *own], float)

    numbers, levels = [], []
    for j, name in enumerate(shape.numbers):
        both, hidden = np.stack([known.present[j], known.n - known.present[j]]), gone.missing[j]
        mean, sd = (shown(x[j], ~seen.open[j])[places] for x in (told.mean, told.sd))
        each = tuple(tuple(told.quantiles.get((j, c), ())) for c in places)
        present, missing = line(both, hidden, 0), line(both, hidden, 1)
        numbers.append(NumberSummary(name, present, missing, mean, sd, each))
    for name, each in shape.levels.items():
        counts = known.levels[name]
        lines = np.array([line(counts, gone.levels[name], i) for i in range(len(each) + 1)])
        own = counts[:-1].sum(0)
        present = np.array([own.sum(), *own[cells]], float)
        present[(present == 0) | np.isnan(lines[-1])] = np.nan  # a share would show the missing
        named, shares = tuple(map(label, each)), lines[:-1] / present
        levels.append(LevelSummary(name, named, lines[:-1], shares, lines[-1]))
    rows = np.array([known.n.sum(), *known.n[cells]], float)
    return Section((ALL, *(names[i] for i in cells)), rows, tuple(numbers), tuple(levels))


def _of_sites(plan: DescribePlan, shape: Shape, found: Found) -> CellTable | None:
    """Where every site sends its own numbers."""
    p, own, counted = len(shape.numbers), found.own, sum(len(v) + 1 for v in shape.levels.values())
    if not own or any(x.size != 1 + 3 * p + counted for x in own.values()):
        return None
    each = np.array(list(own.values()))
    sites = shape._replace(groups=tuple(own)[:-1])  # as many cells, and one more
    numbers = each[:, 1 : 1 + 3 * p].reshape(len(own), p, 3)
    known = CellCounts.of(each[:, 0], numbers[:, :, 0].T, each[:, 1 + 3 * p :].T, sites)
    mean = np.hstack([numbers[:, :, 1].T, found.mean[:, -1:]])
    sd = np.hstack([numbers[:, :, 2].T, found.sd[:, -1:]])
    mean[~shape.summed] = np.nan
    sd[(known.by_cell < 2) | ~shape.summed[:, None]] = np.nan
    return CellTable(known, visible(known, plan.least), tuple(own), mean, sd, {})


def _pattern_table(
    plan: DescribePlan, shape: Shape, known: CellCounts, gone: Masks, found: Found
) -> pd.DataFrame:
    """Which columns are missing together. Patterns that are not shown count as one."""
    columns = [shape.names[i] for i in found.pattern]
    bits = np.flatnonzero(found.patterns > 0)
    members = (bits[:, None] >> np.arange(len(columns))) & 1 == 1
    counts = found.patterns[bits].astype(np.int64)
    totals = dict(zip(shape.numbers, (h.totals[1] for h in gone.missing), strict=True))
    totals |= {name: h.totals[-1] for name, h in gone.levels.items()}
    hidden = np.array([totals[name] for name in columns], bool)
    gaps = known.gaps(shape)[found.pattern.astype(int)]
    unseen = hide_patterns(counts, members, gaps, hidden, plan.least)
    order = [i for i in np.lexsort((bits, -counts)) if not unseen[i]]
    told = [", ".join(c for c, m in zip(columns, members[i], strict=True) if m) for i in order]
    others = int(known.n.sum() - counts[order].sum()) if columns else 0  # sites hide some, too
    rest = [("(others)", others)] if others > 0 else []
    lines = [*zip([name or "(none)" for name in told], counts[order].tolist(), strict=True), *rest]
    return pd.DataFrame(lines, columns=["missing", "rows"])
