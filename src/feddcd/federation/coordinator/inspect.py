"""Looks into a federation's folder, also while it runs: who is where, and does the ledger hold."""

import json
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from ..._errors import Refused, SpecError
from ..._files import shown
from ..._types import Params
from ...durable.ledger import Ledger
from ...durable.protocol import Asked, Sealed, Stamp, Summed, Vouched
from ...durable.protocol.masked import Pact, exchange_of, layout_of, read_answer, read_pact, unflat
from ...durable.protocol.server import Server, apply, new_server
from ...durable.server import audit, committed_rounds, decode, read_founding, replay
from .. import sealed
from ..folder import FederationFolder
from ..roster import ROSTER, EarlierRoster, held_before, load_roster
from ..terms import Learner, Terms, server_learner
from ._rounds import imbalance, model_arrays
from ._summed import summed_measures
from ._written import CERTIFIED, check_summary, is_close, read_arrays, read_summary


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


class Audited(NamedTuple):
    """`signed` are the sites with a checked signature; nobody, if the answers of a training are
    read one by one. `words` are those of their roster; `earlier` is it where it holds no more."""

    records: int
    signed: tuple[str, ...] = ()
    words: str = ""
    earlier: EarlierRoster | None = None


def verify(folder: FederationFolder) -> Audited:
    """All records are what they say, and so are the model and the certificate beside them."""
    with _open(folder) as (ledger, terms, learner):
        algorithm, w, like, key = learner.algorithm, learner.w, learner.like, learner.key
        ledger.verify()
        pact = _check_pact(folder, ledger, terms, learner)
        count = audit(ledger, algorithm, w, like, key)
        said, path = read_summary(folder.results / "summary.json"), folder.results / "model.npz"
        if said or path.exists():
            rounds, all_ = said.get("rounds"), len(committed_rounds(ledger, like))
            if type(rounds) is not int or not 0 <= rounds <= all_:
                raise Refused(
                    "the number of rounds in summary.json is missing, or is not a whole number "
                    f"from 0 to {all_}"
                )
            servers = list(_after(ledger, learner, rounds))
            _check_model(path, terms, [algorithm.model(server.state) for server in servers])
            if pact is not None:
                sums = committed_rounds(ledger, like)[:rounds]
                check_summary(said, _known(terms, pact, rounds, sums))
                _check_certificate(said, ledger, terms, learner, servers[-1], pact, rounds)
    if pact is None:
        return Audited(count)
    before = held_before(folder.server, pact.roster.digest)
    return Audited(count, pact.members, pact.roster.words(), before)


def _known(terms: Terms, pact: Pact, rounds: int, sums: list[Summed]) -> dict[str, Any]:
    """What summary.json may say beside its certificate."""
    return {
        "federation": terms.federation, "algorithm": terms.algorithm, "rounds": rounds,
        "members": pact.job.agreement["rows"], "clients": len(pact.members), "tau": pact.tau,
        "uploads": sum(len(record.members) for record in sums),
    }  # fmt: skip


def _check_pact(
    folder: FederationFolder, ledger: Ledger, terms: Terms, learner: Learner
) -> Pact | None:
    """What the sites signed is what the ledger says of them, and they are those of this folder."""
    records = [decode(e, learner.like) for e in ledger.entries() if e.kind == "sealed"]
    sealings = [record for record in records if isinstance(record, Sealed)]
    if not sealings:
        if terms.answers == "sum" and committed_rounds(ledger, learner.like):
            raise Refused(
                "the ledger belongs to a training in mode 'sum', but no site has signed the "
                "job of this training"
            )
        return None
    pact = read_pact(sealings[0])
    rows = pact.job.agreement.get("rows", {})
    if pact.job.plan != terms.to_json():
        raise Refused("the settings in the ledger are not the settings that the sites signed")
    if [*sealings[0].members] != [(id, pact.weights[id], rows.get(id)) for id in pact.members]:
        raise Refused(
            "the weights or the numbers of rows in the ledger are not the numbers that the sites "
            "signed"
        )
    if held_before(folder.server, pact.roster.digest):
        return pact
    own = load_roster(folder.server) if (folder.server / ROSTER).exists() else pact.roster
    if own.digest != pact.roster.digest:
        raise Refused(
            "the ledger was written with a roster (a list of sites) that is not in this folder: it "
            "is neither the current roster nor an earlier one. The roster words in the ledger are: "
            f"{pact.roster.words()}"
        )
    return pact


def _after(ledger: Ledger, learner: Learner, rounds: int) -> Iterator[Server]:
    """The server after this number of rounds, and after each record before the next round."""
    server, done = new_server(learner.algorithm, learner.w), 0
    for entry in ledger.entries():
        done += entry.kind == "summed"
        if done > rounds:
            return
        server = apply(learner.algorithm, server, decode(entry, learner.like))
        if done == rounds:
            yield server


def _check_certificate(
    said: dict[str, Any],
    ledger: Ledger,
    terms: Terms,
    learner: Learner,
    server: Server,
    pact: Pact,
    rounds: int,
) -> None:
    """What summary.json says, from what all members signed after its last round."""
    like, model = sealed.certificate_like(learner.like, learner.w), learner.algorithm.model
    records = [decode(e, learner.like) for e in ledger.entries() if e.kind in ("asked", "vouched")]
    number, question = exchange_of(rounds, certificate=True), b""
    told = {name: said[name] for name in CERTIFIED if said.get(name) is not None}
    found: dict[str, float | None] = {}
    for record in records:
        if isinstance(record, Asked) and record.certificate and record.stamp.round == rounds:
            question = record.question
        if not isinstance(record, Vouched) or record.stamp.round != rounds:
            continue
        sealed.read_model(question, rounds, model(server.state))
        answers = {id: read_answer(data) for id, data in record.answers.items()}
        total = unflat(like, pact.opened(pact.members, number, layout_of(like), question, answers))
        rows = [member.rows for member in server.members.values()]
        found = dict(summed_measures(learner, terms, total["proof"], model(server.state), rows))
        found["dual_residual"] = imbalance(learner, server, total["conserved"])
    for name, value in told.items():
        if not is_close(value, found.get(name)):
            raise Refused(
                f"the value of {name!r} in summary.json disagrees with what the sites signed"
            )


@contextmanager
def _open(folder: FederationFolder) -> Iterator[tuple[Ledger, Terms, Learner]]:
    """The ledger and what its first record says, at the precision that was agreed on."""
    folder.config()  # a folder that is no federation is named as such
    if not folder.ledger.exists():
        path = shown(folder.path)
        raise SpecError(
            f"the federation in {path} was not started yet; start it with: "
            f"feddcd federation up {shlex.quote(path)}"
        )
    with Ledger(folder.ledger, readonly=True) as ledger:
        founding = read_founding(ledger)
        if founding is None:
            raise SpecError(
                f"{folder.ledger} is empty, because the sites have not agreed on the training yet"
            )
        terms = Terms.from_json(founding)
        with jax.enable_x64(terms.double):
            yield ledger, terms, server_learner(terms)


def _check_model(path: Path, terms: Terms, models: list[Params]) -> None:
    """Its numbers, their names and order, and the names of features and classes."""
    saved = read_arrays(path)
    for model in models:
        own = model_arrays(terms, model)
        same = (np.array_equal(own[name], array) for name, array in saved if name in own)
        if [name for name, _ in saved] == sorted(own) and all(same):
            return
    raise Refused(f"{path} is not the model that follows from the ledger")


def _summary(folder: FederationFolder) -> dict[str, Any]:
    path = folder.results / "summary.json"
    return json.loads(path.read_text()) if path.exists() else {}
