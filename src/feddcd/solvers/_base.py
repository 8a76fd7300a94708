"""A client's way of minimising its local problem, exactly or not."""

import abc
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from .._errors import SpecError
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem


class LocalSolution(NamedTuple):
    w: Params
    grad_norm: Scalar  # |∇f(w)| of the w that is returned, computed from it
    steps: Int[Array, ""]  # in the solver's own unit, said in its docstring


class AbstractStop(eqx.Module):
    """When a solver may stop: once |∇f(w)| is at most this."""

    @abc.abstractmethod
    def __call__(self, f: AbstractProblem, given: Scalar) -> Scalar:
        """The bound on |∇f(w)|; `given` is its value at the warm start."""


class Tolerance(AbstractStop):
    """|∇f(w)| <= tol; by default 1e-9, or 1e-4 in single precision."""

    tol: float | None = None

    def __call__(self, f: AbstractProblem, given: Scalar) -> Scalar:
        default = 1e-9 if given.dtype == jnp.float64 else 1e-4
        return jnp.asarray(default if self.tol is None else self.tol, given.dtype)


class InexactOracle(AbstractStop):
    """The paper's δ-inexact oracle: |∇f(out)| <= sqrt(δ) (α/β) |∇f(given)|, which implies
    |out - w*|² <= δ |given - w*|² because α |w - w*| <= |∇f(w)| <= β |w - w*|."""

    delta: float

    def __check_init__(self):
        if not 0 < self.delta < 1:
            raise SpecError(f"need 0 < delta < 1, got delta={self.delta}")

    def __call__(self, f: AbstractProblem, given: Scalar) -> Scalar:
        return self.delta**0.5 * f.alpha / f.beta * given


class AbstractLocalSolver(eqx.Module):
    @abc.abstractmethod
    def __call__(self, f: AbstractProblem, w: Params, key: Key) -> LocalSolution:
        """An approximate minimiser of f, started from w."""

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        """All clients' problems (stacked) with whatever the solver computes once; no jit."""
        return f


class AbstractFixedRateSolver(AbstractLocalSolver):
    """A solver with steps of one length, as SCAFFOLD's control variates need."""

    @abc.abstractmethod
    def rate(self, f: AbstractProblem) -> Scalar:
        """The length of a step."""


def step_length(lr: float | None, f: AbstractProblem, usual: Scalar | None = None) -> Scalar:
    """lr or, where none is given, the usual one or 1/β."""
    if lr is not None:
        return jnp.asarray(lr, f.beta.dtype)
    return 1 / f.beta if usual is None else usual


def check_rate(lr: float | None, f: AbstractProblem) -> AbstractProblem:
    """f; refuses to take 1/β where β is not known; not for use under jit."""
    if lr is None and not np.all(np.isfinite(f.beta)):
        raise SpecError(
            "feddcd cannot compute a step size here, because the curvature of "
            f"{type(f).__name__} has no known bound: give lr"
        )
    return f
