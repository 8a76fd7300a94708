"""The rules of a site's policy: each gives why something may not leave, or nothing."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import TYPE_CHECKING

from ..._text import listed
from .disclosure import Outgoing

if TYPE_CHECKING:
    from .policy import Policy

Rule = Callable[["Policy", Outgoing], str]  # why not, or nothing


def _columns(policy: "Policy", outgoing: Outgoing) -> str:
    if policy.columns is None:
        return ""
    if not outgoing.columns:
        return "columns without names (columns)"
    other = [name for name in outgoing.columns if name not in policy.columns]
    return f"{_column(outgoing, *other)} (columns)" if other else ""


def _column(outgoing: Outgoing, *names: str) -> str:
    """By name, except where the question was for the names."""
    known = outgoing.kind != "columns"
    return f"the column {listed([name[:50] for name in names], 5)}" if known else "a column"


def _kinds(policy: "Policy", outgoing: Outgoing) -> str:
    if policy.kinds is None or outgoing.kind in policy.kinds:
        return ""
    return f"the kind {outgoing.kind[:50]!r} (kinds = {list(policy.kinds)})"


def _methods(policy: "Policy", outgoing: Outgoing) -> str:
    """Names of columns are sent before any method is."""
    if policy.methods is None or outgoing.kind == "columns" or outgoing.method in policy.methods:
        return ""
    return f"the method {outgoing.method[:50]!r} (methods = {list(policy.methods)})"


def _rows(policy: "Policy", outgoing: Outgoing) -> str:
    least = policy.min_rows
    return f"fewer than {least} rows (min_rows = {least})" if outgoing.rows < least else ""


def _classes(policy: "Policy", outgoing: Outgoing) -> str:
    """Where all rows are of one class, everyone's label is told: the other one has too few."""
    least, counts = policy.min_per_class, [n for n in outgoing.classes.values() if n > 0]
    if not outgoing.classes or (len(counts) > 1 and min(counts) >= least) or not least:
        return ""
    return f"a class with fewer than {least} rows (min_per_class = {least})"


def _levels(policy: "Policy", outgoing: Outgoing) -> str:
    """A level that nobody here has tells of nobody."""
    least = policy.min_per_level
    few = lambda counts: any(0 < n < least for n in counts.values())
    for name, counts in outgoing.levels.items():
        if few(counts):
            which = _column(outgoing, name)
            return f"{which} with a level of fewer than {least} rows (min_per_level = {least})"
    return ""


def _parameters(policy: "Policy", outgoing: Outgoing) -> str:
    most, parameters = policy.max_parameters_per_row, outgoing.parameters
    if most is None:
        return ""
    least = math.ceil(parameters / Fraction(repr(most)))  # as written: 7 / 0.07 is 100, not 101
    if outgoing.rows >= least:
        return ""
    return f"{parameters} parameters from fewer than {least} rows (max_parameters_per_row = {most})"


def _sites(policy: "Policy", outgoing: Outgoing) -> str:
    """Names of columns are no sum."""
    if outgoing.kind == "columns" or outgoing.sites >= policy.min_sites:
        return ""
    return f"a sum over {outgoing.sites} sites (min_sites = {policy.min_sites})"


RULES: dict[str, Rule] = {
    "columns": _columns,
    "kinds": _kinds,
    "methods": _methods,
    "min_rows": _rows,
    "min_per_class": _classes,
    "min_per_level": _levels,
    "max_parameters_per_row": _parameters,
    "min_sites": _sites,
}
