"""The settings of a description, as a job file and [describe] of federation.toml hold them."""

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

from .._errors import SpecError
from .._settings import check_names
from .._text import listed
from ..data.codebook import Codebook, read_codebook
from .plan import check_whole, is_real

QUANTILES = ("rounded", "exact", "none")
QUARTILES = (0.25, 0.5, 0.75)
AS_LEVELS = re.compile(r"(?:C|factor)\((.+)\)")
MOST_COLUMNS = 500


@dataclass(frozen=True)
class DescribePlan:
    """`columns` are names, or C(name) for numbers that are to be counted as levels. The defaults
    are careful ones, for a federation; in one process `describe` has its own."""

    analysis: ClassVar[str] = "describe"

    columns: list[str]
    by: str | None = None  # the column of groups
    least: int = 5  # rows of a cell, below which it is not shown
    quantiles: str = "rounded"
    shares: list[float] = field(default_factory=lambda: list(QUARTILES))  # of which quantiles
    by_site: bool = False  # asks each site for its own numbers
    answers: str | None = None  # sum: masked, so that only sums over sites are known; or each
    levels: dict[str, list] = field(default_factory=dict)
    complete: list[str] = field(default_factory=list)  # only rows with a value in these columns
    median: list[str] = field(default_factory=list)  # numbers without mean and SD: quantiles alone
    codebook: dict[str, Any] = field(default_factory=dict)

    @staticmethod
    def from_dict(values: Any) -> "DescribePlan":
        if not isinstance(values, dict):
            raise SpecError(f"describe: the settings must be a table, got {values!s:.80}")
        values = {name: value for name, value in values.items() if name != "analysis"}
        check_names(values, [f.name for f in dataclasses.fields(DescribePlan)], "describe")
        if "columns" not in values:
            raise SpecError(
                "describe: the columns are missing; write for example: columns = "
                "['age', 'C(grade)']"
            )
        if values.get("codebook"):
            values["codebook"] = read_codebook(values["codebook"], "describe: codebook").to_dict()
        return DescribePlan(**values)

    def __post_init__(self):
        _check_columns(self.columns, self.by)
        if self.quantiles not in QUANTILES:
            raise SpecError(
                f"the setting 'quantiles' must be one of {listed(QUANTILES)}; got "
                f"{self.quantiles!r}"
            )
        check_whole("least", self.least, 0)
        _check_shares(self.shares)
        if not isinstance(self.by_site, bool):
            raise SpecError(f"describe: by_site must be true or false, got {self.by_site!r}")
        if self.answers not in (None, "sum", "each"):
            raise SpecError(f"the setting 'answers' must be 'sum' or 'each'; got {self.answers!r}")
        if self.by_site and self.answers == "sum":
            raise SpecError(
                "by_site = true asks for the numbers of each site, so answers must be 'each'"
            )
        if self.by_site:
            object.__setattr__(self, "answers", "each")
        _check_levels(self.levels)
        if not isinstance(self.complete, list) or not all(
            isinstance(name, str) for name in self.complete
        ):
            raise SpecError(
                "describe: complete must be a list of columns, for example complete = ['crp']"
            )
        _check_median(self)
        if self.codebook:
            read_codebook(self.codebook, "describe: codebook")

    @property
    def names(self) -> list[str]:
        """The columns of the table that are described."""
        return [column_of(term) for term in self.columns]

    @property
    def used(self) -> list[str]:
        return [*self.names, *([] if self.by is None else [self.by])]

    @property
    def entering(self) -> list[str]:
        """All columns that are looked at."""
        return list(dict.fromkeys([*self.used, *self.complete]))

    @property
    def as_levels(self) -> set[str]:
        """Columns that are counted by level, be they numbers."""
        asked = {column_of(term) for term in self.columns if column_of(term) != term}
        return asked | {*self.levels} | ({self.by} if self.by is not None else set())

    @property
    def ranges(self) -> dict[str, tuple[float, float]]:
        """Of columns with a plausible range in a codebook."""
        entries = read_codebook(self.codebook).columns if self.codebook else {}
        known = {name: e.range for name, e in entries.items() if e.type in ("number", "integer")}
        return {name: limits for name, limits in known.items() if limits is not None}

    @property
    def max_exchanges(self) -> int:
        """Counts, sums and sums about means; a range of 2^64 keys is one key after eight exchanges
        in 256 parts, and the first of them is that of the sums."""
        return 3 if self.quantiles == "none" else 9

    def to_dict(self) -> dict[str, Any]:
        """Without what is not set; it names its analysis."""
        values = {k: v for k, v in dataclasses.asdict(self).items() if v is not None and v != {}}
        for name in ("complete", "median"):
            if not values[name]:
                del values[name]
        return {"analysis": self.analysis, **values}


def column_of(term: str) -> str:
    """C(grade) -> grade"""
    found = AS_LEVELS.fullmatch(term.strip())
    return found[1].strip().strip("`") if found else term


def _check_columns(columns: Any, by: Any) -> None:
    named = isinstance(columns, list) and all(isinstance(c, str) and c for c in columns)
    if not named or not columns:
        raise SpecError(
            f"describe: the setting 'columns' must be a list of names, got {columns!s:.80}"
        )
    if len(columns) > MOST_COLUMNS:
        raise SpecError(
            f"describe: the list may have at most {MOST_COLUMNS} columns, got {len(columns):,}"
        )
    if by is not None and not isinstance(by, str):
        raise SpecError(f"describe: by must be the name of a column, got {by!s:.80}")
    names = [column_of(term) for term in columns]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SpecError(f"describe: the list of columns has {twice!r} twice")
    if by in names:
        raise SpecError(
            f"describe: {by!r} is the column of the groups, so it cannot also be in the "
            "list of columns"
        )


def _check_shares(shares: Any) -> None:
    fits = isinstance(shares, list) and 0 < len(shares) <= 20
    if not fits or not all(is_real(x) and 0 < x < 1 for x in shares):
        raise SpecError(
            "the shares of the quantiles must be between 0 and 1, for example [0.25, 0.5, 0.75]; "
            f"got {shares!s:.80}"
        )
    if sorted(set(shares)) != shares:
        raise SpecError(
            "the shares of the quantiles must be in increasing order, and each only once; "
            f"got {shares!s:.80}"
        )


def _check_median(plan: DescribePlan) -> None:
    median = plan.median
    if not isinstance(median, list) or not all(isinstance(name, str) for name in median):
        raise SpecError(
            "describe: median must be a list of columns, for example median = ['crp']; "
            f"got {median!s:.80}"
        )
    for name in median:
        if name not in plan.names or name in plan.as_levels:
            told = "is not in the list of columns. Add it to <columns>, or remove it from <median>"
            if name in plan.names:
                told = f"is counted by level. Remove {name!r} from <median>"
            raise SpecError(
                f"describe: the setting 'median' names {name!r}, which {told}",
                column=name, settings={"columns": None, "median": None},
            )  # fmt: skip
    if median and plan.quantiles == "none":
        raise SpecError(
            f"describe: the setting 'median' asks for quantiles of {median[0]!r}, but "
            "quantiles = 'none' asks for no quantiles. Remove one of these settings"
        )


def _check_levels(levels: Any) -> None:
    fits = isinstance(levels, dict) and all(isinstance(v, list) and v for v in levels.values())
    plain = lambda v: isinstance(v, str | bool | int) or (isinstance(v, float) and v == v)
    if not fits or not all(all(map(plain, v)) and len({*v}) == len(v) for v in levels.values()):
        raise SpecError(
            "describe: levels must have a list of different values for each column, for example "
            f"levels = {{sex = ['f', 'm']}}; got {levels!s:.80}"
        )


def with_codebook(plan: DescribePlan, book: Codebook) -> DescribePlan:
    """The plan with the codebook's part on its columns: levels and ranges come from there."""
    for name in plan.names:
        book.check_role(name, "predictor" if book_allows(book, name, "predictor") else "outcome")
    if plan.by is not None:
        book.check_role(plan.by, "group" if book_allows(book, plan.by, "group") else "predictor")
    for name in plan.complete:
        if name not in book.columns:
            raise SpecError(
                f"'complete' contains the column {name!r}, but the codebook has no such column",
                column=name,
            )
    part = Codebook({name: book.columns[name] for name in plan.entering}).to_dict()
    levels = {name: _ordered(book, name) for name in book.levels(plan.used)}
    return dataclasses.replace(plan, levels=levels | plan.levels, codebook=part)


def _ordered(book: Codebook, name: str) -> Sequence[Any]:
    """As the codebook has them: a table has no reference."""
    return list(book.columns[name].levels) or [False, True]


def book_allows(book: Codebook, name: str, role: str) -> bool:
    return name in book.columns and book.columns[name].allows(role)
