"""Which counts of a table stay hidden: small ones, and those from which a small one would follow.

A count of 1 to k-1 rows is sensitive. The counts that are shown obey equations, for levels add up
to rows and groups to totals; so, if no more were hidden, a sensitive count would often be the one
unknown of an equation. More counts are hidden, the smallest first, until no sensitive count can be
worked out and the hidden counts of no sum add up to a small number.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

Equation = Sequence[tuple[int, int]]  # of counts: their places and signs; the sum is known


class Grouped(NamedTuple):
    """Counts of levels (or of present and missing) by groups, some of which are hidden."""

    counts: np.ndarray
    hidden: np.ndarray  # by group


class Hidden(NamedTuple):
    """True where a count is not shown."""

    cells: np.ndarray  # levels by groups
    totals: np.ndarray  # by level


def hide(
    counts: np.ndarray,
    equations: Sequence[Equation],
    least: int,
    hidden: np.ndarray | None = None,
    fixed: np.ndarray | None = None,
) -> np.ndarray:
    """True where a count is hidden: those of `hidden` in any case, and none of `fixed` more."""
    gone = np.zeros(len(counts), bool) if hidden is None else hidden.copy()
    if least <= 1:
        return gone
    fixed = np.zeros(len(counts), bool) if fixed is None else fixed
    sensitive = (counts > 0) & (counts < least)
    gone |= sensitive & ~fixed
    while wrong := _unsafe(counts, equations, least, gone, sensitive):
        left = [c for equation in wrong if (c := _next(counts, equation, gone | fixed))]
        if not left:
            break  # nothing more can be hidden
        # of cells the first, for their equations are in order; of totals only where none is left
        gone[min(left, key=lambda c: c.is_total).at] = True
    return gone


class _Candidate(NamedTuple):
    is_total: bool
    rows: int
    at: int


def _unsafe(
    counts: np.ndarray,
    equations: Sequence[Equation],
    least: int,
    gone: np.ndarray,
    sensitive: np.ndarray,
) -> list[Equation]:
    """Equations that tell too much, and where more should be hidden first."""
    for equation in equations:
        unknown = [(at, sign) for at, sign in equation if gone[at]]
        same = len({sign for _, sign in unknown}) == 1
        if same and 0 < sum(counts[at] for at, _ in unknown) < least:
            return [equation]
    there = gone & (counts > 0)
    if not _determined(equations, there) & set(np.flatnonzero(sensitive & gone).tolist()):
        return []
    # it follows in several steps, of which the first is an equation with one unknown
    unknowns = [sum(there[at] for at, _ in equation) for equation in equations]
    order = sorted(range(len(equations)), key=lambda i: unknowns[i])
    return [equations[i] for i in order if unknowns[i]]


def _determined(equations: Sequence[Equation], gone: np.ndarray) -> set[int]:
    """The hidden counts that all equations together leave no freedom."""
    places = np.flatnonzero(gone)
    if not len(places):
        return set()
    order = {int(at): k for k, at in enumerate(places)}
    rows = [[(order[at], sign) for at, sign in e if gone[at]] for e in equations]
    A = np.zeros((len(rows), len(places)))
    for i, row in enumerate(rows):
        for k, sign in row:
            A[i, k] = sign
    _, values, V = np.linalg.svd(A)
    rank = int(np.sum(values > 1e-9 * max(values.max(initial=0), 1)))
    free = np.abs(V[rank:]).max(0, initial=0) > 1e-9
    return {int(at) for at, moves in zip(places, free, strict=True) if not moves}


def _next(counts: np.ndarray, equation: Equation, taken: np.ndarray) -> _Candidate | None:
    """What to hide next: the smallest count, a total last. A count of 0 would hide nothing: that
    none is below 0 often tells it."""
    left = [
        _Candidate(sign < 0, int(counts[at]), at)
        for at, sign in equation
        if not taken[at] and counts[at] > 0
    ]
    return min(left, default=None)


def hide_groups(rows: np.ndarray, least: int) -> np.ndarray:
    """Of groups with rows that add up to a total that is shown."""
    return hide(rows, [[(i, 1) for i in range(len(rows))]], least)


def hide_levels(tables: Sequence[Grouped], least: int) -> list[Hidden]:
    """Of tables of the same levels by other groups, which share their totals. The rows of all
    groups that are not hidden, and of all together, are shown."""
    levels, totals = len(tables[0].counts), tables[0].counts.sum(1)
    values, start, merged = [totals], [np.zeros(levels, bool)], []
    equations: list[Equation] = [[(i, 1) for i in range(levels)]]
    place = levels
    for counts, hidden in tables:
        table = _merged(counts, hidden)
        merged.append(table)
        across = table.shape[1]
        at = lambda i, j, place=place, across=across: place + i * across + j
        for i in range(levels):
            equations.append([*((at(i, j), 1) for j in range(across)), (i, -1)])
        equations += [[(at(i, j), 1) for i in range(levels)] for j in range(across)]
        unseen = np.zeros(table.shape, bool)
        unseen[:, across - 1] = hidden.any()
        start.append(unseen.ravel())
        values.append(table.ravel())
        place += table.size
    gone = hide(np.concatenate(values), equations, least, np.concatenate(start))
    found, place = [], levels
    for (counts, hidden), table in zip(tables, merged, strict=True):
        cells = np.ones(counts.shape, bool)
        own = gone[place : place + table.size].reshape(table.shape)
        cells[:, ~hidden] = own[:, : int((~hidden).sum())]
        found.append(Hidden(cells, gone[:levels]))
        place += table.size
    return found


def _merged(counts: np.ndarray, hidden: np.ndarray) -> np.ndarray:
    """Groups that are hidden stand together for one that is never shown, as the last."""
    if not hidden.any():
        return counts
    return np.hstack([counts[:, ~hidden], counts[:, hidden].sum(1, keepdims=True)])


def hide_patterns(
    counts: np.ndarray, members: np.ndarray, missing: np.ndarray, hidden: np.ndarray, least: int
) -> np.ndarray:
    """Of patterns of missing values, by pattern; `members` has the columns that each lacks,
    `missing` the missing values by column, of which some are hidden."""
    n = len(counts)
    equations: list[Equation] = [[(i, 1) for i in range(n)]]
    equations += [
        [*((int(i), 1) for i in np.flatnonzero(members[:, c])), (n + c, -1)]
        for c in range(members.shape[1])
    ]
    start = np.concatenate([np.zeros(n, bool), hidden])
    fixed = np.concatenate([np.zeros(n, bool), np.ones(len(missing), bool)])
    return hide(np.concatenate([counts, missing]), equations, least, start, fixed)[:n]
