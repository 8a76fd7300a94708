"""What an algorithm's messages look like, from one problem and a model, without computing."""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import PyTree

from .._types import Params
from ..algorithms import AbstractAlgorithm
from ..problems import AbstractProblem


class Shapes(NamedTuple):
    """Of a client's state, its upload, what it reports as conserved, and what it is sent."""

    state: PyTree
    value: PyTree
    conserved: PyTree
    down: PyTree
    answer: PyTree


def shapes(algorithm: AbstractAlgorithm, f: AbstractProblem, w: Params) -> Shapes:
    def all_of_them(f, w) -> Shapes:
        server = algorithm.init_server(w)
        down = algorithm.broadcast(server)
        state = algorithm.init_client(f, w)
        after, up = algorithm.client_step(f, state, down, jax.random.key(0))
        _, answer = algorithm.server_step(server, up.value, jnp.ones_like(f.mu))
        return Shapes(after, up.value, algorithm.conserved(state, down), down, answer)

    return eqx.filter_eval_shape(all_of_them, f, w)
