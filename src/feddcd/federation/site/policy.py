"""What a site lets go: its own `policy.toml`, read anew for every question, enforced at the site.

Without that file everything may leave. A file that cannot be read, or is empty, cut short or
wrong in any setting, stops every answer: its last setting must be `complete = true`, which a
file lacks that was cut short on the way.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._errors import PolicyError, Refused
from ..._settings import check_names, read_toml
from ..._text import nearest
from ...algorithms import catalogue
from .disclosure import REVEALS, Outgoing
from .rules import RULES

FILE = "policy.toml"
TABLES = {"newton": "moments: a Hessian of this site's rows, at every point asked for"}


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
