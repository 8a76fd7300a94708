"""What columns are called to people, by the codebook where there is one, and for how much more of
them an effect is shown: their standard deviation, rounded, or one unit."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from ...formula import Part
from .._result import Coefficient, TableResult

NEAR_ONE = (0.2, 2.5)  # standard deviations for which one unit serves well
CONTRASTS = {"sum": "against the mean of the levels", "helmert": "Helmert contrast"}
STEPS = (1.0, 2.0, 5.0, 10.0)


class Unit(NamedTuple):
    label: str  # in a table
    change: str  # at the beginning of a sentence
    size: float


def unit_of(fit: TableResult, c: Coefficient, scaled: bool = True) -> Unit:
    """`scaled`: for a round number of units, where one unit is a small change."""
    parts, told = _parts(fit, c), coefficient_name(fit, c)
    if len(parts) > 1:
        return Unit(told, f"One more unit of the product {_product(fit, parts)}", 1.0)
    if parts and parts[0].level is not None:
        return Unit(told, _clause(_part(fit, parts[0]), _against(fit, parts[0])), 1.0)
    column = c.column.strip("`")
    size, unit = _step(fit, c.column), str(_entry(fit, column).get("unit", ""))
    size, name = size if scaled else 1.0, name_of(fit, column)
    if not unit and _is_zero_one(fit, c.column):
        return Unit(f"{told} = 1 (against 0)", f"{name} = 1, against 0,", 1.0)
    if size == 1.0 and not unit:
        return Unit(told, f"One more unit of {name}", 1.0)
    amount = f"{size:g} {unit}".strip()
    return Unit(f"{told}, per {amount}", f"An increase of {name} by {amount}", size)


def coefficient_name(fit: TableResult, c: Coefficient) -> str:
    """For people: `sex = m (against f)` in place of `C(sex)[T.m]`."""
    parts, own = _parts(fit, c), "" if c.label_of_class is None else f"{c.label_of_class}: "
    if len(parts) > 1:
        return own + _product(fit, parts)
    if parts and parts[0].level is not None:
        against = _against(fit, parts[0])
        return f"{own}{_part(fit, parts[0])}{f' ({against})' if against else ''}"
    return own + name_of(fit, c.column.strip("`"))


def name_of(fit: TableResult, column: str) -> str:
    return str(_entry(fit, column).get("label") or column)


def level_name(fit: TableResult, column: str | None, level: str) -> str:
    labels: Any = _entry(fit, str(column)).get("labels") or {}
    return str(labels.get(level, level))


def _parts(fit: TableResult, c: Coefficient) -> tuple[Part, ...]:
    made = fit.made_of(c.column)
    return () if made is None else tuple(made.parts)


def _product(fit: TableResult, parts: Sequence[Part]) -> str:
    marked = lambda part: f" ({CONTRASTS[part.coding]})" if part.coding in CONTRASTS else ""
    return " × ".join(f"{_part(fit, part)}{marked(part)}" for part in parts)


def _part(fit: TableResult, part: Part) -> str:
    if part.level is None or part.column is None:
        return name_of(fit, part.name.strip("`"))
    return f"{name_of(fit, part.column)} = {level_name(fit, part.column, part.level)}"


def _against(fit: TableResult, part: Part) -> str:
    if part.coding in CONTRASTS:
        return CONTRASTS[part.coding]
    if part.reference is None:
        return ""
    return f"against {level_name(fit, part.column, part.reference)}"


def _clause(told: str, against: str) -> str:
    return f"{told}, {against}," if against else told


def _is_zero_one(fit: TableResult, column: str) -> bool:
    known = {} if fit.spread is None else fit.spread.to_dict()
    return math.isnan(known.get(column, 0.0))


def _step(fit: TableResult, column: str) -> float:
    """1 where a unit is about as large as a standard deviation, or the column is 0 and 1 alone."""
    spread = math.nan
    if fit.spread is not None and column in fit.spread.index:
        spread = float(fit.spread.to_dict()[column])
    plain = fit.formula is None or column.strip("`") in fit.used
    if not plain or not 0 < spread < math.inf:
        return 1.0
    if NEAR_ONE[0] <= spread <= NEAR_ONE[1]:
        return 1.0
    size = 10.0 ** math.floor(math.log10(spread))
    return min((size * k for k in STEPS), key=lambda step: abs(math.log(step / spread)))


def _entry(fit: TableResult, column: str) -> dict[str, Any]:
    columns: Any = fit.codebook.get("columns", {})
    return columns.get(column, {})
