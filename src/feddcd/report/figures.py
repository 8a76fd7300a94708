"""Figures of one run and of several, and how they leave as SVG and PNG."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from . import _names, _panels
from ._entry import Entry, recorded
from ._style import FONT, INK, Line, blank
from ._svg import save_png, settled, svg
from ._text import accuracy_means

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["accuracy", "curves", "panels", "save_png", "single", "svg"]

Draw = Callable[["Axes"], "list[Line] | None"]


def curves(entries: Sequence[Entry], *, title: str = "") -> "Figure":
    """The proven gap against rounds and against uploads, side by side."""
    return _figure(entries, [_progress(entries, "round"), _progress(entries, "uploads")], title)


def accuracy(entries: Sequence[Entry]) -> "Figure":
    return _figure(entries, [_accuracy(entries)])


def single(entry: Entry) -> "Figure":
    """One run: the certificate, and accuracy and dual residual where there are any."""
    return _figure([entry], [draw for draw, _ in _single(entry)])


def panels(entries: Sequence[Entry], kind: str) -> list[tuple["Figure", str]]:
    """The same panels one by one with their captions, for a page that is one panel wide."""
    parts = _single(entries[0]) if kind == "run" else _several(entries)
    return [(_figure(entries, [draw]), caption) for draw, caption in parts]


def _single(entry: Entry) -> list[tuple[Draw, str]]:
    if recorded(entry, "lower_bound"):
        caption = (
            "How far the model can be from the best possible one. The truth lies in the shaded "
            "band; the dotted line is what was already proven in that round."
        )
    else:
        caption = "The objective after each round; lower is better."
    parts: list[tuple[Draw, str]] = [(lambda ax: _panels.certificate(ax, entry), caption)]
    if recorded(entry, "accuracy"):
        parts.append((_accuracy([entry]), f"Accuracy: {accuracy_means(entry)}."))
    if recorded(entry, "dual_residual"):
        caption = "How exactly the clients’ memories still balance; it should stay near zero."
        parts.append((lambda ax: _panels.residual(ax, entry), caption))
    return parts


def _several(entries: Sequence[Entry]) -> list[tuple[Draw, str]]:
    proven = any(recorded(entry, "lower_bound") for entry in entries)
    what = "The true gap of each run is at or below its line" if proven else "The objective"
    parts: list[tuple[Draw, str]] = [
        (_progress(entries, "round"), f"{what}, against rounds; lower is better."),
        (_progress(entries, "uploads"), f"{what}, against uploads: what it cost the clients."),
    ]
    if any(recorded(entry, "accuracy") for entry in entries):
        caption = f"Accuracy, {accuracy_means(entries[0])}, against rounds; higher is better."
        parts.append((_accuracy(entries), caption))
    return parts


def _progress(entries: Sequence[Entry], x: str) -> Draw:
    return lambda ax: _panels.progress(ax, entries, x)


def _accuracy(entries: Sequence[Entry]) -> Draw:
    return lambda ax: _panels.accuracy(ax, entries)


def _figure(entries: Sequence[Entry], draws: Sequence[Draw], title: str = "") -> "Figure":
    labels = [entry.label for entry in entries]
    ends = [[entry.history.last(x) for entry in entries] for x in ("round", "uploads")]
    direct = _names.fits(labels, ends)
    legend = len(labels) > 1 and not direct
    extra = _names.legend_height(labels, len(draws)) if legend else 0.0
    figure, axes = blank(len(draws), extra + (0.3 if title else 0.0))
    drawn = [draw(ax) or [] for ax, draw in zip(axes, draws, strict=True)]
    if legend:
        _names.below(figure, drawn[0])
    else:
        for ax, lines in zip(axes, drawn, strict=True):
            _names.at_ends(ax, lines)
    if title:
        figure.suptitle(title, color=INK, fontsize=FONT + 2, parse_math=False)
    return settled(figure)
