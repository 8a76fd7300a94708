"""A line search from summed values, for methods with everyone present.

The server sends w, a direction p and a length t. Clients say f_i(w + s p) for the lengths s of a
grid, and the gradient at w + t p. If t is short enough by Armijo's rule, the gradient is there
already; else the longest length of the grid that is takes its place, and one exchange more.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from .. import tree
from .._types import Params, Scalar
from ..problems import AbstractProblem

GRID = tuple(4.0**-k for k in range(10))  # 1, 1/4, 1/16, ...
ARMIJO = 0.1


class Ray(NamedTuple):
    w: Params
    p: Params
    t: Scalar

    @property
    def point(self) -> Params:
        return tree.axpy(self.t, self.p, self.w)


class Along(NamedTuple):
    """f at the start and less that on the grid; as means over clients, of F/N."""

    start: Scalar
    rises: Float[Array, " k"]


def along(f: AbstractProblem, ray: Ray) -> Along:
    now = f(ray.w)
    lengths = jnp.asarray(GRID, now.dtype)
    return Along(now, jax.lax.map(lambda s: f(tree.axpy(s, ray.p, ray.w)) - now, lengths))


def judged(ray: Ray, g: Params, there: Params, seen: Along) -> tuple[Bool[Array, ""], Scalar]:
    """Whether the ray's length will do, and the length to try if not. `g` is the gradient at w,
    `there` at the ray's point. Near the optimum, where values are equal but for rounding, the
    slopes decide (Hager & Zhang 2005)."""
    lengths, slope = jnp.asarray(GRID, seen.rises.dtype), tree.dot(g, ray.p)
    fine = seen.rises <= ARMIJO * lengths * slope
    best = jnp.where(jnp.any(fine), lengths[jnp.argmax(fine)], 0)
    slack = 1e-14 * (1 + jnp.abs(seen.start))
    rise = seen.rises[jnp.argmin(jnp.abs(lengths - ray.t))]
    equal = (jnp.abs(rise) <= slack) & (tree.dot(there, ray.p) <= (2 * ARMIJO - 1) * slope)
    shorter = jnp.where((best > 0) & (best < ray.t), best, ray.t / 4)
    return (ray.t <= best) | equal | (ray.t <= GRID[-1]), shorter
