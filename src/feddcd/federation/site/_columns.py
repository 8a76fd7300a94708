"""The rules on numbers alone: support, dominance, joint cells, and columns that are nearly alike.

k is the least number of rows that a number may speak of. Each rule gives why not, or nothing.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import scipy.linalg

HALF = 0.5
MOST_PAIRS = 4000  # of columns that have much in common: each takes a fit
RELATED = 0.5  # r²: columns that have less in common are not nearly alike
SAME = 1e-12  # of the size: differences below are rounding


def unsupported(column: np.ndarray, k: int) -> bool:
    """Whether some rows, but fewer than k, differ from the most frequent value."""
    _, counts = np.unique(column, return_counts=True)
    differ = len(column) - int(counts.max(initial=0))
    return 0 < differ < k


def dominated(parts: np.ndarray, k: int, share: float = HALF) -> np.ndarray:
    """By column of absolute contributions: whether the k - 1 largest hold more than this share, or
    the largest more than half. What is no number counts as dominated."""
    if k < 2 or not parts.size:
        return np.zeros(parts.shape[1], bool)
    n, first = len(parts), min(k - 1, len(parts))
    with np.errstate(all="ignore"):
        total = parts.sum(0)
        largest = np.partition(parts, n - first, axis=0)[n - first :].sum(0)
        few = largest <= total * share * (1 + 1e-12)
        one = parts.max(0) <= total * HALF * (1 + 1e-12)
        return ~(few & one) & (total != 0)


def lonely(column: np.ndarray, k: int, share: float = HALF) -> bool:
    """Whether fewer than k rows stand apart from all others, however the column is shifted."""
    away = abs(column - np.median(column))[:, None]
    spread = float(away.max(initial=0))
    if not np.isfinite(spread):
        return True
    return spread > SAME * float(abs(column).max(initial=0)) and bool(dominated(away, k, share)[0])


def small_cells(
    columns: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray], k: int
) -> Iterator[tuple[str, str]]:
    """Pairs of columns of two values each with a joint cell of some rows, but fewer than k: of the
    first among each other, and with the others. Categories are such columns, one for each level."""
    names, every, counts = _joint(columns, others)
    wrong = np.any((counts > 0) & (counts < k), axis=0)
    for i, j in np.argwhere(wrong):
        if j < i or j >= len(names):
            yield names[i], every[j]


def _joint(columns: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray]):
    """Rows of the four joint cells of columns of two values: of the first with each."""
    own = {name: codes for name, x in columns.items() if (codes := _codes(x)) is not None}
    rest = {name: codes for name, x in others.items() if (codes := _codes(x)) is not None}
    if not own:
        return [], [], np.zeros((4, 0, 0))
    A = np.stack(list(own.values())).astype(np.float32)
    B = np.stack([*own.values(), *rest.values()]).astype(np.float32)
    n, step = A.shape[1], 2**16  # exact in 32 bits
    both = sum((A[:, i : i + step] @ B[:, i : i + step].T).astype(float) for i in range(0, n, step))
    first, second = A.sum(1, dtype=float)[:, None], B.sum(1, dtype=float)[None, :]
    counts = np.stack([both, first - both, second - both, n - first - second + both])
    return list(own), [*own, *rest], counts


def smallest_cell(columns: Mapping[str, np.ndarray]) -> int | None:
    """The fewest rows of a value, or of a pair of values, of columns of two values."""
    counts = _joint(columns, {})[2]
    return int(counts[counts > 0].min()) if counts.size else None


def _codes(column: np.ndarray) -> np.ndarray | None:
    """0 and 1 of a column of two values; None of others."""
    codes = (column != column[0]).astype(int)
    return codes if codes.any() and np.all(column[codes == 1] == column[codes.argmax()]) else None


def nearly_alike(
    columns: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray], k: int
) -> Iterator[tuple[str, str]]:
    """Pairs of columns that are the same, up to scale and shift, but for fewer than k rows: the
    difference of their sums would speak of these rows alone."""
    own, rest = _standard(columns), _standard(others)
    names, every = list(own), [*own, *rest]
    if not names:
        return
    A = np.stack(list(own.values()))
    B = np.stack([*own.values(), *rest.values()])
    common = (A @ B.T / A.shape[1]) ** 2
    if np.count_nonzero(common >= RELATED) > MOST_PAIRS + len(names):
        yield "more columns than can be looked at", "others that are like them"
        return
    for i, name in enumerate(names):
        for j in np.flatnonzero(common[i] >= RELATED):
            if (j < i or j >= len(names)) and _differ_by_few(A[i], B[j], k):
                yield name, every[j]


def _standard(columns: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """With mean 0 and deviation 1; constants are left out."""
    found = {}
    for name, x in columns.items():
        centred = x - x.mean()
        deviation = np.sqrt(np.mean(centred**2))
        if deviation > SAME * float(abs(x).max(initial=0)):
            found[name] = centred / deviation
    return found


def _differ_by_few(a: np.ndarray, b: np.ndarray, k: int, steps: int = 30) -> bool:
    """a = shift + scale b, fitted to the least absolute differences, so that a few rows do not bend
    the line; do these hold more than half of what is left?"""
    weight, left = np.ones(len(a)), np.zeros(len(a))
    for _ in range(steps):
        total = weight.sum()
        ma, mb = weight @ a / total, weight @ b / total
        spread = weight @ (b - mb) ** 2
        scale = weight @ ((b - mb) * (a - ma)) / spread if spread > 0 else 0.0
        left = abs(a - ma - scale * (b - mb))
        weight = 1 / np.maximum(left, 1e-14)
    return float(left.max()) > SAME and bool(dominated(left[:, None], k)[0])


def singled_out(
    columns: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray], mode: str
) -> str:
    """Why some combination of all columns may speak of one row or two. What a row can hold of the
    sum of squares of any combination is its leverage: 1 if a combination is 0 in all other rows,
    1/2 if in all but two. A site of few rows has high leverages anyway, and may take part in a sum,
    where nobody reads its own."""
    Z = [np.ones(len(x)) for x in [*columns.values()][:1]] + [
        *_standard(columns).values(),
        *_standard(others).values(),
    ]
    if not Z:
        return ""
    Q, R, _ = scipy.linalg.qr(np.stack(Z, 1), mode="economic", pivoting=True)  # pyright: ignore
    Q, size = np.asarray(Q), abs(np.diag(np.asarray(R)))
    Q = Q[:, size > 1e-11 * size.max()]
    n, p = Q.shape
    if mode != "sum" and 4 * p > n:
        return f"{p} columns of this job and earlier ones, from {n} rows"
    limit = HALF - 1e-9 if mode != "sum" else 0.9 if 2 * p < n else np.inf
    most = float(np.sum(Q**2, 1).max())
    return f"a row has a leverage of {most:.2f} in the columns of all jobs" if most > limit else ""
