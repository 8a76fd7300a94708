"""The paper's figures: a panel per problem, a series per method, medians and bands over the seeds,
the authors' own runs, and what is off the axis."""

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._errors import SpecError
from ..report.figures import FONT, INK, blank, counts, decades, settle, titles
from ..report.methods import look, title
from ._tables import BEST_SEEN, OTHER, VECTORS, problem_title

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ._bench import RunCurve

ITERATIONS = "iterations (as the paper counts)"
SENT = "vectors that the clients sent"
ORDER = ("rcv1-softmax", "mnist-softmax", "mnist-mlp")
DOTTED = "dotted: the authors’ own run"
BAND = "band: all seeds"
BELOW = "triangle: below the axis"
CROSS = "cross: a run diverged"
SMALLEST = 1e-16


class Series(NamedTuple):
    """A method's curves, one row per seed: nan where there is no value, inf once a run has
    diverged. `overlay` is the authors' own run at the first of the same x."""

    label: str
    algorithm: str
    x: np.ndarray
    curves: np.ndarray
    overlay: np.ndarray | None = None


class Panel(NamedTuple):
    title: str
    y_title: str
    lines: list[Series]
    log: bool = True
    note: str = ""
    x_title: str = ITERATIONS


Curves = Mapping[str, Mapping[str, Sequence["RunCurve"]]]  # by problem and algorithm, per seed
Gaps = Mapping[str, Mapping[str, np.ndarray]]  # of the authors, by problem and algorithm


def gap_panels(
    curves: Curves,
    data: Mapping[str, str],
    authors: Gaps | None = None,
    *,
    uploads: bool = False,
    notes: Mapping[str, str] | None = None,
) -> list[Panel]:
    """A panel per problem that was run, in the paper's order; `data` is what each was run on.
    On other data than the paper's, the authors' curves are left out."""
    rank = {problem: k for k, problem in enumerate(ORDER)}
    made = []
    for problem in sorted(curves, key=lambda p: rank.get(p, len(rank))):
        theirs = {} if data[problem] in OTHER else (authors or {}).get(problem, {})
        lines = [
            _series(algorithm, runs, theirs.get(algorithm), uploads)
            for algorithm, runs in curves[problem].items()
        ]
        name, x_title = (
            problem_title(problem, data[problem]),
            SENT if uploads else ITERATIONS,
        )
        note = _note(data[problem], (notes or {}).get(problem, ""))
        made.append(Panel(name, _y_title(problem), lines, True, note, x_title))
    return made


def _series(algorithm: str, runs: Sequence["RunCurve"], overlay, uploads: bool) -> Series:
    n = max(len(run.objective) for run in runs)
    gaps = np.full((len(runs), n), np.nan)
    for row, run in zip(gaps, runs, strict=True):
        gap = run.objective - run.optimum
        row[: len(gap)] = np.where(np.isnan(gap), np.inf, gap)
    longest = max(runs, key=lambda run: len(run.objective))
    sent = lambda: longest.uploads * VECTORS.get(algorithm, 1)
    x = np.asarray(sent() if uploads else np.arange(1, n + 1), float)
    return Series(title(algorithm), algorithm, x, gaps, overlay)


def _y_title(problem: str) -> str:
    if problem in BEST_SEEN:
        return f"gap to {BEST_SEEN[problem]}, the authors’ best value"
    return "objective" if problem.endswith("mlp") else "gap to the optimum"


def _note(data: str, more: str) -> str:
    if data not in OTHER:
        return more
    return (
        f"These runs use {data}, not {OTHER[data]}, so the figure has no curves of the "
        f"authors. {more}"
    ).strip()


def paper_figure(panels: Sequence[Panel], whole: bool = True) -> "Figure":
    """Panels side by side: medians over the seeds, bands from the lowest to the highest. `whole`:
    with the legend and the notes, which a page sets as text."""
    if not panels:
        raise SpecError("there are no results to draw")
    entries = _legend(panels) if whole else {}
    columns = min(5, 2 * len(panels))
    wrapped = [textwrap.wrap(panel.note, 62) if whole else [] for panel in panels]
    room = max(map(len, wrapped))
    figure, axes = blank(len(panels), 0.25 + 0.21 * (room - (-len(entries) // columns)))
    for ax, panel, note in zip(axes, panels, wrapped, strict=True):
        _lines(ax, panel)
        place: Any = {"xycoords": "axes fraction", "textcoords": "offset points", "color": INK}
        ax.annotate(panel.title, (0, 1), (0, 25), weight="bold", fontsize=FONT + 1, **place)
        titles(ax, panel.x_title + "\n" * room, panel.y_title)
        text = ax.annotate("\n".join(note), (0, 0), (0, -36), va="top", fontsize=FONT - 1, **place)
        text.set_in_layout(False)  # its room is in the x title
    if entries:
        figure.legend(
            list(entries.values()), list(entries), loc="outside lower center", ncols=columns,
            frameon=False, fontsize=FONT, labelcolor=INK, handlelength=2.2, columnspacing=1.5,
        )  # fmt: skip
    return settle(figure)


def _lines(ax: "Axes", panel: Panel) -> None:
    floor, bottom, top = _limits(panel)
    for one in panel.lines:
        _, colour, dash = look(one.algorithm)
        low, middle, high = spread(one.curves)
        if len(one.curves) > 1:
            there, ends = np.isfinite(low), np.clip([low, high], floor, None)
            ax.fill_between(one.x, *ends, where=there, color=colour, alpha=0.15, linewidth=0)
        if one.overlay is not None:
            y = np.clip(one.overlay[: len(one.x)], floor, None)
            ax.plot(one.x[: len(y)], y, color=colour, linewidth=1.2, linestyle=(0, (1, 1.6)))
        there = np.isfinite(middle)
        x, y = one.x[there], np.clip(middle[there], floor, None)
        marker = "o" if len(y) == 1 else ""
        ax.plot(x, y, dash, color=colour, marker=marker, markersize=5, linewidth=1.9)
        sunk = np.flatnonzero(y <= floor)[:: max(1, len(one.x) // 12)]
        if len(sunk):
            ax.plot(x[sunk], y[sunk], "v", color=colour, markersize=6, clip_on=False, zorder=3)
        for curve in one.curves[np.isinf(one.curves).any(1)]:
            last = max(int(np.argmax(np.isinf(curve))) - 1, 0)
            at = one.x[last], np.clip(curve[last], bottom, top)
            ax.plot(*at, "x", color=colour, markersize=8, mew=2, clip_on=False, zorder=4)
    counts(ax)
    ax.set_ylim(bottom, top)
    if panel.log:
        decades(ax)


def spread(curves: np.ndarray) -> list[np.ndarray]:
    """Lowest, median and highest over the seeds, where more than half have a value. A run
    that has diverged is the worst for the median, and leaves the band."""
    enough = 2 * (~np.isnan(curves)).sum(0) > len(curves)
    sound = np.where(np.isinf(curves), -np.inf, curves)
    pairs = ((np.nanmin, curves), (np.nanmedian, curves), (np.nanmax, sound))
    out = [np.full(curves.shape[1], np.nan) for _ in pairs]
    for row, (of, values) in zip(out, pairs, strict=True):
        row[enough] = of(values[:, enough], axis=0)
    return out


def _limits(panel: Panel) -> tuple[float, float, float]:
    """The value below which lines are clipped, and the ends of the y axis. A run that diverges
    must not flatten the others: the axis ends ten times above the starts."""
    drawn = [np.concatenate(spread(one.curves)) for one in panel.lines]
    drawn += [one.overlay[: len(one.x)] for one in panel.lines if one.overlay is not None]
    values = np.concatenate([np.zeros(0), *drawn])
    values = values[np.isfinite(values)]
    if not len(values):
        return -math.inf, 0.1, 1.0
    low, high = values.min(), values.max()
    if not panel.log:
        margin = 0.05 * (high - low) or 1.0
        return -math.inf, low - margin, high + margin
    floor = -math.inf
    if low <= 0:
        # near its zero a gap passes through any size: what counts is how large most are
        floor = low = 10.0 ** np.floor(np.log10(max(SMALLEST, np.quantile(abs(values), 0.05))))
    starts = [y[np.isfinite(y)][:1] for y in (spread(one.curves)[1] for one in panel.lines)]
    high = max(min(high, 10 * max(np.concatenate(starts), default=high)), low)
    return floor, low if low == floor else low / 1.3, max(1.3 * high, 10 * low)


def _legend(panels: Sequence[Panel]) -> dict[str, Any]:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    artists: dict[str, Any] = {}
    for one in (one for panel in panels for one in panel.lines):
        _, colour, dash = look(one.algorithm)
        artists[one.label] = Line2D([], [], color=colour, ls=dash, linewidth=1.9)
    looks = {
        DOTTED: Line2D([], [], color=INK, linewidth=1.2, linestyle=(0, (1, 1.6))),
        BAND: Patch(color=INK, alpha=0.2, linewidth=0),
        BELOW: Line2D([], [], color=INK, marker="v", linestyle=""),
        CROSS: Line2D([], [], color=INK, marker="x", linestyle="", mew=2),
    }
    return artists | {mark: looks[mark] for mark in marks(panels)}


def marks(panels: Sequence[Panel]) -> list[str]:
    """What else is drawn, in words."""
    lines = [one for panel in panels for one in panel.lines]
    there = {
        DOTTED: any(one.overlay is not None for one in lines),
        BAND: any(len(one.curves) > 1 for one in lines),
        BELOW: any(
            (spread(one.curves)[1] <= _limits(panel)[0]).any()
            for panel in panels
            for one in panel.lines
        ),
        CROSS: any(np.isinf(one.curves).any() for one in lines),
    }
    return [mark for mark, drawn in there.items() if drawn]
