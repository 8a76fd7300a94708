"""Blocks of all sites added up as exact, masked sums are: the same in any order, to the last bit.

What is beyond HUGE is no number but a word for it, as the loss of a row that has no mean: it
travels as FAR, the sums of which are told from all others.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..sums.layout import Layout, Slot
from ..sums.levels import grid_of
from .families import OUTSIDE
from .protocol import Agreement, Analysis, Block, Blocks, Count, Each, Max, Sum

HUGE, FAR = 1e200, 2.0**119


def template(analysis: Analysis, plan: Any, cohort: Agreement, question: Any) -> Blocks:
    """The answer for a row of nobody: names, kinds and shapes are those of every site's."""
    with np.errstate(all="ignore"):
        return analysis.answer(analysis.stand_in(plan, cohort), question)


def layout_of(blocks: Blocks) -> Layout:
    """Without what is looked at site by site, which does not travel here."""
    return Layout(_slot(name, block) for name, block in blocks.items() if not _apart(block))


def values_of(blocks: Blocks) -> dict[str, np.ndarray]:
    """As a layout encodes them."""
    return {
        name: _told(block.value) if isinstance(block, Sum) else block.value
        for name, block in blocks.items()
        if not _apart(block)
    }


def opened(held: Mapping[str, np.ndarray], like: Blocks) -> dict[str, Block]:
    """Sums as the blocks of one answer. All are NaN where a site could not tell its numbers."""
    return {name: _block(block, held.get(name)) for name, block in like.items()}


def add_up(each: Iterable[Blocks]) -> dict[str, Block]:
    """The sums of sites in this process, rounded as masked ones are."""
    every = list(each)
    layout = layout_of(every[0])
    words = layout.total(layout.encode(values_of(blocks)) for blocks in every)
    return opened(layout.decode(words), every[0])


def _told(x: np.ndarray) -> np.ndarray:
    far = np.isfinite(x) & (np.abs(x) > HUGE)
    return np.where(far, np.copysign(FAR, x), x) if np.any(far) else x


def _heard(x: np.ndarray) -> np.ndarray:
    far = np.abs(x) >= FAR / 2
    return np.where(far, np.copysign(OUTSIDE, x), x) if np.any(far) else x


def _apart(block: Block) -> bool:
    return isinstance(block, Each)


def _slot(name: str, block: Block) -> Slot:
    shape = np.shape(block.value)
    match block:
        case Max(_, grid):
            return Slot(name, "max", shape, grid_of(grid))
        case Count():
            return Slot(name, "count", shape)
        case _:
            return Slot(name, "sum", shape)


def _block(like: Block, value: np.ndarray | None) -> Block:
    if value is None:
        return Each(np.zeros(0))
    if isinstance(like, Max):
        return Max(value, like.grid)
    return Count(value) if isinstance(like, Count) else Sum(_heard(value))
