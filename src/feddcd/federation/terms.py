"""What all sites of a federation agree on: part of every task, and the ledger's first record."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import jax
import numpy as np

from .. import tree
from .._types import Params
from ..algorithms import AbstractAlgorithm
from ..data.agreement import Agreed, SiteData, select
from ..data.federate import Federated, dimensions, phantom, site_problem
from ..durable.shapes import Compiled, Shapes, shapes
from ..problems import AbstractProblem, with_stacks
from ..runs.build import default_dtype, make_algorithm
from ..runs.spec import Setting, Spec
from .config import AGREED
from .wire import lists, tuples


@dataclass(frozen=True)
class Terms:
    federation: str
    algorithm: str
    model: str
    l2: float
    weighting: str
    seed: int
    dtype: str
    clients: int  # at the founding; with tau it sets the constants of a method
    tau: int
    features: tuple[str, ...] | int
    classes: tuple[str, ...] | tuple[float, ...] | None
    settings: dict[str, Setting] = field(default_factory=dict)
    answers: str = "each"  # or sum, where only sums over cohorts can be read

    @staticmethod
    def make(federation: str, spec: Spec, agreed: Agreed, clients: int, answers: str) -> "Terms":
        tau = clients if spec.tau is None else min(spec.tau, clients)
        fixed = {name: getattr(spec, name) for name in AGREED}
        return Terms(
            federation=federation, clients=clients, tau=tau, answers=answers,
            **fixed, **agreed._asdict(),
        )  # fmt: skip

    @staticmethod
    def from_json(values: dict[str, Any]) -> "Terms":
        return Terms(**{name: tuples(value) for name, value in values.items()})

    def to_json(self) -> dict[str, Any]:
        return {name: lists(value) for name, value in dataclasses.asdict(self).items()}

    @property
    def agreed(self) -> Agreed:
        return Agreed(self.features, self.classes)

    @property
    def spec(self) -> Spec:
        return Spec(**{name: getattr(self, name) for name in AGREED})

    @property
    def double(self) -> bool:
        return _dtype(self.spec) is np.float64


def _dtype(spec: Spec) -> type:
    named = {"float32": np.float32, "float64": np.float64}
    return named.get(spec.dtype, default_dtype(spec))


class Learner(NamedTuple):
    """The terms as objects that compute."""

    algorithm: AbstractAlgorithm
    f: AbstractProblem
    w: Params
    like: Shapes
    key: jax.Array


def server_learner(terms: Terms) -> Learner:
    """Without data: a problem with one empty row stands in for the sites'."""
    return _learner(terms, _stand_in(terms, 1.0))


def joining_problem(terms: Terms, rows: int) -> AbstractProblem:
    """A problem with a site's weight and nothing else: the same whoever else takes part."""
    total = float(rows) if terms.weighting == "samples" else 1.0
    return tree.first(_stand_in(terms, total).problem)


def weights_of(learner: Learner, terms: Terms, rows: Mapping[str, int]) -> dict[str, float]:
    """Of the members' uploads in the mean, from the numbers of their rows."""
    weigh = lambda n: float(learner.algorithm.weight(joining_problem(terms, n)))
    known = {n: weigh(n) for n in set(rows.values())}
    return {name: known[n] for name, n in rows.items()}


def _stand_in(terms: Terms, row: float) -> Federated:
    d, k = dimensions(terms.agreed, terms.model)
    return phantom(
        d, k, model=terms.model, l2=terms.l2, scale=row, dtype=_dtype(terms.spec), seed=terms.seed
    )


def site_learner(terms: Terms, site: SiteData, scale: float | None) -> Learner:
    """`scale` is the weight of a row; None counts each site's rows to 1."""
    problem = site_problem(
        select(site, terms.features), terms.agreed, model=terms.model, l2=terms.l2, scale=scale,
        dtype=_dtype(terms.spec), seed=terms.seed,
    )  # fmt: skip
    return _learner(terms, problem)


def _learner(terms: Terms, federated: Federated) -> Learner:
    algorithm = make_algorithm(terms.spec, terms.clients, terms.tau, federated)
    f = tree.first(with_stacks(federated.problem, algorithm.prepare))
    like = shapes(algorithm, f, federated.w)
    compiled: Any = Compiled(algorithm)
    return Learner(compiled, f, federated.w, like, jax.random.key(terms.seed))


def scale(terms: Terms, rows: list[int]) -> float | None:
    """The weight of one row, from the rows of all members."""
    return len(rows) / sum(rows) if terms.weighting == "samples" else None
