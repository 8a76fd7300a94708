"""One panel each: gap, accuracy, certificate and dual residual against rounds or uploads."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ._entry import Entry, best_bound, gap
from ._style import INK, Line, counts, decades, styles, titles

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SMALLEST = 1e-16
AXES = {"round": "rounds", "uploads": "uploads", "bytes_up": "bytes sent by clients"}


def progress(ax: "Axes", entries: Sequence[Entry], x: str) -> list[Line]:
    """The proven gap of each run, or the objective where nothing is proven."""
    best = best_bound(entries)
    if np.isnan(best):
        lines = draw(ax, entries, x, [entry.history["objective"] for entry in entries])
        name = "objective F(w)/N"
    else:
        values = [np.maximum(gap(entry, best), SMALLEST) for entry in entries]
        lines = draw(ax, entries, x, values)
        name = "proven bound on F(w)/N − F*/N"
    values = np.concatenate([line.y for line in lines])
    if len(values) and values.min() > 0:
        decades(ax)
    _ceiling(ax, lines)
    titles(ax, AXES[x], name)
    return lines


def accuracy(ax: "Axes", entries: Sequence[Entry], x: str = "round") -> list[Line]:
    lines = draw(ax, entries, x, [100 * entry.history["accuracy"] for entry in entries])
    if not any(len(line.y) for line in lines):
        note = "no accuracy was recorded"
        ax.text(0.5, 0.5, note, color=INK, ha="center", transform=ax.transAxes)
    titles(ax, AXES[x], "accuracy, %")
    return lines


def certificate(ax: "Axes", entry: Entry) -> None:
    """The true gap lies in the band under what the final bound proves."""
    line, colour = progress(ax, [entry], "round")[0], _colour(entry)
    if np.isnan(best_bound([entry])) or not len(line.y):
        return
    bottom = ax.get_ylim()[0]
    ax.fill_between(line.x, line.y, bottom, color=colour, alpha=0.16, linewidth=0)
    then = np.maximum(entry.history["certified_gap"], SMALLEST)
    known = np.isfinite(then)
    ax.plot(entry.history["round"][known], then[known], ":", color=INK, linewidth=1.4)
    ax.set_ylim(bottom, None)


def residual(ax: "Axes", entry: Entry) -> None:
    values = np.maximum(entry.history["dual_residual"], SMALLEST)
    draw(ax, [entry], "round", [values])
    decades(ax)
    titles(ax, "rounds", "dual residual |Σ y|")


def draw(ax: "Axes", entries: Sequence[Entry], x: str, values: Sequence[np.ndarray]) -> list[Line]:
    """A line per entry through its finite values; a single value is a dot."""
    lines = []
    looks = styles([entry.label for entry in entries])
    for entry, y, (colour, dash) in zip(entries, values, looks, strict=True):
        known = np.isfinite(y)
        at, y = entry.history[x][known].astype(float), y[known]
        marker = "o" if len(y) == 1 else ""
        (artist,) = ax.plot(at, y, dash, color=colour, marker=marker, markersize=5, linewidth=1.9)
        lines.append(Line(entry.label, at, y, artist))
    counts(ax)
    return lines


def _ceiling(ax: "Axes", lines: Sequence[Line]) -> None:
    """A run that diverges must not flatten the others: end ten times above the starts."""
    starts = [line.y[0] for line in lines if len(line.y) > 1]
    tops = [line.y.max() for line in lines if len(line.y) > 1]
    if starts and min(starts) > 0 and max(tops) > 10 * max(starts):
        ax.set_ylim(None, 10 * max(starts))


def _colour(entry: Entry) -> str:
    return styles([entry.label])[0][0]
