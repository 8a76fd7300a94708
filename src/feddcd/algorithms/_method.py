"""What is said of a method by name: one row of the catalogue, kept in the method's own file."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, get_args

from .._errors import SpecError
from .._settings import Limit
from .._types import Params
from ..solvers import SOLVERS
from ._base import AbstractAlgorithm, Sends


class Given(NamedTuple):
    """What a method is made from."""

    settings: dict[str, Any]  # the method's own, checked
    solver: Any  # the local solver that was asked for; None where the row names none
    tau: int
    N: int
    w: Params  # any model, for its structure
    mlp: bool  # the model is a perceptron: no bounds, not convex


@dataclass(frozen=True, kw_only=True)
class Method:
    """A method as commands, policies, reports and tests know it."""

    name: str
    title: str  # as people call it
    about: str  # one line, for `feddcd list`
    reveals: str  # what an upload tells, for a site's policy.toml
    algorithm: type[AbstractAlgorithm]
    make: Callable[[Given], AbstractAlgorithm]
    exact: bool  # its fixed point is the optimum of the pooled data
    settings: Mapping[str, Limit] = field(default_factory=dict)
    solver: str | None = None  # the usual local solver; None: it takes none
    solver_mlp: str | None = None  # the usual one for perceptrons, if another
    needs_everyone: bool = False  # every client in every round
    needs_l2: bool = False  # strongly convex clients
    needs_rate: bool = False  # its step comes from a bound on the curvature, or is given as lr
    matrix_up_to: int | None = None  # parameters: it keeps a matrix of them per client
    look: tuple[str, str] | None = None  # colour and dash of its lines; None: any that is free
    usual: bool = False  # `feddcd compare` takes it unless methods are named

    def __post_init__(self):
        if not re.fullmatch(r"[a-z][a-z0-9]*", self.name):
            raise SpecError(f"a method's name is small letters and digits, not {self.name!r}")
        if getattr(self.algorithm, "sends", None) not in get_args(Sends):
            raise SpecError(f"{self.algorithm.__name__} should say what it sends: {_SENDS}")
        if missing := sorted(getattr(self.algorithm, "__abstractmethods__", ())):
            raise SpecError(f"{self.algorithm.__name__} lacks {', '.join(missing)}")
        for name in filter(None, (self.solver, self.solver_mlp)):
            if name not in SOLVERS:
                raise SpecError(f"{self.name} names the unknown solver {name!r}")
        taken = {"solver"}.union(*(row.settings for row in SOLVERS.values()))
        if self.solver is not None and (both := sorted(taken & set(self.settings))):
            raise SpecError(f"{self.name}: {', '.join(both)} is a setting of local solvers")

    @property
    def sends(self) -> Sends:
        return self.algorithm.sends


_SENDS = " or ".join(get_args(Sends))
