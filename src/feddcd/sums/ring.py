"""Numbers with sums that are the same in any order, to the last bit: integers modulo 2^256.

    x  ->  round(x / 2^-124) mod 2^256,  two's complement, as four words of 64 bits, lowest first

A double of ordinary size is exact. Carries go from word to word, so that a masked number is one
integer: words that are masked apart would tell how many summands are negative.
"""

from collections.abc import Iterable

import numpy as np

from .._errors import DataError

WORDS = 4
UNIT = -124  # of the last bit, as a power of two
MOST_SITES = 1024
LARGEST = 2.0 ** (255 + UNIT) / MOST_SITES  # of one site's numbers
FLUSH = 255  # carries that a byte holds
_ONE, _TOP = np.uint64(1), np.uint64(63)


def encode(x: np.ndarray) -> np.ndarray:
    """float64 to words (n, 4), rounded to the nearest, ties to even. DataError names no value."""
    x = np.asarray(x, np.float64).ravel()
    size = np.abs(x)
    if not np.all(size < LARGEST):  # NaN, too
        raise DataError(f"a number is not finite, or its absolute value is {LARGEST:.3g} or more")
    mantissa, exponent = np.frexp(size)
    shift = exponent.astype(np.int64) - 53 - UNIT
    small = shift < 0  # has bits below the unit
    held = np.where(small, np.rint(np.ldexp(size, np.where(small, -UNIT, 0))), mantissa * 2.0**53)
    number, shift = held.astype(np.uint64), np.maximum(shift, 0).astype(np.uint64)
    word, bit = shift // np.uint64(64), shift % np.uint64(64)
    low, high = number << bit, (number >> _ONE) >> (_TOP - bit)
    at = WORDS * np.arange(len(x)) + word.astype(np.int64)
    words = np.zeros(WORDS * len(x) + 1, np.uint64)
    words[at + 1] = high  # 0 where it would be the next number's, which is written now
    words[at] = low
    return _turned(words[:-1].reshape(-1, WORDS), x < 0)


def decode(words: np.ndarray) -> np.ndarray:
    """The nearest float64, ties to even, by integers alone: the same on every machine."""
    words = _checked(words)
    negative = words[:, -1] >> _TOP == 1
    size = _turned(words.copy(), negative)
    top = np.zeros(len(size), np.int64)  # the highest word that is not zero
    for k in range(1, WORDS):
        top[size[:, k] != 0] = k
    rows = np.arange(len(size))
    high = size[rows, top]
    low = np.where(top > 0, size[rows, top - 1], np.uint64(0))
    length = _bit_length(high)
    left = np.uint64(64) - np.maximum(length, _ONE)
    first = (high << left) | ((low >> _ONE) >> (_TOP - left))  # 64 bits, the highest of them set
    rest = (low << left) != 0
    for k in range(WORDS - 2):
        rest |= (size[:, k] != 0) & (k < top - 1)
    number, cut = first >> np.uint64(11), first & np.uint64(0x7FF)
    half = np.uint64(0x400)
    number += (cut > half) | ((cut == half) & (rest | (number & _ONE == 1)))
    value = np.ldexp(number.astype(np.float64), 64 * top + 64 - left.astype(np.int64) - 53 + UNIT)
    return np.where(negative, -value, value)


def negate(words: np.ndarray) -> np.ndarray:
    """-n = ~n + 1 modulo 2^256."""
    return _turned(_checked(words).copy(), np.ones(len(words), bool))


def add(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a + b modulo 2^256."""
    a, b = _checked(a), _checked(b)
    total = np.add(a, b, order="C")
    _carry(total.reshape(-1), (total < b).reshape(-1))
    return total


def subtract(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a - b modulo 2^256."""
    return add(a, negate(b))


def _turned(words: np.ndarray, which: np.ndarray) -> np.ndarray:
    """In place, the numbers at these places become their negatives."""
    words ^= np.where(which, ~np.uint64(0), np.uint64(0))[:, None]
    words[:, 0] += which
    over = np.zeros(words.shape, bool)
    over[:, 0] = which & (words[:, 0] == 0)
    _carry(words.reshape(-1), over.reshape(-1))
    return words


def _carry(words: np.ndarray, over: np.ndarray) -> None:
    """Adds in place what went over to the word above, until nothing does: three times at most."""
    while over.any():
        up = np.zeros_like(words)
        up[1:] = over[:-1]
        up[::WORDS] = 0  # the next number's
        words += up
        over = words < up


def rounding(sites: int) -> float:
    """How far the sum of the numbers of this many sites can be from their true sum, but for the
    last rounding to float64."""
    return sites * 2.0 ** (UNIT - 1)


class Adder:
    """Adds many vectors: words wrap at once, their carries are counted and added at the end. The
    first 4 `numbers` words are numbers of 256 bits, those behind stand alone."""

    def __init__(self, numbers: int, words: int):
        self._words = np.zeros(words, np.uint64)
        self._wide = self._words[: WORDS * numbers]
        self._carries = np.zeros(len(self._wide), np.uint8)
        self._over = np.zeros(len(self._wide), bool)
        self._count = self._negated = 0

    def add(self, vector: np.ndarray) -> None:
        np.add(self._words, vector, out=self._words)
        np.less(self._wide, vector[: len(self._wide)], out=self._over)
        np.add(self._carries, self._over.view(np.uint8), out=self._carries)
        self._count += 1
        if self._count == FLUSH:
            self._flush()

    def subtract(self, vector: np.ndarray) -> None:
        """-n = ~n + 1, and the ones are added at the end."""
        self.add(~vector)
        self._negated += 1

    def _flush(self) -> None:
        _carry(self._wide, self._carries)
        self._carries[:], self._count = 0, 0

    def total(self) -> np.ndarray:
        self._flush()
        ones = np.uint64(self._negated)
        self._words[len(self._wide) :] += ones
        self._wide[::WORDS] += ones
        over = np.zeros(len(self._wide), bool)
        over[::WORDS] = self._wide[::WORDS] < ones
        _carry(self._wide, over)
        self._negated = 0
        return self._words


def total(vectors: Iterable[np.ndarray], numbers: int, words: int) -> np.ndarray:
    adder = Adder(numbers, words)
    for vector in vectors:
        adder.add(vector)
    return adder.total()


def _bit_length(x: np.ndarray) -> np.ndarray:
    length, rest = np.zeros_like(x), x.copy()
    for step in map(np.uint64, (32, 16, 8, 4, 2, 1)):
        more = rest >> step != 0
        length[more] += step
        rest[more] >>= step
    return length + (rest != 0)


def _checked(words: np.ndarray) -> np.ndarray:
    if words.dtype != np.uint64 or words.ndim != 2 or words.shape[1] != WORDS:
        raise DataError(f"each number needs {WORDS} words of 64 bits")
    return words
