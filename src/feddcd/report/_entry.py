"""One run as the report sees it, and the gaps that its numbers prove."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from feddcd.history import History

TARGETS = (1e-3, 1e-6)


class Entry(NamedTuple):
    """A run: its name in figures and tables, its rows, its summary and its settings."""

    label: str
    history: History
    summary: dict[str, Any]
    config: dict[str, Any]


def best_bound(entries: Sequence[Entry]) -> float:
    """The largest certified lower bound of F*/N in any row; `nan` if there is none."""
    bounds = [entry.history["lower_bound"] for entry in entries]
    bounds = np.concatenate([np.zeros(0), *bounds])
    bounds = bounds[np.isfinite(bounds)]
    return float(bounds.max()) if len(bounds) else float("nan")


def gap(entry: Entry, best: float) -> np.ndarray:
    """F(w)/N - best in each row: at least the true gap, since best <= F*/N is proven."""
    return entry.history["objective"] - best


def certified(entry: Entry) -> float:
    """The gap of the final model, proven by this run's own bounds alone."""
    return float(np.maximum(entry.history.last("objective") - best_bound([entry]), 0.0))


def to_gap(entry: Entry, best: float, target: float) -> tuple[int, int] | None:
    """Rounds and uploads until the proven gap is at most `target`; None if it never is."""
    hits = np.flatnonzero(gap(entry, best) <= target)
    if not len(hits):
        return None
    row = hits[0]
    return int(entry.history["round"][row]), int(entry.history["uploads"][row])


def comparable(entries: Sequence[Entry]) -> bool:
    """False if an objective lies below a proven bound: the runs then minimise different ones."""
    best = best_bound(entries)
    slack = 1e-6 * max(1.0, abs(best))
    return not any(np.any(gap(entry, best) < -slack) for entry in entries)


def recorded(entry: Entry, name: str) -> bool:
    """True if the column has any finite value."""
    return bool(np.isfinite(entry.history[name]).any())


def find(entry: Entry, *names: str) -> Any:
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
