"""Functions that people know from R, patsy or Python, and how the same is written here."""

from typing import Any

ROW_WISE = ("abs", "exp", "log", "log10", "log1p", "log2", "sqrt")
CATEGORIES = ("C", "factor", "as.factor")
BASES = ("bs", "ns", "rcs", "poly")
CONTRASTS = {
    "Treatment": "treatment", "contr.treatment": "treatment", "Sum": "sum", "contr.sum": "sum",
    "Helmert": "helmert", "contr.helmert": "helmert", "Poly": "poly", "contr.poly": "poly",
}  # fmt: skip
KNOWN = (
    *ROW_WISE, *CATEGORIES, *BASES, *CONTRASTS, "I", "c", "cut", "offset", "cbind",
)  # fmt: skip
LIST = (
    f"{', '.join(ROW_WISE)} and offset; I(...) with arithmetic and comparisons; C(x) or factor(x) "
    "for categories; cut(x, c(...)) for classes; bs, ns and rcs with given knots; "
    "poly(x, 2, raw=TRUE); and cbind(a, b) on the left side"
)
CUT_POINT = "Write the cut point as a number, for example I(x > 50)"
BEFORE = "Compute this column, save it in the data file, and write its name in the formula"
AGREED = "Write a number that all sites agree on, for example I(x - 50)"
SCALED = (
    "Write I((x - 50) / 10) with numbers that all sites agree on, or write only the name of the "
    "column and set <standardize>"
)
CLASSES = "Write cut(x, c(0, 50, 100)) to make classes with given cut points"
WHOLE_ROWS = {  # functions that need all rows at once
    "center": AGREED, "scale": SCALED, "standardize": SCALED,
    "mean": AGREED, "median": CUT_POINT, "sd": AGREED, "std": AGREED,
    "var": AGREED, "min": AGREED, "max": AGREED, "sum": AGREED, "range": AGREED,
    "rank": CLASSES, "order": CLASSES, "rankdata": CLASSES, "ntile": CLASSES, "qcut": CLASSES,
    "quantile": CUT_POINT,
    "percentile": CUT_POINT, "ave": AGREED, "cumsum": AGREED,
    "lag": BEFORE, "diff": BEFORE,
}  # fmt: skip
SPLINE = (
    "Write ns(x, knots=c(30, 50), Boundary.knots=c(20, 80)), with knots that all sites agree on"
)
COMPARED = "Write a comparison, as in I((x > 5) * x)"
NUMERIC = "Write only the name of the column: feddcd needs no function to use its values as numbers"
HABITS = {  # what to do instead
    "relevel": "Write C(x, ref='a')",
    "reorder": "Write C(x, levels=c('a', 'b'))",
    "ordered": "Write C(x, Poly)",
    "as.ordered": "Write C(x, Poly)",
    "as.character": "Write C(x)",
    "as.numeric": NUMERIC,
    "as.integer": NUMERIC,
    "as.logical": "Write I(x == 1)",
    "Q": "Write the name in backticks, as in `my column`",
    "s": SPLINE, "te": SPLINE, "ti": SPLINE, "lo": SPLINE, "cr": SPLINE, "cc": SPLINE,
    "rcspline.eval": "Write rcs(x, c(20, 50, 80))",
    "ifelse": COMPARED, "where": COMPARED, "case_when": COMPARED,
    "interaction": "Write a:b",
    "log_2": "Write log2(x)", "ln": "Write log(x)",
    "pow": "Write I(x^2)", "power": "Write I(x^2)",
    "square": "Write I(x^2)", "hour": BEFORE,
    "strata": "With <site_effects>, each site has its own intercept",
    "cluster": "For standard errors by cluster, set <covariance>",
    "Surv": "feddcd has no survival analysis",
    "weights": "Leave the weights out of the formula, and set <sample_weight>",
}  # fmt: skip


SETTINGS = {
    "standardize": True, "site_effects": "fixed", "covariance": "cluster", "sample_weight": None,
}  # fmt: skip


def named_settings(told: str) -> dict[str, Any]:
    """Of a message: those that it names."""
    return {name: value for name, value in SETTINGS.items() if f"<{name}>" in told}


def remedy(function: str, called: str) -> tuple[str, str] | None:
    """What is wrong with a function that is not known, and what to write in its place; None for
    one that is."""
    if function in KNOWN:
        return None
    last, unknown = function.rsplit(".", 1)[-1], f"{called} is not known in a formula"
    for name in (function, last):
        if name in WHOLE_ROWS:
            why = f"{called} needs all rows at once, but a site has only its own rows"
            return why, WHOLE_ROWS[name]
        if name in HABITS:
            return unknown, HABITS[name]
    if last in KNOWN:
        return unknown, f"Write {last}(...)"
    column = "" if set(called) & set("'\"`") or called.endswith("(...)") else called
    hint = f"If `{column}` is a column, write it in backticks. " if column else ""
    return unknown, f"{hint}The functions of a formula are {LIST}"
