"""What the counts and sums of two jobs reveal together, where one of them is a description.

A description adds up rows by cells, and leaves out others than a description by other groups does.
Whoever has both adds up cells of the one, and takes away cells of the other: what is left speaks of
the rows that are in one of the two unions alone. So no two unions differ by 1 to k - 1 rows.

Draw a point for each cell, and between a cell of one job and a cell of the other a line as thick as
the rows that they share. Two unions are a cut, and the rows in one of them alone are what the cut
goes through. So the thinnest cut of each connected part says it exactly. Rows of which a job tells
nothing are one point, the same for both jobs: nobody can add it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from scipy.sparse import coo_array, csr_array
from scipy.sparse.csgraph import connected_components

from ...analysis.protocol import Analysis, SiteRows
from ...analysis.registry import comparable, counted, counted_alone
from ._identity import same_rows
from .memory import Memory, ToldSets
from .policy import Policy, Ruled, limit

RULE = "descriptions"
MOST_POINTS = 400  # that are left to cut; more are refused unseen


def as_told(policy: Policy, rows: SiteRows, analysis: Analysis) -> SiteRows:
    """The rows as they are told: where the policy is careful, never about fewer than k."""
    k = policy.min_support
    return analysis.guarded(rows, max(k, limit(policy.min_per_level)) if k > 1 else 0)


def check_told(
    policy: Policy, rows: SiteRows, analysis: Analysis, facts: Any, hidden: bool, memory: Memory
) -> dict[str, bool]:
    """Against all earlier jobs of this file; tables among themselves have rules of their own. What
    is told is kept. `hidden`: small cells of tables may be in sums."""
    k = policy.min_support
    if facts.identity is None or k < 2:
        return {}
    described = not hasattr(rows.plan, "formula")
    told = ToldSets(facts.identity, counted(as_told(policy, rows, analysis)))
    for id, known in memory.jobs().items():
        if id == facts.job or known["set"] in {None, *memory.retired()}:
            continue
        if not described and not known.get("described"):
            continue
        for one, other in _differ(told, _earlier(id, known, memory), k, hidden):
            what = f"two sets of rows would differ by fewer than {k} rows: in this job,"
            what = f"{what} {_named(one)}; in the earlier job {id[:8]}, {_named(other)}"
            raise Ruled(RULE, what)
    memory.keep_told(facts.job, told)
    return {"described": described}


def _named(sets: str) -> str:
    """By kind, as `counted` has them."""
    kind, name = sets.split(" ", 1)
    words = {"level": "the rows with one level", "number": "the rows with a value"}
    words["column"] = "the rows with one of the two values"
    return (
        f"{words.get(kind, kind)} in the column {name!r}"
        if name
        else "all rows, or the rows of a group"
    )


def _earlier(id: str, known: Mapping[str, Any], memory: Memory) -> ToldSets:
    if known.get("described") is not None:
        return memory.told_sets(id)
    ids = memory.rows_of(known["set"])
    return ToldSets(ids, counted_alone(len(ids), tuple(known.get("columns", ()))))


def _differ(now: ToldSets, before: ToldSets, k: int, hidden: bool) -> Iterator[tuple[str, str]]:
    """The first pair that differs by few rows."""
    pairs = same_rows(now.ids, before.ids)
    seen: set[tuple[bytes, bytes]] = set()
    for one, a in now.sets.items():
        for other, b in before.sets.items():
            table = "column" in (one.split(" ")[0], other.split(" ")[0])
            if not comparable(one, other) or (hidden and table):
                continue
            key = a.tobytes(), b.tobytes()
            if key not in seen and few_apart(*_aligned(a, b, pairs), k):
                yield one, other
                return
            seen.add(key)


def _aligned(
    a: np.ndarray, b: np.ndarray, pairs: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Over the rows of both; only the other job reveals something of a row that one job lacks."""
    one, other = pairs
    lone, its = np.delete(a, one), np.delete(b, other)
    none = lambda like: np.full(len(like), -1, np.int32)
    return np.concatenate([a[one], lone, none(its)]), np.concatenate([b[other], none(lone), its])


def few_apart(a: np.ndarray, b: np.ndarray, k: int) -> bool:
    """Whether a union of cells of `a` and one of `b` differ by 1 to k - 1 rows; -1 is in none."""
    cells, own = np.unique(np.append(-1, a), return_inverse=True)
    others, its = np.unique(np.append(-1, b), return_inverse=True)
    points = len(cells) + len(others) - 1  # the first of both, -1, is one
    lines = own[1:], np.where(its[1:] == 0, 0, its[1:] + len(cells) - 1)
    lines, rows = _added(*lines, np.ones(len(a), int))
    while (thick := rows >= k).any():  # no thin cut goes through a thick line
        points, which = connected_components(_graph(lines[:, thick], rows[thick], points))
        lines, rows = _added(*which[lines], rows)
    _, part = connected_components(_graph(lines, rows, points))
    for each in np.unique(part[lines[0]]):
        at = np.flatnonzero(part == each)
        if len(at) > MOST_POINTS:
            return True
        if _thin(_graph(lines, rows, points)[at][:, at].toarray(), k):
            return True
    return False


def _added(one: np.ndarray, other: np.ndarray, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Lines between the same points as one, and none from a point to itself."""
    ends = np.sort([one, other], axis=0)
    apart = ends[0] != ends[1]
    lines, which = np.unique(ends[:, apart], axis=1, return_inverse=True)
    return lines, np.bincount(which.ravel(), rows[apart], lines.shape[1]).astype(int)


def _graph(lines: np.ndarray, rows: np.ndarray, points: int) -> csr_array:
    both = np.hstack([lines, lines[::-1]])
    return coo_array((np.tile(rows, 2), (both[0], both[1])), (points, points)).tocsr()


def _thin(W: np.ndarray, k: int) -> bool:
    """Whether some cut of a connected graph is below k: Stoer and Wagner, to the first one."""
    W = W.astype(float)
    while len(W) > 1:
        near, left, order = W[0].copy(), np.ones(len(W), bool), [0]
        left[0] = False
        while left.any():
            order.append(int(np.where(left, near, -1.0).argmax()))
            left[order[-1]] = False
            near += W[order[-1]]
        last, before = order[-1], order[-2]
        if W[last].sum() < k:
            return True
        W[before] += W[last]
        W[:, before] += W[:, last]
        W[before, before] = 0.0
        W = np.delete(np.delete(W, last, 0), last, 1)
    return False
