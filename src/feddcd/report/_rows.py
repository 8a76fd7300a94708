"""The numbers of several runs: rows for people, a line each for a spreadsheet."""

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._text import NONE, count, fixed, percent, tiny
from ._entry import TARGETS, RunEntry, best_bound, certified, cost_to
from .tables import terminal_table

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


def rows(entries: Sequence[RunEntry]) -> list[dict[str, str]]:
    """One row per entry, written for people; "–" where there is no value."""
    best = best_bound(entries)
    return [_row(entry, best) for entry in entries]


def rich_table(entries: Sequence[RunEntry]) -> "Table":
    """The columns that fit a terminal of 80 letters."""
    return terminal_table(TERMINAL, ("", [[row[x] for x in TERMINAL] for row in rows(entries)]))


def write_csv(entries: Sequence[RunEntry], path: str | Path) -> None:
    """compare.csv: per entry its summary, and the rounds and uploads to each proven gap."""
    best = best_bound(entries)
    keys = list(dict.fromkeys(key for entry in entries for key in entry.summary))
    costs = [f"{unit}_to_{target:.0e}" for target in TARGETS for unit in ("rounds", "uploads")]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["label", *keys, *costs])
        for entry in entries:
            cells = [_cell(entry.summary.get(key)) for key in keys]
            reached = [cost_to(entry, best, target) or ("", "") for target in TARGETS]
            writer.writerow([entry.label, *cells, *(x for cost in reached for x in cost[:2])])


def _row(entry: RunEntry, best: float) -> dict[str, str]:
    last = entry.history.last
    row = {
        "algorithm": entry.label,
        "rounds": count(last("round")),
        "uploads": count(last("uploads")),
        "MB up": _megabytes(last("bytes_up")),
        "objective": fixed(last("objective"), 6),
        "certified gap": tiny(certified(entry)),
        "accuracy": percent(last("accuracy")),
        "seconds": fixed(last("seconds"), 1),
    }
    for target in TARGETS:
        cost = cost_to(entry, best, target)
        row[f"rounds to {tiny(target)}"] = count(cost.rounds) if cost else NONE
        row[f"uploads to {tiny(target)}"] = count(cost.uploads) if cost else NONE
        row[f"MB to {tiny(target)}"] = _megabytes(cost.bytes_up) if cost else NONE
    return row


def _megabytes(count: float) -> str:
    return fixed(count / 1e6, 2)


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    return json.dumps(value) if isinstance(value, dict | list | tuple) else value
