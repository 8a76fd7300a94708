"""The report of a description: Table 1, histograms, missing values, as one HTML page."""

import math
from pathlib import Path

import numpy as np

from .._text import count, plural, printable, trim
from ..report import charts, page
from ..report.tables import pairs, table
from ._bars import Histogram
from ._describe_text import groups, head, notes, pattern_rows
from ._description import DescribeResult, NumberSummary, Section
from .protocol import APART

HIDDEN = "Not shown"
TERMS = {
    "Mean, SD": (
        "the average, and the standard deviation (with the number of rows minus one as divisor)."
    ),
    "Median, quartiles": (
        "half of the rows are below the median. A quarter of the rows is below the first "
        "quartile, and three quarters are below the third quartile. Between two values, feddcd "
        "interpolates as R does (type 7)."
    ),
    "Missing": (
        "the number of rows without a value in this column. All other numbers describe only "
        "the rows with a value."
    ),
    "Missing together": (
        "the number of rows with missing values in all of these columns, and in no other column."
    ),
    HIDDEN: (
        "a very small count could reveal something about one person. The table leaves out "
        "small counts, and numbers from which somebody could compute a small count."
    ),
    "Exchange": "in an exchange the coordinator asks the sites for counts or sums over rows.",
}


def write(result: DescribeResult, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(html(result), encoding="utf-8", newline="\n")
    return path


def html(result: DescribeResult) -> str:
    by = result.plan.by
    title = "Table 1" if by is None else f"Table 1, by {printable(by)}"
    return page.document(
        title,
        page.header(title, _lead(result), *(page.paragraph(n, "note") for n in notes(result))),
        page.section("The table", _table1(result, result.table, title)),
        _figures(result),
        _missing(result),
        _sites(result),
        page.section("In numbers", _facts(result)),
        page.footer(_terms(result)),
    )


def _terms(result: DescribeResult) -> dict[str, str]:
    """Those that this page needs: a table may hide nothing."""
    hides = result.plan.least > 1 or any(result.careful)
    return {name: told for name, told in TERMS.items() if hides or name != HIDDEN}


def _lead(result: DescribeResult) -> str:
    where = f" at {plural(result.n_sites, 'site')}" if result.n_sites > 1 else ""
    return f"{plural(result.n_rows, 'row')}{where}, {plural(len(result.plan.names), 'column')}."


def _table1(result: DescribeResult, section: Section, caption: str) -> str:
    names = head(result, section)
    names[0] = "column"
    return table(caption, names, *groups(result, section), style="whole")


def _figures(result: DescribeResult) -> str:
    drawn = [
        page.figure(_bars(each, each.histogram)) for each in result.table.numbers if each.histogram
    ]
    if not drawn:
        return ""
    few = result.plan.least > 1
    note = f"Each bar has at least {result.plan.least} rows." if few else ""
    ends = (
        "The first bar also counts all smaller values, and the last bar also counts all larger "
        "values."
    )
    return page.section(
        "How the numbers are spread",
        page.paragraph(f"{note} {ends}".strip(), "note"),
        page.grid(drawn),
    )


def _bars(each: NumberSummary, drawn: Histogram | None) -> str:
    """Areas are rows: a bar that is three steps wide stands for a third of its rows a step."""
    if drawn is None:
        return ""
    edges, rows = drawn.edges.copy(), drawn.rows
    inner = edges[np.isfinite(edges)]
    step = float(np.diff(inner).min()) if len(inner) > 1 else 1.0
    edges[0] = edges[0] if np.isfinite(edges[0]) else inner[0] - step
    edges[-1] = edges[-1] if np.isfinite(edges[-1]) else inner[-1] + step
    edges -= 0.5 * drawn.whole  # a bar of whole numbers stands over them
    tall = rows * step / np.diff(edges)
    x = charts.linear(float(edges[0]), float(edges[-1]))
    y = charts.linear(0.0, float(tall.max()) * 1.05, 5)
    hover = [
        f"{_span(a, b, drawn.whole)}: {count(n, 'row')}"
        for a, b, n in zip(drawn.edges[:-1], drawn.edges[1:], rows, strict=True)
    ]
    name = printable(each.name)
    alt = f"Histogram of {name}: {count(rows.sum(), 'row')} in {plural(len(rows), 'bar')}."
    marks = [charts.bars(edges[:-1], edges[1:], tall, hover)]
    axis = f"rows per interval of width {trim(step, 3)}"
    return charts.chart(x, y, (name, axis), marks, alt, height=240)


def _span(low: float, high: float, whole: bool = False) -> str:
    if whole and low == high - 1:
        return trim(low, 6)
    if not math.isfinite(low):
        return f"below {trim(high, 6)}"
    high -= whole
    return (
        f"{trim(low, 6)} and more"
        if not math.isfinite(high)
        else f"{trim(low, 6)} to {trim(high, 6)}"
    )


def _missing(result: DescribeResult) -> str:
    if len(result.patterns) < 2:
        note = "No value is missing in any column."
        some = len(result.patterns) == 1
        told = "Missing values are shown in the table above." if some else note
        return page.section("Missing values", page.paragraph(told))
    names, rows = pattern_rows(result)
    return page.section(
        "Missing values",
        table("Columns that are missing together", names, ("", rows)),
    )


def _sites(result: DescribeResult) -> str:
    gone = [f"{site}: {why.removeprefix(f'{site}: ')}" for site, why in result.refused.items()]
    left = [page.paragraph("Not part of this table:"), page.bullets(gone)] if gone else []
    left += [page.paragraph(APART)] if result.apart else []
    if result.sites is None and not left:
        return ""
    own = [] if result.sites is None else [_table1(result, result.sites, "By site")]
    return page.section("The sites", *own, *left)


def _facts(result: DescribeResult) -> str:
    plan, last = result.plan, result.history.iloc[-1]
    sent = "nothing: one table" if result.pooled else f"{count(last['bytes_up'])} bytes"
    rows = [
        ("Rows", count(result.n_rows)),
        ("Sites", count(result.n_sites)),
        ("Exchanges", count(result.n_exchanges)),
        ("Quantiles", plan.quantiles),
        ("Each number describes at least", count(max(plan.least, 1), "row")),
        ("Sent by the sites", sent),
    ]
    return pairs("This description", rows)
