"""L and μ as clients measure them: in some rounds, or once and for all in the first one."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from .. import tree
from .._types import Key, Params, Scalar
from ..problems import AbstractProblem
from ..problems import curvature as power_iteration
from ._base import Curvature


def probing(k: Int[Array, ""]) -> Bool[Array, ""]:
    """Whether curvature is asked for in round (or iteration) k: in 0, 1, 3, 7, 15, ... Far from the
    optimum it can be very different, and asking costs as much as a local solve."""
    return (k & (k + 1)) == 0


def probe(f: AbstractProblem, w: Params, asked: Bool[Array, ""], key: Key) -> Curvature:
    """f's curvature at w by 20 power steps, 0 where it is not asked for."""
    estimate = lambda: power_iteration(f, w, key).astype(f.mu.dtype)
    return Curvature(f.alpha, jax.lax.cond(asked, estimate, lambda: jnp.zeros_like(f.mu)))


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
