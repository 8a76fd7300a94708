"""One run as the report sees it, the gaps that its numbers prove, and what they cost; the same
numbers as rows for people, and as a line each for a spreadsheet."""

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .._text import NONE, count, fixed, percent, tiny
from ..history import History
from .printed import latex, markdown
from .tables import Group, terminal_table

if TYPE_CHECKING:
    from rich.table import Table

TARGETS = (1e-3, 1e-6)
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


class RunEntry(NamedTuple):
    """A run: its name in figures and tables, its rows, its summary and its settings."""

    label: str
    history: History
    summary: dict[str, Any]
    config: dict[str, Any]
    bands: Mapping[str, tuple[np.ndarray, np.ndarray]] = {}  # quartiles, where it is several runs
    runs: int = 1  # of which the history has the medians


class Cost(NamedTuple):
    rounds: int
    uploads: int
    bytes_up: int


def best_bound(entries: Sequence[RunEntry]) -> float:
    """The largest certified lower bound of F*/N in any row; `nan` if there is none."""
    bounds = [entry.history["lower_bound"] for entry in entries]
    bounds = np.concatenate([np.zeros(0), *bounds])
    bounds = bounds[np.isfinite(bounds)]
    return float(bounds.max()) if len(bounds) else float("nan")


def gap(entry: RunEntry, best: float) -> np.ndarray:
    """F(w)/N - best in each row: at least the true gap, since best <= F*/N is proven."""
    return entry.history["objective"] - best


def certified(entry: RunEntry, beside: Sequence[RunEntry] = ()) -> float:
    """The gap of the final model, proven by the best bound of this run and of runs beside it."""
    best = best_bound([entry, *beside] if comparable([entry, *beside]) else [entry])
    return float(np.maximum(entry.history.last("objective") - best, 0.0))


def cost_to(entry: RunEntry, best: float, target: float) -> Cost | None:
    """What it took until the gap to `best` was first at most `target`; None if it never was.
    `best` may have been proven later: it is the same for all runs."""
    hits = np.flatnonzero(gap(entry, best) <= target)
    if not len(hits):
        return None
    return Cost(*(int(entry.history[x][hits[0]]) for x in ("round", "uploads", "bytes_up")))


def comparable(entries: Sequence[RunEntry]) -> bool:
    """False if an objective lies below a proven bound: the runs then minimise different ones."""
    best = best_bound(entries)
    slack = 1e-6 * max(1.0, abs(best))
    return not any(np.any(gap(entry, best) < -slack) for entry in entries)


def has(entry: RunEntry, name: str) -> bool:
    """True if the column has any finite value."""
    return bool(np.isfinite(entry.history[name]).any())


def find(entry: RunEntry, *names: str) -> Any:
    """The first setting of one of these names, in the summary and then in the config, or None."""
    for settings in (entry.summary, entry.config):
        flat = flatten(settings)
        for name in names:
            for key, value in flat.items():
                if key.rpartition(".")[2] == name and value is not None:
                    return value
    return None


def flatten(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"data": {"name": "mnist"}} -> {"data.name": "mnist"}."""
    flat = {}
    for key, value in settings.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def rows(entries: Sequence[RunEntry]) -> list[dict[str, str]]:
    """One row per entry, written for people; "–" where there is no value."""
    best = best_bound(entries)
    return [_row(entry, best, certified(entry, entries)) for entry in entries]


def rich_table(entries: Sequence[RunEntry]) -> "Table":
    """The columns that fit a terminal of 80 letters."""
    return terminal_table(TERMINAL, _shown(entries))


def latex_table(entries: Sequence[RunEntry]) -> str:
    """The same columns for a paper."""
    return latex(TERMINAL, _shown(entries))


def markdown_table(entries: Sequence[RunEntry]) -> str:
    return markdown(TERMINAL, _shown(entries))


def _shown(entries: Sequence[RunEntry]) -> Group:
    return "", [[row[name] for name in TERMINAL] for row in rows(entries)]


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


def _row(entry: RunEntry, best: float, proven: float) -> dict[str, str]:
    last = entry.history.last
    row = {
        "algorithm": entry.label,
        "rounds": count(last("round")),
        "uploads": count(last("uploads")),
        "MB up": _megabytes(last("bytes_up")),
        "objective": fixed(last("objective"), 6),
        "certified gap": tiny(proven),
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
