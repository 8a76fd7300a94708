"""The data every experiment starts from: rows, targets, natural groups, and a test set."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from .._errors import DataError
from .._text import plural


@dataclass(frozen=True, eq=False)
class Dataset:
    """The data of a run: n rows of d features with their targets, and rows for the test.

    Args:
        name: What messages and reports call the data.
        X: The features, n by d: an array or a sparse matrix of finite numbers.
        y: The n targets: numbers, or 0, 1, ... for classes.
        groups: The natural group of each row, for example its hospital. None: there are none.
        X_test: The features of the test rows, with d columns. None: there is no test.
        y_test: The targets of the test rows.
        classes: The words for the targets 0, 1, ... None: the targets are what they are.

    Raises:
        DataError: Lengths do not fit, or a value is not a finite number; the message has its place.

    Examples:
        >>> data = feddcd.Dataset("toy", X=[[0.0], [1.0], [2.0]], y=[0, 1, 1])
        >>> data.X.shape
        (3, 1)
    """

    name: str
    X: np.ndarray | sparse.csr_array
    y: np.ndarray
    groups: np.ndarray | None = None
    X_test: np.ndarray | sparse.csr_array | None = None
    y_test: np.ndarray | None = None
    classes: np.ndarray | None = None

    def __post_init__(self) -> None:
        self._set("X", _matrix(self.X, f"{self.name}: X"))
        n, d = shape_of(self.X)
        self._set("y", _vector(self.y, f"{self.name}: y", n))
        if self.groups is not None:
            self._set("groups", _labels(self.groups, f"{self.name}: groups", n))
        if (self.X_test is None) != (self.y_test is None):
            raise DataError(
                f"{self.name}: give both X_test and y_test, or leave out both; got only one of them"
            )
        if self.X_test is None:
            return
        self._set("X_test", _matrix(self.X_test, f"{self.name}: X_test"))
        n_test, d_test = shape_of(self.X_test)
        self._set("y_test", _vector(self.y_test, f"{self.name}: y_test", n_test))
        if d_test != d:
            told = f"X has {plural(d, 'feature')}, but X_test has {d_test}"
            raise DataError(f"{self.name}: {told}")

    def with_test(self, X_test: Any, y_test: Any) -> Dataset:
        """The same data with these held-out rows."""
        return replace(self, X_test=X_test, y_test=y_test)

    def _set(self, field: str, value: Any) -> None:
        object.__setattr__(self, field, value)


def shape_of(X: Any) -> tuple[int, int]:
    """Rows and features of a dense or sparse matrix."""
    return X.shape


def widen(X: Any, d: int) -> Any:
    """The same rows with zeros up to d features."""
    n, wide = shape_of(X)
    if sparse.issparse(X):
        return sparse.csr_array((X.data, X.indices, X.indptr), shape=(n, d))
    return np.pad(X, ((0, 0), (0, d - wide)))


def _floats(values: Any, what: str) -> np.ndarray:
    try:
        array = np.asarray(values)
        if array.dtype.kind != "c":
            return array.astype(np.float64, copy=False)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} must be numbers: {error}") from None
    raise DataError(f"{what} must be real numbers, got dtype {array.dtype}")


def _matrix(X: Any, what: str) -> np.ndarray | sparse.csr_array:
    X = _canonical(X, what) if sparse.issparse(X) else _floats(X, what)
    if X.ndim != 2 or 0 in X.shape:
        raise DataError(
            f"{what} must have two dimensions, with at least one row and one feature; got "
            f"shape {X.shape}"
        )
    values = X.data if isinstance(X, sparse.csr_array) else X
    if not np.isfinite(values).all():
        raise DataError(f"{what} has {_first_bad(X)} (row and column are counted from 0)")
    return X


def _canonical(X: Any, what: str) -> sparse.csr_array:
    if X.dtype.kind == "c":
        raise DataError(f"{what} must be real numbers, got dtype {X.dtype}")
    X = sparse.csr_array(X, dtype=np.float64)
    if not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _first_bad(X: np.ndarray | sparse.csr_array) -> str:
    if isinstance(X, sparse.csr_array):
        at = np.flatnonzero(~np.isfinite(X.data))[0]
        row, column = np.searchsorted(X.indptr, at, side="right") - 1, X.indices[at]
        return f"{X.data[at]} at row {row}, column {column}"
    row, column = np.argwhere(~np.isfinite(X))[0]
    return f"{X[row, column]} at row {row}, column {column}"


def _vector(y: Any, what: str, n: int) -> np.ndarray:
    y = _floats(y, what)
    _check_length(y, what, n)
    if not np.isfinite(y).all():
        row = np.flatnonzero(~np.isfinite(y))[0]
        raise DataError(f"{what} has {y[row]} at row {row} (counted from 0)")
    return y


def _labels(groups: Any, what: str, n: int) -> np.ndarray:
    groups = np.asarray(groups)
    _check_length(groups, what, n)
    if groups.dtype.kind == "f" and np.isnan(groups).any():
        row = np.flatnonzero(np.isnan(groups))[0]
        raise DataError(f"{what} has nan at row {row} (counted from 0)")
    return groups


def _check_length(values: np.ndarray, what: str, n: int) -> None:
    if values.shape != (n,):
        wide = values.ndim == 2 and len(values) == n and values.shape[1] > 1
        hint = ". If each row has a 1 in the column of its class, give y.argmax(axis=1)" * wide
        raise DataError(
            f"{what} must have shape ({n},), one value per row, got {values.shape}{hint}"
        )
