"""Table 1: rows, missing values, means, counts by level, quantiles and histograms, of sums alone.

    1  counts: rows by group, missing values, levels; how large numbers are, how many decimals
    2  sums about 0, patterns of missing values, and all ranges in 256 parts
    3  sums about the means, histograms, and the part that holds each quantile in 256 parts again
    4  ... until each quantile is known

Sums and ranges are asked for where enough rows are, and nowhere else.
"""

from collections.abc import Generator, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from .._errors import DataError, Refused
from ..formula import MOST_LEVELS, kinds_of, sorted_levels
from ._bars import edges_of
from ._describe_few import guarded
from ._describe_plan import DescribePlan, with_codebook
from ._describe_rows import (
    KINDS,
    NONE,
    DescribedRows,
    DescribeQuestion,
    answer,
    deviations,
    rows_of,
    shape_of,
    stand_in,
)
from ._describe_steps import MOST_PATTERNS, Line, Searches, misfit, patterns_of
from ._description import CellCounts, Found, conclude, visible
from ._values import check_mixed, check_spelling, whole_rows
from ._zero_one import zero_one
from .protocol import (
    AGREED,
    ALL,
    Agreement,
    Arrays,
    Blocks,
    ColumnsOffer,
    Misfit,
    Offered,
    SiteRows,
    Watch,
    counts,
    tag,
)
from .table import as_frame

CLOSE = 1e-9  # of a mean, by which questions of two machines may differ
Talk = Generator[Mapping[str, DescribeQuestion], Mapping[str, Blocks], Any]


class Describe:
    name = part = method = "describe"
    proven = "numbers.csv"
    # what is made of single sites' blocks, and has to do without where only sums are known
    site_by_site: Mapping[str, tuple[str, ...]] = {"the numbers of single sites": ("own",)}

    plan = staticmethod(DescribePlan.from_dict)
    with_codebook = staticmethod(with_codebook)

    def columns(self, plan: DescribePlan, names: Any) -> tuple[str, ...]:
        for name in plan.entering:
            if name not in names:
                raise Misfit(f"there is no column {name!r}")
        return tuple(name for name in names if name in plan.entering)

    def offer(self, table: pd.DataFrame, plan: DescribePlan) -> Offered:
        """Kinds and levels. Nobody hears of levels that were declared."""
        frame = whole_rows(as_frame(table, need_names=True), plan.complete)[0]
        used = tuple(c for c in self.columns(plan, list(frame.columns)) if c in plan.used)
        check_mixed(frame, used)
        kinds = kinds_of(frame, used, plan.as_levels)
        levels = {name: list(kind.levels) for name, kind in kinds.items() if kind.levels}
        if words := [name for name in plan.median if not kinds[name].number]:
            raise Misfit(
                f"the column {words[0]!r} contains words, so it has no median: remove this column "
                "from the setting median of the job"
            )
        for name, found in levels.items():
            if len(found) > MOST_LEVELS:
                raise Misfit(
                    f"the site's column {name!r} has more than {MOST_LEVELS:,} different values, "
                    "which are too many for a category"
                )
        numbers = [name for name, kind in kinds.items() if kind.number]
        told = {name: counts(frame[name]) for name in levels if name not in plan.levels}
        return Offered(ColumnsOffer(levels, numbers, None, list(used)), {}, told)

    def agree(
        self, offers: Mapping[str, ColumnsOffer], plan: DescribePlan
    ) -> tuple[Agreement, dict[str, str]]:
        """The union of levels, and why some sites do not fit."""
        asked = [name for name in plan.used if name not in plan.as_levels]
        most = lambda name: 2 * sum(name in o.numbers for o in offers.values()) >= len(offers)
        numbers = [name for name in asked if most(name)]
        refused = {
            site: f"{site}: {why}"
            for site, o in offers.items()
            if (why := misfit(o, numbers, plan))
        }
        fitting = {site: o for site, o in offers.items() if site not in refused}
        levels = {}
        for name in (name for name in plan.used if name not in numbers):
            found = sorted_levels({v for o in fitting.values() for v in o.levels.get(name, ())})
            levels[name] = plan.levels.get(name) or found
            check_spelling(name, levels[name])
        return Agreement(
            levels, None, plan.names, list(fitting), numbers, columns=plan.used
        ), refused

    def agreement(self, values: Any, plan: DescribePlan) -> Agreement:
        """From a message: names of columns are the plan's, and declared levels, too."""
        lists = ("sites", "numbers")
        if not isinstance(values, dict) or not {"levels", *lists} <= set(values):
            raise DataError(f"{AGREED} has missing parts")
        words = lambda v, *kinds: isinstance(v, list) and all(isinstance(x, kinds) for x in v)
        levels = values["levels"]
        fits = all(words(values[name], str) for name in lists) and isinstance(levels, dict)
        if not fits or not all(words(v, str, int, float) for v in levels.values()):
            raise DataError(f"{AGREED} has parts that are not lists of names")
        numbers = [name for name in plan.used if name not in levels]
        wrong = {*levels} - {*plan.used} or plan.as_levels - {*levels}
        wrong |= {name for name in plan.levels if levels.get(name) != list(plan.levels[name])}
        if wrong or numbers != values["numbers"] or len({*values["sites"]}) < len(values["sites"]):
            raise DataError(f"{AGREED} does not have the same columns as the plan")
        sites = values["sites"]
        return Agreement(levels, None, plan.names, sites, numbers, columns=plan.used)

    def rows(
        self, table: pd.DataFrame, plan: DescribePlan, cohort: Agreement, site: str
    ) -> SiteRows:
        whole = as_frame(table, need_names=True)
        frame, places = whole_rows(whole, plan.complete)
        data = rows_of(frame, plan, shape_of(plan, cohort))
        levels = {name: counts(frame[name]) for name in cohort.levels}
        used = self.columns(plan, list(frame.columns))
        left = len(whole) - len(frame)
        return SiteRows(plan, data, len(frame), left, columns=used, levels=levels, places=places)

    def guarded(self, rows: SiteRows, k: int) -> SiteRows:
        """Small levels are no reason to refuse then: their counts do not leave."""
        if k < 2:
            return rows
        data = guarded(rows.data, k)
        return rows._replace(data=data, n=len(data.group), levels={})

    def stand_in(self, plan: DescribePlan, cohort: Agreement) -> SiteRows:
        return SiteRows(plan, stand_in(shape_of(plan, cohort)), 1, columns=tuple(plan.used))

    def question(self, arrays: Arrays, rows: SiteRows) -> DescribeQuestion:
        """Refused where its arrays do not fit this site's rows."""
        data, at = rows.data, {name: np.asarray(arrays[name]) for name in DescribeQuestion._fields}
        p, cells, m = data.X.shape[1], data.shape.cells, at["first"].size
        shapes = {"counts": [()], "exact": [()], "own": [()], "open": [(0,), (p, cells)]}
        shapes |= {"centre": [at["open"].shape], "decimals": [(0,), (p,)], "breaks": [(0,), (p,)]}
        shapes |= {name: [(m,)] for name in ("column", "cell", "first", "width")}
        for name, known in shapes.items():
            if at[name].shape not in known:
                raise Refused(
                    f"the part {name!r} of the question has a wrong shape, {at[name].shape}"
                )
        within = lambda x, most: x.size == 0 or (x.min() >= 0 and x.max() < most)
        fits = within(at["column"], p) and within(at["cell"], cells)
        fits &= within(at["pattern"], len(data.shape.names)) and at["pattern"].size <= MOST_PATTERNS
        fits &= at["edges"].size == at["breaks"].sum() and bool(np.all(at["width"] > 0))
        fits &= not m or at["decimals"].size == p
        alone = ~data.shape.summed  # no sum of these may leave
        fits &= not any(at[name][alone].any() for name in ("open", "breaks") if at[name].size)
        if not fits or (at["exact"] and rows.plan.quantiles != "exact"):
            raise Refused("the coordinator's question contradicts the plan")
        given: dict[str, Any] = dict(at)
        given |= {name: bool(at[name]) for name in ("counts", "exact", "own")}
        return DescribeQuestion(**given)

    def answer(self, rows: SiteRows, question: DescribeQuestion) -> Blocks:
        if rows.plan.least < rows.least <= rows.n:
            raise Refused(
                f"the description shows cells with only {rows.plan.least} rows (least = "
                f"{rows.plan.least}), but the policy of this site allows only larger cells. Give "
                "the setting 'least' a larger value"
            )
        return answer(rows, question)

    def columns_of(self, rows: SiteRows) -> dict[str, np.ndarray]:
        """The numbers that enter sums; levels are counted, and small counts are not shown. A
        missing value is put down as the most frequent one: it differs from nothing."""
        data: DescribedRows = rows.data
        each = zip(data.shape.numbers, data.X.T, data.shape.summed, strict=True)
        return {name: np.where(np.isnan(x), _usual(x), x) for name, x, summed in each if summed}

    def contributions(
        self, rows: SiteRows, question: DescribeQuestion
    ) -> Iterator[tuple[str, np.ndarray]]:
        """By sum over all rows: what each row adds to it, without its sign."""
        if not question.open.size:
            return
        for name, cells in deviations(rows.data, question):
            d = np.abs(cells[-1])[:, None]
            yield f"the sum and the sum of squares of {name}", np.hstack([d, d**2])

    def definite(self, question: DescribeQuestion) -> bool:
        """A question has no matrix."""
        return True

    def matches(self, own: DescribeQuestion, asked: DescribeQuestion) -> str:
        """Why a question is not the one that was expected, or nothing. All is compared exactly,
        but for centres and edges, which may differ by 1e-9 of their size."""
        for name in DescribeQuestion._fields:
            a, b = (np.asarray(getattr(q, name)) for q in (own, asked))
            close = CLOSE if name in ("centre", "edges") else 0.0
            if a.shape != b.shape or not np.allclose(a, b, rtol=close, atol=0.0):
                return f"the part {name!r} of the question disagrees with the sums"
        return ""

    def blocks(self, arrays: Arrays, plan: DescribePlan, cohort: Agreement) -> Blocks:
        shape = shape_of(plan, cohort)
        p, cells = len(shape.numbers), shape.cells
        sizes = {"n": shape.parted, "present": p * shape.parted, "levels": shape.counted}
        sizes |= {"top": p, "digits": p, "s1": p * cells, "s2": p * cells, "few": 2}
        unknown = [name for name in arrays if name not in KINDS]
        if unknown:
            raise DataError(f"the answer has an unknown part {unknown[0][:50]!r}")
        found = tag(arrays, KINDS, {k: v for k, v in sizes.items() if k in arrays})
        for name, block in found.items():
            if KINDS[name] is KINDS["n"]:
                whole = (block.value >= 0) & (block.value == np.rint(block.value))
                if not (whole & (block.value < 2**53)).all():
                    raise DataError(f"the numbers in {name!r} must be whole, and not below 0")
        return found

    def talk(
        self,
        plan: DescribePlan,
        cohort: Agreement,
        watch: Watch = lambda row: None,
        *,
        summed: bool = False,
    ) -> Talk:
        sites, shape = list(cohort.sites), shape_of(plan, cohort)
        line = Line([ALL], watch, len(sites)) if summed else Line(sites, watch)
        first = yield from line.ask(DescribeQuestion(counts=True))
        known = CellCounts.of(first.of("n"), first.of("present"), first.of("levels"), shape)
        seen = visible(known, plan.least)
        search = Searches(plan, shape, known.by_cell, seen.open, first)
        pattern = patterns_of(known.gaps(shape))
        moments = shape.summed[:, None]
        about = DescribeQuestion(open=seen.open & moments, centre=np.zeros(seen.open.shape))
        asked = search.into(about)._replace(pattern=pattern, own=plan.by_site)
        second = yield from line.ask(asked)
        search.learn(second)
        rows = np.maximum(known.by_cell, 1)
        sums, powers = (second.of(name).reshape(rows.shape) for name in ("s1", "s2"))
        mean, squares = sums / rows, powers / rows
        spread = _deviation(squares, mean)[:, -1]
        edges = [
            edges_of(m, sd, int(d)) if open else NONE
            for m, sd, d, open in zip(
                mean[:, -1], spread, search.decimals, about.open[:, -1], strict=True
            )
        ]
        breaks = np.array([e.size for e in edges], np.int32)
        drawn = about._replace(centre=mean, edges=np.concatenate([NONE, *edges]), breaks=breaks)
        third = yield from line.ask(search.into(drawn))
        search.learn(third)
        while search.pending():
            search.learn((yield from line.ask(search.into(DescribeQuestion()))))
        s1, s2 = (third.of(name).reshape(rows.shape) for name in ("s1", "s2"))
        sd = _deviation(s2 / rows, s1 / rows) * np.sqrt(rows / np.maximum(rows - 1, 1))
        each = second.answers if plan.by_site else {}
        found = Found(
            mean=np.where(moments, mean + s1 / rows, np.nan),
            sd=np.where((rows > 1) & moments, sd, np.nan),
            quantiles=search.found(),
            edges=edges,
            bins=third.of("bins") if drawn.edges.size else NONE,
            whole=[d == 0 for d in search.decimals.tolist()],
            pattern=pattern,
            patterns=second.of("patterns") if pattern.size else NONE,
            own={site: blocks["own"].value for site, blocks in each.items() if "own" in blocks},
            flags=zero_one(sums, powers, rows, search.decimals),
        )
        return conclude(plan, cohort, known, found, line.rows, first.of("few"))


@np.errstate(all="ignore")
def _deviation(squares: np.ndarray, mean: np.ndarray) -> np.ndarray:
    """From means of squares and of values about one centre."""
    return np.sqrt(np.maximum(squares - mean**2, 0))


def _usual(x: np.ndarray) -> float:
    """The most frequent value that is there."""
    values, rows = np.unique(x[~np.isnan(x)], return_counts=True)
    return float(values[rows.argmax()]) if len(values) else 0.0
