"""The paper's tables as files (JSON, CSV, Markdown) and for the terminal."""

import csv
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._blocks import Block, table2_blocks, table3_blocks
from ._rows import Row, middle
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
            texts = [cell.text.replace("*", r"\*") for cell in row]
            texts = [f"**{t}**" if cell.best else t for t, cell in zip(texts, row, strict=True)]
            lines.append(["" if k else setup, *texts])
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    notes = "".join("\n{}\n".format(note.replace("*", r"\*")) for note in block.notes)
    return f"## {block.title}\n\n{table}\n{notes}"


def rich_table2(rows: Sequence[Row]) -> "Table":
    return _rich(table2_blocks(rows))


def rich_table3(rows: Sequence[Row]) -> "Table":
    return _rich(table3_blocks(rows))


def _rich(blocks: Sequence[Block]) -> "Table":
    """A heading line for each problem and setup, then a line per method."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    notes = dict.fromkeys(note for block in blocks for note in block.notes)
    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, caption_justify="left")
    table.caption = Text("\n".join(notes))
    for k, name in enumerate(blocks[0].head if blocks else ()):
        table.add_column(name.replace(" ", "\n", 1), justify="right" if k else "left")
    for block in blocks:
        for setup, lines in block.groups:
            short = setup.replace(" = ", "=").replace(",", "")
            table.add_row(Text(f"{block.title}, {short}", "bold"))
            for first, *rest in lines:
                cells = [Text(cell.text, "bold" if cell.best else "") for cell in rest]
                table.add_row(Text(f"  {first.text}"), *cells)
            table.add_section()
    return table
