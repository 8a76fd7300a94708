"""L-BFGS with a zoom line search, as optax has it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Bool, Int

from .. import tree
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ._base import AbstractLocalSolver, AbstractStop, LocalSolution, Tolerance


class LBFGS(AbstractLocalSolver):
    """Quasi-Newton steps for any smooth problem; a step is one line search.

    Stops as well when neither the value nor the gradient decreases (rounding), and never
    returns a point that is worse than the warm start or not finite.
    """

    stop: AbstractStop = Tolerance()
    max_steps: int = 200
    memory: int = 10

    def __call__(self, f: AbstractProblem, w: Params, key: Key) -> LocalSolution:
        del key
        value, g = jax.value_and_grad(f)(w)
        eps = float(jnp.finfo(value.dtype).eps)
        optimizer = _optimizer(self.memory, eps)
        bound = self.stop(f, tree.norm(g))

        def unsolved(s: _LBFGSPoint):
            return (s.grad_norm > bound) & (s.k < self.max_steps) & s.progress

        zero = jnp.zeros((), jnp.int32)
        start = _LBFGSPoint(w, value, g, tree.norm(g), optimizer.init(w), zero, jnp.array(True))
        end = jax.lax.while_loop(unsolved, lambda s: _step(f, optimizer, s), start)
        worse = ~(end.value <= start.value + 16 * eps * jnp.abs(start.value))
        w = tree.where(worse, w, end.w)
        return LocalSolution(w, tree.norm(jax.grad(f)(w)), end.k)


class _LBFGSPoint(NamedTuple):
    w: Params
    value: Scalar
    g: Params
    grad_norm: Scalar
    memory: optax.OptState
    k: Int[Array, ""]
    progress: Bool[Array, ""]


def _optimizer(memory: int, eps: float) -> optax.GradientTransformationExtraArgs:
    # optax would let the value rise by 1e-6 of itself; here by rounding only
    search = optax.scale_by_zoom_linesearch(
        max_linesearch_steps=30, approx_dec_rtol=64 * eps, initial_guess_strategy="one"
    )
    return optax.lbfgs(memory_size=memory, linesearch=search)


def _step(f: AbstractProblem, optimizer: optax.GradientTransformationExtraArgs, s: _LBFGSPoint):
    move, memory = optimizer.update(
        s.g, s.memory, s.w, value=s.value, grad=s.g, value_fn=lambda w: f(w)
    )
    w = optax.apply_updates(s.w, move)
    value = optax.tree_utils.tree_get(memory, "value")
    g = optax.tree_utils.tree_get(memory, "grad")
    norm = tree.norm(g)
    better = (value < s.value) | (norm < s.grad_norm)
    better = better & tree.all_finite((w, value, g))
    new = _LBFGSPoint(w, value, g, norm, memory, s.k + 1, better)
    return tree.where(better, new, s._replace(k=s.k + 1, progress=better))
