"""Columns of a frame, by name or by array, checked: a row's number counts from 0."""

from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse

from .._text import meant


def as_frame(data: Any, need_names: bool) -> pd.DataFrame:
    if isinstance(data, pd.DataFrame):
        frame = data.reset_index(drop=True)
        frame.columns = [str(c) for c in frame.columns]
        twice = frame.columns[frame.columns.duplicated()]
        if len(twice):
            raise ValueError(f"the column {twice[0]!r} is there twice")
    elif need_names:
        raise ValueError(f"a formula needs a DataFrame, got {type(data).__name__}")
    else:
        X = data.toarray() if scipy.sparse.issparse(data) else np.asarray(data)
        if X.ndim != 2:
            raise ValueError(f"X needs two dimensions, rows and columns; got shape {X.shape}")
        frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    if len(frame) == 0 or frame.shape[1] == 0:
        raise ValueError(f"there are no rows or no columns, got shape {frame.shape}")
    return frame


def column(frame: pd.DataFrame, name: str) -> pd.Series:
    return frame[name]  # pyright: ignore


def is_number(values: pd.Series) -> np.ndarray:
    """Which values are numbers, or words that read as one."""
    return np.asarray(pd.notna(pd.to_numeric(values, errors="coerce")), bool)


def pick(frame: pd.DataFrame, value: Any, what: str) -> pd.Series | None:
    """A column of the frame by name, or an array with one value per row."""
    if value is None:
        return None
    if isinstance(value, str):
        if value in frame.columns:
            return column(frame, value)
        hint = meant(value, frame.columns)
        columns = ", ".join(frame.columns[:30])
        raise ValueError(f"{what}: no column {value!r}; {hint}there are {columns}")
    array = np.asarray(value)
    if array.shape != (len(frame),):
        raise ValueError(f"{what} must have shape ({len(frame)},), got {array.shape}")
    return pd.Series(array, name=None)


def numbers(values: pd.Series, name: str) -> np.ndarray:
    if isinstance(values.dtype, pd.CategoricalDtype) or values.dtype.kind in "mMc":
        raise ValueError(f"{name} is not a column of numbers but {values.dtype}; use a formula")
    try:
        if not isinstance(values.dtype, pd.StringDtype):
            return values.to_numpy(float, na_value=np.nan)
    except (TypeError, ValueError):
        pass
    bad = values.notna() & ~is_number(values)
    row = int(np.flatnonzero(bad if bad.any() else values.notna())[0])
    value = values.iloc[row]
    raise ValueError(f"{name} must be numbers, got {value!r} at row {values.index[row]}")


def check_mixed(frame: pd.DataFrame, used: tuple[str, ...]) -> None:
    """A column of numbers with a few words in it would become hundreds of categories."""
    for name in used:
        if frame[name].dtype.kind in "OTU" and not isinstance(
            frame[name].dtype, pd.CategoricalDtype
        ):
            number = is_number(column(frame, name))
            if 0.5 <= number.mean() < 1:
                row = int(np.flatnonzero(~number)[0])
                value = frame[name].iloc[row]
                at = frame.index[row]
                raise ValueError(f"{name} must be numbers, got {value!r} at row {at}")


def check_finite(X: pd.DataFrame, rows: np.ndarray) -> None:
    bad = np.argwhere(~np.isfinite(X.to_numpy(float)))
    if len(bad):
        row, column = bad[0]
        value = X.iloc[row, column]
        raise ValueError(f"{X.columns[column]} is {value} at row {rows[row]}; it must be finite")
