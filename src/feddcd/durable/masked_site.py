"""A site of training in sums on its disk: a masked answer leaves only after it is saved."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PyTree

from .. import tree
from .._errors import Refused, StateError
from .._types import Params
from ..algorithms import AbstractAlgorithm
from ..problems import AbstractProblem
from ..sums.chain import KeyChain, begin
from ..sums.proof import SignedAnswer
from .mask_keys import MaskKeys
from .protocol.masked import CERTIFICATE, CHAINS, Replica, Told, chain_of, read_answer, write_answer
from .protocol.masked_client import (
    Follower,
    MaskedClient,
    Sent,
    certify,
    learn,
    new_masked_client,
    work,
)
from .protocol.notes import new_notes
from .shapes import Shapes
from .site import ClientFile

MODE = "sum"


class Vow(NamedTuple):
    """What a site has signed: the job, its own nonce for it, and the rows that it is about."""

    job: str
    nonce: str
    rows: str  # their digest


def read_vow(saved: tuple[dict[str, Any], Mapping[str, np.ndarray]] | None) -> Vow | None:
    if saved is None:
        return None
    if saved[0].get("mode") != MODE:
        raise StateError(
            "the state file of this site belongs to a training in mode 'each', and cannot be "
            "used for a training in mode 'sum'"
        )
    return Vow(*saved[0]["vow"])


def has_answered(saved: tuple[dict[str, Any], Mapping[str, np.ndarray]] | None) -> bool:
    """Whether a round was masked: the job cannot be exchanged for another any more."""
    return saved is not None and (saved[0]["round"] > 0 or saved[0]["pending"] is not None)


def masks_of(file: ClientFile) -> MaskKeys:
    """Beside the state: the keys of answers that are still to come."""
    return MaskKeys(file.path.with_name(f"{file.path.name}.mask"), file.disk)


def write_vow(file: ClientFile, vow: Vow, secret: bytes) -> None:
    """Before the nonce leaves, which is the secret's public half."""
    masks_of(file).begin(secret)
    file.save({"mode": MODE, "vow": list(vow), "round": 0, **_NOTHING}, {})


_NOTHING: dict[str, Any] = {"committed": None, "pending": None, "certificate": None}


class MaskedSite:
    def __init__(
        self,
        file: ClientFile,
        own: Follower,
        f: AbstractProblem,
        w: Params,
        joining: Callable[[], AbstractProblem] | None = None,
    ):
        """`joining` makes what has the weight of a new client, where that is not f's."""
        self.file, self.masks, self.f = file, masks_of(file), f
        self.own = own._replace(chain=self._chain)
        saved = file.load()
        vow = read_vow(saved)
        if saved is None or vow is None:
            raise Refused(
                f"{file.client}: this site did not agree to this training, or lost its state file"
            )
        self.vow = vow
        if not saved[1]:  # a vow alone
            first = f if joining is None else joining()
            self.client = new_masked_client(own.algorithm, first, w, file.client)
        else:
            if saved[0].get("job", own.pact.identity.hex()) != own.pact.identity.hex():
                raise Refused(
                    f"{file.client}: this site has already answered another job in this training. "
                    "The nonces (random numbers) in the message are not those of that job"
                )
            self.client = _unpack(file.client, own.algorithm, own.like, w, *saved)

    def answer(self, history: Iterable[Told], question: bytes) -> SignedAnswer:
        """Of the round that follows on the history; the same bytes if asked again."""
        self._save(work(self.own, self.f, self._after(history), question))
        return self._sent(self.client.pending)

    def certify(
        self,
        history: Iterable[Told],
        question: bytes,
        like: PyTree,
        part: Callable[[MaskedClient], PyTree],
    ) -> SignedAnswer:
        """Of the certificate after the last round of the history."""
        self._save(certify(self.own, self._after(history), question, like, part))
        return self._sent(self.client.certificate)

    def _sent(self, sent: Sent | None) -> SignedAnswer:
        """What is on disk, once its keys are not; after the last certificate none are needed."""
        assert sent is not None
        label, round = chain_of(sent.exchange)
        if label == CERTIFICATE and round >= self.own.pact.rounds:
            self.masks.remove()
        else:
            self.masks.forget(label, round, self._start)
        return sent.answer

    def _chain(self, exchange: int) -> KeyChain:
        return self.masks.chain(*chain_of(exchange), self._start)

    def _start(self, secret: bytes) -> dict[str, KeyChain]:
        _, pact, keys, *_ = self.own
        return begin(keys, pact.roster, pact.identity, pact.nonces, secret, CHAINS)

    def _after(self, history: Iterable[Told]) -> MaskedClient:
        client = self.client
        for told in history:
            client = learn(self.own, client, told)
        return client

    def _save(self, client: MaskedClient) -> None:
        if client is not self.client:
            meta, arrays = _pack(client, self.vow)
            self.file.save(meta | {"job": self.own.pact.identity.hex()}, arrays)
            self.client = client


def _pack(client: MaskedClient, vow: Vow) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    replica, pending, proof = client.replica, client.pending, client.certificate
    content: dict[str, Any] = {"state": client.state, "server": replica.state}
    meta = {"mode": MODE, "vow": list(vow), "round": replica.round, **_NOTHING}
    if replica.notes is not None:
        content["notes"] = dict(replica.notes.kept)
        meta["notes"] = {"kept": sorted(replica.notes.kept), "last": dict(replica.notes.last)}
    meta["committed"] = replica.round or None
    for name, sent in (("pending", pending), ("certificate", proof)):
        if sent is not None:
            meta[name] = [sent.exchange, sent.question]
            content[name] = np.frombuffer(write_answer(sent.answer), np.uint8)
    if pending is not None:
        content["proposed"] = pending.state
    return meta, tree.flatten(content)


def _unpack(
    id: str,
    algorithm: AbstractAlgorithm,
    like: Shapes,
    w: Params,
    meta: dict[str, Any],
    arrays: Mapping[str, np.ndarray],
) -> MaskedClient:
    masked = {name: arrays[name] for name in ("pending", "certificate") if name in arrays}
    shape: dict[str, Any] = {"state": like.state, "server": algorithm.init_server(w)}
    if meta["pending"] is not None:
        shape["proposed"] = like.state
    notes, known = new_notes(algorithm, w), meta.get("notes")
    if notes is not None and known is not None:
        shape["notes"] = dict.fromkeys(known["kept"], notes.first)
    content = tree.restore(shape, {k: v for k, v in arrays.items() if k not in masked})
    if notes is not None and known is not None:
        notes = notes._replace(kept=content["notes"], last=known["last"])
    sent: dict[str, Sent] = {}
    for name, words in masked.items():
        exchange, question = meta[name]
        state = content.get("proposed") if name == "pending" else None
        sent[name] = Sent(exchange, question, read_answer(words.tobytes()), state)
    replica = Replica(content["server"], meta["round"], notes)
    return MaskedClient(id, content["state"], replica, sent.get("pending"), sent.get("certificate"))
