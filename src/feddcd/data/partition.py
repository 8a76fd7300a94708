"""How the rows of a data set are shared out among N clients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse

from .._errors import DataError
from .._text import plural

PARTITIONS = {
    "contiguous": "equal parts in the order of the file; the last client gets the rest",
    "iid": "random parts; the sizes differ by at most one row",
    "sorted": (
        "the rows are sorted by label and cut into equal parts; the sizes differ by at most one row"
    ),
    "two-class": "each client draws two classes, and each row goes to a client that drew its class",
    "shards": (
        "the rows are sorted by label and cut into 2N parts (N clients); each client gets "
        "two parts at random"
    ),
    "dirichlet": (
        "each client gets random shares of the classes, from the Dirichlet distribution "
        "Dir(a); dirichlet:0.3 sets a = 0.3 (default: 0.5)"
    ),
    "group": (
        "one client for each group of the data set, for example each hospital; with group:12, "
        "the values of feature 12 are the groups"
    ),
}
BY_LABEL = ("sorted", "two-class", "shards", "dirichlet")
REDRAWS = 100
MAX_LABELS = 100

Parts = list[np.ndarray]


def partition(
    y: Any, scheme: str, N: int | None, *, seed: int = 0, groups: Any = None, X: Any = None
) -> list[np.ndarray]:
    """Divide rows among clients. Each row has exactly one client; no client is empty.

    Args:
        y: The label of each row.
        scheme: "iid", "contiguous", "sorted", "two-class", "shards", "dirichlet:0.3" or "group".
            `feddcd list partitions` explains them.
        N: The number of clients, at least 1. With "group" it may be None.
        seed: The seed of the random numbers, a whole number >= 0.
        groups: For "group", the group of each row: one client for each group.
        X: For "group:12", the features: the values of feature 12 (the first is 1) are the groups.

    Returns:
        For each client a sorted array with the numbers of its rows, counted from 0.

    Raises:
        DataError: The scheme is unknown or does not fit the rows, or a client would have no row.

    Examples:
        >>> [part.tolist() for part in feddcd.partition([1, 0, 1, 0, 1], "sorted", 2)]
        [[0, 1, 3], [2, 4]]
    """
    y = np.asarray(y)
    name, colon, parameter = str(scheme).partition(":")
    _check(y, name, scheme, colon)
    if name == "group":
        by = groups if not colon else _column(X, parameter, y.size)
        return _by_group(by, N, y.size, scheme)
    N = _client_count(N, y.size, scheme)
    rng = generator(seed)
    label = np.unique(y, return_inverse=True)[1]
    if name == "contiguous":
        parts = np.split(np.arange(y.size), np.arange(1, N) * (y.size // N))
    elif name == "iid":
        parts = np.array_split(rng.permutation(y.size), N)
    elif name == "sorted":
        parts = np.array_split(np.argsort(label, kind="stable"), N)
    elif name == "shards":
        parts = _shards(label, N, rng)
    elif name == "two-class":
        parts = _redraw(lambda: _two_class(label, N, rng), scheme, N)
    else:
        a = _concentration(parameter if colon else "0.5", scheme)
        parts = _redraw(lambda: _dirichlet(label, N, a, rng), scheme, N)
    return [np.sort(part) for part in parts]


def generator(seed: int) -> np.random.Generator:
    """A generator for this seed, a whole number >= 0."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise DataError(f"seed must be a whole number >= 0, got {seed!r}")
    return np.random.default_rng(int(seed))


def _check(y: np.ndarray, name: str, scheme: str, colon: str) -> None:
    if name not in PARTITIONS:
        raise DataError(f"unknown partition {scheme!r}; known are {', '.join(PARTITIONS)}")
    if colon and name not in ("dirichlet", "group"):
        raise DataError(f"the partition {name!r} has no parameter, got {scheme!r}")
    if y.ndim != 1 or y.size == 0:
        raise DataError(f"y must have one dimension and at least one row, got shape {y.shape}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = np.flatnonzero(~np.isfinite(y))[0]
        raise DataError(f"y has {y[row]} at row {row} (counted from 0)")
    if name in BY_LABEL and y.dtype.kind == "f":
        fractions = np.unique(y[y != np.round(y)]).size
        if fractions > MAX_LABELS:
            raise DataError(
                f"partition {scheme!r} needs class labels, but y has {fractions} different "
                "values that are not whole numbers; use contiguous, iid or group"
            )


def _client_count(N: int | None, rows: int, scheme: str) -> int:
    if isinstance(N, bool) or not isinstance(N, int | np.integer):
        raise DataError(
            f"partition {scheme!r} needs the number of clients N as a whole number, got {N!r}"
        )
    if not 1 <= N <= rows:
        raise DataError(
            f"N, the number of clients, must be from 1 to the number of rows, got N={N}, "
            f"rows={rows}"
        )
    return int(N)


def _redraw(draw: Callable[[], Parts], scheme: str, N: int) -> Parts:
    empty = 0
    for _ in range(REDRAWS):
        parts = draw()
        sizes = [part.size for part in parts]
        if min(sizes) > 0:
            return parts
        empty = sizes.index(0)
    raise DataError(
        (
            f"partition {scheme!r} gave no rows to client {empty} of {N} (counted from 0) in "
            f"{REDRAWS} attempts; use fewer clients"
        )
        + ", or a larger a" * scheme.startswith("dirichlet")
    )


def _two_class(label: np.ndarray, N: int, rng: np.random.Generator) -> Parts:
    """Two classes per client; a class that nobody drew replaces one that several clients drew."""
    K = int(label.max()) + 1
    if 2 * N < K:
        raise DataError(
            f"partition 'two-class' gives each client two classes, so {K} classes need at least "
            f"{(K + 1) // 2} clients, got N={N}"
        )
    drawn = np.array([rng.choice(K, size=min(2, K), replace=False) for _ in range(N)])
    for missing in np.setdiff1d(np.arange(K), drawn):
        spare = np.argwhere(np.bincount(drawn.ravel(), minlength=K)[drawn] > 1)
        client, slot = rng.choice(spare)
        drawn[client, slot] = missing
    owner = np.empty(label.size, np.int64)
    for k in range(K):
        rows = np.flatnonzero(label == k)
        owner[rows] = rng.choice(np.flatnonzero((drawn == k).any(axis=1)), size=rows.size)
    return _by_owner(owner, N)


def _by_owner(owner: np.ndarray, N: int) -> Parts:
    ends = np.cumsum(np.bincount(owner, minlength=N))
    return np.split(np.argsort(owner, kind="stable"), ends[:-1])


def _shards(label: np.ndarray, N: int, rng: np.random.Generator) -> Parts:
    if label.size < 2 * N:
        raise DataError(
            f"partition 'shards' needs at least two rows for each client, got N={N}, "
            f"rows={label.size}"
        )
    shards = np.array_split(np.argsort(label, kind="stable"), 2 * N)
    deal = rng.permutation(2 * N).reshape(N, 2)
    return [np.concatenate([shards[a], shards[b]]) for a, b in deal]


def _concentration(text: str, scheme: str) -> float:
    try:
        a = float(text)
    except ValueError:
        raise DataError(
            f"partition {scheme!r}: {text!r} is not a number; write, for example, dirichlet:0.3"
        ) from None
    if not 1e-6 <= a <= 1e6:
        raise DataError(f"partition {scheme!r}: a must be from 1e-6 to 1e6, got a={a}")
    return a


def _dirichlet(label: np.ndarray, N: int, a: float, rng: np.random.Generator) -> Parts:
    shares: list[Parts] = []
    for k in range(int(label.max()) + 1):
        rows = rng.permutation(np.flatnonzero(label == k))
        cuts = np.cumsum(rng.dirichlet(np.full(N, a)))[:-1] * rows.size
        shares.append(np.split(rows, np.round(cuts).astype(np.int64)))
    return [np.concatenate(parts) for parts in zip(*shares, strict=True)]


def _column(X: Any, text: str, rows: int) -> np.ndarray:
    if X is None:
        raise DataError(f"partition 'group:{text}' needs X")
    X = X if sparse.issparse(X) else np.asarray(X)
    if X.ndim != 2 or X.shape[0] != rows:
        told = f"X has shape {X.shape}, but y has {plural(rows, 'row')}"
        raise DataError(f"partition 'group:{text}': {told}")
    if not text.isdecimal() or len(text) > 10 or not 1 <= int(text) <= X.shape[1]:
        raise DataError(
            f"partition 'group:{text}': the number of the feature must be from 1 to {X.shape[1]}"
        )
    column = X[:, [int(text) - 1]]
    return (column.toarray() if sparse.issparse(column) else column).ravel()


def _by_group(by: Any, N: int | None, rows: int, scheme: str) -> Parts:
    if by is None:
        raise DataError("partition 'group' needs groups, but these data have none; try group:1")
    by = np.asarray(by)
    if by.shape != (rows,):
        raise DataError(f"groups must have the same shape as y, ({rows},), got {by.shape}")
    if by.dtype.kind == "f" and np.isnan(by).any():
        raise DataError(
            f"partition {scheme!r}: the group is missing (nan) at row "
            f"{np.flatnonzero(np.isnan(by))[0]} (counted from 0)"
        )
    values, client = np.unique(by, return_inverse=True)
    if N is not None and values.size != N:
        raise DataError(
            f"partition {scheme!r} has {plural(values.size, 'group')}, but N={N}; leave out the "
            "number of clients"
        )
    return _by_owner(client, values.size)
