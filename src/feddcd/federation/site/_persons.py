"""Columns of a job that may identify persons, although the rule `identifiers` lets them pass.

The rules count rows. Where a person has several rows, few rows can be those of one person, so a
person at the site has to judge what the values stand for.
"""

import json
from typing import Any

from ...analysis.protocol import SiteRows
from ...data.draft import may_identify
from ...formula import read_formula
from .policy import FILE, Policy


def person_notes(policy: Policy, rows: SiteRows, agreed: str, frame: Any) -> list[str]:
    """For whoever decides; `frame` has columns of the site's table as the codebook has them, and
    `agreed` what the sites agreed on. A column of clusters may number patients: sums use it only
    to tell which rows belong together."""
    plan, found = rows.plan, list[str]()
    if policy.min_support < 2:
        return found
    outcome = read_formula(plan.formula).left_columns if hasattr(plan, "formula") else ()
    explain = json.loads(agreed).get("columns") or ()
    apart = (getattr(plan, name, None) for name in ("weight", "offset", "by"))
    used = {*explain, *outcome, *apart} - {getattr(plan, "cluster", None)}
    for name in (name for name in frame.columns if name in used):
        values = frame[name].dropna().tolist()
        if may_identify(name, values):
            found.append("\n".join(_lines(name, len(set(values)), len(values))))
    return found


def _lines(name: str, different: int, n: int) -> list[str]:
    return [
        f"the column {name!r} may identify persons: it has {different:,} different values in "
        f"{n:,} rows.",
        "The risk: the rules of this site count rows, not persons. If each value belongs to one "
        "person, sums over this column can reveal this person, even if the person has several "
        "rows.",
        "If each value belongs to one person, deny this job, and add the column to the list "
        f"'identifiers' in {FILE}. Then no job can use this column.",
        "The page 'The rules of a site' explains this note (rule 22).",
    ]
