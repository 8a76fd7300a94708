"""The file `policy.toml` of a site: what may leave. The site reads it again for every question.

Without this file, and for each setting that is not in it, the careful value holds: a looser value
has to be written down. A file that cannot be read, or is empty, cut short or wrong in any setting,
stops every answer. So its last setting must be `complete = true`, which a file lacks that was cut
short on the way.

A refusal is an answer, too. A reason that does not depend on the rows is sent by name. Otherwise
the site sends only `told.REFUSED`, and explains the reason in its own log.
"""

import dataclasses
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..._errors import PolicyError, Refused
from ..._settings import check_names, read_toml
from ..._text import closest, listed, nearest
from ._methods import REVEALS as REVEALS
from ._methods import doubtful_methods as doubtful_methods
from ._methods import is_method
from ._methods import methods as methods
from ._one_answer import FILE, OF_VALUES, RULES, Outgoing
from ._one_answer import OWN_ANSWERS as OWN_ANSWERS
from ._one_answer import UNTRAINED as UNTRAINED
from ._one_answer import limit as limit
from .told import NOT_ALLOWED, REFUSED


class Ruled(Refused):
    """Refused for what the rows are. Others do not hear why: `rule` and `story` stay here. A story
    that quotes a value has other words for the log of what left, and site.log has the story."""

    def __init__(self, rule: str, story: str, told: str = REFUSED, in_log: str = ""):
        super().__init__(told)
        self.rule, self.story, self.in_log = rule, story, in_log or story


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
    """The rules of a site, as its file policy.toml holds them. The defaults are careful.

    The values 0 and None mean that there is no limit. The exceptions are `min_rows`,
    `min_per_class` and `min_per_level`: there, None means the value of `min_support`. The page on
    the rules of a site explains each setting.

    Args:
        columns: The columns that may be used, with the outcome. None: all.
        identifiers: Columns that no formula may use.
        kinds: The kinds of answers that may leave. None: all except "values".
        methods: The methods that may be used. None: all.
        answers: "sum": the coordinator reads only sums over sites. "each": also this site's own.
        approve: A person approves each "job", each "answer", or nothing ("none").
        constants: Numbers in formulas come from the "codebook", or may be "any".
        small_cells: The site refuses cells of few rows ("refuse"), or lets them into a "sum".
        rare_values: A value that few rows have: "warn" the person, "refuse" the job, or "off".
        training: Whether the site answers trainings.
        max_share: The largest share of a sum that may come from the min_support - 1 rows with the
            largest contributions, above 0 and at most 1.
        max_leverage: The leverage of each row must be below this number, above 0 and at most 1.
        min_support: The least number of rows that a number may describe.
        min_rows: The least number of rows with which anything leaves.
        min_per_class: The least number of rows of each class that occurs at the site.
        min_per_level: The least number of rows of each level of a category that occurs there.
        min_sites: The least number of sites in a sum.
        max_parameters_per_row: The largest ratio of parameters to rows.
        max_numbers_per_value: How many numbers all jobs may reveal for each value of the file.
        max_exchanges: The largest number of different questions of one job.
        max_jobs_per_month: The largest number of jobs on one data file in 30 days.
        max_parameters: The largest number of parameters of all jobs on one data file together.
        ask_before_sending: An older word for `approve = "answer"`.

    Raises:
        PolicyError: A setting has a value that is not allowed.

    Examples:
        >>> from feddcd.federation.site.policy import Policy
        >>> Policy(min_support=10).min_rows
        10
    """

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
                told = f"the setting {name!r} must be one of {listed(choices)}; got {value!r}"
                raise PolicyError(told)
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
        """Raise an error if this answer may not leave the site.

        Args:
            outgoing: The description of the answer: its kind, its columns and its counts.

        Raises:
            Refused: The answer may not leave; the words contain no value of the data.
            Ruled: The same for a reason that depends on the rows, which only the site may read.

        Examples:
            >>> from feddcd.federation.site.policy import Outgoing, Policy
            >>> answer = Outgoing(
            ...     kind="gradient", method="newton", columns=("age", "death"), rows=40,
            ...     parameters=2, classes={}, levels={}, sites=2, arrays={}, mode="sum",
            ... )
            >>> Policy().check(answer)
            Traceback (most recent call last):
            feddcd._errors.Refused: its policy does not allow a sum over only 2 sites ...
        """
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
        raise PolicyError(f"the setting {name!r} must be a list of names, got {value!r}")
    for item in value:
        if not _is_known(name, item):
            known = REVEALS if name == "kinds" else methods()
            raise PolicyError(f"{name} has the unknown name {item!r}{nearest(item, known)}")


def _is_known(name: str, item: str) -> bool:
    """Any column may be named. Other packages are asked only for what is not ours."""
    if name == "methods":
        return is_method(item)
    return name != "kinds" or item in REVEALS


LOOSENED: dict[str, Any] = {  # in a trial, on data that nobody has to protect
    "answers": "each", "approve": "none", "constants": "any", "training": True,
    "min_support": 0, "min_sites": 2,
    "max_parameters_per_row": math.inf, "max_numbers_per_value": math.inf,
    "max_exchanges": 0, "max_jobs_per_month": 0, "max_parameters": 0,
}  # fmt: skip
LOOSE = Policy(**LOOSENED)


def load_policy(path: Path) -> Policy:
    """The policy in a file; without a file, the careful policy.

    Args:
        path: The file `policy.toml` of a site.

    Returns:
        The rules, checked.

    Raises:
        PolicyError: The file has an unknown setting or a wrong value, or was cut short.

    Examples:
        >>> from feddcd.federation.site.policy import load_policy
        >>> load_policy(Path("no-such-file.toml")).answers
        'sum'
    """
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
    known = [field.name for field in dataclasses.fields(Policy)]
    check_names(values, known, path, PolicyError, closest)
    plain: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    try:
        return Policy(**plain)
    except PolicyError as error:
        raise error.placed(file=str(path)) from None
