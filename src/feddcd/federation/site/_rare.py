"""Values that few rows have, in columns of which others can list the values, such as ages.

Sums over such a column are equations for how many rows have each value. Several jobs, with sums
that a dishonest site changed, tell the ends of a column exactly, and then the values next to them;
a model of counts or times tells all values of its outcome at once (docs/security.md). No rule on
one job stops that, but cap and step of the codebook do: then each value has k rows or more.

What is found says something of values: a person at the site reads it, and the site's own log.
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..._text import plural
from ...analysis.protocol import SiteRows
from ...data.capping import Capping, by_others, is_guessable, proposals
from ...data.draft import toml_key
from ...formula import read_formula
from .log_words import COULD_REFUSE
from .policy import Policy, Ruled

RULE = "rare_values"
AT_ONCE = ("poisson", "gamma", "inverse_gaussian", "negative_binomial")  # sums of logarithms leave
TRUST = "You can approve without a cap if you trust the coordinator and all sites of this job"
INSTEAD = (
    "To protect these rows, the coordinator has to leave the column out of the job, or to use a "
    "category with few levels"
)
MORE = "The page 'The rules of a site' explains this note (rule 21)"
Refuses = Callable[[Mapping[str, Capping]], str]  # which rule would refuse the job with these caps


class Numbers(NamedTuple):
    """Of a model: columns of numbers by name, as they enter it, and the table that they are of."""

    columns: Mapping[str, np.ndarray]
    table: Any = None


class Rare(NamedTuple):
    """Rows of the smallest and of the largest value, and how many values between have few rows."""

    smallest: int
    largest: int
    between: int


def numbers_of(rows: SiteRows, agreed: str, frame: Any, table: Any) -> Numbers:
    """`frame` has columns of the site's table as the codebook has them, and `agreed` what the sites
    agreed on. A description has none: it joins rare values by itself."""
    plan = rows.plan
    if not hasattr(plan, "formula"):
        return Numbers({})
    used = {*(json.loads(agreed).get("columns") or ()), plan.weight, plan.offset}
    if not rows.classes:
        used |= {*read_formula(plan.formula).left_columns}
    places = slice(None) if rows.places is None else rows.places
    there = [name for name in frame.columns if name in used and name not in rows.levels]
    numbers = [name for name in there if frame[name].dtype.kind in "iuf"]
    columns = {name: frame[name].to_numpy(float)[places] for name in numbers}
    return Numbers(columns, table.assign(**{name: frame[name] for name in numbers}))


def rare_in(x: np.ndarray, k: int) -> Rare | None:
    """None where each value has k rows or more, or the values cannot be listed."""
    if k < 2 or not is_guessable(x):
        return None
    counts = np.unique(x, return_counts=True)[1]
    few = int(np.sum(counts[1:-1] < k))
    found = Rare(int(counts[0]), int(counts[-1]), few)
    return None if min(found.smallest, found.largest) >= k and not few else found


def rare_notes(plan: Any, numbers: Numbers, k: int, refuses: Refuses) -> Iterator[list[str]]:
    """For the person who decides: what is rare, the risk, when it may be taken, what helps and what
    that costs. A column has one proposal, whatever the job is."""
    rare = {name: found for name, x in numbers.columns.items() if (found := rare_in(x, k))}
    outcomes = read_formula(plan.formula).left_columns if rare else ()
    parts = {name: by_others([numbers.table], name) for name in rare}
    caps = {name: each[0] for name, own in parts.items() if (each := proposals(own, k))}
    why = refuses(caps) if caps else ""
    for name, found in rare.items():
        at_once = name in outcomes and getattr(plan, "family", "") in AT_ONCE
        yield [
            f"rare values: in the column {name!r}, {_told(found, k)}.",
            f"The risk: {_risk(name, at_once)}.",
            f"{TRUST}.",
            f"{_remedy(name, caps.get(name), numbers.columns[name], why)}.",
            f"{MORE}.",
        ]


def _told(found: Rare, k: int) -> str:
    few = found.between + (found.smallest < k) + (found.largest < k)
    return f"{plural(few, 'value occurs', 'values occur')} in fewer than {k} rows"


def _risk(name: str, at_once: bool) -> str:
    if at_once:
        return (
            "the coordinator and all sites read the sums of this job. From these sums, they can "
            "calculate how many rows have each value"
        )
    return (
        "a coordinator that controls one of the sites can invent rows there. With several jobs on "
        f"{name!r}, such a coordinator can find out that one patient has a rare value"
    )


def _remedy(name: str, found: Capping | None, x: np.ndarray, why: str) -> str:
    if found is None:
        return f"feddcd found no cap for the {plural(len(x), 'row')} of this site. {INSTEAD}"
    lines = " and ".join(f"{what} = {value}" for what, value in found.plain().items())
    if why:
        rule = re.search(r"rule '\w+'", why)
        named = f" ({rule[0]})" if rule else ""
        perhaps, refuse = ("perhaps ", "could") if COULD_REFUSE in why else ("", "would")
        told = f"{lines} would protect these rows, but then the rules of this site {refuse} refuse"
        return f"A cap {perhaps}does not help here: {told} this job{named}. {INSTEAD}"
    low, high = found.ends
    beyond, capped = int(np.sum((x < low) | (x > high))), found.of(x)
    kept, left = 100 * float(np.corrcoef(capped, x)[0, 1]) ** 2, len(np.unique(capped))
    return (
        f"To protect these rows with a cap, write {lines} under [columns.{toml_key(name)}] in "
        "codebook.toml. All sites must use the same cap and step: if feddcd proposes another cap "
        "or step at another site, take the narrowest cap and the widest step. The cost: the cap "
        f"changes {beyond} of {len(x):,} values, to {low:g} or {high:g}. Of {len(np.unique(x))} "
        f"different values, {left} are left. The column keeps {kept:.0f} % of its variation"
    )


def warnings(policy: Policy, plan: Any, numbers: Numbers, refuses: Refuses) -> list[str]:
    """Where the policy warns."""
    if policy.rare_values != "warn":
        return []
    return ["\n".join(lines) for lines in rare_notes(plan, numbers, policy.min_support, refuses)]


def check_rare(policy: Policy, plan: Any, numbers: Numbers, refuses: Refuses) -> None:
    """Where the policy refuses."""
    if policy.rare_values != "refuse":
        return
    for first, *_, remedy, _more in rare_notes(plan, numbers, policy.min_support, refuses):
        raise Ruled(RULE, f"{first.removesuffix('.')}. {remedy.removesuffix('.')}")
