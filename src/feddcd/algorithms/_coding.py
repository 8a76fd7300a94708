"""Numbers in fewer bits, and parts of an upload that travel only now and then.

    unit = max |x| / (2^(bits-1) - 1),    q = floor(x / unit + u),  u uniform in [0, 1)

is right on average. A site goes on with what it sent, `opened(code(x))`, not with x.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, PyTree

from .. import tree
from .._types import Key

Bits = Literal[8, 16, 32, 64]
BITS = (8, 16, 32, 64)
_WHOLE = {8: jnp.int8, 16: jnp.int16}
LOG_STEPS = 126 / 16  # of an octave


class Coded(NamedTuple):
    """q times its unit; single precision as it is where there is no unit."""

    q: Array
    unit: Float[Array, "*columns"] | None


class Extra(NamedTuple):
    """A part that travels only where it is `there`; both sides know where (`parts` of a method). In
    the mean of uploads `there` is the part of the weight that sent it, and others count as zero."""

    there: Bool[Array, ""] | Float[Array, ""]
    value: PyTree


class Square(NamedTuple):
    """A positive semidefinite matrix: its diagonal, and above it correlations; opened, the upper
    triangle row by row."""

    diagonal: Float[Array, " d"]
    q: Array  # correlations, times the largest whole number of their kind


class Logs(NamedTuple):
    """Signs and logarithms, in parts of the largest: as right for small entries as for large."""

    q: Array  # 127 is the largest, 0 is 0
    unit: Float[Array, ""]


class Brief(NamedTuple):
    """A number in two bytes: the first two of single precision."""

    q: Int[Array, ""]


class Ranked(NamedTuple):
    """A symmetric matrix V diag(values) V'; opened, the upper triangle row by row."""

    V: Float[Array, "d r"]
    values: Float[Array, " r"]


class Picked(eqx.Module):
    """Some entries of a vector; opened, all of it, with zeros elsewhere."""

    values: Float[Array, " k"]
    places: Int[Array, " k"]
    size: int = eqx.field(static=True)


def code(x: PyTree, bits: Bits, key: Key | None = None, *, columns: bool = False) -> PyTree:
    """Every array of x in `bits` bits a number, right on average, or without a key to the nearest;
    64 changes nothing. With `columns` each column has its own unit."""
    leaves, structure = jax.tree.flatten(x)
    keys = [None if key is None else jax.random.fold_in(key, k) for k in range(len(leaves))]
    each = [_code(x, k, bits, columns) for x, k in zip(leaves, keys, strict=True)]
    return structure.unflatten(each)


def _code(x: Array, key: Key | None, bits: Bits, columns: bool) -> Array | Coded:
    if bits == 64:
        return x
    if bits == 32:
        return Coded(x.astype(jnp.float32), None)
    most = 2 ** (bits - 1) - 1
    largest = jnp.max(jnp.abs(x), 0 if columns else None, initial=0.0)
    # a little larger than the quotient, so that its rounding lets nothing grow above `most`
    unit = (largest * ((1 + 1e-6) / most)).astype(jnp.float32)
    steps = x / jnp.where(unit > 0, unit, 1).astype(x.dtype)
    move = 0.5 if key is None else jax.random.uniform(key, x.shape, x.dtype)
    q = jnp.where(unit > 0, jnp.clip(jnp.floor(steps + move), -most, most), 0)
    return Coded(q.astype(_WHOLE[bits]), unit)


def code_logs(x: Float[Array, " d"]) -> Logs:
    """Each entry within 4.5 % in one byte; below 2^-16 of the largest it is 0."""
    unit = jnp.max(jnp.abs(x), initial=0.0).astype(jnp.float32)
    part = jnp.abs(x) / jnp.where(unit > 0, unit, 1).astype(x.dtype)
    steps = 127 + jnp.round(LOG_STEPS * jnp.log2(jnp.where(part > 0, part, 1)))
    there = (part > 0) & (unit > 0) & (steps >= 1)
    q = jnp.where(there, jnp.sign(x) * jnp.clip(steps, 1, 127), 0)
    return Logs(q.astype(jnp.int8), unit)


def code_brief(x: Float[Array, ""]) -> Brief:
    return Brief(jax.lax.bitcast_convert_type(x.astype(jnp.bfloat16), jnp.int16))


def code_square(H: Float[Array, "d d"], bits: Bits) -> Square:
    """Each correlation to the nearest."""
    root = jnp.sqrt(jnp.maximum(jnp.diag(H), 0))
    safe = jnp.where(root > 0, root, 1)
    R = jnp.clip(H / safe / safe[:, None], -1, 1)[jnp.triu_indices(len(H), 1)]
    if bits >= 32:
        kind = R.dtype if bits == 64 else jnp.float32
        return Square(jnp.diag(H).astype(kind), R.astype(kind))
    q = jnp.round(R * (2 ** (bits - 1) - 1)).astype(_WHOLE[bits])
    return Square(jnp.diag(H).astype(jnp.float32), q)


def _open_square(x: Square) -> Float[Array, " d_d_1_2"]:
    d, kind = len(x.diagonal), jnp.result_type(float)
    R = x.q.astype(kind)
    if jnp.issubdtype(x.q.dtype, jnp.integer):
        R = R / jnp.iinfo(x.q.dtype).max
    root = jnp.sqrt(jnp.maximum(x.diagonal.astype(kind), 0))
    i, j = jnp.triu_indices(d, 1)
    H = jnp.diag(x.diagonal.astype(kind)).at[i, j].set(R * root[i] * root[j])
    return H[jnp.triu_indices(d)]


def opened(value: PyTree) -> PyTree:
    """What an upload says, in the precision of the run: what engines average."""
    return jax.tree.map(_open, value, is_leaf=_is_marked)


def opened_now(value: PyTree) -> PyTree:
    """The same of an upload that has arrived, compiled where something in it is coded."""
    leaves = jax.tree.leaves(value, is_leaf=_is_marked)
    return _opened(value) if any(map(_is_marked, leaves)) else value


_opened = jax.jit(opened)


def _open(x: Any) -> Any:
    if isinstance(x, Coded):
        q = x.q.astype(jnp.result_type(float))
        return q if x.unit is None else q * x.unit.astype(q.dtype)
    if isinstance(x, Square):
        return _open_square(x)
    if isinstance(x, Logs):
        q = x.q.astype(jnp.result_type(float))
        size = x.unit.astype(q.dtype) * jnp.exp2((jnp.abs(q) - 127) / LOG_STEPS)
        return jnp.where(q == 0, 0, jnp.sign(q) * size)
    if isinstance(x, Brief):
        return jax.lax.bitcast_convert_type(x.q, jnp.bfloat16).astype(jnp.result_type(float))
    if isinstance(x, Ranked):
        return ((x.V * x.values) @ x.V.T)[jnp.triu_indices(len(x.V))]
    if isinstance(x, Picked):
        return jnp.zeros(x.size, x.values.dtype).at[x.places].set(x.values)
    if isinstance(x, Extra):
        value = opened(x.value)
        there = jnp.asarray(x.there)
        kept = tree.where(there, value, tree.zeros(value))
        return Extra(there.astype(jnp.result_type(float)), kept)
    return x


def _is_marked(x: Any) -> bool:
    return isinstance(x, Coded | Square | Logs | Brief | Ranked | Picked | Extra)


def _is_extra(x: Any) -> bool:
    return isinstance(x, Extra)


def _extras(value: PyTree) -> list[Extra]:
    return [x for x in jax.tree.leaves(value, is_leaf=_is_extra) if _is_extra(x)]


def with_parts(value: PyTree, parts: Sequence[float]) -> PyTree:
    """Its extra parts unmarked, and without those with the place 0 in `parts`."""
    left = iter(parts)
    keep = lambda x: (x.value if next(left) else None) if _is_extra(x) else x
    return jax.tree.map(keep, value, is_leaf=_is_extra)


def filled(like: PyTree, value: PyTree, parts: Sequence[float]) -> PyTree:
    """The inverse, with zeros for the parts that are not there."""
    leaves, structure = jax.tree.flatten(like, is_leaf=_is_extra)
    come, left = iter(jax.tree.leaves(value)), iter(parts)

    def take(x: Any) -> PyTree:
        if not _is_extra(x):
            return next(come)
        there, part = next(left), jax.tree.structure(x.value)
        held = [next(come) if there else jnp.zeros(y.shape, y.dtype) for y in _leaves(x)]
        return Extra(jnp.asarray(there, x.there.dtype), part.unflatten(held))

    return structure.unflatten([take(x) for x in leaves])


def _leaves(x: Extra) -> list[Any]:
    return jax.tree.leaves(x.value)


def no_parts(value: PyTree) -> PyTree:
    """Without any of its extra parts."""
    return with_parts(value, [0.0] * len(_extras(value)))


def parts_of(value: PyTree) -> tuple[bool, ...]:
    """Which of its extra parts an upload has."""
    return tuple(bool(x.there) for x in _extras(value))


def travelling(value: PyTree) -> dict[str, np.ndarray]:
    """The arrays of an upload that travel, by name."""
    return tree.flatten(with_parts(value, parts_of(value)))


def arrived(like: PyTree, arrays: Mapping[str, np.ndarray]) -> PyTree:
    """The upload that `travelling` made these from: what it lacks was not sent."""
    number = len(_extras(like))
    names = lambda parts: set(tree.names(with_parts(like, parts)))
    bare = names([False] * number)
    alone = [names([k == n for n in range(number)]) - bare for k in range(number)]
    parts = tuple(bool(own & set(arrays)) for own in alone)
    return filled(like, tree.restore(with_parts(like, parts), arrays), parts)


def usual_bytes(value: PyTree) -> int:
    """Of an upload without its extra parts."""
    return tree.nbytes(no_parts(value))


def extra_sent(value: PyTree) -> int:
    """The bytes of the extra parts of an upload that has arrived."""
    return sum(tree.nbytes(x.value) for x in _extras(value) if x.there)


def extra_bytes(value: PyTree) -> Int[Array, ""] | None:
    """Of the extra parts that are there; None where the method has none."""
    sizes = [jnp.where(x.there, tree.nbytes(x.value), 0) for x in _extras(value)]
    return jnp.sum(jnp.array(sizes), dtype=jnp.int32) if sizes else None
