"""What coefficients are compared with, in words: reference levels, contrasts, sites, offsets."""

from ..formula import INTERCEPT, read_formula
from ._inference import is_constant
from ._result import TableResult

CONTRASTS = {
    "sum": "each coefficient compares a level with the mean of all levels (sum contrasts)",
    "helmert": (
        "each coefficient compares a level with the mean of the levels before it (Helmert "
        "contrasts, scaled as in R)"
    ),
    "poly": "the coefficients are the parts of a trend over the levels (polynomial contrasts)",
}


def contrast_notes(result: TableResult) -> list[str]:
    """What the coefficients of categories without a reference compare."""
    design = None if result.predictor is None else result.predictor.design
    parts = [part for column in design.columns for part in column.parts] if design else []
    told = [f"{p.column or p.text}: {CONTRASTS[p.coding]}" for p in parts if p.coding in CONTRASTS]
    return [*dict.fromkeys(told), *_without_intercept(result)]


def _without_intercept(result: TableResult) -> list[str]:
    """Of levels, and of sites, that stand in for an intercept."""
    names = [c.column for c in result.coefficients]
    if INTERCEPT in names:
        return []
    found = [name for name in names if name not in result.thresholds and is_constant(result, name)]
    made = {name: result.made_of(name) for name in found}
    whose = [("site", "site") if m is None else (m.term, "level") for m in made.values()]
    none = "" if result.ratio is None else f", and has no {result.ratio}"
    return [
        f"{name}: the model has no intercept, so each {what} has a coefficient of its own. This "
        f"coefficient does not compare {what}s{none}"
        for name, what in dict.fromkeys(whose)
    ]


def site_of_reference(result: TableResult) -> str | None:
    """With which all effects of sites are compared."""
    names = [c.column for c in result.coefficients]
    effects = [name for name in names if result.is_of_site(name)]
    return str(result.sites[0]) if effects and INTERCEPT in names else None


def offset_note(result: TableResult, beside: bool = False) -> str:
    """That the linear predictor has a part without a coefficient, or nothing; with `beside`, only
    where the formula does not say so."""
    own = () if result.formula is None else read_formula(result.formula).offsets
    if own:
        return "" if beside else f"The model has the offset {' + '.join(own)}."
    sums = result.row_sums or ()
    return "The model has an offset." if len(sums) == 4 and sums[-1] > 0 else ""
