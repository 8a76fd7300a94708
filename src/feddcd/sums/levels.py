"""The largest of the sites' values, and nothing else, by a sum.

For each level of a public grid a site sends a random word, not 0, if its value reaches the level,
else 0. In the sum a level's word is 0 where no site reaches it. Where one does or many do, the word
is random: how many cannot be seen, but with probability 2^-64. A value counts as the level above
it: what is opened is never below it.
"""

import secrets
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .._errors import DataError, SpecError

DEFAULTS = {1: (-60, 40), 8: (-50, 25)}  # the powers of two between which a grid lies, by its steps
MOST_STEPS, FURTHEST = 64, 500
ABOVE = 2e-12  # what is on the grid already, up to the last digits, stays at its level
_DIGITS = 62


class Grid(NamedTuple):
    """Powers of 2^(1/steps), from 2^low to 2^high, and one more level for infinity."""

    steps: int
    low: int
    high: int

    @property
    def levels(self) -> int:
        return (self.high - self.low) * self.steps + 2

    def check(self) -> "Grid":
        whole = all(type(part) is int for part in self)
        if not (whole and 1 <= self.steps <= MOST_STEPS):
            raise SpecError(
                f"a grid for rounding must have 1 to {MOST_STEPS} steps between two powers of 2"
            )
        if not -FURTHEST <= self.low < self.high <= FURTHEST:
            raise SpecError(
                f"a grid for rounding must be between 2^-{FURTHEST} and 2^{FURTHEST}, and its low "
                "end must be below its high end"
            )
        return self


def grid_of(steps: int) -> Grid:
    """The grid that answers are rounded up to, by the number of its steps between powers of two."""
    low, high = DEFAULTS.get(steps, (-60, 40))
    return Grid(steps, low, high).check()


@lru_cache
def values(grid: Grid) -> np.ndarray:
    """What each level says: the same on every machine, as roots are taken of integers."""
    roots = [_root(j, grid.steps) for j in range(grid.steps)]
    at = np.arange((grid.high - grid.low) * grid.steps + 1)
    scaled = np.ldexp(np.array(roots)[at % grid.steps], grid.low + at // grid.steps)
    held = np.append(scaled * (1 + ABOVE), np.inf)
    held.flags.writeable = False
    return held


def encode(x: np.ndarray, grid: Grid) -> np.ndarray:
    """Words (n, levels). What is not above 0 reaches no level; what is above the grid is inf."""
    x = np.asarray(x, np.float64).ravel()
    if np.any(np.isnan(x)):
        raise DataError("a bound in the answer is not a number")
    highest = np.where(x > 0, np.searchsorted(values(grid), x), -1)
    reached = np.arange(grid.levels) <= highest[:, None]
    return np.where(reached, noise(reached.size).reshape(reached.shape), np.uint64(0))


def decode(words: np.ndarray, grid: Grid) -> np.ndarray:
    """The largest value of any site, rounded up to the grid; 0 where no level is reached."""
    reached = np.asarray(words).reshape(-1, grid.levels) != 0
    highest = grid.levels - 1 - np.argmax(reached[:, ::-1], axis=1)
    return np.where(reached.any(axis=1), values(grid)[highest], 0.0)


def noise(n: int) -> np.ndarray:
    """Random words, none of them 0."""
    words = np.frombuffer(secrets.token_bytes(8 * n), np.uint64).copy()
    while len(zero := np.flatnonzero(words == 0)):
        words[zero] = np.frombuffer(secrets.token_bytes(8 * len(zero)), np.uint64)
    return words


def _root(j: int, steps: int) -> float:
    """2^(j/steps), not below it by more than the last digit of a double."""
    power, low, high = 1 << (j + _DIGITS * steps), 1 << _DIGITS, 1 << (_DIGITS + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**steps <= power else (low, middle)
    return low / (1 << _DIGITS)
