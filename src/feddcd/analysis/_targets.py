"""The outcome of rows, checked and coded as its family takes it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._errors import DataError, SpecError
from .._text import listed
from ._lone import check_binary
from ._outcome import Outcome, coded, outcome_of, words_of
from ._values import WEIGHT, label, numbers_of
from .families import CLASSED, COUNTS, POSITIVE, SHARES
from .plan import ModelSettings
from .protocol import Agreement
from .table import CompleteRows


class Targets(NamedTuple):
    Y: np.ndarray  # n by k
    classes: np.ndarray | None = None  # in their order, the base first
    outcome: Outcome | None = None  # of a binary one, where it is of words


def targets(settings: ModelSettings, rows: CompleteRows) -> Targets:
    """y of all rows, checked and coded."""
    family, name, outcome = settings.family, label(rows.y), None
    if family in CLASSED:
        return _classes(rows, settings)
    if family in SHARES and (words := words_of(rows.y, settings.event)) is not None:
        outcome = outcome_of(name, words, settings.event)
    if family in SHARES and outcome is None:
        check_binary(rows)
    values = code(family, rows, Agreement({}, None, [], [], outcome=outcome))[:, 0]
    if family in SHARES and np.ptp(values) == 0 and values[0] in (0, 1):
        told = f"{name!r} is {values[0]:g} in every row, but {family} needs both 0 and 1"
        raise DataError(told)
    if family in COUNTS and not values.any():
        raise DataError(f"{name!r} is 0 in every row, so no finite model fits the data")
    if family in ("gaussian", *POSITIVE) and np.ptp(values) == 0:
        raise DataError(f"{name!r} is {values[0]:g} in every row")
    return Targets(values[:, None], outcome=outcome)


def code(family: str, rows: CompleteRows, cohort: Agreement) -> np.ndarray:
    """Y of some rows: what one row can have wrong is refused."""
    y, classes = rows.y, cohort.classes
    if classes is not None:
        one_of = f"must be one of the classes {listed(classes)}"
        _check(y, np.asarray(~y.isin(classes)), one_of)
        own = (np.asarray(y, object)[:, None] == np.array(classes, object)).astype(float)
        return own[:, 1:] if family == "multinomial" else own @ np.arange(len(classes))[:, None]
    if cohort.outcome is not None:
        values, both = coded(y, cohort.outcome), listed(map(str, cohort.outcome))
        _check(y, np.isnan(values), f"must be one of the two words {both}")
        return values[:, None]
    values = numbers_of(y, label(y))
    _check(y, ~np.isfinite(values), "must be finite")
    if family in SHARES:
        other = ". For two other values, give <event> for the one that counts as 1"
        _check(y, (values < 0) | (values > 1), "must be 0 or 1", other)
        if rows.weight is None:
            share = "a share of successes if <sample_weight> has the number of trials"
            _check(y, values % 1 != 0, f"must be 0 or 1, or {share}")
    if family in COUNTS:
        _check(y, values < 0, "must be a count (a number >= 0)")
    if family in POSITIVE:
        _check(y, values <= 0, f"must be above 0 for {family}")
    return values[:, None]


def class_order(settings: ModelSettings, found: Sequence[Any]) -> list[Any]:
    """The classes in their order: as declared, or numbers by size; words have none."""
    if settings.classes is not None and len(settings.classes) < 2:
        raise SpecError(
            "<classes> needs at least two classes, for example low,mid,high; got only "
            f"{listed(settings.classes)}",
            settings={"classes": None},
        )
    if settings.classes is not None:
        return list(settings.classes)
    if settings.family == "ordinal" and any(isinstance(c, str) for c in found):
        shown = ", ".join(map(repr, found[:5]))
        told = (
            f"family='ordinal' needs the order of {shown}: give the classes, the lowest first, "
            "in <classes>"
        )
        raise SpecError(told, settings={"classes": None})
    return list(found)


def _classes(rows: CompleteRows, settings: ModelSettings) -> Targets:
    y, name = rows.y, label(rows.y)
    try:
        found, codes, counts = np.unique(np.asarray(y), return_inverse=True, return_counts=True)
    except TypeError:
        raise DataError(
            f"{name} has labels that cannot be sorted together, such as 1 and 'a'"
        ) from None
    if len(found) < 2:
        told = f"{name!r} is {found[0]!s} in every row, but {settings.family} needs two classes"
        raise DataError(told)
    if counts.min() < 2:
        once = found[np.argmin(counts)]
        row = y.index[int(np.flatnonzero(codes == np.argmin(counts))[0])]
        told = (
            f"{name!r}: the class {once!s} occurs only once, <row>, but must occur at least twice"
        )
        raise DataError(told, row=int(row), column=name, value=once)
    ordered = isinstance(y.dtype, pd.CategoricalDtype) and y.cat.ordered
    own = [c for c in y.cat.categories if c in found] if ordered else None
    classes = own or class_order(settings, found.tolist())
    if lacking := [c for c in classes if c not in found]:
        told = f"{name!r}: no row has the class {lacking[0]!r}; remove this class from <classes>"
        raise DataError(told, settings={"classes": None})
    Y = code(settings.family, rows, Agreement({}, classes, [], []))
    return Targets(Y, np.array(classes))


def _check(y: pd.Series, bad: np.ndarray, why: str, advice: str = "") -> None:
    """Refuses the first value that is bad; the index of y holds the rows' numbers."""
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        name, value = label(y), y.iloc[row]
        got = repr(value) if isinstance(value, str) else value
        got = f"{value:g}" if isinstance(value, int | float | np.number) else got
        told, at = f"{name!r} {why}, got {got} <row>{advice}", int(y.index[row])
        raise DataError(told, row=at, column=name, value=value, settings=WEIGHT | {"event": ...})
