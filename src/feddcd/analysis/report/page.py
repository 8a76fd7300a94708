"""The report as one HTML file that asks nothing of the network; plotly's script is inside."""

import json
import re
from html import escape
from pathlib import Path
from typing import Any

from plotly.offline import get_plotlyjs

from . import _tables as tables
from . import _words as words
from ._coefficients import coefficients
from ._convergence import convergence
from ._css import CSS, SCRIPT
from ._quality import calibration, residuals, roc_curve
from ._style import Figure

POLICY = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data: blob:"
)
TERMS = {
    "Coefficient": "the change that goes with one more unit of a column while the others stay as "
    "they are: of the outcome itself (linear), of the logarithm of the odds (logistic) or of the "
    "expected count (Poisson). It describes; it does not say what causes what.",
    "Odds ratio, rate ratio": "the same as a factor: 1 is no effect, 2 is twice the odds (or the "
    "expected count), 0.5 half of it.",
    "Standard error, 95 % interval": "how much chance alone would move a coefficient. Intervals "
    "made in this way hold the true value 95 times out of 100, if the model is right.",
    "z and p": "the coefficient in its own standard errors, and how often chance alone would put "
    "it as far from zero. Neither says how large or how important an effect is.",
    "Certified error": "a proven limit on how far any coefficient is from that of all rows in "
    "one place, in standard errors. The true distance may be smaller, never larger.",
    "Exchange, upload": "in an exchange the sites are asked for sums over their rows; each answer "
    "of one site is an upload.",
}


def write(fit: Any, path: str | Path, title: str | None = None) -> Path:
    """Write the report of a fitted model and return its path."""
    if not hasattr(fit, "table_"):
        raise ValueError("this model is not fitted yet: call fit first")
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    text = page(fit, words.title(fit) if title is None else title)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def page(fit: Any, title: str) -> str:
    drawn, course = [coefficients(fit)], convergence(fit)
    quality = [f for f in (calibration(fit), roc_curve(fit), residuals(fit)) if f is not None]
    shown = [f for f in [*drawn, *quality, *course] if f is not None]
    body = [
        _summary(fit, title),
        _section("Coefficients", *(_figure(f) for f in drawn if f), tables.regression(fit)),
        _quality(fit, quality),
        _convergence(fit, course),
        _choice(fit),
        _section("The fit in numbers", tables.facts(fit)),
        _terms(),
    ]
    return "\n".join(
        [_head(title), "<body><main>", *body, "</main>", _script(shown), "</body>", "</html>", ""]
    )


def _head(title: str) -> str:
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light">
<meta http-equiv="Content-Security-Policy" content="{POLICY}">
<link rel="icon" href="data:,">
<title>{escape(title)}</title>
<style>{CSS}</style>
</head>"""


def _summary(fit: Any, title: str) -> str:
    proof = escape(words.proof(fit)).replace("Proven:", "<strong>Proven:</strong>", 1)
    proof = proof.replace("NOT proven:", "<strong>NOT proven:</strong>", 1)
    effects = "\n".join(f"<li>{_unbroken(escape(line))}</li>" for line in words.effects(fit))
    lead = (
        "<p>The effects that the data show most clearly, other columns held fixed (furthest from "
        "zero in their own standard errors; this does not say how large or important they are):"
        f"</p>\n<ul>\n{effects}\n</ul>"
    )
    notes = "".join(f'<p class="note">{escape(line)}</p>' for line in words.cautions(fit))
    return (
        f'<header><h1>{escape(title)}</h1>\n<p class="lead">{escape(words.fitted(fit))}</p>\n'
        f'<p class="proof{"" if fit.converged_ else " open"}">{proof}</p>\n'
        f"{lead if effects else ''}\n{notes}</header>"
    )


def _quality(fit: Any, figures: list[Figure]) -> str:
    name = "How well the model describes the rows"
    if not figures:
        why = "too few rows to show any group of them"
        if fit.bins_ is None:
            why = "with several classes no groups of predictions are kept"
        return _section(name, f'<p class="note">No figure here: {why}.</p>')
    grid = "\n".join(_figure(f) for f in figures)
    table = (
        f"<details><summary>Calibration as a table</summary>\n{tables.calibration(fit)}</details>"
    )
    note = '<p class="note">Drawn from sums over groups of rows; no single row is in this file.</p>'
    return _section(name, note, f'<div class="figures">\n{grid}\n</div>', table)


def _convergence(fit: Any, figures: list[Figure]) -> str:
    note = "Nothing was proven at any exchange, so there is no curve."
    if figures:
        note = (
            "Below the line is where the error can be: at most this much for any coefficient, in "
            "standard errors. The dashed line is what was asked for. Time is predicted from the "
            "number of exchanges and the bytes, not measured."
        )
        if len(figures[0].data[1]["x"]) < len(fit.history_):
            note += " At exchanges without a dot nothing was proven yet."
    grid = "\n".join(_figure(f) for f in figures)
    history = tables.exchanges(fit.history_)
    return _section(
        "What is proven, and what it took",
        f"<p>{escape(note)}</p>",
        f'<div class="figures">\n{grid}\n</div>' if figures else "",
        f"<details><summary>Every exchange as a table</summary>\n{history}</details>",
    )


def _choice(fit: Any) -> str:
    choice = fit.choice_
    reason = escape(choice.reason.rstrip("."))
    told = f"<p>Method: <strong>{escape(choice.method)}</strong>: {reason}.</p>"
    return _section("Why this method", told, tables.predictions(choice))


def _section(name: str, *parts: str) -> str:
    return "\n".join([f"<section><h2>{escape(name)}</h2>", *filter(None, parts), "</section>"])


def _figure(f: Figure) -> str:
    caption = f"<figcaption>{escape(f.caption)}</figcaption>" if f.caption else ""
    height = f.layout["height"]
    return (
        f'<figure><div id="{f.name}" role="img" aria-label="{escape(f.alt)}" '
        f'style="min-height:{height}px"></div>{caption}</figure>'
    )


def _terms() -> str:
    terms = "\n".join(f"<dt>{escape(a)}</dt><dd>{escape(b)}</dd>" for a, b in TERMS.items())
    return f"<details><summary>How to read this</summary>\n<dl>\n{terms}\n</dl></details>"


def _script(figures: list[Figure]) -> str:
    specs = [{"id": f.name, "data": f.data, "layout": f.layout, "wide": f.wide} for f in figures]
    text = json.dumps(specs, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return (
        "<noscript><p>The figures need JavaScript; the tables hold their numbers.</p></noscript>\n"
        f'<script type="application/json" id="figures">{text}</script>\n'
        f"<script>{get_plotlyjs()}</script>\n<script>{SCRIPT}</script>"
    )


def _unbroken(text: str) -> str:
    """Keeps 95 % on one line."""
    return re.sub(r"\d[\d.,]* %", r'<span class="n">\g<0></span>', text)
