"""What a reader of a description has to know, and which of its counts sites may have changed."""

import numpy as np

from .._text import NONE, plural, printable
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
    if plan.least > 1:
        why = (
            f"the number describes fewer than {plan.least} rows, or somebody could compute such "
            "a number from it"
        )
        found.append(f"{NONE} means that a number is not shown, because {why}.")
    if plan.quantiles == "rounded" and result.table.numbers:
        of = "a quantile with this sign" if left else "the number"
        found.append(
            f"{ABOUT}means that {of} is the middle of a range with at least {plan.least} rows."
        )
    if result.table.levels:
        found.append("Percentages are of the rows without a missing value.")
    found += [printable(x.named() if paper else x.told()) for x in result.left_out]
    if result.n_dropped:
        some = f"{'at least ' if careful else ''}{plural(result.n_dropped, 'row')}"
        lack = " or ".join(map(printable, plan.complete))
        found.append(f"The table leaves out {some} without a value in {lack}.")
    if careful and result.table.numbers:
        told = "each site joins similar values, so the numbers can be wrong by a few rows"
        sign = f" ({ABOUT.strip()} marks such quantiles)" if plan.quantiles != "none" else ""
        found.append(f"For quantiles and histograms {told}{sign}.")
    if left:
        told = (
            "the rows of small groups are left out, and a value that only few rows have "
            "counts as missing"
        )
        found.append(f"At {plural(left, 'site')} {told}.")
        found.append(
            f"{ABOUT}before a count means that these sites may have changed it. For example, 1 to "
            "4 missing values of a site become 5 (or more, as min_support in its policy says)."
        )
    return found
