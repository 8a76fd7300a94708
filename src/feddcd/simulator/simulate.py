"""All clients in one process: rounds in one loop, the cohort one by one or side by side."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from .. import tree
from .._memory import check_fits
from .._types import Key, Params, Scalar
from ..algorithms import AbstractAlgorithm, Recalled, Upload, extra_bytes, opened
from ..measure import Measure, Measures
from ..participation import AbstractParticipation, Cohort, broadcast_key, client_key, round_keys
from ..problems import AbstractProblem, Clients, each, of_client, of_some, with_stacks
from ._reminders import mean_reminder
from ._rows import changed, many, only, rows_of_zeros, traced, write, write_all


class Federation(eqx.Module):
    """What does not change during a run. `problem` is all N clients'."""

    algorithm: AbstractAlgorithm
    problem: Clients
    participation: AbstractParticipation
    measure: Callable[[AbstractAlgorithm, PyTree, PyTree, Array], Measures]
    weights: Array
    key: Key
    side_by_side: bool = eqx.field(static=True)
    every: int = eqx.field(static=True, default=1)  # rounds between two looks at the objective


class State(NamedTuple):
    server: PyTree
    clients: PyTree  # leading axis N
    t: Int[Array, ""]  # rounds done


class Record(NamedTuple):
    """One round; with a leading axis, several."""

    asked: Int[Array, ""]
    arrived: Int[Array, ""]
    steps: Int[Array, ""]
    extra: Int[Array, ""]  # bytes of what only some of the uploads had
    grad_norm: Scalar  # the worst local solve
    objective: Scalar  # nan where it was not looked at, as are those below
    score: Scalar
    dual_residual: Scalar
    sound: Bool[Array, ""]  # the objective is finite, or was not looked at


def federation(
    algorithm: AbstractAlgorithm,
    problem: Clients,
    participation: AbstractParticipation,
    *,
    seed: int,
    test=None,
    side_by_side: bool | None = None,
    every: int = 1,
) -> Federation:
    """Puts the parts together; `side_by_side` is vmap, the default on accelerators."""
    if side_by_side is None:
        side_by_side = jax.default_backend() != "cpu"
    weights = each(algorithm.weight, problem)
    measure = Measure(problem, test)
    problem = with_stacks(problem, algorithm.prepare)
    key = jax.random.key(seed)
    return Federation(algorithm, problem, participation, measure, weights, key, side_by_side, every)


def start(fed: Federation, w: Params) -> State:
    """The state before round 0, from the model w."""
    size = tree.nbytes(eqx.filter_eval_shape(_first_state, fed, w))
    remedy = "take fewer clients, or a method that keeps less for each"
    check_fits(size, f"the states of {len(fed.weights)} clients", remedy)
    return eqx.filter_jit(_first_state)(fed, w)


def _first_state(fed: Federation, w: Params) -> State:
    """In one program, every array is filled once and where it stays."""
    clients = each(lambda f: fed.algorithm.init_client(f, w), fed.problem)
    state = State(fed.algorithm.init_server(w), clients, jnp.zeros((), jnp.int32))
    return jax.tree.map(jnp.copy, state)  # `advance` takes its arrays away, so none is shared


class Draw(NamedTuple):
    """Who takes part in a round, and how much each counts."""

    cohort: Cohort
    kept: Bool[Array, " m"] | None  # None where all of them always are
    p: Float[Array, " m"]  # parts of the mean
    share: Scalar  # of all clients' weight
    enough: Bool[Array, ""]
    key: Key
    places: Int[Array, " m"]  # in the order of who was asked


def one_round(fed: Federation, state: State) -> tuple[State, Record]:
    draw = draw_cohort(fed, state.t)
    known = recall(fed, state, draw)
    clients, up = _ask(fed, state.clients, broadcast(fed, state), draw)
    return close_round(fed, state._replace(clients=clients), draw, up, known)


def broadcast(fed: Federation, state: State) -> PyTree:
    """What the server sends in the round that begins."""
    return fed.algorithm.broadcast(state.server, broadcast_key(fed.key, state.t))


def draw_cohort(fed: Federation, t: Int[Array, ""]) -> Draw:
    key_cohort, key_clients = round_keys(fed.key, t)
    cohort = fed.participation(key_cohort)
    weights = jnp.where(cohort.arrived, fed.weights[cohort.ids], 0)
    enough = jnp.sum(cohort.arrived) >= 2  # one upload alone cannot move a dual method
    kept = None if fed.participation.certain else cohort.arrived & enough
    p = weights / jnp.where(enough, jnp.sum(weights), 1)
    share = jnp.sum(weights) / jnp.sum(fed.weights)
    places = jnp.cumsum(cohort.asked, dtype=jnp.int32) - 1
    return Draw(cohort, kept, p, share, enough, key_clients, places)


def recall(fed: Federation, state: State, draw: Draw) -> PyTree | None:
    """The mean of the server's reminders of who sends in this round; None without notes."""
    clients = tree.take(state.clients, draw.cohort.ids)
    return mean_reminder(fed.algorithm, state.server, clients, draw.p, draw.kept)


def close_round(
    fed: Federation, state: State, draw: Draw, up: Upload, known: PyTree | None
) -> tuple[State, Record]:
    """What follows when all uploads are there: `up` has their mean, and each one's numbers."""
    algorithm, (server, clients, t), cohort = fed.algorithm, state, draw.cohort
    mean = up.value if known is None else Recalled(up.value, known)
    new_server, answer = algorithm.server_step(server, mean, draw.share)
    if answer is not None:
        clients = _settle(fed, clients, answer, cohort.ids, draw.kept)
    server = new_server if draw.kept is None else tree.where(draw.enough, new_server, server)
    measures, sound = _look(fed, server, clients, t + 1)
    record = Record(
        jnp.sum(cohort.asked),
        jnp.where(draw.enough, jnp.sum(cohort.arrived), 0),
        jnp.sum(jnp.where(cohort.asked, up.steps, 0)),
        jnp.zeros((), jnp.int32) if up.extra is None else _counted(draw.kept, up.extra),
        jnp.max(jnp.where(cohort.arrived, up.grad_norm, 0)),
        *measures,
        sound=sound,
    )
    return State(server, clients, t + 1), record


def _counted(kept: Bool[Array, " m"] | None, each: Int[Array, " m"]) -> Int[Array, ""]:
    return jnp.sum(each if kept is None else jnp.where(kept, each, 0), dtype=jnp.int32)


def _look(
    fed: Federation, server: PyTree, clients: PyTree, t: Int[Array, ""]
) -> tuple[Measures, Bool[Array, ""]]:
    """What is measured after round t, nan where it is not its turn, and whether all is well."""
    look = lambda: fed.measure(fed.algorithm, server, clients, fed.weights)
    if fed.every == 1:
        measures = look()
        return measures, jnp.isfinite(measures.objective)
    blank = lambda: jax.tree.map(
        lambda x: jnp.full(x.shape, jnp.nan, x.dtype), jax.eval_shape(look)
    )
    due = t % fed.every == 0
    measures = jax.lax.cond(due, look, blank)
    return measures, jnp.isfinite(measures.objective) | ~due


# on a GPU loops then go on by themselves, and do not ask the host: a tenth of a round
OPTIONS = {
    "xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,CONDITIONAL,WHILE"
}


@eqx.filter_jit(donate="all-except-first", compiler_options=OPTIONS)  # pyright: ignore
def advance(fed: Federation, state: State, rounds: Int[Array, ""], room: int):
    """`rounds` rounds (at most `room`), or fewer if the objective stops being finite."""
    go, (_, shapes) = traced(lambda state: one_round(fed, state), state)
    trace = rows_of_zeros(shapes, room)

    def more(carry):
        k, _, _, sound = carry
        return (k < rounds) & sound

    def step(carry):
        k, state, trace, _ = carry
        state, record = go(state)
        trace = jax.tree.map(lambda all_, new: all_.at[k].set(new), trace, record)
        return k + 1, state, trace, record.sound

    first = (jnp.zeros((), jnp.int32), state, trace, jnp.array(True))
    _, state, trace, sound = jax.lax.while_loop(more, step, first)
    return state, trace, sound


def _ask(fed: Federation, clients: PyTree, down: PyTree, draw: Draw) -> tuple[PyTree, Upload]:
    """All clients' states, new where the upload is kept; the mean upload, each one's numbers."""
    ids = draw.cohort.ids
    if fed.side_by_side:
        step = lambda f, i, place: _own_step(
            fed, f, tree.take(clients, i), down, draw.key, i, place
        )
        new, up = of_some(step, fed.problem, ids, draw.places)
        mean = tree.weighted_mean(only(draw.kept, up.value), draw.p)
        return write(clients, new, ids, draw.kept), up._replace(value=mean)

    step, (one, nothing) = asking(fed, clients, down, draw)

    def ask(carry, k):
        clients, mean = carry
        new, up, mean = step(clients, k, mean)
        kept = None if draw.kept is None else draw.kept[k]
        return (write(clients, new, ids[k], kept), mean), (up.grad_norm, up.steps, up.extra)

    def ask_only(mean, k):
        new, up, mean = step(clients, k, mean)
        return mean, (new, up.grad_norm, up.steps, up.extra)

    if many(one):
        mean, (new, *numbers) = jax.lax.scan(ask_only, nothing.value, jnp.arange(len(ids)))
        return write_all(clients, new, ids, draw.kept), Upload(mean, *numbers)
    (clients, mean), numbers = jax.lax.scan(ask, (clients, nothing.value), jnp.arange(len(ids)))
    return clients, Upload(mean, *numbers)


def asking(
    fed: Federation, clients: PyTree, down: PyTree, draw: Draw
) -> tuple[Callable[[PyTree, Int[Array, ""], PyTree], tuple], tuple[PyTree, Upload]]:
    """(clients, k, mean) -> the new state and the upload of the k-th of the cohort, and the mean
    with that; and a client's part of nothing, all zeros."""
    call = lambda clients, i, place: _client_step(fed, clients, down, draw.key, i, place)
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


def _client_step(
    fed: Federation,
    clients: PyTree,
    down: PyTree,
    key: Key,
    i: Int[Array, ""],
    place: Int[Array, ""],
) -> tuple[PyTree, Upload]:
    old = tree.take(clients, i)
    step = lambda f: _own_step(fed, f, old, down, key, i, place)
    return of_client(step, fed.problem, i)


def _own_step(
    fed: Federation,
    f: AbstractProblem,
    old: PyTree,
    down: PyTree,
    key: Key,
    i: Int[Array, ""],
    place: Int[Array, ""],
) -> tuple[PyTree, Upload]:
    """Its new state and its upload, opened."""
    down = fed.algorithm.addressed(down, place)
    new, up = fed.algorithm.client_step(f, old, down, client_key(key, i))
    up = up._replace(value=opened(up.value), extra=extra_bytes(up.value))
    return changed(old, new), up


def _settle(fed: Federation, clients: PyTree, answer, ids: Array, kept: Array | None) -> PyTree:
    """All clients' states, with the answer received by those whose upload was kept."""

    def receive(clients, i) -> PyTree:
        old = tree.take(clients, i)
        return changed(old, fed.algorithm.client_receive(old, answer))

    if fed.side_by_side:
        return write(clients, jax.vmap(receive, (None, 0))(clients, ids), ids, kept)
    if many(jax.eval_shape(receive, clients, ids[0])):
        return write_all(clients, jax.lax.map(lambda i: receive(clients, i), ids), ids, kept)
    settle = lambda clients, one: (write(clients, receive(clients, one[0]), *one), None)
    return jax.lax.scan(settle, clients, (ids, kept))[0]
