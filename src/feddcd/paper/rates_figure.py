"""Theory against measurement: contraction for each τ, and the worst case with its lower bound."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..report import figures
from ..report.figures import LabelledLine
from ..report.methods import Look, looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from .rates import Contraction, Curve

LOWEST = 1e-5


def figure(
    contractions: Sequence["Contraction"], curves: Sequence["Curve"], least: np.ndarray
) -> "Figure":
    """`least[t]` is what no method's mean gap can be below after t exchanges."""
    names = list(dict.fromkeys(curve.method for curve in curves))
    figure, (left, right) = figures.blank(2, extra=figures.legend_height(names, 2) + 0.1)
    look = dict(zip(names, looks(names), strict=True))
    _contractions(left, contractions, look)
    figures.below(figure, _gaps(right, curves, least, look))
    return figures.settle(figure)


def _contractions(ax: "Axes", found: Sequence["Contraction"], look: dict[str, Look]) -> None:
    taus = sorted({row.tau for row in found})
    for name in dict.fromkeys(row.method for row in found):
        rows = [row for row in found if row.method == name]
        x, colour = [row.tau for row in rows], look[name].colour
        ax.plot(x, [row.bound for row in rows], "--", color=colour, linewidth=1.4)
        ax.plot(x, [row.measured for row in rows], "-o", color=colour, linewidth=1.9, markersize=5)
    ax.set_xscale("log")
    ax.set_xticks(taus, [str(tau) for tau in taus])
    ax.minorticks_off()
    ax.set_ylim(None, 1.005)
    note = "a round of AccFedDCD\nhas two cohorts"
    ax.text(0.04, 0.06, note, color=figures.INK, fontsize=figures.FONT - 1, transform=ax.transAxes)
    name = "error after a round / before it (dashed: the bound)"
    figures.titles(ax, f"clients in a round, out of {max(taus)}", name)


def _gaps(
    ax: "Axes", curves: Sequence["Curve"], least: np.ndarray, look: dict[str, Look]
) -> list[LabelledLine]:
    lines = []
    for curve in curves:
        _, colour, dash = look[curve.method]
        t, y = _until(curve.mean)
        width = 1 + 2 * curve.error[t] / y
        ax.fill_between(t, y / width, y * width, color=colour, alpha=0.16, linewidth=0)
        (artist,) = ax.plot(t, y, dash, color=colour, linewidth=1.9)
        lines.append(LabelledLine(curve.method, t, y, artist))
    t, y = _until(least)
    ax.plot(t, y, "-", color=figures.INK, linewidth=2.4)
    ax.fill_between(t, y, LOWEST / 10, color=figures.INK, alpha=0.1, linewidth=0)
    note = "lower bound:\nno method can\nreach this area"
    ax.text(0.06, 0.1, note, color=figures.INK, fontsize=figures.FONT - 1, transform=ax.transAxes)
    ax.set_ylim(LOWEST, 2)
    figures.decades(ax)
    ax.set_xscale("log")
    ax.set_xlim(1, None)
    ax.xaxis.set_major_formatter(lambda x, _: figures.short(x))
    ax.tick_params(axis="x", which="minor", length=0)
    figures.titles(ax, "exchanges", "gap on the worst-case chain / gap at the start")
    return lines


def _until(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """From round 1 on, while above the lowest line of the panel, and one more."""
    low = np.flatnonzero(values < LOWEST)
    end = low[0] + 1 if len(low) else len(values)
    t = _thin(end)
    return t, values[t]


def _thin(end: int) -> np.ndarray:
    """About 200 rounds from 1 to end - 1, evenly on a log axis."""
    return np.unique(np.geomspace(1, end - 1, 200).round().astype(int))


def write_csv(
    path: str | Path,
    contractions: Sequence["Contraction"],
    curves: Sequence["Curve"],
    least: np.ndarray,
    tau: int,
) -> None:
    """The numbers of the figure; `measured` is the contraction or the gap."""
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        header = ("experiment", "method", "tau", "exchanges", "measured", "error", "bound")
        writer.writerow(header)
        for row in contractions:
            writer.writerow(["contraction", row.method, row.tau, "", row.measured, "", row.bound])
        for curve in curves:
            for t in (0, *_thin(len(curve.mean))):
                numbers = (curve.mean[t], curve.error[t], least[t])
                writer.writerow(["chain", curve.method, tau, t, *map(float, numbers)])
