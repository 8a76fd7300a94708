"""What one client does in a round."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from .. import tree
from ..algorithms import AbstractAlgorithm, Recalled, Upload, extra_bytes, opened
from ..participation import client_key
from ..problems import AbstractProblem, Clients, Stacks, of_client
from ._federation import Draw
from ._rows import changed, only, traced


class Prompt(NamedTuple):
    """What a client is asked with: what the server sends, and the server itself where its method
    has notes, for the reminder of this client. Both read the client's state in one loop: XLA would
    copy every client's between two."""

    down: PyTree
    server: PyTree | None


def asking(
    algorithm: AbstractAlgorithm,
    problem: Clients,
    clients: PyTree,
    down: Prompt,
    draw: Draw,
    first: int | Int[Array, ""] = 0,
) -> tuple[Callable[[PyTree, Int[Array, ""], PyTree], tuple], tuple[PyTree, Upload]]:
    """(clients, k, mean) -> the new state and the upload of the k-th of the cohort, and the mean
    with that; and a client's part of nothing, all zeros. `clients`, and a problem in one stack,
    begin with the client `first`."""

    def call(clients, i, place):
        old = tree.take(clients, i - first)
        step = lambda f: own_step(algorithm, f, old, down, draw, i, place)
        return of_client(step, problem, i if isinstance(problem, Stacks) else i - first)

    step, shapes = traced(call, clients, draw.cohort.ids[0], draw.places[0])
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)

    def ask(clients, k, mean):
        i, place = draw.cohort.ids[k], draw.places[k]
        if draw.kept is None:
            new, up = step(clients, i, place)
            value = up.value
        else:
            asked = draw.cohort.asked[k]
            new, up = jax.lax.cond(asked, step, lambda *_: nothing, clients, i, place)
            value = only(draw.kept[k], up.value)
        add = lambda m, x: m + draw.p[k].astype(x.dtype) * x
        return new, up, jax.tree.map(add, mean, value)

    return ask, nothing


def own_step(
    algorithm: AbstractAlgorithm,
    f: AbstractProblem,
    old: PyTree,
    down: Prompt,
    draw: Draw,
    i: Int[Array, ""],
    place: Int[Array, ""],
) -> tuple[PyTree, Upload]:
    """Its new state and its upload, opened, with the reminder of it if there is one."""
    own = algorithm.addressed(down.down, place, draw.asked)
    new, up = algorithm.client_step(f, old, own, client_key(draw.key, i))
    value = opened(up.value)
    if down.server is not None:
        reminder = algorithm.reminder(down.server, algorithm.told(old))  # pyright: ignore
        value = Recalled(value, reminder)
    up = up._replace(value=value, extra=extra_bytes(up.value))
    return changed(old, new), up
