"""Functions that people know from R, patsy or Python, and how the same is written here."""

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
WHOLE = "needs all rows at once, but a site has only its own rows"
CUT_POINT = "write the cut point as a number, for example I(x > 50)"
BEFORE = "make this column in the data file before"
AGREED = "write a number that all sites agree on, for example I(x - 50)"
WHOLE_ROWS = {
    "center": AGREED,
    "scale": (
        "write I((x - 50) / 10) with numbers that all sites agree on, or set "
        "standardize=True"
    ),
    "standardize": (
        "write I((x - 50) / 10) with numbers that all sites agree on, or set "
        "standardize=True"
    ),
    "mean": AGREED, "median": CUT_POINT, "sd": AGREED, "std": AGREED,
    "var": AGREED, "min": AGREED, "max": AGREED, "sum": AGREED, "range": AGREED,
    "rank": "cut(x, c(0, 50, 100)) makes classes", "order": "cut(x, c(0, 50, 100)) makes classes",
    "rankdata": "cut(x, c(0, 50, 100)) makes classes", "ntile": "cut(x, c(0, 50, 100)) does it",
    "qcut": "cut(x, c(0, 50, 100)) with given cut points does it",
    "quantile": CUT_POINT,
    "percentile": CUT_POINT, "ave": AGREED, "cumsum": AGREED,
    "lag": BEFORE, "diff": BEFORE,
}  # fmt: skip
SPLINE = (
    "write ns(x, knots=c(30, 50), Boundary.knots=c(20, 80)), with knots that all sites agree on"
)
HABITS = {
    "relevel": "is written C(x, ref='a') here",
    "reorder": "is written C(x, levels=c('a', 'b')) here",
    "ordered": "is written C(x, Poly) here",
    "as.ordered": "is written C(x, Poly) here",
    "as.character": "is written C(x) here",
    "as.numeric": "is not needed: a column of numbers already is numeric",
    "as.integer": "is not needed: a column of numbers already is numeric",
    "as.logical": "is written I(x == 1) here",
    "Q": "is written in backticks here, as in `my column`",
    "s": f"is estimated from all rows: {SPLINE}", "te": f"is not known: {SPLINE}",
    "ti": f"is not known: {SPLINE}", "lo": f"is estimated from all rows: {SPLINE}",
    "cr": f"is not known: {SPLINE}", "cc": f"is not known: {SPLINE}",
    "rcspline.eval": "is written rcs(x, c(20, 50, 80)) here",
    "ifelse": "is written with comparisons, as in I((x > 5) * x)",
    "where": "is written with comparisons, as in I((x > 5) * x)",
    "case_when": "is written with comparisons, as in I((x > 5) * x)",
    "interaction": "is written a:b here",
    "log_2": "is written log2(x) here", "ln": "is written log(x) here",
    "pow": "is written I(x^2) here", "power": "is written I(x^2) here",
    "square": "is written I(x^2) here", "hour": f"is not known: {BEFORE}",
    "strata": "is not known; site_effects='fixed' gives each site its own intercept",
    "cluster": "is not known; covariance='cluster' takes the sites as clusters",
    "Surv": "is not known: there is no survival analysis here",
    "weights": "is not known: give the weights outside the formula",
}  # fmt: skip


def remedy(function: str) -> str | None:
    """What to write in place of a function that is not known; None for one that is."""
    if function in KNOWN:
        return None
    last = function.rsplit(".", 1)[-1]
    for name in (function, last):
        if name in WHOLE_ROWS:
            return f"{WHOLE}; {WHOLE_ROWS[name]}"
        if name in HABITS:
            return HABITS[name]
    if last in KNOWN:
        return f"is written {last}(...) here"
    return f"is not known here; a formula knows {LIST}"
