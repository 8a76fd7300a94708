"""Figures of how well the model describes the rows, from sums over bins only."""

from typing import Any

import numpy as np

from ._bins import SMALL, Columns, columns, groups, joined, roc
from ._numbers import count, number
from ._style import BAND, BLUE, ORANGE, SOFT, Figure, dots, layout, line, plain

Z = 1.959964
SUPPRESSED = f"Neighbouring groups are joined until each weighs at least {SMALL:.0f}."


def calibration(fit: Any) -> Figure | None:
    table = calibration_table(fit)
    if table is None:
        return None
    x, y = table["predicted"], table["observed"]
    ends = _ends(np.append(x, y), fit.family == "binomial")
    bar = {"type": "data", "array": plain(table["half"]), "color": BLUE, "thickness": 1.5,
           "width": 3}  # fmt: skip
    told = [
        f"{count(w)} rows<br>predicted {number(a)}<br>observed {number(b)}"
        for w, a, b in zip(table["weight"], x, y, strict=True)
    ]
    data = [
        line(ends, ends, SOFT, line={"dash": "dot", "width": 1.5}, hoverinfo="skip"),
        dots(x, y, BLUE, 8, error_y=bar, hovertext=told, hoverinfo="text"),
    ]
    what = "share of ones" if fit.family == "binomial" else "mean"
    drawn = layout(340, f"predicted {what}", f"observed {what}")
    drawn["xaxis"]["range"] = ends
    alt = (
        f"Calibration in {len(x)} groups; the largest difference between observed and predicted "
        f"{what} is {number(np.max(np.abs(y - x)), 2)}."
    )
    caption = (
        f"Calibration: rows in {count(len(x), 'group')} by prediction. On the dotted line what was "
        f"observed equals what was predicted; bars are 95 % intervals. {SUPPRESSED}"
    )
    return Figure("calibration", data, drawn, alt, caption)


def calibration_table(fit: Any) -> Columns | None:
    """Mean of prediction and outcome in at most ten groups, and half the width of an interval."""
    table = None if fit.bins_ is None else groups(columns(fit.bins_))
    if table is None:
        return None
    weight = table["weight"]
    observed, mean = table["observed"] / weight, table["predicted"] / weight
    if fit.family == "binomial":
        variance = mean * (1 - mean)
    else:
        variance = mean if fit.family == "poisson" else 0 * mean + fit.dispersion_
    half = Z * np.sqrt(np.maximum(variance, 0) / weight)
    return {"weight": weight, "predicted": mean, "observed": observed, "half": half}


def roc_curve(fit: Any) -> Figure | None:
    found = roc(columns(fit.bins_)) if fit.family == "binomial" else None
    if found is None:
        return None
    steps = lambda shape: {"shape": shape, "width": 0}
    data = [
        line(found.false, found.true, line=steps("hv"), hoverinfo="skip"),
        line(found.false, found.true, line=steps("vh"), fill="tonexty", fillcolor=BAND,
             hoverinfo="skip"),
        line(found.false, found.true, hovertemplate="%{y:.3f} of ones at %{x:.3f} of zeros"
             "<extra></extra>"),
        line([0, 1], [0, 1], SOFT, line={"dash": "dot", "width": 1.5}, hoverinfo="skip"),
    ]  # fmt: skip
    drawn = layout(340, "share of zeros above the threshold", "share of ones above the threshold")
    drawn["xaxis"]["range"] = drawn["yaxis"]["range"] = [-0.02, 1.02]
    alt = f"ROC curve with an area between {found.low:.3f} and {found.high:.3f}."
    caption = (
        f"ROC curve; the area under it is between {found.low:.3f} and {found.high:.3f} (0.5 is "
        "chance, 1 is perfect). It is an interval because the server knows groups of rows, not "
        "their order within a group: the ends are the worst and the best order. It was measured "
        f"on the rows of the fit, which flatters. {SUPPRESSED}"
    )
    return Figure("roc", data, drawn, alt, caption)


def residuals(fit: Any) -> Figure | None:
    if fit.residual_bins_ is None:
        return None
    bins = columns(fit.residual_bins_)
    table = joined(bins)
    if table is None:
        return None
    edges = np.unique(np.append(bins["low"][1:], bins["high"][:-1]))
    step = np.min(np.diff(edges))
    low = np.maximum(table["low"], edges.min() - step)
    high = np.minimum(table["high"], edges.max() + step)
    share = table["weight"] / table["weight"].sum()
    told = [f"{number(a, 3)} to {number(b, 3)}: {100 * s:.2f} % of rows"
            for a, b, s in zip(table["low"], table["high"], share, strict=True)]  # fmt: skip
    bars = {
        "type": "bar", "x": plain((low + high) / 2), "width": plain(high - low),
        "y": plain(share / (high - low)), "hovertext": told, "hoverinfo": "text",
        "marker": {"color": "#9cc7e2", "line": {"color": BLUE, "width": 0.8}},
        "textposition": "none",
    }  # fmt: skip
    t = np.linspace(-4.5, 4.5, 121)
    normal = line(t, np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi), ORANGE, hoverinfo="skip")
    drawn = layout(340, "residual, in standard deviations", "share of rows per unit")
    middle = share[(table["low"] >= -2) & (table["high"] <= 2)].sum()
    alt = f"Histogram of residuals; {100 * middle:.0f} % of rows are in groups between -2 and 2."
    caption = (
        f"Residuals: observed minus predicted, in standard deviations. {_expect(fit)} The "
        f"outermost groups are open-ended. {SUPPRESSED}"
    )
    return Figure("residuals", [bars, normal], drawn, alt, caption)


def _ends(values: np.ndarray, share: bool) -> list[float]:
    low, high = float(values.min()), float(values.max())
    edge = 0.06 * (high - low or 1.0)
    return [max(low - edge, -0.02), min(high + edge, 1.02)] if share else [low - edge, high + edge]


def _expect(fit: Any) -> str:
    if fit.family == "gaussian":
        return "If the model holds and noise is normal, they follow the orange curve."
    return "Counts are skewed where they are small, so the orange curve is a rough guide only."
