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
    f"{', '.join(ROW_WISE)}, I(...) with arithmetic and comparisons, C(x) or factor(x), "
    "cut(x, c(...)), bs, ns and rcs with given knots, poly(x, 2, raw=TRUE), offset(...) "
    "and, on the left, cbind(a, b)"
)
CUT_POINT = "write the cut point as a number, for example I(x > 50)"
BEFORE = "make this column in the data file before you use the formula"
AGREED = "write a number that all sites agree on, for example I(x - 50)"
SCALED = "write I((x - 50) / 10) with numbers that all sites agree on, or set <standardize>"
CLASSES = "write cut(x, c(0, 50, 100)) to make classes with given cut points"
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
    "write ns(x, knots=c(30, 50), Boundary.knots=c(20, 80)), with knots that all sites agree on"
)
COMPARED = "write a comparison, as in I((x > 5) * x)"
NUMERIC = "leave out this function, because a column of numbers already is numeric"
HABITS = {  # what to do instead
    "relevel": "write C(x, ref='a')",
    "reorder": "write C(x, levels=c('a', 'b'))",
    "ordered": "write C(x, Poly)",
    "as.ordered": "write C(x, Poly)",
    "as.character": "write C(x)",
    "as.numeric": NUMERIC,
    "as.integer": NUMERIC,
    "as.logical": "write I(x == 1)",
    "Q": "write the name in backticks, as in `my column`",
    "s": SPLINE, "te": SPLINE, "ti": SPLINE, "lo": SPLINE, "cr": SPLINE, "cc": SPLINE,
    "rcspline.eval": "write rcs(x, c(20, 50, 80))",
    "ifelse": COMPARED, "where": COMPARED, "case_when": COMPARED,
    "interaction": "write a:b",
    "log_2": "write log2(x)", "ln": "write log(x)",
    "pow": "write I(x^2)", "power": "write I(x^2)",
    "square": "write I(x^2)", "hour": BEFORE,
    "strata": "<site_effects> gives each site its own intercept",
    "cluster": "<covariance> uses the sites as clusters",
    "Surv": "feddcd has no survival analysis",
    "weights": "give the weights outside of the formula",
}  # fmt: skip


SETTINGS = {"standardize": True, "site_effects": "fixed", "covariance": "cluster"}


def named_settings(told: str) -> dict[str, Any]:
    """Of a message: those that it names."""
    return {name: value for name, value in SETTINGS.items() if f"<{name}>" in told}


def remedy(function: str, called: str) -> str | None:
    """What to write in place of a function that is not known; None for one that is."""
    if function in KNOWN:
        return None
    last = function.rsplit(".", 1)[-1]
    for name in (function, last):
        if name in WHOLE_ROWS:
            why = f"{called} needs all rows at once, but a site has only its own rows"
            return f"{why}; {WHOLE_ROWS[name]}"
        if name in HABITS:
            return f"{called} is not known in a formula; {HABITS[name]}"
    if last in KNOWN:
        return f"{called} is not known in a formula; write {last}(...)"
    return f"{called} is not known in a formula; known are {LIST}"
