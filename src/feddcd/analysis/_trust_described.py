"""Whether what a site says for a description can be true: counts, sums and parts of ranges obey
inequalities, whatever the rows are. All of it holds for sums over sites, too, and for rows of which
a careful site left some out: they are changed first, and then counted."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from .._errors import DataError
from ._bins import MOST_DECIMALS, PARTS, value_of
from ._describe_plan import DescribePlan
from ._describe_rows import DescribeQuestion, shape_of
from ._trust_moments import MOST_ROWS
from .protocol import Agreement, Blocks, ColumnsOffer

SLACK = 1e-6  # of the size of a sum, for rounding
LAST_KEY = 0x7FEF_FFFF_FFFF_FFFF  # of the largest number
LARGEST = 1e150  # of a value: beyond it squares overflow


class SaidCounts(NamedTuple):
    """What a site said first, by cell; the last cell is all rows."""

    n: np.ndarray
    present: np.ndarray  # numbers by cells


class Ranges(NamedTuple):
    """Rows by part of a range."""

    first: int
    width: int
    counts: np.ndarray

    def covers(self, first: int, last: int) -> bool:
        return self.first <= first and last < self.first + PARTS * self.width

    def within(self, first: int, last: int) -> tuple[float, float]:
        """Rows of the parts that lie between two keys, and of those that touch them."""
        starts = [self.first + i * self.width for i in range(PARTS)]
        ends = [start + self.width - 1 for start in starts]
        inside = [first <= s and e <= last for s, e in zip(starts, ends, strict=True)]
        touched = [s <= last and first <= e for s, e in zip(starts, ends, strict=True)]
        return float(self.counts[inside].sum()), float(self.counts[touched].sum())


class DescriptionTrust:
    """All that sites said in one talk; `hear` refuses what cannot be true."""

    def __init__(
        self,
        plan: DescribePlan,
        cohort: Agreement,
        offers: Mapping[str, ColumnsOffer] | None = None,
    ):
        self.plan, self.sites, self.shape = plan, list(cohort.sites), shape_of(plan, cohort)
        self._counts: dict[str, SaidCounts] = {}
        self._sums: dict[str, tuple[DescribeQuestion, np.ndarray, np.ndarray]] = {}
        self._careful = False
        self._ranges: dict[tuple[str, int, int], list[Ranges]] = {}

    def hear(self, site: str, asked: DescribeQuestion, blocks: Blocks) -> None:
        """DataError where the answer of a site, or of all together, cannot be true."""
        said = {name: np.asarray(block.value, float) for name, block in blocks.items()}
        _check_sizes(asked, said)
        with np.errstate(all="ignore"):
            if asked.counts:
                self._hear_counts(site, said)
            elif site not in self._counts:
                raise DataError("the site did not send counts")
            known = self._counts[site]
            if asked.open.size:
                self._hear_sums(site, known, asked, said["s1"], said["s2"])
            if asked.first.size:
                self._hear_parts(site, known, asked, said["parts"])
            if asked.edges.size:
                self._check_bins(known, asked, said["bins"])
            if asked.pattern.size:
                self._check_patterns(known, asked, said["patterns"])

    def _hear_counts(self, site: str, said: Mapping[str, np.ndarray]) -> None:
        shape, many = self.shape, 1 if site in self.sites else len(self.sites)
        for name in ("n", "present", "levels", "few"):
            _check_counts(name, said[name])
        n, present = said["n"].ravel(), said["present"].reshape(-1, shape.parted)
        _refuse(n.sum() > MOST_ROWS * many, "the number of rows is too large")
        _refuse(bool((present > n).any()), "a column has more values than the site has rows")
        for name, levels in shape.split(said["levels"]).items():
            wrong = bool((levels.sum(0) != n).any())
            _refuse(
                wrong, f"the counts of the levels of {name!r} do not add up to the number of rows"
            )
        few = said["few"].ravel()
        _refuse(
            bool((few > many).any() or few[1] > few[0]),
            "the part 'few' (what the site does with rare values) has impossible numbers",
        )
        top, digits = said["top"].ravel(), said["digits"].ravel()
        _refuse(
            not ((top >= 0) & (top <= LARGEST)).all(),
            "the bound on the absolute values of a column is below 0 or too large",
        )
        powers = np.log2(np.maximum(digits, 1.0))
        whole = np.isinf(digits) | (np.abs(powers - np.rint(powers)) < SLACK)
        known = (digits >= 0) & (np.isinf(digits) | (powers < MOST_DECIMALS + SLACK))
        _refuse(
            not (whole & known).all(),
            f"a column has a number of decimals that is not from 0 to {MOST_DECIMALS}",
        )
        by_cell = lambda x: (
            x if shape.groups is None else np.append(x, x.sum(-1, keepdims=True), -1)
        )
        self._counts[site] = SaidCounts(by_cell(n), by_cell(present))
        self._careful |= bool(few[0])

    def _hear_sums(
        self, site: str, known: SaidCounts, asked: DescribeQuestion, s1: np.ndarray, s2: np.ndarray
    ) -> None:
        n, open, c = known.present, asked.open.astype(bool), asked.centre
        s1, s2 = s1.reshape(n.shape), s2.reshape(n.shape)
        unasked = bool(s1[~open].any() or s2[~open].any())
        _refuse(unasked, "the answer has a sum that the coordinator did not ask for")
        nobody = bool(s1[n == 0].any() or s2[n == 0].any())
        _refuse(nobody, "the answer has a sum for rows that have no value in this column")
        _refuse(bool((s2 < 0).any()), "a sum of squares of a column is below zero")
        scale = np.sqrt(n * s2) + SLACK * n * np.abs(c)
        _refuse(
            bool((np.abs(s1) > scale * (1 + SLACK)).any()),
            "the sum of a column is too large for its sum of squares",
        )
        about = s1 + n * c, s2 + 2 * c * s1 + n * c**2  # 0
        size = np.sqrt(n * np.maximum(about[1], s2)) + n * np.abs(c)
        for power, sums in enumerate(about, 1):
            room = SLACK * (size if power == 1 else about[1] + s2 + n * c**2)
            if self.shape.groups is not None:
                whole = (open[:, :-1] | (n[:, :-1] == 0)).all(1) & open[:, -1]
                apart = np.abs(sums[:, :-1].sum(1) - sums[:, -1])
                wrong = whole & (apart > room.sum(1))
                _refuse(
                    bool(wrong.any()),
                    "the sums of the groups do not add up to the sums of all rows",
                )
            if site in self._sums:
                apart = np.abs(sums - self._sums[site][power])
                _refuse(
                    bool((open & (apart > room)).any()),
                    "a sum of a column contradicts an earlier answer",
                )
        self._sums.setdefault(site, (asked, *about))

    def _hear_parts(
        self, site: str, known: SaidCounts, asked: DescribeQuestion, parts: np.ndarray
    ) -> None:
        _check_counts("parts", parts)
        each = zip(asked.column, asked.cell, asked.first, asked.width, strict=True)
        for (j, c, first, width), counts in zip(each, parts.reshape(-1, PARTS), strict=True):
            j, c, first, width = int(j), int(c), int(first), int(width)
            before = self._ranges.setdefault((site, j, c), [])
            rows = counts.sum()
            if not before:
                _refuse(
                    rows != known.present[j, c],
                    "a range was divided into parts, but the rows in the parts do not add "
                    "up to the rows in the range",
                )
                self._check_mean(site, j, c, Ranges(first, width, counts), int(asked.decimals[j]))
            last = first + PARTS * width - 1
            for wider in before:
                if wider.width > width and wider.covers(first, last):
                    least, most = wider.within(first, last)
                    _refuse(
                        not least <= rows <= most,
                        "a part of a range was divided again, but the rows in the smaller parts do "
                        "not add up to the rows in this part",
                    )
            before.append(Ranges(first, width, counts))

    def _check_mean(self, site: str, j: int, c: int, parts: Ranges, decimals: int) -> None:
        """The sum lies between those of the ends of all parts; a value beyond the range that was
        declared counts at its end."""
        if site not in self._sums or self.shape.numbers[j] in self.plan.ranges:
            return
        asked, s1, s2 = self._sums[site]
        if not asked.open[j, c]:
            return
        starts = [parts.first + i * parts.width for i in range(PARTS)]
        value = lambda key: value_of(max(min(key, LAST_KEY), -LAST_KEY), decimals)
        rows = parts.counts.sum()
        low, high = (
            float(np.sum([x * value(key) for x, key in zip(parts.counts, keys, strict=True) if x]))
            for keys in (starts, [start + parts.width - 1 for start in starts])
        )
        # careful sites join values, and round their means
        room = SLACK * (np.sqrt(rows * s2[j, c]) + 1) + (0.5 * rows if self._careful else 0.0)
        wrong = not low - room <= s1[j, c] <= high + room
        _refuse(bool(wrong), "the mean of a column contradicts the counts of rows in its ranges")

    def _check_bins(self, known: SaidCounts, asked: DescribeQuestion, bins: np.ndarray) -> None:
        _check_counts("bins", bins)
        sizes = asked.breaks.astype(int)
        ends = np.cumsum([size + 1 for size in sizes if size])
        each = np.split(bins.ravel(), ends[:-1])
        for j, bars in zip(np.flatnonzero(sizes), each, strict=True):
            wrong = bars.sum() != known.present[j, -1]
            _refuse(
                bool(wrong),
                "the rows in the bars of a histogram do not add up to the number of rows that have "
                "a value in this column",
            )

    def _present(self, known: SaidCounts, column: int) -> float:
        """Rows with a value; of categories, it is not looked at."""
        name = self.shape.names[column]
        at = self.shape.numbers
        return float(known.present[at.index(name), -1]) if name in at else 0.0

    def _check_patterns(self, known: SaidCounts, asked: DescribeQuestion, rows: np.ndarray) -> None:
        _check_counts("patterns", rows)
        _refuse(
            rows.sum() > known.n[-1],
            "the patterns of missing values count more rows than the site has",
        )
        for i, column in enumerate(asked.pattern.astype(int)):
            lacking = rows.ravel()[(np.arange(rows.size) >> i) & 1 == 1].sum()
            most = known.n[-1] - self._present(known, int(column))
            _refuse(
                lacking > most,
                "the patterns of missing values contradict the number of missing values in a "
                "column",
            )


def _check_sizes(asked: DescribeQuestion, said: Mapping[str, np.ndarray]) -> None:
    sizes = dict.fromkeys(("n", "present", "levels", "top", "digits", "few"))
    wanted = dict(sizes) if asked.counts else {}
    wanted |= {"s1": asked.open.size, "s2": asked.open.size} if asked.open.size else {}
    wanted |= {"parts": asked.first.size * PARTS} if asked.first.size else {}
    bars = int(np.sum(asked.breaks + (asked.breaks > 0)))
    wanted |= {"bins": bars} if asked.edges.size else {}
    wanted |= {"patterns": 1 << asked.pattern.size} if asked.pattern.size else {}
    for name, size in wanted.items():
        there = name in said and (size is None or said[name].size == size)
        _refuse(not there, f"the part {name!r} of the answer is missing or has a wrong shape")
    more = [name for name in said if name not in wanted and not (name == "own" and asked.own)]
    _refuse(
        bool(more),
        f"the answer has the part {(more or [''])[0]!r}, but the coordinator did not ask for "
        "this part",
    )


def _check_counts(name: str, x: np.ndarray) -> None:
    wrong = not ((x >= 0) & (x == np.rint(x)) & (x < 2**53)).all()
    _refuse(wrong, f"the numbers in {name!r} must be whole, at least 0, and below 2^53")


def _refuse(wrong: bool, told: str) -> None:
    if wrong:
        raise DataError(f"{told}")
