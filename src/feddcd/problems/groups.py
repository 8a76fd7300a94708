"""All clients' problems: one stack, or a few stacks of clients of like sizes.

A stack pads its clients to its largest. Where sizes differ much, one stack would be mostly
padding, so clients stand in several, each of one shape. Whoever asks something of clients asks
here, and need not know which it is.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PyTree

from .. import tree
from ._base import AbstractProblem

MOST = 8  # stacks: each is compiled by itself
SPARE = 1.6  # padded rows over real rows, at which more stacks do not pay
STEPS = 400  # sizes that are tried as the largest of a stack


class Stacks(eqx.Module):
    """Client i is in stacks[stack[i]], at place[i]; `members` are the clients of each stack."""

    stacks: tuple[AbstractProblem, ...]
    members: tuple[Int[Array, " m"], ...]
    stack: Int[Array, " N"]
    place: Int[Array, " N"]

    @property
    def mu(self) -> Float[Array, " N"]:
        return each(lambda f: f.mu, self)

    @property
    def alpha(self) -> Float[Array, " N"]:
        return each(lambda f: f.alpha, self)

    @property
    def loss_beta(self) -> Float[Array, " N"]:
        return each(lambda f: f.loss_beta, self)

    @property
    def rows(self) -> Int[Array, " N"]:
        return each(lambda f: f.rows, self)


Clients = AbstractProblem | Stacks


def grouped(stacks: Sequence[AbstractProblem], members: Sequence[np.ndarray]) -> Clients:
    """The stacks as one; `members` says which clients each of them has."""
    if len(stacks) == 1:
        return stacks[0]
    N = sum(map(len, members))
    stack, place = np.zeros(N, np.int32), np.zeros(N, np.int32)
    for c, ids in enumerate(members):
        stack[ids], place[ids] = c, np.arange(len(ids))
    put = lambda x: jax.device_put(np.asarray(x, np.int32))
    return Stacks(tuple(stacks), tuple(map(put, members)), put(stack), put(place))


def size_groups(sizes: np.ndarray) -> list[np.ndarray]:
    """The clients of each stack: as few as bring the padding down, the smallest clients first."""
    grid = np.geomspace(sizes.min(), sizes.max(), STEPS)
    ends = np.searchsorted(np.sort(sizes), grid * (1 + 1e-9), side="right")
    ends = np.unique(np.append(ends[ends > 0], len(sizes)))  # clients up to each size tried
    tops = np.sort(sizes)[ends - 1].astype(float)  # the largest of them
    cost = np.where(ends[:, None] < ends, (ends - ends[:, None]) * tops, np.inf)
    best, chosen = ends * tops, []  # of clients up to each end, in one stack more at each turn
    while True:
        padded = best[-1] / sizes.sum()
        if padded <= SPARE or len(chosen) == MOST - 1:
            break
        total = best[:, None] + cost
        chosen.append(np.argmin(total, 0))
        best = np.min(total, 0)
    order, bounds = np.argsort(sizes, kind="stable"), [0, *ends[_cuts(chosen, len(ends) - 1)]]
    return [np.sort(order[a:b]) for a, b in pairwise(bounds)]


def _cuts(chosen: list[np.ndarray], last: int) -> list[int]:
    """The ends of the stacks, found back from the last one."""
    cuts = [last]
    for before in reversed(chosen):
        cuts.insert(0, int(before[cuts[0]]))
    return cuts


def stacks_of(clients: Clients) -> tuple[AbstractProblem, ...]:
    return clients.stacks if isinstance(clients, Stacks) else (clients,)


def with_stacks(clients: Clients, change: Callable[[Any], AbstractProblem]) -> Clients:
    """Every stack changed."""
    if not isinstance(clients, Stacks):
        return change(clients)
    return eqx.tree_at(lambda c: c.stacks, clients, tuple(map(change, clients.stacks)))


def each(function: Callable, clients: Clients, *stacked: PyTree, by=jax.vmap) -> PyTree:
    """function(f_i, x_i, ...) of every client i, in their order; `stacked` have a leading axis."""
    if not isinstance(clients, Stacks):
        return by(function)(clients, *stacked)
    parts = [
        by(function)(f, *tree.take(stacked, ids))
        for f, ids in zip(clients.stacks, clients.members, strict=True)
    ]
    starts = np.cumsum([0, *(len(ids) for ids in clients.members[:-1])])
    order = jnp.asarray(starts)[clients.stack] + clients.place
    return jax.tree.map(lambda *x: jnp.concatenate(x)[order], *parts)


def summed(function: Callable, clients: Clients, *stacked: PyTree) -> PyTree:
    """The sum of function(f_i, x_i, ...), one client after the other: never all at once."""
    total = None
    groups = [jnp.arange(len(clients.mu))] if not isinstance(clients, Stacks) else clients.members
    for f, ids in zip(stacks_of(clients), groups, strict=True):
        one = lambda k, f=f, ids=ids: function(tree.take(f, k), *tree.take(stacked, ids[k]))
        if total is None:
            total = jax.tree.map(lambda x: jnp.zeros(x.shape, x.dtype), jax.eval_shape(one, 0))
        total = jax.lax.fori_loop(0, len(ids), lambda k, t, one=one: tree.add(t, one(k)), total)
    return total


def of_client(function: Callable, clients: Clients, i: Int[Array, ""]) -> PyTree:
    """function(f_i)."""
    if not isinstance(clients, Stacks):
        return function(tree.take(clients, i))
    place = clients.place[i]
    ways = [lambda f=f: function(tree.take(f, place)) for f in clients.stacks]
    return jax.lax.switch(clients.stack[i], ways)


def of_some(function: Callable, clients: Clients, ids: Int[Array, " m"], *beside: PyTree) -> PyTree:
    """function(f_i, i, x_k, ...) for all i of `ids`, side by side; `beside` has a row for each.
    Every stack has as many lanes as it may need; one that is left over repeats the stack's first
    client."""
    if not isinstance(clients, Stacks):
        return jax.vmap(lambda i, *x: function(tree.take(clients, i), i, *x))(ids, *beside)
    rows = None
    for c, (f, members) in enumerate(zip(clients.stacks, clients.members, strict=True)):
        room = min(len(ids), len(members))
        mine = jnp.nonzero(clients.stack[ids] == c, size=room, fill_value=len(ids))[0]
        at = jnp.minimum(mine, len(ids) - 1)
        who = jnp.where(mine < len(ids), ids[at], members[0])
        found = jax.vmap(function)(tree.take(f, clients.place[who]), who, *tree.take(beside, at))
        if rows is None:
            rows = jax.tree.map(lambda x: jnp.zeros((len(ids), *x.shape[1:]), x.dtype), found)
        rows = jax.tree.map(lambda all_, x: all_.at[mine].set(x, mode="drop"), rows, found)  # noqa: B023
    return rows
