"""Columns of a frame, by name or by array, checked: a row's number counts from 0.

An error holds the row as a field, and who knows the file says where it is. `Wording` says what has
two names, one where fit is called and one at the command line.
"""

from typing import Any, Protocol

import numpy as np
import pandas as pd
import scipy.sparse

from .._errors import DataError, SpecError
from .._text import meant

WEIGHT = {"sample_weight": None}  # a setting that messages name
ARGUMENTS = {"label": "y", "group": "groups", "weight": "sample_weight"}  # of fit


class Wording(Protocol):
    """Errors in the words of who reads them."""

    def no_column(self, role: str, name: str, columns: list[str]) -> DataError: ...
    def nothing_left(self, apart: tuple[str, ...]) -> DataError: ...
    def no_site(self, rows: np.ndarray) -> DataError: ...
    def one_site(self, site: Any) -> DataError: ...
    def not_binary(self, y: pd.Series, values: np.ndarray) -> DataError: ...


class InPython:
    """For who calls fit."""

    def no_column(self, role: str, name: str, columns: list[str]) -> DataError:
        hint = meant(name, columns)
        there = ", ".join(columns[:30])
        what = ARGUMENTS.get(role, role)
        return DataError(f"{what}: no column {name!r}; {hint}there are {there}", column=name)

    def nothing_left(self, apart: tuple[str, ...]) -> DataError:
        return DataError(f"no column is left for X beside {', '.join(apart)}")

    def no_site(self, rows: np.ndarray) -> DataError:
        return DataError("groups has no value <row>: a row without a site", row=int(rows[0]))

    def one_site(self, site: Any) -> DataError:
        return DataError(f"groups has one value only, {site!s}: need two sites", value=site)

    def not_binary(self, y: pd.Series, values: np.ndarray) -> DataError:
        beyond = (values < 0) | (values > 1)
        if beyond.any():
            return refusal(y, beyond, "must be 0 or 1")
        why = "must be 0 or 1 (a share needs <sample_weight>, the number of trials)"
        return refusal(y, values % 1 != 0, why)


IN_PYTHON = InPython()


def as_frame(data: Any, need_names: bool) -> pd.DataFrame:
    if isinstance(data, pd.DataFrame):
        frame = data.reset_index(drop=True)
        frame.columns = [str(c) for c in frame.columns]
        twice = frame.columns[frame.columns.duplicated()]
        if len(twice):
            raise DataError(f"the column {twice[0]!r} is there twice")
    elif need_names:
        raise SpecError(f"a formula needs a DataFrame, got {type(data).__name__}")
    else:
        X = data.toarray() if scipy.sparse.issparse(data) else np.asarray(data)
        if X.ndim != 2:
            raise DataError(f"X needs two dimensions, rows and columns; got shape {X.shape}")
        frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    if len(frame) == 0 or frame.shape[1] == 0:
        raise DataError(f"there are no rows or no columns, got shape {frame.shape}")
    return frame


def pick(
    frame: pd.DataFrame, value: Any, role: str, wording: Wording = IN_PYTHON
) -> pd.Series | None:
    """A column of the frame by name, or an array with one value per row."""
    if value is None:
        return None
    if isinstance(value, str):
        if value in frame.columns:
            return column(frame, value)
        raise wording.no_column(role, value, list(frame.columns))
    array = np.asarray(value)
    if array.shape != (len(frame),):
        what = ARGUMENTS.get(role, role)
        raise DataError(f"{what} must have shape ({len(frame)},), got {array.shape}")
    return pd.Series(array, name=None)


def is_number(values: pd.Series) -> np.ndarray:
    """Which values are numbers, or words that read as one."""
    return np.asarray(pd.notna(pd.to_numeric(values, errors="coerce")), bool)


def numbers_of(values: pd.Series, name: str) -> np.ndarray:
    if isinstance(values.dtype, pd.CategoricalDtype) or values.dtype.kind in "mMc":
        told = f"{name} is not a column of numbers but {values.dtype}; use a formula"
        raise DataError(told, column=name, settings=WEIGHT)
    try:
        if not isinstance(values.dtype, pd.StringDtype):
            return values.to_numpy(float, na_value=np.nan)
    except (TypeError, ValueError):
        pass
    bad = values.notna() & ~is_number(values)
    raise _not_a_number(name, values.loc[bad if bad.any() else values.notna()])


def check_mixed(frame: pd.DataFrame, names: tuple[str, ...]) -> None:
    """A column of numbers with a few words in it would become hundreds of categories."""
    for name in names:
        values = column(frame, name).dropna()
        words = values.dtype.kind in "OTU" and not isinstance(values.dtype, pd.CategoricalDtype)
        if words and 0.5 <= (number := is_number(values)).mean() < 1:
            raise _not_a_number(name, values.loc[~number])


def check_finite(X: pd.DataFrame, rows: np.ndarray) -> None:
    bad = np.argwhere(~np.isfinite(X.to_numpy(float)))
    if len(bad):
        row, column = bad[0]
        name, value = X.columns[column], X.iloc[row, column]
        told = f"{name} is {value} <row>; it must be finite"
        raise DataError(told, row=int(rows[row]), column=name, value=value)


def refusal(y: pd.Series, bad: np.ndarray, why: str) -> DataError:
    """Of the first value that is bad; the index of y holds the rows' numbers."""
    row = int(np.flatnonzero(bad)[0])
    told = f"{label(y)} {why}, got {y.iloc[row]} <row>"
    at = int(y.index[row])
    return DataError(told, row=at, column=label(y), value=y.iloc[row], settings=WEIGHT)


def label(y: pd.Series) -> str:
    return "y" if y.name is None else str(y.name)


def _not_a_number(name: str, values: pd.Series) -> DataError:
    told, value = f"{name} must be numbers, got {values.iloc[0]!r} <row>", values.iloc[0]
    return DataError(told, row=int(values.index[0]), column=name, value=value, settings=WEIGHT)


def column(frame: pd.DataFrame, name: str) -> pd.Series:
    return frame[name]  # pyright: ignore
