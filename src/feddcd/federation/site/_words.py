"""A job in plain words, for the person who decides."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..._text import listed, plural, printable, sentence_list
from ...analysis.blocks import may_leave
from ...analysis.protocol import Misfit, Offered, SiteRows
from ...analysis.registry import ANALYSES
from ...data.codebook import Codebook
from ...data.conform import caps_of
from ._asker import VERDICT
from ._columns import OF_LEVELS, smallest_cell
from .log_words import IN_VAIN, WOULD_END
from .policy import Ruled

_TODO = (
    "The last lines of this text say why. What to do: call the person at the coordinator, and say "
    "what to change in the job. Then deny this"
)
REFUSE = f"{VERDICT} REFUSE THIS REQUEST, also if you approve. {_TODO} request."
WOULD_REFUSE = (
    f"{VERDICT} WOULD REFUSE THIS JOB. {_TODO} job. If you approve it, the rules would refuse a "
    "question of this job, and the job would end without a result."
)
ASKS = "A job asks for sums over the rows of this site:"
ASKED = {  # settings of plans, and what a person reads
    "link": "link",
    "classes": "classes of the outcome",
    "l2": "penalty (it moves the coefficients towards zero)",
    "firth": "Firth's penalty",
    "theta": "theta",
    "standardize": "the job scales the columns",
    "weight": "column of weights",
    "offset": "column of the offset",
    "cluster": "column of clusters",
    "covariance": "standard errors",
    "complete": "every row must also have a value in these columns",
    "event": "value of the outcome that counts as 1",
    "site_effects": "intercepts for each site",
    "by": "column of the groups",
    "quantiles": "how quantiles are given",
    "shares": "which quantiles",
    "median": "columns with quantiles in place of mean and standard deviation",
    "least": "smallest count that the table shows",
    "by_site": "the table also shows the numbers of each single site",
    "go_on_without": "if a site refuses, the other sites begin a new job",
}
JOIN = (
    "join levels with few rows, or leave out a column. For small hospitals, the page "
    "'The rules of a site' explains the setting small_cells"
)
CURE = "use the logarithm of a column with extreme values, or use fewer columns"
CURES = {  # by rule, where something else helps
    "cells": JOIN,
    "joint_cells": JOIN,
    "max_numbers_per_value": "use fewer columns, or fewer levels of a category",
    "sets": "name the same columns under 'complete' in all jobs of the study",
}


def describe_job(
    rows: SiteRows,
    columns: Mapping[str, np.ndarray],
    mode: str,
    exchanges: int,
    sites: Sequence[str],
    careful: bool = True,
) -> list[str]:
    """A job in plain words, for the person who decides; names are quoted."""
    cell = smallest_cell(columns)
    sums = (
        "the coordinator can read only the sum over all sites"
        if mode == "sum"
        else "the coordinator can read the sums of this site"
    )
    return [
        ASKS,
        *_asked(rows.plan, rows.columns),
        f"  rows: {rows.n}; {_left_out(rows)}",
        *_smallest(cell, rows.plan),
        f"  exchanges: at most {exchanges}",
        f"  what leaves this site: {_leaves(columns, rows.plan)}; {sums}",
        *(f"    {line}" for line in may_leave(rows.plan, mode, careful)),
        _who(sites),
    ]


def _smallest(cell: int | None, plan: Any) -> list[str]:
    """Nothing of a description: its cells are categories by groups, and small ones do not leave."""
    if getattr(plan, "analysis", "") == "describe":
        return []
    if cell is None:
        return ["  smallest cell of categories: none; no column of this job has exactly two values"]
    return [
        f"  smallest cell of categories: {plural(cell, 'row')}",
        "    (This number is about columns with two values, such as the levels of a category. A "
        "cell has all rows with the same value in one such column, or with the same values in two "
        "such columns. feddcd does not check three or more columns together.)",
    ]


def _left_out(rows: SiteRows) -> str:
    if not rows.dropped:
        return "no row is left out because of a missing value"
    are = "is" if rows.dropped == 1 else "are"
    return f"{plural(rows.dropped, 'more row')} {are} left out, because a value is missing"


def notes(doubts: Sequence[str]) -> list[str]:
    """What a person should weigh: the last lines before the decision, where the weightiest is the
    very last."""
    lines = (doubt.split("\n") for doubt in doubts)
    return [f"  {'  ' if i else 'NOTE: '}{line}" for each in lines for i, line in enumerate(each)]


def verdict(tried: Sequence[str]) -> list[str]:
    """Above all other lines, where a question was refused when the job was tried."""
    return [WOULD_REFUSE] if any(WOULD_END in told for told in tried) else []


def _leaves(columns: Mapping[str, np.ndarray], plan: Any) -> str:
    """Of columns that a person counts as coefficients, and those beside them."""
    model = [name for name in columns if not name.startswith("(")]
    beside = [name.strip("()") for name in columns if name.startswith("(")]
    unasked = [name for name in ("weight", "offset") if getattr(plan, name, None) is None]
    beside = [name for name in beside if name not in unasked]
    if getattr(plan, "analysis", "") == "describe":
        sums = f", sums and sums of squares of {plural(len(model), 'column')}" if model else ""
        told = f"counts{sums}"
        return told if plan.quantiles == "none" else f"{told}, and counts in ranges for quantiles"
    of = f"{plural(len(model), 'column')} of the model ({listed(model, 8)})"
    made = [of, *(f"the {name}" for name in beside)]
    return f"sums over the rows of this site, made from {sentence_list(made)}"


def only_complete(plan: Any, entering: Sequence[str]) -> tuple[str, ...]:
    """Columns of a job in which a row needs a value, and of which no number leaves."""
    if not getattr(plan, "complete", ()):
        return ()
    try:
        used = ANALYSES[plan.analysis].columns(dataclasses.replace(plan, complete=[]), entering)
    except Misfit:
        return ()
    return tuple(name for name in entering if name not in used)


def describe_refused(plan: Any, entering: Sequence[str], sites: Sequence[str]) -> list[str]:
    """A job that the rules would refuse. Others hear of it after a person has decided."""
    return [REFUSE, ASKS, *_asked(plan, entering), _who(sites)]


def describe_offer(
    plan: Any, entering: Sequence[str], found: Offered | Exception, declared: Sequence[str]
) -> list[str]:
    """What would leave about columns before a job; `declared` are the lines of `describe_plan`."""
    lines = [
        "Before a job, the coordinator asks for names and levels of columns:",
        *_asked(plan, entering),
    ]
    if isinstance(found, Exception):
        return [REFUSE, *lines, *declared, *against(found)]
    sent = found.offer.levels.items()
    names = listed(found.offer.columns or []) or "none"
    lines.append(f"  this site would send the names and types of these columns: {names}")
    lines += [
        f"  this site would send these levels of {name!r}: {listed(v, 20)}" for name, v in sent
    ]
    if found.offer.classes:
        lines.append(f"  this site would send these classes: {listed(found.offer.classes, 20)}")
    return [*lines, *declared]


def describe_plan(
    plan: Any,
    book: Codebook | None,
    own: bool,
    na: Sequence[str],
    entering: Sequence[str] = (),
) -> list[str]:
    """What counts as missing, and what was declared."""
    words = listed(["NA", *na])
    lines = [f"  a value is missing if the field is empty or is one of these words: {words}"]
    if book is not None:
        said = {name: entry.missing for name, entry in book.columns.items()}
        each = {name: listed(["", *words]) for name, words in said.items() if words is not None}
        lines += [
            f"    in the column {name!r} a value is missing if it is one of: {words}"
            for name, words in each.items()
        ]
        held = json.dumps(book.to_dict(), sort_keys=True).encode()
        whose = (
            "this site's own codebook"
            if own
            else "this codebook is NOT from this site; it came with the plan"
        )
        lines.append(f"  codebook: {whose} (digest {hashlib.sha256(held).hexdigest()[:16]})")
        ranges = {name: entry.range for name, entry in book.columns.items() if entry.range}
        lines += [f"    range of {name!r}: {a} to {b}" for name, (a, b) in ranges.items()]
        caps = {name: each for name, each in caps_of(book).items() if name in entering}
        lines += [
            f"    the job uses no exact values of {name!r}: each value {capping.words}"
            for name, capping in caps.items()
        ]
    levels = plan.levels.items()
    return lines + [f"  declared levels of {name!r}: {listed(v, 50)}" for name, v in levels]


def _asked(plan: Any, entering: Sequence[str]) -> list[str]:
    formula, beside = getattr(plan, "formula", None), only_complete(plan, entering)
    used = [name for name in entering if name not in beside]
    return [
        f"  analysis: {plan.analysis!r}" + (f", family {plan.family!r}" if formula else ""),
        *([f"  formula: {formula!r}"] if formula else []),
        f"  columns of this site that the job uses: {', '.join(map(repr, used))}",
        *(f"  {words}: {value!r}" for name, words in ASKED.items() if (value := _of(plan, name))),
    ]


def _of(plan: Any, name: str) -> Any:
    """What a plan says otherwise than plans do without a word."""
    value = getattr(plan, name, None)
    return None if value in ([], "drop", "none", "model", "newton") else value


def _who(sites: Sequence[str]) -> str:
    return f"  who takes part: {', '.join(map(repr, sites))}"


def against(error: Exception) -> list[str]:
    """That the rules refuse: the last lines before the decision."""
    ruled = isinstance(error, Ruled)
    why = (
        f"The reason is the rule {error.rule!r}: {error.story}" if ruled else f"The reason: {error}"
    )
    cure = "" if not ruled else JOIN if OF_LEVELS in error.story else CURES.get(error.rule, CURE)
    note = f"  NOTE: {IN_VAIN}. {printable(why)}."
    alike = [
        "  Whether you approve or deny: the coordinator gets a refusal, but not this reason.",
        f"  You can tell the coordinator by phone what to change, for example: {cure}.",
        "  The page 'The rules of a site' explains each rule and what to do.",
    ]
    return [note, *alike] if ruled else [note]
