"""All clients in one process: rounds in one loop, the cohort one by one or side by side."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int, PyTree

from .. import tree
from .._memory import check_fits
from .._types import Params
from ..algorithms import AbstractAlgorithm, Upload
from ..measure import Measure, Measures
from ..participation import AbstractParticipation, broadcast_key, round_keys
from ..problems import Clients, each, of_some, with_stacks
from ._asking import Prompt, asking, own_step
from ._federation import Draw as Draw
from ._federation import Federation as Federation
from ._federation import Record as Record
from ._federation import State as State
from ._rows import changed, many, only, rows_of_zeros, traced, write, write_all
from ._shards import ask_shards, held, mesh_for, settle_shards, spread


def federation(
    algorithm: AbstractAlgorithm,
    problem: Clients,
    participation: AbstractParticipation,
    *,
    seed: int,
    test=None,
    side_by_side: bool | None = None,
    every: int = 1,
    share: bool = True,
) -> Federation:
    """Puts the parts together; `side_by_side` is vmap, the default on accelerators. `share` shares
    the clients among all devices, where there are several."""
    if side_by_side is None:
        side_by_side = jax.default_backend() != "cpu"
    weights = each(algorithm.weight, problem)
    ready = with_stacks(problem, algorithm.prepare)
    fed = Federation(
        algorithm, ready, participation, Measure(problem, test), weights, jax.random.key(seed),
        side_by_side, every,
    )  # fmt: skip
    mesh = mesh_for(len(weights)) if share else None
    return fed if mesh is None else spread(fed, mesh, problem, ready)


def start(fed: Federation, w: Params) -> State:
    """The state before round 0, from the model w."""
    size = tree.nbytes(eqx.filter_eval_shape(_first_state, fed, w))
    remedy = "use fewer clients, or a method that stores less for each client"
    check_fits(size, f"the states of {len(fed.weights)} clients", remedy)
    return eqx.filter_jit(_first_state)(fed, w)


def _first_state(fed: Federation, w: Params) -> State:
    """In one program, every array is filled once and where it stays."""
    clients = each(lambda f: fed.algorithm.init_client(f, w), fed.problem)
    state = State(fed.algorithm.init_server(w), clients, jnp.zeros((), jnp.int32))
    state = held(fed.mesh, state)
    return jax.tree.map(jnp.copy, state)  # `advance` takes its arrays away, so none is shared


def one_round(fed: Federation, state: State) -> tuple[State, Record]:
    draw = draw_cohort(fed, state.t)
    down = Prompt(broadcast(fed, state), reminding(fed, state))
    clients, up = _ask(fed, state.clients, down, draw)
    return close_round(fed, state._replace(clients=clients), draw, up)


def broadcast(fed: Federation, state: State) -> PyTree:
    """What the server sends in the round that begins."""
    return fed.algorithm.broadcast(state.server, broadcast_key(fed.key, state.t))


def reminding(fed: Federation, state: State) -> PyTree | None:
    """The server, if its method has notes."""
    one = jax.eval_shape(lambda: tree.take(state.clients, 0))
    return None if fed.algorithm.told(one) is None else state.server


def draw_cohort(fed: Federation, t: Int[Array, ""]) -> Draw:
    key_cohort, key_clients = round_keys(fed.key, t)
    cohort = fed.participation(key_cohort)
    weights = jnp.where(cohort.arrived, fed.weights[cohort.ids], 0)
    enough = jnp.sum(cohort.arrived) >= 2  # one upload alone cannot move a dual method
    kept = None if fed.participation.certain else cohort.arrived & enough
    p = weights / jnp.where(enough, jnp.sum(weights), 1)
    share = jnp.sum(weights) / jnp.sum(fed.weights)
    places = jnp.cumsum(cohort.asked, dtype=jnp.int32) - 1
    return Draw(cohort, kept, p, share, enough, key_clients, places, places[-1] + 1)


def close_round(
    fed: Federation,
    state: State,
    draw: Draw,
    up: Upload,
    settle: Callable[[PyTree, PyTree], PyTree] | None = None,
) -> tuple[State, Record]:
    """What follows when all uploads are there: `up` has their mean, and each one's numbers.
    `settle` gives all clients' states after the answer (None: there is none)."""
    algorithm, (server, clients, t), cohort = fed.algorithm, state, draw.cohort
    new_server, answer = algorithm.server_step(server, up.value, draw.share)
    if settle is not None:
        clients = settle(clients, answer)
    elif answer is not None:
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
    return held(fed.mesh, State(server, clients, t + 1)), record


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


def _ask(fed: Federation, clients: PyTree, down: Prompt, draw: Draw) -> tuple[PyTree, Upload]:
    """All clients' states, new where the upload is kept; the mean upload, each one's numbers."""
    ids = draw.cohort.ids
    if fed.mesh is not None:
        return ask_shards(fed, clients, down, draw)
    if fed.side_by_side:
        step = lambda f, i, place: own_step(
            fed.algorithm, f, tree.take(clients, i), down, draw, i, place
        )
        new, up = of_some(step, fed.problem, ids, draw.places)
        mean = tree.weighted_mean(only(draw.kept, up.value), draw.p)
        return write(clients, new, ids, draw.kept), up._replace(value=mean)

    step, (_, nothing) = asking(fed.algorithm, fed.problem, clients, down, draw)

    def ask(mean, k):
        new, up, mean = step(clients, k, mean)
        return mean, (new, up.grad_norm, up.steps, up.extra)

    # all are read before any is written: XLA computes a value again where it is used, and would
    # copy every client's for that
    mean, (new, *numbers) = jax.lax.scan(ask, nothing.value, jnp.arange(len(ids)))
    return write_all(clients, new, ids, draw.kept), Upload(mean, *numbers)


def _settle(fed: Federation, clients: PyTree, answer, ids: Array, kept: Array | None) -> PyTree:
    """All clients' states, with the answer for those with an upload that was kept."""

    def receive(clients, i, answer=answer) -> PyTree:
        old = tree.take(clients, i)
        return changed(old, fed.algorithm.client_receive(old, answer))

    if fed.mesh is not None:
        return settle_shards(fed, clients, receive, answer, ids, kept)
    if fed.side_by_side:
        return write(clients, jax.vmap(receive, (None, 0))(clients, ids), ids, kept)
    if many(jax.eval_shape(receive, clients, ids[0])):
        return write_all(clients, jax.lax.map(lambda i: receive(clients, i), ids), ids, kept)
    settle = lambda clients, one: (write(clients, receive(clients, one[0]), *one), None)
    return jax.lax.scan(settle, clients, (ids, kept))[0]


def settle_new(
    fed: Federation, clients: PyTree, new: PyTree, answer: PyTree, ids: Array, kept: Array | None
) -> PyTree:
    """The same for clients with new states, in rows, that are not written yet: where the answer
    changes one array, all of a client's arrays are read and written once."""
    missing = lambda x: x is None
    received = lambda old: changed(old, fed.algorithm.client_receive(old, answer))
    if answer is None or many(jax.eval_shape(lambda: received(tree.take(clients, ids[0])))):
        clients = write_all(clients, new, ids, kept)
        return clients if answer is None else _settle(fed, clients, answer, ids, kept)

    def settle(clients, one):
        row, i, kept = one
        old = tree.take(clients, i)
        sent = jax.tree.map(lambda x, y: y if x is None else x, row, old, is_leaf=missing)
        final = changed(old, fed.algorithm.client_receive(sent, answer))
        return write(clients, final, i, kept), None

    return jax.lax.scan(settle, clients, (new, ids, kept))[0]
