"""The paper's tables as files (JSON, CSV, Markdown) and for the terminal."""

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..report.tables import Bold, terminal_table
from ._blocks import Block, Row, middle, table2_blocks, table3_blocks
from ._words import SCAFFOLD, TABLE2, TABLE3

if TYPE_CHECKING:
    from rich.table import Table


def write_table2(rows: Sequence[Row], folder: str | Path) -> None:
    """table2.json, .csv and .md."""
    lines = []
    for row in rows:
        reached = [k for k in row["rounds"] if k is not None]
        every = len(reached) == len(row["rounds"])
        same = ("problem", "data", "tau", "eps", "algorithm", "limit")
        lines.append({key: row[key] for key in same} | {
            "seeds": len(row["rounds"]), "reached": len(reached),
            "rounds_min": min(reached, default=None), "rounds_median": row["median"],
            "rounds_max": max(reached) if every and reached else None,
            "uploads_median": row["median_uploads"],
            "paper": row["paper"], "authors": row["authors"], "optimum": row["optimum"],
        })  # fmt: skip
    about = f"# Table 2: rounds to a gap\n\n{TABLE2} {SCAFFOLD}\n"
    _write(Path(folder) / "table2", rows, lines, about, table2_blocks(rows))


def write_table3(rows: Sequence[Row], folder: str | Path) -> None:
    """table3.json, .csv and .md."""
    lines = []
    for row in rows:
        best = [x for x in row["best"] if math.isfinite(x)]
        same = ("problem", "data", "tau", "algorithm", "rounds")
        lines.append({key: row[key] for key in same} | {
            "seeds": len(row["best"]), "best_min": min(best, default=None),
            "best_median": row["median"], "best_max": max(best, default=None),
            "last_median": middle(row["last"]),
            "objective_median": middle(row["objective"]),
            "paper": row["paper"], "authors": row["authors"], "optimum": row["optimum"],
        })  # fmt: skip
    about = f"# Table 3: test accuracy\n\n{TABLE3} {SCAFFOLD}\n"
    _write(Path(folder) / "table3", rows, lines, about, table3_blocks(rows))


def _write(stem: Path, rows, lines: Sequence[Row], about: str, blocks: Sequence[Block]) -> None:
    text = ",\n".join(json.dumps(_strict(row), allow_nan=False) for row in rows)
    stem.with_suffix(".json").write_text(f"[\n{text}\n]\n", encoding="utf-8", newline="\n")
    with open(stem.with_suffix(".csv"), "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(lines[0]) if lines else [], lineterminator="\n")
        writer.writeheader()
        writer.writerows([_strict(line) for line in lines])
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
    lines = [["setup", *block.head], ["---", "---", *["---:"] * (len(block.head) - 1)]]
    for setup, rows in block.groups:
        for k, row in enumerate(rows):
            lines.append(["" if k else setup, *map(_markdown_cell, row)])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    notes = "".join("\n{}\n".format(note.replace("*", r"\*")) for note in block.notes)
    return f"## {block.title}\n\n{table}\n{notes}"


def _markdown_cell(cell: str) -> str:
    text = cell.replace("*", r"\*")
    return f"**{text}**" if isinstance(cell, Bold) else text


def rich_table2(rows: Sequence[Row]) -> "Table":
    return _rich(table2_blocks(rows))


def rich_table3(rows: Sequence[Row]) -> "Table":
    return _rich(table3_blocks(rows))


def _rich(blocks: Sequence[Block]) -> "Table":
    """A heading line for each problem and setup, then a line per method."""
    notes = dict.fromkeys(note for block in blocks for note in block.notes)
    short = lambda setup: setup.replace(" = ", "=").replace(",", "")
    groups = [(f"{b.title}, {short(setup)}", rows) for b in blocks for setup, rows in b.groups]
    return terminal_table(blocks[0].head if blocks else (), *groups, notes=list(notes))
