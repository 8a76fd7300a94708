"""How many bytes a method's messages have."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax

from .. import tree
from ..algorithms import first_mean, usual_bytes
from ..problems import stacks_of
from ..simulator.simulate import Federation


class MessageSizes(NamedTuple):
    """Bytes of one message of each kind; of an upload, without what only some have."""

    down: int
    up: int
    answer: int
    certificate: int


def message_sizes(fed: Federation, w) -> MessageSizes:
    leaves, structure = jax.tree.flatten(jax.tree.map(tree.alike, (fed, w)))
    return _message_sizes(structure, *leaves)


@functools.lru_cache(typed=True)
def _message_sizes(structure: Any, *shapes: Any) -> MessageSizes:
    """Traces a client's step, once for all runs of these shapes."""

    def exchange(fed: Federation, w):
        algorithm, f = fed.algorithm, tree.take(stacks_of(fed.problem)[0], 0)
        server = algorithm.init_server(w)
        client, down = algorithm.init_client(f, w), algorithm.broadcast(server, fed.key)
        client, up = algorithm.client_step(f, client, down, fed.key)
        mean = first_mean(algorithm, server, w, up.value)
        _, answer = algorithm.server_step(server, mean, fed.weights[0])
        tangents = 1 if algorithm.witness(client) is None else 2
        return down, up.value, answer, [(w, fed.weights[0])] * tangents

    fed, w = jax.tree.unflatten(structure, shapes)
    down, up, answer, certificate = eqx.filter_eval_shape(exchange, fed, w)
    return MessageSizes(
        tree.nbytes(down), usual_bytes(up), tree.nbytes(answer), tree.nbytes(certificate)
    )
