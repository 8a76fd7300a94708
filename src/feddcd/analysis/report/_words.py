"""The summary on top of the report: what was fitted, what is proven, what stands out."""

import math
from itertools import islice
from typing import Any

import numpy as np

from ..._text import count, number, trim, upper
from ...data.capping import notes as cap_notes
from ...formula import label
from .._baseline import contrast_notes, offset_note, site_of_reference
from .._inference import is_constant
from .._offsets import unusual_offset
from .._places import ratios
from .._result import Coefficient, TableResult
from .._robust import notes as robust_notes
from .._summary import exact, left_out_notes, of_one_table, without_rows
from .._variation import over_dispersion, uncertain_theta
from .._whole import uncounted
from ..families import COUNTS
from ._alone import entangled, is_in
from ._names import level_name, name_of, unit_of

KINDS = {
    "gaussian": "linear regression",
    "binomial": "logistic regression",
    "poisson": "Poisson regression",
    "multinomial": "multinomial logistic regression",
    "quasibinomial": "quasi-binomial regression",
    "quasipoisson": "quasi-Poisson regression",
    "gamma": "Gamma regression",
    "inverse_gaussian": "inverse Gaussian regression",
    "negative_binomial": "negative binomial regression",
    "ordinal": "ordinal (proportional odds) regression",
}
STRONGEST = 3
STEP = "is near the standard deviation of the column: 1, 2 or 5 times a power of ten."


def title(fit: TableResult) -> str:
    of, kind = f" of {name_of(fit, fit.response)}" if fit.response else "", KINDS[fit.family]
    across = "" if of_one_table(fit) else f" across {count(fit.n_sites, 'site')}"
    return f"{kind[0].upper()}{kind[1:]}{of}{across}"


def lead(fit: TableResult) -> str:
    dropped = ""
    if fit.n_dropped:
        some = f"{fit.least_dropped}{count(fit.n_dropped, 'row')}"
        dropped = f" {some[0].upper()}{some[1:]} with missing values were left out."
        dropped = dropped.replace("row with missing values were", "row with missing values was")
    return f"{_where(fit)}{_events(fit)}{dropped}"


def _where(fit: TableResult) -> str:
    rows = count(fit.n_rows, "row")
    if fit.pooled:
        sites = f" of {count(fit.n_sites, 'site')}" if fit.n_sites > 1 else ""
        return (
            f"The model was fitted on {rows}{sites}. One table contained {all_rows(fit)}, and no "
            "federation was run."
        )
    return (
        f"The model was fitted on {rows} at {count(fit.n_sites, 'site')} in "
        f"{count(fit.n_exchanges, 'exchange')}. The fit used only sums over the rows of each "
        "site. No row left its site."
    )


def all_rows(fit: TableResult) -> str:
    return "all rows" if of_one_table(fit) else "the rows of all sites"


def _events(fit: TableResult) -> str:
    """Which outcome counts as the event, and how often it was seen where that is known."""
    if fit.family not in ("binomial", "quasibinomial") or fit.response is None:
        return ""
    event = f"{fit.response} = 1"
    if fit.outcome is not None:
        event = level_name(fit, fit.response, label(fit.outcome.event))
    seen = fit.site_counts.get("events")
    if seen is not None and not (seen < 0).any():
        times = float(np.sum(seen))
    elif not fit.grouped and len(fit.row_sums or ()) > 1:
        times = fit.row_sums[1]  # of all sites together
    else:
        return f" The event is {event}."
    return f" The event is {event}, and it occurred {count(times, 'time')}."


def proof(fit: TableResult) -> str:
    """One sentence on how far the coefficients can be from the exact ones."""
    error = fit.certified_error
    if fit.unproven:
        how = (
            "Newton’s method has converged."
            if fit.converged
            else "Newton’s method has NOT converged: allow more exchanges."
        )
        return f"Not proven: {fit.unproven}. {how}"
    if fit.converged:
        return (
            f"Proven: no coefficient is further than {upper(error)} standard errors from "
            f"{exact(fit)}."
        )
    wanted = f"the requested error is {trim(fit.tol, 2)} standard errors"
    bound = "no bound at all is proven"
    if math.isfinite(error):
        bound = f"the best proven bound is {upper(error)}"
    if fit.rounded:
        return (
            f"NOT proven: {wanted}, but {bound}. Rounding errors allow no smaller bound. The table "
            "shows only digits that follow from the proven bound."
        )
    return (
        f"NOT proven: {wanted}, but {bound}. The fit stopped too early. Do not rely on the numbers "
        "of this table. Allow more exchanges."
    )


def strongest(fit: TableResult) -> list[Coefficient]:
    """The coefficients furthest from zero in their own standard errors."""
    z = dict(zip(fit.coefficients, fit.table[fit.statistic.name].abs(), strict=True))
    shown = [c for c in z if is_effect(fit, c) and not math.isnan(z[c])]
    return sorted(shown, key=lambda c: -z[c])


def is_effect(fit: TableResult, c: Coefficient) -> bool:
    """Neither the intercept nor what stands for a site."""
    return not is_constant(fit, c.column) and not fit.is_of_site(c.column)


def about(fit: TableResult) -> str:
    """What stands above their list."""
    effects = _listed(fit)
    clear = _clear(fit, effects)
    apart = "Some terms have no effect of their own, for example the terms of an interaction. This "
    apart = f"{apart}list leaves out such terms. " if any(entangled(fit)) else ""
    which = "the effects that the data show most clearly: their coefficients are"
    if not all(_clear(fit, [each]) for each in effects):
        which = "the effects whose coefficients are"
    end = "A clear effect is not always large or important."
    if not clear:
        none = 0 if fit.ratio is None else 1
        end = f"No effect in this list is clear: each interval includes {none}."
        if _clear(fit, strongest(fit)):
            end += (
                " But some coefficients of the regression table are not in this list, and their "
                "intervals do not include 0."
            )
    if not apart and len(effects) == sum(is_effect(fit, c) for c in fit.coefficients):
        which = "all effects. The clearest effect stands first: its coefficient is"
    scaled = any(unit_of(fit, c).size != 1 for c in effects)
    step = f"The size of an increase {STEP} " if scaled else ""
    return (
        f"{apart}This list has {which} furthest from zero, counted in standard errors. "
        f"Each effect is for a change of one column, while the other columns do not change. "
        f"{step}{end}"
    )


def _clear(fit: TableResult, effects: list[Coefficient]) -> bool:
    """Whether an interval lies on one side of 0."""
    table = fit.original_table.loc[[c.label for c in effects]]
    return bool(((table["ci_low"] > 0) | (table["ci_high"] < 0)).any())


def effects(fit: TableResult) -> list[str]:
    return [effect(fit, c) for c in _listed(fit)]


def _listed(fit: TableResult) -> list[Coefficient]:
    """Of columns that stand in one term alone: the others have no effect of their own."""
    others = entangled(fit)
    alone = (c for c in strongest(fit) if not is_in(fit, c, *others))
    return list(islice(alone, STRONGEST))


def effect(fit: TableResult, c: Coefficient) -> str:
    """`One more unit of age is associated with 1.2 times the odds ...`"""
    row, unit = fit.original_table.loc[c.label], unit_of(fit, c)
    b, low, high = (unit.size * float(row[name]) for name in ("coef", "ci_low", "ci_high"))
    none = 0 if fit.ratio is None else 1
    doubt = ""
    if low <= 0 <= high:
        doubt = f" The interval includes {none}, so there may be no effect."
    of = "the outcome" if fit.response is None else name_of(fit, fit.response)
    if fit.ratio is None:
        more = "higher" if b >= 0 else "lower"
        mean = "mean" if fit.link == "identity" else f"linear predictor (link {fit.link})"
        low, high = (low, high) if b >= 0 else (-high, -low)
        what = f"a {mean} of {of} that is {number(abs(b), 3)} {more}"
        range_ = f"{number(low, 3)} to {number(high, 3)}"
    else:
        factor, low, high = ratios(b, low, high)
        what = f"{factor} times {_what(fit, c, of)}"
        range_ = f"{low} to {high}"
    return f"{unit.change} is associated with {what} ({interval(fit)} {range_}).{doubt}"


def percent(fit: TableResult) -> str:
    return f"{100 * fit.level:.6g} %"


def interval(fit: TableResult) -> str:
    return f"{percent(fit)} interval"


def cautions(fit: TableResult, paper: bool = False) -> list[str]:
    """What a reader of the table must know beside the numbers; in a paper without advice on how to
    fit another table."""
    notes = [*cap_notes(fit.codebook), *_of_one_row(fit)]
    if is_penalised(fit.l2):
        notes.append(
            "The penalty moves the coefficients towards zero. The standard errors and intervals do "
            "not include the bias of the penalty."
        )
    if fit.covariance == "cluster":
        notes.append(
            "The standard errors take into account that the rows of a cluster can be similar."
        )
    elif fit.covariance != "model":
        notes.append(
            f"The standard errors are robust ({fit.covariance}): they are valid also if the "
            "outcome varies more or less than the model assumes."
        )
    notes += robust_notes(fit.covariance, fit.n_clusters)
    if fit.site_effects == "fixed":
        notes.append(
            "Each site has its own intercept, so the effects compare only rows of the same site."
        )
        if (site := site_of_reference(fit)) is not None:
            notes.append(f"Each coefficient of a site compares this site with the site {site!r}.")
    if fit.references:
        told = "; ".join(f"{name}: {level}" for name, level in fit.references.items())
        notes.append(f"Each category is compared with its reference level ({told}).")
    notes += [f"{told}." for told in contrast_notes(fit)]
    notes += left_out_notes(fit)
    notes += filter(None, [offset_note(fit)])
    notes += [f"{told}." for told in without_rows(fit)]
    found = [uncertain_theta(fit, not paper), unusual_offset(fit, not paper)]
    found.append(uncounted(fit, not paper))
    found.append(over_dispersion(fit, not paper))
    return [*notes, *filter(None, found)]


def _of_one_row(fit: TableResult) -> list[str]:
    """Sites whose sums are a row."""
    rows = fit.site_counts.get("rows")
    alone = 0 if rows is None or fit.n_sites < 2 else int((rows == 1).sum())
    if not alone:
        return []
    have = "has only one row" if alone == 1 else "have only one row each"
    return [
        f"{count(alone, 'site')} of {count(fit.n_sites)} {have}: the sums of a site with one row "
        "reveal this row."
    ]


def _what(fit: TableResult, c: Coefficient, of: str) -> str:
    if fit.family in COUNTS:
        return "the expected count" if of == "the outcome" else f"the expected {of}"
    if fit.family == "ordinal":
        return f"the odds of a higher {of}"
    if fit.ratio in ("risk ratio", "ratio of means"):
        return f"the {'probability' if fit.ratio == 'risk ratio' else 'mean'} of {of}"
    if fit.family in ("binomial", "quasibinomial"):
        if fit.outcome is not None:
            return f"the odds of {level_name(fit, fit.response, label(fit.outcome.event))}"
        return "the odds of the outcome" if of == "the outcome" else f"the odds of {of} = 1"
    return f"the odds of {c.label_of_class!r} against {str(fit.classes[0])!r}"  # pyright: ignore


def is_penalised(l2: Any) -> bool:
    return bool(np.any(np.asarray(list(l2.values()) if isinstance(l2, dict) else l2, float)))
