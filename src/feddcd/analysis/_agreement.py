"""An agreement as a site gets it: what follows from the rest is worked out, not believed."""

import dataclasses
from typing import Any

import numpy as np

from .._errors import DataError
from ._model import finished_columns
from ._schema import cells, learned
from ._sums import DesignRows
from .families import CLASSED
from .plan import ModelSettings, RegressionPlan
from .protocol import AGREED, Agreement, SiteRows


def read_agreement(values: Any, plan: RegressionPlan) -> Agreement:
    """From a message: names of columns follow from the rest, and are not believed."""
    lists = ("names", "sites", "columns", "left_out")
    optional = ("classes", "numbers", "outcome")
    if not isinstance(values, dict) or set(values) != {"levels", *lists, *optional}:
        raise DataError(f"{AGREED} has missing or unknown parts")
    plain = [values[name] for name in lists]
    plain += [values[name] for name in optional if values[name] is not None]
    if not isinstance(values["levels"], dict):
        raise DataError(f"{AGREED} does not have one list of levels for each column")
    for part in (*plain, *values["levels"].values()):
        if not isinstance(part, list) or not all(isinstance(v, str | int | float) for v in part):
            raise DataError(f"{AGREED} has parts that are not lists of names")
    if not all(isinstance(v, str) for name in lists for v in values[name]):
        raise DataError(f"{AGREED} contains names that are not text")
    if values["outcome"] is not None and len(values["outcome"]) != 2:
        raise DataError(f"in {AGREED}, the outcome must have exactly two levels")
    cohort = Agreement(**values)
    made = learned(plan, cohort)
    names = [name for name in made.names if name not in cohort.left_out]
    if names != cohort.names or len(set(cohort.sites)) < len(cohort.sites):
        raise DataError(f"{AGREED} does not have the same columns as the plan")
    return cohort._replace(cells=cells(made))


def stand_in(plan: ModelSettings, cohort: Agreement) -> SiteRows:
    """A row of nobody: what is answered of it has the shape of every answer."""
    if cohort.classes is not None:
        plan = dataclasses.replace(plan, classes=list(cohort.classes))
    k = len(cohort.classes or ()) - 1 if plan.family == "multinomial" else 1
    X = finished_columns(np.zeros((1, len(cohort.names))), plan, cohort, np.zeros(1, int))
    Y = np.zeros((1, k)) if plan.family in CLASSED else np.ones((1, k))
    return SiteRows(plan, DesignRows(X, Y, np.ones(1), np.zeros(1)), n=1, alone=False)
