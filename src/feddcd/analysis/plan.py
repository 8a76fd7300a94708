"""The settings of a model, once for the estimator, the command and a federation's plan."""

import dataclasses
import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from .._errors import SpecError
from .._settings import check_names
from .._text import closest
from ..data.codebook import read_codebook
from ..formula import read_formula
from .families import SHARES, Family, family_of, known, known_link

CHOICES = {
    "algorithm": ("auto", "newton", "pointsaga"),
    "site_effects": ("none", "fixed"),
    "covariance": ("model", "HC0", "HC1", "HC2", "HC3", "cluster"),
    "missing": ("drop", "error"),
}
ANSWERS = ("sum", "each")


@dataclass(frozen=True)
class ModelSettings:
    """As FederatedGLM describes them; l2 is checked when the coefficients have names."""

    formula: str | None = None
    family: str = "binomial"
    link: str | None = None  # the family's first
    firth: bool = False  # of binomial with the logit link: a penalty for separated rows
    theta: float | None = None  # of negative_binomial, where it is known
    classes: list | None = None  # of an ordinal outcome in their order; of others, the base first
    l2: Any = 0.0
    tol: float = 1e-6
    algorithm: str = "auto"
    site_effects: str = "none"
    covariance: str = "model"
    missing: str = "drop"
    standardize: bool = False
    level: float = 0.95
    max_exchanges: int = 50
    latency: float = 0.1
    bandwidth: float = 1e7
    event: Any = None  # of an outcome of two words, the one that counts as 1; else the second
    answers: str | None = None  # sum: masked, so that only sums over sites are known; or each

    def __post_init__(self):
        object.__setattr__(self, "family", known(self.family))
        object.__setattr__(self, "link", known_link(self.family, self.link))
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                told = f"{name} must be one of {', '.join(choices)}; got {value!r}"
                raise SpecError(told + closest(str(value), choices))
        if not (is_real(self.tol) and 0 < self.tol < np.inf):
            raise SpecError(
                f"tol, in standard errors, must be a finite number > 0; got tol={self.tol!r}"
            )
        if self.answers not in (None, *ANSWERS):
            raise SpecError(f"the setting 'answers' must be 'sum' or 'each'; got {self.answers!r}")
        check_level("level", self.level)
        for name in ("latency", "bandwidth"):
            value = getattr(self, name)
            if not (is_real(value) and 0 < value < np.inf):
                raise SpecError(f"{name} must be a finite number above 0, got {name}={value!r}")
        if self.firth:
            _check_firth(self.firth, self.family, str(self.link), self.l2)
        if self.standardize is True and self.family == "ordinal":
            raise SpecError("the setting 'standardize' cannot be used with family='ordinal'")
        if self.theta is not None and self.family != "negative_binomial":
            raise SpecError("theta works only with family='negative_binomial'")
        if self.theta is not None and not (is_real(self.theta) and 0 < self.theta < np.inf):
            raise SpecError(f"theta must be a finite number above 0, got theta={self.theta!r}")
        if not isinstance(self.standardize, bool):
            raise SpecError(f"standardize must be True or False, got {self.standardize!r}")
        check_whole("max_exchanges", self.max_exchanges, 2)
        if self.event is not None:
            _check_event(self.event, self.family)
        if self.formula is not None:
            _check_formula(self.formula, self.family)
        if self.algorithm == "pointsaga" and not self.loss().canonical:
            raise SpecError(
                "algorithm='pointsaga' works only with gaussian, binomial, poisson and "
                "multinomial models with their usual links; use algorithm='newton'"
            )

    @property
    def needs_each(self) -> str:
        """What sums over all sites are not enough for, if anything."""
        return "site_effects" if self.site_effects == "fixed" else ""

    def loss(self, classes: Sequence[Any] | None = None) -> Family:
        found = family_of(self.family, self.link, self.theta, classes or self.classes or ())
        return found.penalised() if self.firth else found

    def to_dict(self) -> dict[str, Any]:
        """Without what is not set."""
        values = dataclasses.asdict(self)
        return {k: v for k, v in values.items() if v is not None and v not in ({}, [])}


@dataclass(frozen=True)
class RegressionPlan(ModelSettings):
    """What a job file and the [glm] part of federation.toml hold: weight and offset are columns,
    and levels the categories of a column, the first being the reference: where none are declared,
    all that the sites have, in order."""

    analysis: ClassVar[str] = "regression"

    weight: str | None = None
    offset: str | None = None
    cluster: str | None = None  # the column of clusters, each within one site
    complete: list[str] = field(default_factory=list)  # rows need a value there, beside the formula
    levels: dict[str, list] = field(default_factory=dict)
    go_on_without: bool = False  # sites that refuse in the midst of a job: a new one is founded
    codebook: dict[str, Any] = field(default_factory=dict)  # of its columns, as sites check them

    @staticmethod
    def from_dict(values: Any) -> "RegressionPlan":
        if not isinstance(values, dict):
            raise SpecError(
                f"glm: the settings must be a table of names and values, got {values!r}"
            )
        values = {name: value for name, value in values.items() if name != "analysis"}
        check_names(values, [f.name for f in dataclasses.fields(RegressionPlan)], "glm")
        if values.get("codebook"):  # with dates as words, as a message can carry them
            book = read_codebook(values["codebook"], "glm: codebook")
            values["codebook"] = book.to_dict()
        return RegressionPlan(**values)

    def __post_init__(self):
        if self.formula is None:
            raise SpecError(
                "glm: the formula is missing; write for example: formula = 'death ~ age + C(sex)'"
            )
        try:
            super().__post_init__()
        except SpecError as error:
            raise SpecError(f"glm: {error}") from None
        if not isinstance(self.levels, dict) or not all(
            isinstance(levels, list) and levels for levels in self.levels.values()
        ):
            raise SpecError(
                "glm: the setting 'levels' must have a list of levels for each column, for "
                "example levels = {sex = ['f', 'm']}"
            )
        for column, levels in self.levels.items():
            _check_names("levels", levels, f" of {column!r}")
        if self.classes is not None:
            _check_names("classes", self.classes)
        _check_l2(self.l2)
        if self.codebook:
            read_codebook(self.codebook, "glm: codebook")
        if not isinstance(self.complete, list) or not all(
            isinstance(c, str) for c in self.complete
        ):
            raise SpecError(
                "glm: the setting 'complete' must be a list of columns, for example complete = "
                "['age', 'crp']"
            )
        check_cluster(self.covariance, self.cluster)
        if type(self.go_on_without) is not bool:
            raise SpecError("glm: the setting 'go_on_without' must be true or false")
        for name in ("weight", "offset", "cluster"):
            if not isinstance(getattr(self, name), str | None):
                raise SpecError(f"glm: the setting {name!r} must be the name of a column")
        if self.family == "multinomial" and self.offset:
            raise SpecError("glm: an offset has no meaning for family='multinomial'")


def _check_names(what: str, given: Any, whose: str = "") -> None:
    """Levels or classes: what a message can carry, without duplicates."""
    fits = isinstance(given, list) and given and all(map(_is_plain, given))
    if not fits or len(set(given)) < len(given):
        raise SpecError(
            f"glm: {what}{whose} must be a list of different words or numbers, for example "
            f"['a', 'b']; got {given!s:.80}"
        )


def _is_plain(value: Any) -> bool:
    return isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))


def _check_l2(l2: Any) -> None:
    """Before the coefficients have names, so that a plan can be sent."""
    inner = list(l2.values()) if isinstance(l2, dict) else l2
    for value in inner if isinstance(inner, list) else [inner]:
        if not (is_real(value) and 0 <= value < np.inf):
            raise SpecError(f"glm: l2 must contain finite numbers >= 0, got {value!s:.80}")


def _check_formula(text: Any, family: str) -> None:
    formula = read_formula(text)
    if family == "multinomial" and formula.offsets:
        raise SpecError("an offset has no meaning for family='multinomial'")
    if family not in SHARES and formula.is_counts:
        raise SpecError(f"the outcome {formula.response} works only with {_shares()}")


def _check_firth(firth: Any, family: str, link: str, l2: Any) -> None:
    if firth is not True:
        raise SpecError(f"firth must be True or False, got {firth!r}")
    if (family, link) != ("binomial", "logit"):
        raise SpecError(
            f"firth works only with family='binomial' and link='logit', not with {family} "
            f"and {link}"
        )
    if not (is_real(l2) and l2 == 0):
        raise SpecError("firth is already a penalty: leave out <l2>", settings={"l2": None})


def _check_event(event: Any, family: str) -> None:
    if not _is_plain(event):
        raise SpecError(f"event must be a value of the outcome, got {event!r}")
    if family not in SHARES:
        raise SpecError(f"event={event!r} works only with {_shares()}")


def _shares() -> str:
    return " or ".join(f"family={family!r}" for family in SHARES)


def check_cluster(covariance: str, cluster: Any) -> None:
    """Refuses a column of clusters that nothing would look at."""
    if cluster is not None and covariance != "cluster":
        told = "<cluster> is given, but the standard errors do not use clusters: set <covariance>"
        raise SpecError(told, settings={"cluster": None, "covariance": "cluster"})


def check_simulation(absent: Any, random_state: Any) -> None:
    """What only a fit in one process has."""
    if not (is_real(absent) and 0 <= absent < 1):
        raise SpecError(
            "the setting 'absent' (the share of absent sites) must be at least 0 and below 1, "
            f"got absent={absent!r}"
        )
    check_whole("random_state", random_state, 0)


def check_level(name: str, value: Any) -> None:
    """Of intervals. Beyond, they are of no use, and their quantiles come to be infinite."""
    if not (is_real(value) and 0.5 <= value <= 0.9999):
        told = f"<{name}> must be from 0.5 to 0.9999, for example 0.95; got {value!r}"
        raise SpecError(told, settings={name: None})


def check_whole(name: str, value: Any, least: int) -> None:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or value < least:
        told = f"need a whole number <{name}> >= {least}, got {value!r}"
        raise SpecError(told, settings={name: None})


def is_real(x: Any) -> bool:
    return isinstance(x, numbers.Real) and not isinstance(x, bool)
