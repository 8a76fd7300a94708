"""Every number of an answer, as a sum over rows: a weight times 1, a column or two of them.

What a rule says about sums holds for all that leaves if this list is whole. A test adds it up again
and compares it with the answer. Bounds (M, m) are no sums, and those by cluster have a rule of
their own.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from ._binning import bins, group_of
from ._robust import LEVERAGE
from ._sums import DesignRows, PointQuestion, pearson, square
from .families import SHARES, Family

ALL, COLUMNS, PAIRS = "all", "columns", "pairs"


class RowWeight(NamedTuple):
    """Of a part of an answer, by row."""

    part: str
    of: str  # what the weight is multiplied with
    weight: np.ndarray


def weights(
    plan: Any, own: DesignRows, made: DesignRows, asked: PointQuestion, k: int
) -> Iterator[RowWeight]:
    """What rows `made` up would give, `own` being the site's: the same, for what the site sends."""
    family: Family = plan.loss()
    with np.errstate(all="ignore"):
        if asked.pilot:
            yield from _moments(family, asked.in_basis(own), asked.in_basis(made))
        elif family.quadratic:  # but for bins and robust errors it follows from the pilot
            yield from _binned(family, own, made, asked, k)
            yield from _meat(plan, family, asked.in_basis(made), asked)
            return
        yield from _point(family, asked.in_basis(made), asked)
        yield from _binned(family, own, made, asked, k)
        yield from _meat(plan, family, asked.in_basis(made), asked)


def _moments(family: Family, own: DesignRows, made: DesignRows) -> Iterator[RowWeight]:
    _, Y, s, o = made
    yield RowWeight("moments.n", ALL, np.ones(len(s)))
    for part in ("weight", "x", "xx"):
        yield RowWeight(f"moments.{part}", PAIRS, s)
    for y in Y.T:
        yield from (RowWeight(f"moments.{part}", COLUMNS, s * y) for part in ("y", "xy"))
    yield from (RowWeight("moments.o", ALL, s * x) for x in (o, o**2))
    yield RowWeight("moments.floor", ALL, s * family.least(Y))
    yield from (RowWeight("moments.constant", ALL, x) for x in (family.constant(Y, s), np.log(s)))
    if family.starts is not None:  # as if others knew what the site's fit gave
        pairs, columns = family.starts(own, made)
        yield RowWeight("moments.start", PAIRS, pairs)
        yield RowWeight("moments.start", COLUMNS, columns)


def _point(family: Family, data: DesignRows, asked: PointQuestion) -> Iterator[RowWeight]:
    s, place = data.s, asked.w.shape[0] - len(family.extras)
    geometry = family.geometry(data, place)
    z, steady = geometry.z(asked.w), family if family.at is None else family.at(asked.w, place)
    at, mean = family.terms(z, data.Y), family.mean(z)
    doubt = at.size + np.diagonal(at.curvature, axis1=1, axis2=2) * geometry.size(asked.w)
    yield RowWeight("value", ALL, s * at.value)
    for a, slope in enumerate(at.slope.T):
        yield RowWeight("g", COLUMNS, s * slope)
        yield RowWeight("size", COLUMNS, s * abs(doubt[:, a]))
    kinds = {"H": at.curvature} | ({} if family.expected is None else {"F": family.expected(z)})
    for part, C in kinds.items():
        yield from (RowWeight(part, PAIRS, s * C[:, a, b]) for a, b in zip(*_lower(C), strict=True))
    if family.bare:  # columns of thresholds are those of classes
        for each in np.unique(data.Y[:, 0]):
            own = s * (data.Y[:, 0] == each)
            yield from (RowWeight("g", ALL, own * slope) for slope in at.slope.T)
            C = np.diagonal(at.curvature, axis1=1, axis2=2)
            yield from (RowWeight("H", COLUMNS, own * c) for c in C.T)
    if family.floor is not None:
        yield RowWeight("floor", ALL, s * family.floor(data.Y, asked.w, place))
    if family.firth and asked.V.size:
        h = s * at.curvature[:, 0, 0] * _quadratic(data.X, asked.V)
        yield RowWeight("firth", COLUMNS, h * (0.5 - mean[:, 0]))
    null = steady.terms(asked.null + data.offset[:, None] + 0 * data.Y, data.Y)
    flat = (null.value, *null.slope.T, *null.curvature.reshape(len(s), -1).T)
    yield from (RowWeight("null", ALL, s * x) for x in flat)
    yield RowWeight("pearson", ALL, s * pearson(data.Y, mean, steady.variance(mean)))


def _lower(C: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return np.tril_indices(C.shape[1])


def _quadratic(X: np.ndarray, V: np.ndarray) -> np.ndarray:
    """x'Vx by row."""
    return np.sum((X @ square(V, X.shape[1])) * X, 1)


def _binned(
    family: Family, own: DesignRows, made: DesignRows, asked: PointQuestion, k: int
) -> Iterator[RowWeight]:
    if not asked.edges.size:
        return
    data = asked.in_basis(made)
    geometry = family.geometry(data, asked.w.shape[0] - len(family.extras))
    mean = family.mean(geometry.z(asked.w))[:, 0]
    group = group_of(own, made, family, asked, k)
    for each in np.unique(group):
        inside = made.s * (group == each)
        for x in (inside, inside * made.Y[:, 0], inside * mean):
            yield RowWeight("bins", ALL, x)
    if family.like in SHARES:
        return
    residuals, place = bins(own, family, asked)[1], bins(made, family, asked)[1]
    for each in np.flatnonzero(np.bincount(residuals) >= k):
        yield RowWeight("residuals", ALL, made.s * (place == each))


def _meat(plan: Any, family: Family, data: DesignRows, asked: PointQuestion) -> Iterator[RowWeight]:
    """Of one linear predictor; with several, those of each."""
    if not asked.closing:
        return
    z = family.geometry(data, asked.w.shape[0] - len(family.extras)).z(asked.w)
    at, factor = family.terms(z, data.Y), np.ones(len(data.s))
    if plan.covariance in LEVERAGE:
        C = at.curvature if family.expected is None else family.expected(z)
        h = data.s * C[:, 0, 0] * _quadratic(data.X, asked.V)
        factor = np.maximum(1 - h, 1e-9) ** -LEVERAGE[plan.covariance]
    for slope in at.slope.T:
        yield RowWeight("meat", PAIRS, (data.s * slope) ** 2 * factor)
