"""Clients shared among several devices: each holds a part of them, and asks its part of a cohort.

Data and states stay where they are. What travels between devices are sums and the few numbers of
each client. A cohort is in ascending order, so a device's part of it is one run of places.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Bool, Int, PyTree

from .. import tree
from ..algorithms import AbstractAlgorithm, Upload
from ..problems import Clients, Stacks, of_some
from ._asking import Prompt, asking, own_step
from ._federation import Draw, Federation, State
from ._rows import only, rows_of_zeros, write

AXIS = "clients"
APART, EVERYWHERE = PartitionSpec(AXIS), PartitionSpec()


def mesh_for(N: int) -> Mesh | None:
    """The most devices that can have equal parts of N clients; None if that is one."""
    devices = jax.local_devices()
    count = max(k for k in range(1, min(N, len(devices)) + 1) if N % k == 0)
    return None if count == 1 else Mesh(np.array(devices[:count]), (AXIS,))


def spread(fed: Federation, mesh: Mesh, *with_rows: Clients) -> Federation:
    """Arrays with a row for each client on the devices of those clients, the others on all; none
    is copied twice. Clients in several stacks are on every device: their places are not those of
    their states."""
    stacked = [f for f in with_rows if not isinstance(f, Stacks)]
    apart = {id(x) for x in jax.tree.leaves(stacked)}
    moved: dict[int, tuple[Any, Any]] = {}  # with what was moved, so that its id stays its own

    def put(x: Any) -> Any:
        if not eqx.is_array(x):
            return x
        if id(x) not in moved:
            spec = APART if id(x) in apart else EVERYWHERE
            moved[id(x)] = x, jax.device_put(x, NamedSharding(mesh, spec))
        return moved[id(x)][1]

    return dataclasses.replace(jax.tree.map(put, fed), mesh=mesh)


def held(mesh: Mesh | None, state: State) -> State:
    """The state where it belongs, so that rounds give what they take."""
    if mesh is None:
        return state
    keep = lambda x, spec: jax.lax.with_sharding_constraint(x, NamedSharding(mesh, spec))
    server, t = keep((state.server, state.t), EVERYWHERE)
    return State(server, keep(state.clients, APART), t)


class _Part(NamedTuple):
    """A device's part of the cohort: places begin to end; its clients begin with `first`."""

    first: Int[Array, ""]
    begin: Int[Array, ""]
    end: Int[Array, ""]
    room: int  # the most clients of a cohort that a device can have


def _part(mesh: Mesh, N: int, ids: Int[Array, " m"]) -> _Part:
    per = N // mesh.size
    first = jax.lax.axis_index(AXIS) * per
    begin, end = jnp.searchsorted(ids, jnp.stack([first, first + per]).astype(ids.dtype))
    return _Part(first, begin, end, min(len(ids), per))


def _on_each(fed: Federation, function: Callable, *specs: PartitionSpec, out: PyTree) -> Callable:
    assert fed.mesh is not None
    return jax.shard_map(function, mesh=fed.mesh, in_specs=specs, out_specs=out, check_vma=False)


def ask_shards(fed: Federation, clients: PyTree, down: Prompt, draw: Draw) -> tuple[PyTree, Upload]:
    """All clients' states, new where the upload is kept; the mean upload, each one's numbers."""
    mesh, ids, N = fed.mesh, draw.cohort.ids, len(fed.weights)
    arrays, rest = eqx.partition(fed.algorithm, eqx.is_array)
    lanes = -(-len(ids) // mesh.size) if fed.side_by_side else None  # pyright: ignore

    def here(arrays, problem, clients, down, draw):
        part, algorithm = _part(mesh, N, ids := draw.cohort.ids), eqx.combine(arrays, rest)  # pyright: ignore
        if lanes is None:
            new, up = _one_by_one(algorithm, problem, clients, down, draw, part)
        else:
            new, up = _lanes(algorithm, problem, clients, down, draw, part, lanes)
        clients = _write(clients, new, ids, draw.kept, part, fed.side_by_side)
        return clients, jax.tree.map(lambda x: jax.lax.psum(x, AXIS), up)

    where = EVERYWHERE if isinstance(fed.problem, Stacks) else APART
    specs = (EVERYWHERE, where, APART, EVERYWHERE, EVERYWHERE)
    run = _on_each(fed, here, *specs, out=(APART, EVERYWHERE))
    return run(arrays, fed.problem, clients, down, draw)


def settle_shards(
    fed: Federation, clients: PyTree, receive: Callable, answer: PyTree, ids: Array, kept
) -> PyTree:
    """All clients' states, with the answer for those with an upload that was kept."""
    N = len(fed.weights)

    def here(clients, answer, ids, kept):
        part = _part(fed.mesh, N, ids)  # pyright: ignore
        at = jnp.clip(part.begin + jnp.arange(part.room), 0, len(ids) - 1)
        inside = jnp.clip(ids[at] - part.first, 0, N // fed.mesh.size - 1)  # pyright: ignore
        one = lambda i: receive(clients, i, answer)
        new = jax.vmap(one)(inside) if fed.side_by_side else jax.lax.map(one, inside)
        return _write(clients, new, ids, kept, part, fed.side_by_side)

    specs = (APART, EVERYWHERE, EVERYWHERE, EVERYWHERE)
    return _on_each(fed, here, *specs, out=APART)(clients, answer, ids, kept)


def _one_by_one(
    algorithm: AbstractAlgorithm, problem: Clients, clients, down, draw: Draw, part: _Part
) -> tuple[PyTree, Upload]:
    """New states in rows, the sum of this part of the mean, and numbers in their places."""
    step, (new, up) = asking(algorithm, problem, clients, down, draw, part.first)
    rows, numbers = rows_of_zeros(new, part.room), (up.grad_norm, up.steps, up.extra)

    def ask(k, carry):
        rows, numbers, mean = carry
        new, up, mean = step(clients, k, mean)
        put = lambda at: lambda all_, x: jax.lax.dynamic_update_index_in_dim(all_, x, at, 0)
        rows = jax.tree.map(put(k - part.begin), rows, new)
        return rows, jax.tree.map(put(k), numbers, (up.grad_norm, up.steps, up.extra)), mean

    first = (rows, rows_of_zeros(numbers, len(draw.p)), up.value)
    rows, numbers, mean = jax.lax.fori_loop(part.begin, part.end, ask, first)
    return rows, Upload(mean, *numbers)


def _lanes(
    algorithm: AbstractAlgorithm,
    problem: Clients,
    clients,
    down,
    draw: Draw,
    part: _Part,
    lanes: int,
) -> tuple[PyTree, Upload]:
    """The same, as many clients at a time as a device has on the average."""
    ids, several = draw.cohort.ids, isinstance(problem, Stacks)

    def own(f, i, place):
        inside, i = (i - part.first, i) if several else (i, i + part.first)
        return own_step(algorithm, f, tree.take(clients, inside), down, draw, i, place)

    def some(at: Int[Array, " lanes"]) -> tuple[PyTree, Upload]:
        who = ids[at] if several else ids[at] - part.first
        return of_some(own, problem, who, draw.places[at])

    def ask(turn, carry):
        rows, numbers, mean = carry
        places = part.begin + turn * lanes + jnp.arange(lanes)
        real, at = places < part.end, jnp.minimum(places, part.end - 1)
        new, up = some(at)
        put = lambda to: lambda all_, x: all_.at[jnp.where(real, to, len(all_))].set(x, mode="drop")
        counts = real if draw.kept is None else real & draw.kept[at]
        add = lambda m, x: m + jnp.tensordot(draw.p[at].astype(x.dtype), x, 1)
        mean = jax.tree.map(add, mean, only(counts, up.value))
        rows = jax.tree.map(put(places - part.begin), rows, new)
        return rows, jax.tree.map(put(places), numbers, (up.grad_norm, up.steps, up.extra)), mean

    new, up = jax.eval_shape(some, jnp.zeros(lanes, jnp.int32))
    new, up = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape[1:], x.dtype), (new, up))
    numbers = rows_of_zeros((up.grad_norm, up.steps, up.extra), len(ids))
    mean = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), up.value)
    turns = -(-(part.end - part.begin) // lanes)
    first = (rows_of_zeros(new, part.room), numbers, mean)
    rows, numbers, mean = jax.lax.fori_loop(0, turns, ask, first)
    return rows, Upload(mean, *numbers)


def _write(
    clients: PyTree, rows: PyTree, ids: Array, kept: Bool[Array, " m"] | None, part: _Part, at_once
) -> PyTree:
    """This device's clients with their new rows where they are kept."""
    if at_once:
        places = part.begin + jnp.arange(part.room)
        at = jnp.minimum(places, len(ids) - 1)
        real = (places < part.end) if kept is None else (places < part.end) & kept[at]
        put = lambda new, old: (
            old
            if new is None
            else old.at[jnp.where(real, ids[at] - part.first, len(old))].set(new, mode="drop")
        )
        return jax.tree.map(put, rows, clients, is_leaf=lambda x: x is None)

    def one(k, clients):
        new = tree.take(rows, k - part.begin)
        return write(clients, new, ids[k] - part.first, None if kept is None else kept[k])

    return jax.lax.fori_loop(part.begin, part.end, one, clients)
