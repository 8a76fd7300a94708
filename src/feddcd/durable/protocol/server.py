"""The server: members, the algorithm's state, and at most one open round.

    begin  ->  tasks;  receive ...;  close  ->  record  ->  write it down  ->  apply

All that it knows durably is the fold of `apply` over its records, each of which is written
before anything that follows from it leaves. Faults change only who took part in a round.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from ... import tree
from ..._errors import Refused
from ..._text import sentence_list
from ..._types import Key, Params
from ...algorithms import AbstractAlgorithm, extra_sent, opened, opened_now, parts_of, travelling
from ...participation import broadcast_key
from ..codec import digest
from . import (
    Asked,
    Commit,
    Founded,
    Joined,
    Record,
    Reply,
    Retired,
    Sealed,
    Settle,
    Settled,
    Stamp,
    Started,
    Summed,
    Task,
    Vouched,
)
from .client import unsound
from .notes import Notes, after_round, asked_parts, new_notes, recalled, without

FEWEST = 2  # one upload alone cannot move a dual method
_down_key = jax.jit(broadcast_key)


class Member(NamedTuple):
    number: int
    weight: float
    commit: Commit | None = None
    incarnation: int = 0
    rows: int = 0


class Open(NamedTuple):
    stamp: Stamp
    asked: tuple[str, ...]
    replies: Mapping[str, Reply]
    parts: Mapping[str, tuple[bool, ...]] = MappingProxyType({})  # extra ones, of each upload


class Server(NamedTuple):
    state: PyTree
    epoch: int
    round: int  # the latest that was begun
    joined: int  # members ever, so that numbers are not reused
    members: Mapping[str, Member]
    open: Open | None
    barred: frozenset[str] = frozenset()
    notes: Notes | None = None


class Guard(NamedTuple):
    """What uploads must look like; `largest` bounds |upload| by largest (1 + |model|)."""

    like: PyTree
    largest: float = 1e6


def new_server(algorithm: AbstractAlgorithm, w: Params) -> Server:
    return Server(algorithm.init_server(w), 0, 0, 0, {}, None, notes=new_notes(algorithm, w))


def begin(
    algorithm: AbstractAlgorithm, server: Server, cohort: Iterable[str], key: Key
) -> tuple[Server, list[Task]]:
    """A new round with these members; an open one is given up."""
    asked = tuple(sorted(cohort, key=lambda id: _member(server, id).number))
    if len(asked) < FEWEST:
        raise Refused(
            f"a round needs at least {FEWEST} sites, but this round has: "
            f"{', '.join(map(repr, asked)) or 'none'}"
        )
    stamp = Stamp(server.epoch, server.round + 1)
    down = _down(algorithm, server, stamp, key)
    tasks, members = [], server.members
    for place, id in enumerate(asked):
        own = algorithm.addressed(down, jnp.asarray(place), jnp.asarray(len(asked)))
        tasks.append(Task(id, members[id].number, stamp, own, members[id].commit))
    parts = {
        task.client: asked_parts(algorithm, server.notes, task.client, task.down) for task in tasks
    }
    return server._replace(round=stamp.round, open=Open(stamp, asked, {}, parts)), tasks


def _down(algorithm: AbstractAlgorithm, server: Server, stamp: Stamp, key: Key) -> PyTree:
    t = stamp.round - 1  # the simulator counts from 0: the same key there
    return algorithm.broadcast(server.state, _down_key(key, np.int32(t)))


def receive(algorithm: AbstractAlgorithm, server: Server, reply: Reply, guard: Guard) -> Server:
    """The server with this upload in its open round; what does not belong there is refused."""
    member, now = _member(server, reply.client), server.open
    if now is None or reply.stamp != now.stamp:
        raise Refused(
            f"{reply.client}: its upload is for {reply.stamp}, but that round is "
            "over or has not begun"
        )
    if reply.client not in now.asked:
        raise Refused(f"{reply.client!r} answered in round {now.stamp.round}, but was not asked")
    if reply.incarnation < member.incarnation:
        raise Refused(
            f"{reply.client}: an older copy of this site (start number {reply.incarnation}) "
            f"answered after a newer copy (start number {member.incarnation}); stop the older copy"
        )
    known = now.replies.get(reply.client)
    if known is not None:
        if known.digest != reply.digest:
            raise Refused(f"{reply.client!r} sent two different uploads in one round")
        return server
    _check(algorithm, server, reply, guard)
    if parts_of(reply.value) != now.parts[reply.client]:
        raise Refused(f"{reply.client!r} did not send the parts that the coordinator asked for")
    members = {**server.members, reply.client: member._replace(incarnation=reply.incarnation)}
    replies = {**now.replies, reply.client: reply}
    return server._replace(members=members, open=now._replace(replies=replies))


def _check(algorithm: AbstractAlgorithm, server: Server, reply: Reply, guard: Guard) -> None:
    expected, got = jax.tree.flatten(guard.like), jax.tree.flatten(reply.value)
    if expected[1] != got[1]:
        raise Refused(
            f"{reply.client}: its upload does not have the structure that the sites agreed on"
        )
    for a, b in zip(expected[0], got[0], strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            raise Refused(
                f"{reply.client}: an array in its upload has the type {b.dtype} and the shape "
                f"{b.shape}, but the sites agreed on {a.dtype} and {a.shape}"
            )
    if bad := unsound(reply.value):
        raise Refused(f"{reply.client}: its upload {bad}")
    if digest(travelling(reply.value)) != reply.digest:
        raise Refused(f"{reply.client}: its upload was damaged on the way")
    bound = guard.largest * (1 + _size(algorithm.model(server.state)))
    size = _size(opened_now(reply.value))
    if size > bound:
        raise Refused(
            f"{reply.client}: its upload has the norm {size:.3g}, but at most "
            f"{bound:.3g} is allowed"
        )


def _size(value: PyTree) -> float:
    """inf where the squares of enormous numbers are."""
    with np.errstate(over="ignore"):
        squares = [np.sum(np.square(np.asarray(x), dtype=float)) for x in jax.tree.leaves(value)]
        return float(np.sqrt(sum(squares)))


def close(server: Server) -> Summed | None:
    """The record of the open round, to be written and then applied; None if too few answered."""
    now = server.open
    if now is None or len(now.replies) < FEWEST:
        return None
    members = tuple(id for id in now.asked if id in now.replies)
    values = [now.replies[id].value for id in members]
    weights = [server.members[id].weight for id in members]
    share = sum(weights) / sum(member.weight for member in server.members.values())
    digests = tuple(now.replies[id].digest for id in members)
    mean, extra = mean_of(values, np.asarray(weights)), sum(map(extra_sent, values))
    sent = tuple(values) if server.notes is not None and server.notes.each else ()
    return Summed(now.stamp, members, digests, share, mean, extra, sent)


@jax.jit
def mean_of(values: list[PyTree], weights: Float[Array, " n"]) -> PyTree:
    """The uploads' weighted mean, summed in the order of the list."""
    return tree.weighted_mean(tree.stack([opened(value) for value in values]), weights)


@jax.jit
def sum_of(values: list[PyTree]) -> PyTree:
    """What several members hold, summed in the order of the list."""
    return tree.total(tree.stack(values))


def apply(algorithm: AbstractAlgorithm, server: Server, record: Record) -> Server:
    """The server after a record: all that it knows durably is the fold of these."""
    match record:
        case Founded():
            if server.epoch > 0:
                raise Refused("this training has already begun and cannot begin again")
            return server
        case Started(epoch):
            if epoch <= server.epoch:
                told = "each start of the coordinator must have a higher number than before"
                raise Refused(f"{told}, but number {epoch} follows number {server.epoch}")
            return server._replace(epoch=epoch, open=None)
        case Joined():
            return _join(algorithm, server, record)
        case Sealed(members):
            if server.members:
                raise Refused("the sites have already agreed on this training")
            for member in members:
                server = _join(algorithm, server, Joined(*member))
            return server
        case Asked() | Vouched():
            return server
        case Summed():
            return _commit(algorithm, server, record)
        case Retired(clients, total, barred):
            for id in clients:
                _member(server, id)
            members = {k: v for k, v in server.members.items() if k not in clients}
            state = server.state
            if total is not None:
                weight = sum(member.weight for member in members.values())
                state = algorithm.rebalance(state, total, jnp.asarray(weight))
            out, notes = server.barred.union(clients if barred else ()), server.notes
            server = server._replace(state=state, members=members, open=None, barred=out)
            return server._replace(notes=without(notes, clients))


def _join(algorithm: AbstractAlgorithm, server: Server, record: Joined) -> Server:
    id, weight, rows = record
    if id in server.members:
        raise Refused(f"{id!r} is already a member")
    if id in server.barred:
        raise Refused(f"{id!r} was expelled and cannot join again")
    before = sum(member.weight for member in server.members.values())
    state = server.state
    if before > 0:
        state = algorithm.joined(state, jnp.asarray(before / (before + weight)))
    members = {**server.members, id: Member(server.joined, weight, rows=rows)}
    return server._replace(state=state, joined=server.joined + 1, members=members)


def _commit(algorithm: AbstractAlgorithm, server: Server, record: Summed) -> Server:
    share, before, names = jnp.asarray(record.share), server.state, record.members
    weights = [_member(server, id).weight for id in names]
    mean = recalled(algorithm, before, server.notes, record.mean, names, weights)
    state, answer = algorithm.server_step(before, mean, share)
    notes = after_round(algorithm, before, server.notes, record.stamp.round, names, record.sent)
    members = dict(server.members)
    for id, upload in zip(record.members, record.digests, strict=True):
        commit = Commit(record.stamp, upload, answer)
        members[id] = _member(server, id)._replace(commit=commit)
    latest = max(server.round, record.stamp.round)
    return server._replace(state=state, round=latest, members=members, open=None, notes=notes)


def settle(algorithm: AbstractAlgorithm, server: Server, key: Key) -> tuple[Server, list[Settle]]:
    """The outcome for every member; an open round is given up."""
    stamp = Stamp(server.epoch, server.round + 1)
    down = _down(algorithm, server, stamp, key)
    sent = [Settle(id, stamp, down, member.commit) for id, member in server.members.items()]
    return server._replace(round=stamp.round, open=None), sent


def retire(
    server: Server, clients: Iterable[str], answers: Iterable[Settled], *, barred: bool = False
) -> Retired:
    """The record of departures, from what all others hold after settling; who cannot settle,
    since its state was lost or is an old one, has to leave at the same time."""
    gone = tuple(clients)
    for id in gone:
        _member(server, id)
    by_id = {answer.client: answer for answer in answers}
    others = [other for other in server.members if other not in gone]
    missing = [other for other in others if other not in by_id]
    if missing:
        raise Refused(
            f"{', '.join(gone)} cannot leave yet, because {sentence_list(missing)} "
            f"{'has not sent its' if len(missing) == 1 else 'have not sent their'} last sums"
        )
    held = [by_id[other].conserved for other in others]
    if not held or held[0] is None:
        return Retired(gone, None, barred)
    return Retired(gone, sum_of(held), barred)


def _member(server: Server, id: str) -> Member:
    if id not in server.members:
        raise Refused(
            f"{id!r} is not a member; the members are: {', '.join(server.members) or 'none'}"
        )
    return server.members[id]
