"""Of k rows at least: bounds, and changes of bins from one question of a job to the next."""

from collections.abc import Sequence

import numpy as np


def of_many(x: np.ndarray, k: int, times: float) -> float:
    """An upper bound of all rows: this many times the k-th largest, unless one is above even that.
    Up to k times it is at most the sum of all rows, up to the root of k that of their squares, as a
    bound that comes from rows has to be."""
    top = float(np.max(x, initial=0))
    if k < 2 or len(x) < k or not np.isfinite(top):
        return top
    usual = float(np.partition(x, len(x) - k)[len(x) - k])
    return max(top, times * usual)


def settled(places: Sequence[np.ndarray], k: int) -> np.ndarray:
    """The last of these places of rows in bins, so that no sum of counts, over all questions,
    describes fewer than k rows: few rows of one kind go where most of their kind go. In a bin that
    had fewer than k rows at first a row is left out, -1, for good. If fewer than k rows are left
    out, those of the smallest other bin are, too: a difference of counts would reveal them."""
    return places[-1] if k < 2 or not len(places) else _followed(places, k)[0]


def together(places: Sequence[np.ndarray], k: int) -> np.ndarray:
    """Rows that `settled` has in the same bins at all questions have one number; -1 is left out."""
    return _followed(places, k)[1]


def _followed(places: Sequence[np.ndarray], k: int) -> tuple[np.ndarray, np.ndarray]:
    first, *later = places
    sizes = np.bincount(first)
    now = np.where(sizes[first] >= k, first, -1)
    if 0 < np.sum(now < 0) < k:
        now[first == np.where(sizes >= k, sizes, len(first) + 1).argmin()] = -1
    like = now
    for place in later:
        now, like = _moved(like, place, k)
    return now, like


def joined(place: np.ndarray, least: int) -> np.ndarray:
    """By bin, the number of its group: neighbours are joined until they have this many rows."""
    sizes = np.bincount(place)
    groups, number, held = np.zeros(len(sizes), int), 0, 0
    for at, rows in enumerate(sizes):
        groups[at], held = number, held + rows
        if held >= least:
            number, held = number + 1, 0
    return np.minimum(groups, max(number - 1, 0))


def _moved(like: np.ndarray, place: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    now = np.full(len(place), -1)
    for group in np.unique(like[like >= 0]):
        rows = np.flatnonzero(like == group)
        bins, at, sizes = np.unique(place[rows], return_inverse=True, return_counts=True)
        many = sizes >= k
        many[sizes.argmax()] = True
        now[rows] = np.where(many[at], bins[at], bins[sizes.argmax()])
    both = np.where(now < 0, -1, like * (int(place.max(initial=0)) + 1) + now)
    numbers = np.unique(both, return_inverse=True)[1]
    return now, np.where(now < 0, -1, numbers)


def counted(place: np.ndarray, held: Sequence[np.ndarray], size: int, least: int) -> np.ndarray:
    """Sums by place; rows at -1 are in none of them, and places of fewer than `least` are empty."""
    there = place >= 0
    enough = np.bincount(place[there], minlength=size) >= least
    return np.stack([np.bincount(place[there], x[there], minlength=size) * enough for x in held])
