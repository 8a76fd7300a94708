"""Exact order statistics by refining counts: each exchange counts the rows of 256 parts of what
is left.

Values become whole numbers in the same order. Where all values have few decimals (one exchange
says how many) these are x * 10^decimals, of which few lie in the range of the data; else the 64
bits of a double. A part of one whole number is one value, exactly.
"""

import math
from typing import NamedTuple

import numpy as np

PARTS = 256
MOST_DECIMALS = 15
AS_BITS = -1  # in place of decimals
WHOLE = 2.0**53
FARTHEST = 2.0**62


def decimals_of(x: np.ndarray) -> float:
    """The fewest decimals that write all values; inf where none do."""
    each = (d for d in range(MOST_DECIMALS + 1) if np.all(has_decimals(x, d)))
    return float(next(each, np.inf))


def has_decimals(x: np.ndarray, d: int) -> np.ndarray:
    """Whether d decimals write a value."""
    scaled = np.rint(x * 10.0**d)
    return (np.abs(scaled) < WHOLE) & (scaled / 10.0**d == x)


def keys_of(x: np.ndarray, decimals: int) -> np.ndarray:
    """Whole numbers (int64) in the order of the values."""
    if decimals != AS_BITS:
        with np.errstate(over="ignore"):
            scaled = np.rint(np.asarray(x, float) * 10.0**decimals)
        return np.clip(scaled, -FARTHEST, FARTHEST).astype(np.int64)  # whoever asked chose badly
    bits = np.ascontiguousarray(x, np.float64).view(np.int64)
    return np.where(bits < 0, -(bits & np.int64(2**63 - 1)), bits)  # -0 is 0


def value_of(key: int, decimals: int) -> float:
    if decimals != AS_BITS:
        return key / 10**decimals
    size = np.array([abs(key)], np.int64).view(np.float64)
    return float(size[0] if key >= 0 else -size[0])


def whole_range(low: float, high: float, decimals: int) -> tuple[int, int]:
    """The keys of all values that can be there."""
    if decimals == AS_BITS:
        first, last = keys_of(np.array([low, high]), decimals)
        return int(first), int(last)
    return int(np.floor(low * 10.0**decimals)), int(np.ceil(high * 10.0**decimals))


def count_parts(keys: np.ndarray, first: int, width: int) -> np.ndarray:
    """Rows by part; what lies outside counts for the nearest."""
    keys = np.clip(keys, first, min(first + PARTS * width - 1, 2**63 - 1))
    away = keys.view(np.uint64) - np.array(first, np.int64).view(np.uint64)
    inside = (keys >= first) & (away < np.uint64(PARTS * width))
    return np.bincount((away[inside] // np.uint64(width)).astype(np.intp), minlength=PARTS)


class Search(NamedTuple):
    """Where an order statistic is: between two keys, with this many rows below and inside."""

    rank: int  # from 0
    first: int
    last: int
    below: int
    inside: int
    done: bool = False

    @property
    def width(self) -> int:
        """Of each part of the next exchange."""
        return -(-(self.last - self.first + 1) // PARTS)


def refine(search: Search, counts: np.ndarray, least: int) -> Search:
    """With the counts of its parts. A part of fewer than `least` rows is not opened: then parts
    beside it are added until there are as many, and the search ends."""
    up = np.cumsum(counts)
    part = int(np.searchsorted(up, search.rank - search.below, side="right"))
    low = high = min(part, PARTS - 1)
    while counts[low : high + 1].sum() < least and high - low < PARTS - 1:
        low, high = max(low - 1, 0), min(high + 1, PARTS - 1)
    w, inside = search.width, int(counts[low : high + 1].sum())
    first, last = search.first + low * w, min(search.first + (high + 1) * w - 1, search.last)
    below = search.below + int(up[low] - counts[low])
    return Search(search.rank, first, last, below, inside, low < high or first == last)


def ranks(n: int, share: float) -> tuple[int, int, float]:
    """R's type 7: the two neighbours of a quantile, from 0, and the weight of the second."""
    index = 1 + (n - 1) * share
    low = math.floor(index)
    return low - 1, math.ceil(index) - 1, index - low


class Quantile(NamedTuple):
    """`low` and `high` are where it is known to be; equal where it is exact."""

    value: float
    low: float
    high: float


def between(low: Search, high: Search, weight: float, decimals: int) -> Quantile:
    ends = [value_of(k, decimals) for k in (low.first, low.last, high.first, high.last)]
    if low.first == low.last and high.first == high.last:
        value = ends[0] if ends[0] == ends[2] else (1 - weight) * ends[0] + weight * ends[2]
        return Quantile(value, value, value)
    first, last = ends[0], ends[3]
    return Quantile((first + last) / 2, first, last)
