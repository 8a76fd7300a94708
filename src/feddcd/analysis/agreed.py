"""A plan over a codebook: which columns it takes in which role, and their levels."""

import dataclasses

from .._errors import SpecError
from ..data.codebook import Codebook
from ..formula import NoColumn
from .plan import RegressionPlan
from .table import Roles, formula_for


def with_codebook(plan: RegressionPlan, book: Codebook) -> RegressionPlan:
    """The plan with the codebook's part on its columns: their levels come from there."""
    named = [name for name, entry in book.columns.items() if entry.type != "identifier"]
    roles = Roles(None, None, plan.weight, plan.offset, plan.cluster)
    try:
        formula = formula_for(str(plan.formula), roles, named)
    except NoColumn as error:
        book.check_role(str(error.column), "predictor")  # which says more of it
        raise SpecError(str(error), column=error.column) from None
    used = dict.fromkeys(formula.right_columns, "predictor")
    used |= dict.fromkeys(formula.left_columns, "outcome")
    used |= {
        name: what for name, what in ((plan.weight, "weight"), (plan.offset, "offset")) if name
    }
    for name, role in used.items():
        book.check_role(name, role)
    levels = book.levels(used)
    if plan.cluster is not None:
        book.check_role(plan.cluster, "group")
        used[plan.cluster] = "group"
    classes = plan.classes
    if plan.family == "multinomial" and classes is None:
        classes = levels.pop(str(formula.outcome), None)
    for name in plan.complete:
        if name not in book.columns:
            raise SpecError(
                f"the plan lists the column {name!r} under 'complete', but the codebook "
                "has no such column",
                column=name,
            )
        used.setdefault(name, "complete")
    part = Codebook({name: book.columns[name] for name in used}).to_dict()
    return dataclasses.replace(plan, levels=levels | plan.levels, classes=classes, codebook=part)
