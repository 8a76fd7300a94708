"""What an agreement leaves out once the first sums are known: empty levels, cells without rows."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .._errors import DataError
from .._text import listed
from ..formula import CategoryVariable, label
from ._schema import cells, design, learned
from ._sums import Moments
from .plan import ModelSettings
from .protocol import Agreement

NO_ROW = 1e-12  # of the weight of all rows: what rounding makes of nothing


def without(cohort: Agreement, error: DataError) -> Agreement | None:
    """As R does: without a cell that no row is in, or that other columns determine. A category
    that another one determines is a mistake, and stays refused."""
    name = str(error.column)
    if name not in cohort.cells or not (cohort.cells[name] or error.value == 0):
        return None
    names = [other for other in cohort.names if other != name]
    return cohort._replace(names=names, left_out=[*cohort.left_out, name])


def without_empty(
    settings: ModelSettings, cohort: Agreement, names: Sequence[str], sums: Moments
) -> Agreement | None:
    """As R does: without the levels that no row of any site has, so that the next one is the
    reference; None where all have some. `names` are those of the sums. Of a category that is in
    interactions alone nothing is known here, and of levels that a formula writes down."""
    made, by_name = design(settings, cohort), dict(zip(names, sums.x, strict=True))
    empty: dict[str, list[Any]] = {}
    for block in () if made is None else made.blocks:
        (variable, *more), contrast = block.variables, block.contrasts[0]
        if more or not isinstance(variable, CategoryVariable):
            continue
        own, total = [by_name.get(p.name) for p in variable.parts(contrast)], float(sums.weight)
        if None in own or tuple(cohort.levels.get(variable.column, ())) != variable.levels:
            continue
        weights = variable.weights(np.array(own, float), total, contrast)
        if gone := [v for v, s in zip(variable.levels, weights, strict=True) if s < NO_ROW * total]:
            empty[variable.column] = gone
    return _dropped(settings, cohort, empty) if empty else None


def _dropped(
    settings: ModelSettings, cohort: Agreement, empty: Mapping[str, Sequence[Any]]
) -> Agreement:
    left = {
        c: [v for v in found if v not in empty.get(c, ())] for c, found in cohort.levels.items()
    }
    cohort = cohort._replace(levels=left, empty={**cohort.empty, **empty})
    try:
        made = learned(settings, cohort)
    except DataError as error:
        if error.column is None or error.column not in empty:
            raise
        gone = listed(label(level) for level in empty[error.column])
        these = "this level" if len(empty[error.column]) == 1 else "these levels"
        which = "the value" if len(empty[error.column]) == 1 else "the values"
        told = (
            f"no row of any site has {which} {gone} of the column {error.column!r}. Without "
            f"{these}, feddcd cannot use the column: {error}"
        )
        raise DataError(told, column=error.column) from None
    names = [name for name in made.names if name not in cohort.left_out]
    return cohort._replace(names=names, cells=cells(made))
