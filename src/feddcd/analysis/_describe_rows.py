"""What a site says of its rows for a description: counts, sums and parts of ranges, by cell.

A cell is a group, the rows without a group, or all rows, which is the last one.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._errors import DataError
from ..formula import levels_of
from ._bins import AS_BITS, PARTS, count_parts, decimals_of, keys_of
from ._cells import hide_patterns
from ._describe_plan import DescribePlan
from ._sums import round_up
from ._values import numbers_of
from .protocol import Agreement, Block, Count, Each, Kind, Max, Misfit, SiteRows, Sum

NONE = np.zeros(0)
KINDS: dict[str, Kind] = {  # of the parts of an answer: what is done with each
    "n": Count, "present": Count, "levels": Count, "top": partial(Max, grid=1),
    "digits": partial(Max, grid=1), "s1": Sum, "s2": Sum, "parts": Count, "bins": Count,
    "patterns": Count, "few": Count, "own": Each,
}  # fmt: skip
REVEALS = ("counts", "means", "parts", "values")


class Shape(NamedTuple):
    """What all sites agreed on, as the arrays have it."""

    names: tuple[str, ...]  # all columns, in the order of the plan
    numbers: tuple[str, ...]
    levels: dict[str, list]  # by category
    groups: tuple[Any, ...] | None  # the levels of the groups
    median: tuple[str, ...] = ()  # numbers of which no sum leaves

    @property
    def summed(self) -> np.ndarray:
        """By number: whether its sums may be asked for."""
        return np.array([name not in self.median for name in self.numbers], bool)

    @property
    def parted(self) -> int:
        """Cells that part the rows: the groups, and those without one."""
        return 1 if self.groups is None else len(self.groups) + 1

    @property
    def cells(self) -> int:
        return 1 if self.groups is None else self.parted + 1

    @property
    def counted(self) -> int:
        """Counts by level, missing ones included."""
        return sum(len(levels) + 1 for levels in self.levels.values()) * self.parted

    def split(self, counts: np.ndarray) -> dict[str, np.ndarray]:
        """By category: levels, with missing as the last, by group."""
        found, start = {}, 0
        flat = counts.ravel()
        for name, levels in self.levels.items():
            size = (len(levels) + 1) * self.parted
            found[name] = flat[start : start + size].reshape(-1, self.parted)
            start += size
        return found


def shape_of(plan: DescribePlan, cohort: Agreement) -> Shape:
    numbers = tuple(name for name in plan.names if name in (cohort.numbers or ()))
    levels = {name: list(cohort.levels[name]) for name in plan.names if name not in numbers}
    groups = None if plan.by is None else tuple(cohort.levels[plan.by])
    return Shape(tuple(plan.names), numbers, levels, groups, tuple(plan.median))


class DescribedRows(NamedTuple):
    """One site's rows: numbers with nan, codes of levels with -1 where a value is missing."""

    X: np.ndarray
    codes: np.ndarray
    group: np.ndarray  # the last number where it is missing
    shape: Shape
    near: np.ndarray | None = None  # numbers as quantiles and histograms take them, if not X
    k: int = 0  # no number may speak of fewer rows
    few: bool = False  # whether rows were left out for it, or count as missing
    kept: np.ndarray | None = None  # which of the site's rows these are; None: all of them

    @property
    def placed(self) -> np.ndarray:
        return self.X if self.near is None else self.near

    @property
    def cells(self) -> Iterator[np.ndarray]:
        """The rows of each cell."""
        if self.shape.groups is not None:
            yield from (self.group == g for g in range(self.shape.parted))
        yield np.ones(len(self.group), bool)

    @property
    def missing(self) -> np.ndarray:
        """By row and column of the plan."""
        at = {name: np.isnan(self.X[:, j]) for j, name in enumerate(self.shape.numbers)}
        at |= {name: self.codes[:, j] < 0 for j, name in enumerate(self.shape.levels)}
        return np.array([at[name] for name in self.shape.names]).T


class DescribeQuestion(NamedTuple):
    """To all sites alike. What is empty is not asked for."""

    counts: bool = False
    open: np.ndarray = NONE  # numbers by cells: whether sums are asked for
    centre: np.ndarray = NONE  # about which
    decimals: np.ndarray = NONE  # by number, or AS_BITS
    column: np.ndarray = NONE  # of ranges that are counted in parts: the number, ...
    cell: np.ndarray = NONE
    first: np.ndarray = NONE  # ... and keys
    width: np.ndarray = NONE
    exact: bool = False  # parts of few rows may be opened
    edges: np.ndarray = NONE  # of histograms, one after the other
    breaks: np.ndarray = NONE  # how many of them, by number
    pattern: np.ndarray = NONE  # columns with missing values that are counted together
    own: bool = False  # asks for the site's own numbers, too

    @property
    def asks(self) -> bool:
        """Whether there is anything to answer."""
        sizes = (self.open, self.first, self.edges, self.pattern)
        return self.counts or self.own or any(part.size for part in sizes)

    @property
    def reveals(self) -> str:
        """The kind that reveals most."""
        if self.exact and self.first.size:
            return "values"
        return "parts" if self.first.size else "means" if self.open.any() else "counts"

    @property
    def parameters(self) -> int:
        """Sums of values and ranges; counts are guarded by their size."""
        return int(self.open.sum()) + int(self.first.size)


def rows_of(frame: pd.DataFrame, plan: DescribePlan, shape: Shape) -> DescribedRows:
    X = [_numbers(frame[name], name) for name in shape.numbers]  # pyright: ignore
    codes = [_codes(frame, name, levels) for name, levels in shape.levels.items()]
    n, group = len(frame), np.zeros(len(frame), int)
    if plan.by is not None and shape.groups is not None:
        group = _codes(frame, plan.by, shape.groups)
        group = np.where(group < 0, len(shape.groups), group)
    X = np.array(X, float).reshape(len(X), n).T
    return DescribedRows(X, np.array(codes, int).reshape(len(codes), n).T, group, shape)


def _numbers(values: pd.Series, name: str) -> np.ndarray:
    x = numbers_of(values, name)
    bad = np.flatnonzero(np.isinf(x))
    if len(bad):
        told = f"the value of {name!r} is {x[bad[0]]} <row>, but must be finite or missing"
        raise DataError(told, row=int(bad[0]), column=name, value=x[bad[0]])
    return x


def _codes(frame: pd.DataFrame, name: str, levels: Sequence[Any]) -> np.ndarray:
    values: pd.Series = frame[name]  # pyright: ignore
    if not set(levels_of(values)) <= set(levels):
        raise Misfit(
            f"the site's column {name!r} has a level that is not among the levels that the sites "
            "agreed on"
        )
    found = pd.Index(list(levels), dtype=object).get_indexer(values.astype(object))
    return np.asarray(found)


@np.errstate(all="ignore")  # who adds up sees what is not finite
def answer(rows: SiteRows, asked: DescribeQuestion) -> dict[str, Block]:
    data: DescribedRows = rows.data
    found = _counts(data, {*rows.plan.ranges}) if asked.counts else {}
    if asked.open.size:
        found |= _sums(data, asked)
    if asked.first.size:
        found["parts"] = _parts(data, asked, rows.plan.ranges)
    if asked.edges.size:
        found["bins"] = _histograms(data, asked)
    if asked.pattern.size:
        found["patterns"] = _patterns(data, asked.pattern.astype(int))
    if asked.own:
        found["own"] = own_numbers(data) if rows.alone else NONE
    return {name: KINDS[name](np.asarray(part, float)) for name, part in found.items()}


def _counts(data: DescribedRows, ranged: set[str]) -> dict[str, np.ndarray]:
    shape = data.shape
    by_group = lambda rows: np.bincount(data.group[rows], minlength=shape.parted)
    there = ~np.isnan(data.X)
    levels = [
        by_group(data.codes[:, j] == code)
        for j, each in enumerate(shape.levels.values())
        for code in (*range(len(each)), -1)
    ]
    each = [(name, data.placed[there[:, j], j]) for j, name in enumerate(shape.numbers)]
    top = [0.0 if name in ranged else np.abs(x).max(initial=0) for name, x in each]
    return {
        "n": by_group(slice(None)),
        "present": np.array([by_group(rows) for rows in there.T]).reshape(-1, shape.parted),
        "levels": np.array(levels).ravel(),
        "top": np.array([round_up(float(x), 1) for x in top]),
        "digits": np.array([2.0 ** decimals_of(x) if len(x) else 0.0 for _, x in each]),
        "few": np.array([data.k > 1, data.few]),
    }


def _sums(data: DescribedRows, asked: DescribeQuestion) -> dict[str, np.ndarray]:
    parts = [part for _, part in deviations(data, asked)]
    powers = lambda k: np.array([[np.sum(d**k) for d in part] for part in parts])
    return {"s1": powers(1), "s2": powers(2)}


def deviations(
    data: DescribedRows, asked: DescribeQuestion
) -> Iterator[tuple[str, list[np.ndarray]]]:
    """By number: the values less the centre of each cell that is asked for."""
    cells = list(data.cells)
    for j, name in enumerate(data.shape.numbers):
        x, there = data.X[:, j], ~np.isnan(data.X[:, j])
        yield (
            name,
            [
                x[rows & there] - asked.centre[j, c] if asked.open[j, c] else NONE
                for c, rows in enumerate(cells)
            ],
        )


def _parts(
    data: DescribedRows, asked: DescribeQuestion, ranges: Mapping[str, tuple[float, float]]
) -> np.ndarray:
    """A value beyond the range of its column counts at the end of it."""
    cells, found, keys = list(data.cells), [], {}
    for j, c, first, width in zip(asked.column, asked.cell, asked.first, asked.width, strict=True):
        if (j, c) not in keys:
            low, high = ranges.get(data.shape.numbers[j], (-np.inf, np.inf))
            x = np.clip(data.placed[cells[c], j], low, high)
            keys[j, c] = np.sort(keys_of(x[~np.isnan(x)], int(asked.decimals[j])))
        own = keys[j, c]
        last = min(int(first) + PARTS * int(width) - 1, 2**63 - 1)
        inside = own[np.searchsorted(own, first) : np.searchsorted(own, last, side="right")]
        found.append(count_parts(inside, int(first), int(width)))
    return np.array(found)


def _histograms(data: DescribedRows, asked: DescribeQuestion) -> np.ndarray:
    """Rows below the first edge, between edges, from the last on."""
    found, start = [], 0
    for j, size in enumerate(asked.breaks.astype(int)):
        if not size:
            continue
        edges, x = asked.edges[start : start + size], data.placed[:, j]
        place = np.searchsorted(edges, x[~np.isnan(x)], side="right")
        found.append(np.bincount(place, minlength=size + 1))
        start += size
    return np.concatenate(found) if found else NONE


def _patterns(data: DescribedRows, columns: np.ndarray) -> np.ndarray:
    """Patterns of few rows do not leave, nor those from which one would follow."""
    lacking = data.missing[:, columns]
    rows = np.bincount(lacking @ (1 << np.arange(len(columns))), minlength=1 << len(columns))
    bits = np.flatnonzero(rows)
    members = (bits[:, None] >> np.arange(len(columns))) & 1 == 1
    known = np.zeros(len(columns), bool)
    rows[bits[hide_patterns(rows[bits], members, lacking.sum(0), known, data.k)]] = 0
    return rows


def own_numbers(data: DescribedRows) -> np.ndarray:
    """Rows; by number rows, mean and SD; counts by level."""
    numbers = []
    for x, summed in zip(data.X.T, data.shape.summed, strict=True):
        x = x[~np.isnan(x)]
        sd = float(np.std(x, ddof=1)) if len(x) > 1 and summed else 0.0
        numbers += [float(len(x)), float(x.mean()) if len(x) and summed else 0.0, sd]
    levels = [
        float(np.sum(data.codes[:, j] == code))
        for j, each in enumerate(data.shape.levels.values())
        for code in (*range(len(each)), -1)
    ]
    return np.array([float(len(data.group)), *numbers, *levels])


def stand_in(shape: Shape) -> DescribedRows:
    """A row of nobody."""
    X, codes = np.zeros((1, len(shape.numbers))), np.zeros((1, len(shape.levels)), int)
    return DescribedRows(X, codes, np.zeros(1, int), shape)


def decimals_from(digits: np.ndarray) -> np.ndarray:
    """From the largest 2^decimals of all sites, or inf."""
    exact = np.log2(np.maximum(digits, 1.0), where=np.isfinite(digits), out=np.zeros(len(digits)))
    return np.where(np.isfinite(digits), np.rint(exact), AS_BITS).astype(np.int32)
