"""The local solvers by name: what each is, its settings, and how it is made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .._settings import Limit, number, whole, word
from ._base import AbstractLocalSolver, InexactOracle, Tolerance
from .first_order import SGD, GradientDescent, adam
from .lbfgs import LBFGS
from .newton import NewtonCG
from .variance_reduced import SAGA, SVRG


@dataclass(frozen=True)
class Solver:
    """`tol` and `delta` among the settings become the solver's `stop`."""

    about: str
    build: Callable[..., AbstractLocalSolver]
    settings: Mapping[str, Limit]
    defaults: Mapping[str, Any] = field(default_factory=dict)
    needs_rate: bool = False  # its step comes from a bound on the curvature, or is given as lr
    linear: bool = False  # for linear models only

    def make(self, settings: Mapping[str, Any]) -> AbstractLocalSolver:
        """Of settings that were checked; those of other names are left alone."""
        own = {**self.defaults, **{k: v for k, v in settings.items() if k in self.settings}}
        tol, delta = own.pop("tol", None), own.pop("delta", None)
        if delta is not None:
            own["stop"] = InexactOracle(delta)
        elif tol is not None:
            own["stop"] = Tolerance(tol)
        return self.build(**own)


_STOP: dict[str, Limit] = {"tol": number(positive=False), "delta": number()}
_LR: dict[str, Limit] = {"lr": number()}
_BATCHES: dict[str, Limit] = {"lr": number(), "epochs": whole(), "batch_size": whole()}

SOLVERS: dict[str, Solver] = {
    "newton": Solver(
        "Newton's method, which finds its directions by conjugate gradients; reaches any accuracy",
        NewtonCG,
        _STOP | {"max_steps": whole(), "space": word, "rank": whole(0)},
    ),
    "gd": Solver(
        "gradient descent with full gradients and a fixed step size",
        GradientDescent,
        _LR | _STOP | {"steps": whole()},
        needs_rate=True,
    ),
    "lbfgs": Solver(
        "L-BFGS with a line search: reaches any accuracy, for any smooth model",
        LBFGS,
        _STOP | {"max_steps": whole()},
    ),
    "sgd": Solver(
        "mini-batch SGD with a fixed step size, for a few epochs: not exact",
        SGD,
        _BATCHES,
        {"epochs": 5, "batch_size": 32},
        needs_rate=True,
    ),
    "adam": Solver(
        "Adam, or another optimizer of optax, on mini-batches: not exact",
        adam,
        _BATCHES,
        {"lr": 1e-3, "epochs": 5, "batch_size": 128},
    ),
    "svrg": Solver(
        "SGD with reduced variance and one full gradient in each epoch: reaches any accuracy",
        SVRG,
        _BATCHES | _STOP,
        needs_rate=True,
    ),
    "saga": Solver(
        "SGD with reduced variance that stores one prediction for each row, only for linear "
        "models: reaches any accuracy",
        SAGA,
        _LR | _STOP | {"epochs": whole()},
        needs_rate=True,
        linear=True,
    ),
}
