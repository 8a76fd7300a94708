"""Looks into a federation's folder, also while it runs: who is where, and does the ledger hold."""

import io
import json
import math
import shlex
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from zipfile import BadZipFile

import jax
import numpy as np

from ..._errors import LedgerError, Refused
from ..._files import shown
from ...durable.ledger import Ledger
from ...durable.protocol import Asked, Sealed, Stamp, Vouched
from ...durable.protocol.masked import exchange_of, layout_of, read_answer, read_pact, unflat
from ...durable.protocol.server import Server
from ...durable.server import audit, committed_rounds, decode, read_founding, replay
from .. import sealed
from ..folder import FederationFolder
from ..terms import Learner, Terms, server_learner
from ._summed import summed_measures


class Insight(NamedTuple):
    terms: Terms
    server: Server
    rounds: int
    last: dict[str, Stamp]  # by member: its last upload in a sum
    pending: set[str]  # members that may not know yet what became of their last upload
    requests: list[str]
    summary: dict[str, Any]  # of the last settlement with all members
    refusals: list[dict[str, Any]]


def inspect(folder: FederationFolder) -> Insight:
    with _open(folder) as (ledger, terms, learner):
        server = replay(ledger.entries(), learner.algorithm, learner.w, learner.like)
        sums = committed_rounds(ledger, learner.like)
        last = {id: m.commit.stamp for id, m in server.members.items() if m.commit}
        kept = {client for record in sums for client in ledger.uploads(*record.stamp)}
    wishes = [
        f"{'expel' if request.barred else 'retire'} {', '.join(request.sites)}"
        for request in folder.requests()
    ]
    refusals = [event for _, event in folder.read_events() if event["event"] == "refused"]
    # in sums all uploads are kept, as the proof; who was away learns them with its next question
    pending = set() if terms.answers == "sum" else kept & set(server.members)
    return Insight(terms, server, len(sums), last, pending, wishes, _summary(folder), refusals)


def verify(folder: FederationFolder) -> int:
    """The number of records, all of which are what they say, as is the model beside them."""
    with _open(folder) as (ledger, terms, learner):
        count = audit(ledger, learner.algorithm, learner.w, learner.like)
        server = replay(ledger.entries(), learner.algorithm, learner.w, learner.like)
        model = learner.algorithm.model(server.state)
        rounds = len(committed_rounds(ledger, learner.like))
        path = folder.results / "model.npz"
        if path.exists() and _summary(folder).get("rounds") == rounds:
            _check_model(path, model)
            if terms.answers == "sum":
                _check_certificate(folder, ledger, terms, learner, server, rounds)
    return count


def _check_certificate(
    folder: FederationFolder,
    ledger: Ledger,
    terms: Terms,
    learner: Learner,
    server: Server,
    rounds: int,
) -> None:
    """What summary.json says, from what all members signed after the last round."""
    like, said = sealed.certificate_like(learner.like, learner.w), _summary(folder)
    kinds = ("sealed", "asked", "vouched")
    records = [decode(e, learner.like) for e in ledger.entries() if e.kind in kinds]
    pact = next(read_pact(record) for record in records if isinstance(record, Sealed))
    number, question = exchange_of(rounds, certificate=True), b""
    for record in records:
        if isinstance(record, Asked) and record.certificate and record.stamp.round == rounds:
            question = record.question
        if not isinstance(record, Vouched) or record.stamp.round != rounds:
            continue
        answers = {id: read_answer(data) for id, data in record.answers.items()}
        sums = pact.opened(pact.members, number, layout_of(like), question, answers)
        model = learner.algorithm.model(server.state)
        rows = [member.rows for member in server.members.values()]
        proof = unflat(like, sums)["proof"]
        for name, value in summed_measures(learner, terms, proof, model, rows).items():
            if not math.isclose(said.get(name, value), value, rel_tol=1e-9, abs_tol=1e-12):
                raise Refused(f"summary.json: {name} is not what the sites signed")


@contextmanager
def _open(folder: FederationFolder) -> Iterator[tuple[Ledger, Terms, Learner]]:
    """The ledger and what its first record says, at the precision that was agreed on."""
    folder.config()  # a folder that is no federation is named as such
    if not folder.ledger.exists():
        path = shown(folder.path)
        raise LedgerError(
            f"the federation in {path} was not started yet; start it with: "
            f"feddcd federation up {shlex.quote(path)}"
        )
    with Ledger(folder.ledger, readonly=True) as ledger:
        founding = read_founding(ledger)
        if founding is None:
            raise LedgerError(f"{folder.ledger} is empty: the sites have not agreed yet")
        terms = Terms.from_json(founding)
        with jax.enable_x64(terms.double):
            yield ledger, terms, server_learner(terms)


def _check_model(path, model) -> None:
    try:
        data = io.BytesIO(path.read_bytes())
        with np.load(data, allow_pickle=False) as file:
            saved = [file[name] for name in file.files if name not in ("features", "classes")]
    except (OSError, ValueError, EOFError, BadZipFile, zlib.error) as error:
        raise Refused(f"{path} cannot be read: {error}") from None
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(model)]
    same = len(saved) == len(leaves)
    if not same or not all(np.array_equal(a, b) for a, b in zip(saved, leaves, strict=True)):
        raise Refused(f"{path} is not the model of the ledger")


def _summary(folder: FederationFolder) -> dict[str, Any]:
    path = folder.results / "summary.json"
    return json.loads(path.read_text()) if path.exists() else {}
