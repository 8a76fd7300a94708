"""The regression table as a journal prints it, and the cells that it shares with the report."""

import math
from typing import NamedTuple

from ..._text import number, probability, ratio
from ...report.tables import Row
from .._digits import UNKNOWN, Range, agreed, decimals
from .._printed import PrintedTable, lacking_in_paper
from .._result import TableResult
from .._summary import ranges
from . import _words as words
from ._names import coefficient_name

MANY = 1e5  # larger numbers keep their own digits
FAR = 700.0  # beyond it exp overflows


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


def _in_line(fit: TableResult) -> list[Cells]:
    """The cells with one number of decimals in each column: the smallest standard error has three
    digits or four decimals, a ratio two or three decimals. What would be 0 keeps its digits."""
    found, rows = cells(fit), ranges(fit)
    least = min((row.unit for row in rows if 0 < row.unit < math.inf), default=1.0)
    whole = math.floor(math.log10(least))
    places, of_ratio = (min(max(n - whole, 2), most) for n, most in ((2, 4), (1, 3)))
    return [
        each._replace(
            coef=_fixed(row.coef, each.coef, places),
            std_err=_fixed(row.std_err, each.std_err, places),
            ends=tuple(map(_fixed, (row.low, row.high), each.ends, (places,) * 2)),
            ratio=_ratio(row.coef, each.ratio, of_ratio),
            ratio_ends=tuple(map(_ratio, (row.low, row.high), each.ratio_ends, (of_ratio,) * 2)),
        )
        for each, row in zip(found, rows, strict=True)
    ]


def _fixed(given: Range, text: str, places: int) -> str:
    """The number with so many decimals if they are proven and show it, or as it is."""
    size = max(abs(given.low), abs(given.high))
    if text == UNKNOWN or not 10.0**-places <= size < MANY:
        return text
    return agreed(given, [lambda x: f"{x:,.{places}f}".replace("-", "−")]).replace(UNKNOWN, text)


def _ratio(given: Range, text: str, places: int) -> str:
    exp = lambda x: math.exp(min(x, FAR))
    return _fixed(given.map(exp), text, places) if text else text


def journal_table(fit: TableResult) -> PrintedTable:
    interval = f"({words.percent(fit)} CI)"
    if fit.ratio:
        head = ["", "coefficient", "standard error", f"{fit.ratio} {interval}", "p"]
    else:
        head = ["", f"coefficient {interval}", "standard error", "p"]
    names = [coefficient_name(fit, c) for c in fit.coefficients]
    each = zip(names, _in_line(fit), strict=True)
    rows = [_row(name, own, bool(fit.ratio)) for name, own in each]
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
        *lacking_in_paper(fit.refused),
        words.proof(fit),
    ]
