"""Whether a question is about a step: it cuts rows in two where it should weigh them.

The gradient tells Σ x mean, once Σ x y is known, and the Hessian tells Σ x mean (1 - mean): so the
two tell Σ x mean². At a step that one row alone is above, this is the row. A column that is 0 for
most rows can make a step that only the others feel, so each cell of columns is looked at by itself.
"""

from collections.abc import Iterator

import numpy as np

from .._text import plural
from . import _ordinal
from ._sums import PointQuestion
from .protocol import SiteRows

CERTAIN = 1e-3 / 4  # of the variance of a class, a thousandth of the largest
VALUES = 12  # of a column that has more, its most frequent value makes two cells
ROWS = 2**15  # that are added up at a time: counts of them are exact in 32 bits
MOST_CELLS = 400  # of which pairs are looked at, too
ALONE, FEW = 0.95, 0.99  # of a sum over a cell: in one row, in k - 1 rows


def steep(rows: SiteRows, question: PointQuestion, k: int) -> str:
    """Why it is one, or nothing. Only who owns a site can steer the sums so far; an honest fit that
    steep is a separated one."""
    family = rows.plan.loss()
    if family.quadratic or k < 2:
        return ""
    with np.errstate(all="ignore"):
        chance = _chances(rows, question)
        classed = chance is not None
        sizes = chance**2 if chance is not None else abs(_means(rows, question))
        sizes = sizes * rows.data.s[:, None]
        sizes = np.nan_to_num(sizes / sizes.max(0, initial=0), nan=0.0)  # no overflow of squares
    still = np.max(chance * (1 - chance), axis=1) > CERTAIN if chance is not None else None
    if still is not None and 2 * still.sum() < len(still):
        return (
            "with the coefficients of this question, the model would predict the class of "
            "most rows of this site almost exactly"
        )
    for cell in _narrow(_cells(rows.data.X), still, sizes, k):
        own = np.flatnonzero(cell)
        if still is not None and 2 * still[own].sum() < len(own):
            return (
                "with the coefficients of this question, the model would predict the class "
                "of most rows of a cell (for example, all rows of one level) almost exactly"
            )
        if len(own) >= 2 * (k - 1) and _is_of_few(sizes[own], k):
            what = "predicted chances of a class" if classed else "predicted means"
            return (
                f"in a cell, {plural(k - 1, 'row')} alone would give nearly the whole sum of the "
                f"{what}"
            )
    return ""


def _point(rows: SiteRows, question: PointQuestion) -> tuple:
    data, family = question.in_basis(rows.data), rows.plan.loss()
    return data, family, question.w.shape[0] - len(family.extras)


def _means(rows: SiteRows, question: PointQuestion) -> np.ndarray:
    data, family, place = _point(rows, question)
    return family.mean(family.geometry(data, place).z(question.w))


def _chances(rows: SiteRows, question: PointQuestion) -> np.ndarray | None:
    """Of every class, by row; None where the outcome has no classes."""
    data, family, place = _point(rows, question)
    if family.like == "ordinal":
        z = data.X[:, :place] @ question.w[:place, 0] + data.offset
        return np.clip(_ordinal.probabilities(z, question.w[place:, 0]), 0, 1)
    if family.like not in ("binomial", "multinomial"):
        return None
    mean = _means(rows, question)
    return np.column_stack([mean, np.clip(1 - mean.sum(1), 0, 1)])


def _cells(X: np.ndarray) -> np.ndarray:
    """Rows of each value of each column, m by n. Of a column of many values: those with its most
    frequent value, and the others."""
    found = {}
    for x in X.T:
        values, counts = np.unique(x, return_counts=True)
        if len(values) == 1:
            continue
        if len(values) > VALUES:
            usual = x == values[counts.argmax()]
            cells = [usual, ~usual]
        else:
            cells = [x == value for value in values]
        found |= {cell.tobytes(): cell for cell in cells}
    return np.array([np.ones(len(X), bool), *found.values()])


def _narrow(
    cells: np.ndarray, still: np.ndarray | None, sizes: np.ndarray, k: int
) -> Iterator[np.ndarray]:
    """Those cells, and pairs of them, that may be wrong: by their sums alone, which are cheap."""
    m = len(cells) if len(cells) <= MOST_CELLS else 1
    weights = [np.ones(len(sizes)), *([] if still is None else [still])]
    weights += [each for size in sizes.T for each in (size, size**2)]
    sums = np.zeros((len(weights), len(cells), m))
    for start in range(0, len(sizes), ROWS):
        part = cells[:, start : start + ROWS].astype(np.float32)
        for i, weight in enumerate(weights):
            sums[i] += (part * weight[start : start + ROWS].astype(np.float32)) @ part[:m].T
    n, *sums = sums
    wrong = np.zeros(n.shape, bool)
    if still is not None:
        wrong |= 2 * sums.pop(0) < n
    for total, squares in zip(sums[::2], sums[1::2], strict=True):
        wrong |= squares * (k - 1) >= 0.9 * (FEW * total) ** 2
    for i, j in np.argwhere(wrong & (n >= k)):
        if j <= i:
            yield cells[i] & cells[j]


def _is_of_few(sizes: np.ndarray, k: int) -> bool:
    largest = np.sort(sizes, axis=0)[::-1]
    total = largest.sum(0)
    few = largest[: k - 1].sum(0) > FEW * total
    return bool(np.any((total > 0) & (few | (largest[0] > ALONE * total))))
