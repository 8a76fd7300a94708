"""How figures look, and how they leave: SVG to put inside a page, SVG and PNG as files."""

import hashlib
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import quoteattr

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#30343b"
SIZE = (4.4, 3.4)
FONT = 10.5
WIDE = 10.0  # ends of lines further apart than this need a log axis
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
    from matplotlib.ticker import LogLocator, MaxNLocator

    ends = [end for end in ends if end > 0]
    if ends and max(ends) > WIDE * min(ends):
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(numticks=7))
        ax.tick_params(axis="x", which="minor", length=0)
    else:
        ax.xaxis.set_major_locator(MaxNLocator(5))
    ax.xaxis.set_major_formatter(lambda x, _: short(x))


def decades(ax: "Axes") -> None:
    """A log y axis, written 1e-3 as in the tables."""
    from matplotlib.ticker import LogLocator, NullLocator

    ax.set_yscale("log")
    low, high = np.log10(ax.get_ylim())
    subs = (1.0,) if high - low >= 1.5 else (1.0, 2.0, 5.0)
    ax.yaxis.set_major_locator(LogLocator(subs=subs, numticks=7))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(lambda y, _: _power(y))


def short(x: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(x) >= size:
            return f"{x / size:g}{letter}"
    return f"{x:g}"


def _power(y: float) -> str:
    if 0.01 <= y < 1000:
        return f"{y:g}"
    mantissa, _, exponent = f"{y:.0e}".partition("e")
    return f"{mantissa}e{int(exponent)}"


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
    with _quiet():
        figure.savefig(path, format="png", dpi=200, facecolor="white", metadata={"Software": None})


def save_svg(figure: "Figure", path: str | Path) -> None:
    """A file of its own, on white; the same bytes each time."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "feddcd"}), _quiet():
        figure.savefig(path, format="svg", facecolor="white", metadata={"Date": None})


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
