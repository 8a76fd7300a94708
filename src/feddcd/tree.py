"""Vector-space operations on pytrees: the only algebra the algorithms use."""

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, PyTree

from ._types import Params, Scalar


def zeros(x: Params) -> Params:
    return jax.tree.map(jnp.zeros_like, x)


def add(x: Params, y: Params) -> Params:
    return jax.tree.map(jnp.add, x, y)


def sub(x: Params, y: Params) -> Params:
    return jax.tree.map(jnp.subtract, x, y)


def scale(a: float | Scalar, x: Params) -> Params:
    return jax.tree.map(lambda xi: a * xi, x)


def axpy(a: float | Scalar, x: Params, y: Params) -> Params:
    """a x + y."""
    return jax.tree.map(lambda xi, yi: a * xi + yi, x, y)


def lerp(a: float | Scalar, x: Params, y: Params) -> Params:
    """(1 - a) x + a y."""
    return jax.tree.map(lambda xi, yi: (1 - a) * xi + a * yi, x, y)


def where(pred: Bool[Array, "..."], x: PyTree, y: PyTree) -> PyTree:
    """x where pred, else y; a vector of conditions runs along the leading axis."""
    spread = lambda xi: pred.reshape(pred.shape + (1,) * (xi.ndim - pred.ndim))
    return jax.tree.map(lambda xi, yi: jnp.where(spread(xi), xi, yi), x, y)


def dot(x: Params, y: Params) -> Scalar:
    return jax.tree.reduce(jnp.add, jax.tree.map(jnp.vdot, x, y))


def norm(x: Params) -> Scalar:
    return jnp.sqrt(dot(x, x))


def weighted_mean(xs: PyTree, weights: Float[Array, " n"]) -> PyTree:
    """Mean over the leading (client) axis."""
    p = weights / jnp.sum(weights)
    return jax.tree.map(lambda x: jnp.tensordot(p.astype(x.dtype), x, axes=1), xs)


def total(xs: PyTree) -> PyTree:
    """Sum over the leading (client) axis."""
    return jax.tree.map(lambda x: jnp.sum(x, 0), xs)


def stack(xs: Sequence[PyTree]) -> PyTree:
    """Trees of one structure as one, with a leading axis."""
    return jax.tree.map(lambda *x: jnp.stack(x), *xs)


def take(xs: PyTree, i: int | slice | Array) -> PyTree:
    """Client i (or the clients i) of what is stacked along the leading axis."""
    return jax.tree.map(lambda x: x[i], xs)


@jax.jit
def first(xs: PyTree) -> PyTree:
    """The first of what is stacked, by one program instead of one for each shape."""
    return take(xs, 0)


def all_finite(x: PyTree) -> Bool[Array, ""]:
    return jnp.all(jnp.array([jnp.all(jnp.isfinite(xi)) for xi in jax.tree.leaves(x)]))


def nbytes(x: PyTree) -> int:
    """Bytes of the arrays in x (or of their shapes, as `jax.eval_shape` gives them)."""
    return sum(xi.size * xi.dtype.itemsize for xi in jax.tree.leaves(x))
