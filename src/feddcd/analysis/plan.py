"""A regression as settings: what a job file and the [glm] part of federation.toml hold."""

import dataclasses
from dataclasses import dataclass, field
from typing import Any

from .._errors import SpecError
from .._settings import check_names
from . import formula as formulas
from . import settings


@dataclass(frozen=True)
class Plan:
    """As FederatedGLM; weight and offset are columns, and levels the categories of a column, the
    first being the reference: where none are declared, all that the sites have, in order."""

    formula: str
    family: str = "binomial"
    l2: Any = 0.0
    tol: float = 0.01
    algorithm: str = "auto"
    site_effects: str = "none"
    covariance: str = "model"
    missing: str = "drop"
    standardize: bool = False
    max_exchanges: int = 50
    latency: float = 0.1
    bandwidth: float = 1e7
    weight: str | None = None
    offset: str | None = None
    levels: dict[str, list] = field(default_factory=dict)
    classes: list | None = None  # of a multinomial outcome, the base first

    @staticmethod
    def from_dict(values: Any) -> "Plan":
        if not isinstance(values, dict):
            raise SpecError(f"glm: need a table of settings, got {values!r}")
        check_names(values, [f.name for f in dataclasses.fields(Plan)], "glm")
        if "formula" not in values:
            raise SpecError("glm: a formula is missing, as in formula = 'death ~ age + C(sex)'")
        return Plan(**values)

    def to_dict(self) -> dict[str, Any]:
        """Without what is not set."""
        held = dataclasses.asdict(self)
        return {k: v for k, v in held.items() if v is not None and v != {}}

    def __post_init__(self):
        try:
            settings.check(dataclasses.asdict(self) | {"absent": 0.0, "random_state": 0})
            formulas.split(self.formula)
        except ValueError as error:
            raise SpecError(f"glm: {error}") from None
        if not isinstance(self.levels, dict) or not all(
            isinstance(levels, list) and levels for levels in self.levels.values()
        ):
            raise SpecError("glm: levels are lists by column, as in levels = {sex = ['f', 'm']}")
        for name in ("weight", "offset"):
            if not isinstance(getattr(self, name), str | None):
                raise SpecError(f"glm: {name} is the name of a column")
        if self.family == "multinomial" and (self.offset or "offset(" in self.formula):
            raise SpecError("glm: an offset has no meaning for family='multinomial'")
