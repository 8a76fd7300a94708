"""What a reader of a description has to know, and which of its counts sites may have changed."""

import numpy as np

from .._text import NONE, plural, printable, sentence_list
from ..data.capping import notes as cap_notes
from ._description import DescribeResult, LevelSummary, NumberSummary

ABOUT = "≈ "
ZERO_ONE = ("0", "1")


def changed_rows(result: DescribeResult) -> bool:
    """Whether sites may have left out rows: those of small groups."""
    return result.careful[1] > 0 and result.plan.by is not None


def changed(result: DescribeResult, each: NumberSummary | LevelSummary) -> bool:
    """Whether sites may have changed the counts of this column. Only a column without a missing
    value has none that count as missing. Numbers of 0 and 1 may have been joined with a rare 2."""
    joined = isinstance(each, LevelSummary) and each.levels == ZERO_ONE
    some = joined or bool(np.any(each.missing != 0))
    return changed_rows(result) or (result.careful[1] > 0 and some)


def notes(result: DescribeResult, paper: bool = False) -> list[str]:
    """What a reader of the table has to know; a reader of a paper knows no options."""
    plan = result.plan
    careful, left = result.careful
    found = [printable(line) for line in cap_notes(plan.codebook)]
    if plan.least > 1 and _hides(result):
        found.append(
            f"{NONE} means that a number is not shown. This number describes fewer than "
            f"{plan.least} rows, or somebody could compute from it a number that describes so few "
            "rows."
        )
    if plan.quantiles == "rounded" and result.table.numbers:
        of = "a quantile with this sign" if left else "the number"
        found.append(
            f"{ABOUT}means that {of} is the middle of a range with at least {plan.least} rows."
        )
    if result.patterns["missing"].tolist() == ["(others)"] and not paper:
        found.append(
            "feddcd does not show which columns are missing together, because the counts of such "
            "rows are too small."
        )
    if (bare := _without_line(result)) and not paper:
        has = "this column has" if len(bare) == 1 else "these columns have"
        found.append(
            f"The table by site has no line for {sentence_list(bare)}: {has} only quantiles, and "
            "the sites do not send quantiles of their own rows."
        )
    if result.table.levels:
        found.append("Rows without a value of a category do not count in its percentages.")
    found += [printable(x.named() if paper else x.told()) for x in result.left_out]
    if result.n_dropped:
        some = f"{'at least ' if careful else ''}{plural(result.n_dropped, 'row')}"
        lack = " or ".join(map(printable, plan.complete))
        found.append(f"The table leaves out {some} without a value in {lack}.")
    if careful and result.table.numbers:
        told = (
            "each site joins similar values, so the position of a quantile and the counts in a "
            "histogram can be wrong by a few rows"
        )
        sign = f" ({ABOUT.strip()} marks such quantiles)" if plan.quantiles != "none" else ""
        found.append(f"For quantiles and histograms {told}{sign}.")
    if left:
        found.append(
            f"{ABOUT}before a count means that sites may have changed this count. "
            f"{plural(left, 'site')} changed some rows before counting them, so each count of such "
            "a site is 0, or at least k. Here k is min_support in the policy of the site, usually "
            "5."
        )
        found.append(_changes(result))
    return found


def _hides(result: DescribeResult) -> bool:
    """Whether a number of the tables is not shown."""
    none = lambda *each: any(bool(np.isnan(x).any()) for x in each)
    for section in filter(None, (result.table, result.sites)):
        for x in section.numbers:
            sums = () if x.name in result.plan.median else (x.mean, x.sd)
            lacking = any(q is None for cell in x.quantiles for q in cell or (None,))
            if none(x.missing, *sums) or (any(x.quantiles) and lacking):
                return True
        if none(section.rows) or any(none(x.counts, x.missing) for x in section.levels):
            return True
    return False


def _without_line(result: DescribeResult) -> list[str]:
    """Columns with nothing but quantiles, which no site tells of its own rows."""
    each = [] if result.sites is None else result.sites.numbers
    median = [x for x in each if x.name in result.plan.median]
    return [repr(x.name) for x in median if not np.any(x.missing != 0)]


def _changes(result: DescribeResult) -> str:
    """What a site can have done to the counts of this table."""
    table = result.table
    told = ["left out the rows of a group with fewer than k rows"] if result.plan.by else []
    told += ["counted a level with fewer than k rows as missing"] if table.levels else []
    told.append("counted some present values as missing, if fewer than k values are missing")
    if any(each.name not in result.plan.median for each in table.numbers):
        told.append("counted all values of a column as missing, if few rows give most of its sum")
    first, *rest = told
    return " ".join([f"Such a site may have {first}.", *(f"It may have {x}." for x in rest)])
