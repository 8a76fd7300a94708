"""The numbers of several runs: rows for people, a line each for a spreadsheet."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._entry import TARGETS, Entry, best_bound, certified, to_gap
from ._text import NONE, count, fixed, percent, tiny

if TYPE_CHECKING:
    from rich.table import Table

TERMINAL = (
    "algorithm",
    "rounds",
    "uploads",
    "objective",
    "certified gap",
    "accuracy",
    "uploads to 1e-3",
    "uploads to 1e-6",
)


def rows(entries: Sequence[Entry]) -> list[dict[str, str]]:
    """One row per entry, written for people; "–" where there is no value."""
    best = best_bound(entries)
    return [_row(entry, best) for entry in entries]


def rich_table(entries: Sequence[Entry]) -> "Table":
    """The columns that fit a terminal of 80 letters."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False)
    for name in TERMINAL:
        side = "left" if name == "algorithm" else "right"
        table.add_column(name.replace(" ", "\n", 1), justify=side, overflow="fold")
    for row in rows(entries):
        table.add_row(*(Text(row[name]) for name in TERMINAL))
    return table


def write_csv(entries: Sequence[Entry], path: str | Path) -> None:
    """compare.csv: per entry its summary, and the rounds and uploads to each proven gap."""
    best = best_bound(entries)
    keys = list(dict.fromkeys(key for entry in entries for key in entry.summary))
    costs = [f"{unit}_to_{target:.0e}" for target in TARGETS for unit in ("rounds", "uploads")]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["label", *keys, *costs])
        for entry in entries:
            cells = [_cell(entry.summary.get(key)) for key in keys]
            reached = [to_gap(entry, best, target) or ("", "") for target in TARGETS]
            writer.writerow([entry.label, *cells, *(cost for pair in reached for cost in pair)])


def _row(entry: Entry, best: float) -> dict[str, str]:
    last = entry.history.last
    row = {
        "algorithm": entry.label,
        "rounds": count(last("round")),
        "uploads": count(last("uploads")),
        "MB up": fixed(last("bytes_up") / 1e6, 2),
        "objective": fixed(last("objective"), 6),
        "certified gap": tiny(certified(entry)),
        "accuracy": percent(last("accuracy")),
        "seconds": fixed(last("seconds"), 1),
    }
    for target in TARGETS:
        cost = to_gap(entry, best, target)
        row[f"rounds to {tiny(target)}"] = count(cost[0]) if cost else NONE
        row[f"uploads to {tiny(target)}"] = count(cost[1]) if cost else NONE
    return row


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, dict | list | tuple) else value
