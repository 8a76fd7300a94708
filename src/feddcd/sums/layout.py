"""The parts of an answer in one vector of words, in the order that all sites agree on.

Numbers of 256 bits come first (`sum`), then single words: whole numbers (`count`), levels (`max`),
and last one word that says whether any site could not tell its numbers (overflow). Such a site
sends noise instead, so that the sum of the others stays hidden, too.
"""

import hashlib
from collections.abc import Iterable, Mapping
from functools import cached_property
from math import prod
from typing import Any, NamedTuple

import numpy as np

from .._errors import DataError, Refused, SpecError
from . import levels, ring
from ._canonical import canonical, parse
from .levels import Grid

KINDS = ("sum", "count", "max")
LARGEST_COUNT = 2**50  # of one site
MOST_SLOTS, MOST_WORDS, LONGEST_NAME = 1000, 2**24, 100
MOST_BYTES = 2**20  # of a layout as text


class Slot(NamedTuple):
    """One part of an answer: what is done with it, and its shape."""

    name: str
    kind: str
    shape: tuple[int, ...]
    grid: Grid | None = None  # of `max` alone

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def words(self) -> int:
        each = {"sum": ring.WORDS, "count": 1}
        return self.size * (self.grid.levels if self.grid else each[self.kind])


class Layout:
    """Of parts in a given order. It is checked when it is made."""

    def __init__(self, slots: Iterable[Slot]):
        self.slots = tuple(slots)
        if not 0 < len(self.slots) <= MOST_SLOTS:
            raise SpecError(f"an answer must have 1 to {MOST_SLOTS} parts, got {len(self.slots)}")
        for slot in self.slots:
            _check(slot)
        if len({slot.name for slot in self.slots}) < len(self.slots):
            raise SpecError("two parts of an answer have the same name")
        if not 0 < sum(slot.words for slot in self.slots) < MOST_WORDS:
            raise SpecError(f"an answer must have 1 to {MOST_WORDS:,} words of 64 bits")
        wide = [slot for slot in self.slots if slot.kind == "sum"]
        self.numbers = sum(slot.size for slot in wide)
        self.ordered = (*wide, *(slot for slot in self.slots if slot.kind != "sum"))
        self.words = sum(slot.words for slot in self.slots) + 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Layout) and self.slots == other.slots

    def __hash__(self) -> int:
        return hash(self.slots)

    @cached_property
    def digest(self) -> bytes:
        return hashlib.sha256(b"feddcd-layout-1\0" + self.to_json()).digest()

    def encode(self, values: Mapping[str, np.ndarray]) -> np.ndarray:
        """One site's answer as words. Levels and noise are random, and drawn again by `masked`."""
        if set(values) != {slot.name for slot in self.slots}:
            raise DataError("the names of the parts of an answer do not match its layout")
        for slot in self.slots:
            if np.shape(values[slot.name]) != slot.shape:
                raise DataError(
                    f"the part {slot.name!r} has the shape {np.shape(values[slot.name])}, but its "
                    f"shape in the layout of the answer is {slot.shape}"
                )
        try:
            held = {name: np.asarray(value, np.float64).ravel() for name, value in values.items()}
            wide = [held[slot.name] for slot in self.ordered if slot.kind == "sum"]
            parts = [ring.encode(np.concatenate([np.zeros(0), *wide])).ravel()]
            parts += [_encode(slot, held[slot.name]) for slot in self.ordered[len(wide) :]]
        except DataError:
            return levels.noise(self.words)
        return np.concatenate([*parts, np.zeros(1, np.uint64)])

    def decode(self, words: np.ndarray) -> dict[str, np.ndarray]:
        """A sum of answers as float64. Where a site could not send its numbers, all are NaN, and
        bounds are infinite."""
        self.check(words)
        held, at = {}, 0
        for slot in self.ordered:
            part = words[at : at + slot.words]
            held[slot.name] = _decode(slot, part, bool(words[-1])).reshape(slot.shape)
            at += slot.words
        return {slot.name: held[slot.name] for slot in self.slots}

    def random(self, words: np.ndarray) -> np.ndarray:
        """Where an answer, as `encode` makes it, holds random words: at levels that are reached,
        or everywhere."""
        found = np.full(self.words, bool(words[-1]))
        at = 0
        for slot in self.ordered:
            if slot.kind == "max":
                found[at : at + slot.words] |= words[at : at + slot.words] != 0
            at += slot.words
        return found

    def total(self, vectors: Iterable[np.ndarray]) -> np.ndarray:
        """Added up in the ring of each part."""
        return ring.total(map(self.check, vectors), self.numbers, self.words)

    def check(self, words: np.ndarray) -> np.ndarray:
        if words.dtype != np.uint64 or words.shape != (self.words,):
            raise Refused(f"an answer must have {self.words} words of 64 bits")
        return words

    def to_bytes(self, words: np.ndarray) -> bytes:
        return self.check(words).astype("<u8").tobytes()

    def from_bytes(self, data: bytes) -> np.ndarray:
        if len(data) != 8 * self.words:
            raise Refused(f"an answer must have {8 * self.words} bytes, got {len(data)}")
        return np.frombuffer(data, "<u8").astype(np.uint64)

    def to_json(self) -> bytes:
        return canonical([[s.name, s.kind, list(s.shape), list(s.grid or [])] for s in self.slots])

    @classmethod
    def from_json(cls, data: bytes) -> "Layout":
        try:
            return cls(_slot(item) for item in parse(data, MOST_BYTES))
        except (TypeError, ValueError, KeyError) as reason:
            raise Refused(f"the layout of an answer cannot be read: {reason}") from None


def _slot(item: Any) -> Slot:
    if not isinstance(item, list) or len(item) != 4:
        raise SpecError("each part must be a list of a name, a kind, a shape and a grid")
    name, kind, shape, grid = item
    if not (isinstance(shape, list) and isinstance(grid, list)):
        raise SpecError("a shape and a grid must be lists")
    return Slot(name, kind, tuple(shape), Grid(*grid) if grid else None)


def _check(slot: Slot) -> None:
    if not (isinstance(slot.name, str) and 0 < len(slot.name) <= LONGEST_NAME):
        raise SpecError(f"the name of a part must have 1 to {LONGEST_NAME} characters")
    if slot.kind not in KINDS:
        raise SpecError(f"the kind of a part must be one of these: {', '.join(map(repr, KINDS))}")
    sizes = isinstance(slot.shape, tuple) and all(type(n) is int for n in slot.shape)
    if not (sizes and len(slot.shape) <= 4 and all(0 <= n < MOST_WORDS for n in slot.shape)):
        raise SpecError(
            f"a part may have at most 4 axes, each with fewer than {MOST_WORDS:,} numbers"
        )
    if (slot.kind == "max") != (slot.grid is not None):
        raise SpecError(
            "a part of the kind 'max' must have a grid; a part of another kind must have none"
        )
    if slot.grid is not None:
        slot.grid.check()


def _encode(slot: Slot, x: np.ndarray) -> np.ndarray:
    if slot.grid is not None:
        return levels.encode(x, slot.grid).ravel()
    if not np.all((np.abs(x) <= LARGEST_COUNT) & (x == np.rint(x))):
        raise DataError(
            f"the part {slot.name!r} must have whole numbers of at most {LARGEST_COUNT}"
        )
    return x.astype(np.int64).view(np.uint64)


def _decode(slot: Slot, words: np.ndarray, untold: bool) -> np.ndarray:
    if slot.grid is not None:
        return np.full(slot.size, np.inf) if untold else levels.decode(words, slot.grid)
    if untold:
        return np.full(slot.size, np.nan)
    if slot.kind == "count":
        return words.view(np.int64).astype(np.float64)
    return ring.decode(words.reshape(-1, ring.WORDS))
