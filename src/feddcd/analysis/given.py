"""A table as `feddcd glm` takes it: which column is what, and what is refused before the fit."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from formulaic import Formula
from formulaic.errors import FormulaicError

from .._errors import DataError
from .._text import listed
from ..data.frames import Frame, is_number, is_table, no_column, read_frame
from ..data.libsvm import read_libsvm
from . import values as values
from .formula import Parts, split, tokens
from .values import check_alike, check_plain, check_words, refuse_mixed

if TYPE_CHECKING:
    from pandas import DataFrame

PRETENDED = "(site)"
CONSTANT = re.compile(r"[01+\-\s]*")


class Roles(NamedTuple):
    label: str | None
    group: str | None
    weight: str | None
    offset: str | None


class Ready(NamedTuple):
    frame: "DataFrame"
    sites: np.ndarray
    used: tuple[str, ...]  # where a missing value leaves the row out
    notes: tuple[str, ...]  # what a person should know of it


def load_table(file: Path, roles: Roles, clients: int | None, seed: int) -> tuple[Frame, Roles]:
    """A table with names, or a LIBSVM file: columns x1, x2, ... and label. With `clients` the rows
    are shared out at random, to plan with."""
    named = is_table(file)
    table = (
        read_frame(file, () if roles.group is None else (roles.group,)) if named else _sparse(file)
    )
    if not named and roles.label is None:
        roles = roles._replace(label="label")
    if clients is None:
        return table, roles
    if roles.group is not None:
        raise DataError("give --group, or --clients to share the rows out at random, not both")
    if not 2 <= clients <= len(table.frame):
        raise DataError(f"need 2 <= --clients <= {len(table.frame)} rows, got {clients}")
    site = np.random.default_rng(seed).permutation(np.arange(len(table.frame)) % clients)
    frame = table.frame.assign(**{PRETENDED: [f"site-{i + 1}" for i in site]})
    return table._replace(frame=frame), roles._replace(group=PRETENDED)


def _sparse(file: Path) -> Frame:
    import pandas

    X, y = read_libsvm(file)
    dense = X.toarray()
    frame = pandas.DataFrame(dense, columns=[f"x{j + 1}" for j in range(dense.shape[1])])
    kinds = np.unique(y)
    frame["label"] = (y == kinds[1]).astype(float) if len(kinds) == 2 else y  # as -1 and 1
    return Frame(str(file), frame, lambda row: f"line {row + 1}")


def ready(table: Frame, formula: str | None, roles: Roles, family: str) -> Ready:
    _check_roles(table, formula, roles)
    notes: list[str] = []
    sites = _sites(table, str(roles.group), notes)
    if formula is None:
        outcome, used = str(roles.label), _numeric(table, roles, notes)
        kept = (*used, roles.label, roles.weight, roles.offset)
        table = table._replace(frame=table.frame[[c for c in table.frame if c in kept]])
    else:
        outcome, used = _named(table, split(formula))
        table = table._replace(frame=_restored(table.frame, str(roles.group), used))
        check_words(table, used, notes)
    if outcome in table.frame.columns:
        check_plain(table, [outcome])
        frame = values.outcome(table, outcome, family, roles.weight is not None, notes)
        table, used = table._replace(frame=frame), (*used, outcome)
    used = used if roles.offset is None else (*used, roles.offset)
    return Ready(table.frame, sites, tuple(dict.fromkeys(used)), tuple(notes))


def _check_roles(table: Frame, formula: str | None, roles: Roles) -> None:
    file, names = table.file, list(table.frame.columns)
    if roles.group is None:
        raise DataError(
            f"{file}: say with --group which column names the site (the hospital, bank, ...) that "
            f"holds each row, or share the rows out with --clients; columns: {listed(names)}"
        )
    if (formula is None) == (roles.label is None):
        what = "which column is explained by which" if formula is None else "it once"
        raise DataError(
            f"{file}: say {what}: --formula 'y ~ a + b', or --label y for all other numbers"
        )
    for role, name in roles._asdict().items():
        if name is not None and name not in names:
            raise no_column(file, name, names, f" for --{role}")
    given = [name for name in roles if name is not None]
    twice = [name for name in given if given.count(name) > 1]
    if twice:
        raise DataError(f"{file}: the column {twice[0]!r} cannot be two of {_options(roles)}")
    if not len(table.frame):
        raise DataError(f"{file}: no rows")


def _options(roles: Roles) -> str:
    return ", ".join(f"--{role}" for role, name in roles._asdict().items() if name is not None)


def _named(table: Frame, parts: Parts) -> tuple[str, tuple[str, ...]]:
    """The outcome and the other columns of a formula, checked before it is evaluated."""
    names, outcome = list(table.frame.columns), parts.response.strip("`")
    for text in (parts.response, parts.right, *parts.offsets):
        for name in _variables(text):
            if name not in names:
                raise no_column(table.file, name, names, " for the formula")
    used = tokens(" ".join([parts.right, *parts.offsets]), table.frame)
    if outcome in used:
        raise DataError(f"the formula has {outcome!r} on both sides of ~")
    if CONSTANT.fullmatch(parts.right):
        raise DataError(f"the formula names no column that explains {outcome}")
    check_plain(table, used)
    return outcome, used


def _variables(text: str) -> list[str]:
    """The columns that a part of a formula needs; nothing where it cannot be read."""
    try:
        needed = Formula.from_spec(text).required_variables
    except FormulaicError:
        return []  # the fit says what is wrong with it
    called = lambda name: re.search(rf"(?<!\w){re.escape(name)}\s*\(", text)
    return sorted(name for name in map(str, needed) if not called(name))


def _sites(table: Frame, group: str, notes: list[str]) -> np.ndarray:
    check_plain(table, [group])
    column = table.frame[group]
    empty = np.flatnonzero(np.asarray(column.isna()))
    if len(empty):
        raise DataError(
            f"{table.file}: {group} is empty {table.place(int(empty[0]))}: a row without a site; "
            f"such rows: {len(empty)}"
        )
    check_alike(table, group, notes)
    if column.nunique() < 2:
        raise DataError(f"{table.file}: {group} is {column.iloc[0]!s} in every row: need two sites")
    return np.asarray(column)


def _restored(frame: "DataFrame", group: str, used: tuple[str, ...]) -> "DataFrame":
    """Numbers again, where a column was read as words to keep the sites' names as they are."""
    import pandas

    if group not in used or not all(map(is_number, map(str, frame[group]))):
        return frame
    return frame.assign(**{group: pandas.to_numeric(frame[group])})


def _numeric(table: Frame, roles: Roles, notes: list[str]) -> tuple[str, ...]:
    """All columns of numbers that have no other role."""
    rest = [c for c in table.frame.columns if c not in roles]
    refuse_mixed(table, tuple(rest))
    used = tuple(c for c in rest if table.frame[c].dtype.kind in "biuf")
    left = [c for c in rest if c not in used]
    if not used:
        raise DataError(f"{table.file}: no column of numbers is left beside {_options(roles)}")
    if left:
        notes.append(f"left out, for they are not numbers: {listed(left)} (a formula takes them)")
    return used
