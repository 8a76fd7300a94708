"""Gradient descent: w ← w - η ∇f(w)."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from .. import tree
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ._base import AbstractFixedRateSolver, AbstractStop, LocalSolution, check_rate, step_length


class GradientDescent(AbstractFixedRateSolver):
    """w ← w - η ∇f(w), η = 1/β where `lr` is None; a step is one full gradient."""

    lr: float | None = None
    steps: int = 100  # at most; all of them where `stop` is None
    stop: AbstractStop | None = None

    def rate(self, f: AbstractProblem) -> Scalar:
        return step_length(self.lr, f)

    def prepare(self, f: AbstractProblem) -> AbstractProblem:
        check_rate(self.lr, f)
        return f

    def __call__(self, f: AbstractProblem, w: Params, key: Key) -> LocalSolution:
        del key
        eta = self.rate(f)

        def unsolved(s: _DescentPoint):
            return (s.grad_norm > bound) & (s.k < self.steps)

        def step(s: _DescentPoint) -> _DescentPoint:
            return _point(f, tree.axpy(-eta, s.g, s.w), s.k + 1)

        start = _point(f, w, jnp.zeros((), jnp.int32))
        bound = -1 if self.stop is None else self.stop(f, start.grad_norm)
        end = jax.lax.while_loop(unsolved, step, start)
        return LocalSolution(end.w, end.grad_norm, end.k)


class _DescentPoint(NamedTuple):
    w: Params
    g: Params
    grad_norm: Scalar
    k: Int[Array, ""]


def _point(f: AbstractProblem, w: Params, k: Int[Array, ""]) -> _DescentPoint:
    g = jax.grad(f)(w)
    return _DescentPoint(w, g, tree.norm(g), k)
