"""One run as the report sees it, the gaps that its numbers prove, and what they cost."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..history import History

TARGETS = (1e-3, 1e-6)


class RunEntry(NamedTuple):
    """A run: its name in figures and tables, its rows, its summary and its settings."""

    label: str
    history: History
    summary: dict[str, Any]
    config: dict[str, Any]
    bands: Mapping[str, tuple[np.ndarray, np.ndarray]] = {}  # quartiles, where it is several runs
    each: tuple[Any, ...] = ()  # the runs, of which the history has the medians

    @property
    def runs(self) -> int:
        return len(self.each) or 1


class Cost(NamedTuple):
    rounds: float
    uploads: float
    bytes_up: float


def single_runs(entries: Sequence[RunEntry]) -> list[RunEntry]:
    """Those of several seeds one by one."""
    return [run for entry in entries for run in entry.each or (entry,)]


def best_bound(entries: Sequence[RunEntry]) -> float:
    """The largest certified lower bound of F*/N in any row; `nan` if there is none."""
    bounds = [entry.history["lower_bound"] for entry in single_runs(entries)]
    bounds = np.concatenate([np.zeros(0), *bounds])
    bounds = bounds[np.isfinite(bounds)]
    return float(bounds.max()) if len(bounds) else float("nan")


def gap(entry: RunEntry, best: float) -> np.ndarray:
    """F(w)/N - best in each row: at least the true gap, since best <= F*/N is proven."""
    return entry.history["objective"] - best


def certified(entry: RunEntry, beside: Sequence[RunEntry] = ()) -> float:
    """The gap of the final model, proven by the best bound of this run and of runs beside it; of
    several seeds the median."""
    best = best_bound([entry, *beside] if comparable([entry, *beside]) else [entry])
    last = [run.history.last("objective") for run in single_runs([entry])]
    return float(np.median(np.maximum(np.array(last) - best, 0.0)))


def cost_to(entry: RunEntry, best: float, target: float) -> Cost | None:
    """What it took until the gap to `best` was first at most `target`; None if it never was.
    `best` may have been proven later: it is the same for all runs. Of several seeds the median of
    each, and None if half of them or more did not come there."""
    costs = [_cost(run, best, target) for run in single_runs([entry])]
    middle = Cost(*(float(np.median(column)) for column in zip(*costs, strict=True)))
    return middle if np.isfinite(middle.rounds) else None


def _cost(run: RunEntry, best: float, target: float) -> Cost:
    """Infinite where it never was there."""
    hits = np.flatnonzero(gap(run, best) <= target)
    if not len(hits):
        return Cost(np.inf, np.inf, np.inf)
    return Cost(*(float(run.history[x][hits[0]]) for x in ("round", "uploads", "bytes_up")))


def comparable(entries: Sequence[RunEntry]) -> bool:
    """False if an objective lies below a proven bound: the runs then minimise different ones."""
    best = best_bound(entries)
    slack = 1e-6 * max(1.0, abs(best))
    return not any(np.any(gap(run, best) < -slack) for run in single_runs(entries))


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


def bits_differ(entries: Sequence[RunEntry]) -> bool:
    """Whether the methods send their numbers with different numbers of bits."""
    return len({entry.summary.get("bits") for entry in entries}) > 1


def names_of(entries: Sequence[RunEntry]) -> list[str]:
    """What the runs are called in a figure: with the bits of those that send fewer than others."""
    widest = max((entry.summary.get("bits") or 0 for entry in entries), default=0)
    few = [(entry, entry.summary.get("bits") or widest) for entry in entries]
    return [e.label if bits == widest else f"{e.label} ({bits} bits)" for e, bits in few]


def data_of(entries: Sequence[RunEntry]) -> str:
    """The names of the data of all runs."""
    return ", ".join(dict.fromkeys(str(e.config["data"]) for e in entries if "data" in e.config))
