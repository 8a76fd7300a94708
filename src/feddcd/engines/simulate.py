"""All clients in one process: rounds in one loop, the cohort one by one or side by side."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, PyTree

from .. import tree
from .._types import Key, Params, Scalar
from ..algorithms import AbstractAlgorithm, Upload
from ..measure import Measure, Measures
from ..participation import AbstractParticipation, Cohort
from ..problems import AbstractProblem


class Federation(eqx.Module):
    """What does not change during a run. `problem` has a leading axis N."""

    algorithm: AbstractAlgorithm
    problem: AbstractProblem
    participation: AbstractParticipation
    measure: Callable[[AbstractAlgorithm, PyTree, PyTree, Array], Measures]
    weights: Array
    key: Key
    side_by_side: bool = eqx.field(static=True)


class State(NamedTuple):
    server: PyTree
    clients: PyTree  # leading axis N
    t: Int[Array, ""]  # rounds done


class Record(NamedTuple):
    """One round; with a leading axis, several."""

    asked: Int[Array, ""]
    arrived: Int[Array, ""]
    steps: Int[Array, ""]
    grad_norm: Scalar  # the worst local solve
    objective: Scalar
    score: Scalar
    dual_residual: Scalar


def federation(
    algorithm: AbstractAlgorithm,
    problem: AbstractProblem,
    participation: AbstractParticipation,
    *,
    seed: int,
    test=None,
    side_by_side: bool | None = None,
) -> Federation:
    """Puts the parts together; `side_by_side` is vmap, the default on accelerators."""
    if side_by_side is None:
        side_by_side = jax.default_backend() != "cpu"
    weights = jax.vmap(algorithm.weight)(problem)
    measure = Measure(problem, test)
    problem = algorithm.prepare(problem)
    key = jax.random.key(seed)
    return Federation(algorithm, problem, participation, measure, weights, key, side_by_side)


def start(fed: Federation, w: Params) -> State:
    """The state before round 0, from the model w."""
    clients = jax.vmap(fed.algorithm.init_client, (0, None))(fed.problem, w)
    state = State(fed.algorithm.init_server(w), clients, jnp.zeros((), jnp.int32))
    return jax.tree.map(jnp.copy, state)  # `advance` takes its arrays away, so none is shared


def one_round(fed: Federation, state: State) -> tuple[State, Record]:
    algorithm, (server, clients, t) = fed.algorithm, state
    key_cohort, key_clients = round_keys(fed.key, t)
    cohort = fed.participation(key_cohort)
    ids, arrived = cohort.ids, cohort.arrived
    c, up = _ask(fed, clients, algorithm.broadcast(server), cohort, key_clients)

    p = jnp.where(arrived, fed.weights[ids], 0)
    enough = jnp.sum(arrived) >= 2  # one upload alone cannot move a dual method
    value = up.value if fed.participation.certain else _only(arrived, up.value)
    mean = tree.weighted_mean(value, jnp.where(enough, p, fed.weights[ids]))
    new_server, answer = algorithm.server_step(server, mean, jnp.sum(p) / jnp.sum(fed.weights))
    clients = _settle(fed, clients, c, answer, ids, arrived & enough)
    server = new_server if fed.participation.certain else tree.where(enough, new_server, server)
    record = Record(
        jnp.sum(cohort.asked),
        jnp.where(enough, jnp.sum(arrived), 0),
        jnp.sum(jnp.where(cohort.asked, up.steps, 0)),
        jnp.max(jnp.where(arrived, up.grad_norm, 0)),
        *fed.measure(algorithm, server, clients, fed.weights),
    )
    return State(server, clients, t + 1), record


def _only(arrived: Array, values: PyTree) -> PyTree:
    """Zero in place of what did not arrive, which may be anything, nan included."""
    return tree.where(arrived, values, tree.zeros(values))


def round_keys(key: Key, t: Int[Array, ""]) -> tuple[Key, Key]:
    """(cohort key, client key) of round t: the same in every engine."""
    cohort, clients = jax.random.split(jax.random.fold_in(key, t))
    return cohort, clients


def client_key(key_clients: Key, i: Int[Array, ""]) -> Key:
    return jax.random.fold_in(key_clients, i)


@eqx.filter_jit(donate="all-except-first")
def advance(fed: Federation, state: State, rounds: Int[Array, ""], room: int):
    """`rounds` rounds (at most `room`), or fewer if the objective stops being finite."""
    shapes = jax.eval_shape(lambda s: one_round(fed, s)[1], state)
    trace = jax.tree.map(lambda x: jnp.zeros((room, *x.shape), x.dtype), shapes)

    def more(carry):
        k, _, _, sound = carry
        return (k < rounds) & sound

    def step(carry):
        k, state, trace, _ = carry
        state, record = one_round(fed, state)
        trace = jax.tree.map(lambda all_, new: all_.at[k].set(new), trace, record)
        return k + 1, state, trace, jnp.isfinite(record.objective)

    first = (jnp.zeros((), jnp.int32), state, trace, jnp.array(True))
    _, state, trace, sound = jax.lax.while_loop(more, step, first)
    return state, trace, sound


def _ask(fed: Federation, clients: PyTree, down: PyTree, cohort: Cohort, key: Key):
    """Every asked client's new state and upload, stacked in the order of the cohort."""

    def step(i) -> tuple[PyTree, Upload]:
        f, c = tree.take((fed.problem, clients), i)
        return fed.algorithm.client_step(f, c, down, client_key(key, i))

    if fed.side_by_side:
        return jax.vmap(step)(cohort.ids)
    if fed.participation.certain:
        return jax.lax.map(step, cohort.ids)
    shapes = jax.eval_shape(step, cohort.ids[0])
    nothing = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), shapes)
    return jax.lax.map(
        lambda who: jax.lax.cond(who[1], step, lambda i: nothing, who[0]),
        (cohort.ids, cohort.asked),
    )


def _settle(fed: Federation, clients, c, answer, ids, kept) -> PyTree:
    """All clients' states, with the answer received by those whose upload was kept."""

    def settled(clients, k) -> PyTree:
        new = tree.take(c, k)
        if answer is not None:
            new = fed.algorithm.client_receive(new, answer)
        if fed.participation.certain:
            return new
        return tree.where(kept[k], new, tree.take(clients, ids[k]))

    if fed.side_by_side:
        put = lambda all_, x: all_.at[ids].set(x, unique_indices=True)
        news = jax.vmap(settled, (None, 0))(clients, jnp.arange(len(ids)))
        return jax.tree.map(put, clients, news)

    def put_one(k, clients):  # row by row: on a CPU a scatter is ten times slower
        put = lambda all_, x: jax.lax.dynamic_update_index_in_dim(all_, x, ids[k], 0)
        return jax.tree.map(put, clients, settled(clients, k))

    return jax.lax.fori_loop(0, len(ids), put_one, clients)
