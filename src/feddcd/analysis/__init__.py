"""The regression table of the pooled data, without pooling the data."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import adding as adding
    from . import export as export
    from . import replay as replay
    from .estimator import FederatedGLM as FederatedGLM

__all__ = ["FederatedGLM"]


def __getattr__(name: str) -> Any:
    """The estimator brings scikit-learn with it, which a site does not need."""
    if name != "FederatedGLM":
        raise AttributeError(f"module 'feddcd.analysis' has no attribute {name!r}")
    from .estimator import FederatedGLM

    return FederatedGLM
