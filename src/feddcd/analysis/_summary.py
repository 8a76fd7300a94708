"""The table as text, with the digits that are proven."""

import math
import numbers
from collections.abc import Iterable
from itertools import compress
from typing import Any, NamedTuple

from .._text import plural, printable, upper
from ..data.capping import notes as cap_notes
from . import _digits as digits
from . import _layout as layout
from . import _more
from ._baseline import contrast_notes, offset_note, site_of_reference
from ._cost import counted
from ._digits import Range, about, significant
from ._offsets import unusual_offset
from ._places import proven_ratios
from ._printed import lacking
from ._result import TableResult
from ._robust import named, notes
from ._variation import over_dispersion, uncertain_theta
from ._whole import uncounted
from .families import CHOICES
from .protocol import APART

FEDERATED = "Federated generalised linear model"
FORMULA, MOST_APART = "Formula: ", 20
NA_ORDINAL = "NA: feddcd computes no null deviance and no Pearson's X² for family ordinal."


def summary(result: TableResult, limit: int | None = None) -> str:
    """For a terminal with lines of `limit` letters, or as files have it."""
    wide = layout.width(limit)
    line, flow = "=" * wide, lambda lines: layout.wrapped(map(printable, lines), limit)
    asked = [f"{FORMULA}{result.formula}"] if result.formula else []
    head = [*flow(asked), *layout.pairs(_entered(result), _fit(result), limit)]
    title = ("Generalised linear model" if of_one_table(result) else FEDERATED).center(wide)
    parts = [title, line, *head, *flow(_linear(result)), line, *_table(result, limit), ""]
    robust = notes(result.covariance, result.n_clusters)
    parts += flow([*_notes(result), *_proof(result), *robust])
    return "\n".join(map(printable, [*parts, *_more.lines(result.more, limit)]))


def shown(result: TableResult, name: str, places: int = 6) -> str:
    """One of the numbers beneath the table."""
    doubt = result.doubts.get(name, 0.0)
    if math.isnan(getattr(result, name)):
        return "NA"  # there is no such number
    return significant(about(getattr(result, name), doubt), places)


def of_one_table(result: TableResult) -> bool:
    """All rows in one place: nothing is said of sites."""
    return result.pooled and result.n_sites < 2


def exact(result: TableResult) -> str:
    """What the coefficients are compared with."""
    one = of_one_table(result)
    return "the exact coefficient" if one else "the coefficient of the pooled rows"


class Row(NamedTuple):
    """What is proven of one row of the table."""

    coef: Range
    std_err: Range
    statistic: Range
    p: Range
    low: Range
    high: Range
    unit: float  # the standard error


def ranges(result: TableResult) -> list[Row]:
    e, q = (float(result.doubts.get(name, 0.0)) for name in ("coef", "std_err"))
    by, t, rows = result.statistic, result.statistic.within(result.level), []
    for w, se in result.table[["coef", "std_err"]].to_numpy(float).tolist():
        z = digits.statistic(w, se, e, q)
        low, high = (digits.limit(w, se, x, e, q) for x in (-t, t))
        own = digits.coefficient(w, se, e), digits.standard_error(se, q)
        rows.append(Row(*own, z, digits.p_value(z, by.tail), low, high, se))
    return rows


def _cells(row: Row) -> list[str]:
    coef, low, high = (significant(x, 4, row.unit) for x in (row.coef, row.low, row.high))
    middle = [significant(row.std_err), digits.decimals(row.statistic), digits.probability(row.p)]
    return [coef, *middle, low, high]


def _ratios(row: Row) -> list[str]:
    return proven_ratios(row.coef, row.low, row.high, row.unit)


def _entered(result: TableResult) -> list[tuple[str, str]]:
    talk = [("Sites", f"{result.n_sites:,}"), ("Exchanges", f"{result.n_exchanges}")]
    return [
        ("Family", _family(result)),
        ("Rows used", f"{result.n_rows:,}"),
        ("Rows dropped", result.rows_dropped),
        *([] if of_one_table(result) else talk[:1]),
        ("Covariance", named(result.covariance, result.n_clusters)),
        ("Penalty", "Firth's" if result.firth else _penalty(result.l2)),
        *([] if of_one_table(result) else talk[1:]),
    ]


def _fit(result: TableResult) -> list[tuple[str, str]]:
    df = result.df_residual
    known = df > 0 and not math.isnan(result.pearson)
    ratio = about(result.pearson / df, result.doubts.get("pearson", 0.0) / df) if known else None
    return [
        (f"Deviance ({df:,} df)", shown(result, "deviance")),
        (f"Null deviance ({result.df_null:,} df)", shown(result, "null_deviance")),
        ("Pearson X²", shown(result, "pearson")),
        ("Pearson X² / df", significant(ratio) if ratio else "NA"),
        ("Log-likelihood", shown(result, "log_likelihood")),
        ("AIC", shown(result, "aic")),
        ("BIC", shown(result, "bic")),
    ]


def _linear(result: TableResult) -> list[str]:
    fit = result.linear
    if fit is None:
        return []
    q = float(result.doubts.get("dispersion", 0.0)) / 2
    r2 = [significant(_explained(x, 2 * q)) for x in (fit.r_squared, fit.adjusted)]
    lines = [
        f"Residual standard error {significant(digits.standard_error(fit.sigma, q))} on "
        f"{plural(result.df_residual, 'degree')} of freedom",
        f"R² {r2[0]}, adjusted {r2[1]}",
    ]
    if math.isfinite(fit.f):
        p = "<0.001" if fit.f_p < 0.001 else f"{fit.f_p:.3f}"
        f = significant(_times(fit.f, 2 * q + 2 * q / max(fit.r_squared, 1e-300)))
        lines[1] += f"; F {f} on {fit.f_df[0]:,} and {fit.f_df[1]:,} df, p {p}"
    return lines


def _explained(r2: float, q: float) -> Range:
    """1 - R² is a share of squares that changes by a factor e^{±q}."""
    return _times(1 - r2, q).map(lambda rest: 1 - rest)


def _times(x: float, q: float) -> Range:
    return Range(x * math.exp(-q), x * math.exp(min(q, 700))).map(lambda y: y)


def _family(result: TableResult) -> str:
    usual = result.link == CHOICES[result.family][0]
    return result.family if usual else f"{result.family}, {result.link}"


def _penalty(l2: Any) -> str:
    if isinstance(l2, numbers.Real):
        return f"{l2:g}" if l2 else "none"
    return "by coefficient"


def _table(result: TableResult, limit: int | None) -> list[str]:
    names = [printable(str(name)) for name in result.table.index]
    rows, ends, by = ranges(result), interval_ends(result.level), result.statistic.name
    titles = ["coef", "std err", by, f"P>|{by}|", *ends]
    parts = _block(names, titles, map(_cells, rows), limit)
    compared = list(map(result.has_ratio, result.coefficients))
    if result.ratio and any(compared):
        named, found = list(compress(names, compared)), map(_ratios, compress(rows, compared))
        parts += ["", *_block(named, [result.ratio, *ends], found, limit)]
    return parts


def interval_ends(level: float) -> list[str]:
    low = round((1 - level) / 2, 10)
    return [f"[{low:g}", f"{1 - low:g}]"]


def _block(
    names: list[str], titles: list[str], lines: Iterable[list[str]], limit: int | None
) -> list[str]:
    made = []
    for head, *rows in layout.block(names, titles, lines, limit, together=2):
        made += [head, "-" * len(head), *rows, "=" * len(head)]
    return made


def _notes(result: TableResult) -> list[str]:
    scale = []
    if result.standardize:
        told = "Each coefficient is the effect of one standard deviation more in its column"
        scale = [f"{told} (standard deviations with divisor n)."]
    event = [f"{result.response}: the event is {result.event}"] if result.event else []
    references = [f"{name}: reference {level}" for name, level in result.references.items()]
    if (site := site_of_reference(result)) is not None:
        references.append(f"site[...]: reference {site}")
    references += contrast_notes(result)
    dispersion = over_dispersion(result)
    left_out = left_out_notes(result) + [f"{told}." for told in without_rows(result)]
    unknown = [NA_ORDINAL] if result.family == "ordinal" else []
    offsets = [offset_note(result, beside=True), unusual_offset(result)]
    theta = [] if result.theta is None else [_theta(result.theta, result.theta_se)]
    return [
        *scale,
        *([APART] if result.apart else []),
        *lacking(result.refused, MOST_APART),
        *cap_notes(result.codebook),
        *event,
        *references,
        *left_out,
        *theta,
        *unknown,
        *filter(None, [uncertain_theta(result), *offsets, uncounted(result), dispersion]),
    ]


def left_out_notes(result: TableResult) -> list[str]:
    """Columns that are NA in R."""
    names = ", ".join(result.left_out)
    if not names:
        return []
    one = len(result.left_out) == 1
    which = f"The column {names} is" if one else f"The columns {names} are"
    it = "it is" if one else "they are"
    return [f"{which} left out, because {it} 0 in every row or can be computed from other columns."]


def without_rows(result: TableResult) -> list[str]:
    """The levels that were declared and have no row, which R drops as well."""
    quoted = lambda levels: ", ".join(map(repr, levels))
    return [
        f"{name}: no row has the {'level' if len(levels) == 1 else 'levels'} {quoted(levels)}, "
        f"so the table has no {'coefficient' if len(levels) == 1 else 'coefficients'} for "
        f"{'it' if len(levels) == 1 else 'them'}"
        for name, levels in result.empty_levels.items()
    ]


def _theta(theta: float, std_err: float | None) -> str:
    return f"Theta {theta:.4g} ({'given' if std_err is None else f'standard error {std_err:.4g}'})."


def _proof(result: TableResult) -> list[str]:
    cost = (
        f"{plural(result.n_exchanges, 'exchange')} with {plural(result.n_sites, 'site')}, "
        f"{plural(result.n_uploads, 'upload')}, {result.bytes_up:,} bytes"
    )
    cost += f" {counted(result.answers)}." if result.pooled else " sent by the sites."
    if result.pooled:
        would = f" A federation would need {cost}" if result.n_sites > 1 else ""
        cost = f"Nothing was sent: one table has all rows.{would}"
    error = result.certified_error
    if result.unproven:
        how = "has converged" if result.converged else "has NOT converged: allow more exchanges"
        proof = f"Not proven: {result.unproven}. Newton's method {how}."
    elif result.converged:
        proof = (
            f"Proven: no coefficient is further than {upper(error)} standard errors from "
            f"{exact(result)}."
        )
    else:
        remedy = (
            "rounding errors allow no smaller bound" if result.rounded else "allow more exchanges"
        )
        known = math.isfinite(error)
        bound = f"the best proven bound is {upper(error)}" if known else "no bound at all is proven"
        proof = (
            f"NOT proven: the requested error (tol) is {result.tol:g} standard errors, but "
            f"{bound}; {remedy}. The table leaves out digits that are not proven, and prints ? if "
            "no digit is proven."
        )
    return [cost, proof]
