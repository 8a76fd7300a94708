"""From what the user has to checked rows: X with names, y, site, weight and offset.

The estimator, the command and the sites all read their tables here. A row's number counts from 0;
an error holds it as a field, and who knows the file says where it is.
"""

from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
import scipy.sparse

from .._errors import DataError, SpecError
from .._text import meant
from . import _formula as formulas
from ._formula import INTERCEPT

WEIGHT = {"sample_weight": None}  # a setting that messages name


class Design(Protocol):
    """How rows of a frame become rows of X."""

    @property
    def used(self) -> tuple[str, ...]: ...
    def matrix(self, frame: pd.DataFrame) -> pd.DataFrame: ...
    def offset(self, frame: pd.DataFrame) -> np.ndarray: ...


class Roles(NamedTuple):
    """Which column, by its name or as an array, is what; a formula names its own label."""

    label: Any = None
    group: Any = None
    weight: Any = None
    offset: Any = None


class CompleteRows(NamedTuple):
    """The rows without missing values, every one checked."""

    X: np.ndarray
    names: list[str]
    y: pd.Series  # its index holds the rows' numbers
    site: np.ndarray
    weight: np.ndarray | None
    offset: np.ndarray
    dropped: int
    design: Design
    roles: Roles
    holes: dict[str, int]  # by column: its missing values


class PlainDesign(NamedTuple):
    """Columns of numbers as they are, with an intercept in front: a design without formula."""

    used: tuple[str, ...]
    apart: tuple[str, ...]  # site, weight and so on, where they are columns too

    def matrix(self, frame: pd.DataFrame) -> pd.DataFrame:
        names = [c for c in frame.columns if c not in self.apart]
        if names != list(self.used):
            wrong = [c for c in names if c not in self.used] or [
                c for c in self.used if c not in names
            ]
            raise DataError(
                f"X has {len(names)} columns, the fit had {len(self.used)}; "
                f"look at {', '.join(wrong[:5]) or 'their order'}"
            )
        X = {name: numbers_of(column(frame, name), name) for name in names}
        return pd.DataFrame({INTERCEPT: np.ones(len(frame))} | X)

    def offset(self, frame: pd.DataFrame) -> np.ndarray:
        return np.zeros(len(frame))


def read(data: Any, roles: Roles, formula: str | None, missing: str) -> CompleteRows:
    """Errors name the arguments of fit; who has other names for them checks before."""
    frame = as_frame(data, need_names=formula is not None)
    parts = None if formula is None else formulas.split(formula)
    y, site = _response(frame, roles.label, parts), _sites(frame, roles.group)
    s, o = pick(frame, roles.weight, "sample_weight"), pick(frame, roles.offset, "offset")
    s = None if s is None else _weights(s)
    o = np.zeros(len(frame)) if o is None else numbers_of(o, "offset")
    named = (roles.weight, roles.group, roles.offset, y.name)
    apart = tuple(name for name in named if isinstance(name, str))
    used = _used(frame, parts, apart)
    beside = pd.DataFrame({"(y)": y, "(offset)": o}, index=frame.index)
    whole = _complete(pd.concat([frame[list(used)], beside], axis=1), y.name, missing)
    counted = [c for c in (*used, y.name, roles.offset) if isinstance(c, str) and c in frame]
    holes = {name: int(column(frame, name).isna().sum()) for name in counted}
    counts = np.ones(len(frame), bool) if s is None else s > 0
    rows = np.flatnonzero(whole & counts)
    frame, y, o = frame.iloc[rows], y.iloc[rows], o[rows]
    if parts is None:
        design = PlainDesign(used, apart)
        X = design.matrix(frame)
    else:
        check_mixed(frame, used)
        design, X = formulas.learn(parts, frame)
    o = o + design.offset(frame)
    check_finite(X, rows)
    check_finite(pd.DataFrame({"offset": o}), rows)
    return CompleteRows(
        X.to_numpy(float), [str(c) for c in X.columns], y, site[rows],
        None if s is None else s[rows], o, int(np.sum(~whole & counts)), design, roles, holes,
    )  # fmt: skip


def _response(frame: pd.DataFrame, y: Any, parts: formulas.FormulaParts | None) -> pd.Series:
    if parts is None:
        if y is None:
            raise SpecError("y is missing: give y, or a formula that names it")
        return pick(frame, y, "y")  # pyright: ignore
    if y is not None:
        raise SpecError(f"the formula names the response, {parts.response!r}; leave y out")
    name = parts.response.strip("`")
    if name in frame.columns:
        return column(frame, name)
    return pd.Series(formulas.number(parts.response, frame), name=None)


def _sites(frame: pd.DataFrame, groups: Any) -> np.ndarray:
    site = pick(frame, groups, "groups")
    if site is None:
        raise SpecError("groups is missing: say which site each row belongs to")
    empty = np.flatnonzero(np.asarray(pd.isna(site)))
    if len(empty):
        raise DataError("groups has no value <row>: a row without a site", row=int(empty[0]))
    return np.asarray(site)


def _weights(column: pd.Series) -> np.ndarray:
    s = numbers_of(column, "<sample_weight>")
    bad = np.flatnonzero(~(np.isfinite(s) & (s >= 0)))
    if len(bad):
        told = f"<sample_weight> must be finite and >= 0, got {s[bad[0]]} <row>"
        raise DataError(told, row=int(bad[0]), value=s[bad[0]], settings=WEIGHT)
    if not s.any():
        raise DataError("<sample_weight> is zero in every row", settings=WEIGHT)
    return s


def _used(
    frame: pd.DataFrame, parts: formulas.FormulaParts | None, apart: tuple[str, ...]
) -> tuple[str, ...]:
    if parts is not None:
        return formulas.tokens(" ".join([parts.right, *parts.offsets]), frame)
    used = tuple(c for c in frame.columns if c not in apart)
    if not used:
        raise DataError(f"no column is left for X beside {', '.join(apart)}")
    return used


def _complete(frame: pd.DataFrame, response: Any, missing: str) -> np.ndarray:
    holes = frame.isna()
    if missing == "error" and holes.to_numpy().any():
        row, column = np.argwhere(holes.to_numpy())[0]
        name = {"(y)": response or "y", "(offset)": "offset"}.get(*2 * (frame.columns[column],))
        told = f"{name} is missing <row>; <missing> leaves such rows out"
        raise DataError(told, row=int(row), column=name, settings={"missing": "drop"})
    whole = ~np.any(holes.to_numpy(), axis=1)
    if not whole.any():
        worst = holes.sum().idxmax()
        raise DataError(f"no row is complete; {worst} is missing in {holes[worst].sum()} rows")
    return np.asarray(whole)


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


def pick(frame: pd.DataFrame, value: Any, what: str) -> pd.Series | None:
    """A column of the frame by name, or an array with one value per row; `what` it is to be."""
    if value is None:
        return None
    if isinstance(value, str):
        if value in frame.columns:
            return column(frame, value)
        columns = list(frame.columns)
        told = f"{what}: no column {value!r}; {meant(value, columns)}there are "
        raise DataError(told + ", ".join(columns[:30]), column=value)
    array = np.asarray(value)
    if array.shape != (len(frame),):
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


def label(y: pd.Series) -> str:
    return "y" if y.name is None else str(y.name)


def _not_a_number(name: str, values: pd.Series) -> DataError:
    told, value = f"{name} must be numbers, got {values.iloc[0]!r} <row>", values.iloc[0]
    return DataError(told, row=int(values.index[0]), column=name, value=value, settings=WEIGHT)


def column(frame: pd.DataFrame, name: str) -> pd.Series:
    return frame[name]  # pyright: ignore
