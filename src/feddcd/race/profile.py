"""What the race says: medians over seeds, and performance profiles (Dolan and Moré).

A profile is, for each factor t, the share of the problems on which a method costs at most t times
what the best method costs there.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .cells import RaceCell, RaceOutcome, read_outcome
from .grid import tuned_settings

FAR = 1e100  # for infinity in quartiles: between two infinite numbers lies no number


class Place(NamedTuple):
    """Where a race is run: a problem at a share of its clients."""

    problem: str
    share: float
    half: str


class RaceEntry(NamedTuple):
    method: str
    bits: int
    tuned: bool


Results = Mapping[tuple[Place, RaceEntry], Sequence[RaceOutcome]]


def gather(folder: Path, cells: Sequence[RaceCell], *, tuned: bool) -> Results:
    found: dict[tuple[Place, RaceEntry], list[RaceOutcome]] = defaultdict(list)
    settings: dict = {}
    for cell in cells:
        place = Place(cell.problem.name, cell.share, cell.problem.half)
        outcome = read_outcome(cell.file(folder))
        if outcome is None:
            continue
        found[place, RaceEntry(cell.method, cell.bits, False)].append(outcome)
        if not tuned:
            continue
        key = (place, cell.method)
        if key not in settings:
            read = lambda one: read_outcome(one.file(folder))
            settings[key] = tuned_settings(folder, cell, read)
        again = dataclasses.replace(cell, settings=settings[key], tuned=bool(settings[key]))
        better = outcome if not settings[key] else read_outcome(again.file(folder))
        if better is not None:
            found[place, RaceEntry(cell.method, cell.bits, True)].append(better)
    return found


def median(outcomes: Sequence[RaceOutcome], target: float, what: str) -> float:
    """Infinite where half of the seeds or more did not come there."""
    costs = [outcome.to(target, what) for outcome in outcomes]
    return float(np.median(costs)) if costs else np.inf


def quartiles(outcomes: Sequence[RaceOutcome], target: float, what: str) -> tuple[float, float]:
    """The first and the third; infinite where a run that did not come there has a part in it."""
    costs = np.minimum([outcome.to(target, what) for outcome in outcomes] or [np.inf], FAR)
    first, third = np.quantile(costs, (0.25, 0.75))
    known = lambda cost: float(cost) if cost < FAR / 1e6 else np.inf
    return known(first), known(third)


def costs(results: Results, target: float, what: str) -> dict[Place, dict[RaceEntry, float]]:
    table: dict[Place, dict[RaceEntry, float]] = defaultdict(dict)
    for (place, entry), outcomes in results.items():
        table[place][entry] = median(outcomes, target, what)
    return table


def model_sizes(results: Results) -> dict[Place, int]:
    """The numbers in a model of each place; a run that was refused does not know it."""
    sizes: dict[Place, int] = defaultdict(int)
    for (place, _), outcomes in results.items():
        sizes[place] = max(sizes[place], *(outcome.size for outcome in outcomes))
    return sizes


def ratios(
    table: Mapping[Place, Mapping[RaceEntry, float]], entries: Sequence[RaceEntry]
) -> dict[RaceEntry, np.ndarray]:
    """By entry: what it costs over the best of these entries, place by place; places that nobody
    of them reached are left out."""
    found: dict[RaceEntry, list[float]] = {entry: [] for entry in entries}
    for row in table.values():
        best = min((row.get(entry, np.inf) for entry in entries), default=np.inf)
        if np.isfinite(best):
            for entry in entries:
                found[entry].append(row.get(entry, np.inf) / best)
    return {entry: np.array(values) for entry, values in found.items()}


def profile(ratio: np.ndarray, factors: np.ndarray) -> np.ndarray:
    return (
        np.array([np.mean(ratio <= t * (1 + 1e-12)) for t in factors])
        if len(ratio)
        else factors * 0
    )
