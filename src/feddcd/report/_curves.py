"""Figures of one run and of several: gap, accuracy, certificate and dual residual."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from . import figures
from ._entry import RunEntry, best_bound, gap, has, names_of
from ._numbers import has_own_score
from .figures import LabelledLine
from .methods import looks

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SMALLEST = 1e-16
AXES = {"round": "rounds", "bytes_up": "MB sent by the clients"}


class View(NamedTuple):
    """One panel: against which column, how it is drawn, and what it shows in words."""

    x: str
    draw: Callable[["Axes"], list[LabelledLine]]
    caption: str = ""
    column: str = "objective"  # of the history


def curves(entries: Sequence[RunEntry], *, title: str = "") -> "Figure":
    """The proven gap against rounds and against the bytes that the clients sent, side by side."""
    return _figure(entries, [_progress(entries, "round"), _progress(entries, "bytes_up")], title)


def accuracy(entries: Sequence[RunEntry]) -> "Figure":
    return _figure(entries, [_accuracy(entries)])


def single(entry: RunEntry) -> "Figure":
    """One run: the certificate, and accuracy and dual residual where there are any."""
    return _figure([entry], _of_one(entry))


def panels(entries: Sequence[RunEntry], kind: str) -> list[tuple["Figure", str]]:
    """The same panels one by one with their captions, for a page that is one panel wide. Of one
    run a single number is no curve: it stands among the numbers."""
    if kind == "run":
        history = entries[0].history
        views = [v for v in _of_one(entries[0]) if np.isfinite(history[v.column]).sum() > 1]
    else:
        views = _of_several(entries)
    return [(_figure(entries, [view]), view.caption) for view in views]


def accuracy_means(entry: RunEntry) -> str:
    """What the accuracy of this run counts, and on which data."""
    what = entry.summary.get("accuracy_is", "share of right labels")
    return f"the {what} on the {entry.summary.get('accuracy_of', 'data')}"


def _score(entry: RunEntry) -> str:
    return "Score" if has_own_score(entry) else "Accuracy"


def _of_one(entry: RunEntry) -> list[View]:
    if has(entry, "lower_bound"):
        caption = (
            "The figure shows how far the model can be from the best possible model. "
            "The true distance is in the shaded band. The dotted line is the bound that "
            "was proven in each round."
        )
    else:
        caption = "The objective after each round; lower is better."
    views = [View("round", lambda ax: _draw_certificate(ax, entry), caption)]
    if has(entry, "accuracy"):
        views.append(_accuracy([entry], f"{_score(entry)}: {accuracy_means(entry)}."))
    if has(entry, "dual_residual"):
        caption = (
            "The method must keep a sum over all clients, the conserved sum, at zero. The figure "
            "shows how far this sum is from zero. The distance should stay as small as rounding "
            "errors."
        )
        views.append(View("round", lambda ax: _draw_residual(ax, entry), caption, "dual_residual"))
    return views


def _of_several(entries: Sequence[RunEntry]) -> list[View]:
    proven = any(has(entry, "lower_bound") for entry in entries)
    what = (
        f"Each line is {'an upper bound on the true gap' if proven else 'the objective'} of a run"
    )
    if (runs := max(entry.runs for entry in entries)) > 1:
        what = f"Medians over {runs} seeds. Half of the runs are in the shaded band. {what}"
    cost = f"{what}. The horizontal axis shows the bytes that the clients sent."
    views = [
        _progress(entries, "round", f"{what} after each round. Lower is better."),
        _progress(entries, "bytes_up", cost),
    ]
    if any(has(entry, "accuracy") for entry in entries):
        what = f"{_score(entries[0])}, {accuracy_means(entries[0])}"
        caption = f"{what}, after each round. Higher is better."
        views.append(_accuracy(entries, caption))
    return views


def _progress(entries: Sequence[RunEntry], x: str, caption: str = "") -> View:
    return View(x, lambda ax: _draw_progress(ax, entries, x), caption)


def _accuracy(entries: Sequence[RunEntry], caption: str = "") -> View:
    return View("round", lambda ax: _draw_accuracy(ax, entries), caption, "accuracy")


def _figure(entries: Sequence[RunEntry], views: Sequence[View], title: str = "") -> "Figure":
    names = names_of(entries)
    ends = [[entry.history.last(view.x) for entry in entries] for view in views]
    legend = len(names) > 1 and not figures.fits(names, ends)
    extra = figures.legend_height(names, len(views)) if legend else 0.0
    figure, axes = figures.blank(len(views), extra + (0.3 if title else 0.0))
    lines = [view.draw(ax) for ax, view in zip(axes, views, strict=True)]
    if legend:
        figures.below(figure, lines[0])
    else:
        for ax, own in zip(axes, lines, strict=True):
            figures.at_ends(ax, own)
    if title:
        figure.suptitle(title, color=figures.INK, fontsize=figures.FONT + 2, parse_math=False)
    return figures.settle(figure)


def _draw_progress(ax: "Axes", entries: Sequence[RunEntry], x: str) -> list[LabelledLine]:
    """The proven gap of each run, or the objective where nothing is proven."""
    best = best_bound(entries)
    if np.isnan(best):
        lines = _draw(ax, entries, x, [entry.history["objective"] for entry in entries])
        _shade(ax, entries, lines, x, "objective", lambda y: y)
        name = "objective F(w)/N"
    else:
        values = [np.maximum(gap(entry, best), SMALLEST) for entry in entries]
        lines = _draw(ax, entries, x, values)
        _shade(ax, entries, lines, x, "objective", lambda y: np.maximum(y - best, SMALLEST))
        name = "proven bound on F(w)/N − F*/N"
    values = np.concatenate([line.y for line in lines])
    if len(values) and values.min() > 0:
        figures.decades(ax)
    _lower_ceiling(ax, lines)
    figures.titles(ax, AXES[x], name)
    return lines


def _draw_accuracy(ax: "Axes", entries: Sequence[RunEntry]) -> list[LabelledLine]:
    own = has_own_score(entries[0])
    unit = 1 if own else 100
    lines = _draw(ax, entries, "round", [unit * entry.history["accuracy"] for entry in entries])
    _shade(ax, entries, lines, "round", "accuracy", lambda y: unit * y)
    if not any(len(line.y) for line in lines):
        note = "no accuracy was recorded"
        ax.text(0.5, 0.5, note, color=figures.INK, ha="center", transform=ax.transAxes)
    figures.titles(ax, AXES["round"], "score" if own else "accuracy, %")
    return lines


def _draw_certificate(ax: "Axes", entry: RunEntry) -> list[LabelledLine]:
    """The true gap lies in the band under what the final bound proves."""
    (line,) = _draw_progress(ax, [entry], "round")
    if np.isnan(best_bound([entry])) or not len(line.y):
        return [line]
    bottom = ax.get_ylim()[0]
    colour = line.artist.get_color()
    ax.fill_between(line.x, line.y, bottom, color=colour, alpha=0.16, linewidth=0)
    then = np.maximum(entry.history["certified_gap"], SMALLEST)
    known = np.isfinite(then)
    ax.plot(entry.history["round"][known], then[known], ":", color=figures.INK, linewidth=1.4)
    ax.set_ylim(bottom, None)
    return [line]


def _draw_residual(ax: "Axes", entry: RunEntry) -> list[LabelledLine]:
    values = np.maximum(entry.history["dual_residual"], SMALLEST)
    lines = _draw(ax, [entry], "round", [values])
    figures.decades(ax)
    figures.titles(ax, AXES["round"], "dual residual")
    return lines


def _draw(
    ax: "Axes", entries: Sequence[RunEntry], x: str, values: Sequence[np.ndarray]
) -> list[LabelledLine]:
    """A line per entry through its finite values; a single value is a dot."""
    lines = []
    own = looks([entry.label for entry in entries])
    for entry, name, y, look in zip(entries, names_of(entries), values, own, strict=True):
        known = np.isfinite(y)
        at, y = entry.history[x][known].astype(float), y[known]
        if x == "bytes_up":
            at = at / 1e6
        marker = "o" if len(y) == 1 else ""
        style = {"color": look.colour, "marker": marker, "markersize": 5, "linewidth": 1.9}
        (artist,) = ax.plot(at, y, look.dash, **style)
        lines.append(LabelledLine(name, at, y, artist))
    if x == "bytes_up":
        figures.amounts(ax, [float(line.x[-1]) for line in lines if len(line.x)])
    else:
        figures.counts(ax)
    return lines


def _shade(
    ax: "Axes", entries: Sequence[RunEntry], lines: Sequence[LabelledLine], x: str, name: str, shown
) -> None:
    """Between the quartiles of several runs, in the colour of their line."""
    for entry, line in zip(entries, lines, strict=True):
        if name in entry.bands:
            low, high = map(shown, entry.bands[name])
            known = np.isfinite(low) & np.isfinite(high)
            at = entry.history[x][known] / (1e6 if x == "bytes_up" else 1)
            style = {"color": line.artist.get_color(), "alpha": 0.2, "linewidth": 0}
            ax.fill_between(at, low[known], high[known], **style)


def _lower_ceiling(ax: "Axes", lines: Sequence[LabelledLine]) -> None:
    """A run that diverges must not flatten the others: end ten times above the starts."""
    starts = [line.y[0] for line in lines if len(line.y) > 1]
    tops = [line.y.max() for line in lines if len(line.y) > 1]
    if starts and min(starts) > 0 and max(tops) > 10 * max(starts):
        ax.set_ylim(None, 10 * max(starts))
