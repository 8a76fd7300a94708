"""The server on its ledger: its state is the fold of what is written there."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from .._errors import Refused
from .._types import Params
from ..algorithms import AbstractAlgorithm
from .codec import digest, flatten, pack, restore, unpack
from .ledger import Entry, Ledger
from .protocol import (
    Founded,
    Joined,
    Record,
    Reply,
    Retired,
    Stamp,
    Started,
    Summed,
    apply,
    close,
    new_server,
)
from .protocol.server import mean_of
from .shapes import Shapes


class Book:
    """Opening it begins a new epoch, durably, before anything is sent."""

    def __init__(self, ledger: Ledger, algorithm: AbstractAlgorithm, w: Params, like: Shapes):
        self.ledger, self.algorithm, self.like = ledger, algorithm, like
        self.server = replay(ledger.entries(), algorithm, w, like)
        self.write(Started(self.server.epoch + 1))

    def write(self, record: Record, replies: Iterable[Reply] = ()) -> None:
        """Checked, then durable, then in force."""
        after = apply(self.algorithm, self.server, record)
        kind, stamp = type(record).__name__.lower(), _stamp(record, self.server.epoch)
        uploads = {reply.client: pack({}, flatten(reply.value)) for reply in replies}
        self.ledger.append(kind, *stamp, encoded(record), uploads)
        self.server = after

    def commit(self) -> Summed | None:
        """The open round, written down; None if too few answered."""
        record, now = close(self.server), self.server.open
        if record is None or now is None:
            return None
        self.write(record, [now.replies[id] for id in record.members])
        return record


def found(ledger: Ledger, terms: dict[str, Any]) -> None:
    """The first record of an empty ledger: what was agreed."""
    ledger.append("founded", 0, 0, encoded(Founded(terms)))


def founded(ledger: Ledger) -> dict[str, Any] | None:
    """What was agreed; None where nothing is written yet."""
    first = next(ledger.entries(), None)
    if first is None:
        return None
    if first.kind != "founded":
        raise Refused("the ledger does not begin with what was agreed")
    return unpack(first.body)[0]["terms"]


def replay(entries: Iterable[Entry], algorithm: AbstractAlgorithm, w: Params, like: Shapes):
    server = new_server(algorithm, w)
    for entry in entries:
        server = apply(algorithm, server, decoded(entry, like))
    return server


def committed(ledger: Ledger, like: Shapes) -> list[Summed]:
    """The rounds that were, in their order."""
    records = (decoded(entry, like) for entry in ledger.entries() if entry.kind == "summed")
    return [record for record in records if isinstance(record, Summed)]


def audit(ledger: Ledger, algorithm: AbstractAlgorithm, w: Params, like: Shapes) -> int:
    """Recomputes the chain, every kept upload's digest, every mean and share, and the fold;
    the number of records. Raises `Refused` with the record that is not what it says."""
    ledger.verify()
    server, count = new_server(algorithm, w), 0
    for entry in ledger.entries():
        record = decoded(entry, like)
        if isinstance(record, Summed):
            weights = [server.members[id].weight for id in record.members]
            _check_sum(ledger, entry, record, weights, like)
        server, count = apply(algorithm, server, record), count + 1
    return count


def _check_sum(
    ledger: Ledger, entry: Entry, record: Summed, weights: list[float], like: Shapes
) -> None:
    kept = ledger.uploads(entry.epoch, entry.round)
    if not kept:
        return  # pruned: every member has settled
    values = []
    for id, expected in zip(record.members, record.digests, strict=True):
        value = restore(like.value, unpack(kept[id])[1]) if id in kept else None
        if value is None or digest(value) != expected:
            raise Refused(f"record {entry.seq}: the upload of {id} is not the one that was summed")
        values.append(value)
    if digest(mean_of(values, weights)) != digest(record.mean):
        raise Refused(f"record {entry.seq}: its mean is not that of its uploads")


def _stamp(record: Record, epoch: int) -> Stamp:
    match record:
        case Summed():
            return record.stamp
        case Started():
            return Stamp(record.epoch, 0)
        case _:
            return Stamp(epoch, 0)


def encoded(record: Record) -> bytes:
    match record:
        case Founded(terms):
            return pack({"terms": terms}, {})
        case Started(epoch):
            return pack({"epoch": epoch}, {})
        case Joined(client, weight, rows):
            return pack({"client": client, "weight": weight, "rows": rows}, {})
        case Summed(stamp, members, digests, share, mean):
            meta: dict[str, Any] = {"stamp": list(stamp), "members": list(members)}
            return pack(meta | {"digests": list(digests), "share": share}, flatten(mean))
        case Retired(clients, total, barred):
            held: dict[str, np.ndarray] = {} if total is None else flatten(total)
            meta = {"clients": list(clients), "moved": total is not None, "barred": barred}
            return pack(meta, held)


def decoded(entry: Entry, like: Shapes) -> Record:
    meta, arrays = unpack(entry.body)
    match entry.kind:
        case "founded":
            return Founded(meta["terms"])
        case "started":
            return Started(meta["epoch"])
        case "joined":
            return Joined(meta["client"], meta["weight"], meta["rows"])
        case "summed":
            names = (tuple(meta["members"]), tuple(meta["digests"]))
            mean = restore(like.value, arrays)
            return Summed(Stamp(*meta["stamp"]), *names, meta["share"], mean)
        case "retired":
            total = restore(like.conserved, arrays) if meta["moved"] else None
            return Retired(tuple(meta["clients"]), total, meta["barred"])
    raise Refused(f"record {entry.seq} is of the unknown kind {entry.kind!r}")
