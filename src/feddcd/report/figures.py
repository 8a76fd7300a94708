"""How figures look, names for their lines (at the ends when they fit, else in a legend below), and
how figures leave: SVG to put inside a page, SVG, PDF and PNG as files."""

import hashlib
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.sax.saxutils import quoteattr

import numpy as np

from .._text import scientific

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#30343b"
SIZE = (4.4, 3.4)
FONT = 10.5
LONGEST = 14  # letters of a name at the end of a line
SPACING = 0.068
WIDE = 5.0  # ends of lines further apart than this need a log axis
_HEAD = re.compile(r"<svg\b[^>]*>")
_TAG = re.compile(r"<[^>]*>")
_ID = re.compile(r'(\bid="|url\(#|href="#)')


def blank(panels: int, extra: float = 0.0) -> tuple["Figure", list["Axes"]]:
    """A figure with panels side by side, `extra` inches higher for a legend."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(SIZE[0] * panels, SIZE[1] + extra), layout="constrained")
    figure.patch.set_alpha(0.0)
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for ax in axes:
        _dress(ax)
    return figure, list(axes)


def _dress(ax: "Axes") -> None:
    ax.patch.set_alpha(0.0)
    ax.grid(True, color=INK, alpha=0.16, linewidth=0.6)
    ax.set_axisbelow(True)
    for side, spine in ax.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(INK)
    ax.tick_params(colors=INK, labelsize=FONT, which="both")


def titles(ax: "Axes", x: str, y: str) -> None:
    """The unit of y goes on top, where it can be read without turning the head."""
    ax.set_xlabel(x, color=INK, fontsize=FONT)
    ax.set_title(y, color=INK, fontsize=FONT, loc="left", pad=8)


def counts(ax: "Axes") -> None:
    """x ticks at whole numbers, 12,000 as 12k."""
    from matplotlib.ticker import MaxNLocator

    low, high = ax.get_xlim()
    if high - low < 1:
        ax.set_xlim(low - 1, high + 1)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.xaxis.set_major_formatter(lambda x, _: short(x))


def amounts(ax: "Axes", ends: list[float]) -> None:
    """x ticks at any number, on a log axis where the lines end at very different ones."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

    ends = [end for end in ends if end > 0]
    if ends and max(ends) > WIDE * min(ends):
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=_subs(*ax.get_xlim()), numticks=7))
        ax.xaxis.set_minor_locator(NullLocator())
    else:
        ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.xaxis.set_major_formatter(lambda x, _: short(x))


def decades(ax: "Axes") -> None:
    """A log y axis, written 1e-3 as in the tables."""
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set_yscale("log")
    ax.yaxis.set_major_locator(LogLocator(subs=_subs(*ax.get_ylim()), numticks=7))
    ax.yaxis.set_minor_locator(NullLocator())
    power = lambda y, _: f"{y:g}" if 0.01 <= y < 1000 else scientific(y)
    ax.yaxis.set_major_formatter(power)


def _subs(low: float, high: float) -> tuple[float, ...]:
    """More ticks where a log axis has few powers of ten."""
    return (1.0,) if np.log10(high / low) >= 1.5 else (1.0, 2.0, 5.0)


def short(x: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(x) >= size:
            return f"{x / size:g}{letter}"
    return f"{x:g}"


class LabelledLine(NamedTuple):
    """One curve of a figure with its name."""

    label: str
    x: np.ndarray
    y: np.ndarray
    artist: Any


def fits(labels: Sequence[str], ends: Sequence[Sequence[float]]) -> bool:
    """True if few short names can stand to the right of lines that end at about the same x."""
    if len(labels) > 10 or max(map(len, labels), default=0) > LONGEST:
        return False
    return all(min(end) >= 0.8 * max(end) for end in ends if len(end))


def at_ends(ax: "Axes", lines: Sequence[LabelledLine]) -> None:
    """Each name to the right of its line, moved up or down just enough not to overlap."""
    lines = [line for line in lines if len(line.y)]
    if len(lines) < 2:
        return
    ax.autoscale_view()  # the transform depends on limits that are set late
    to_axes = ax.transData + ax.transAxes.inverted()
    heights = np.array([to_axes.transform((line.x[-1], line.y[-1]))[1] for line in lines])
    for line, height in zip(lines, spread(np.clip(heights, 0, 1), SPACING), strict=True):
        ax.annotate(
            line.label,
            xy=(line.x[-1], line.y[-1]),
            xytext=(1.06, float(height)),
            textcoords="axes fraction",
            va="center",
            color=INK,
            fontsize=FONT,
            annotation_clip=False,
            parse_math=False,
            arrowprops={
                "arrowstyle": "-",
                "color": line.artist.get_color(),
                "linewidth": 1.2,
                "relpos": (0.0, 0.5),
                "shrinkA": 1,
                "shrinkB": 0,
            },
        )


def below(figure: "Figure", lines: Sequence[LabelledLine]) -> None:
    """A legend under the panels, in as many columns as fit."""
    if not lines:
        return
    panels = max(1, round(figure.get_figwidth() / SIZE[0]))
    legend = figure.legend(
        [line.artist for line in lines],
        ["x"] * len(lines),
        loc="outside lower center",
        ncols=columns([line.label for line in lines], panels),
        frameon=False,
        fontsize=FONT,
        labelcolor=INK,
        handlelength=2.2,
        columnspacing=1.2,
    )
    for text, line in zip(legend.get_texts(), lines, strict=True):
        text.set_parse_math(False)
        text.set_text(shorten(line.label))


def legend_height(labels: Sequence[str], panels: int) -> float:
    return 0.21 * -(-len(labels) // columns(labels, panels)) if labels else 0.0


def columns(labels: Sequence[str], panels: int) -> int:
    """As many as fit, or as few as need no more rows than those."""
    longest = max(len(shorten(label)) for label in labels)
    most = int(max(1, min(4 * panels, 72 * SIZE[0] * panels // (45 + 6.5 * longest))))
    return -(-len(labels) // -(-len(labels) // most))


def shorten(label: str) -> str:
    label = " ".join(label.split())
    return label if len(label) <= 38 else f"{label[:37]}…"


def spread(heights: np.ndarray, space: float) -> np.ndarray:
    """The heights moved apart to `space`, around the middles of the groups that collide."""
    order = np.argsort(heights, kind="stable")
    groups: list[list[float]] = []
    for height in heights[order]:
        groups.append([float(height)])
        while len(groups) > 1 and _top(groups[-2], space) + space > _bottom(groups[-1], space):
            groups[-2:] = [groups[-2] + groups[-1]]
    placed = [_bottom(group, space) + k * space for group in groups for k in range(len(group))]
    out = np.empty(len(heights))
    out[order] = placed
    return out


def _bottom(group: list[float], space: float) -> float:
    height = space * (len(group) - 1)
    return max(0.0, min(float(np.mean(group)) - height / 2, 1.0 - height))


def _top(group: list[float], space: float) -> float:
    return _bottom(group, space) + space * (len(group) - 1)


def settle(figure: "Figure") -> "Figure":
    """The figure with its layout fixed, which else moves a little with each drawing."""
    import matplotlib

    if engine := figure.get_layout_engine():
        with _quiet():
            engine.execute(figure)
    with matplotlib.rc_context(
        {"figure.autolayout": False, "figure.constrained_layout.use": False}
    ):
        figure.set_layout_engine(None)  # not "none", with which each file is drawn twice
    return figure


def svg(figure: "Figure", *, label: str = "", prefix: str | None = None) -> str:
    """An <svg> element for a page: ids of its own, ink as currentColor, the same each time."""
    import matplotlib

    file = io.StringIO()
    nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with matplotlib.rc_context(), _quiet():
        matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "feddcd"})
        figure.savefig(file, format="svg", metadata=nothing, transparent=True)
    text = file.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<defs>\s*<style.*?</style>\s*</defs>\s*", "", text, count=1, flags=re.S)
    if prefix is None:
        prefix = f"f{hashlib.sha256(text.encode()).hexdigest()[:8]}-"
    text = _TAG.sub(lambda tag: _ID.sub(rf"\g<1>{prefix}", tag[0]), text)
    text = text.replace(INK, "currentColor")
    return _HEAD.sub(_head(text, label), text, count=1)


def save_png(figure: "Figure", path: str | Path) -> None:
    """On white, so that it can be read on a dark page, too."""
    with _quiet(), _opaque(figure):
        figure.savefig(path, format="png", dpi=200, facecolor="white", metadata={"Software": None})


def save_svg(figure: "Figure", path: str | Path) -> None:
    """A file of its own, on white; the same bytes each time."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "feddcd"}), _quiet(), _opaque(figure):
        figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None})


def save_pdf(figure: "Figure", path: str | Path) -> None:
    """For a paper: letters as letters, and the same bytes each time."""
    import matplotlib

    with matplotlib.rc_context({"pdf.fonttype": 42}), _quiet(), _opaque(figure):
        figure.savefig(path, format="pdf", facecolor="white", metadata={"CreationDate": None})


@contextmanager
def _opaque(figure: "Figure") -> Iterator[None]:
    """On a page figures let its colour through; a file has none behind it."""
    before = figure.patch.get_alpha()
    figure.patch.set_alpha(1.0)
    try:
        yield
    finally:
        figure.patch.set_alpha(before)


@contextmanager
def _quiet() -> Iterator[None]:
    """No word about letters that matplotlib's font lacks: in an SVG the browser draws them."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def _head(text: str, label: str) -> str:
    box = re.search(r'viewBox="[^"]*"', text)
    names = 'xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink"'
    aria = f' role="img" aria-label={quoteattr(label)}' if label else ""
    look = 'stroke-linejoin="round" stroke-linecap="butt" font-family="sans-serif"'
    return f"<svg {names} {box[0] if box else ''} {look}{aria}>".replace("\\", r"\\")
