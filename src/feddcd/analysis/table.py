"""From what the user has to checked rows: X with names, y, site, weight and offset.

The estimator, the command and the sites all read their tables here.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd

from .._errors import DataError, SpecError
from . import formula as formulas
from ._columns import (
    IN_PYTHON,
    WEIGHT,
    Wording,
    as_frame,
    check_finite,
    check_mixed,
    column,
    label,
    numbers_of,
    pick,
    refusal,
)
from .formula import INTERCEPT


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
    wording: Wording
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


def read(
    data: Any, roles: Roles, formula: str | None, missing: str, wording: Wording = IN_PYTHON
) -> CompleteRows:
    frame = as_frame(data, need_names=formula is not None)
    parts = None if formula is None else formulas.split(formula)
    y, site = _response(frame, roles.label, parts, wording), _sites(frame, roles.group, wording)
    s = pick(frame, roles.weight, "weight", wording)
    o = pick(frame, roles.offset, "offset", wording)
    s = None if s is None else _weights(s)
    o = np.zeros(len(frame)) if o is None else numbers_of(o, "offset")
    named = (roles.weight, roles.group, roles.offset, y.name)
    apart = tuple(name for name in named if isinstance(name, str))
    used = _used(frame, parts, apart, wording)
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
        None if s is None else s[rows], o, int(np.sum(~whole & counts)), design, roles, wording,
        holes,
    )  # fmt: skip


def _response(
    frame: pd.DataFrame, y: Any, parts: formulas.FormulaParts | None, wording: Wording
) -> pd.Series:
    if parts is None:
        if y is None:
            raise SpecError("y is missing: give y, or a formula that names it")
        return pick(frame, y, "label", wording)  # pyright: ignore
    if y is not None:
        raise SpecError(f"the formula names the response, {parts.response!r}; leave y out")
    name = parts.response.strip("`")
    if name in frame.columns:
        return column(frame, name)
    return pd.Series(formulas.number(parts.response, frame), name=None)


def _sites(frame: pd.DataFrame, groups: Any, wording: Wording) -> np.ndarray:
    site = pick(frame, groups, "group", wording)
    if site is None:
        raise SpecError("groups is missing: say which site each row belongs to")
    empty = np.flatnonzero(np.asarray(pd.isna(site)))
    if len(empty):
        raise wording.no_site(empty)
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
    frame: pd.DataFrame,
    parts: formulas.FormulaParts | None,
    apart: tuple[str, ...],
    wording: Wording,
) -> tuple[str, ...]:
    if parts is not None:
        return formulas.tokens(" ".join([parts.right, *parts.offsets]), frame)
    used = tuple(c for c in frame.columns if c not in apart)
    if not used:
        raise wording.nothing_left(apart)
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


class Targets(NamedTuple):
    Y: np.ndarray  # n by k
    classes: np.ndarray | None  # of a multinomial model, the base first


def targets(family: str, rows: CompleteRows) -> Targets:
    """y of all rows, checked and coded."""
    if family == "multinomial":
        return _classes(rows.y)
    name, values = label(rows.y), code(family, rows, None)[:, 0]
    if family == "binomial" and np.ptp(values) == 0 and values[0] in (0, 1):
        raise DataError(f"{name} is {values[0]:g} in every row: binomial needs both 0 and 1")
    if family == "poisson" and not values.any():
        raise DataError(f"{name} is 0 in every row: no finite model fits it")
    if family == "gaussian" and np.ptp(values) == 0:
        raise DataError(f"{name} is {values[0]:g} in every row")
    return Targets(values[:, None], None)


def code(family: str, rows: CompleteRows, classes: Sequence[Any] | None) -> np.ndarray:
    """Y of some rows: what one row can have wrong is refused."""
    y = rows.y
    if family == "multinomial" and classes is not None:
        _check(y, np.asarray(~y.isin(classes)), "is a class that was not agreed")
        return (np.asarray(y, object)[:, None] == np.array(classes[1:], object)).astype(float)
    values = numbers_of(y, label(y))
    _check(y, ~np.isfinite(values), "must be finite")
    if family == "binomial":
        bad = (values < 0) | (values > 1)
        if bad.any() or (rows.weight is None and np.any(values % 1 != 0)):
            raise rows.wording.not_binary(y, values)
    if family == "poisson":
        _check(y, values < 0, "must be a count, >= 0")
    return values[:, None]


def _classes(y: pd.Series) -> Targets:
    name = label(y)
    try:
        classes, codes, counts = np.unique(np.asarray(y), return_inverse=True, return_counts=True)
    except TypeError:
        raise DataError(f"{name} mixes labels that cannot be ordered, such as 1 and 'a'") from None
    if len(classes) < 2:
        raise DataError(f"{name} is {classes[0]!s} in every row: multinomial needs two classes")
    if counts.min() < 2:
        once = classes[np.argmin(counts)]
        row = y.index[int(np.flatnonzero(codes == np.argmin(counts))[0])]
        told = f"{name}: the class {once!s} is seen once only, <row>"
        raise DataError(told, row=int(row), column=name, value=once)
    return Targets(np.eye(len(classes))[codes][:, 1:], classes)


def _check(y: pd.Series, bad: np.ndarray, why: str) -> None:
    if bad.any():
        raise refusal(y, bad, why)
