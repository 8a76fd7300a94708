"""The paper's figures and tables from runs of one's own: pictures, files and one page."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..report._svg import save_png, save_svg, svg
from ._figure import draw, marks, paper_figure
from ._page import Chart, page
from ._panels import Panel, Series, gap_panels
from ._rows import Row
from ._tables import rich_table2, rich_table3, write_table2, write_table3

__all__ = [
    "Panel",
    "Series",
    "gap_panels",
    "paper_figure",
    "rich_table2",
    "rich_table3",
    "write_figures",
    "write_report",
    "write_table2",
    "write_table3",
]


def write_figures(figures: Mapping[str, Sequence[Panel]], folder: str | Path) -> list[Path]:
    """NAME.png and NAME.svg for each name that has panels."""
    paths = []
    for name, panels in figures.items():
        if panels:
            figure, stem = paper_figure(panels), Path(folder) / name
            save_png(figure, stem.with_suffix(".png"))
            save_svg(figure, stem.with_suffix(".svg"))
            paths += [stem.with_suffix(".png"), stem.with_suffix(".svg")]
    return paths


def write_report(
    folder: str | Path,
    *,
    variant: str,
    seeds: int,
    table2: Sequence[Row],
    table3: Sequence[Row],
    figures: Mapping[str, Sequence[Panel]],
    notes: Sequence[str],
) -> Path:
    """report.html: all of it on one page that needs nothing else. `figures` by name: figure1,
    figure1-uploads, figure3, figure3-uploads, or any other."""
    charts = [_chart(*item, f"f{k}-") for k, item in enumerate(figures.items()) if item[1]]
    path = Path(folder) / "report.html"
    text = page(variant, seeds, table2, table3, charts, notes)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def _chart(name: str, panels: Sequence[Panel], prefix: str) -> Chart:
    methods = dict.fromkeys((one.label, one.algorithm) for panel in panels for one in panel.lines)
    drawn = [
        (svg(draw([panel], whole=False), label=f"{panel.title}: {panel.y_title}",
             prefix=f"{prefix}{k}-"), panel.note)
        for k, panel in enumerate(panels)
    ]  # fmt: skip
    return Chart(name, list(methods), marks(panels), drawn)
