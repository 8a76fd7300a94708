"""What the numbers of a job tell together of joint cells: rows with the same categories.

Every number is a sum over rows of something that a row gives: a product of two columns, times the
curvature at the point that was asked for. Of columns of few values whoever reads the numbers knows
what a row of each joint cell gives, and so has equations for how many rows each cell has. Products
alone add up to cells that no column has, as that of two reference levels; and at each new point the
curvature is another one, so that a few answers tell all joint cells of many columns.

A column of many values that bends the curvature makes these equations inexact: a row of a cell may
have the value of any other row. What is known to half a row counts as told.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ._sums import DesignRows, PointQuestion
from .families import Family
from .protocol import SiteRows

VALUES = 16  # of a column that has more, nobody knows them
NEAR = 0.05  # of a column's deviation
ROUNDING = 1e-14  # of the size of a sum
HALF = 2.0  # equations to a row: what is more exact is told
MOST_WORK = 200_000_000  # cells times equations times the fewer of both
POINTS = 6  # of a job, where whoever asks may choose them
OFTEN = 0.1  # the share of rows in which a product with a category is 0
LENDERS = 24  # rows whose values a row of a cell may have
Weight = tuple[str, np.ndarray]


def told(rows: SiteRows, question: Any, k: int, free: bool = False) -> np.ndarray:
    """Of the rows in joint cells of fewer than k: their entries in an orthonormal basis of all
    functions of rows of which the sum is told, by this question and those before. Nothing where
    there are no such cells. `free`: whoever asks may choose any points."""
    (X, few), (Y, classed) = _levelled(rows.data.X), _levelled(rows.data.Y)
    columns = [np.ones(len(X)), *X.T[few], *_products(X[:, ~few], k)]
    cells = np.column_stack([*columns, *Y.T[classed]])
    values, at, sizes = np.unique(cells, axis=0, return_inverse=True, return_counts=True)
    at, small = at.ravel(), sizes < k
    if not small.any() or len(columns) ** 2 * len(sizes) > MOST_WORK:
        return np.zeros((0, 0))
    asked = [*rows.before, question, *(_chosen(rows, question, few) if free else ())]
    own = slice(1, 1 + few.sum()), slice(len(columns), None)
    columns, pairs = values[:, : len(columns)], _pairs(values[:, : len(columns)])
    # too large, a table is looked at as far as products tell alone, or not at all
    enough = [each for each in (asked, []) if _work(sizes, pairs, len(each)) <= MOST_WORK]
    if not enough:
        return np.zeros((0, 0))
    lenders = _lenders(columns[:, own[0].stop :], at)
    X, Y, s, offset = (part[lenders] for part in rows.data)
    X[:, few], Y[:, classed] = (np.repeat(values[:, each], LENDERS, axis=0) for each in own)
    made = DesignRows(X, Y, s, offset)
    parts = {"all": columns[:, :1], "columns": columns, "pairs": pairs}
    shown = [_shown(rows, each, k) for each in enough[0]]
    W = _equations(rows.plan.loss(), rows.data, made, enough[0], shown, parts, sizes)
    Q = np.linalg.qr(_known(W) * np.sqrt(sizes)[:, None])[0] / np.sqrt(sizes)[:, None]
    return Q[at[small[at]]]


def _pairs(columns: np.ndarray) -> np.ndarray:
    """All products of two columns that differ."""
    i, j = np.triu_indices(columns.shape[1])
    return np.unique(columns[:, i] * columns[:, j], axis=1)


def _work(sizes: np.ndarray, pairs: np.ndarray, questions: int) -> int:
    cells, equations = len(sizes), (1 + questions) * pairs.shape[1]
    return cells * equations * min(cells, equations)


def _lenders(lacking: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Places of rows, so many for each cell: whose values a row of the cell may have where these
    are many, being one of those that lack the same products."""
    kinds = np.unique(lacking, axis=0, return_inverse=True)[1].ravel()
    draw = np.random.default_rng(0)
    some = {kind: draw.choice(np.flatnonzero(kinds[at] == kind), LENDERS) for kind in {*kinds}}
    return np.concatenate([some[kind] for kind in kinds])


def _levelled(X: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Columns, and which of them have few values. Values that lie close together, and far from all
    others, are one: a little of another column makes no secret of a category."""
    X = X.copy()
    for x in X.T:
        values, at = np.unique(x, return_inverse=True)
        if len(values) <= VALUES or not np.all(np.isfinite(x)):
            continue
        apart = np.diff(values) > NEAR * x.std()
        if apart.sum() < VALUES:
            which = np.append(0, np.cumsum(apart))
            ends = np.searchsorted(which, np.arange(which[-1] + 1), side="right") - 1
            starts = np.append(0, ends[:-1] + 1)
            if np.all(values[ends] - values[starts] <= 2 * NEAR * x.std()):
                x[:] = values[starts][which[at]]
    return X, np.array([len(np.unique(x)) <= VALUES for x in X.T], bool)


def _products(X: np.ndarray, k: int) -> list[np.ndarray]:
    """Of columns that are 0 in many rows, as products with a category are: where they are not. A
    number that happens to be 0, as log(x) is at 1, is none."""
    least = max(k, OFTEN * len(X))
    return [x != 0 for x in X.T if k <= np.sum(x != 0) <= len(x) - least]


def _equations(
    family: Family,
    own: DesignRows,
    made: DesignRows,
    asked: list[PointQuestion],
    shown: list[np.ndarray],
    parts: Mapping[str, np.ndarray],
    sizes: np.ndarray,
) -> np.ndarray:
    """Cells by numbers that are told: what a row of the cell gives, by how far that is unsure."""
    weights: list[Weight] = [("pairs", made.s), *(("columns", made.s * y) for y in made.Y.T)]
    for each, bins in zip(asked, shown, strict=True):
        weights += [*_binned(family, made, each, bins), *_weights(family, made, each)]
        if each.pilot and family.guess is not None:  # as if others knew what the site's fit gave
            pairs, columns = family.guess(each.in_basis(own), each.in_basis(made))
            weights += [("pairs", pairs), ("columns", columns)]
    found = []
    for name, x in weights:
        given = x.reshape(-1, LENDERS)
        F, apart = (parts[name] * y[:, None] for y in (given.mean(1), given.std(1)))
        size = sizes @ (abs(F) + apart)
        there = np.isfinite(size) & (size > 0)
        noise = (np.sqrt(sizes)[:, None] * apart)[:, there] / size[there]
        found.append(_by_noise(F[:, there] / size[there], noise))
    return np.hstack(found)


def _by_noise(F: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """In combinations of these numbers that are unsure each by itself, by how far they are."""
    if noise.max(initial=0) < ROUNDING:
        return F / ROUNDING
    size, V = np.linalg.eigh(noise.T @ noise)
    return F @ V / np.sqrt(np.maximum(size, max(ROUNDING**2, ROUNDING * size.max())))


def _places(family: Family, data: DesignRows, asked: PointQuestion) -> np.ndarray:
    """The bin of each row, by its predicted mean."""
    data = asked.in_basis(data)
    with np.errstate(all="ignore"):
        geometry = family.geometry(data, asked.w.shape[0] - len(family.extras))
        return np.searchsorted(asked.edges, family.mean(geometry.z(asked.w))[:, 0])


def _shown(rows: SiteRows, asked: PointQuestion, k: int) -> np.ndarray:
    """Bins of which the counts are told."""
    if not asked.edges.size:
        return np.zeros(0, int)
    return np.flatnonzero(np.bincount(_places(rows.plan.loss(), rows.data, asked)) >= k)


def _binned(
    family: Family, data: DesignRows, asked: PointQuestion, bins: np.ndarray
) -> Iterator[Weight]:
    place = _places(family, data, asked) if len(bins) else bins
    yield from (("all", data.s * (place == each)) for each in bins)


def _weights(family: Family, data: DesignRows, asked: PointQuestion) -> Iterator[Weight]:
    """What products of two columns, columns, or 1 are multiplied with in the sums."""
    if family.quadratic:  # sums of products again
        return
    data = asked.in_basis(data)
    s = data.s
    with np.errstate(all="ignore"):
        geometry = family.geometry(data, asked.w.shape[0] - len(family.extras))
        z = geometry.z(asked.w)
        at = family.terms(z, data.Y)
        curvatures = [at.curvature, *([] if family.expected is None else [family.expected(z)])]
        doubt = at.size + np.diagonal(at.curvature, axis1=1, axis2=2) * geometry.size(asked.w)
    yield "all", s * at.value
    for a in range(at.curvature.shape[1]):
        yield "columns", s * at.slope[:, a]
        yield "columns", s * abs(doubt[:, a])
        yield from (("pairs", s * C[:, a, b]) for C in curvatures for b in range(a + 1))
    if asked.closing:
        yield "pairs", (s * at.slope[:, 0]) ** 2


def _chosen(rows: SiteRows, question: PointQuestion, few: np.ndarray) -> Iterator[PointQuestion]:
    """Points at which columns of many values do not bend the curvature."""
    place = question.w.shape[0] - len(rows.plan.loss().extras)
    largest = abs(rows.data.X[:, :place]).max(0, initial=0)
    size = np.where(few[:place] & (largest > 0), 1 / np.where(largest > 0, largest, 1.0), 0.0)
    draw = np.random.default_rng(0)
    for _ in range(POINTS):
        w = question.w.copy()
        w[:place] = draw.normal(size=w[:place].shape) * size[:, None]
        yield question._replace(w=w, basis=np.zeros(0), edges=np.zeros(0))


def _known(W: np.ndarray) -> np.ndarray:
    """Directions in the counts of cells that the equations give to half a row."""
    if W.shape[1] > W.shape[0]:
        W = np.asarray(np.linalg.qr(W.T, mode="r")).T
    U, size, _ = np.linalg.svd(W, full_matrices=False)
    return U[:, size > HALF]
