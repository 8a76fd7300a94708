"""How well the model describes the rows, from sums over bins of predictions only.

No group of weight below SMALL is ever shown: it is joined with its neighbour.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from ..._text import count, number
from ...report import charts, page
from .._result import TableResult

Columns = dict[str, np.ndarray]

SMALL = 10.0
GROUPS = 10
Z = 1.959964
SUPPRESSED = (
    "Small groups are joined with their neighbours until each group has at least "
    f"{SMALL:.0f} rows (if rows have weights: weights with a sum of at least {SMALL:.0f})."
)


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


def calibration(fit: TableResult) -> str:
    """The figure; empty where there are too few rows, as for those below."""
    table = calibration_table(fit)
    if table is None:
        return ""
    x, y, half = table["predicted"], table["observed"], table["half"]
    least, most = _inside(y - half, y + half, fit)
    low, high = _ends(np.concatenate([x, least, most]))
    hover = [
        f"{count(w, 'row')}: predicted {number(a)}, observed {number(b)}"
        for w, a, b in zip(table["weight"], x, y, strict=True)
    ]
    marks = [
        charts.line([low, high], [low, high], "soft dotted"),
        charts.whiskers(x, least, most),
        charts.dots(x, y, hover),
    ]
    what = "share of events" if fit.family == "binomial" else "mean"
    names = (f"predicted {what}", f"observed {what}")
    alt = (
        f"Calibration in {count(len(x), 'group')}; the largest difference between observed and "
        f"predicted {what} is {number(np.max(np.abs(y - x)), 2)}."
    )
    caption = (
        f"Calibration: the rows are divided into {count(len(x), 'group')} by their prediction. On "
        "the dotted line, the observed value equals the predicted value. The rows are counted "
        f"{_ranges(fit)}. feddcd joins neighbouring ranges to groups with about a tenth of "
        "the rows each. feddcd does not divide a range, so the groups can have different numbers "
        "of rows. "
        f"{_bars(fit)} {SUPPRESSED}"
    )
    axis = charts.linear(low, high)
    return page.figure(charts.chart(axis, axis, names, marks, alt), caption)


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
    if fit.overdispersed:
        variance = variance * fit.pearson / fit.df_residual
    half = Z * np.sqrt(np.maximum(variance, 0) / weight)
    return {"weight": weight, "predicted": mean, "observed": observed, "half": half}


def roc_curve(fit: TableResult) -> str:
    curve = roc(columns(fit.bins)) if fit.family == "binomial" and fit.bins is not None else None
    if curve is None:
        return ""
    hover = [
        f"above the threshold: {b:.3f} of the rows with the event, and {a:.3f} of the other rows"
        for a, b in zip(curve.false, curve.true, strict=True)
    ]
    marks = [
        _orders(curve),
        charts.line([0, 1], [0, 1], "soft dotted"),
        charts.line(curve.false, curve.true),
        charts.dots(curve.false, curve.true, hover, size=2.5),
    ]
    alt = f"ROC curve with an area between {curve.low:.3f} and {curve.high:.3f}."
    caption = (
        f"ROC curve. The area under the curve is between {curve.low:.3f} and {curve.high:.3f} "
        "(0.5 is chance, 1 is perfect). feddcd cannot compute this area exactly, because feddcd "
        "uses only sums over groups of rows with similar predictions, and does not know the order "
        "of the rows inside a group. The lower limit is the area for the worst possible order, and "
        "the upper limit is the area for the best one. In the figure, the dots are the thresholds "
        "between the groups. The curve of "
        f"each possible order is inside the light blue area. {_joined(fit)}The area under the "
        "curve was measured on the rows with which the model was fitted. For new rows this area "
        f"is usually smaller. {SUPPRESSED}"
    )
    axis = charts.linear(-0.02, 1.02)
    without, having = (
        f"rows {x} the event: share above the threshold" for x in ("without", "with")
    )
    return page.figure(charts.chart(axis, axis, (without, having), marks, alt), caption)


def _joined(fit: TableResult) -> str:
    """In one table, no site protects its rows."""
    if fit.pooled:
        return ""
    return (
        "If a site joins groups of its rows to protect these rows, both limits and the light blue "
        "area are approximate. "
    )


def _orders(curve: Roc) -> charts.Mark:
    """Between the curve that first goes across and the one that first goes up."""
    steps = np.repeat(curve.true, 2)
    worst, best = np.append(curve.true[0], steps[:-1]), np.append(steps[1:], curve.true[-1])
    return charts.area(np.repeat(curve.false, 2), worst, best)


def residuals(fit: TableResult) -> str:
    bins = None if fit.residual_bins is None else columns(fit.residual_bins)
    table = None if bins is None else join(bins)
    if bins is None or table is None:
        return ""
    edges = np.unique(np.append(bins["low"][1:], bins["high"][:-1]))
    step = np.min(np.diff(edges))
    low = np.maximum(table["low"], edges.min() - step)
    high = np.minimum(table["high"], edges.max() + step)
    share = table["weight"] / table["weight"].sum()
    top = share / (high - low)
    hover = [
        f"{number(a, 3)} to {number(b, 3)}: {100 * s:.2f} % of rows"
        for a, b, s in zip(table["low"], table["high"], share, strict=True)
    ]
    t = np.linspace(-4.5, 4.5, 121)
    normal = np.exp(-(t**2) / 2) / np.sqrt(2 * np.pi)
    marks = [charts.bars(low, high, top, hover), charts.line(t, normal, "orange")]
    across = charts.linear(min(low.min(), -4.5), max(high.max(), 4.5), most=8)
    up = charts.linear(0.0, 1.08 * max(top.max(), normal.max()))
    names = ("residual, in standard deviations", "share of rows per unit")
    middle = share[(table["low"] >= -2) & (table["high"] <= 2)].sum()
    alt = f"Histogram of residuals; {100 * middle:.0f} % of rows are in groups between -2 and 2."
    caption = (
        f"Residuals: observed minus predicted, in standard deviations. {_expect(fit)} "
        "The first group also contains all smaller residuals, and the last group also contains "
        f"all larger residuals. {SUPPRESSED}"
    )
    return page.figure(charts.chart(across, up, names, marks, alt), caption)


def _ranges(fit: TableResult) -> str:
    width = "" if fit.family in ("binomial", "gaussian") else " on the logarithmic scale"
    ends = "; the first and the last range have no outer limit" * (fit.family != "binomial")
    bins = 0 if fit.bins is None else len(fit.bins)
    return f"in {bins} ranges of the prediction, of equal width{width}{ends}"


def _bars(fit: TableResult) -> str:
    """How long they are, by `calibration_table`."""
    root, of = {
        "binomial": ("√(p (1 − p) / rows)", ", with the mean prediction p of the group"),
        "poisson": ("√(m / rows)", ", with the mean prediction m of the group"),
    }.get(fit.family, ("√(dispersion / rows)", ""))
    wide = ", which allow for the over-dispersion of the outcomes" if fit.overdispersed else ""
    root += " × √(Pearson’s X² / df)" if fit.overdispersed else ""
    ends = {"binomial": " No bar goes below 0 or above 1.", "poisson": " No bar goes below 0."}
    told = f"The bars are 95 % intervals{wide}: observed ± {Z:.2f} × {root}{of}."
    return told + ends.get(fit.family, "" if fit.family == "gaussian" else ends["poisson"])


def _inside(low: np.ndarray, high: np.ndarray, fit: TableResult) -> tuple[np.ndarray, np.ndarray]:
    """Ends of intervals where a mean can be: a share is between 0 and 1, a count is not below 0."""
    if fit.family == "gaussian":
        return low, high
    most = 1.0 if fit.family == "binomial" else np.inf
    return np.maximum(low, 0.0), np.minimum(high, most)


def _ends(values: np.ndarray) -> list[float]:
    low, high = float(values.min()), float(values.max())
    edge = 0.06 * (high - low or 1.0)
    return [low - edge, high + edge]


def _expect(fit: TableResult) -> str:
    if fit.family == "gaussian":
        return (
            "If the model is right and the noise is normal, the residuals follow the orange curve."
        )
    return (
        "The residuals of small counts are not symmetric, so they follow the orange curve only "
        "approximately."
    )
