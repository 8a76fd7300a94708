"""From what the user has to checked rows: X with names, y, site, weight and offset."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from . import formula as formulas
from .columns import as_frame, check_finite, check_mixed, column, numbers, pick

INTERCEPT = "Intercept"


class Columns(NamedTuple):
    """Columns of numbers as they are, with an intercept in front: a design without formula."""

    used: tuple[str, ...]
    apart: tuple[str, ...]  # site, weight and so on, where they are columns too

    def matrix(self, frame: pd.DataFrame) -> pd.DataFrame:
        names = [c for c in frame.columns if c not in self.apart]
        if names != list(self.used):
            wrong = [c for c in names if c not in self.used] or [
                c for c in self.used if c not in names
            ]
            raise ValueError(
                f"X has {len(names)} columns, the fit had {len(self.used)}; "
                f"look at {', '.join(wrong[:5]) or 'their order'}"
            )
        X = {name: numbers(column(frame, name), name) for name in names}
        return pd.DataFrame({INTERCEPT: np.ones(len(frame))} | X)

    def offset(self, frame: pd.DataFrame) -> np.ndarray:
        return np.zeros(len(frame))


class Table(NamedTuple):
    X: np.ndarray
    names: list[str]
    y: pd.Series
    site: np.ndarray
    weight: np.ndarray | None
    offset: np.ndarray
    dropped: int
    design: "Columns | formulas.Terms"


def read(data, y, groups, weight, offset, formula: str | None, missing: str) -> Table:
    """The complete rows, every one checked; a row's number in a message counts from 0."""
    frame = as_frame(data, need_names=formula is not None)
    parts = None if formula is None else formulas.split(formula)
    y, site = _response(frame, y, parts), _sites(frame, groups)
    s, o = pick(frame, weight, "sample_weight"), pick(frame, offset, "offset")
    s = None if s is None else _weights(s)
    o = np.zeros(len(frame)) if o is None else numbers(o, "offset")
    apart = tuple(v for v in (weight, groups, offset, y.name) if isinstance(v, str))
    used = _used(frame, parts, apart)
    beside = pd.DataFrame({"(y)": y, "(offset)": o}, index=frame.index)
    whole = _complete(pd.concat([frame[list(used)], beside], axis=1), y.name, missing)
    counts = np.ones(len(frame), bool) if s is None else s > 0
    rows = np.flatnonzero(whole & counts)
    frame, y, o = frame.iloc[rows], y.iloc[rows], o[rows]
    design, X = _design(frame, parts, used, apart)
    o = o + design.offset(frame)
    check_finite(X, rows)
    check_finite(pd.DataFrame({"offset": o}), rows)
    return Table(
        X.to_numpy(float), [str(c) for c in X.columns], y, site[rows],
        None if s is None else s[rows], o, int(np.sum(~whole & counts)), design,
    )  # fmt: skip


def _design(frame: pd.DataFrame, parts: "formulas.Parts | None", used, apart):
    if parts is None:
        design = Columns(used, apart)
        return design, design.matrix(frame)
    check_mixed(frame, used)
    return formulas.learn(parts, frame)


def _response(frame: pd.DataFrame, y: Any, parts: "formulas.Parts | None") -> pd.Series:
    if parts is None:
        if y is None:
            raise ValueError("y is missing: give y, or a formula that names it")
        return pick(frame, y, "y")  # pyright: ignore
    if y is not None:
        raise ValueError(f"the formula names the response, {parts.response!r}; leave y out")
    name = parts.response.strip("`")
    if name in frame.columns:
        return column(frame, name)
    return pd.Series(formulas.number(parts.response, frame), name=None)


def _sites(frame: pd.DataFrame, groups: Any) -> np.ndarray:
    site = pick(frame, groups, "groups")
    if site is None:
        raise ValueError("groups is missing: say which site each row belongs to")
    empty = np.flatnonzero(np.asarray(pd.isna(site)))
    if len(empty):
        raise ValueError(f"groups has no value at row {empty[0]}: a row without a site")
    return np.asarray(site)


def _weights(column: pd.Series) -> np.ndarray:
    s = numbers(column, "sample_weight")
    bad = np.flatnonzero(~(np.isfinite(s) & (s >= 0)))
    if len(bad):
        raise ValueError(f"sample_weight must be finite and >= 0, got {s[bad[0]]} at row {bad[0]}")
    if not s.any():
        raise ValueError("sample_weight is zero in every row")
    return s


def _used(frame: pd.DataFrame, parts: "formulas.Parts | None", apart) -> tuple[str, ...]:
    if parts is not None:
        return formulas.tokens(" ".join([parts.right, *parts.offsets]), frame)
    used = tuple(c for c in frame.columns if c not in apart)
    if not used:
        raise ValueError(f"no column is left for X beside {', '.join(apart)}")
    return used


def _complete(frame: pd.DataFrame, response: Any, missing: str) -> np.ndarray:
    holes = frame.isna()
    if missing == "error" and holes.to_numpy().any():
        row, column = np.argwhere(holes.to_numpy())[0]
        name = {"(y)": response or "y", "(offset)": "offset"}.get(*2 * (frame.columns[column],))
        raise ValueError(f"{name} is missing at row {row}; missing='drop' leaves such rows out")
    whole = ~np.any(holes.to_numpy(), axis=1)
    if not whole.any():
        worst = holes.sum().idxmax()
        raise ValueError(f"no row is complete; {worst} is missing in {holes[worst].sum()} rows")
    return np.asarray(whole)
