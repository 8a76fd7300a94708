"""Which columns a description has where nobody names any, and why it leaves out the others."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from .._errors import DataError
from .._text import listed, meant
from ..data.codebook import Codebook
from ..data.draft import is_date, is_identifier
from ..formula import is_numeric
from ._values import column, is_mixed

MOST_WORDS = 50  # levels of a column that nobody asked for by name


class LeftOut(NamedTuple):
    """Columns that are left out for one reason, and how a person keeps them. The reason is of one
    column, `whys` of several."""

    names: tuple[str, ...]
    why: str
    whys: str
    keep: str = ""

    def told(self) -> str:
        return f"{self.named()} {self.keep}".strip()

    def named(self) -> str:
        """Without the advice, for a paper."""
        if len(self.names) == 1:
            return f"The column {listed(self.names)} is not in the table, because {self.why}."
        return f"The columns {listed(self.names)} are not in the table, because {self.whys}."


class UsualColumns(NamedTuple):
    columns: list[str]
    left: tuple[LeftOut, ...]


NAME_IT = "To keep such a column, name it in the list of columns (--column)."
MIXED = LeftOut(
    (),
    "some of its values are numbers and others are words",
    "some of their values are numbers and others are words",
    "To keep such a column, change the words to numbers. If a word means a missing value, give "
    "--na WORD, or write a codebook with type = 'number' and missing = ['WORD']. If the column is "
    "a category, write a codebook with type = 'category'.",
)
DATES = LeftOut(
    (),
    "its values are dates",
    "their values are dates",
    "To keep such a column, write a number of days in place of each date.",
)
UNREAD = LeftOut(
    (),
    "feddcd cannot read its values as numbers",
    "feddcd cannot read their values as numbers",
    "To keep such a column, write numbers without other characters. If the file has decimal "
    "commas, give --decimal ','. If it has decimal points, give --decimal '.'.",
)
KEYS = LeftOut((), "its values identify a person", "their values identify a person", NAME_IT)
MANY = LeftOut(
    (),
    f"it has more than {MOST_WORDS} different words",
    f"each of them has more than {MOST_WORDS} different words",
    NAME_IT,
)
UNKNOWN = LeftOut((), "the codebook has no entry for it", "the codebook has no entry for them")
NO_ROLE = LeftOut(
    (),
    "the codebook allows it neither as a predictor nor as an outcome",
    "the codebook allows them neither as predictors nor as outcomes",
)
SAID_KEYS = LeftOut(
    (),
    "the codebook says that its type is 'identifier'",
    "the codebook says that their type is 'identifier'",
)
SAID_DATES = LeftOut(
    (),
    "the codebook says that its type is 'date'",
    "the codebook says that their type is 'date'",
)


def usual_columns(
    frame: pd.DataFrame,
    apart: Sequence[str | None] = (),
    book: Codebook | None = None,
    doubts: Mapping[str, DataError] | None = None,
) -> UsualColumns:
    """`doubts` has, by column of a file, why its words should not be taken for categories."""
    reason = _seen(frame, doubts or {}) if book is None else _agreed(frame, book)
    names = [name for name in frame.columns if name not in apart]
    found: dict[LeftOut, list[str]] = {}
    for name in names:
        if why := reason(name):
            found.setdefault(why, []).append(name)
    left = tuple(why._replace(names=tuple(those)) for why, those in found.items())
    gone = {name for each in left for name in each.names}
    kept = [name for name in names if name not in gone]
    if not kept:
        told = " ".join(each.told() for each in left)
        raise DataError(f"there is no column to describe. {told}".strip())
    return UsualColumns(kept, left)


def check_in_table(median: Sequence[str], frame: pd.DataFrame, left: Sequence[LeftOut]) -> None:
    """Of columns that nobody listed: a plan would not know why one of these is not among them."""
    for name in median:
        if name not in frame.columns:
            names = list(frame.columns)
            told = f"there is no column {name!r}; {meant(name, names)}the columns are "
            raise DataError(told + ", ".join(map(str, names[:30])), column=name)
        if why := next((each for each in left if name in each.names), None):
            told = f"the column {name!r} (<median>) is not in the table"
            text = f"{told}, because {why.why}. {why.keep}".strip()
            raise DataError(text, column=name, settings={"median": None})


def check_median(median: Sequence[str], frame: pd.DataFrame) -> None:
    """What is no number at all has no median; of numbers with words the reader says the place."""
    for name in median:
        values = column(frame, name)
        if is_numeric(values) or is_mixed(values):
            continue
        are, remedy = "words", f"Remove {name!r} from <median>"
        if _dates(values.dropna()):
            are = "dates"
            remedy = (
                f"Write a number of days in place of each date, or remove {name!r} from <median>"
            )
        raise DataError(
            f"the values of the column {name!r} (<median>) are {are}, but a median needs numbers. "
            f"{remedy}",
            column=name, settings={"median": None},
        )  # fmt: skip


def _seen(frame: pd.DataFrame, doubts: Mapping[str, DataError]) -> Callable[[str], LeftOut | None]:
    """By the values alone."""

    def reason(name: str) -> LeftOut | None:
        values = column(frame, name)
        if is_numeric(values):
            return KEYS if is_identifier(name, values.dropna().tolist()) else None
        if is_mixed(values) or (name in doubts and "na" in doubts[name].settings):
            return MIXED
        if not isinstance(values.dtype, pd.CategoricalDtype) and _dates(values.dropna()):
            return DATES
        if name in doubts:
            return UNREAD
        return MANY if values.nunique() > MOST_WORDS else None

    return reason


def _dates(values: pd.Series) -> bool:
    return bool(len(values)) and is_date(values.unique().tolist())


def _agreed(frame: pd.DataFrame, book: Codebook) -> Callable[[str], LeftOut | None]:
    """The codebook knows better. What does not fit it is refused later, with its place."""

    def reason(name: str) -> LeftOut | None:
        if (entry := book.columns.get(name)) is None:
            return UNKNOWN
        if entry.type == "identifier":
            return SAID_KEYS
        if entry.type == "date":
            return SAID_DATES
        if not (entry.allows("predictor") or entry.allows("outcome")):
            return NO_ROLE
        worded = entry.type == "category" and column(frame, name).nunique() > MOST_WORDS
        return MANY if worded else None

    return reason
