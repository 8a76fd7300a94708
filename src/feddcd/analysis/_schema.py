"""What sites agree on before they add anything up: kinds of columns, their levels, the classes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from .._errors import DataError
from ..formula import (
    ColumnKind,
    Formula,
    FormulaDesign,
    NoColumn,
    kinds_of,
    learn,
    levels_of,
    read_formula,
    sorted_levels,
)
from ._model import effect_columns, effect_names
from ._outcome import Outcome, coded, outcome_of, words_of
from ._sums import DesignRows
from ._values import WEIGHT, label, numbers_of
from .families import COUNTS, POSITIVE, SHARES
from .plan import ModelSettings, RegressionPlan
from .protocol import Agreement, ColumnsOffer, Misfit, SiteRows, counts
from .table import CompleteRows, Roles, as_frame, choose, formula_for, read


def used(plan: RegressionPlan, names: Sequence[str]) -> tuple[str, ...]:
    """The columns that enter; a missing one is named."""
    return _entering(plan, _formula(plan, names), names)


def _entering(plan: RegressionPlan, formula: Formula, names: Sequence[str]) -> tuple[str, ...]:
    wanted = {*formula.left_columns, *formula.right_columns, plan.weight, plan.offset}
    return tuple(name for name in names if name in wanted)


def _formula(plan: RegressionPlan, names: Sequence[str]) -> Formula:
    lacking = [c for c in (plan.weight, plan.offset, *plan.levels) if c and c not in names]
    if lacking:
        raise Misfit(f"there is no column {lacking[0]!r}")
    try:
        return formula_for(str(plan.formula), _roles(plan, 0), list(names))
    except NoColumn as error:
        raise Misfit(f"there is no column {error.column!r}, which the formula names") from error


def _roles(plan: RegressionPlan, n: int) -> Roles:
    return Roles(None, np.zeros(n), plan.weight, plan.offset)


def offer(table: pd.DataFrame, plan: RegressionPlan) -> ColumnsOffer:
    """Kinds and levels over the complete rows. No column of the design is made: the reference of a
    category may be at another site."""
    frame = as_frame(table, need_names=True)
    formula = _formula(plan, list(frame.columns))
    chosen = choose(frame, _roles(plan, len(frame)), formula, plan.missing)
    kinds = kinds_of(chosen.frame, chosen.used, {*formula.categories, *plan.levels})
    levels = {c: list(kind.levels) for c, kind in kinds.items() if kind.levels}
    numbers = [c for c, kind in kinds.items() if kind.number]
    return ColumnsOffer(levels, numbers, _classes_of(chosen.y, plan), list(kinds))


def _classes_of(y: pd.Series, plan: RegressionPlan) -> list | None:
    """The classes of an outcome, or its two words."""
    if plan.family == "multinomial":
        return levels_of(y)
    return words_of(y, plan.event) if plan.family in SHARES else None


def agree(
    offers: Mapping[str, ColumnsOffer], plan: RegressionPlan
) -> tuple[Agreement, dict[str, str]]:
    """The union of levels and classes, and why some sites do not fit."""
    most = _most(offers, plan)
    refused = {
        site: f"{site}: {why}" for site, o in offers.items() if (why := _misfit(o, most, plan))
    }
    fitting = {site: o for site, o in offers.items() if site not in refused}
    if not fitting:
        return Agreement({}, None, [], []), refused
    levels = {
        c: plan.levels.get(c)
        or sorted_levels({v for o in fitting.values() for v in o.levels.get(c, ())})
        for c in sorted(most.levels)
    }
    words = sorted_levels({v for o in fitting.values() for v in o.classes or ()})
    classes = (plan.classes or words) if plan.family == "multinomial" else None
    outcome = _outcome(plan, words) if plan.family in SHARES and most.words else None
    cohort = Agreement(levels, classes, [], list(fitting), sorted(most.numbers), outcome, most.all)
    return cohort._replace(names=_learn(plan, cohort).names), refused


class _Most(NamedTuple):
    """As most sites have it."""

    all: list[str]  # the columns that explain
    numbers: set[str]
    levels: set[str]  # columns that have some
    words: bool  # the outcome is of words


def _most(offers: Mapping[str, ColumnsOffer], plan: RegressionPlan) -> _Most:
    each = list(offers.values())
    half = lambda count: 2 * count >= len(each)
    there = Counter(c for o in each for c in o.columns or ())
    words = Counter(c for o in each for c in o.levels if c not in o.numbers)
    all = [c for c in there if half(there[c])]
    numbers = {c for c in all if not half(words[c]) and c not in plan.levels}
    levels = {c for c in all if half(sum(c in o.levels for o in each))}
    return _Most(all, numbers, levels, half(sum(o.classes is not None for o in each)))


def _outcome(plan: RegressionPlan, words: list) -> Outcome:
    """(other, event); a declared order counts."""
    name = read_formula(plan.formula).response
    declared = plan.levels.get(name)
    return outcome_of(name, declared or words, plan.event)


def _misfit(offer: ColumnsOffer, most: _Most, plan: RegressionPlan) -> str:
    """Why a site does not fit, or nothing."""
    for column in most.all:
        if column not in (offer.columns or ()):
            return f"it has no column {column!r}, and most sites do"
        if column not in plan.levels and (column in offer.numbers) != (column in most.numbers):
            own, others = ("numbers", "categories")[:: 1 if column in offer.numbers else -1]
            return f"its column {column!r} holds {own}, and at most sites {others}"
    for column, declared in plan.levels.items():
        if other := sorted_levels(set(offer.levels.get(column, ())) - set(declared)):
            return f"its column {column!r} has the level {other[0]!r}, which was not declared"
    if plan.family in SHARES and (offer.classes is None) == most.words:
        own, others = ("words", "numbers")[:: 1 if offer.classes is not None else -1]
        return f"its outcome is of {own}, and at most sites of {others}"
    undeclared = set(offer.classes or ()) - set(plan.classes or offer.classes or ())
    if other := sorted_levels(undeclared):
        return f"it has the class {other[0]!r}, which was not declared"
    return ""


def design(settings: ModelSettings, cohort: Agreement) -> FormulaDesign | None:
    """How rows become columns, where the cohort knows what columns there are."""
    if settings.formula is None or cohort.numbers is None:
        return None
    return _learn(settings, cohort)


def _learn(settings: ModelSettings, cohort: Agreement) -> FormulaDesign:
    """From the cohort's kinds of columns: no row is needed for that."""
    return learn(_agreed(settings, cohort), _kinds(cohort))


def _agreed(settings: ModelSettings, cohort: Agreement) -> Formula:
    return read_formula(settings.formula).named(cohort.columns)


def _kinds(cohort: Agreement) -> dict[str, ColumnKind]:
    numbers = cohort.numbers or ()
    return {c: ColumnKind(c in numbers, tuple(cohort.levels.get(c, ()))) for c in cohort.columns}


def site_rows(table: pd.DataFrame, plan: RegressionPlan, cohort: Agreement, site: str) -> SiteRows:
    """The site's rows of the agreed design."""
    frame, formula = as_frame(table, need_names=True), _agreed(plan, cohort)
    for column, levels in cohort.levels.items():
        if not set(levels_of(frame[column])) <= set(levels):  # pyright: ignore
            raise Misfit(f"its column {column!r} has a level that was not agreed")
    rows = read(frame, _roles(plan, len(frame)), formula, plan.missing, _kinds(cohort))
    if rows.names != cohort.names:
        raise Misfit("the formula makes other columns here than elsewhere")
    Y = code(plan.family, rows, cohort)
    s = np.ones(len(Y)) if rows.weight is None else rows.weight
    X = rows.X
    if effects := effect_names(plan, cohort):
        own = np.full(len(X), cohort.sites.index(site))
        X = np.hstack([X, effect_columns(cohort.sites, own, len(effects))])
    chosen = frame.loc[rows.y.index]
    return SiteRows(
        plan,
        DesignRows(X, Y, s, rows.offset),
        n=len(s),
        dropped=rows.dropped,
        columns=_entering(plan, formula, list(frame.columns)),
        classes=counts(rows.y) if plan.family in (*SHARES, "multinomial") else {},
        levels={c: counts(chosen[c]) for c in cohort.levels},
    )


class Prepared(NamedTuple):
    """All rows of a fit in one process, by site."""

    cohort: Agreement
    sites: dict[str, SiteRows]
    labels: np.ndarray  # of the sites, as the user has them


def prepare(rows: CompleteRows, settings: ModelSettings) -> Prepared:
    try:
        labels, place = np.unique(rows.site, return_inverse=True)
    except TypeError:
        raise DataError("groups mixes numbers and words; name the sites in one way") from None
    if len(labels) < 2:
        told = f"groups has one value only, {labels[0]!s}: need two sites"
        raise DataError(told, value=labels[0])
    Y, classes, outcome = targets(settings, rows)
    s = np.ones(len(place)) if rows.weight is None else rows.weight
    sites = tuple(str(label) for label in labels)
    classes = None if classes is None else tuple(classes)
    cohort = Agreement({}, classes, rows.names, sites, outcome=outcome)
    X = rows.X
    if effects := effect_names(settings, cohort):
        X = np.hstack([X, effect_columns(sites, place, len(effects))])
    whole, own = DesignRows(X, Y, s, rows.offset), {}
    for i, site in enumerate(sites):
        part = np.flatnonzero(place == i)
        own[site] = SiteRows(settings, DesignRows(*(x[part] for x in whole)), n=len(part))
    return Prepared(cohort, own, labels)


class Targets(NamedTuple):
    Y: np.ndarray  # n by k
    classes: np.ndarray | None = None  # of a multinomial model, the base first
    outcome: Outcome | None = None  # of a binary one, where it is of words


def targets(settings: ModelSettings, rows: CompleteRows) -> Targets:
    """y of all rows, checked and coded."""
    family, name, outcome = settings.family, label(rows.y), None
    if family == "multinomial":
        return _classes(rows.y)
    if family in SHARES and (words := words_of(rows.y, settings.event)) is not None:
        outcome = outcome_of(name, words, settings.event)
    values = code(family, rows, Agreement({}, None, [], [], outcome=outcome))[:, 0]
    if family in SHARES and np.ptp(values) == 0 and values[0] in (0, 1):
        raise DataError(f"{name} is {values[0]:g} in every row: {family} needs both 0 and 1")
    if family in COUNTS and not values.any():
        raise DataError(f"{name} is 0 in every row: no finite model fits it")
    if family in ("gaussian", *POSITIVE) and np.ptp(values) == 0:
        raise DataError(f"{name} is {values[0]:g} in every row")
    return Targets(values[:, None], outcome=outcome)


def code(family: str, rows: CompleteRows, cohort: Agreement) -> np.ndarray:
    """Y of some rows: what one row can have wrong is refused."""
    y, classes = rows.y, cohort.classes
    if family == "multinomial" and classes is not None:
        _check(y, np.asarray(~y.isin(classes)), "is a class that was not agreed")
        return (np.asarray(y, object)[:, None] == np.array(classes[1:], object)).astype(float)
    if cohort.outcome is not None:
        values = coded(y, cohort.outcome)
        _check(y, np.isnan(values), "is a word that was not agreed")
        return values[:, None]
    values = numbers_of(y, label(y))
    _check(y, ~np.isfinite(values), "must be finite")
    if family in SHARES:
        _check(y, (values < 0) | (values > 1), "must be 0 or 1")
        if rows.weight is None:
            share = "must be 0 or 1 (a share needs <sample_weight>, the number of trials)"
            _check(y, values % 1 != 0, share)
    if family in COUNTS:
        _check(y, values < 0, "must be a count, >= 0")
    if family in POSITIVE:
        _check(y, values <= 0, f"must be above 0 for {family}")
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
    """Refuses the first value that is bad; the index of y holds the rows' numbers."""
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        told, at = f"{label(y)} {why}, got {y.iloc[row]} <row>", int(y.index[row])
        raise DataError(told, row=at, column=label(y), value=y.iloc[row], settings=WEIGHT)
