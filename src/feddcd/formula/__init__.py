"""The language of formulas: `y ~ a + C(b) + a:b + offset(log(t))`, parsed and evaluated here.

A formula is data, never code: it has a closed list of functions, each row's value depends on that
row alone, and what it makes of a table follows from the kinds of its columns, not from its rows.
So the plan, every site and `predict` make the same columns.
"""

from ._categories import MOST_LEVELS
from ._constants import WrittenNumber, written_numbers
from ._rows import ColumnKind, is_numeric, label
from ._variables import CategoryVariable, Part
from .design import (
    DesignColumn,
    FormulaDesign,
    NoColumn,
    check_there,
    empty_levels,
    kinds_of,
    learn,
    levels_of,
    plain,
    sorted_levels,
)
from .language import INTERCEPT, Formula, read_formula

__all__ = [
    "INTERCEPT", "MOST_LEVELS", "CategoryVariable", "ColumnKind", "DesignColumn", "Formula",
    "FormulaDesign", "NoColumn", "Part", "WrittenNumber", "check_there", "empty_levels",
    "is_numeric", "kinds_of", "label", "learn", "levels_of", "plain", "read_formula",
    "sorted_levels", "written_numbers",
]  # fmt: skip
