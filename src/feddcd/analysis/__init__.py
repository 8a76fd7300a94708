"""The regression table of the pooled data, without pooling the data."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import adding as adding
    from . import export as export
    from . import replay as replay
    from .describing import describe as describe
    from .estimator import FederatedGLM as FederatedGLM

__all__ = ["FederatedGLM", "describe"]


def __getattr__(name: str) -> Any:
    """The estimator brings scikit-learn with it, which a site does not need."""
    if name == "describe":
        from .describing import describe

        return describe
    if name != "FederatedGLM":
        raise AttributeError(f"module 'feddcd.analysis' has no attribute {name!r}")
    from .estimator import FederatedGLM

    return FederatedGLM
