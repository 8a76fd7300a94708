"""A job in plain words, for the person who decides."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..._text import listed, plural, printable
from ...analysis.protocol import Offered, SiteRows
from ...data.codebook import Codebook
from ._columns import smallest_cell
from .policy import Ruled

ASKED = {  # settings of plans, and what a person reads
    "link": "link",
    "classes": "classes of the outcome",
    "l2": "penalty, which moves the model",
    "firth": "Firth's penalty",
    "theta": "theta",
    "standardize": "columns are scaled",
    "weight": "the column of weights",
    "offset": "the column of an offset",
    "cluster": "the column of clusters",
    "covariance": "standard errors",
    "complete": "rows need a value in these columns, too",
    "event": "what counts as 1",
    "site_effects": "effects of sites",
    "by": "by groups of the column",
    "quantiles": "quantiles",
    "shares": "of which shares",
    "least": "smallest count that is shown",
    "by_site": "numbers of this site alone",
    "go_on_without": "goes on without sites that refuse",
}


def describe_job(
    rows: SiteRows,
    columns: Mapping[str, np.ndarray],
    mode: str,
    exchanges: int,
    sites: Sequence[str],
    doubts: Sequence[str],
) -> list[str]:
    """A job in plain words, for the person who decides; names are quoted."""
    cell = smallest_cell(columns)
    sums = "only a sum over all sites can be read" if mode == "sum" else "read by itself"
    lines = [
        "A job asks for sums over rows of this site:",
        *_asked(rows.plan, rows.columns),
        f"  rows: {rows.n}, and {rows.dropped} left out since a value is missing",
        f"  smallest cell of categories: {'none' if cell is None else f'{cell} rows'}",
        f"  exchanges: at most {exchanges}",
        f"  what leaves: {_leaves(columns, rows.plan)}; {sums}",
        _who(sites),
    ]
    return lines + [f"  NOTE: {doubt}" for doubt in doubts]


def _leaves(columns: Mapping[str, np.ndarray], plan: Any) -> str:
    """Of columns that a person counts as coefficients, and those beside them."""
    model = [name for name in columns if not name.startswith("(")]
    beside = [name.strip("()") for name in columns if name.startswith("(")]
    unasked = [name for name in ("weight", "offset") if getattr(plan, name, None) is None]
    beside = [name for name in beside if name not in unasked]
    told = f"sums over {plural(len(model), 'column')} of the model"
    return f"{told}, and over {' and '.join(f'the {name}' for name in beside)}" if beside else told


def describe_refused(
    plan: Any, entering: Sequence[str], sites: Sequence[str], error: Exception
) -> list[str]:
    """A job that the rules would refuse. Others are told so once a person has decided."""
    first = "A job asks for sums over rows of this site:"
    return [first, *_asked(plan, entering), _who(sites), *_against(error)]


def describe_offer(plan: Any, entering: Sequence[str], found: Offered | Exception) -> list[str]:
    """What would be told of columns before a job."""
    lines = ["A plan asks for names and levels of these columns:", *_asked(plan, entering)]
    if isinstance(found, Exception):
        return lines + _against(found)
    levels = found.offer.levels
    told = [
        f"  levels that would be sent, of {name!r}: {listed(v, 20)}" for name, v in levels.items()
    ]
    classes = found.offer.classes
    return (
        lines + told + ([f"  classes that would be sent: {listed(classes, 20)}"] if classes else [])
    )


def describe_plan(plan: Any, book: Codebook | None, own: bool, na: Sequence[str]) -> list[str]:
    """What counts as missing, and what was declared."""
    words = listed(["NA", *na])
    lines = [f"  what counts as missing: an empty field, {words}"]
    if book is not None:
        said = {name: entry.missing for name, entry in book.columns.items()}
        each = {name: listed(["", *words]) for name, words in said.items() if words is not None}
        lines += [f"    in {name!r} instead: {words}" for name, words in each.items()]
        held = json.dumps(book.to_dict(), sort_keys=True).encode()
        whose = "that of this site" if own else "sent with the plan, NOT that of this site"
        lines.append(f"  codebook: {whose} (digest {hashlib.sha256(held).hexdigest()[:16]})")
        ranges = {name: entry.range for name, entry in book.columns.items() if entry.range}
        lines += [f"    range of {name!r}: {a} to {b}" for name, (a, b) in ranges.items()]
    levels = plan.levels.items()
    return lines + [f"  declared levels of {name!r}: {listed(v, 50)}" for name, v in levels]


def _asked(plan: Any, entering: Sequence[str]) -> list[str]:
    formula = getattr(plan, "formula", None)
    return [
        f"  analysis: {plan.analysis!r}" + (f", family {plan.family!r}" if formula else ""),
        *([f"  formula: {formula!r}"] if formula else []),
        f"  columns of this site that enter: {', '.join(map(repr, entering))}",
        *(f"  {words}: {value!r}" for name, words in ASKED.items() if (value := _of(plan, name))),
    ]


def _of(plan: Any, name: str) -> Any:
    """What a plan says otherwise than plans do without a word."""
    value = getattr(plan, name, None)
    return None if value in ([], "drop", "none", "model", "newton") else value


def _who(sites: Sequence[str]) -> str:
    return f"  who takes part: {', '.join(map(repr, sites))}"


def _against(error: Exception) -> list[str]:
    ruled = isinstance(error, Ruled)
    why = f"{error.rule}: {error.story}" if ruled else str(error)
    alike = "  Others hear the same, whether you approve or deny: that it was refused, not why."
    note = f"  NOTE: the rules of this site would refuse it: {printable(why)}"
    return [note, alike] if ruled else [note]
