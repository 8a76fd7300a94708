"""A plan over a codebook: which columns it takes in which role, and their levels."""

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

from .._errors import SpecError
from ..data.codebook import Codebook
from .plan import RegressionPlan
from .protocol import Misfit
from .registry import ANALYSES


class PlanColumns(NamedTuple):
    """The columns of a table that a plan takes."""

    outcome: tuple[str, ...]
    predictors: tuple[str, ...]

    @property
    def all(self) -> tuple[str, ...]:
        return (*self.outcome, *self.predictors)


def columns_of(plan: RegressionPlan, names: Sequence[str]) -> PlanColumns:
    """Without weight and offset, which the plan names itself."""
    entering = ANALYSES[plan.analysis].columns
    left = str(plan.formula).partition("~")[0]
    bare = dataclasses.replace(plan, weight=None, offset=None, levels={})
    outcome = entering(dataclasses.replace(bare, formula=f"{left} ~ 1"), names)
    both = entering(bare, names)
    return PlanColumns(outcome, tuple(name for name in both if name not in outcome))


def with_codebook(plan: RegressionPlan, book: Codebook) -> RegressionPlan:
    """The plan with the codebook's part on its columns: their levels come from there."""
    try:
        found = columns_of(plan, list(book.columns))
    except Misfit as error:
        raise SpecError(f"the codebook does not fit the formula: {error}") from None
    roles = {"outcome": found.outcome, "predictor": found.predictors,
             "weight": (plan.weight,), "offset": (plan.offset,)}  # fmt: skip
    used: dict[str, Any] = {}
    for role, names in roles.items():
        for name in filter(None, names):
            book.check_role(name, role)
            used[name] = book.columns[name]
    levels = book.levels(found.predictors) | plan.levels
    classes = plan.classes
    if plan.family == "multinomial" and classes is None:
        classes = next(iter(book.levels(found.outcome).values()), None)
    part = Codebook(used).to_dict()
    return dataclasses.replace(plan, levels=levels, classes=classes, codebook=part)
