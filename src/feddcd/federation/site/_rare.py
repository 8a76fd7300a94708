"""Values that few rows have, in columns of which others can list the values, such as ages.

Sums over such a column are equations for how many rows have each value. Several jobs, with sums
that a dishonest site changed, tell the ends of a column exactly, and then the values next to them;
a model of counts or times tells all values of its outcome at once (docs/security.md). No rule on
one job stops that, but cap and step of the codebook do: then each value has k rows or more.

What is found says something of values: a person at the site reads it, and the site's own log.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._text import plural
from ...analysis.protocol import SiteRows
from ...data.capping import Capping, by_others, is_guessable, proposals
from ...data.draft import toml_key
from ...formula import read_formula
from .policy import Policy, Ruled

RULE = "rare_values"
AT_ONCE = ("poisson", "gamma", "inverse_gaussian", "negative_binomial")  # sums of logarithms leave
MOST_TRIED = 8  # proposals for each column that are tried with the job
NOBODY = (
    "feddcd found no cap and step that help with this number of rows: leave the column out, or use "
    "a category of few levels. The page docs/rules.md explains the rule rare_values"
)
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


def rare_notes(plan: Any, numbers: Numbers, k: int, refuses: Refuses) -> Iterator[str]:
    """For the person who decides: what is rare, why it matters, what helps."""
    rare = {name: found for name, x in numbers.columns.items() if (found := rare_in(x, k))}
    outcomes = read_formula(plan.formula).left_columns if rare else ()
    caps, why = _chosen({name: by_others([numbers.table], name) for name in rare}, k, refuses)
    for name, found in rare.items():
        at_once = name in outcomes and getattr(plan, "family", "") in AT_ONCE
        how = "this job alone" if at_once else "several jobs on this column together"
        told = f"in the column {name!r} {_told(found, k)}; {how} can reveal these rows"
        yield f"{told}. {_remedy(name, caps.get(name), why)}"


def _told(found: Rare, k: int) -> str:
    ends = {"largest": found.largest, "smallest": found.smallest}
    told = [f"the {end} value occurs in {plural(n, 'row')}" for end, n in ends.items() if n < k]
    if found.between:
        other = "other value occurs" if found.between == 1 else "other values occur"
        told.append(f"{found.between} {other if told else other[6:]} in fewer than {k} rows")
    return " and ".join(told)


def _chosen(
    columns: Mapping[str, Sequence[Sequence[np.ndarray]]], k: int, refuses: Refuses
) -> tuple[dict[str, Capping], str]:
    """One cap for each column, which follows from the table and not from the job. Where the rules
    refuse the job with all of them, the next ones: with all of those it is tried, too. Where none
    helps, the rule that refuses the last ones."""
    found = {name: each for name, parts in columns.items() if (each := proposals(parts, k))}
    most, why = max(map(len, found.values()), default=0), ""
    for level in range(min(most, MOST_TRIED)):
        caps = {name: each[min(level, len(each) - 1)] for name, each in found.items()}
        if not (why := refuses(caps)):
            return caps, ""
    return {}, why


def _remedy(name: str, found: Capping | None, why: str) -> str:
    if found is None:
        but = f" (with a cap, the rules of this site refuse this job: {why})" if why else ""
        return f"For the column {name!r}, {NOBODY}{but}"
    lines = " and ".join(f"{what} = {value}" for what, value in found.plain().items())
    return (
        f"To protect these rows, all sites can agree on {lines} under [columns.{toml_key(name)}] "
        "in codebook.toml (feddcd computed these numbers from the rows of this site)"
    )


def warnings(policy: Policy, plan: Any, numbers: Numbers, refuses: Refuses) -> list[str]:
    """Where the policy warns."""
    if policy.rare_values != "warn":
        return []
    return list(rare_notes(plan, numbers, policy.min_support, refuses))


def check_rare(policy: Policy, plan: Any, numbers: Numbers, refuses: Refuses) -> None:
    """Where the policy refuses."""
    if policy.rare_values != "refuse":
        return
    found: Sequence[str] = list(rare_notes(plan, numbers, policy.min_support, refuses))
    if found:
        raise Ruled(RULE, found[0])
