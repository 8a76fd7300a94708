"""The appendix: what was proven at each exchange, what it took, and why this method."""

from html import escape

import numpy as np

from ..._text import NONE, count, number, seconds, size, trim, upper
from ...report import charts, page
from ...report.tables import table
from .._cost import MASKED, counted, with_masks
from .._result import TableResult
from ._words import is_penalised

LEAST_MASKED = 3  # sites
SAGA = "pointsaga"  # in simulation only
FLOOR = 1e-16  # an error of 0 on a logarithmic axis
NAMES = ("exchanges", "certified error, in standard errors")


def course(fit: TableResult) -> str:
    drawn = convergence(fit)
    note = "No exchange proved a bound on the error, so there is no curve."
    if drawn:
        note = (
            "The line is the largest possible error of any coefficient, in standard errors. The "
            "dashed line is the requested error (tol)."
        )
        if not np.isfinite(fit.history["certified_error"]).all():
            note += " An exchange without a dot did not prove a bound on the error."
    return page.section(
        "Appendix: what is proven, and after how many exchanges",
        page.paragraph(note),
        page.grid([page.figure(drawn)]) if drawn else "",
        page.details("Every exchange as a table", _exchanges(fit)),
        page.details("Why this method", _choice(fit)),
    )


def convergence(fit: TableResult) -> str:
    """Empty where nothing was ever proven."""
    x = fit.history["exchange"].to_numpy(float)
    error = fit.history["certified_error"].to_numpy(float)
    proven = np.isfinite(error)
    if not proven.any():
        return ""
    y, tol = np.maximum(error[proven], FLOOR), fit.tol
    low = 10.0 ** np.floor(np.log10(min(y.min(), tol)) - 0.4)
    high = 10.0 ** np.ceil(np.log10(max(y.max(), tol)) + 0.2)
    across, up = charts.linear(0.0, max(x.max(), 1.0) * 1.04), charts.logarithmic(low, high)
    hover = [
        f"exchange {a:.0f}: at most {error_of(b)} standard errors"
        for a, b in zip(x[proven], y, strict=True)
    ]
    marks = [
        charts.area(x[proven], np.full(len(y), low), y),
        charts.line([0, across.high], [tol, tol], "orange dashed"),
        charts.line(x[proven], y),
        charts.dots(x[proven], y, hover),
    ]
    alt = (
        "Certified error after each exchange. After "
        f"{count(x[proven][-1], 'exchange')} the certified error is {error_of(y[-1])} standard "
        f"errors; the requested error was {trim(tol, 2)}."
    )
    return charts.chart(across, up, NAMES, marks, alt, height=250)


def _exchanges(fit: TableResult) -> str:
    show = {
        "exchange": ("exchange", count), "asked": ("asked", count), "answered": ("answered", count),
        "uploads": ("uploads", count), "bytes_up": ("sent up", size),
        "bytes_down": ("sent down", size), "seconds": ("predicted time", seconds),
        "objective": ("objective", lambda x: number(x, 7)),
        "certified_error": ("certified error", error_of),
    }  # fmt: skip
    head, forms = zip(*show.values(), strict=True)
    values = zip(*(fit.history[name].to_numpy(float) for name in show), strict=True)
    rows = [[form(x) for form, x in zip(forms, line, strict=True)] for line in values]
    whose = "All exchanges that a federation would need" if fit.pooled else "All exchanges"
    title = f"{whose}: the counts, bytes and times in each line are totals since the first exchange"
    note = (
        "The times are predicted from the number of exchanges and the bytes, not measured. The "
        "objective is the number that the fit makes as small as possible: half of the deviance "
        f"plus a number that does not depend on the coefficients{_penalty(fit)}."
    )
    if fit.pooled:
        note = (
            f"Nothing was sent. A federation {counted(fit.answers)} would send these bytes. {note}"
        )
    return page.lines([table(title, head, ("", rows)), page.paragraph(note, "note")])


def _penalty(fit: TableResult) -> str:
    return ", plus the penalty" if is_penalised(fit.l2) else ""


def _choice(fit: TableResult) -> str:
    """Why this method, and what each was expected to cost before the fit."""
    choice = fit.choice
    values = choice.predictions[["exchanges", "bytes", "seconds"]].to_numpy(float)
    rows = [
        (f"{name} (chosen)" if name == choice.method else str(name), count(a), size(b), seconds(c))
        for name, (a, b, c) in zip(choice.predictions.index, values, strict=True)
    ]
    head = ["method", "exchanges", "bytes of gradients and Hessians", "time"]
    reason = escape(choice.reason.rstrip("."))
    up, down = (float(fit.history[name].iloc[-1]) for name in ("bytes_up", "bytes_down"))
    told = f"{count(fit.n_exchanges, 'exchange')} and {size(up + down)}"
    did = "A federation would need" if fit.pooled else "The fit needed"
    told += f" {counted(fit.answers)}" if fit.pooled else ""
    return page.lines([
        f"<p>Method: <strong>{escape(choice.method)}</strong> ({reason}).</p>",
        table("Expected cost of each method, used only to choose a method before the fit", head,
              ("", rows)),
        page.paragraph(
            f"{did} {told} for this table, with the gradients, the Hessians and all other "
            f"sums: {size(up)} from the sites and {size(down)} to the sites.{_under_masks(fit)}",
            "note",
        ),
    ])  # fmt: skip


def _under_masks(fit: TableResult) -> str:
    """What the default of a federation costs, where a simulation can say it."""
    asked, answered = (fit.history[name].to_numpy() for name in ("asked", "answered"))
    whole = bool((asked == fit.n_sites).all() and (answered == asked).all())
    same = fit.answers == "each" and fit.choice.method != SAGA
    if not (fit.pooled and whole and same and fit.n_sites >= LEAST_MASKED):
        return ""
    up, down = with_masks(fit.history, fit.n_sites)
    return (
        f" With masks, the default for three or more sites, a federation would need about "
        f"{size(up + down)}: {size(up)} from the sites and {size(down)} to the sites. The reasons: "
        f"a number with a mask is about {MASKED} times as long, and each site gets the masked "
        "answers of all sites."
    )


def error_of(value: float) -> str:
    return upper(value) if value < float("inf") else NONE
