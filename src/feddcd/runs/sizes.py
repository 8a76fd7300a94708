"""How many bytes a method's messages have; and whether its functions return what they must."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax

from .. import tree
from .._errors import SpecError
from ..algorithms import AbstractAlgorithm, FedQN, Shortened, Upload, first_mean, usual_bytes
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
        stepped = algorithm.client_step(f, client, down, fed.key)
        client, up = _returned(algorithm, "client_step", "an Upload", client, stepped)
        if not isinstance(up, Upload):
            raise SpecError(
                f"{type(algorithm).__name__}.client_step must return (client, Upload(...)), but "
                f"the second value is of type {type(up).__name__}"
            )
        mean = first_mean(algorithm, server, w, up.value)
        stepped = algorithm.server_step(server, mean, fed.weights[0])
        _, answer = _returned(algorithm, "server_step", "the answer or None", server, stepped)
        tangents = 1 if algorithm.witness(client) is None else 2
        return down, up.value, answer, [(w, fed.weights[0])] * tangents

    fed, w = jax.tree.unflatten(structure, shapes)
    down, up, answer, certificate = eqx.filter_eval_shape(exchange, fed, w)
    return MessageSizes(
        tree.nbytes(down), usual_bytes(up), tree.nbytes(answer), tree.nbytes(certificate)
    )


def _returned(algorithm: AbstractAlgorithm, name: str, other: str, state: Any, found: Any) -> Any:
    """The pair that a step returned, if its first value is a state like the one before."""
    where = f"{type(algorithm).__name__}.{name}"
    who = name.partition("_")[0]
    if type(found) is not tuple or len(found) != 2:
        raise SpecError(
            f"{where} must return two values, the {who}'s new state and {other}, but it returned "
            f"one {type(found).__name__}"
        )
    told = lambda made: jax.tree.map(lambda x: jax.numpy.shape(x), made)
    if jax.tree.structure(found[0]) != jax.tree.structure(state) or told(found[0]) != told(state):
        raise SpecError(
            f"{where} must return a state with the same structure as the state that it got. The "
            f"arrays of that state have the shapes {told(state)}; in the returned state, they have "
            f"the shapes {told(found[0])}"
        )
    return found


def bits_of(algorithm: AbstractAlgorithm, w: Any) -> int:
    """Of a number in an upload."""
    widest = max(8 * x.dtype.itemsize for x in jax.tree.leaves(w))
    few = algorithm.bits if isinstance(algorithm, FedQN | Shortened) else widest
    return min(few, widest)
