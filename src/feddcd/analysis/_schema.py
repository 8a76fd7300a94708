"""What sites agree on before they add anything up: kinds of columns, their levels, the classes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from .._errors import DataError
from . import _formula as formulas
from ._formula import FormulaDesign, NoColumn
from ._model import effect_columns, effect_names
from ._sums import DesignRows
from .plan import ModelSettings, RegressionPlan
from .protocol import Agreement, ColumnsOffer, Misfit, SiteRows, counts
from .table import WEIGHT, CompleteRows, Roles, label, numbers_of, read


def used(plan: RegressionPlan, names: Sequence[str]) -> tuple[str, ...]:
    """The columns that enter; a missing one is named."""
    parts = formulas.split(str(plan.formula))
    text = " ".join([parts.response, parts.right, *parts.offsets])
    wanted = formulas.words(text) | {c for c in (plan.weight, plan.offset) if c}
    lacking = [c for c in (plan.weight, plan.offset, *plan.levels) if c and c not in names]
    if lacking:
        raise Misfit(f"there is no column {lacking[0]!r}")
    return tuple(name for name in names if name in wanted)


def offer(table: pd.DataFrame, plan: RegressionPlan) -> ColumnsOffer:
    try:
        rows = _read(table, plan)
    except NoColumn as error:
        raise Misfit("a column that the formula names is not there") from error
    levels = {
        column: _sort(categories)
        for factor, categories in rows.design.levels().items()  # pyright: ignore
        for column in formulas.tokens(factor, table)
    }
    classes = _sort(pd.unique(rows.y)) if plan.family == "multinomial" else None
    numbers = [c for c in used(plan, list(table.columns)) if c not in levels]
    return ColumnsOffer(levels, numbers, classes)


def agree(
    offers: Mapping[str, ColumnsOffer], plan: RegressionPlan
) -> tuple[Agreement, dict[str, str]]:
    """The union of levels and classes, and why some sites do not fit."""
    named = Counter(c for o in offers.values() for c in o.levels)
    kinds = {c for c, count in named.items() if 2 * count >= len(offers)}  # as most sites have it
    refused = {
        site: f"{site}: {why}" for site, o in offers.items() if (why := _misfit(o, kinds, plan))
    }
    fitting = {site: o for site, o in offers.items() if site not in refused}
    if not fitting:
        return Agreement({}, None, [], []), refused
    levels = {
        c: plan.levels.get(c) or _sort({v for o in fitting.values() for v in o.levels[c]})
        for c in sorted(kinds)
    }
    classes = plan.classes
    if plan.family == "multinomial" and classes is None:
        classes = _sort({v for o in fitting.values() for v in o.classes or ()})
    numbers = sorted({c for o in fitting.values() for c in o.numbers})
    cohort = Agreement(levels, classes, [], list(fitting), numbers)
    _, names = _learn(plan, cohort)
    return cohort._replace(names=names), refused


def _misfit(offer: ColumnsOffer, kinds: set[str], plan: RegressionPlan) -> str:
    """Why a site does not fit, or nothing."""
    for column in sorted(kinds ^ set(offer.levels)):
        own, most = ("numbers", "categories") if column in kinds else ("categories", "numbers")
        return f"its column {column!r} holds {own}, and at most sites {most}"
    for column, declared in plan.levels.items():
        if other := _sort(set(offer.levels.get(column, ())) - set(declared)):
            return f"its column {column!r} has the level {other[0]!r}, which was not declared"
    undeclared = set(offer.classes or ()) - set(plan.classes or offer.classes or ())
    if other := _sort(undeclared):
        return f"it has the class {other[0]!r}, which was not declared"
    return ""


def design(settings: ModelSettings, cohort: Agreement) -> FormulaDesign | None:
    """How rows become columns, where the cohort knows what columns there are."""
    if settings.formula is None or cohort.numbers is None:
        return None
    return _learn(settings, cohort)[0]


def _learn(settings: ModelSettings, cohort: Agreement) -> tuple[FormulaDesign, list[str]]:
    """From an invented frame with the cohort's kinds of columns: no row is needed for that."""
    count = max([2, *(len(levels) for levels in cohort.levels.values())])
    frame = pd.DataFrame({c: np.linspace(1, 2, count) for c in cohort.numbers or ()})
    for column, levels in cohort.levels.items():
        values = [levels[i % len(levels)] for i in range(count)]
        frame[column] = pd.Categorical(values, categories=levels)
    learned, X = formulas.learn(formulas.split(str(settings.formula)), frame)
    return learned, [str(c) for c in X.columns]


def site_rows(table: pd.DataFrame, plan: RegressionPlan, cohort: Agreement, site: str) -> SiteRows:
    """The site's rows of the agreed design."""
    frame = table.copy()
    for column, levels in cohort.levels.items():
        values = pd.Series(frame[column])
        if not set(values.dropna().unique()) <= set(levels):
            raise Misfit(f"its column {column!r} has a level that was not agreed")
        frame[column] = pd.Categorical(values, categories=levels)
    rows = _read(frame, plan)
    if rows.names != cohort.names:
        raise Misfit("the formula makes other columns here than elsewhere")
    Y = code(plan.family, rows, cohort.classes)
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
        columns=used(plan, list(frame.columns)),
        classes={} if plan.family in ("gaussian", "poisson") else counts(rows.y),
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
    Y, classes = targets(settings.family, rows)
    s = np.ones(len(place)) if rows.weight is None else rows.weight
    sites = tuple(str(label) for label in labels)
    cohort = Agreement({}, None if classes is None else tuple(classes), rows.names, sites)
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
        _check(y, (values < 0) | (values > 1), "must be 0 or 1")
        if rows.weight is None:
            share = "must be 0 or 1 (a share needs <sample_weight>, the number of trials)"
            _check(y, values % 1 != 0, share)
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
    """Refuses the first value that is bad; the index of y holds the rows' numbers."""
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        told, at = f"{label(y)} {why}, got {y.iloc[row]} <row>", int(y.index[row])
        raise DataError(told, row=at, column=label(y), value=y.iloc[row], settings=WEIGHT)


def _read(frame: pd.DataFrame, plan: RegressionPlan) -> CompleteRows:
    used(plan, list(frame.columns))
    roles = Roles(None, np.zeros(len(frame)), plan.weight, plan.offset)
    return read(frame, roles, plan.formula, plan.missing)


def _sort(values: Any) -> list:
    plain = [v.item() if isinstance(v, np.generic) else v for v in values]
    return sorted(plain, key=lambda v: (isinstance(v, str), v))
