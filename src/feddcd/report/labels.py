"""Names for lines: at their ends when they fit, else in a legend below."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .figures import FONT, INK, SIZE

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

LONGEST = 14
SPACING = 0.068


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
