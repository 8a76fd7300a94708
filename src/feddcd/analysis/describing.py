"""`describe`: Table 1 of a data frame with rows of several sites, in one process."""

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from .._errors import DataError, SpecError
from .._text import meant
from ._describe import Describe
from ._describe_plan import QUARTILES
from ._describe_plan import DescribePlan as DescribePlan
from ._describe_plan import column_of as column_of
from ._describe_plan import with_codebook as with_codebook
from ._description import DescribeResult as DescribeResult
from ._usual import LeftOut as LeftOut
from ._usual import check_in_table as check_in_table
from ._usual import check_median
from ._usual import usual_columns as usual_columns
from ._values import FILL_IN, check_spelling, column
from .protocol import ALL, converse, in_process
from .table import as_frame

MOST_GROUPS = 50


def describe(
    frame: pd.DataFrame,
    columns: Sequence[str] | None = None,
    *,
    by: str | None = None,
    site: str | None = None,
    least: int = 0,
    quantiles: str = "exact",
    shares: Sequence[float] = QUARTILES,
    median: Sequence[str] = (),
) -> DescribeResult:
    """Table 1 of a data frame: rows, missing values, means, counts by level and quantiles.

    Args:
        frame: One row for each patient, or whatever is described.
        columns: Names; `C(name)` counts the values of a number as levels. If not given: all
            columns except identifiers (a different whole number in each row, as in mrn), dates,
            numbers with words among them, and more than 50 words. A note names what is left out.
        by: A column of groups, each of which gets a column of the table; at most 50 groups.
        site: A column that names the site of each row. With it, feddcd makes the same exchanges
            as in a federation, and a second table has the numbers of each site.
        least: The table does not show counts of fewer rows, and no number that reveals them. With
            0, it shows all counts.
        quantiles: "exact", "rounded" to a range of at least `least` rows, or "none".
        shares: Which quantiles, each from 0 to 1. If not given: the quartiles.
        median: Columns of numbers, such as a skewed laboratory value, for which the table has
            quantiles, but no mean and SD. (A careful site refuses a sum that is mostly due to a
            few rows.)

    Returns:
        A result with the table: `print(result)` shows it, `summary()` gives its text,
            `to_latex()` and `to_markdown()` are for a paper, and `write(folder)` writes all files.

    Raises:
        DataError: A column is missing, or its values do not fit what is asked.
        SpecError: A setting has a wrong value.

    Examples:
        >>> print(feddcd.describe(rows, ["age", "sex"], by="death"))
        600 rows, 2 columns; 3 exchanges
        ...
                               all               0               1
        ...
    """
    frame = as_frame(frame, need_names=True)
    for name in (by, site):
        if name is not None and name not in frame.columns:
            names = list(frame.columns)
            raise DataError(
                f"there is no column {name!r}; {meant(name, names)}the columns are "
                f"{', '.join(names[:30])}"
            )
    left: tuple[LeftOut, ...] = ()
    if columns is None:
        columns, left = usual_columns(frame, apart=(by, site))
        check_in_table([median] if isinstance(median, str) else median, frame, left)
    plan = DescribePlan(
        _names(columns), by, least, quantiles, [float(x) for x in shares],
        by_site=site is not None, median=_names(median),
    )  # fmt: skip
    return describe_plan(frame, plan, site, left)


def describe_plan(
    frame: pd.DataFrame, plan: DescribePlan, site: str | None, left: tuple[LeftOut, ...] = ()
) -> DescribeResult:
    """All sites in this process; `left` are columns that nobody asked for."""
    analysis = Describe()
    missing = [name for name in plan.entering if name not in frame.columns]
    if missing:
        names = list(frame.columns)
        told = f"there is no column {missing[0]!r}; {meant(missing[0], names)}the columns are "
        raise DataError(told + ", ".join(map(str, names[:30])), column=missing[0])
    if site is not None and site == plan.by:
        raise SpecError(
            f"<by> and <site> name the same column. If you want a column of Table 1 for each "
            f"value of {site!r}, give only <by>. If you want a second table with the numbers of "
            "each site, give only <site>",
            settings={"by": site, "site": site},
        )
    if site in plan.used:
        raise SpecError(
            f"the column {site!r} has the site of each row, so the table cannot also describe "
            "this column"
        )
    check_median(plan.median, frame)
    _check_groups(frame, plan.by)
    parts = {ALL: frame} if site is None else _by_site(frame, site)
    offers = {name: analysis.offer(frame, plan).offer for name in parts}  # one frame, one kind
    cohort, _ = analysis.agree(offers, plan)
    rows = {name: analysis.rows(part, plan, cohort, name) for name, part in parts.items()}
    result = converse(analysis.talk(plan, cohort), in_process(analysis, rows))
    return dataclasses.replace(result, left_out=left, site=site, pooled=True)


def _check_groups(frame: pd.DataFrame, by: str | None) -> None:
    """Each group is a column of the table, and nobody reads hundreds of columns."""
    found = 0 if by is None else column(frame, by).nunique()
    if found > MOST_GROUPS:
        raise DataError(
            f"the column {by!r} (<by>) has {found:,} different values. Each value gets a "
            f"column of Table 1, so at most {MOST_GROUPS} are possible. Combine the values "
            "into fewer groups in the data file, for example into age groups",
            column=by, settings={"by": None},
        )  # fmt: skip


def _names(given: Sequence[str]) -> Any:
    """One name in place of a list stays what it is, so that the plan refuses it."""
    return given if isinstance(given, str) else list(given)


def _by_site(frame: pd.DataFrame, site: str) -> dict[str, pd.DataFrame]:
    empty = np.flatnonzero(frame[site].isna())
    if len(empty):
        told = f"{site} is empty <row>, but each row must have a site. {FILL_IN}"
        raise DataError(told, row=int(empty[0]), column=site)
    check_spelling(site, column(frame, site).unique(), "site", column(frame, site))
    return {str(label): part for label, part in frame.groupby(site, sort=True, observed=True)}


def careful(plan: DescribePlan, **given: Any) -> DescribePlan:
    """The same for a federation, where settings that nobody chose are careful ones."""
    fields = {f.name: f for f in dataclasses.fields(plan)}
    usual = {"least": fields["least"].default, "quantiles": fields["quantiles"].default}
    return dataclasses.replace(plan, **(usual | {k: v for k, v in given.items() if v is not None}))
