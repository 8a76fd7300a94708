"""The algorithms and local solvers by name, with the settings that each takes."""

import math
from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from .. import algorithms as alg
from .. import solvers as sol
from ..data import PARTITIONS
from ..data.federate import MODELS, WEIGHTINGS, Federated
from ..participation import PARTICIPATIONS
from ..problems import AbstractProblem
from .spec import (Setting, Spec)
from .._errors import SpecError
from .._text import nearest

DUAL = ("feddcd", "accfeddcd", "pointsaga")
MAX_NEWTON_PARAMETERS = 2000
SOLVER_KEYS = {
    "newton": {"tol", "delta", "max_steps", "space", "rank"},
    "gd": {"lr", "steps", "tol", "delta"},
    "lbfgs": {"tol", "delta", "max_steps"},
    "sgd": {"lr", "epochs", "batch_size"},
    "adam": {"lr", "epochs", "batch_size"},
    "svrg": {"lr", "epochs", "batch_size", "tol", "delta"},
    "saga": {"lr", "epochs", "tol", "delta"},
}
ALGORITHM_KEYS = {
    "feddcd": {"eta", "start", "step"},
    "accfeddcd": {"kappa", "r", "eta", "sets", "start", "step"},
    "pointsaga": {"rho"},
    "fednewton": set(),
    "fedavg": set(),
    "fedprox": {"m"},
    "scaffold": {"option", "eta"},
    "mbsgd": {"lr", "batch_size"},
}
NAMES: dict[str, set[str]] = {
    "algorithm": set(alg.ALGORITHMS),
    "model": set(MODELS),
    "weighting": set(WEIGHTINGS),
    "partition": set(PARTITIONS),
    "participation": {name.partition(":")[0] for name in PARTICIPATIONS},
}
WITH_PARAMETER = ("mlp", "dirichlet", "group", "available")
WITHOUT_SOLVER = ("fednewton", "mbsgd")


def check_names(spec: Spec) -> None:
    """Names, and the settings that each algorithm takes, before any data is read."""
    for kind, known in NAMES.items():
        name, colon, _ = getattr(spec, kind).partition(":")
        if name not in known:
            raise SpecError(f"unknown {kind} {name!r}{nearest(name, known)}")
        if colon and name not in WITH_PARAMETER:
            raise SpecError(f"{kind} {name!r} takes no parameter, got {getattr(spec, kind)!r}")
    if spec.l2 <= 0 and spec.algorithm in DUAL:
        raise SpecError(
            f"{spec.algorithm} needs strongly convex clients, so l2 > 0; got l2={spec.l2:g} "
            "(fednewton works with l2=0)"
        )
    known = allowed_settings(spec)
    for key in spec.settings:
        if key not in known:
            raise SpecError(f"{spec.algorithm} has no setting {key!r}{nearest(key, known)}")


def allowed_settings(spec: Spec) -> set[str]:
    own = ALGORITHM_KEYS[spec.algorithm]
    if spec.algorithm in WITHOUT_SOLVER:
        return own
    name = solver_name(spec)
    if name not in SOLVER_KEYS:
        raise SpecError(f"unknown solver {name!r}{nearest(str(name), SOLVER_KEYS)}")
    return own | {"solver"} | SOLVER_KEYS[name]


def solver_name(spec: Spec) -> str:
    if spec.algorithm not in DUAL:
        default = "sgd"
    else:
        default = "adam" if spec.model.startswith("mlp") else "newton"
    return str(spec.settings.get("solver", default))


def make_algorithm(spec: Spec, N: int, tau: int, federated: Federated) -> alg.AbstractAlgorithm:
    settings = {k: v for k, v in spec.settings.items() if k in ALGORITHM_KEYS[spec.algorithm]}
    typed: dict[str, Any] = {key: _typed(key, value) for key, value in settings.items()}
    if "step" in typed:
        typed["weights"] = constant_step(typed.pop("step"))
    if spec.algorithm == "fednewton":
        parameters = sum(x.size for x in jax.tree.leaves(federated.w))
        if parameters > MAX_NEWTON_PARAMETERS:
            raise SpecError(
                f"fednewton keeps a {parameters} x {parameters} matrix per client; it takes at "
                f"most {MAX_NEWTON_PARAMETERS} parameters: use pointsaga"
            )
        return alg.FedNewton(federated.w)
    if spec.algorithm == "mbsgd":
        _need_rate(spec, federated, typed)
        return alg.MinibatchSGD(**typed)
    solver = make_solver(spec, federated)
    makers: dict[str, Callable[[], Any]] = {
        "feddcd": lambda: alg.FedDCD(solver, **_with_start(spec, typed)),
        "accfeddcd": lambda: alg.AccFedDCD(tau, N, solver, **_with_start(spec, typed)),
        "pointsaga": lambda: alg.PointSAGA(tau, N, solver, **typed),
        "fedavg": lambda: alg.FedAvg(solver),
        "fedprox": lambda: alg.FedProx(solver, **typed),
        "scaffold": lambda: alg.Scaffold(_fixed_rate(solver), **typed),
    }
    return makers[spec.algorithm]()


def make_solver(spec: Spec, federated: Federated) -> sol.AbstractLocalSolver:
    name = solver_name(spec)
    known: dict[str, Any] = {
        k: _typed(k, v) for k, v in spec.settings.items() if k in SOLVER_KEYS[name]
    }
    if name == "saga" and spec.model.startswith("mlp"):
        raise SpecError(f"saga works with linear models, not {spec.model}: use svrg or adam")
    if name in ("sgd", "svrg", "saga", "gd"):
        _need_rate(spec, federated, known)
    tol, delta = known.pop("tol", None), known.pop("delta", None)
    if delta is not None:
        known["stop"] = sol.InexactOracle(delta)
    elif tol is not None:
        known["stop"] = sol.Tolerance(tol)
    if name == "adam":
        known = {"lr": 1e-3, "epochs": 5, "batch_size": 128} | known
    elif name == "sgd":
        known = {"epochs": 5, "batch_size": 32} | known
    makers = {
        "newton": sol.NewtonCG, "gd": sol.GradientDescent, "lbfgs": sol.LBFGS, "sgd": sol.SGD,
        "adam": sol.adam, "svrg": sol.SVRG, "saga": sol.SAGA,
    }  # fmt: skip
    return makers[name](**known)


@cache
def constant_step(step: float) -> Callable[[AbstractProblem], jax.Array]:
    """`step` in place of α as the length of a dual step; one object for equal values."""
    return lambda f: jnp.full_like(f.mu, step)


def _with_start(spec: Spec, typed: dict[str, Any]) -> dict[str, Any]:
    return ({"start": "model"} if spec.model.startswith("mlp") else {}) | typed


def _need_rate(spec: Spec, federated: Federated, known: dict[str, Any]) -> None:
    if "lr" not in known and not np.isfinite(federated.problem.loss_beta).all():
        raise SpecError(
            f"the {spec.model} model has no bound on its curvature to choose a step from: "
            f"say --set lr=0.01 (or another rate) for {spec.algorithm}"
        )


def _fixed_rate(solver: sol.AbstractLocalSolver) -> sol.AbstractFixedRateSolver:
    if not isinstance(solver, sol.AbstractFixedRateSolver):
        raise SpecError(
            f"scaffold takes steps of one length: sgd or gd, not {type(solver).__name__}"
        )
    return solver


_POSITIVE = ("eta", "kappa", "r", "rho", "lr", "delta", "step")
_FLOATS = (*_POSITIVE, "m", "tol")
_LEAST = {
    "sets": 1, "option": 1, "batch_size": 1, "epochs": 1, "steps": 1, "max_steps": 1, "rank": 0
}  # fmt: skip


def _typed(key: str, value: Setting) -> Setting:
    if key in _FLOATS:
        number = float(value) if type(value) in (int, float) else math.nan
        if not 0 <= number < math.inf or (number == 0 and key in _POSITIVE):
            bound = "> 0" if key in _POSITIVE else ">= 0"
            raise SpecError(f"{key} should be a finite number {bound}, got {value!r}")
        if key == "r" and number > 1:
            raise SpecError(f"need 0 < r <= 1, got r={value}")
        return number
    if key in _LEAST:
        if isinstance(value, bool) or not isinstance(value, int) or value < _LEAST[key]:
            raise SpecError(f"{key} should be a whole number >= {_LEAST[key]}, got {value!r}")
        return value
    if not isinstance(value, str):
        raise SpecError(f"{key} should be a word, got {value!r}")
    return value
