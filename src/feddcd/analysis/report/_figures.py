"""Graphs of the coefficients, with each site's own behind them, and of the certified error."""

from typing import Any, NamedTuple

import numpy as np

from ..._text import count, number, trim, upper
from .._result import TableResult
from . import _plotly as plot
from ._plotly import Graph, dots, line, plain, text
from ._quality import Columns, columns
from ._words import RATIOS, strongest

MOST = 24  # coefficients in one figure
UNLIKE = 30.0  # a ratio of standard errors above which one axis would not serve all
REACH = 1.5  # how far, in spans of the pooled intervals, sites may stretch the axis
FLOOR = 1e-16  # an error of 0 on a logarithmic axis
AXES = {
    "exchanges": "exchanges",
    "uploads": "uploads, all sites",
    "bytes": "bytes, up and down",
    "seconds": "predicted seconds",
}


class OwnEstimates(NamedTuple):
    row: np.ndarray  # of the figure
    site: list[str]
    coef: np.ndarray
    std_err: np.ndarray


def coefficients(fit: TableResult) -> Graph | None:
    labels = [c.label for c in strongest(fit)]
    if not labels:
        return None
    shown = labels[:MOST]
    rows = columns(fit.table.loc[shown])
    se = rows["std_err"]
    unlike = bool(se.max() > UNLIKE * se.min())
    unit = se if unlike else np.ones(len(se))
    sites = _sites(fit, shown)
    span, outside = _span(rows, unit, sites)
    data = _site_dots(sites, unit, shown) + _pooled(rows, unit, shown)
    name = "coefficient, in its own standard errors" if unlike else _name(fit)
    shapes = [_zero(len(shown))]
    frame = plot.layout(76 + 30 * len(shown), name, "", yaxis=_rows(shown), shapes=shapes)
    frame["xaxis"]["range"], frame["margin"]["t"] = span, 12
    caption = _caption(len(labels), unlike, sites, outside)
    spoken = ", ".join(f"{n} {number(b, 3)}" for n, b in zip(shown[:5], rows["coef"], strict=False))
    alt = f"Coefficients with 95 % intervals, the clearest first: {spoken}. All are in the table."
    return Graph("coefficients", data, frame, alt, caption, wide=True)


def _name(fit: TableResult) -> str:
    if fit.family == "gaussian":
        return "coefficient"
    return f"coefficient (log {RATIOS[fit.family]})"


def _sites(fit: TableResult, shown: list[str]) -> OwnEstimates | None:
    if fit.site_table is None:
        return None
    place = {name: i for i, name in enumerate(shown)}
    coef, std_err = fit.site_table[["coef", "std_err"]].to_numpy(float).T
    keys = [(str(name), str(site)) for name, site in fit.site_table.index]
    kept = [i for i, (name, _) in enumerate(keys) if name in place and np.isfinite(coef[i])]
    row = np.array([place[keys[i][0]] for i in kept], int)
    return OwnEstimates(row, [keys[i][1] for i in kept], coef[kept], std_err[kept])


def _span(rows: Columns, unit: np.ndarray, sites: OwnEstimates | None) -> tuple[list[float], int]:
    """The range of x, and how many sites' estimates lie outside of it."""
    low = min(np.min(rows["ci_low"] / unit), 0.0)
    high = max(np.max(rows["ci_high"] / unit), 0.0)
    outside = 0
    if sites is not None and sites.site:
        x = sites.coef / unit[sites.row]
        least, most = low - REACH * (high - low), high + REACH * (high - low)
        outside = int(np.sum((x < least) | (x > most)))
        low, high = min(low, max(x.min(), least)), max(high, min(x.max(), most))
    edge = 0.04 * (high - low)
    return [float(low - edge), float(high + edge)], outside


def _pooled(rows: Columns, unit: np.ndarray, shown: list[str]) -> list[dict[str, Any]]:
    b, low, high = rows["coef"], rows["ci_low"], rows["ci_high"]
    bar = {
        "type": "data", "symmetric": False, "color": plot.BLUE, "thickness": 2, "width": 4,
        "array": plain((high - b) / unit), "arrayminus": plain((b - low) / unit),
    }  # fmt: skip
    hover = [
        f"{text(name)}<br>{number(b[i])} (95 %: {number(low[i])} to {number(high[i])})"
        for i, name in enumerate(shown)
    ]
    y = np.arange(len(shown))
    return [dots(b / unit, y, plot.BLUE, 8, error_x=bar, hovertext=hover, hoverinfo="text")]


def _site_dots(
    sites: OwnEstimates | None, unit: np.ndarray, shown: list[str]
) -> list[dict[str, Any]]:
    """One light dot per site and coefficient; sites keep their height within a row."""
    if sites is None or not sites.site:
        return []
    labels = {site: i for i, site in enumerate(dict.fromkeys(sites.site))}
    height = np.linspace(-0.24, 0.24, len(labels)) if len(labels) > 1 else np.zeros(1)
    y = sites.row + height[[labels[site] for site in sites.site]]
    hover = [
        f"site {text(site)}<br>{text(shown[i])}: {number(b)} ± {number(e, 3)}"
        for i, site, b, e in zip(*sites, strict=True)
    ]
    marker = {"opacity": 0.6, "symbol": "diamond"}
    x = sites.coef / unit[sites.row]
    return [dots(x, y, plot.PALE, 5, marker=marker, hovertext=hover, hoverinfo="text")]


def _rows(shown: list[str]) -> dict[str, Any]:
    return plot.axis(
        tickvals=list(range(len(shown))), ticktext=[plot.short(n) for n in shown], showline=False,
        range=[len(shown) - 0.4, -0.6], tickcolor="#ffffff", showgrid=True,
    )  # fmt: skip


def _zero(rows: int) -> dict[str, Any]:
    return {
        "type": "line", "x0": 0, "x1": 0, "y0": -0.6, "y1": rows - 0.4, "layer": "below",
        "line": {"color": plot.SOFT, "width": 1.2, "dash": "dot"},
    }  # fmt: skip


def _caption(total: int, unlike: bool, sites: OwnEstimates | None, outside: int) -> str:
    sentences = ["Each blue dot is a coefficient of all rows, its bar the 95 % interval; at the "
            "dotted line there is no effect. The clearest are on top."]  # fmt: skip
    if total > MOST:
        sentences.append(f"The {MOST} clearest of {count(total)} are drawn, the table has all.")
    if unlike:
        sentences.append(
            "The columns have very different units, so each coefficient is drawn in its own "
            "standard errors; the table has the units."
        )
    if sites is None:
        sentences.append("The sites’ own estimates are not shown.")
    else:
        sentences.append("Grey diamonds: what each site would estimate from its rows alone.")
    if outside:
        sentences.append(f"{count(outside, 'estimate')} of single sites lie outside the figure.")
    return " ".join(sentences)


def convergence(fit: TableResult) -> list[Graph]:
    """Empty where nothing was ever proven."""
    history = fit.history
    error = history["certified_error"].to_numpy(float)
    finite = np.isfinite(error)
    if not finite.any():
        return []
    x = {
        "exchanges": history["exchange"],
        "uploads": history["uploads"],
        "bytes": history["bytes_up"] + history["bytes_down"],
        "seconds": history["seconds"],
    }
    y = np.maximum(error[finite], FLOOR)
    return [_panel(name, x[name].to_numpy(float), finite, y, fit.tol) for name in AXES]


def _panel(name: str, x: np.ndarray, finite: np.ndarray, y: np.ndarray, tol: float) -> Graph:
    low = np.floor(np.log10(min(y.min(), tol)) - 0.4)
    high = np.ceil(np.log10(max(y.max(), tol)) + 0.2)
    ticks = range(int(low), int(high) + 1, max(1, int(np.ceil((high - low) / 5))))
    ends = [0.0, float(x.max()) * 1.04]
    hover = [f"{number(a)} {AXES[name]}<br>error at most {upper(b)}"
            for a, b in zip(x[finite], y, strict=True)]  # fmt: skip
    data = [
        line(x[finite], np.full(len(y), 10.0**low), line={"width": 0}, hoverinfo="skip"),
        line(x[finite], y, mode="lines+markers", fill="tonexty", fillcolor=plot.BAND,
             marker={"size": 7, "color": plot.BLUE}, hovertext=hover, hoverinfo="text"),
        line(ends, [tol, tol], plot.ORANGE, line={"dash": "dash", "width": 1.5},
             hoverinfo="skip"),
    ]  # fmt: skip
    frame = plot.layout(250, AXES[name], "certified error, in standard errors")
    frame["xaxis"] |= {"range": ends, "nticks": 6, "tickformat": "~s" if x.max() >= 1e4 else ""}
    frame["yaxis"] |= {
        "type": "log", "range": [float(low), float(high)], "tickvals": [10.0**k for k in ticks],
        "ticktext": [f"{10.0**k:g}" if k >= -3 else f"1e{k}" for k in ticks],
    }  # fmt: skip
    frame["annotations"] = [{
        "x": 0, "xref": "paper", "xanchor": "left", "y": float(np.log10(tol)), "yanchor": "bottom",
        "text": f"tol {trim(tol, 2)}", "showarrow": False, "font": {"color": plot.ORANGE},
    }]  # fmt: skip
    alt = (
        f"Certified error against {AXES[name]}: at the end {upper(y[-1])} standard errors after "
        f"{number(x[finite][-1])}."
    )
    return Graph(f"convergence-{name}", data, frame, alt, "")
