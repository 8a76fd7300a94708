"""Tables as HTML: names escaped, rows and columns marked as such."""

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

import pandas as pd

from ._numbers import NONE, count, number, probability, ratio, seconds, size, trimmed, upper
from ._quality import calibration_table
from ._words import KINDS, RATIOS

LINES = {"gaussian": "identity", "binomial": "logit", "poisson": "log", "multinomial": "logit"}


def table(caption: str, head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table that scrolls within its own frame where the window is narrow."""
    titles = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "\n".join(_line(row) for row in rows)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}">\n'
        f"<table><caption><span>{escape(caption)}</span></caption>\n<thead><tr>{titles}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody></table></div>"
    )


def pairs(caption: str, rows: Iterable[Sequence[str]]) -> str:
    body = "\n".join(_line(row) for row in rows)
    return f"<table><caption>{escape(caption)}</caption>\n<tbody>\n{body}\n</tbody></table>"


def regression(fit: Any) -> str:
    name = RATIOS.get(fit.family)
    head = ["name", "coefficient", "standard error", "z", "p", "95 % from", "to"]
    head += [name, "95 % from", "to"] if name else []
    rows = []
    for label, row in fit.table_.iterrows():
        b, low, high = float(row["coef"]), float(row["ci_low"]), float(row["ci_high"])
        cells = [str(label), number(b), number(row["std_err"]), f"{row['z']:.2f}"]
        cells[-1] = cells[-1].replace("-", "−")
        cells += [probability(row["p"]), number(low), number(high)]
        rows.append(cells + ([ratio(b), ratio(low), ratio(high)] if name else []))
    return table("The regression table, in the units of the columns", head, rows)


def facts(fit: Any) -> str:
    rows = [
        ("Model", KINDS[fit.family]),
        ("Link", LINES[fit.family]),
        ("Formula", fit.formula or "all columns as they are"),
        ("Rows used", count(fit.n_rows_)),
        ("Rows dropped", count(fit.n_dropped_)),
        ("Sites", count(fit.n_sites_)),
        ("Exchanges", count(fit.n_exchanges_)),
        ("Uploads, all sites", count(fit.n_uploads_)),
        ("Sent by the sites", size(fit.bytes_up_)),
    ]
    fits = [
        ("Deviance", trimmed(fit.deviance_, 6)),
        ("Deviance without columns", trimmed(fit.null_deviance_, 6)),
        ("Dispersion", trimmed(fit.dispersion_, 5)),
        ("Log-likelihood", trimmed(fit.log_likelihood_, 6)),
        ("AIC", trimmed(fit.aic_, 6)),
        ("Standard errors", {"cluster": "clustered by site"}.get(fit.covariance, "model-based")),
        ("Certified error", _error(fit.certified_error_) + " standard errors"),
        ("Wanted (tol)", trimmed(fit.tol, 2) + " standard errors"),
    ]
    return f'<div class="facts">{pairs("The fit", rows)}{pairs("In numbers", fits)}</div>'


def calibration(fit: Any) -> str:
    groups = calibration_table(fit)
    if groups is None:
        return ""
    head = ["group", "weight of rows", "predicted", "observed", "difference"]
    cells = zip(groups["weight"], groups["predicted"], groups["observed"], strict=True)
    rows = [
        (str(i), count(w), number(a), number(b), number(b - a, 2))
        for i, (w, a, b) in enumerate(cells, 1)
    ]
    return table("Calibration, from low predictions to high ones", head, rows)


def exchanges(history: pd.DataFrame) -> str:
    show = {
        "exchange": count, "asked": count, "answered": count, "uploads": count, "bytes_up": size,
        "bytes_down": size, "seconds": seconds, "objective": lambda x: number(x, 7),
        "certified_error": _error,
    }  # fmt: skip
    head = ["exchange", "asked", "answered", "uploads", "sent up", "sent down", "predicted time",
            "objective", "certified error"]  # fmt: skip
    values = zip(*(history[name].to_numpy(float) for name in show), strict=True)
    rows = [[f(x) for f, x in zip(show.values(), line, strict=True)] for line in values]
    return table("Every exchange; counts, bytes and time add up", head, rows)


def predictions(choice: Any) -> str:
    """What each method was expected to cost before the fit."""
    head = ["method", "exchanges", "bytes", "time"]
    values = choice.predictions[["exchanges", "bytes", "seconds"]].to_numpy(float)
    rows = [
        (f"{name} (chosen)" if name == choice.method else str(name), count(a), size(b), seconds(c))
        for name, (a, b, c) in zip(choice.predictions.index, values, strict=True)
    ]
    return table("Predicted cost of each method, before the fit", head, rows)


def _error(value: float) -> str:
    return upper(value) if value < float("inf") else NONE


def _line(cells: Sequence[str]) -> str:
    rest = "".join(f"<td>{escape(cell)}</td>" for cell in cells[1:])
    return f'<tr><th scope="row">{escape(cells[0])}</th>{rest}</tr>'
