"""The regression table as a journal prints it, and the cells that it shares with the report."""

from typing import NamedTuple

from ..._text import number, probability, ratio
from ...report.tables import Row
from .._digits import agreed, decimals
from .._printed import PrintedTable
from .._result import TableResult
from .._summary import ranges
from . import _words as words
from ._names import coefficient_name


class Cells(NamedTuple):
    """A row of the table, each number with the digits that are proven; ends are those of the
    interval, and ratios are empty where they mean nothing."""

    coef: str
    std_err: str
    statistic: str
    p: str
    ends: tuple[str, ...]
    ratio: str
    ratio_ends: tuple[str, ...]


def cells(fit: TableResult) -> list[Cells]:
    forms = [lambda x, n=n: number(x, n) for n in (4, 3, 2, 1)]
    factors = [lambda x, n=n: ratio(x, n) for n in (3, 2, 1)]
    rows = []
    for row in ranges(fit):
        three = (row.coef, row.low, row.high)
        coef, *ends = (agreed(x, forms) for x in three)
        factor, *factor_ends = (agreed(x, factors) if fit.ratio else "" for x in three)
        z, p = decimals(row.statistic, 2).replace("-", "−"), agreed(row.p, [probability])
        own = coef, agreed(row.std_err, forms), z, p
        rows.append(Cells(*own, tuple(ends), factor, tuple(factor_ends)))
    return rows


def journal_table(fit: TableResult) -> PrintedTable:
    interval = f"({words.percent(fit)} CI)"
    if fit.ratio:
        head = ["", "coefficient", "standard error", f"{fit.ratio} {interval}", "p"]
    else:
        head = ["", f"coefficient {interval}", "standard error", "p"]
    names = [coefficient_name(fit, c) for c in fit.coefficients]
    rows = [_row(name, each, bool(fit.ratio)) for name, each in zip(names, cells(fit), strict=True)]
    return PrintedTable(head, [("", rows)], _notes(fit))


def _row(name: str, each: Cells, factors: bool) -> Row:
    span = lambda ends: f"({ends[0]} to {ends[1]})"
    if factors:
        whole = f"{each.ratio} {span(each.ratio_ends)}"
        return [name, each.coef, each.std_err, whole, each.p]
    return [name, f"{each.coef} {span(each.ends)}", each.std_err, each.p]


def _notes(fit: TableResult) -> list[str]:
    scale = "Each coefficient is for one more standard deviation of its column."
    return [
        f"{words.title(fit)}. CI: confidence interval.",
        words.lead(fit),
        *([scale] if fit.standardize else []),
        *words.cautions(fit),
        words.proof(fit),
    ]
