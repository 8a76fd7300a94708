"""What the server knows of a cohort by itself."""

import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .. import tree
from ..algorithms import AbstractAlgorithm
from ._federation import Draw
from ._rows import only


def mean_reminder(
    algorithm: AbstractAlgorithm,
    server: PyTree,
    clients: PyTree,
    draw: Draw,
    side_by_side: bool,
) -> PyTree | None:
    """Of the cohort, by its parts of the mean; None without notes. One after the other, where
    clients are asked so, for a reminder may be several vectors."""
    ids, p, kept = draw.cohort.ids, draw.p, draw.kept
    if algorithm.told(jax.eval_shape(lambda: tree.take(clients, 0))) is None:
        return None

    def one(i) -> PyTree:
        return algorithm.reminder(server, algorithm.told(tree.take(clients, i)))  # pyright: ignore

    if side_by_side:
        each = only(kept, jax.vmap(one)(ids))
        return jax.tree.map(lambda x: jnp.tensordot(p.astype(x.dtype), x, 1), each)

    def add(k, mean):
        known = only(None if kept is None else kept[k], one(ids[k]))
        return jax.tree.map(lambda m, x: m + p[k].astype(x.dtype) * x, mean, known)

    zero = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(one, ids[0]))
    return jax.lax.fori_loop(0, len(ids), add, zero)
