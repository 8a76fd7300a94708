"""What a regression looks like to people: one HTML page that asks nothing of the network."""

import math
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path

from ..._text import NONE, count, number, probability, size, trim
from ...report import page
from ...report.tables import pairs, table
from .. import _more
from .._cost import counted
from .._digits import about, agreed
from .._inference import of_sites
from .._influence import hinge
from .._own import OWN, UNTOLD
from .._result import Fitted, TableResult, result_of
from .._robust import named
from .._summary import NA_ORDINAL, of_one_table
from ..families import CLASSED, COUNTS
from ..protocol import APART
from . import _words as words
from ._alone import not_listed
from ._course import course, error_of
from ._effects import forest
from ._journal import cells, journal_table
from ._names import name_of
from ._quality import calibration, calibration_table, residuals, roc_curve
from ._trust import roughly, trust

__all__ = ["journal_table", "write"]
TERMS = {
    "Coefficient": (
        "in a linear model, how much the outcome changes if a column is one unit higher and the "
        "other columns stay the same. In a logistic model, the logarithm of the odds changes by "
        "this amount; in a Poisson model, the logarithm of the expected count. A coefficient does "
        "not show a cause."
    ),
    "Odds ratio, rate ratio": (
        "the effect as a factor. A ratio of 1 is no effect, 2 is twice the odds (or the "
        "expected count), and 0.5 is half of the odds (or the expected count)."
    ),
    "Standard error, interval": (
        "how much chance alone would change a coefficient. An interval of 95 % contains "
        "the true value 95 times out of 100, if the model is right."
    ),
    "z or t, and p": (
        "z or t is the coefficient divided by its standard error. p says how often chance alone "
        "would give a coefficient at least this far from zero. The numbers z, t and p do not "
        "say how large or how important an effect is."
    ),
    "Certified error": (
        "the largest possible distance between a coefficient of this report and the exact "
        "coefficient of the pooled rows (all rows in one table). The certified "
        "error is proven, and its unit is one standard error. The true "
        "distance may be smaller, but never larger."
    ),
    "Exchange, upload": "in an exchange the coordinator asks the sites for sums over their rows. "
    "Each answer of one site is an upload.",
}


def write(fit: TableResult | Fitted, path: str | Path, title: str | None = None) -> Path:
    """Write the report of a fit: one HTML page that needs no network.

    Args:
        fit: A fitted `FederatedGLM`, or its `result_`.
        path: The file to write; feddcd makes its folder and replaces an older file.
        title: The title of the page. If not given: the kind of the model.

    Returns:
        The path of the file.

    Raises:
        SpecError: There was no fit yet.

    Examples:
        >>> from feddcd.analysis import report
        >>> fit = feddcd.FederatedGLM("binomial", "death ~ age").fit(rows, groups="hospital")
        >>> report.write(fit, "tables/report.html").name
        'report.html'
    """
    result, path = result_of(fit), Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = html(result, words.title(result) if title is None else title)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def html(fit: TableResult, title: str) -> str:
    effects = forest(fit)
    drawn = [effects.html, page.paragraph(effects.words, "note")] if effects else []
    return page.document(
        title,
        _summary(fit, title),
        page.section("Effects", *drawn),
        "" if of_one_table(fit) else page.section("The sites", _sites(fit)),
        page.section("The regression table", _regression(fit)),
        _tables(fit),
        _groups(fit, [g for g in (calibration(fit), roc_curve(fit), residuals(fit)) if g]),
        page.section("The fit in numbers", _facts(fit)),
        course(fit),
        page.footer(TERMS),
    )


def _summary(fit: TableResult, title: str) -> str:
    verdict, _, claim = words.proof(fit).partition(":")
    proof = f"<strong>{escape(verdict)}:</strong>{escape(claim)}"
    effects = words.effects(fit)
    return page.header(
        title,
        words.lead(fit),
        f'<p class="proof{"" if fit.converged else " open"}">{proof}</p>',
        page.lines([page.paragraph(words.about(fit)), page.bullets(effects)]) if effects else "",
        *(page.paragraph(line, "note") for line in not_listed(fit)),
        *(page.paragraph(line, "note") for line in words.cautions(fit)),
    )


def _regression(fit: TableResult) -> str:
    """Each number with the digits that are proven."""
    ends = [f"{words.percent(fit)} from", "to"]
    head = ["name", "coefficient", "standard error", fit.statistic.name, "p", *ends]
    head += [fit.ratio, *ends] if fit.ratio else []
    rows = []
    for label, row in zip(fit.table.index, cells(fit), strict=True):
        factors = [row.ratio or NONE, *(row.ratio_ends or [NONE] * 2)] if fit.ratio else []
        rows.append([str(label), *row[:4], *row.ends, *factors])
    units = "for one standard deviation more" if fit.standardize else "in the units of the columns"
    return table(f"The regression table, {units}", head, ("", rows))


def _tables(fit: TableResult) -> str:
    """What was asked for beside the coefficients."""
    if not fit.more:
        return ""
    made = []
    for name, frame in fit.more.items():
        head, *rows = _more.cells(frame)
        rows = [[name, *map(_typeset, line)] for name, *line in rows]
        made.append(table(_more.title(name, frame), head, ("", rows)))
    return page.section("Tests and contrasts", *made)


def _typeset(cell: str) -> str:
    """As the numbers of the page are."""
    return NONE if cell == "-" else re.sub(r"(?<![eE])-", "−", cell)


def _sites(fit: TableResult) -> str:
    """Rows, events and rows left out by site."""
    counts = fit.site_counts
    of = "outcomes" if fit.response is None else name_of(fit, fit.response)
    events = f"sum of {of}" if fit.family in COUNTS else "events"
    names = {"rows": "rows", "events": events, "missing": "rows left out"}
    shown = {name: title for name, title in names.items() if name in counts}
    known = lambda x: count(x) if x >= 0 else NONE
    rows = [
        [str(site), *(known(line[name]) for name in shown), _own(fit, line["estimate"])]
        for site, line in counts.to_dict("index").items()
    ]
    head = ["site", *shown.values(), "the rows of this site alone give a finite estimate"]
    if fit.leave_one_out is not None:
        head.append(
            "largest change of any coefficient without this site (an estimate, in standard errors)"
        )
        rows = [[*row, _largest(fit, row[0])] for row in rows]
    gone = [f"{site}: {why.removeprefix(f'{site}: ')}" for site, why in fit.refused.items()]
    told = fit.answers != "sum" or bool((counts[list(shown)].to_numpy() >= 0).any())
    names = page.paragraph(f"The sites: {', '.join(line[0] for line in rows)}.")
    depends = " ".join(trust(fit))
    return page.lines([
        table("What each site holds", head, ("", rows)) if told else names,
        page.lines([page.paragraph("Not part of this table:"), page.bullets(gone)]) if gone else "",
        page.paragraph(APART) if fit.apart else "",
        page.paragraph(f"What the table depends on: {depends}", "note") if depends else "",
    ])  # fmt: skip


def _own(fit: TableResult, told: str) -> str:
    """Whether there is one; the figure of effects draws it."""
    return {OWN: "yes", UNTOLD: "not computed" if fit.pooled else UNTOLD}.get(told, "no")


def _largest(fit: TableResult, site: str) -> str:
    """Of a coefficient without this site, in standard errors."""
    changes = fit.leave_one_out
    own = None if changes is None else changes.loc[:, [str(c) == site for c in changes]]
    found = hinge(own, of_sites(fit))
    if found is None:
        return NONE
    much = "not determined" if math.isinf(found.change) else roughly(found.change)
    return f"{much} ({found.name})"


def _groups(fit: TableResult, figures: Sequence[str]) -> str:
    name = "How well the model describes the rows"
    if not figures:
        why = "there are too few rows to show groups of rows"
        if fit.bins is None:
            of = "several classes" if fit.family in CLASSED else "this family"
            why = f"for a model of {of}, the sites do not send groups of predictions"
        return page.section(name, page.paragraph(f"No figure here: {why}.", "note"))
    note = "The figures show sums over groups of rows. This file does not contain the rows."
    return page.section(
        name,
        page.paragraph(note, "note"),
        page.grid(figures),
        page.details("Calibration as a table", _calibration(fit)),
    )


def _calibration(fit: TableResult) -> str:
    groups = calibration_table(fit)
    if groups is None:
        return ""
    weights = "weight of rows" if fit.grouped else "rows"
    head = ["group", weights, "predicted", "observed", "difference"]
    cells = zip(groups["weight"], groups["predicted"], groups["observed"], strict=True)
    rows = [
        (str(i), count(w), number(a), number(b), number(b - a, 2))
        for i, (w, a, b) in enumerate(cells, 1)
    ]
    return table("Calibration, from low to high predictions", head, ("", rows))


def _facts(fit: TableResult) -> str:
    errors = named(fit.covariance, fit.n_clusters)
    rows = [
        ("Model", words.KINDS[fit.family]),
        ("Link", fit.link),
        ("Formula", fit.formula or "all columns as they are"),
        ("Rows used", count(fit.n_rows)),
        ("Rows dropped", fit.rows_dropped),
        *([] if of_one_table(fit) else [("Sites", count(fit.n_sites))]),
        *([] if of_one_table(fit) else [("Exchanges", count(fit.n_exchanges))]),
        *_sent(fit),
    ]
    fits = [
        ("Deviance", f"{_shown(fit, 'deviance')} on {count(fit.df_residual)} df"),
        ("Null deviance", f"{_shown(fit, 'null_deviance')} on {count(fit.df_null)} df"),
        ("Pearson’s X²", _shown(fit, "pearson")),
        ("Dispersion", trim(fit.dispersion, 5)),
        ("Log-likelihood", _shown(fit, "log_likelihood")),
        ("AIC", _shown(fit, "aic")),
        ("BIC", _shown(fit, "bic")),
        *_linear(fit),
        ("Standard errors", errors),
        ("Certified error", f"{error_of(fit.certified_error)} standard errors"),
        ("Requested error (tol)", f"{trim(fit.tol, 2)} standard errors"),
    ]
    grid = page.grid([pairs("The fit", rows), pairs("How well it fits", fits)], "columns")
    if fit.family != "ordinal":
        return grid
    return page.lines([grid, page.paragraph(NA_ORDINAL.replace("NA:", f"{NONE}:"), "note")])


def _sent(fit: TableResult) -> list[tuple[str, str]]:
    uploads = count(fit.n_uploads, "upload")
    if not fit.pooled:
        return [("Sent by the sites", f"{uploads}, {size(fit.bytes_up)}")]
    sent = f"{uploads}, {size(fit.bytes_up)} {counted(fit.answers)}"
    would = ("A federation would send", sent)
    return [("Sent by the sites", "nothing: one table"), *([would] if fit.n_sites > 1 else [])]


def _shown(fit: TableResult, name: str) -> str:
    """With the digits that are proven."""
    if math.isnan(getattr(fit, name)):
        return NONE
    forms = [lambda x, n=n: trim(x, n) for n in (6, 5, 4, 3, 2, 1)]
    return agreed(about(getattr(fit, name), fit.doubts.get(name, 0.0)), forms)


def _linear(fit: TableResult) -> list[tuple[str, str]]:
    if fit.linear is None:
        return []
    sigma, r2, adjusted, f, (a, b), p = fit.linear
    test = f"{trim(f, 4)} on {count(a)} and {count(b)} df, p {probability(p)}"
    return [
        ("Residual standard error", trim(sigma, 4)),
        ("R², adjusted", f"{trim(r2, 4)}, {trim(adjusted, 4)}"),
        *([("F", test)] if math.isfinite(f) else []),
    ]
