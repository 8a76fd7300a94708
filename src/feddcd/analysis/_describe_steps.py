"""The exchanges of a description: questions to all sites, and what follows from their sums."""

from collections.abc import Generator, Mapping
from typing import Any, NamedTuple

import numpy as np

from .._errors import DataError
from ._bins import (
    AS_BITS,
    PARTS,
    WHOLE,
    Quantile,
    Search,
    between,
    ranks,
    refine,
    whole_range,
)
from ._describe_plan import DescribePlan
from ._describe_rows import NONE, DescribeQuestion, Shape, decimals_from
from .protocol import Blocks, ColumnsOffer, Max, Watch, arrays

MOST_PATTERNS = 8  # columns with missing values that are looked at together
Cell = tuple[int, int]  # a number and a cell, by their places


class PooledAnswers(NamedTuple):
    """The answers of all sites to one question."""

    answers: Mapping[str, Blocks]

    def of(self, name: str) -> np.ndarray:
        """Of a part that was not asked for, nothing."""
        blocks = [each[name] for each in self.answers.values() if name in each]
        if not blocks:
            return NONE
        pool = np.max if isinstance(blocks[0], Max) else np.sum
        return pool([np.ravel(block.value) for block in blocks], axis=0)


class Line:
    """Asks until every site has answered, and notes what it took."""

    def __init__(self, sites: list[str], watch: Watch, behind: int = 1):
        """`behind` are the sites with answers that come as one sum."""
        self.sites, self.watch, self.behind = sites, watch, behind
        self.rows: list[dict[str, Any]] = []

    def ask(
        self, question: DescribeQuestion
    ) -> Generator[Mapping[str, DescribeQuestion], Mapping[str, Blocks], PooledAnswers]:
        answers: dict[str, Blocks] = {}
        if not question.asks:
            return PooledAnswers(answers)
        while missing := [site for site in self.sites if site not in answers]:
            got = yield dict.fromkeys(missing, question)
            for site, blocks in got.items():
                _check_sizes(site, blocks, question)
            answers |= got
            self._note(question, len(missing) * self.behind, got)
        return PooledAnswers({site: answers[site] for site in self.sites})

    def _note(self, question: DescribeQuestion, asked: int, got: Mapping[str, Blocks]) -> None:
        before = self.rows[-1] if self.rows else {"uploads": 0, "bytes_up": 0, "bytes_down": 0}
        size = lambda parts: sum(array.nbytes for array in arrays(parts).values())
        answered = len(got) * self.behind
        row = {
            "exchange": len(self.rows) + 1,
            "asked": asked,
            "answered": answered,
            "uploads": before["uploads"] + answered,
            "bytes_up": before["bytes_up"] + sum(map(size, got.values())) * self.behind,
            "bytes_down": before["bytes_down"] + asked * size(question),
        }
        self.rows.append(row)
        self.watch(row | {"certified_error": np.nan})


def _check_sizes(site: str, blocks: Blocks, asked: DescribeQuestion) -> None:
    """Sums need equal shapes; a part that nobody asked for is not looked at."""
    sizes = {"n": 0, "present": 0, "levels": 0, "top": 0, "digits": 0, "few": 2}
    sizes = sizes if asked.counts else {}
    if asked.open.size:
        sizes |= {"s1": asked.open.size, "s2": asked.open.size}
    if asked.first.size:
        sizes["parts"] = asked.first.size * PARTS
    if asked.edges.size:
        sizes["bins"] = int(np.sum(asked.breaks + (asked.breaks > 0)))
    if asked.pattern.size:
        sizes["patterns"] = 1 << asked.pattern.size
    for name, size in sizes.items():
        if name not in blocks or (size and blocks[name].value.size != size):
            raise DataError(
                f"{site}: the part {name!r} of the answer is missing or has a wrong shape"
            )


class Searches:
    """Of all quantiles at once: each exchange counts every range that is left in 256 parts."""

    def __init__(
        self,
        plan: DescribePlan,
        shape: Shape,
        rows: np.ndarray,
        open: np.ndarray,
        first: PooledAnswers,
    ):
        """`rows` and `open` are numbers by cells."""
        self.exact = plan.quantiles == "exact"
        self.least = 0 if self.exact else plan.least
        ends = self._ends(plan, shape, first)
        self.wanted: dict[Cell, list[tuple[int, int, float] | None]] = {}
        self.searches: dict[Cell, dict[int, Search]] = {}
        shares = plan.shares if plan.quantiles != "none" else []
        for j in range(len(shape.numbers)):
            for c in np.flatnonzero(open[j]):
                n = int(rows[j, c])
                each = [ranks(n, share) for share in shares]
                kept = [r if _guarded(r, n, plan.least) else None for r in each]
                places = {rank for r in kept if r is not None for rank in r[:2]}
                self.wanted[j, int(c)] = kept
                start = {
                    rank: Search(rank, *ends[j], 0, n, ends[j][0] == ends[j][1]) for rank in places
                }
                self.searches[j, int(c)] = start

    def _ends(
        self, plan: DescribePlan, shape: Shape, first: PooledAnswers
    ) -> list[tuple[int, int]]:
        """The first and last key by number. Sites' sizes and decimals are their own: where both
        together are no whole number of a double, the keys are its bits."""
        top, self.decimals = first.of("top"), decimals_from(first.of("digits"))
        found = []
        for j, name in enumerate(shape.numbers):
            low, high = plan.ranges.get(name, (-float(top[j]), float(top[j])))
            if max(abs(low), abs(high)) * 10.0 ** self.decimals[j] >= WHOLE:
                self.decimals[j] = AS_BITS
            found.append(whole_range(low, high, int(self.decimals[j])))
        return found

    def pending(self) -> list[tuple[int, int, int, int]]:
        """The ranges that are asked for next: number, cell, first key, width of a part."""
        left = {
            (j, c, s.first, s.width)
            for (j, c), each in self.searches.items()
            for s in each.values()
            if not s.done
        }
        return sorted(left)

    def into(self, question: DescribeQuestion) -> DescribeQuestion:
        """The question with these ranges."""
        if not (ranges := self.pending()):
            return question
        column, cell, first, width = (np.array(x, np.int64) for x in zip(*ranges, strict=True))
        return question._replace(
            decimals=self.decimals, column=column, cell=cell, first=first, width=width,
            exact=self.exact,
        )  # fmt: skip

    def learn(self, answer: PooledAnswers) -> None:
        if not (ranges := self.pending()):
            return
        counts = answer.of("parts").reshape(len(ranges), PARTS).astype(np.int64)
        by_range = dict(zip(ranges, counts, strict=True))
        for (j, c), each in self.searches.items():
            for rank, s in each.items():
                if not s.done:
                    each[rank] = refine(s, by_range[j, c, s.first, s.width], self.least)

    def found(self) -> dict[Cell, list[Quantile | None]]:
        return {
            (j, c): [
                None
                if r is None
                else between(
                    self.searches[j, c][r[0]],
                    self.searches[j, c][r[1]],
                    r[2],
                    int(self.decimals[j]),
                )
                for r in wanted
            ]
            for (j, c), wanted in self.wanted.items()
        }


def _guarded(place: tuple[int, int, float], n: int, least: int) -> bool:
    """Whether enough rows lie on either side of a quantile."""
    low, high, _ = place
    return least <= 1 or (low >= least and n - 1 - high >= least)


def patterns_of(gaps: np.ndarray) -> np.ndarray:
    """The columns with most missing values, in their order."""
    most = np.sort(np.argsort(-gaps, kind="stable")[:MOST_PATTERNS])
    return np.array([i for i in most if gaps[i] > 0], np.int32)


def misfit(offer: ColumnsOffer, numbers: list[str], plan: DescribePlan) -> str:
    for name in plan.used:
        if name not in (offer.columns or ()):
            return f"this site has no column {name!r}, but most sites have this column"
        if name not in plan.as_levels and (name in offer.numbers) != (name in numbers):
            own, others = ("numbers", "categories")[:: 1 if name in offer.numbers else -1]
            return (
                f"the site's column {name!r} contains {own}, but most sites have {others} in this "
                "column"
            )
    for name, declared in plan.levels.items():
        if not set(offer.levels.get(name, ())) <= set(declared):
            return f"the site's column {name!r} has a level that the plan does not list"
    return ""
