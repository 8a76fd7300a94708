"""The paper's figures and tables from runs of one's own: pictures, files and one page."""

import csv
import json
import math
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..report import methods
from ..report.figures import save_png, save_svg, svg
from ..report.page import bullets, document, figure, footer, grid, header, lines, paragraph, section
from ..report.printed import markdown
from ..report.tables import table, terminal_table
from . import _findings
from . import _tables as words
from ._figures import Panel, Series, gap_panels, marks, paper_figure
from ._tables import Block, Row, median, shown, table2_blocks, table3_blocks

if TYPE_CHECKING:
    from rich.table import Table

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
        words.TITLE,
        header(words.TITLE, _findings.lead(variant, seeds, table2, rows)),
        bullets([*_findings.findings(table2, table3), words.COHORTS, *_findings.beyond(rows)]),
        *(chart for name, chart in charts.items() if name not in late),
        _tables("Table 2: rounds to a gap", words.TABLE2, table2_blocks(table2)),
        *(charts[name] for name in late),
        _tables("Table 3: test accuracy", words.TABLE3, table3_blocks(table3)),
        section(
            "Where the paper, the authors’ code and this page differ",
            bullets([words.SCAFFOLD, *_findings.stand_ins(rows), *notes]),
        ),
        footer({}, data=", ".join(dict.fromkeys(row["data"] for row in rows))),
    )
    path = Path(folder) / "report.html"
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def _tables(heading: str, about: str, blocks: Sequence[Block]) -> str:
    if not blocks:
        return ""
    return section(heading, paragraph(about), grid(map(_block, blocks), "columns"))


def _block(block: Block) -> str:
    (block,) = shown([block])
    notes = [paragraph(note, "note") for note in block.notes]
    whole = table(block.title, block.head, *block.groups)
    return lines(["<div>", whole, *notes, "</div>"])


def _chart(name: str, panels: Sequence[Panel], prefix: str) -> str:
    """Panels with one legend: each method, and what else is drawn."""
    drawings = [
        svg(paper_figure([p], whole=False), label=f"{p.title}: {p.y_title}", prefix=f"{prefix}{k}-")
        for k, p in enumerate(panels)
    ]
    own = dict.fromkeys((one.label, one.algorithm) for panel in panels for one in panel.lines)
    legend = [f"<li>{_sample(algorithm)}{escape(label)}</li>" for label, algorithm in own]
    legend += [f"<li>{escape(mark)}</li>" for mark in marks(panels)]
    drawn = [figure(d, p.note) for d, p in zip(drawings, panels, strict=True)]
    return section(
        words.FIGURES.get(name, name),
        lines(['<ul class="legend">', *legend, "</ul>"]),
        grid(drawn, "figures panels"),
    )


def _sample(algorithm: str) -> str:
    look = methods.look(algorithm)
    line = f'stroke="{look.colour}" stroke-width="2.4" stroke-dasharray="{DASHES[look.dash]}"'
    return f'<svg viewBox="0 0 34 12" aria-hidden="true"><path d="M0 6H34" {line}/></svg>'


def write_table2(rows: Sequence[Row], folder: str | Path) -> None:
    """table2.json, .csv and .md."""
    records = []
    for row in words.with_vectors(rows):
        reached = [k for k in row["rounds"] if k is not None]
        every = len(reached) == len(row["rounds"])
        same = ("problem", "data", "tau", "eps", "algorithm", "limit")
        records.append({key: row[key] for key in same} | {
            "seeds": len(row["rounds"]), "reached": len(reached),
            "rounds_min": min(reached, default=None), "rounds_median": row["median"],
            "rounds_max": max(reached) if every and reached else None,
            "uploads_median": row["median_uploads"], "vectors_median": row["median_vectors"],
            "paper": row["paper"], "authors": row["authors"], "optimum": row["optimum"],
        })  # fmt: skip
    about = f"# Table 2: rounds to a gap\n\n{words.TABLE2} {words.SCAFFOLD}\n"
    _write(Path(folder) / "table2", rows, records, about, table2_blocks(rows))


def write_table3(rows: Sequence[Row], folder: str | Path) -> None:
    """table3.json, .csv and .md."""
    records = []
    for row in rows:
        best = [x for x in row["best"] if math.isfinite(x)]
        same = ("problem", "data", "tau", "algorithm", "rounds")
        records.append({key: row[key] for key in same} | {
            "seeds": len(row["best"]), "best_min": min(best, default=None),
            "best_median": row["median"], "best_max": max(best, default=None),
            "last_median": median(row["last"]),
            "objective_median": median(row["objective"]),
            "paper": row["paper"], "authors": row["authors"], "optimum": row["optimum"],
        })  # fmt: skip
    about = f"# Table 3: test accuracy\n\n{words.TABLE3} {words.SCAFFOLD}\n"
    _write(Path(folder) / "table3", rows, records, about, table3_blocks(rows))


def _write(stem: Path, rows, records: Sequence[Row], about: str, blocks: Sequence[Block]) -> None:
    text = ",\n".join(json.dumps(_strict(row), allow_nan=False) for row in rows)
    stem.with_suffix(".json").write_text(f"[\n{text}\n]\n", encoding="utf-8", newline="\n")
    with open(stem.with_suffix(".csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(records[0]) if records else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows([_strict(record) for record in records])
    markdown = "\n".join([about, *map(_markdown, blocks)])
    stem.with_suffix(".md").write_text(markdown, encoding="utf-8", newline="\n")


def _strict(value: Any) -> Any:
    """JSON knows no nan."""
    match value:
        case Mapping():
            return {key: _strict(item) for key, item in value.items()}
        case list() | tuple():
            return [_strict(item) for item in value]
        case float() if not math.isfinite(value):
            return None
    return value


def _markdown(block: Block) -> str:
    (block,) = shown([block])
    rows = [
        ["" if k else setup, *row] for setup, rows in block.groups for k, row in enumerate(rows)
    ]
    table = markdown(["setup", *block.head], ("", rows), notes=block.notes, left=2)
    return f"## {block.title}\n\n{table}"


def rich_table2(rows: Sequence[Row]) -> "Table":
    return _rich(table2_blocks(rows))


def rich_table3(rows: Sequence[Row]) -> "Table":
    return _rich(table3_blocks(rows))


def _rich(blocks: Sequence[Block]) -> "Table":
    """A heading line for each problem and setup, then a line per method."""
    blocks = shown(blocks)
    notes = dict.fromkeys(note for block in blocks for note in block.notes)
    short = lambda setup: setup.replace(" = ", "=").replace(",", "")
    groups = [(f"{b.title}, {short(setup)}", rows) for b in blocks for setup, rows in b.groups]
    return terminal_table(blocks[0].head if blocks else (), *groups, notes=list(notes))
