"""The rules on numbers alone: support, dominance, joint cells, and columns that are nearly alike.

k is the least number of rows that a number may speak of. Each rule gives why not, or nothing.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.linalg

from ..._text import plural

HALF = 0.5
FEW = 0.9  # of a combination, in fewer than k rows: it speaks of them
MOST_PAIRS = 4000  # of columns that have much in common: each takes a fit
RELATED = 0.5  # r²: columns that have less in common are not nearly alike
SAME = 1e-12  # of the size: differences below are rounding
POLICY = "The page 'The rules of a site' explains which policy would allow this job"
REMEDY = (
    "A new plan can use the logarithm of a skewed column of numbers, or leave the column out. "
    f"{POLICY}"
)
OF_LEVELS = (  # of columns of two values, which have no logarithm
    f"A new plan can join levels with few rows, or leave out a column. {POLICY}"
)

DESCRIBED = (
    "The analyst can leave out the mean and SD of this column, and keep its median, quartiles and "
    "counts. The command is: feddcd describe ... --median {0}. In a job file, the line under "
    '[describe] is: median = ["{0}"]'
)
SHARE = ". A person at this site can also change max_share in policy.toml"


def remedy(plan: Any, column: str = "", other: str = REMEDY) -> str:
    """What a new plan can do: of a description, or of another analysis."""
    described = getattr(plan, "analysis", "") == "describe"
    return DESCRIBED.format(column or "COLUMN") if described else other


def advice(plan: Any, name: str, column: np.ndarray) -> str:
    """The same for a finished column: one of two values has no logarithm."""
    return remedy(plan, name, OF_LEVELS if len(np.unique(column)) == 2 else REMEDY)


def entry_of(what: str, names: Sequence[str] | None, question: Any, entries: int, at: int) -> str:
    """The sum in words, and to which column an entry belongs, if each has this many entries."""
    if own := getattr(what, "each", ()):
        return own[at]
    if not names or entries == 1:
        return what
    each, rest = divmod(entries, len(names))
    if getattr(question, "basis", np.zeros(0)).size:
        return f"{what}, for a combination of columns"
    if rest or not each:
        return f"{what} (entry {at + 1} of {entries})"
    column = f"the column {names[at // each]!r}"
    return what.replace("a column", column) if "a column" in what else f"{what}, for {column}"


def unsupported(column: np.ndarray, k: int) -> bool:
    """Whether some rows, but fewer than k, differ from the most frequent value."""
    _, counts = np.unique(column, return_counts=True)
    differ = len(column) - int(counts.max(initial=0))
    return 0 < differ < k


def dominated(parts: np.ndarray, k: int, share: float = HALF, alone: float = HALF) -> np.ndarray:
    """By column of absolute contributions: whether the k - 1 largest hold more than this share, or
    the largest more than `alone`, a half. What is no number counts as dominated."""
    if k < 2 or not parts.size:
        return np.zeros(parts.shape[1], bool)
    with np.errstate(all="ignore"):
        total, most = parts.sum(0), parts.max(0)
        open_ = ~((k - 1) * most <= total * min(share, alone))  # all others cannot be dominated
        found = np.zeros(parts.shape[1], bool)
        found[open_] = _is_dominated(parts[:, open_], total[open_], most[open_], k, share, alone)
        return (found & (total != 0)) | ~np.isfinite(total)


def _is_dominated(
    parts: np.ndarray, total: np.ndarray, most: np.ndarray, k: int, share: float, alone: float
) -> np.ndarray:
    n, first = len(parts), min(k - 1, len(parts))
    largest = np.partition(parts, n - first, axis=0)[n - first :].sum(0)
    few = largest <= total * share * (1 + 1e-12)
    return ~(few & (most <= total * alone * (1 + 1e-12)))


def domination(parts: np.ndarray, k: int, share: float, which: str) -> str:
    """Which rows hold too much of a sum, in words: where all others are 0, they are too few."""
    own, least, column = parts[parts != 0], math.ceil((k - 1) / share), "a sum of the column"
    if which.startswith(column) and len(own) < least and np.ptp(own) <= SAME * own.max():
        return f"{which.removeprefix('a sum of ')} differs from 0 in fewer than {least} rows"
    largest = float(np.sort(parts)[1 - k :].sum())
    rows, most = (k - 1, share) if largest > share * float(parts.sum()) else (1, HALF)
    few = f"{plural(rows, 'row')} alone give{'s' * (rows == 1)}"
    return f"{few} more than {100 * most:.6g} % of {which}"


def lonely(column: np.ndarray, k: int, share: float = HALF) -> bool:
    """Whether fewer than k rows stand apart from all others, however the column is shifted."""
    away = abs(column - np.median(column))[:, None]
    spread = float(away.max(initial=0))
    if not np.isfinite(spread):
        return True
    return spread > SAME * float(abs(column).max(initial=0)) and bool(dominated(away, k, share)[0])


def rare(column: np.ndarray, k: int, share: float = HALF) -> str:
    """Which rows of a lonely column stand apart, in words: of two values, those with one of them
    are too few."""
    values, counts = np.unique(column, return_counts=True)
    if len(values) != 2:
        return f"a few rows (fewer than {k}) are far from all other rows"
    least = math.ceil((k - 1) / share)
    return f"fewer than {least} rows have the value {values[np.argmin(counts)]:g}"


def small_cells(
    columns: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray], k: int
) -> Iterator[tuple[str, str]]:
    """Pairs of columns with a joint cell of some rows, but fewer than k: of the first among each
    other, and with the others. The cells of a column are its rows that differ from its most
    frequent value, and those that differ from 0: products of two columns, shifted so, are sums over
    the joint cell. A column of two values, as that of a level is, has a cell for each of them."""
    for (one, _), (other, _) in cells_of_few(columns, others, k):
        yield one, other


def cells_of_few(
    columns: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray], k: int
) -> Iterator[tuple[tuple[str, np.ndarray], tuple[str, np.ndarray]]]:
    """Pairs of a column and the rows of its cell."""
    own, rest = _cells(columns), _cells(others)
    if not own:
        return
    every = own + rest
    counts = _common([cell for _, cell in own], [cell for _, cell in every])
    for i, j in np.argwhere((counts > 0) & (counts < k)):
        if (j < i or j >= len(own)) and own[i][0] != every[j][0]:
            yield own[i], every[j]


def _cells(columns: Mapping[str, np.ndarray]) -> list[tuple[str, np.ndarray]]:
    """The rows of each cell of each column."""
    found = []
    for name, x in columns.items():
        values, counts = np.unique(x, return_counts=True)
        shifts = values if len(values) == 2 else [values[counts.argmax()], 0.0]
        cells = {cell.tobytes(): cell for cell in (x != shift for shift in shifts)}
        found += [(name, cell) for cell in cells.values() if len(values) > 1]
    return found


def _common(a: Sequence[np.ndarray], b: Sequence[np.ndarray]) -> np.ndarray:
    """Rows that each of the first has in common with each of the second."""
    A, B, step = np.stack(a).astype(np.float32), np.stack(b).astype(np.float32), 2**16
    parts = range(0, A.shape[1], step)  # exact in 32 bits
    return sum((A[:, i : i + step] @ B[:, i : i + step].T).astype(float) for i in parts)  # pyright: ignore


def smallest_cell(columns: Mapping[str, np.ndarray]) -> int | None:
    """The fewest rows of a value, or of a pair of values, of columns of two values."""
    two = {name: x for name, x in columns.items() if len(np.unique(x)) == 2}
    cells = [cell for _, cell in _cells(two)]
    if not cells:
        return None
    counts = _common(cells, cells)
    return int(counts[counts > 0].min())


def nearly_alike(
    columns: Mapping[str, np.ndarray], others: Mapping[str, np.ndarray], k: int
) -> Iterator[tuple[str, str]]:
    """Pairs of columns that are the same, up to scale and shift, but for fewer than k rows: the
    difference of their sums would speak of these rows alone. No names: too many to compare."""
    own, rest = _standard(columns), _standard(others)
    names, every = list(own), [*own, *rest]
    if not names:
        return
    A = np.stack(list(own.values()))
    B = np.stack([*own.values(), *rest.values()])
    common = (A @ B.T / A.shape[1]) ** 2
    if np.count_nonzero(common >= RELATED) > MOST_PAIRS + len(names):
        yield "", ""
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
    columns: Mapping[str, np.ndarray],
    others: Mapping[str, np.ndarray],
    k: int,
    mode: str,
    most: float = HALF,
) -> tuple[str, str]:
    """Why some combination of all columns may speak of fewer than k rows, and a column in which
    one row is far from the others, if that is why. What a row can hold of the sum of squares of any
    combination is its leverage: 1 if a combination is 0 in all other rows, 1/2 if in all but two. A
    site of few rows has high leverages anyway: whoever wants it to take part in sums allows more
    than a half."""
    Z = [np.ones(len(x)) for x in [*columns.values()][:1]] + [
        *_standard(columns).values(),
        *_standard(others).values(),
    ]
    if not Z:
        return "", ""
    Q, R, _ = scipy.linalg.qr(np.stack(Z, 1), mode="economic", pivoting=True)  # pyright: ignore
    Q, size = np.asarray(Q), abs(np.diag(np.asarray(R)))
    Q = Q[:, size > 1e-11 * size.max()]
    n, p = Q.shape
    most = most if mode == "sum" else min(most, HALF)
    if (mode != "sum" and 4 * p > n) or (most <= HALF and 2 * p >= n):
        told = f"this job and earlier jobs together have {plural(p, 'column')}, which is too many"
        return f"{told} for {plural(n, 'row')}", ""
    if most >= 1:
        return "", ""
    leverage = np.sum(Q**2, 1)
    highest = float(leverage.max())
    if highest > most - 1e-9:
        column = _farthest({**columns, **others}, int(leverage.argmax()))
        told = (
            f"in the columns of all jobs together, one row has a leverage of {highest:.2f}. The "
            f"leverage must be below {most:g}"
        )
        far = f". In the column {column!r}, this row is far from the others" if column else ""
        return told + far, column
    if (share := held_by_few(Q, k)) > max(FEW, most):
        told = (
            "there is a weighted sum of the columns of all jobs in which "
            f"{plural(k - 1, 'row')} alone give {100 * share:.0f} % of the sum of squares. This "
            f"number of rows may give at most {100 * max(FEW, most):.6g} %"
        )
        return told, ""
    return "", ""


def _farthest(columns: Mapping[str, np.ndarray], row: int) -> str:
    """The column in which a row is farthest from the mean, in standard deviations."""
    away = {name: abs(x[row]) for name, x in _standard(columns).items()}
    return max(away, key=lambda name: away[name], default="")


def held_by_few(Q: np.ndarray, k: int, steps: int = 3) -> float:
    """The most that some k - 1 rows are found to hold of a combination."""
    return few_that_hold(Q, k, steps)[0]


def few_that_hold(Q: np.ndarray, k: int, steps: int = 3) -> tuple[float, np.ndarray]:
    """That share and these rows: it begins near each row of such a leverage as one of them must
    have, and goes on with what the rows that hold most of it allow. Nothing where none can hold
    FEW."""
    n, few, found, who = len(Q), min(k - 1, len(Q)), 0.0, np.zeros(0, int)
    near = np.flatnonzero(np.sum(Q**2, 1) * few > FEW)
    step = max(1, 10**7 // n)
    for start in range(0, len(near), step):
        ways = Q[near[start : start + step]]
        for _ in range(steps):
            rows = np.argpartition((Q @ ways.T) ** 2, n - few, axis=0)[n - few :].T
            held, vectors = np.linalg.eigh(np.einsum("rip,rjp->rij", Q[rows], Q[rows]))
            ways = np.einsum("rip,ri->rp", Q[rows], vectors[:, :, -1])
            if (most := float(held[:, -1].max())) > found:
                best = int(held[:, -1].argmax())
                found, who = most, rows[best][vectors[best, :, -1] ** 2 > 1 / (4 * few)]
    return found, who
