"""What a site lets go: its own `policy.toml`, read anew for every question, enforced at the site.

Each rule gives why something may not leave, or nothing.

Without that file everything may leave. A file that cannot be read, or is empty, cut short or
wrong in any setting, stops every answer: its last setting must be `complete = true`, which a
file lacks that was cut short on the way.
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
from ..._text import listed, nearest
from ...algorithms import catalogue

FILE = "policy.toml"
TABLES = {"newton": "moments: a Hessian of this site's rows, at every point asked for"}

REVEALS = {
    "columns": "names of columns, classes and category levels, and counts of rows",
    "gradient": "one sum over the rows per parameter; of very few rows it tells the rows",
    "bins": "counts of rows by prediction; a bin of one row tells of that row",
    "moments": "a gradient and a Hessian: more than a gradient, see hessian",
    "hessian": "sums of products of columns: spreads, correlations, counts of pairs of levels",
    "model": "what fits this site's rows alone; with fewer rows than parameters it can tell rows",
}


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


def methods() -> dict[str, str]:
    """What may be used here, and what each sends: regression tables, and the catalogue."""
    rows = catalogue.methods().values()
    return TABLES | {row.name: f"{row.sends}: {row.reveals}" for row in rows}


@dataclass(frozen=True)
class Policy:
    """None and 0 set no limit."""

    columns: tuple[str, ...] | None = None
    kinds: tuple[str, ...] | None = None
    methods: tuple[str, ...] | None = None
    min_rows: int = 0
    min_per_class: int = 0
    min_per_level: int = 0
    max_parameters_per_row: float | None = None
    min_sites: int = 0
    ask_before_sending: bool = False

    def __post_init__(self):
        for name in ("columns", "kinds", "methods"):
            _check_names(name, getattr(self, name))
        for name in ("min_rows", "min_per_class", "min_per_level", "min_sites"):
            value = getattr(self, name)
            if type(value) is not int or value < 0:
                raise PolicyError(f"{name} should be a whole number >= 0, got {value!r}")
        most = self.max_parameters_per_row
        if most is not None and (type(most) not in (int, float) or not 0 < most < math.inf):
            raise PolicyError(f"max_parameters_per_row should be a number > 0, got {most!r}")
        if type(self.ask_before_sending) is not bool:
            raise PolicyError(
                f"ask_before_sending should be true or false, got {self.ask_before_sending!r}"
            )

    def check(self, outgoing: Outgoing) -> None:
        """Raises `Refused`, in words without a value of the data: small counts are not told."""
        for rule in RULES.values():
            if reason := rule(self, outgoing):
                raise Refused(f"its policy does not allow {reason}")

    def visible(self, columns: Iterable[str]) -> tuple[str, ...]:
        """The columns of which a site may say that it has them."""
        return tuple(name for name in columns if self.columns is None or name in self.columns)


Check = Callable[[Outgoing], Policy]  # what may leave, by the policy that it is held against


def _check_names(name: str, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, tuple) or not all(isinstance(v, str) for v in value):
        raise PolicyError(f"{name} should be a list of names, got {value!r}")
    for item in value:
        if not _is_known(name, item):
            known = REVEALS if name == "kinds" else methods()
            raise PolicyError(f"{name} has an unknown {item!r}{nearest(item, known)}")


def _is_known(name: str, item: str) -> bool:
    """Any column may be named. Other packages are asked only for what is not ours."""
    if name == "methods":
        return item in TABLES or catalogue.find_method(item) is not None
    return name != "kinds" or item in REVEALS


Rule = Callable[[Policy, Outgoing], str]  # why not, or nothing


def _columns(policy: Policy, outgoing: Outgoing) -> str:
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


def _kinds(policy: Policy, outgoing: Outgoing) -> str:
    if policy.kinds is None or outgoing.kind in policy.kinds:
        return ""
    return f"the kind {outgoing.kind[:50]!r} (kinds = {list(policy.kinds)})"


def _methods(policy: Policy, outgoing: Outgoing) -> str:
    """Names of columns are sent before any method is."""
    if policy.methods is None or outgoing.kind == "columns" or outgoing.method in policy.methods:
        return ""
    return f"the method {outgoing.method[:50]!r} (methods = {list(policy.methods)})"


def _rows(policy: Policy, outgoing: Outgoing) -> str:
    least = policy.min_rows
    return f"fewer than {least} rows (min_rows = {least})" if outgoing.rows < least else ""


def _classes(policy: Policy, outgoing: Outgoing) -> str:
    """Where all rows are of one class, everyone's label is told: the other one has too few."""
    least, counts = policy.min_per_class, [n for n in outgoing.classes.values() if n > 0]
    if not outgoing.classes or (len(counts) > 1 and min(counts) >= least) or not least:
        return ""
    return f"a class with fewer than {least} rows (min_per_class = {least})"


def _levels(policy: Policy, outgoing: Outgoing) -> str:
    """A level that nobody here has tells of nobody."""
    least = policy.min_per_level
    few = lambda counts: any(0 < n < least for n in counts.values())
    for name, counts in outgoing.levels.items():
        if few(counts):
            which = _column(outgoing, name)
            return f"{which} with a level of fewer than {least} rows (min_per_level = {least})"
    return ""


def _parameters(policy: Policy, outgoing: Outgoing) -> str:
    most, parameters = policy.max_parameters_per_row, outgoing.parameters
    if most is None:
        return ""
    least = math.ceil(parameters / Fraction(repr(most)))  # as written: 7 / 0.07 is 100, not 101
    if outgoing.rows >= least:
        return ""
    return f"{parameters} parameters from fewer than {least} rows (max_parameters_per_row = {most})"


def _sites(policy: Policy, outgoing: Outgoing) -> str:
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


def load_policy(path: Path) -> Policy:
    if not path.exists():
        if path.is_symlink():
            raise PolicyError(f"{path}: is a link to a file that is not there")
        return Policy()
    values = read_toml(path, error=PolicyError)
    if list(values)[-1:] != ["complete"] or values.pop("complete") is not True:
        raise PolicyError(f"{path}: its last setting should be complete = true; was it cut short?")
    check_names(values, [field.name for field in dataclasses.fields(Policy)], path, PolicyError)
    plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    try:
        return Policy(**plain)
    except PolicyError as error:
        raise error.placed(file=str(path)) from None


def template() -> str:
    """A policy.toml without any limit, that explains each."""
    listing = lambda held: "\n".join(f"#   {name:10} {what}" for name, what in held.items())
    return _TEMPLATE.format(kinds=listing(REVEALS), methods=listing(methods()))


_TEMPLATE = """\
# What may leave this site. It is enforced here, before anything leaves, and read anew for every
# question. A setting behind a # sets no limit. While this file is wrong, nothing leaves.

# The columns that may enter an answer, the label among them.
# columns = ["age", "sex", "outcome"]

# What may leave. A Hessian or a model of one site reveals more than a sum over sites does:
{kinds}
# kinds = ["columns", "gradient"]

# The methods that may be used, and what each sends:
{methods}
# methods = ["newton"]

# Rows without which nothing leaves.
# min_rows = 50

# Rows that each class here must have; one class alone would tell the label of every row.
# min_per_class = 5

# Rows that each level of a category must have, unless it has none.
# min_per_level = 5

# Parameters per row; at 1 and above a model can reveal rows, so keep it well below.
# max_parameters_per_row = 0.2

# Sites that a sum must have. The coordinator says how many there are: a promise, not a proof.
# min_sites = 3

# Every answer waits in the folder outgoing until you approve it.
# ask_before_sending = true

# Must stay the last setting: it shows that this file was not cut short.
complete = true
"""
