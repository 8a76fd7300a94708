"""An algorithm for engines that send messages: its functions compiled one by one, and what its
messages look like, from one problem and a model, without computing."""

from functools import lru_cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from .. import tree
from .._types import Params
from ..algorithms import AbstractAlgorithm, first_mean, opened
from ..problems import AbstractProblem

NAMES = (
    "broadcast", "client_step", "server_step", "client_receive", "adjusted", "conserved",
    "rebalance", "joined", "noted", "reminder",
)  # fmt: skip


@eqx.filter_jit
def _call(algorithm: AbstractAlgorithm, name: str, *args: Any) -> Any:
    return getattr(algorithm, name)(*args)


class Compiled:
    """Stands in for the algorithm; what is not compiled is the algorithm's own."""

    def __init__(self, algorithm: AbstractAlgorithm):
        self._algorithm = algorithm

    def __getattr__(self, name: str) -> Any:
        own = partial(_call, self._algorithm, name)
        found = own if name in NAMES else getattr(self._algorithm, name)
        setattr(self, name, found)  # Equinox binds a method again each time, slowly
        return found


class Shapes(NamedTuple):
    """Of a client's state, its upload, what it reports as conserved, and what it is sent."""

    state: PyTree
    value: PyTree
    conserved: PyTree
    down: PyTree
    answer: PyTree
    mean: PyTree  # of uploads, opened


def shapes(algorithm: AbstractAlgorithm, f: AbstractProblem, w: Params) -> Shapes:
    leaves, structure = jax.tree.flatten(jax.tree.map(tree.alike, (algorithm, f, w)))
    return _shapes(structure, tuple(leaves), jax.dtypes.canonicalize_dtype(float))


@lru_cache
def _shapes(structure: Any, leaves: tuple, precision: np.dtype) -> Shapes:
    """Once for all arguments that look alike: a site needs them for every message."""
    return eqx.filter_eval_shape(_all_of_them, *structure.unflatten(leaves))


def _all_of_them(algorithm: AbstractAlgorithm, f: AbstractProblem, w: Params) -> Shapes:
    server, key = algorithm.init_server(w), jax.random.key(0)
    down = algorithm.broadcast(server, key)
    state = algorithm.init_client(f, w)
    after, up = algorithm.client_step(f, state, down, key)
    mean = first_mean(algorithm, server, w, up.value)
    _, answer = algorithm.server_step(server, mean, jnp.ones_like(f.mu))
    held = algorithm.conserved(state, down)
    return Shapes(after, up.value, held, down, answer, opened(up.value))
