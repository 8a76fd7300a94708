"""The regression table of the pooled data, without pooling the data."""

from .estimator import FederatedGLM as FederatedGLM

__all__ = ["FederatedGLM"]
