"""L and μ from the first round, for methods with steps that follow from them once and for all."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from .. import tree
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..problems import curvature as power_iteration
from ._base import Curvature


def first_look(
    f: AbstractProblem, points: tuple[Params, ...], t: Int[Array, ""], key: Key
) -> Curvature:
    """α, and in round 0 the largest curvature of f at any of the points: 20 power steps each."""
    if not points:
        return Curvature(f.alpha, jnp.zeros_like(f.mu))

    def estimate() -> Scalar:
        found = [power_iteration(f, w, key) for w in points]
        return jnp.max(jnp.stack(found)).astype(f.mu.dtype)

    return Curvature(f.alpha, jax.lax.cond(t == 0, estimate, lambda: jnp.zeros_like(f.mu)))


def kept(known: Curvature, mean: Curvature | None, t: Int[Array, ""]) -> Curvature:
    """The server's view: what the cohort of round 0 said."""
    return known if mean is None else tree.where(t == 0, mean, known)


def unknown(w: Params) -> Curvature:
    one = jnp.ones((), tree.dot(w, w).dtype)
    return Curvature(one, one)
