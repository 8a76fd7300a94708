"""Federated optimisation from the dual side. Names are resolved when first used."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ._errors import DivergedWarning as DivergedWarning
    from .analysis import FederatedGLM as FederatedGLM
    from .analysis import describe as describe
    from .data import DataError as DataError
    from .data import Dataset as Dataset
    from .data import load as load
    from .data import partition as partition
    from .estimators import FederatedLogisticRegression as FederatedLogisticRegression
    from .estimators import FederatedPoissonRegressor as FederatedPoissonRegressor
    from .estimators import FederatedRidge as FederatedRidge
    from .history import History as History
    from .runs.api import compare as compare
    from .runs.api import repeat as repeat
    from .runs.api import resume as resume
    from .runs.api import run as run
    from .runs.comparison import Comparison as Comparison
    from .runs.comparison import Repeats as Repeats
    from .runs.result import Result as Result
    from .runs.spec import Spec as Spec

__version__ = "0.2.0"

_NAMES = {
    "_errors": "DivergedWarning",
    "analysis": "FederatedGLM describe",
    "data": "DataError Dataset load partition",
    "estimators": "FederatedLogisticRegression FederatedPoissonRegressor FederatedRidge",
    "history": "History",
    "runs.api": "compare repeat resume run",
    "runs.comparison": "Comparison Repeats",
    "runs.result": "Result",
    "runs.spec": "Spec",
}
_WHERE = {name: module for module, names in _NAMES.items() for name in names.split()}
_MODULES = ("algorithms", "data", "measure", "participation", "problems", "simulator", "solvers")


def __getattr__(name: str) -> Any:
    try:
        if name in _WHERE:
            return getattr(import_module(f".{_WHERE[name]}", __name__), name)
        if name in _MODULES:
            return import_module(f".{name}", __name__)
    except ModuleNotFoundError as error:
        from ._extras import explained

        raise explained(error) or error from None
    raise AttributeError(f"module 'feddcd' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_WHERE, *_MODULES, "__version__"])
