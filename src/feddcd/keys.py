"""The keys of a round, from (seed, round, client): the same wherever a round is run."""

import jax
from jaxtyping import Array, Int

from ._types import Key


def round_keys(key: Key, t: Int[Array, ""]) -> tuple[Key, Key]:
    """(cohort key, client key) of round t: the same in every engine."""
    cohort, clients = jax.random.split(jax.random.fold_in(key, t))
    return cohort, clients


def broadcast_key(key: Key, t: Int[Array, ""]) -> Key:
    """The key of what server and clients draw in common in round t."""
    # fold_in with 0 and 1 would give the two keys of `round_keys` again
    return jax.random.fold_in(jax.random.fold_in(key, t), 2)


def client_key(key_clients: Key, i: Int[Array, ""]) -> Key:
    return jax.random.fold_in(key_clients, i)
