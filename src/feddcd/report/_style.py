"""How figures look: a colour-blind-safe palette, axes, and names at the ends of lines."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK = "#30343b"
SIZE = (4.4, 3.4)
FONT = 10.5

# the methods' own are Okabe and Ito's; the line style tells apart what a printer makes grey
SPARE = [
    (colour, dash)
    for dash in ("-", "--", "-.", ":")
    for colour in ("#7b6fd0", "#cc6677", "#999933", "#44aa99", "#a0522d", "#6b8e9f")
]


class Line(NamedTuple):
    """One drawn curve with its name."""

    label: str
    x: np.ndarray
    y: np.ndarray
    artist: Any


def look(name: str) -> tuple[str, str] | None:
    """A method's own colour and dash."""
    from ..algorithms.catalogue import find_method  # with JAX, which not all reports need

    row = find_method(name)
    return None if row is None else row.look


def styles(labels: Sequence[str]) -> list[tuple[str, str]]:
    """Colour and dash per label: an algorithm's own, once, and spare ones for the rest."""
    chosen: dict[int, tuple[str, str]] = {}
    taken: set[str] = set()
    for key in (_plain, lambda label: _plain(re.split(r"[\s,;:(=]", label.strip())[0])):
        for i, label in enumerate(labels):
            own = None if i in chosen or key(label) in taken else look(key(label))
            if own is not None:
                chosen[i] = own
                taken.add(key(label))
    rest = [i for i in range(len(labels)) if i not in chosen]
    return [
        chosen[i] if i in chosen else SPARE[rest.index(i) % len(SPARE)] for i in range(len(labels))
    ]


def blank(panels: int, extra: float = 0.0) -> tuple["Figure", list["Axes"]]:
    """A figure with panels side by side, `extra` inches higher for a legend."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(SIZE[0] * panels, SIZE[1] + extra), layout="constrained")
    figure.patch.set_alpha(0.0)
    axes = figure.subplots(1, panels, squeeze=False)[0]
    for ax in axes:
        dress(ax)
    return figure, list(axes)


def dress(ax: "Axes") -> None:
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
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    low, high = ax.get_xlim()
    if high - low < 1:
        ax.set_xlim(low - 1, high + 1)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: _short(x)))


def decades(ax: "Axes") -> None:
    """A log y axis, written 1e-3 as in the tables."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    ax.set_yscale("log")
    low, high = np.log10(ax.get_ylim())
    if high - low >= 1.5:
        ax.yaxis.set_major_locator(LogLocator(numticks=7))
        ax.yaxis.set_minor_locator(NullLocator())
    else:
        ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=7))
        ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda y, _: _power(y)))


def _plain(label: str) -> str:
    return re.sub(r"[^a-z0-9]", "", label.lower())


def _short(x: float) -> str:
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(x) >= size:
            return f"{x / size:g}{letter}"
    return f"{x:g}"


def _power(y: float) -> str:
    if 0.01 <= y < 1000:
        return f"{y:g}"
    mantissa, _, exponent = f"{y:.0e}".partition("e")
    return f"{mantissa}e{int(exponent)}"
