"""The paper's figures and tables from runs of one's own: pictures, files and one page."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path

from ..report import methods
from ..report.figures import save_png, save_svg, svg
from ..report.page import bullets, document, figure, grid, header, lines, paragraph, section
from ..report.tables import table
from ._blocks import Block, Row, table2_blocks, table3_blocks
from ._figures import Panel, Series, draw, gap_panels, marks, paper_figure
from ._table_files import rich_table2, rich_table3, write_table2, write_table3
from ._words import (
    COHORTS,
    FIGURES,
    SCAFFOLD,
    TABLE2,
    TABLE3,
    TITLE,
    beyond,
    findings,
    lead,
    stand_ins,
)

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
DASHES = {"-": "", "--": "7 3", "-.": "7 2 2 2", ":": "2 3"}


def write_figures(figures: Mapping[str, Sequence[Panel]], folder: str | Path) -> list[Path]:
    """NAME.png and NAME.svg for each name that has panels."""
    paths = []
    for name, panels in figures.items():
        if panels:
            whole, stem = paper_figure(panels), Path(folder) / name
            save_png(whole, stem.with_suffix(".png"))
            save_svg(whole, stem.with_suffix(".svg"))
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
    charts = {
        name: _chart(name, panels, f"f{k}-")
        for k, (name, panels) in enumerate(figures.items())
        if panels
    }
    late = [name for name in charts if name.startswith("figure3")]
    rows = [*table2, *table3]
    text = document(
        TITLE,
        header(TITLE, lead(variant, seeds, table2)),
        bullets([*findings(table2, table3), COHORTS, *beyond(rows)]),
        *(chart for name, chart in charts.items() if name not in late),
        _tables("Table 2: rounds to a gap", TABLE2, table2_blocks(table2)),
        *(charts[name] for name in late),
        _tables("Table 3: test accuracy", TABLE3, table3_blocks(table3)),
        section(
            "Where paper, authors’ code and correct behaviour differ",
            bullets([SCAFFOLD, *stand_ins(rows), *notes]),
        ),
    )
    path = Path(folder) / "report.html"
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def _tables(heading: str, about: str, blocks: Sequence[Block]) -> str:
    if not blocks:
        return ""
    return section(heading, paragraph(about), grid(map(_block, blocks), "columns"))


def _block(block: Block) -> str:
    notes = [paragraph(note, "note") for note in block.notes]
    whole = table(block.title, block.head, *block.groups)
    return lines(["<div>", whole, *notes, "</div>"])


def _chart(name: str, panels: Sequence[Panel], prefix: str) -> str:
    """Panels with one legend: each method, and what else is drawn."""
    drawings = [
        svg(draw([p], whole=False), label=f"{p.title}: {p.y_title}", prefix=f"{prefix}{k}-")
        for k, p in enumerate(panels)
    ]
    own = dict.fromkeys((one.label, one.algorithm) for panel in panels for one in panel.lines)
    legend = [f"<li>{_sample(algorithm)}{escape(label)}</li>" for label, algorithm in own]
    legend += [f"<li>{escape(mark)}</li>" for mark in marks(panels)]
    shown = [figure(d, p.note) for d, p in zip(drawings, panels, strict=True)]
    return section(
        FIGURES.get(name, name),
        lines(['<ul class="legend">', *legend, "</ul>"]),
        grid(shown, "figures panels"),
    )


def _sample(algorithm: str) -> str:
    look = methods.look(algorithm)
    line = f'stroke="{look.colour}" stroke-width="2.4" stroke-dasharray="{DASHES[look.dash]}"'
    return f'<svg viewBox="0 0 34 12" aria-hidden="true"><path d="M0 6H34" {line}/></svg>'
