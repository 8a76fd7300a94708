"""What sites agree on before they add anything up: kinds of columns, their levels, the classes."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from .._errors import DataError
from ..formula import (
    INTERCEPT,
    ColumnKind,
    Formula,
    FormulaDesign,
    is_numeric,
    learn,
    levels_of,
    read_formula,
    sorted_levels,
)
from ._model import finished_columns, model_for
from ._offer import entering, roles
from ._outcome import Outcome, outcome_of
from ._sums import DesignRows
from ._targets import class_order, code, targets
from ._values import check_spelling, codes_within, complete, label
from .families import CLASSED, SHARES
from .plan import ModelSettings, RegressionPlan
from .protocol import Agreement, ColumnsOffer, Misfit, SiteRows, counts
from .table import CompleteRows, Design, as_frame, choose, finish


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
    for column, found in {**levels, "the outcome": words}.items():
        check_spelling(column, found)
    classes = class_order(plan, words) if plan.family in CLASSED else None
    outcome = _outcome(plan, words) if plan.family in SHARES and most.words else None
    cohort = Agreement(levels, classes, [], list(fitting), sorted(most.numbers), outcome, most.all)
    made = learned(plan, cohort)
    return cohort._replace(names=made.names, cells=cells(made)), refused


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
            return f"this site has no column {column!r}, but most sites have this column"
        if column not in plan.levels and (column in offer.numbers) != (column in most.numbers):
            own, others = ("numbers", "categories")[:: 1 if column in offer.numbers else -1]
            return (
                f"the site's column {column!r} contains {own}, but most sites have {others} in "
                "this column"
            )
    for column, declared in plan.levels.items():
        if not set(offer.levels.get(column, ())) <= set(declared):
            return f"the site's column {column!r} has a level that the plan does not list"
    if plan.family in SHARES and (offer.classes is None) == most.words:
        own, others = ("words", "numbers")[:: 1 if offer.classes is not None else -1]
        return f"the site's outcome contains {own}, but most sites have {others} in this column"
    if plan.classes is not None and not set(offer.classes or ()) <= set(plan.classes):
        return "the site's outcome has a class that the plan does not list"
    return ""


def cells(made: Design) -> dict[str, bool]:
    """The columns of categories: True for those of interactions."""
    of = lambda c: any(part.column is not None for part in c.parts)
    return {c.name: len(c.parts) > 1 for c in made.columns if of(c)}


def design(settings: ModelSettings, cohort: Agreement) -> FormulaDesign | None:
    """How rows become columns, where the cohort knows what columns there are."""
    if settings.formula is None or cohort.numbers is None:
        return None
    return learned(settings, cohort)


def learned(settings: ModelSettings, cohort: Agreement) -> FormulaDesign:
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
    kept_rows = np.flatnonzero(complete(frame, plan.complete))
    before, frame = len(frame), frame.iloc[kept_rows].reset_index(drop=True)
    own = roles(plan, len(frame))
    chosen = choose(frame, own, formula, plan.missing)
    for column, levels in cohort.levels.items():
        if not set(levels_of(chosen.frame[column])) <= set(levels):  # pyright: ignore
            raise Misfit(
                f"the site's column {column!r} has a level that is not among the levels that the "
                "sites agreed on"
            )
    rows = finish(chosen, own, _kinds(cohort))
    kept = [i for i, name in enumerate(rows.names) if name not in cohort.left_out]
    if [rows.names[i] for i in kept] != list(cohort.names):
        raise Misfit(
            "the columns that the formula makes at this site differ from those at the other sites"
        )
    Y = code(plan.family, rows, cohort)
    s = np.ones(len(Y)) if rows.weight is None else rows.weight
    place = np.full(len(Y), cohort.sites.index(site))
    X = finished_columns(rows.X[:, kept], plan, cohort, place)
    if cohort.classes is not None:
        plan = dataclasses.replace(plan, classes=list(cohort.classes))
    return SiteRows(
        plan,
        DesignRows(X, Y, s, rows.offset),
        n=len(s),
        dropped=rows.dropped + before - len(frame),
        columns=entering(plan, formula, list(frame.columns)),
        classes=counts(rows.y) if plan.family in (*SHARES, *CLASSED) else {},
        levels={c: counts(chosen.frame[c]) for c in cohort.levels},
        cluster=rows.cluster,
        names=model_for(plan, cohort).names,
        places=kept_rows[chosen.rows],
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
        raise DataError(
            "'groups' contains both numbers and words; use only numbers, or only words, as names "
            "of sites"
        ) from None
    if not is_numeric(rows.y):
        check_spelling(label(rows.y), rows.y.dropna().unique(), values=rows.y)
    Y, classes, outcome = targets(settings, rows)
    s = np.ones(len(place)) if rows.weight is None else rows.weight
    sites = tuple(str(label) for label in labels)
    classes = None if classes is None else tuple(classes)
    cohort = Agreement({}, classes, rows.names, sites, outcome=outcome, cells=cells(rows.design))
    cohort = cohort._replace(empty=rows.empty)
    X = finished_columns(rows.X, settings, cohort, place)
    if classes is not None:
        settings = dataclasses.replace(settings, classes=list(classes))
    whole, own = DesignRows(X, Y, s, rows.offset), {}
    for i, site in enumerate(sites):
        part = np.flatnonzero(place == i)
        data = DesignRows(*(x[part] for x in whole))
        own[site] = SiteRows(settings, data, n=len(part), cluster=codes_within(rows.cluster, part))
    return Prepared(cohort, own, labels)


def narrowed(prepared: Prepared, cohort: Agreement) -> Prepared:
    """Without what the new agreement leaves out."""
    bare = any(rows.plan.loss().bare for rows in prepared.sites.values())
    names = [name for name in prepared.cohort.names if name != INTERCEPT or not bare]
    gone = [names.index(name) for name in names if name in cohort.left_out]
    sites = {
        site: rows._replace(data=rows.data._replace(X=np.delete(rows.data.X, gone, 1)))
        for site, rows in prepared.sites.items()
    }
    return Prepared(cohort, sites, prepared.labels)
