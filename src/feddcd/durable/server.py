"""The server on its ledger: its state is the fold of what is written there."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from jaxtyping import PyTree

from .. import tree
from .._errors import Refused
from .._types import Key, Params
from ..algorithms import AbstractAlgorithm, arrived, travelling, with_parts
from .codec import digest, pack, unpack
from .ledger import Entry, Ledger
from .protocol import (
    Asked,
    Founded,
    Joined,
    Record,
    Reply,
    Retired,
    Sealed,
    Settle,
    Stamp,
    Started,
    Summed,
    Task,
    Vouched,
)
from .protocol.masked import (
    Pact,
    Replica,
    exchange_of,
    layout_of,
    mean_from,
    read_answer,
    read_pact,
    read_question,
    summed_parts,
)
from .protocol.server import (
    Guard,
    Server,
    apply,
    begin,
    close,
    mean_of,
    new_server,
    receive,
    settle,
)
from .shapes import Shapes


class LedgerServer:
    """The protocol's server; nobody else moves it. Opening it begins a new epoch, durably, before
    anything is sent.

    Only `write` changes what is durable. The number of the round and the uploads of an open one
    are lost in a crash: the new epoch keeps stamps unique, and an open round counts as aborted.
    """

    def __init__(
        self, ledger: Ledger, algorithm: AbstractAlgorithm, w: Params, like: Shapes, key: Key
    ):
        self.ledger, self.algorithm, self.like, self.key = ledger, algorithm, like, key
        self._now = replay(ledger.entries(), algorithm, w, like)
        self.write(Started(self._now.epoch + 1))

    @property
    def now(self) -> Server:
        return self._now

    @property
    def model(self) -> Params:
        return self.algorithm.model(self._now.state)

    def write(self, record: Record, uploads: Mapping[str, bytes] | None = None) -> None:
        """Checked, then durable, then in force."""
        after = apply(self.algorithm, self._now, record)  # refuses before anything is written
        stamped = isinstance(record, Summed | Asked | Vouched)
        stamp = record.stamp if stamped else Stamp(after.epoch, 0)
        self.ledger.append(type(record).__name__.lower(), *stamp, encode(record), uploads)
        self._now = after

    def begin(self, cohort: Iterable[str]) -> list[Task]:
        """A new round; an open one is given up."""
        self._now, tasks = begin(self.algorithm, self._now, cohort, self.key)
        return tasks

    def receive(self, reply: Reply, guard: Guard) -> None:
        self._now = receive(self.algorithm, self._now, reply, guard)

    def settle(self) -> list[Settle]:
        """The outcome for every member; an open round is given up."""
        self._now, messages = settle(self.algorithm, self._now, self.key)
        return messages

    def commit(self) -> Summed | None:
        """The open round, written down; None if too few answered."""
        record, open_round = close(self._now), self._now.open
        if record is None or open_round is None:
            return None
        values = {id: open_round.replies[id].value for id in record.members}
        self.write(record, {id: pack({}, travelling(value)) for id, value in values.items()})
        return record


def write_founding(ledger: Ledger, terms: dict[str, Any]) -> None:
    """The first record of an empty ledger: what was agreed."""
    ledger.append("founded", 0, 0, encode(Founded(terms)))


def read_founding(ledger: Ledger) -> dict[str, Any] | None:
    """What was agreed; None where nothing is written yet."""
    first = next(ledger.entries(), None)
    if first is None:
        return None
    if first.kind != "founded":
        raise Refused("the ledger does not begin with the settings that the sites agreed on")
    return unpack(first.body)[0]["terms"]


def replay(
    entries: Iterable[Entry], algorithm: AbstractAlgorithm, w: Params, like: Shapes
) -> Server:
    server = new_server(algorithm, w)
    for entry in entries:
        server = apply(algorithm, server, decode(entry, like))
    return server


def committed_rounds(ledger: Ledger, like: Shapes) -> list[Summed]:
    """The rounds that were, in their order."""
    records = (decode(entry, like) for entry in ledger.entries() if entry.kind == "summed")
    return [record for record in records if isinstance(record, Summed)]


def audit(ledger: Ledger, algorithm: AbstractAlgorithm, w: Params, like: Shapes, key: Key) -> int:
    """Recomputes the chain, every kept upload's digest, every mean and share, in sums every
    question, and the fold; the number of records. Raises `Refused` with the record that is not
    what it says."""
    ledger.verify()
    server, count, pact, question = new_server(algorithm, w), 0, None, b""
    for entry in ledger.entries():
        record = decode(entry, like)
        if isinstance(record, Sealed):
            pact = read_pact(record)
        elif isinstance(record, Asked) and not record.certificate:
            question = record.question
        elif isinstance(record, Summed) and pact is not None:
            replica = Replica(server.state, record.stamp.round - 1, server.notes)
            read_question(algorithm, replica, key, like.down, question)
            parts = summed_parts(algorithm, pact, replica, like, question)
            _check_masked(ledger, entry, record, pact, question, like.mean, parts)
        elif isinstance(record, Summed):
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
        value = arrived(like.value, unpack(kept[id])[1]) if id in kept else None
        if value is None or digest(travelling(value)) != expected:
            raise Refused(
                f"record {entry.seq} of the ledger: the upload of site {id!r} is missing, or the "
                "sum was computed from another upload"
            )
        values.append(value)
    if digest(mean_of(values, np.asarray(weights))) != digest(record.mean):
        raise Refused(f"record {entry.seq} of the ledger: its mean is not the mean of the uploads")


def _check_masked(
    ledger: Ledger,
    entry: Entry,
    record: Summed,
    pact: Pact,
    question: bytes,
    like: PyTree,
    parts: tuple[float, ...],
) -> None:
    """Every signature, and the sum of what was signed."""
    round, cohort = record.stamp.round, pact.cohort(record.stamp.round)
    said = {id: read_answer(data) for id, data in ledger.uploads(entry.epoch, round).items()}
    layout = layout_of(with_parts(like, parts))
    try:
        sums = pact.opened(cohort, exchange_of(round), layout, question, said)
    except Refused as reason:
        raise Refused(f"record {entry.seq}: {reason}") from None
    same = digest(mean_from(like, parts, sums)) == digest(record.mean)
    if not same or record.members != cohort or record.share != pact.share(round):
        raise Refused(
            f"record {entry.seq} of the ledger: its mean, its list of sites or the weight of "
            "these sites does not agree with the uploads"
        )


def encode(record: Record) -> bytes:
    match record:
        case Founded(terms):
            return pack({"terms": terms}, {})
        case Started(epoch):
            return pack({"epoch": epoch}, {})
        case Joined(client, weight, rows):
            return pack({"client": client, "weight": weight, "rows": rows}, {})
        case Summed(stamp, members, digests, share, mean, extra, sent):
            meta: dict[str, Any] = {"stamp": list(stamp), "members": list(members)}
            meta |= {"digests": list(digests), "share": share, "extra": extra}
            held = {"mean": mean, "sent": list(sent)} if sent else mean
            return pack(meta | {"each": bool(sent)}, tree.flatten(held))
        case Sealed():
            plain = record._asdict() | {"members": [list(member) for member in record.members]}
            return pack(plain, {})
        case Asked(stamp, certificate, question):
            plain = {"stamp": list(stamp), "certificate": certificate}
            return pack(plain, {"question": np.frombuffer(question, np.uint8)})
        case Vouched(stamp, answers):
            said = {id: np.frombuffer(data, np.uint8) for id, data in answers.items()}
            return pack({"stamp": list(stamp)}, said)
        case Retired(clients, total, barred):
            arrays: dict[str, np.ndarray] = {} if total is None else tree.flatten(total)
            meta = {"clients": list(clients), "moved": total is not None, "barred": barred}
            return pack(meta, arrays)


def decode(entry: Entry, like: Shapes) -> Record:
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
            sent = [like.value] * len(names[0]) if meta.get("each") else []
            held = {"mean": like.mean, "sent": sent} if sent else like.mean
            mean = tree.restore(held, arrays)
            if sent:
                mean, sent = mean["mean"], mean["sent"]
            extra = meta.get("extra", 0)  # an older ledger does not have it
            return Summed(Stamp(*meta["stamp"]), *names, meta["share"], mean, extra, tuple(sent))
        case "sealed":
            members = tuple((id, weight, rows) for id, weight, rows in meta["members"])
            return Sealed(members, meta["roster"], meta["job"], meta["nonces"])
        case "asked":
            question = arrays["question"].tobytes()
            return Asked(Stamp(*meta["stamp"]), meta["certificate"], question)
        case "vouched":
            said = {id: words.tobytes() for id, words in arrays.items()}
            return Vouched(Stamp(*meta["stamp"]), said)
        case "retired":
            total = tree.restore(like.conserved, arrays) if meta["moved"] else None
            return Retired(tuple(meta["clients"]), total, meta["barred"])
    raise Refused(f"record {entry.seq} has the unknown kind {entry.kind!r}")
