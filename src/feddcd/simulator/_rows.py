"""Functions that are traced once, and rows of what is stacked: one a client, or one a round."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax.extend.core import jaxpr_as_fun
from jaxtyping import Array, PyTree

from .. import tree


def traced(function: Callable, *args: PyTree) -> tuple[Callable, PyTree]:
    """`function`, which runs in Python only this once, and the shapes of what it gives."""
    closed, shapes = jax.make_jaxpr(function, return_shape=True)(*args)
    flat, structure = jaxpr_as_fun(closed), jax.tree.structure(shapes)
    return lambda *args: jax.tree.unflatten(structure, flat(*jax.tree.leaves(args))), shapes


def rows_of_zeros(shapes: PyTree, rows: int) -> PyTree:
    return jax.tree.map(lambda x: jnp.zeros((rows, *x.shape), x.dtype), shapes)


def write(clients: PyTree, new: PyTree, i: Array, kept: Array | None) -> PyTree:
    """All clients' states with client i's (or the clients' i) replaced where it is kept."""

    def put(x, rows):
        if x is None:
            return rows
        x = x if kept is None else tree.where(kept, x, rows[i])
        if i.ndim == 0:  # on a CPU a scatter is ten times slower
            return jax.lax.dynamic_update_index_in_dim(rows, x, i, 0)
        return rows.at[i].set(x, unique_indices=True)

    return jax.tree.map(put, new, clients, is_leaf=lambda x: x is None)


def write_all(clients: PyTree, new: PyTree, ids: Array, kept: Array | None) -> PyTree:
    """The same for several clients, one after the other: their rows of `new`."""
    put = lambda clients, one: (write(clients, *one), None)
    return jax.lax.scan(put, clients, (new, ids, kept))[0]


def many(new: PyTree) -> bool:
    """Whether a client writes more than one array. Then all are read before any is written: XLA
    computes a value again where it is used, and would copy every client's for that."""
    return len(jax.tree.leaves(new)) > 1


def only(kept: Array | None, values: PyTree) -> PyTree:
    """Zero in place of what did not arrive, which may be anything, nan included."""
    return values if kept is None else tree.where(kept, values, tree.zeros(values))


def changed(old: PyTree, new: PyTree) -> PyTree:
    """`new` with None in place of what is passed on as it was, so that nobody copies it."""
    return jax.tree.map(lambda x, y: None if y is x else y, old, new)
