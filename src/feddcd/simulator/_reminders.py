"""What the server knows of a cohort by itself."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from ..algorithms import AbstractAlgorithm
from ._rows import only


def mean_reminder(
    algorithm: AbstractAlgorithm,
    server: PyTree,
    clients: PyTree,
    p: Float[Array, " m"],
    kept: Array | None,
) -> PyTree | None:
    """Of these clients (stacked), whose parts of the mean are p; None without notes."""
    notes = algorithm.told(clients)
    if notes is None:
        return None
    each = jax.vmap(lambda note: algorithm.reminder(server, note))(notes)  # pyright: ignore
    return jax.tree.map(lambda x: jnp.tensordot(p.astype(x.dtype), x, 1), only(kept, each))
