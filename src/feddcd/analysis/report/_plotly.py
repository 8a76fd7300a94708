"""How figures look: plain dicts that plotly's javascript draws, with one axis style for all.

The page's CSS gives letters and lines the ink of the light, of the dark or of paper.
"""

import json
from collections.abc import Iterable
from html import escape
from typing import Any, NamedTuple

import numpy as np

INK, SOFT, RULE = "#1d2127", "#5a6270", "#d8dce2"
BLUE, ORANGE, PALE = "#0072b2", "#c24f00", "#8a94a2"
BAND = "rgba(0, 114, 178, 0.14)"
FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, sans-serif'
LONGEST = 20
# On paper a figure has the width of the paper, not that of the window.
SCRIPT = """
const places = JSON.parse(document.getElementById("figures").textContent);
const options = {responsive: true, displayModeBar: false, scrollZoom: false};
for (const f of places) Plotly.newPlot(f.id, f.data, f.layout, options);
const sized = width => places.forEach(f => Plotly.relayout(f.id, width(f)));
addEventListener("beforeprint", () => sized(f => ({autosize: false, width: f.wide ? 680 : 330})));
addEventListener("afterprint", () => sized(() => ({autosize: true, width: null})));
"""


class Graph(NamedTuple):
    name: str  # the id of its place in the page
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    alt: str
    caption: str
    wide: bool = False


def layout(height: int, x: str, y: str, **more: Any) -> dict[str, Any]:
    """x and y are the axes' titles; y's stands on top, where it is read without turning."""
    return {
        "height": height,
        "autosize": True,
        "margin": {"l": 56, "r": 14, "t": 34, "b": 48},
        "font": {"family": FONT, "size": 12.5, "color": INK},
        "paper_bgcolor": "rgba(0, 0, 0, 0)",
        "plot_bgcolor": "rgba(0, 0, 0, 0)",
        "showlegend": False,
        "hoverlabel": {"font": {"family": FONT}},
        "dragmode": False,
        "title": {
            "text": text(y), "font": {"size": 12.5, "color": SOFT}, "x": 0, "xref": "container",
            "xanchor": "left", "y": 1, "yref": "container", "yanchor": "top",
            "pad": {"t": 6, "l": 4},
        },
        "xaxis": axis(title={"text": text(x), "font": {"color": SOFT, "size": 12.5}}),
        "yaxis": axis(),
    } | more  # fmt: skip


def axis(**more: Any) -> dict[str, Any]:
    """Fixed, so that a finger on a phone scrolls the page and not the figure."""
    return {
        "fixedrange": True, "gridcolor": "#e7eaee", "linecolor": SOFT, "showline": True,
        "zeroline": False, "ticks": "outside", "tickcolor": RULE, "ticklen": 4, "automargin": True,
    } | more  # fmt: skip


def line(x, y, colour: str = BLUE, **more: Any) -> dict[str, Any]:
    style = {"color": colour, "width": 2} | more.pop("line", {})
    return {"type": "scatter", "mode": "lines", "x": plain(x), "y": plain(y), "line": style} | more


def dots(x, y, colour: str = BLUE, size: float = 7, **more: Any) -> dict[str, Any]:
    marker = {"color": colour, "size": size} | more.pop("marker", {})
    trace = {"type": "scatter", "mode": "markers", "x": plain(x), "y": plain(y), "marker": marker}
    return trace | more


def plain(values: Any) -> list[float | None]:
    """JSON knows neither infinity nor nan."""
    return [float(v) if np.isfinite(v) else None for v in np.asarray(values, float).ravel()]


def text(words: str) -> str:
    """Plotly reads a little HTML in its texts: names are not meant as such."""
    return escape(words, quote=False)


def short(name: str) -> str:
    """A name that leaves room for the figure on a phone: both ends of it."""
    if len(name) <= LONGEST:
        return text(name)
    half = (LONGEST - 1) // 2
    return text(f"{name[:half]}…{name[-half:]}")


def place(graph: Graph) -> str:
    """Where the script draws it, with words for who does not see it."""
    return (
        f'<div id="{graph.name}" role="img" aria-label="{escape(graph.alt)}" '
        f'style="min-height:{graph.layout["height"]}px"></div>'
    )


def scripts(graphs: Iterable[Graph]) -> str:
    """Plotly itself is in the page, so that nothing is asked of the network."""
    from plotly.offline import get_plotlyjs

    specs = [{"id": g.name, "data": g.data, "layout": g.layout, "wide": g.wide} for g in graphs]
    text = json.dumps(specs, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        "<noscript><p>The figures need JavaScript; the tables hold their numbers.</p></noscript>\n"
        f'<script type="application/json" id="figures">{text}</script>\n'
        f"<script>{get_plotlyjs()}</script>\n<script>{SCRIPT}</script>"
    )
