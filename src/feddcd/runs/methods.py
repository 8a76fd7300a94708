"""From the names and settings of a spec to an algorithm: each checked by its catalogue's row."""

from typing import Any

import jax
import numpy as np

from .._errors import SpecError
from .._text import nearest
from ..algorithms import AbstractAlgorithm, Given, Method
from ..algorithms.catalogue import get_method
from ..data import PARTITIONS
from ..data.federate import MODELS, WEIGHTINGS, Federated
from ..participation import PARTICIPATIONS
from ..solvers import SOLVERS, Solver
from .spec import Spec

NAMES: dict[str, set[str]] = {
    "model": set(MODELS),
    "weighting": set(WEIGHTINGS),
    "partition": set(PARTITIONS),
    "participation": {name.partition(":")[0] for name in PARTICIPATIONS},
}
WITH_PARAMETER = ("mlp", "dirichlet", "group", "available")


def check_names(spec: Spec, *, absences: bool = False) -> None:
    """Names, and the settings that each algorithm takes, before any data is read; `absences`
    says that clients may be away."""
    row = get_method(spec.algorithm.partition(":")[0])
    for kind, known in {"algorithm": {row.name}, **NAMES}.items():
        name, colon, _ = getattr(spec, kind).partition(":")
        if name not in known:
            raise SpecError(f"unknown {kind} {name!r}{nearest(name, known)}")
        if colon and name not in WITH_PARAMETER:
            raise SpecError(f"{kind} {name!r} takes no parameter, got {getattr(spec, kind)!r}")
    if spec.l2 <= 0 and row.needs_l2:
        raise SpecError(
            f"{spec.algorithm} needs strongly convex clients, so l2 > 0; got l2={spec.l2:g} "
            "(fednewton works with l2=0)"
        )
    if absences and row.needs_everyone:
        raise SpecError(f"{row.name} needs everyone in every round, and sites come and go")
    known = {*row.settings}
    if row.solver is not None:
        known |= {"solver", *_solver(spec, row).settings}
    for key in spec.settings:
        if key not in known:
            raise SpecError(f"{spec.algorithm} has no setting {key!r}{nearest(key, known)}")


def make_algorithm(spec: Spec, N: int, tau: int, federated: Federated) -> AbstractAlgorithm:
    row = get_method(spec.algorithm)
    own = {k: row.settings[k](k, v) for k, v in spec.settings.items() if k in row.settings}
    if row.needs_everyone:
        _check_everyone(spec, N, tau)
    if row.matrix_up_to is not None:
        _check_size(row, row.matrix_up_to, federated)
    if row.needs_rate:
        _check_rate(spec, federated, own)
    solver = None if row.solver is None else _make_solver(spec, _solver(spec, row), federated)
    return row.make(Given(own, solver, tau, N, federated.w, _is_mlp(spec)))


def _solver(spec: Spec, row: Method) -> Solver:
    usual = row.solver_mlp if row.solver_mlp and _is_mlp(spec) else row.solver
    name = str(spec.settings.get("solver", usual))
    if name not in SOLVERS:
        raise SpecError(f"unknown solver {name!r}{nearest(name, SOLVERS)}")
    return SOLVERS[name]


def _make_solver(spec: Spec, solver: Solver, federated: Federated) -> Any:
    limits = solver.settings
    own = {k: limits[k](k, v) for k, v in spec.settings.items() if k in limits}
    if solver.linear and _is_mlp(spec):
        raise SpecError(f"saga works with linear models, not {spec.model}: use svrg or adam")
    if solver.needs_rate:
        _check_rate(spec, federated, own)
    return solver.make(own)


def _is_mlp(spec: Spec) -> bool:
    return spec.model.startswith("mlp")


def _check_everyone(spec: Spec, N: int, tau: int) -> None:
    if tau < N or spec.loss > 0 or spec.participation.startswith("available"):
        raise SpecError(
            f"{spec.algorithm} needs everyone in every round: say participation=everyone and "
            f"loss=0; got participation={spec.participation}, tau={tau} of N={N}, "
            f"loss={spec.loss:g}"
        )


def _check_size(row: Method, most: int, federated: Federated) -> None:
    p = sum(x.size for x in jax.tree.leaves(federated.w))
    if p > most:
        raise SpecError(
            f"{row.name} keeps a {p} x {p} matrix per client; it takes at most {most} parameters: "
            "use pointsaga"
        )


def _check_rate(spec: Spec, federated: Federated, settings: dict[str, Any]) -> None:
    if "lr" not in settings and not np.isfinite(federated.problem.loss_beta).all():
        raise SpecError(
            f"the {spec.model} model has no bound on its curvature to choose a step from: "
            f"say --set lr=0.01 (or another rate) for {spec.algorithm}"
        )
