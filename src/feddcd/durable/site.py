"""A client on its disk: an answer leaves only after what it rests on is saved."""

from collections.abc import Callable
from typing import Any

import numpy as np

from .._types import Key, Params
from ..algorithms import AbstractAlgorithm
from ..problems import AbstractProblem
from .client_state import ClientFile
from .codec import flatten, restore
from .protocol import (
    Client,
    Pending,
    Reply,
    Settle,
    Settled,
    Stamp,
    Task,
    new_client,
    resolve,
    settled,
    work,
)
from .shapes import Shapes, shapes


class Site:
    """One member: its data f, its file, and the protocol between them."""

    def __init__(
        self,
        file: ClientFile,
        algorithm: AbstractAlgorithm,
        f: AbstractProblem,
        w: Params,
        key: Key,
        like: Shapes | None = None,
        joining: Callable[[], AbstractProblem] | None = None,
    ):
        """`joining` makes what has the weight of a new client, where that is not f's."""
        self.file, self.algorithm, self.f, self.key = file, algorithm, f, key
        saved = file.load()
        if saved is None:
            first = f if joining is None else joining()
            self.client = new_client(algorithm, first, w, file.client, file.incarnation)
            self._save(self.client)
        else:
            like = shapes(algorithm, f, w) if like is None else like
            self.client = unpack_client(file.client, file.incarnation, like, *saved)

    def handle(self, message: Task | Settle) -> Reply | Settled:
        """Resolve, save, work, save, answer; raises `Refused` and changes nothing else."""
        client = resolve(self.algorithm, self.client, message)
        if client is not self.client:
            self._save(client)  # the outcome, before anything that rests on it
        if isinstance(message, Settle):
            return settled(self.algorithm, client, message)
        client, reply = work(self.algorithm, self.f, client, message, self.key)
        if client is not self.client:
            self._save(client)  # once the reply has left, the work must not be lost
        return reply

    def _save(self, client: Client) -> None:
        self.file.save(*pack_client(client))
        self.client = client


def pack_client(client: Client) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a client's file holds; its id and incarnation are the file's own."""
    content: dict[str, Any] = {"state": client.state}
    meta: dict[str, Any] = {"seen": list(client.seen), "committed": None, "pending": None}
    if client.committed is not None:
        meta["committed"] = [*client.committed[0], client.committed[1]]
    if client.pending is not None:
        stamp, state, value, digest = client.pending
        meta["pending"] = [*stamp, digest]
        content |= {"proposed": state, "value": value}
    return meta, flatten(content)


def unpack_client(
    id: str, incarnation: int, like: Shapes, meta: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Client:
    shape: dict[str, Any] = {"state": like.state}
    if meta["pending"] is not None:
        shape |= {"proposed": like.state, "value": like.value}
    content = restore(shape, arrays)
    committed = pending = None
    if meta["committed"] is not None:
        epoch, round, digest = meta["committed"]
        committed = (Stamp(epoch, round), digest)
    if meta["pending"] is not None:
        epoch, round, digest = meta["pending"]
        pending = Pending(Stamp(epoch, round), content["proposed"], content["value"], digest)
    seen = Stamp(*meta["seen"])
    return Client(id, incarnation, content["state"], seen, committed, pending)
