"""Vector-space operations on pytrees, the only algebra the algorithms use; leaves by name."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from ._extras import needs

with needs("train"):
    import jax
    import jax.numpy as jnp
    from jaxtyping import Array, Bool, Float, PyTree

from ._errors import CodecError
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


def flatten(x: PyTree) -> dict[str, np.ndarray]:
    """The leaves by their key paths, as in "server.w.0"."""
    leaves, structure = jax.tree.flatten(x)
    return dict(zip(_names(structure), map(np.asarray, leaves), strict=True))


def names(x: PyTree) -> tuple[str, ...]:
    """Of the leaves, as `flatten` calls them; they may be shapes."""
    return _names(jax.tree.structure(x))


def restore(like: PyTree, arrays: Mapping[str, np.ndarray]) -> PyTree:
    """The inverse of `flatten`, with the structure of `like`; the first mismatch is named."""
    leaves, structure = jax.tree.flatten(like)
    expected = dict(zip(_names(structure), leaves, strict=True))
    if gone := sorted(set(expected) - set(arrays)):
        raise CodecError(f"the {_arrays(gone)} missing")
    if more := sorted(set(arrays) - set(expected)):
        raise CodecError(f"the {_arrays(more)} unknown here")
    for name, leaf in expected.items():
        want = leaf if isinstance(leaf, jax.ShapeDtypeStruct) else np.asarray(leaf)
        have, shape, dtype = arrays[name], want.shape, want.dtype
        if have.shape != shape or have.dtype != dtype:
            raise CodecError(
                f"{name} has the type and shape {have.dtype}{have.shape}, but {dtype}{shape} was "
                "expected"
            )
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise CodecError(
                f"{name} has the type {dtype}, but JAX works with 32 bits: set JAX_ENABLE_X64=1"
            )
    return jax.tree.unflatten(structure, [jnp.asarray(arrays[name]) for name in expected])


def _arrays(names: list[str]) -> str:
    return f"array {names[0]} is" if len(names) == 1 else f"arrays {', '.join(names[:5])} are"


def alike(leaf: Any) -> Any:
    """What decides how a leaf is traced: of an array, all but its numbers."""
    if not isinstance(leaf, jax.Array | np.ndarray):
        return leaf
    weak = getattr(leaf, "weak_type", False)
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, weak_type=weak)


@lru_cache
def _names(structure: Any) -> tuple[str, ...]:
    """Of the leaves of a tree of this structure, their key paths."""
    leaves = jax.tree_util.tree_leaves_with_path(structure.unflatten(range(structure.num_leaves)))
    path = lambda keys: jax.tree_util.keystr(keys, simple=True, separator=".")
    names = tuple(path(keys) for keys, _ in leaves)
    if len(set(names)) < len(names):
        raise CodecError(
            "two arrays of the tree would have the same name; rename the keys that contain a dot"
        )
    return names
