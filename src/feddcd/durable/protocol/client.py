"""A client: its own state, and at most one round with an outcome that it does not know yet.

    resolve(task)  ->  save  ->  work(task)  ->  save  ->  reply

A task names the last round in which the client was summed. If that is the client's pending
round, it was committed and the answer is applied; any other pending round was aborted, and
the client goes back to the state before it.
"""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Int, PyTree

from ..._errors import Refused
from ..._types import Key, Params
from ...algorithms import AbstractAlgorithm, travelling
from ...participation import client_key, round_keys
from ...problems import AbstractProblem
from ..codec import digest
from . import NEVER, Reply, Settle, Settled, Stamp, Task


class Pending(NamedTuple):
    """Work that was done and sent. Its outcome is not known yet."""

    stamp: Stamp
    state: PyTree
    value: PyTree
    digest: str


class Client(NamedTuple):
    id: str
    incarnation: int
    state: PyTree
    seen: Stamp  # the latest message that was acted on
    committed: tuple[Stamp, str] | None  # when, and the digest of that upload
    pending: Pending | None


def new_client(
    algorithm: AbstractAlgorithm, f: AbstractProblem, w: Params, id: str, incarnation: int = 1
) -> Client:
    return Client(id, incarnation, algorithm.init_client(f, w), NEVER, None, None)


def resolve(algorithm: AbstractAlgorithm, client: Client, message: Task | Settle) -> Client:
    """The client with its pending round committed or aborted, as the message says."""
    if message.client != client.id:
        raise Refused(f"this site is {client.id!r}, but the message is for {message.client!r}")
    if message.stamp < client.seen:
        raise Refused(
            f"{client.id}: this site does not answer an old message. The message is from "
            f"{message.stamp}, but this site has already seen a message from {client.seen}"
        )
    pending, commit = client.pending, message.commit
    if pending is not None and pending.stamp == message.stamp:
        return client  # the same task again
    named = None if commit is None else (commit.stamp, commit.digest)
    if commit is not None and pending is not None and named == (pending.stamp, pending.digest):
        state = pending.state
        if commit.answer is not None:
            state = algorithm.client_receive(state, commit.answer)
        return client._replace(state=state, seen=message.stamp, committed=named, pending=None)
    if named != client.committed:
        raise Refused(_disagreement(client, named))
    return client._replace(seen=message.stamp, pending=None)


def _disagreement(client: Client, named: tuple[Stamp, str] | None) -> str:
    """Why the ledger's last round of this client is not the client's own."""
    theirs, own = (NEVER if x is None else x[0] for x in (named, client.committed))
    if theirs > own:
        what = (
            "this site's state is older than the ledger. The site was restored from a "
            "backup, or a copy of the site runs elsewhere. Stop the copy; if there is no "
            "copy, retire the site and let it enrol again with a new invitation"
        )
    elif theirs < own:
        what = (
            "the ledger is older than this site's state. At the coordinator, put back the "
            "newest ledger"
        )
    else:
        what = (
            "this site's last upload has other contents in the ledger than at the site. Retire "
            "the site and let it enrol again with a new invitation"
        )
    return (
        f"{client.id}: {what}. The last upload of this site, as the ledger has it: "
        f"{_last(theirs)}; as the site has it: {_last(own)}"
    )


def _last(stamp: Stamp) -> str:
    return "none" if stamp == NEVER else str(stamp)


def work(
    algorithm: AbstractAlgorithm, f: AbstractProblem, client: Client, task: Task, key: Key
) -> tuple[Client, Reply]:
    """The answer to a task with a resolved message; the same answer if asked again."""
    if client.pending is None:
        t = task.stamp.round - 1  # the simulator counts from 0: the same keys there
        own = own_key(key, np.int32(t), np.int32(task.number))
        state, up = algorithm.client_step(f, client.state, task.down, own)
        bad = unsound(up.value)
        if bad:
            raise Refused(f"{client.id}: the result of this site in round {task.stamp.round} {bad}")
        client = client._replace(
            pending=Pending(task.stamp, state, up.value, digest(travelling(up.value)))
        )
    done = client.pending
    assert done is not None
    return client, Reply(client.id, client.incarnation, done.stamp, done.value, done.digest)


@jax.jit
def own_key(key: Key, t: Int[Array, ""], number: Int[Array, ""]) -> Key:
    """Of a client's own draws in round t, which the simulator counts from 0."""
    _, key_clients = round_keys(key, t)
    return client_key(key_clients, number)


def settled(algorithm: AbstractAlgorithm, client: Client, message: Settle) -> Settled:
    """What a client without pending work holds of what is conserved."""
    share = algorithm.conserved(client.state, message.down)
    return Settled(client.id, client.incarnation, message.stamp, share)


def unsound(value: PyTree) -> str:
    """'holds nan or inf' if it does."""
    finite = all(bool(np.isfinite(np.asarray(x)).all()) for x in jax.tree.leaves(value))
    return "" if finite else "has a value that is not finite"
