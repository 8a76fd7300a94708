"""Values that few rows have, in columns of which others can list the values, such as ages.

Sums over such a column are equations for how many rows have each value. Several jobs, with sums
that a dishonest site changed, tell the ends of a column exactly, and then the values next to them;
a model of counts or times tells all values of its outcome at once (docs/security.md). No rule on
one job stops that, but cap and step of the codebook do: then each value has k rows or more.

What is found says something of values: a person at the site reads it, and the site's own log.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..._text import plural
from ...analysis.protocol import SiteRows
from ...data.capping import is_guessable, proposal
from ...data.draft import toml_key
from ...formula import read_formula
from .policy import Policy, Ruled

RULE = "rare_values"
AT_ONCE = ("poisson", "gamma", "inverse_gaussian", "negative_binomial")  # sums of logarithms leave
NOBODY = (
    "no cap and step help: use a category, or leave the column out. The rule rare_values in "
    "docs/rules.md says more"
)


class Numbers(NamedTuple):
    """Of a model: columns of numbers by name, as they enter it, and the class of each row, if its
    outcome has classes."""

    columns: Mapping[str, np.ndarray]
    classes: np.ndarray | None = None

    def by_class(self, x: np.ndarray) -> list[np.ndarray]:
        own = np.zeros(len(x)) if self.classes is None else self.classes
        return [x[own == each] for each in np.unique(own)]


class Rare(NamedTuple):
    """Rows of the smallest and of the largest value, and how many values between have few rows."""

    smallest: int
    largest: int
    between: int


def numbers_of(rows: SiteRows, agreed: str, frame: Any) -> Numbers:
    """`frame` has the site's table as the codebook has it, and `agreed` what the sites agreed on. A
    description has none: it joins rare values by itself."""
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
    own = np.unique(rows.data.Y, axis=0, return_inverse=True)[1] if rows.classes else None
    return Numbers(columns, None if own is None else own.ravel())


def rare_in(x: np.ndarray, k: int) -> Rare | None:
    """None where each value has k rows or more, or the values cannot be listed."""
    if k < 2 or not is_guessable(x):
        return None
    counts = np.unique(x, return_counts=True)[1]
    few = int(np.sum(counts[1:-1] < k))
    found = Rare(int(counts[0]), int(counts[-1]), few)
    return None if min(found.smallest, found.largest) >= k and not few else found


def rare_notes(plan: Any, numbers: Numbers, k: int) -> Iterator[str]:
    """For the person who decides: what is rare, why it matters, what helps."""
    family = getattr(plan, "family", "")
    outcomes = read_formula(plan.formula).left_columns if numbers.columns else ()
    for name, x in numbers.columns.items():
        if (found := rare_in(x, k)) is None:
            continue
        at_once = name in outcomes and family in AT_ONCE
        how = "this job alone" if at_once else "several jobs on this column together"
        told = f"in the column {name!r} {_told(found, k)}; {how} can reveal these rows"
        yield f"{told}. {_remedy(name, x, numbers, k)}"


def _told(found: Rare, k: int) -> str:
    ends = {"largest": found.largest, "smallest": found.smallest}
    told = [f"the {end} value occurs in {plural(n, 'row')}" for end, n in ends.items() if n < k]
    if found.between:
        other = "other value occurs" if found.between == 1 else "other values occur"
        told.append(f"{found.between} {other if told else other[6:]} in fewer than {k} rows")
    return " and ".join(told)


def _remedy(name: str, x: np.ndarray, numbers: Numbers, k: int) -> str:
    """Best with k rows of each class, too: a model of this column alone tells them (rule 19)."""
    found = proposal(numbers.by_class(x), k) or proposal([x], k)
    if found is None:
        return f"For the column {name!r}, {NOBODY}"
    lines = " and ".join(f"{what} = {value}" for what, value in found.plain().items())
    return (
        f"To prevent this, all sites can agree on {lines} under [columns.{toml_key(name)}] in "
        "codebook.toml (these numbers follow from the rows of this site)"
    )


def warnings(policy: Policy, plan: Any, numbers: Numbers) -> list[str]:
    """Where the policy warns."""
    if policy.rare_values != "warn":
        return []
    return list(rare_notes(plan, numbers, policy.min_support))


def check_rare(policy: Policy, plan: Any, numbers: Numbers) -> None:
    """Where the policy refuses."""
    if policy.rare_values != "refuse":
        return
    found: Sequence[str] = list(rare_notes(plan, numbers, policy.min_support))
    if found:
        raise Ruled(RULE, found[0])
