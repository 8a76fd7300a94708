"""The rules of a policy on one answer, as far as its description alone decides.

Each rule gives why the answer may not leave, or nothing.
"""

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..._text import listed, plural

if TYPE_CHECKING:
    from .policy import Policy

FILE = "policy.toml"
OWN_ANSWERS = "answers of this site alone; others may read only sums over sites"
UNTRAINED = "trainings (training = false in policy.toml)"


class Outgoing(NamedTuple):
    """What is about to leave. A count that is left out here is not guarded."""

    kind: str  # one of REVEALS
    method: str
    columns: tuple[str, ...]  # that enter, the label included; () where they have no names
    rows: int  # that enter
    parameters: int
    classes: Mapping[str, int]  # label: its rows here; empty where it is a number
    levels: Mapping[str, Mapping[str, int]]  # category column: level: its rows here
    sites: int  # in the sum, as the coordinator says
    arrays: Mapping[str, np.ndarray]
    mode: str = "each"  # or sum, where only a sum over sites can be read
    trains: bool = False  # in rounds, each at a point that the sums before it led to
    complete: tuple[str, ...] = ()  # of the columns: those of which no sum is made
    sent: Mapping[str, Any] = {}  # of kind columns: the names, levels and classes that leave


Rule = Callable[["Policy", Outgoing], str]  # why not, or nothing


def _columns(policy: "Policy", outgoing: Outgoing) -> str:
    if policy.columns is None:
        return ""
    if not outgoing.columns:
        told = "data without names of columns, because the policy lists the allowed columns"
        return f"{told} (columns in policy.toml)"
    other = [name for name in outgoing.columns if name not in policy.columns]
    return f"{_column(outgoing, *other)} (columns in policy.toml)" if other else ""


def _identifiers(policy: "Policy", outgoing: Outgoing) -> str:
    if not (own := [name for name in outgoing.columns if name in policy.identifiers]):
        return ""
    why = "because this column is an identifier (setting 'identifiers' in policy.toml)"
    return f"{_column(outgoing, *own)}, {why}"


def _column(outgoing: Outgoing, *names: str) -> str:
    """By name, except where the question was for the names."""
    known = outgoing.kind != "columns"
    return f"the column {listed([name[:50] for name in names], 5)}" if known else "a column"


def _kinds(policy: "Policy", outgoing: Outgoing) -> str:
    if policy.kinds is None and outgoing.kind == "values" and policy.min_support > 1:
        told = "answers of the kind 'values', because the policy does not list this kind"
        return f"{told} (kinds in policy.toml)"
    if policy.kinds is None or outgoing.kind in policy.kinds:
        return ""
    return (
        f"answers of the kind {outgoing.kind[:50]!r} (kinds = {list(policy.kinds)} in policy.toml)"
    )


def _methods(policy: "Policy", outgoing: Outgoing) -> str:
    """Names of columns are sent before any method is."""
    if policy.methods is None or outgoing.kind == "columns" or outgoing.method in policy.methods:
        return ""
    return f"the method {outgoing.method[:50]!r} (methods = {list(policy.methods)} in policy.toml)"


def _training(policy: "Policy", outgoing: Outgoing) -> str:
    return "" if policy.training or not outgoing.trains else UNTRAINED


def _rows(policy: "Policy", outgoing: Outgoing) -> str:
    least = limit(policy.min_rows)
    told = f"fewer than {plural(least, 'row')} (min_rows = {least})"
    return told if outgoing.rows < least else ""


def _classes(policy: "Policy", outgoing: Outgoing) -> str:
    """Where all rows are of one class, everybody's class is known, unless only sums are read."""
    least, counts = limit(policy.min_per_class), [n for n in outgoing.classes.values() if n > 0]
    alone = len(counts) < 2 and outgoing.mode != "sum"
    if not outgoing.classes or not least or (not alone and min(counts, default=least) >= least):
        return ""
    told = "rows of only one class" if alone else f"a class with fewer than {plural(least, 'row')}"
    return f"{told} (min_per_class = {least})"


def _levels(policy: "Policy", outgoing: Outgoing) -> str:
    """A level that nobody here has reveals nobody."""
    least = limit(policy.min_per_level)
    few = lambda counts: any(0 < n < least for n in counts.values())
    for name, counts in outgoing.levels.items():
        if few(counts):
            which = _column(outgoing, name)
            return f"{which} with a level of fewer than {least} rows (min_per_level = {least})"
    return ""


def _parameters(policy: "Policy", outgoing: Outgoing) -> str:
    most, parameters = policy.max_parameters_per_row, outgoing.parameters
    if outgoing.mode == "sum" or math.isinf(most):  # of a sum the rows of the whole cohort count
        return ""
    least = math.ceil(parameters / Fraction(repr(most)))  # as written: 7 / 0.07 is 100, not 101
    if outgoing.rows >= least:
        return ""
    told = f"{plural(parameters, 'parameter')} from fewer than {plural(least, 'row')}"
    return f"{told} (max_parameters_per_row = {most})"


def _answers(policy: "Policy", outgoing: Outgoing) -> str:
    """Names of columns are no answer from rows."""
    if outgoing.kind == "columns" or outgoing.mode == "sum" or policy.answers == "each":
        return ""
    return f"{OWN_ANSWERS} (answers = 'sum' in {FILE})"


def limit(least: int | None) -> int:
    return 0 if least is None else least


def _sites(policy: "Policy", outgoing: Outgoing) -> str:
    """Names of columns are no sum."""
    if outgoing.kind == "columns" or outgoing.sites >= policy.min_sites:
        return ""
    told = f"a sum over only {plural(outgoing.sites, 'site')}"
    return f"{told} (min_sites = {policy.min_sites} in policy.toml)"


RULES: dict[str, Rule] = {
    "columns": _columns,
    "identifiers": _identifiers,
    "kinds": _kinds,
    "methods": _methods,
    "training": _training,
    "answers": _answers,
    "min_sites": _sites,
    "min_rows": _rows,
    "min_per_class": _classes,
    "min_per_level": _levels,
    "max_parameters_per_row": _parameters,
}
OF_VALUES = ("min_rows", "min_per_class", "min_per_level", "max_parameters_per_row")
