"""From what the user has to checked rows: X with names, y, site, weight and offset.

The estimator, the command and the sites all read their tables here. A row's number counts from 0;
an error holds it as a field, and who knows the file says where it is.
"""

import unicodedata
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
import pandas as pd
import scipy.sparse

from .._errors import DataError, SpecError
from .._text import meant, other_columns, plural
from ..formula import (
    INTERCEPT,
    ColumnKind,
    DesignColumn,
    Formula,
    Part,
    check_there,
    empty_levels,
    kinds_of,
    learn,
    read_formula,
)
from ._values import (
    WEIGHT,
    check_finite,
    check_mixed,
    check_spelling,
    column,
    complete_rows,
    numbers_of,
    offset_name,
)

CLUSTER = {"cluster": None}  # a setting that messages name
ONE_SITE = "all rows"


class Design(Protocol):
    """How rows of a frame become rows of X."""

    @property
    def used(self) -> tuple[str, ...]: ...
    @property
    def columns(self) -> tuple[DesignColumn, ...]: ...
    @property
    def names(self) -> list[str]: ...
    def matrix(self, frame: pd.DataFrame) -> np.ndarray: ...
    def offset(self, frame: pd.DataFrame) -> np.ndarray: ...


class Roles(NamedTuple):
    """Which column, by its name or as an array, is what; a formula names its own label."""

    label: Any = None
    group: Any = None
    weight: Any = None
    offset: Any = None
    cluster: Any = None


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
    lacking: np.ndarray  # the sites of the rows that were dropped
    cluster: np.ndarray | None = None  # a number for each row's
    empty: Mapping[str, list] = {}  # by category: levels that are declared, and in no row


class PlainDesign(NamedTuple):
    """Columns of numbers as they are, with an intercept in front: a design without formula."""

    used: tuple[str, ...]
    apart: tuple[str, ...]  # site, weight and so on, where they are columns too

    @property
    def columns(self) -> tuple[DesignColumn, ...]:
        rest = [DesignColumn(name, name, (Part(name),)) for name in self.used]
        return (DesignColumn(INTERCEPT, INTERCEPT, ()), *rest)

    @property
    def names(self) -> list[str]:
        return [INTERCEPT, *self.used]

    def matrix(self, frame: pd.DataFrame) -> np.ndarray:
        names = [c for c in frame.columns if c not in self.apart]
        if names != list(self.used):
            raise DataError(other_columns(names, self.used))
        X = [numbers_of(column(frame, name), name) for name in names]
        return np.stack([np.ones(len(frame)), *X], 1)

    def offset(self, frame: pd.DataFrame) -> np.ndarray:
        return np.zeros(len(frame))


class ChosenRows(NamedTuple):
    """The rows without missing values, before columns are made of them."""

    frame: pd.DataFrame
    rows: np.ndarray  # their numbers
    y: pd.Series
    site: np.ndarray
    weight: np.ndarray | None
    offset: np.ndarray
    dropped: int
    formula: Formula | None
    used: tuple[str, ...]
    apart: tuple[str, ...]
    holes: dict[str, int]
    lacking: np.ndarray
    cluster: np.ndarray | None


def choose(data: Any, roles: Roles, formula: Formula | str | None, missing: str) -> ChosenRows:
    """Errors name the arguments of fit; who has other names for them checks before."""
    frame = as_frame(data, need_names=formula is not None)
    formula = None if formula is None else formula_for(formula, roles, list(frame.columns))
    y, total = _response(frame, roles.label, formula)
    site = _sites(frame, roles.group, formula is None)
    s, o = pick(frame, roles.weight, "sample_weight"), pick(frame, roles.offset, "offset")
    s = _weights(s, total)
    o = np.zeros(len(frame)) if o is None else numbers_of(o, "offset")
    cluster = None if roles.cluster is None else _clusters(frame, roles.cluster)
    named = (roles.weight, roles.group, roles.offset, roles.cluster, y.name)
    apart = tuple(name for name in named if isinstance(name, str))
    used = _used(frame, formula, apart)
    beside = pd.DataFrame({"(offset)": o}, index=frame.index)
    if formula is None:
        beside.insert(0, "(y)", y)
    outcome = () if formula is None else formula.left_columns
    whole = complete_rows(pd.concat([frame[[*used, *outcome]], beside], axis=1), y.name, missing)
    counted = [c for c in (*used, *outcome, y.name, roles.offset) if isinstance(c, str)]
    holes = {name: int(column(frame, name).isna().sum()) for name in counted if name in frame}
    counts = np.ones(len(frame), bool) if s is None else s > 0
    rows = np.flatnonzero(whole & counts)
    if formula is not None:
        check_mixed(frame.iloc[rows], used)
    return ChosenRows(
        frame.iloc[rows], rows, y.iloc[rows], site[rows], None if s is None else s[rows], o[rows],
        int(np.sum(~whole & counts)), formula, used, apart, holes,
        site[~whole & counts],
        None if cluster is None else np.unique(cluster[rows], return_inverse=True)[1],
    )  # fmt: skip


def read(data: Any, roles: Roles, formula: Formula | str | None, missing: str) -> CompleteRows:
    """The complete rows and the columns that they make."""
    return finish(choose(data, roles, formula, missing), roles)


def finish(
    chosen: ChosenRows, roles: Roles, kinds: Mapping[str, ColumnKind] | None = None
) -> CompleteRows:
    """Without `kinds` the columns are what these rows have."""
    frame, formula = chosen.frame, chosen.formula
    if formula is None:
        design, empty = PlainDesign(chosen.used, chosen.apart), {}
    else:
        if kinds is None:
            kinds = kinds_of(frame, chosen.used, formula.categories)
            for name, kind in kinds.items():
                check_spelling(name, kind.levels, values=column(frame, name))
        design = learn(formula, kinds)
        empty = {c: gone for c in chosen.used if (gone := empty_levels(column(frame, c)))}
    X = design.matrix(frame)
    check_finite(X, design.names, chosen.rows, frame)
    o = chosen.offset + design.offset(frame)
    check_finite(o[:, None], [offset_name(formula)], chosen.rows, frame)
    return CompleteRows(
        X, design.names, chosen.y, chosen.site, chosen.weight, o, chosen.dropped, design, roles,
        chosen.holes, chosen.lacking, chosen.cluster, empty,
    )  # fmt: skip


def formula_for(formula: Formula | str, roles: Roles, columns: list[str]) -> Formula:
    """With the columns that a dot stands for, all of them there."""
    read = read_formula(formula) if isinstance(formula, str) else formula
    apart = [name for name in roles[1:] if isinstance(name, str)]
    read = read.named(columns, apart)
    check_there((*read.left_columns, *read.right_columns), columns)
    return read


def _response(
    frame: pd.DataFrame, y: Any, formula: Formula | None
) -> tuple[pd.Series, np.ndarray | None]:
    """The outcome, and of counts of two kinds their total."""
    if formula is None:
        if y is None:
            raise SpecError("y is missing: give y, or a formula with the outcome")
        return pick(frame, y, "y"), None  # pyright: ignore
    if y is not None:
        raise SpecError(f"the formula already has the outcome {formula.response!r}, so leave out y")
    if formula.outcome is not None:
        return column(frame, formula.outcome), None
    values, total = formula.values(frame, kinds_of(frame, formula.left_columns))
    return pd.Series(values, frame.index, name=formula.response), total


def _sites(frame: pd.DataFrame, groups: Any, all_columns: bool) -> np.ndarray:
    """Without groups all rows are one site, unless a column of sites would be a predictor then."""
    site = pick(frame, groups, "groups")
    if site is None and all_columns:
        raise SpecError("the argument 'groups' is missing: give the site of each row")
    if site is None:
        return np.full(len(frame), ONE_SITE)
    empty = np.flatnonzero(np.asarray(pd.isna(site)))
    for row in map(int, empty[:1]):
        raise DataError("'groups' has no value <row>, but each row must have a site", row=row)
    name = groups if isinstance(groups, str) else "groups"
    check_spelling(name, site.unique(), "site", site)
    return np.asarray(site)


def _clusters(frame: pd.DataFrame, cluster: Any) -> np.ndarray:
    values = pick(frame, cluster, "cluster")
    empty = np.flatnonzero(np.asarray(pd.isna(values)))
    if len(empty):
        raise DataError("<cluster> has no value <row>", row=int(empty[0]), settings=CLUSTER)
    return pd.factorize(values)[0]  # pyright: ignore


def _weights(column: pd.Series | None, total: np.ndarray | None) -> np.ndarray | None:
    """As given, times the trials of a row; a row that is incomplete counts for the missing."""
    total = None if total is None else np.where(np.isnan(total), 1.0, total)
    if column is None:
        return total
    s = numbers_of(column, "<sample_weight>")
    bad = np.flatnonzero(~(np.isfinite(s) & (s >= 0)))
    if len(bad):
        told = f"<sample_weight> must be finite and >= 0, got {s[bad[0]]} <row>"
        raise DataError(told, row=int(bad[0]), value=s[bad[0]], settings=WEIGHT)
    if not s.any():
        raise DataError("<sample_weight> is zero in every row", settings=WEIGHT)
    return s if total is None else s * total


def _used(frame: pd.DataFrame, formula: Formula | None, apart: tuple[str, ...]) -> tuple[str, ...]:
    if formula is not None:
        return formula.right_columns
    used = tuple(c for c in frame.columns if c not in apart)
    if not used:
        raise DataError(f"no column is left for X; already in use: {', '.join(map(repr, apart))}")
    return used


def as_frame(data: Any, need_names: bool) -> pd.DataFrame:
    if isinstance(data, pd.DataFrame):
        frame = data.reset_index(drop=True)
        frame.columns = [unicodedata.normalize("NFC", str(c)) for c in frame.columns]
        twice = frame.columns[frame.columns.duplicated()]
        if len(twice):
            raise DataError(f"the column {twice[0]!r} occurs twice")
    elif need_names:
        hint = ". Read the file with pandas.read_csv first" if isinstance(data, str) else ""
        raise SpecError(f"a formula needs a DataFrame, got {type(data).__name__}{hint}")
    else:
        X = data.toarray() if scipy.sparse.issparse(data) else np.asarray(data)
        if X.ndim != 2:
            raise DataError(f"X must have two dimensions, rows and columns; got shape {X.shape}")
        frame = pd.DataFrame(X, columns=[f"x{k}" for k in range(X.shape[1])])
    if 0 in frame.shape:
        what = "the data frame" if isinstance(data, pd.DataFrame) else "X"
        lacks = "columns" if len(frame) else "rows"
        raise DataError(f"{what} has no {lacks} (its shape is {frame.shape})")
    return frame


def pick(frame: pd.DataFrame, value: Any, what: str) -> pd.Series | None:
    """A column of the frame by name, or an array with one value per row; `what` it is to be."""
    if value is None:
        return None
    if isinstance(value, str):
        if value in frame.columns:
            return column(frame, value)
        told = f"{what}: there is no column {value!r}; {meant(value, list(frame.columns))}"
        raise DataError(f"{told}the columns are {', '.join(frame.columns[:30])}", column=value)
    array = np.asarray(value)
    if array.ndim == 1 and len(array) != len(frame):
        raise DataError(
            f"{what} has {plural(len(array), 'value')}, but the table has {len(frame):,} rows"
        )
    if array.shape != (len(frame),):
        raise DataError(f"{what} must have shape ({len(frame)},), got {array.shape}")
    return pd.Series(array, name=None)
