"""What a careful site says of its rows in a description: nothing about fewer than k of them.

    groups    rows of a group that has fewer than k here are left out of everything
    levels    a level that fewer than k rows of a group have counts as missing there
    values    rare values of a number of few possible values are joined with the next ones
    sums      a number counts as missing in a group where its sum would speak of few rows
    ends      of a number without sums, the rows at either end get the value of the next k rows
    missing   where 1 to k - 1 rows of a group lack a value, more count as missing, until k do
    ranges    for quantiles and histograms k neighbours by size are joined: each gets their mean,
              to which no row gives most

The rows are changed, and then counted as always. So no difference of two counts tells what was
taken out, and it does not matter what other sites add to them.
"""

import numpy as np

from ._bins import MOST_DECIMALS, has_decimals
from ._describe_rows import DescribedRows

MOST_VALUES = 20  # in equal steps: of so few, the sums say how many rows have each


def guarded(data: DescribedRows, k: int) -> DescribedRows:
    """Every count of the result is 0 or at least k, whatever is counted."""
    if k < 2:
        return data
    stay = np.bincount(data.group, minlength=data.shape.parted)[data.group] >= k
    X, codes, group = data.X[stay], data.codes[stay], data.group[stay]  # copies
    groups = [np.flatnonzero(group == g) for g in np.unique(group)]
    summed = data.shape.summed
    for here in groups:
        for j in range(X.shape[1]):
            there = _enough(np.where(np.isnan(X[here, j]), -1, 0), k)
            X[here[there < 0], j] = np.nan
            kept = here[there >= 0]
            if summed[j]:
                X[kept, j] = _without_rare(X[kept, j], k)
            # of a number without sums, three blocks of k rows or more keep the ends out of it
            if (summed[j] or len(_ends(np.sort(X[kept, j]), k)) < 3) and _tells(X[kept, j], k):
                X[here, j] = np.nan
        for j in range(codes.shape[1]):
            codes[here, j] = _enough(codes[here, j], k)
    near = X.copy()
    for j, x in enumerate(X.T):
        decimals = _decimals(x[~np.isnan(x)], k)
        for here in groups:
            rows = here[~np.isnan(x[here])]
            near[rows, j] = _joined(x[rows], k, decimals, inward=not summed[j])
    same = stay.all() and np.array_equal(X, data.X, equal_nan=True)
    few = not (same and np.array_equal(codes, data.codes))
    return data._replace(X=X, codes=codes, group=group, near=near, k=k, few=few, kept=stay)


def _enough(codes: np.ndarray, k: int) -> np.ndarray:
    """Codes of at least k rows, -1 where they are missing: each with k rows, or none."""
    codes = codes.copy()
    levels, rows = np.unique(codes[codes >= 0], return_counts=True)
    codes[np.isin(codes, levels[rows < k])] = -1
    missing = int(np.sum(codes < 0))
    if 0 < missing < k:
        largest = np.flatnonzero(codes == levels[rows.argmax()])
        # drawn in the same way in each exchange; all of them where too few would be left
        draw = np.random.default_rng(0).permutation(largest)
        codes[draw[: k - missing] if len(draw) + missing >= 2 * k else draw] = -1
    return codes


def _tells(x: np.ndarray, k: int) -> bool:
    """Whether fewer than k rows differ from what half of them have, as the ones of zeros and ones,
    or one row is further from the middle than all others together."""
    if not len(x):
        return False
    usual = np.unique(x, return_counts=True)[1].max()
    away = np.abs(x - np.median(x))
    few = 0 < len(x) - usual < k and 2 * usual >= len(x)
    return bool(few or 2 * away.max() > away.sum() * (1 + 1e-12))


def _without_rare(x: np.ndarray, k: int) -> np.ndarray:
    """Of a number of few possible values, as 0, 1 and 2: sums would reveal how many rows have each,
    so that values of fewer than k are joined with the next, to a possible value."""
    values, rows = np.unique(x, return_counts=True)
    if len(values) < 3 or rows.min() >= k:
        return x
    step = np.diff(values).min()
    places = (x - values[0]) / step
    if places.max() >= MOST_VALUES or np.any(abs(places - np.rint(places)) > 1e-6):
        return x
    return values[0] + step * _joined(np.rint(places), k, 0)


def _ends(ordered: np.ndarray, k: int) -> list[int]:
    """Where blocks of k rows or more end; equal values are in one block."""
    ends, need = [], k
    for end in (np.flatnonzero(np.append(np.diff(ordered) != 0, True)) + 1).tolist():
        if end >= need:
            ends.append(end)
            need = end + k
    return [*ends[:-1], len(ordered)]


def _joined(x: np.ndarray, k: int, decimals: float, inward: bool = False) -> np.ndarray:
    """Equal values stay together; with fewer than k of them they are joined with the next.
    `inward`: the blocks at either end get the value of the next block, so that a value far from all
    others is in no number; one of k rows or more with its innermost value gets that."""
    if not len(x):
        return x
    order = np.argsort(x, kind="stable")
    ordered = x[order]
    ends = _ends(ordered, k)
    starts = np.array([0, *ends[:-1]])
    sizes = np.diff([0, *ends])
    drawn = _drawn_in(ordered, starts, np.array(ends) - 1)
    with np.errstate(over="ignore"):
        means = np.add.reduceat(drawn, starts) / sizes
    means = np.clip(means, ordered[starts], ordered[np.array(ends) - 1])
    for end, inner in ((0, 1), (-1, -2)) if inward and len(means) > 2 else ():
        own = ordered[starts[end] : ends[end]]
        last = own[end - 1 if end == 0 else 0]  # next to the other blocks
        means[end] = last if np.sum(own == last) >= k else means[inner]
    if np.isfinite(decimals):
        means = np.rint(means * 10.0**decimals) / 10.0**decimals
    found = np.empty(len(x))
    found[order] = np.repeat(means, sizes)
    return found


def _drawn_in(ordered: np.ndarray, first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Where one row at an end of a block is further from its middle than all others together, its
    value would follow from the mean, as that of the sixth of six rows far from all others: it gets
    the value of the row next to it. A mean of two rows stays."""
    x, sizes = ordered.copy(), last - first + 1
    with np.errstate(over="ignore", invalid="ignore"):
        middle = ordered[(first + last) // 2]
        away = np.add.reduceat(abs(ordered - np.repeat(middle, sizes)), first)
        for end, inner in ((first, first + 1), (last, last - 1)):
            far = (2 * abs(ordered[end] - middle) > away * (1 + 1e-12)) & (sizes > 2)
            x[end[far]] = ordered[inner[far]]
    return x


def _decimals(x: np.ndarray, k: int) -> float:
    """The fewest that write all values but those of less than k rows; inf where none do."""
    if len(x) < k:
        return 0.0
    left = x
    for d in range(MOST_DECIMALS + 1):
        left = left[~has_decimals(left, d)]
        if len(left) < k:
            return float(d)
    return np.inf
