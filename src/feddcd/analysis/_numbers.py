"""How many numbers an answer reveals about some rows: equations for whoever wants to know a row.

What follows from numbers that were told before does not count: of a linear model, that is all but
the first answer.
"""

from typing import Any

from ._describe_rows import DescribedRows, DescribeQuestion
from ._sums import PointQuestion
from .protocol import SiteRows

USUAL = 6  # exchanges of a table; some take four, some seven


def told(rows: SiteRows, question: Any) -> int:
    """By one answer, of this site's rows, as a sum with others' or not."""
    if isinstance(question, PointQuestion):
        return _of_point(rows, question)
    first = isinstance(question, DescribeQuestion) and question.counts
    return _of_description(rows, rows.data.k) if first else 0


def expected(rows: SiteRows, k: int) -> int:
    """By a whole job, as jobs usually are; values of a description are joined, k at a time."""
    if isinstance(rows.data, DescribedRows):
        return _of_description(rows, k)
    if not hasattr(rows.plan, "formula"):  # an analysis of another package: sums of its columns
        return 1 + 2 * len(rows.columns)
    p = rows.data.X.shape[1] * max(rows.data.Y.shape[1], 1)
    return _moments(rows) + (1 if _linear(rows) else USUAL) * (p + p * (p + 1) // 2)


def _of_point(rows: SiteRows, question: PointQuestion) -> int:
    p = question.w.size
    curved = p * (p + 1) // 2
    if question.pilot:
        return _moments(rows) + p + curved
    return curved * question.closing + (0 if _linear(rows) else p + curved)


def _moments(rows: SiteRows) -> int:
    """Sums of weights, outcomes and columns; those of products are in the curvature."""
    return 2 + 2 * rows.data.X.shape[1]


def _linear(rows: SiteRows) -> bool:
    return (rows.plan.family, rows.plan.link) == ("gaussian", "identity")


def _of_description(rows: SiteRows, k: int) -> int:
    """Counts, sums and sums of squares by cell; of ranges in parts the values that were joined."""
    data, shape = rows.data, rows.data.shape
    p, joined = data.X.shape[1], len(data.group) // max(k, 1)
    return shape.parted * (1 + p) + shape.counted + 2 * p * shape.cells + p * joined
