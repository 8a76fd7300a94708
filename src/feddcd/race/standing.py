"""Who is first: for each share of the clients, at equal bits, how often a method sends the fewest
bytes, and how often at most twice the fewest."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .profile import Place, RaceEntry, Results, costs, ratios

WITHIN = 2.0


class Standing(NamedTuple):
    entry: RaceEntry
    places: int
    first: float  # share of the places
    within: float
    both: float = np.nan  # as `first`, with the bytes of both directions


class Ranking(NamedTuple):
    """One share of the clients, and those who are compared with each other there."""

    field: str
    share: float
    rows: list[Standing]  # the best first


def fields(results: Results) -> Iterator[tuple[str, list[RaceEntry]]]:
    """Who is compared with whom: equal bits, and all by default or all tuned."""
    entries = sorted({entry for _, entry in results}, key=lambda e: e.method)
    for bits, tuned in sorted({(e.bits, e.tuned) for e in entries}):
        name = (
            f"{bits} bits for each number, {'each method tuned' if tuned else 'default settings'}"
        )
        yield name, [e for e in entries if (e.bits, e.tuned) == (bits, tuned)]


def standings(results: Results, target: float) -> Iterator[Ranking]:
    up, both = (costs(results, target, what) for what in ("up", "both"))
    for field, entries in fields(results):
        for share in sorted({place.share for place in up}):
            first = {row.entry: row.first for row in ranked(_there(both, share), entries)}
            rows = ranked(_there(up, share), entries)
            rows = [row._replace(both=first[row.entry]) for row in rows]
            yield Ranking(field, share, rows)


def _there(
    table: dict[Place, dict[RaceEntry, float]], share: float
) -> dict[Place, dict[RaceEntry, float]]:
    return {place: row for place, row in table.items() if place.share == share}


def ranked(table: dict[Place, dict[RaceEntry, float]], entries: list[RaceEntry]) -> list[Standing]:
    """Those that reached the target anywhere; of equal ones, the nearer to the best first."""
    found = {e: r for e, r in ratios(table, entries).items() if np.isfinite(r).any()}
    rows = [
        Standing(e, len(r), float(np.mean(r <= 1 + 1e-12)), float(np.mean(r <= WITHIN)))
        for e, r in found.items()
    ]
    usual = {e: float(np.median(r)) for e, r in found.items()}
    return sorted(rows, key=lambda o: (-o.first, -o.within, usual[o.entry], o.entry.method))
