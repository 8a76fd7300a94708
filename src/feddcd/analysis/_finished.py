"""What a site's rules look at: the finished columns, and what each row gives to each sum.

A rule that looks at finished columns cannot be tricked by how they were made; one that looks at the
contributions of rows to an answer cannot be tricked by the point that was chosen.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from ._sums import PointQuestion, square
from .protocol import SiteRows

MOST_PRODUCTS = 200_000_000  # of entries that are looked at one by one
SAME = 1e-9  # of the size: what changes less is rounding
RARE = 1000  # rows; of a sum over more, a few hold little
OUTCOME, WEIGHT, OFFSET = "(outcome)", "(weight)", "(offset)"


class Sums(str):
    """What several sums are of; `each` has the words for every one, where these have names."""

    each: tuple[str, ...] = ()

    @classmethod
    def named(cls, words: str, each: Sequence[str]) -> "Sums":
        made = cls(words)
        made.each = tuple(each)
        return made


def columns_of(rows: SiteRows) -> dict[str, np.ndarray]:
    """The columns of the design by name, the outcome, the weights and the offset."""
    X, Y, s, o = rows.data
    names = rows.names or tuple(f"column {i + 1}" for i in range(X.shape[1]))
    found = dict(zip(names, X.T, strict=True))
    several = Y.shape[1] > 1
    found |= {f"{OUTCOME} {i + 1}" if several else OUTCOME: y for i, y in enumerate(Y.T)}
    return found | {WEIGHT: s, OFFSET: o}


def contributions(rows: SiteRows, question: PointQuestion) -> Iterator[tuple[str, np.ndarray]]:
    """Absolute values, n by m each: of moments, gradient, H, total curvature."""
    data, family = question.in_basis(rows.data), rows.plan.loss()
    X, Y, s, o = data
    w = s[:, None]
    with np.errstate(all="ignore"):
        geometry = family.geometry(data, question.w.shape[0] - len(family.extras))
        z = geometry.z(question.w)
        at = family.terms(z, Y)
        if question.pilot:
            yield "the sum of weights", w
            yield "a sum of a column", w * abs(X)
            yield "a sum of squares of a column", w * X**2
            yield "a sum of the outcome", w * abs(Y)
            yield "a sum of the offset", w * np.stack([abs(o), o**2], 1)
            for y in Y.T:
                yield "a sum of a column times the outcome", w * abs(X * y[:, None])
            if family.starts is not None:
                weight, target = family.starts(data)
                yield "the matrix for the first guess of the coefficients", weight[:, None] * X**2
                yield "the vector for the first guess of the coefficients", abs(target[:, None] * X)
                yield from _products(
                    "the matrix for the first guess of the coefficients",
                    X,
                    weight,
                    rows.names or (),
                )
        scores = geometry.scores(w * at.slope)
        yield "the gradient", abs(scores)
        kinds = {"the Hessian": at.curvature}
        if family.expected is not None:
            kinds["the information"] = family.expected(z)
        for what, C in kinds.items():
            own = abs(np.diagonal(C, axis1=1, axis2=2))
            yield (
                f"the diagonal of {what}",
                (X[:, :, None] ** 2 * (w * own)[:, None, :]).reshape(len(X), -1),
            )
            yield f"the curvature of {what}", w * own.sum(1, keepdims=True)
            for curvature in (w * own).T:
                names = () if question.basis.size else rows.names or ()
                yield from _products(what, X, curvature, names)
        if family.firth and question.V.size:
            V, mean = square(question.V, question.w.size), family.mean(z)
            h = s * at.curvature[:, 0, 0] * np.sum((X @ V) * X, 1)
            yield "the gradient of Firth's penalty", abs(X * (h * (0.5 - mean[:, 0]))[:, None])
        if question.closing:
            yield (
                "the middle matrix of the sandwich estimator (robust standard errors)",
                _meat(scores, rows.cluster),
            )


def changes(rows: SiteRows, question: PointQuestion) -> Iterator[tuple[str, np.ndarray]]:
    """Absolute values, n by m, for each question before: of the gradient, and the diagonal of H."""
    if not any(each.w.shape == question.w.shape for each in rows.before):
        return
    now = _parts(rows, question)
    for each in rows.before:
        if each.w.shape == question.w.shape and each.basis.shape == question.basis.shape:
            for (what, a), (_, b) in zip(now, _parts(rows, each), strict=True):
                change = abs(a - b)
                change[:, change.max(0, initial=0) <= SAME * abs(a).max(0, initial=0)] = 0
                yield f"the change of {what}", change


def _parts(rows: SiteRows, question: PointQuestion) -> list[tuple[str, np.ndarray]]:
    data, family = question.in_basis(rows.data), rows.plan.loss()
    w = data.s[:, None]
    with np.errstate(all="ignore"):
        geometry = family.geometry(data, question.w.shape[0] - len(family.extras))
        at = family.terms(geometry.z(question.w), data.Y)
        own = w * np.diagonal(at.curvature, axis1=1, axis2=2)
        squares = (data.X[:, :, None] ** 2 * own[:, None, :]).reshape(len(w), -1)
        scores = geometry.scores(w * at.slope)
    return [("the gradient", scores), ("the diagonal of the Hessian", squares)]


def _products(
    what: str, X: np.ndarray, curvature: np.ndarray, names: Sequence[str] = ()
) -> Iterator[tuple[str, np.ndarray]]:
    """Off the diagonal: |x_j x_k| times the curvature, for each pair of columns. Of a table that is
    too large for that, the pairs that few rows have a product of."""
    n, p = X.shape
    size, two = abs(X), np.all((X.min(0) == X) | (X.max(0) == X), axis=0)
    entry = f"an entry of {what}, from the product of two"
    kinds = {f"{entry} columns": False, f"{entry} categories": True}

    def told(words: str, j: int, others: Sequence[int]) -> Sums:
        pairs = [f"{words}, {names[j]!r} and {names[k]!r}" for k in others] if names else []
        return Sums.named(words, pairs)

    if n * p**2 <= MOST_PRODUCTS:
        for j in range(p - 1):
            parts = size[:, j + 1 :] * (size[:, j] * curvature)[:, None]
            for words, both in kinds.items():
                others = np.flatnonzero((two[j] & two[j + 1 :]) == both)
                yield told(words, j, [*map(int, others + j + 1)]), parts[:, others]
        return
    there = (size * curvature[:, None] > 0).astype(np.float32)
    counts = np.triu(there.T @ there, 1)
    for j, k in np.argwhere((counts > 0) & (counts < RARE)):
        parts = size[:, j] * size[:, k] * curvature
        yield told([*kinds][int(two[j] and two[k])], j, [k]), parts[parts > 0][:, None]


def _meat(scores: np.ndarray, cluster: np.ndarray | None) -> np.ndarray:
    """By row, or by cluster where there are several here."""
    if cluster is None:
        return scores**2
    sums = np.zeros((int(cluster.max(initial=-1)) + 1, scores.shape[1]))
    np.add.at(sums, cluster, scores)
    return sums**2


def is_definite(question: PointQuestion) -> bool:
    """Whether V, where one is given, is positive definite: no other is an inverse Hessian."""
    if not question.V.size:
        return True
    V = square(question.V, question.w.size)
    size = np.sqrt(np.maximum(np.diag(V), 0))
    if not np.all(np.isfinite(V)) or not np.all(size > 0):
        return False
    try:
        np.linalg.cholesky(V / np.outer(size, size))
    except np.linalg.LinAlgError:
        return False
    return True
