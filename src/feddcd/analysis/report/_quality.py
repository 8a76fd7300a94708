"""How well the model describes the rows, from sums over bins of predictions only.

No group of weight below SMALL is ever shown: it is joined with its neighbour.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from ..._text import count, number
from .._result import TableResult
from ._plotly import BAND, BLUE, ORANGE, SOFT, Graph, dots, layout, line, plain

Columns = dict[str, np.ndarray]

SMALL = 10.0
GROUPS = 10
Z = 1.959964
SUPPRESSED = f"Neighbouring groups are joined until each weighs at least {SMALL:.0f}."


class Roc(NamedTuple):
    false: np.ndarray  # share of zeros above each threshold, from 0 to 1
    true: np.ndarray  # share of ones
    low: float  # the area if every tie within a group were ranked wrongly
    high: float  # and rightly


def columns(frame: pd.DataFrame) -> Columns:
    return {str(name): frame[name].to_numpy(float) for name in frame.columns}


def join(bins: Columns, least: float = SMALL) -> Columns | None:
    """Neighbours joined until each group weighs `least`; what is left joins the last one.

    None where all rows together weigh less.
    """
    label, sums, group = [], 0.0, 0
    for weight in bins["weight"]:
        label.append(group)
        sums += weight
        if sums >= least:
            sums, group = 0.0, group + 1
    return _sums(bins, np.minimum(label, group - 1)) if group else None


def groups(bins: Columns, count: int = GROUPS) -> Columns | None:
    """At most `count` groups of about equal weight, from low predictions to high ones."""
    weight = bins["weight"]
    if weight.sum() < SMALL:
        return None
    middle = (np.cumsum(weight) - weight / 2) / weight.sum()
    return join(_sums(bins, np.minimum((count * middle).astype(int), count - 1)))


def roc(bins: Columns) -> Roc | None:
    """From the highest predictions down; None where ones or zeros are lacking."""
    parts = join(bins)
    if parts is None:
        return None
    ones = parts["observed"][::-1]
    zeros = np.maximum(parts["weight"][::-1] - ones, 0.0)
    if not (ones.sum() > 0 and zeros.sum() > 0):
        return None
    true = np.append(0.0, np.cumsum(ones) / ones.sum())
    false = np.append(0.0, np.cumsum(zeros) / zeros.sum())
    low = float(np.sum(true[:-1] * np.diff(false)))
    high = float(np.sum(true[1:] * np.diff(false)))
    return Roc(false, true, low, high)


def _sums(bins: Columns, label: np.ndarray) -> Columns:
    """One entry per label, which never falls from one bin to the next."""
    first = np.flatnonzero(np.diff(label, prepend=-1))
    last = np.append(first[1:], len(label)) - 1
    take = {"low": lambda v: v[first], "high": lambda v: v[last]}
    total = lambda v: np.add.reduceat(v, first)
    return {name: take.get(name, total)(v) for name, v in bins.items()}


def calibration(fit: TableResult) -> Graph | None:
    table = calibration_table(fit)
    if table is None:
        return None
    x, y = table["predicted"], table["observed"]
    ends = _ends(np.append(x, y), fit.family == "binomial")
    bar = {"type": "data", "array": plain(table["half"]), "color": BLUE, "thickness": 1.5,
           "width": 3}  # fmt: skip
    hover = [
        f"{count(w)} rows<br>predicted {number(a)}<br>observed {number(b)}"
        for w, a, b in zip(table["weight"], x, y, strict=True)
    ]
    data = [
        line(ends, ends, SOFT, line={"dash": "dot", "width": 1.5}, hoverinfo="skip"),
        dots(x, y, BLUE, 8, error_y=bar, hovertext=hover, hoverinfo="text"),
    ]
    what = "share of ones" if fit.family == "binomial" else "mean"
    frame = layout(340, f"predicted {what}", f"observed {what}")
    frame["xaxis"]["range"] = ends
    alt = (
        f"Calibration in {len(x)} groups; the largest difference between observed and predicted "
        f"{what} is {number(np.max(np.abs(y - x)), 2)}."
    )
    caption = (
        f"Calibration: rows in {count(len(x), 'group')} by prediction. On the dotted line what was "
        f"observed equals what was predicted; bars are 95 % intervals. {SUPPRESSED}"
    )
    return Graph("calibration", data, frame, alt, caption)


def calibration_table(fit: TableResult) -> Columns | None:
    """Mean of prediction and outcome in at most ten groups, and half the width of an interval."""
    table = None if fit.bins is None else groups(columns(fit.bins))
    if table is None:
        return None
    weight = table["weight"]
    observed, mean = table["observed"] / weight, table["predicted"] / weight
    if fit.family == "binomial":
        variance = mean * (1 - mean)
    else:
        variance = mean if fit.family == "poisson" else 0 * mean + fit.dispersion
    half = Z * np.sqrt(np.maximum(variance, 0) / weight)
    return {"weight": weight, "predicted": mean, "observed": observed, "half": half}


def roc_curve(fit: TableResult) -> Graph | None:
    if fit.family != "binomial" or fit.bins is None:
        return None
    curve = roc(columns(fit.bins))
    if curve is None:
        return None
    steps = lambda shape: {"shape": shape, "width": 0}
    data = [
        line(curve.false, curve.true, line=steps("hv"), hoverinfo="skip"),
        line(curve.false, curve.true, line=steps("vh"), fill="tonexty", fillcolor=BAND,
             hoverinfo="skip"),
        line(curve.false, curve.true, hovertemplate="%{y:.3f} of ones at %{x:.3f} of zeros"
             "<extra></extra>"),
        line([0, 1], [0, 1], SOFT, line={"dash": "dot", "width": 1.5}, hoverinfo="skip"),
    ]  # fmt: skip
    frame = layout(340, "share of zeros above the threshold", "share of ones above the threshold")
    frame["xaxis"]["range"] = frame["yaxis"]["range"] = [-0.02, 1.02]
    alt = f"ROC curve with an area between {curve.low:.3f} and {curve.high:.3f}."
    caption = (
        f"ROC curve; the area under it is between {curve.low:.3f} and {curve.high:.3f} (0.5 is "
        "chance, 1 is perfect). It is an interval because the server knows groups of rows, not "
        "their order within a group: the ends are the worst and the best order. It was measured "
        f"on the rows of the fit, which flatters. {SUPPRESSED}"
    )
    return Graph("roc", data, frame, alt, caption)


def residuals(fit: TableResult) -> Graph | None:
    if fit.residual_bins is None:
        return None
    bins = columns(fit.residual_bins)
    table = join(bins)
    if table is None:
        return None
    edges = np.unique(np.append(bins["low"][1:], bins["high"][:-1]))
    step = np.min(np.diff(edges))
    low = np.maximum(table["low"], edges.min() - step)
    high = np.minimum(table["high"], edges.max() + step)
    share = table["weight"] / table["weight"].sum()
    hover = [f"{number(a, 3)} to {number(b, 3)}: {100 * s:.2f} % of rows"
            for a, b, s in zip(table["low"], table["high"], share, strict=True)]  # fmt: skip
    bars = {
        "type": "bar", "x": plain((low + high) / 2), "width": plain(high - low),
        "y": plain(share / (high - low)), "hovertext": hover, "hoverinfo": "text",
        "marker": {"color": "#9cc7e2", "line": {"color": BLUE, "width": 0.8}},
        "textposition": "none",
    }  # fmt: skip
    t = np.linspace(-4.5, 4.5, 121)
    normal = line(t, np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi), ORANGE, hoverinfo="skip")
    frame = layout(340, "residual, in standard deviations", "share of rows per unit")
    middle = share[(table["low"] >= -2) & (table["high"] <= 2)].sum()
    alt = f"Histogram of residuals; {100 * middle:.0f} % of rows are in groups between -2 and 2."
    caption = (
        f"Residuals: observed minus predicted, in standard deviations. {_expect(fit)} The "
        f"outermost groups are open-ended. {SUPPRESSED}"
    )
    return Graph("residuals", [bars, normal], frame, alt, caption)


def _ends(values: np.ndarray, share: bool) -> list[float]:
    low, high = float(values.min()), float(values.max())
    edge = 0.06 * (high - low or 1.0)
    return [max(low - edge, -0.02), min(high + edge, 1.02)] if share else [low - edge, high + edge]


def _expect(fit: TableResult) -> str:
    if fit.family == "gaussian":
        return "If the model holds and noise is normal, they follow the orange curve."
    return "Counts are skewed where they are small, so the orange curve is a rough guide only."
