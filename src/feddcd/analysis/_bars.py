"""Histograms of a description: where the bars begin, and how those of few rows are merged."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ._bins import AS_BITS

BARS = 20
STEPS = (1, 2, 5, 10)


class Histogram(NamedTuple):
    """Rows from edge to edge; the first and the last edge may be infinite."""

    edges: np.ndarray
    rows: np.ndarray
    whole: bool = False  # every value is a whole number


def edges_of(mean: float, sd: float, decimals: int) -> np.ndarray:
    """About twenty steps over three standard deviations on either side, at round numbers."""
    if not (sd > 1e-9 * abs(mean) and math.isfinite(sd)):
        return np.zeros(0)
    least = 0.0 if decimals == AS_BITS else 10.0**-decimals
    rough = max(6 * sd / BARS, least)
    size = 10.0 ** math.floor(math.log10(rough) + 1e-9)
    step = next(size * k for k in STEPS if size * k >= rough * (1 - 1e-9))
    low, high = math.floor((mean - 3 * sd) / step), math.ceil((mean + 3 * sd) / step)
    power = math.floor(math.log10(step) + 1e-9)
    places = np.arange(low, high + 1)
    unit = round(step / 10.0**power)
    return places * unit / 10.0**-power if power < 0 else places * unit * 10.0**power


def histograms(
    each: Sequence[np.ndarray], bins: np.ndarray, least: int, whole: Sequence[bool]
) -> list[Histogram | None]:
    """From the edges of each and the rows of all, one after the other."""
    drawn, start = [], 0
    for edges, is_whole in zip(each, whole, strict=True):
        size = len(edges) + 1 if len(edges) else 0
        rows = bins[start : start + size].astype(np.int64)
        made = _merged(np.array([-np.inf, *edges, np.inf]), rows, least) if size else None
        drawn.append(made and made._replace(whole=is_whole))
        start += size
    return drawn


def _merged(edges: np.ndarray, rows: np.ndarray, least: int) -> Histogram:
    """Bars of few rows go into the next one towards the middle; empty ends are cut off."""
    there = np.flatnonzero(rows)
    first, last = int(there[0]), int(there[-1])
    ends, held = edges[first : last + 2].tolist(), rows[first : last + 1].tolist()
    while len(held) > 1 and (small := [i for i, n in enumerate(held) if 0 < n < least]):
        i = small[0]
        middle = int(np.searchsorted(np.cumsum(held), sum(held) / 2))
        to = i + 1 if i < middle or i == 0 else i - 1
        held[to] += held[i]
        del held[i], ends[max(i, to)]
    return Histogram(np.array(ends), np.array(held))
