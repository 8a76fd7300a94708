"""A client on its disk: an answer leaves only after what it rests on is saved.

What a site must not lose is one file, replaced atomically, checked, locked and counted. Every open
raises the incarnation durably before anything else, so that what an earlier process of this site
promised can be told from what this one does.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, Self

import numpy as np

from .. import tree
from .._errors import CodecError, StateError, VersionError
from .._files import Disk, Locked, lock_file, prepare, publish, temporary
from .._types import Key, Params
from ..algorithms import AbstractAlgorithm
from ..problems import AbstractProblem
from .codec import LIMIT, pack, unpack
from .protocol import Reply, Settle, Settled, Stamp, Task
from .protocol.client import Client, Pending, new_client, resolve, settled, work
from .shapes import Shapes, shapes

FORMAT = 1

_REPAIR = (
    "Put the latest backup in the place of this file, or ask the person at the coordinator "
    "to retire this site. Do not continue with an empty file"
)


class _Saved(NamedTuple):
    incarnation: int
    content: dict[str, Any] | None  # None before the first save
    arrays: dict[str, np.ndarray]


class ClientFile:
    """The state file of one client of one federation, held open by one process.

    `save` has happened when it returns. When it raises, the file holds the old content; where
    that is not certain (the rename or what follows it failed) every later call is refused, and
    opening again finds the old or the new.
    """

    def __init__(
        self, path: Path | str, *, federation: str, client: str, disk: Disk | None = None
    ) -> None:
        self.path = Path(path).resolve()  # a link and its target share one lock
        self.federation, self.client = federation, client
        self.disk = disk or Disk()
        self._uncertain = False
        self._lock: BinaryIO | None = self._take_lock()
        try:
            self.disk.remove(temporary(self.path))
            saved = self._read() or _Saved(0, None, {})
            self.incarnation = saved.incarnation + 1
            self._write(saved.content, saved.arrays)
        except OSError as error:
            self.close()
            raise StateError(f"cannot open {self.path}: {error}") from error
        except BaseException:
            self.close()
            raise

    def load(self) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
        """What was saved last; None before the first save."""
        self._check_usable()
        try:
            saved = self._read()
        except OSError as error:
            raise StateError(f"cannot read {self.path}: {error}") from error
        if saved is None or saved.incarnation != self.incarnation:
            raise StateError(
                f"{self.path} was removed or replaced while this site used it. Stop "
                "this site, put back the old file, and start the site again"
            )
        return None if saved.content is None else (saved.content, saved.arrays)

    def save(self, meta: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self._check_usable()
        self._write(dict(meta), arrays)

    def close(self) -> None:
        if self._lock is not None:
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _take_lock(self) -> BinaryIO:
        try:
            return self.disk.lock(lock_file(self.path))
        except Locked as error:
            raise StateError(
                f"{self.path} is in use by {error.holder}. Only one process can run "
                "a site at a time: stop that process first, or give this site its own file"
            ) from None
        except OSError as error:
            raise StateError(
                f"cannot lock {self.path}: {error}; check that its folder exists"
            ) from error

    def _check_usable(self) -> None:
        if self._lock is None:
            raise StateError(
                f"this object has closed the file {str(self.path)!r}; make a new object"
            )
        if self._uncertain:
            raise StateError(
                f"the last change of {self.path} was not finished. Check the disk, then "
                "start the site again: it continues from the state before or after "
                "this change"
            )

    def _write(self, content: dict[str, Any] | None, arrays: Mapping[str, np.ndarray]) -> None:
        meta = {
            "kind": "client",
            "format": FORMAT,
            "federation": self.federation,
            "client": self.client,
            "incarnation": self.incarnation,
            "content": content,
        }
        data = pack(meta, arrays)
        try:
            prepare(self.disk, self.path, data)
            self._uncertain = True  # a rename may have happened although it failed
            publish(self.disk, self.path)
        except OSError as error:
            raise StateError(
                f"cannot write {self.path}: {error}; make free space on the disk, or repair it. "
                "Then start the site again"
            ) from error
        self._uncertain = False

    def _read(self) -> _Saved | None:
        data = self.disk.read(self.path, LIMIT)
        if data is None:
            return None
        try:
            meta, arrays = unpack(data)
            if (meta["kind"], meta["format"]) != ("client", FORMAT):
                raise VersionError(
                    f"the file has the format '{meta['kind']} {meta['format']}', but this version "
                    f"of feddcd reads the format 'client {FORMAT}'"
                )
            owner, incarnation = (meta["federation"], meta["client"]), int(meta["incarnation"])
            saved = _Saved(incarnation, meta["content"], arrays)
        except VersionError as error:
            raise StateError(
                f"{self.path} cannot be used: {error}. Start this site with the version "
                "of feddcd that wrote the file"
            ) from None
        except (CodecError, KeyError, TypeError, ValueError) as error:
            why = f"the part {error} is missing" if isinstance(error, KeyError) else error
            raise StateError(f"{self.path} is damaged: {why}. {_REPAIR}") from None
        if owner != (self.federation, self.client):
            raise StateError(
                f"{self.path} belongs to the site {owner[1]!r} of the federation "
                f"{owner[0]!r}, not to {self.client!r} of {self.federation!r}; give "
                "this site its own file"
            )
        return saved


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
        if saved is not None and "mode" in saved[0]:
            raise StateError(
                f"{file.path} belongs to a training in mode 'sum', and cannot be "
                "used for a training in mode 'each'"
            )
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
    return meta, tree.flatten(content)


def unpack_client(
    id: str, incarnation: int, like: Shapes, meta: dict[str, Any], arrays: dict[str, np.ndarray]
) -> Client:
    shape: dict[str, Any] = {"state": like.state}
    if meta["pending"] is not None:
        shape |= {"proposed": like.state, "value": like.value}
    content = tree.restore(shape, arrays)
    committed = pending = None
    if meta["committed"] is not None:
        epoch, round, digest = meta["committed"]
        committed = (Stamp(epoch, round), digest)
    if meta["pending"] is not None:
        epoch, round, digest = meta["pending"]
        pending = Pending(Stamp(epoch, round), content["proposed"], content["value"], digest)
    seen = Stamp(*meta["seen"])
    return Client(id, incarnation, content["state"], seen, committed, pending)
