"""What a site offers before anything is added up: names of columns, their levels, the classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from .._errors import DataError
from ..formula import MOST_LEVELS, Formula, NoColumn, kinds_of, levels_of, sorted_levels
from ._outcome import words_of
from ._values import complete
from .families import CLASSED, SHARES
from .plan import RegressionPlan
from .protocol import ColumnsOffer, Misfit, Offered, counts
from .table import Roles, as_frame, choose, formula_for


def used(plan: RegressionPlan, names: Sequence[str]) -> tuple[str, ...]:
    """The columns that enter; a missing one is named."""
    return entering(plan, _formula(plan, names), names)


def entering(plan: RegressionPlan, formula: Formula, names: Sequence[str]) -> tuple[str, ...]:
    apart = (plan.weight, plan.offset, plan.cluster, *plan.complete)
    wanted = {*formula.left_columns, *formula.right_columns, *apart}
    return tuple(name for name in names if name in wanted)


def _formula(plan: RegressionPlan, names: Sequence[str]) -> Formula:
    apart = (plan.weight, plan.offset, plan.cluster, *plan.complete)
    lacking = [c for c in (*apart, *plan.levels) if c and c not in names]
    if lacking:
        raise Misfit(f"there is no column {lacking[0]!r}")
    try:
        return formula_for(str(plan.formula), roles(plan, 0), list(names))
    except NoColumn as error:
        raise Misfit(f"there is no column {error.column!r}, which the formula names") from error


def roles(plan: RegressionPlan, n: int) -> Roles:
    return Roles(None, np.zeros(n), plan.weight, plan.offset, plan.cluster)


def offer(table: pd.DataFrame, plan: RegressionPlan) -> Offered:
    """Kinds and levels over the complete rows. No column of the design is made: the reference of a
    category may be at another site."""
    frame = as_frame(table, need_names=True)
    formula = _formula(plan, list(frame.columns))
    frame = frame[complete(frame, plan.complete)].reset_index(drop=True)
    chosen = choose(frame, roles(plan, len(frame)), formula, plan.missing)
    kinds = kinds_of(chosen.frame, chosen.used, {*formula.categories, *plan.levels})
    levels = {c: list(kind.levels) for c, kind in kinds.items() if kind.levels}
    for column, found in levels.items():
        _check_count(f"the site's column {column!r}", found)
    numbers = [c for c, kind in kinds.items() if kind.number]
    classes = _classes_of(chosen.y, plan, formula.response)
    return Offered(
        ColumnsOffer(levels, numbers, classes, list(kinds)),
        classes={} if classes is None else counts(chosen.y),
        levels={c: counts(chosen.frame[c]) for c in levels},
    )


def _check_count(what: str, found: Sequence[Any]) -> None:
    """The values of a measurement are no names, so they do not leave as such."""
    if len(found) > MOST_LEVELS:
        raise Misfit(
            f"{what} has more than {MOST_LEVELS:,} different values, which are too many for a "
            "category"
        )


def _classes_of(y: pd.Series, plan: RegressionPlan, name: str) -> list | None:
    """The classes of an outcome, or its two words: as declared where they are, so that which of
    them occur here stays at the site."""
    worded = plan.family in SHARES
    found = levels_of(y) if plan.family in CLASSED else words_of(y, plan.event) if worded else None
    if found is None:
        return None
    declared = plan.levels.get(name) if worded else plan.classes
    if declared is not None:
        if other := sorted_levels(set(found) - set(declared)):
            own = DataError(
                f"the outcome {name!r} has the class {other[0]!r}, which the plan does not list"
            )
            told = f"the site's outcome {name!r} has a class that the plan does not list"
            raise Misfit(told) from own
        return list(declared)
    if worded and len(found) > 2:
        shown = f"{', '.join(map(repr, found[:5]))}{', ...' * (len(found) > 5)}"
        own = DataError(
            f"the outcome {name!r} has {len(found)} values, {shown}, but family {plan.family} "
            "needs exactly two"
        )
        raise Misfit(
            f"the site's outcome {name!r} has more than two values, but family {plan.family} "
            "needs exactly two"
        ) from own
    _check_count(f"the site's outcome {name!r}", found)
    return found
