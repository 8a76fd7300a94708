"""What a site lets go: its own `policy.toml`, read anew for every question, enforced at the site.

Each rule gives why something may not leave, or nothing. Without that file, and for each setting
that is not in it, the careful value holds: what is looser has to be written down. A file that
cannot be read, or is empty, cut short or wrong in any setting, stops every answer: its last setting
must be `complete = true`, which a file lacks that was cut short on the way.

A refusal is an answer, too. What does not depend on the rows is told by name; what does is told as
`told.REFUSED`, and explained in the site's own log alone.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._errors import PolicyError, Refused
from ..._settings import check_names, read_toml
from ..._text import listed, nearest, plural
from ._methods import REVEALS as REVEALS
from ._methods import is_method
from ._methods import methods as methods
from .told import NOT_ALLOWED, REFUSED

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


class Ruled(Refused):
    """Refused for what the rows are. Others are not told why: `rule` and `story` stay here."""

    def __init__(self, rule: str, story: str, told: str = REFUSED):
        super().__init__(told)
        self.rule, self.story = rule, story


def not_allowed(what: str, setting: str = "") -> Refused:
    return Refused(f"{NOT_ALLOWED} {what}" + (f" ({setting} in {FILE})" if setting else ""))


CHOICES = {
    "answers": ("sum", "each"),
    "approve": ("job", "answer", "none"),
    "constants": ("codebook", "any"),
    "small_cells": ("refuse", "sum"),
    "rare_values": ("warn", "refuse", "off"),
}
WIDER = ("min_rows", "min_per_class", "min_per_level")
WHOLE = (
    "min_support", *WIDER, "min_sites", "max_exchanges", "max_jobs_per_month", "max_parameters",
)  # fmt: skip


@dataclass(frozen=True)
class Policy:
    """The rules of a site. The defaults are careful. None and 0 mean that there is no limit, except
    for `min_rows`, `min_per_class` and `min_per_level`: there, None means `min_support`."""

    columns: tuple[str, ...] | None = None
    identifiers: tuple[str, ...] = ()
    kinds: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    answers: str = "sum"
    approve: str = "job"
    constants: str = "codebook"
    small_cells: str = "refuse"
    rare_values: str = "warn"
    training: bool = False
    max_share: float = 0.5
    max_leverage: float = 0.5
    min_support: int = 5
    min_rows: int | None = None
    min_per_class: int | None = None
    min_per_level: int | None = None
    min_sites: int = 3
    max_parameters_per_row: float = 0.1
    max_numbers_per_value: float = 1.0
    max_exchanges: int = 60
    max_jobs_per_month: int = 30
    max_parameters: int = 1000
    ask_before_sending: bool = False  # as approve = "answer", which came later

    def __post_init__(self):
        for name in ("columns", "identifiers", "kinds", "methods"):
            _check_names(name, getattr(self, name))
        for name, choices in CHOICES.items():
            if (value := getattr(self, name)) not in choices:
                raise PolicyError(f"{name} must be one of {listed(choices)}; got {value!r}")
        for name in WHOLE:
            value = getattr(self, name)
            if value is None and name in WIDER:
                value = self.min_support
                object.__setattr__(self, name, value)
            if type(value) is not int or value < 0:
                raise PolicyError(f"{name} must be a whole number >= 0, got {value!r}")
        for name in ("max_share", "max_leverage"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not 0 < value <= 1:
                raise PolicyError(f"need 0 < {name} <= 1, got {name} = {value!r}")
        for name in ("max_parameters_per_row", "max_numbers_per_value"):
            most = getattr(self, name)
            if type(most) not in (int, float) or not most > 0:
                raise PolicyError(f"{name} must be a number > 0, got {most!r}")
        for name in ("training", "ask_before_sending"):
            if type(value := getattr(self, name)) is not bool:
                raise PolicyError(f"{name} must be true or false, got {value!r}")
        if self.ask_before_sending:
            object.__setattr__(self, "approve", "answer")

    def check(self, outgoing: Outgoing) -> None:
        """Raises `Refused` (with words that contain no value of the data) or `Ruled`."""
        for name, rule in RULES.items():
            if not (reason := rule(self, outgoing)):
                continue
            story = f"{NOT_ALLOWED} {reason}"
            raise Ruled(name, story) if name in OF_VALUES else Refused(story)

    def visible(self, columns: Iterable[str]) -> tuple[str, ...]:
        """The columns of which a site may say that it has them."""
        return tuple(name for name in columns if self.columns is None or name in self.columns)


Check = Callable[[Outgoing], Policy]  # what may leave, by the policy that it is held against


def _check_names(name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, tuple) or not all(isinstance(v, str) for v in value):
        raise PolicyError(f"{name} must be a list of names, got {value!r}")
    for item in value:
        if not _is_known(name, item):
            known = REVEALS if name == "kinds" else methods()
            raise PolicyError(f"{name} has the unknown name {item!r}{nearest(item, known)}")


def _is_known(name: str, item: str) -> bool:
    """Any column may be named. Other packages are asked only for what is not ours."""
    if name == "methods":
        return is_method(item)
    return name != "kinds" or item in REVEALS


Rule = Callable[[Policy, Outgoing], str]  # why not, or nothing


def _columns(policy: Policy, outgoing: Outgoing) -> str:
    if policy.columns is None:
        return ""
    if not outgoing.columns:
        return "data without names of columns (columns in policy.toml)"
    other = [name for name in outgoing.columns if name not in policy.columns]
    return f"{_column(outgoing, *other)} (columns in policy.toml)" if other else ""


def _column(outgoing: Outgoing, *names: str) -> str:
    """By name, except where the question was for the names."""
    known = outgoing.kind != "columns"
    return f"the column {listed([name[:50] for name in names], 5)}" if known else "a column"


def _kinds(policy: Policy, outgoing: Outgoing) -> str:
    if policy.kinds is None and outgoing.kind == "values" and policy.min_support > 1:
        return "answers of the kind 'values', because kinds in policy.toml does not name this kind"
    if policy.kinds is None or outgoing.kind in policy.kinds:
        return ""
    return (
        f"answers of the kind {outgoing.kind[:50]!r} (kinds = {list(policy.kinds)} in policy.toml)"
    )


def _methods(policy: Policy, outgoing: Outgoing) -> str:
    """Names of columns are sent before any method is."""
    if policy.methods is None or outgoing.kind == "columns" or outgoing.method in policy.methods:
        return ""
    return f"the method {outgoing.method[:50]!r} (methods = {list(policy.methods)} in policy.toml)"


def _training(policy: Policy, outgoing: Outgoing) -> str:
    return "" if policy.training or not outgoing.trains else UNTRAINED


def _rows(policy: Policy, outgoing: Outgoing) -> str:
    least = limit(policy.min_rows)
    told = f"fewer than {plural(least, 'row')} (min_rows = {least})"
    return told if outgoing.rows < least else ""


def _classes(policy: Policy, outgoing: Outgoing) -> str:
    """Where all rows are of one class, everyone's label is told, unless only sums are read."""
    least, counts = limit(policy.min_per_class), [n for n in outgoing.classes.values() if n > 0]
    alone = len(counts) < 2 and outgoing.mode != "sum"
    if not outgoing.classes or not least or (not alone and min(counts, default=least) >= least):
        return ""
    return f"a class with fewer than {plural(least, 'row')} (min_per_class = {least})"


def _levels(policy: Policy, outgoing: Outgoing) -> str:
    """A level that nobody here has tells of nobody."""
    least = limit(policy.min_per_level)
    few = lambda counts: any(0 < n < least for n in counts.values())
    for name, counts in outgoing.levels.items():
        if few(counts):
            which = _column(outgoing, name)
            return f"{which} with a level of fewer than {least} rows (min_per_level = {least})"
    return ""


def _parameters(policy: Policy, outgoing: Outgoing) -> str:
    most, parameters = policy.max_parameters_per_row, outgoing.parameters
    if outgoing.mode == "sum" or math.isinf(most):  # of a sum the rows of the whole cohort count
        return ""
    least = math.ceil(parameters / Fraction(repr(most)))  # as written: 7 / 0.07 is 100, not 101
    if outgoing.rows >= least:
        return ""
    told = f"{plural(parameters, 'parameter')} from fewer than {plural(least, 'row')}"
    return f"{told} (max_parameters_per_row = {most})"


def _answers(policy: Policy, outgoing: Outgoing) -> str:
    """Names of columns are no answer from rows."""
    if outgoing.kind == "columns" or outgoing.mode == "sum" or policy.answers == "each":
        return ""
    return f"{OWN_ANSWERS} (answers = 'sum' in {FILE})"


def limit(least: int | None) -> int:
    return 0 if least is None else least


def _sites(policy: Policy, outgoing: Outgoing) -> str:
    """Names of columns are no sum."""
    if outgoing.kind == "columns" or outgoing.sites >= policy.min_sites:
        return ""
    told = f"a sum over only {plural(outgoing.sites, 'site')}"
    return f"{told} (min_sites = {policy.min_sites} in policy.toml)"


RULES: dict[str, Rule] = {
    "columns": _columns,
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
LOOSENED: dict[str, Any] = {  # in a trial, on data that nobody has to protect
    "answers": "each", "approve": "none", "constants": "any", "training": True,
    "min_support": 0, "min_sites": 2,
    "max_parameters_per_row": math.inf, "max_numbers_per_value": math.inf,
    "max_exchanges": 0, "max_jobs_per_month": 0, "max_parameters": 0,
}  # fmt: skip
LOOSE = Policy(**LOOSENED)


def load_policy(path: Path) -> Policy:
    """The policy in a file; without a file, the careful default."""
    if not path.exists():
        if path.is_symlink():
            raise PolicyError(f"{path} is a link to a file that does not exist")
        return Policy()
    values = read_toml(path, error=PolicyError)
    if list(values)[-1:] != ["complete"] or values.pop("complete") is not True:
        raise PolicyError(
            f"{path}: the last setting must be complete = true. Perhaps the file was cut short. If "
            "you added settings, put them above the line complete = true"
        )
    check_names(values, [field.name for field in dataclasses.fields(Policy)], path, PolicyError)
    plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    try:
        return Policy(**plain)
    except PolicyError as error:
        raise error.placed(file=str(path)) from None
