"""The regression table as a journal prints it, and the cells that it shares with the report."""

import math
import re
from typing import NamedTuple

from ..._text import NONE, number, probability
from ...report.tables import Row
from .._digits import agreed, decimals
from .._places import fixed, places_of, proven_ratios
from .._printed import PrintedTable, lacking_in_paper
from .._result import TableResult
from .._summary import Row as NumberRow
from .._summary import ranges
from . import _words as words
from ._names import coefficient_name

PLAIN = re.compile(r"−?[\d,]+(\.\d+)?")
BLANKS = {ord("."): "\u2008", ord("0"): "\u2007"}


class Cells(NamedTuple):
    """A row of the table, each number with the digits that are proven; ends are those of the
    interval, and ratios are empty where they mean nothing, as of an intercept."""

    coef: str
    std_err: str
    statistic: str
    p: str
    ends: tuple[str, ...]
    ratio: str
    ratio_ends: tuple[str, ...]


def cells(fit: TableResult) -> list[Cells]:
    forms = [lambda x, n=n: number(x, n) for n in (4, 3, 2, 1)]
    rows = []
    for c, row in zip(fit.coefficients, ranges(fit), strict=True):
        three = (row.coef, row.low, row.high)
        coef, *ends = (agreed(x, forms) for x in three)
        factor, *factor_ends = proven_ratios(*three, row.unit) if fit.has_ratio(c) else [""]
        z, p = decimals(row.statistic, 2).replace("-", "−"), agreed(row.p, [probability])
        own = coef, agreed(row.std_err, forms), z, p
        rows.append(Cells(*own, tuple(ends), factor, tuple(factor_ends)))
    return rows


def _in_line(fit: TableResult) -> list[Cells]:
    """The cells, each row rounded to the third digit of its standard error. What would be 0 keeps
    its digits."""
    found = [_rounded(*pair) for pair in zip(cells(fit), ranges(fit), strict=True)]
    lines = [at_point([getattr(each, name) for each in found]) for name in ("coef", "std_err")]
    return [
        each._replace(coef=coef if fit.ratio else each.coef, std_err=std_err)
        for each, coef, std_err in zip(found, *lines, strict=True)
    ]


def _rounded(each: Cells, row: NumberRow) -> Cells:
    if not 0 < row.unit < math.inf:
        return each
    known = [abs(x) for r in (row.coef, row.low, row.high) for x in r if math.isfinite(x)]
    places = places_of(row.unit, max(known, default=0.0))
    return each._replace(
        coef=fixed(row.coef, each.coef, places),
        std_err=fixed(row.std_err, each.std_err, places),
        ends=tuple(map(fixed, (row.low, row.high), each.ends, (places,) * 2)),
    )


def at_point(cells: list[str]) -> list[str]:
    """With blanks as wide as a digit or a point behind a number, so that the points of a column
    are in line where it stands right."""
    plain = [PLAIN.fullmatch(cell) for cell in cells]
    most = max((len(found[1] or "") for found in plain if found), default=0)
    blanks = ("." + "0" * (most - 1)).translate(BLANKS) if most else ""
    return [
        cell + blanks[len(found[1] or "") :] if found else cell
        for cell, found in zip(cells, plain, strict=True)
    ]


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
        whole = f"{each.ratio} {span(each.ratio_ends)}" if each.ratio else NONE
        return [name, each.coef, each.std_err, whole, each.p]
    return [name, f"{each.coef} {span(each.ends)}", each.std_err, each.p]


def _notes(fit: TableResult) -> list[str]:
    scale = "Each coefficient is for an increase of its column by one standard deviation."
    return [
        f"{words.title(fit)}. CI: confidence interval.",
        words.lead(fit),
        *([scale] if fit.standardize else []),
        *words.cautions(fit, paper=True),
        *lacking_in_paper(fit.refused),
        words.proof(fit),
    ]
