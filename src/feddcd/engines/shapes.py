"""What an algorithm's messages look like, from one problem and a model, without computing."""

from typing import NamedTuple

import equinox as eqx
import jax
from jaxtyping import PyTree

from .._types import Params
from ..algorithms import AbstractAlgorithm
from ..problems import AbstractProblem


class Shapes(NamedTuple):
    """Of a client's state, its upload, and what it reports as conserved."""

    state: PyTree
    value: PyTree
    conserved: PyTree


def shapes(algorithm: AbstractAlgorithm, f: AbstractProblem, w: Params) -> Shapes:
    def all_three(f, w) -> Shapes:
        down = algorithm.broadcast(algorithm.init_server(w))
        state = algorithm.init_client(f, w)
        after, up = algorithm.client_step(f, state, down, jax.random.key(0))
        return Shapes(after, up.value, algorithm.conserved(state, down))

    return eqx.filter_eval_shape(all_three, f, w)
