"""Questions to the members and what comes back: rounds, settlements, and who was refused; of a
settlement with all of them, the audit of sums, the certificate and the model."""

import io
import random
import time
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ... import tree
from ..._errors import Refused
from ..._types import Params, Scalar
from ...algorithms import usual_bytes
from ...durable.protocol import Settle, Stamp, Summed, Task
from ...durable.protocol.client import unsound
from ...durable.protocol.server import Guard, Server, sum_of
from ...durable.server import LedgerServer, committed_rounds
from ...measure import lower_bound
from .. import training_wire, wire
from ..config import Config
from ..folder import FederationFolder
from ..terms import Learner, Terms, scale
from ..training_wire import Ask, CertificatePart, Closing
from ..wire import Envelope
from ._checks import reason_of
from ._proof_checks import check_proof, check_score
from ._silence import Silences
from .nodes import Nodes

MOST_ROUNDS_OUT = 8
NOT_BELOW_ZERO = ("softmax", "logistic", "ridge")  # losses
SMALL = 1 << 20  # bytes of an answer beside its arrays
Closings = Mapping[str, Closing]


class Rounds:
    def __init__(
        self,
        folder: FederationFolder,
        nodes: Nodes,
        server: LedgerServer,
        terms: Terms,
        learner: Learner,
    ):
        self.folder, self.nodes, self.server, self.terms = folder, nodes, server, terms
        self.like, self.w, self.f = learner.like, learner.w, learner.f
        # an answer holds an upload, or what is conserved and two tangents; names and digests
        own = (learner.like.value, learner.like.conserved, learner.w, learner.w)
        self._most = SMALL + 2 * tree.nbytes(own)
        self._usual = usual_bytes(learner.like.value)
        self.config: Config = folder.config()
        self._guard = Guard(self.like.value, self.config.largest)
        self._silences = Silences(folder)
        self._refused: dict[str, str] = {}  # noted once each, not in every round
        self._out: dict[str, int] = {}  # sites at rest, until this round
        self._misses: dict[str, int] = {}

    @property
    def members(self) -> set[str]:
        return set(self.server.now.members)

    def next(self) -> Summed | None:
        """One message to each of a cohort; the record of their sum, None if too few answered."""
        began, cohort = time.monotonic(), self._cohort()
        requests = {task.client: self._pack(task) for task in self.server.begin(cohort)}
        for client, envelope in self.nodes.ask(requests, work=True, most=self._most):
            self._handle(client, envelope, "reply", self._receive)
        open_round = self.server.now.open
        # what is given up here costs nothing: those who worked go back with their next task
        enough = open_round is not None and len(open_round.replies) >= self.config.fewest
        record = self.server.commit() if enough else None
        self.folder.note(
            "round", round=self.server.now.round, asked=sorted(cohort),
            summed=list(record.members) if record else [],
            seconds=round(time.monotonic() - began, 3),
            bytes=len(record.members) * self._usual + record.extra if record else 0,
        )  # fmt: skip
        return record

    def settle(self, clients: Iterable[str]) -> dict[str, Closing]:
        """The outcome to these members; their parts of the sums and of the certificate."""
        wanted, messages, model = set(clients), self.server.settle(), self.server.model
        requests = {m.client: self._pack(m, model) for m in messages if m.client in wanted}
        stamp = Stamp(self.server.now.epoch, self.server.now.round)
        closings: dict[str, Closing] = {}

        def keep(client: str, envelope: Envelope) -> None:
            closing = _read(client, training_wire.read_closing, envelope, self.like, self.w)
            _check_name(client, closing.settled.client)
            self._check_proof(client, _check_settled(closing, stamp), model)
            closings[client] = closing

        for client, envelope in self.nodes.ask(requests, work=False, most=self._most):
            self._handle(client, envelope, "closing", keep)
        return closings

    def refusals(self) -> list[str]:
        """Why sites refused, or were refused, the last time that they were asked."""
        return [self._refused[client] for client in sorted(self._refused)]

    def _check_proof(self, client: str, proof: CertificatePart, model: Params) -> None:
        if self.f.convex:
            alpha = float(np.asarray(self.f.alpha).ravel()[0])
            check_proof(client, proof, model, alpha, self.terms.model in NOT_BELOW_ZERO)
        if self.terms.classes is not None:
            check_score(client, float(proof.score))

    def refuse(self, client: str, reason: str) -> None:
        reason = reason_of(client, reason)
        if self._refused.get(client) != reason:
            self.folder.note("refused", site=client, reason=reason)
        self._refused[client] = reason

    def _cohort(self) -> list[str]:
        """All who are there and not at rest, or tau of them; the same for the same round."""
        now = self.server.now.round + 1
        here = sorted(self.nodes.here() & self.members)
        awake = [client for client in here if self._out.get(client, 0) <= now]
        pool = awake if len(awake) >= self.config.fewest else here
        wanted = self.config.spec.tau or len(pool)
        # one upload alone would be that site's own, and cannot move a dual method
        tau = max(min(wanted, len(pool)), self.config.fewest)
        return random.Random(f"{self.terms.seed} {now}").sample(pool, tau)

    def _handle(
        self,
        client: str,
        envelope: Envelope | None,
        kind: str,
        use: Callable[[str, Envelope], None],
    ) -> None:
        """An answer put to use, or the reason why not; who did not answer is greeted again."""
        try:
            if envelope is None:
                self._silences.note(client)
                self.nodes.lost(client)
                self._rest(client)
                return
            self._silences.ended(client)
            if envelope.kind == "refusal":
                raise Refused(_read(client, wire.read_refusal, envelope).reason)
            if envelope.kind != kind:
                raise Refused(f"{client}: it answered another question than the coordinator asked")
            use(client, envelope)
            self._misses.pop(client, None)
            self._refused.pop(client, None)
        except Refused as reason:
            self.refuse(client, str(reason))
            self._rest(client)

    def _receive(self, client: str, envelope: Envelope) -> None:
        reply = _read(client, training_wire.read_reply, envelope, self.like)
        _check_name(client, reply.client)
        self.server.receive(reply, self._guard)

    def _rest(self, client: str) -> None:
        """Not asked for the next 1, 2, 4, ... rounds, while there are enough others."""
        self._misses[client] = self._misses.get(client, 0) + 1
        rounds = min(2 ** (self._misses[client] - 1), MOST_ROUNDS_OUT)
        self._out[client] = self.server.now.round + 1 + rounds

    def _pack(self, message: Task | Settle, model: Params | None = None) -> bytes:
        members = self.server.now.members
        row = scale(self.terms, [member.rows for member in members.values()])
        ask = Ask(self.terms, members[message.client].rows, row, message, model)
        return training_wire.pack_training(ask)


def _read(client: str, reader: Callable[..., Any], *args: Any) -> Any:
    try:
        return reader(*args)
    except (KeyError, TypeError, ValueError, ArithmeticError) as error:
        told = f"{client}: the coordinator cannot read the answer of this site: {error}"
        raise Refused(told) from None


def _check_settled(closing: Closing, asked: Stamp) -> CertificatePart:
    """An older settlement would be a sum over other rounds: the audit would blame the ledger."""
    (client, _, stamp, conserved), proof = closing
    if stamp != asked or proof is None:
        raise Refused(
            f"{client}: this site did not confirm the round that the coordinator asked about, or "
            "this site sent no numbers for the proof of the gap"
        )
    if bad := unsound((conserved, proof.value, proof.at_model, proof.at_own)):
        raise Refused(f"{client}: the answer with which this site confirms a round {bad}")
    return proof


def _check_name(client: str, name: str) -> None:
    if name != client:
        raise Refused(f"{client} answered under another name, {name}")


def certify(learner: Learner, terms: Terms, server: Server, closings: Closings) -> dict[str, float]:
    """Objective and lower bound in mean form, from all members' parts."""
    proofs = [closings[client].proof for client in server.members]
    measures = certified_measures(learner, _total(proofs), len(proofs))
    if terms.classes is not None:
        rows = np.array([member.rows for member in server.members.values()])
        right = np.array([float(proof.score) for proof in proofs if proof is not None])
        measures["accuracy"] = float(rows @ right / rows.sum())
    return measures


@jax.jit
def _total(proofs: list[CertificatePart]) -> CertificatePart:
    return tree.total(tree.stack(proofs))


def certified_measures(learner: Learner, total: CertificatePart, N: int) -> dict[str, float]:
    """From the sums of N members' parts."""
    objective, bound = float(total.value) / N, float(_bound(total, N))
    measures: dict[str, float] = {"objective": objective}
    if learner.f.convex:  # a tangent bounds a convex function from below, and no other
        gap = objective - bound
        if gap < -1e-6 * (abs(objective) + abs(bound)):
            raise Refused(
                "the certificates of the sites contradict each other: with these certificates, "
                "the model would be better than the best possible model. At least one "
                "site sent wrong numbers"
            )
        measures |= {"lower_bound": min(bound, objective), "certified_gap": max(gap, 0.0)}
    return measures


@partial(jax.jit, static_argnums=1)
def _bound(total: CertificatePart, N: int) -> Scalar:
    return jnp.fmax(lower_bound(total.at_model, N), lower_bound(total.at_own, N))


def conserved(server: Server, closings: Closings) -> PyTree | None:
    """The sum of what all members hold; None where nothing is conserved."""
    shares = [closings[client].settled.conserved for client in server.members]
    return None if shares[0] is None else sum_of(shares)


def imbalance(learner: Learner, server: Server, total: PyTree | None) -> float | None:
    """How far the members' sums are from what the server holds: rebalancing changes nothing if
    they agree. None where nothing is conserved."""
    if total is None:
        return None
    weight = sum(member.weight for member in server.members.values())
    after = learner.algorithm.rebalance(server.state, total, jnp.asarray(weight))
    return _distance(server.state, after)


def _distance(a: PyTree, b: PyTree) -> float:
    """Largest entry of the difference; a part that only one of them has counts against zero."""
    left, right = tree.flatten(a), tree.flatten(b)
    pairs = [(left.get(k, 0.0), right.get(k, 0.0)) for k in {*left, *right}]
    return max(float(np.max(np.abs(np.subtract(x, y, dtype=float)))) for x, y in pairs)


def write_results(
    folder: FederationFolder,
    terms: Terms,
    server: LedgerServer,
    measures: dict[str, Any],
    each: int | None = None,
) -> None:
    """model.npz and summary.json; what is not certified now is not in there. `each` are the bytes
    of an upload, where they are not those of its numbers."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **model_arrays(terms, server.model))
    folder.save(folder.results / "model.npz", file.getvalue())
    sums = committed_rounds(server.ledger, server.like)
    uploads = sum(len(record.members) for record in sums)
    each = usual_bytes(server.like.value) if each is None else each
    extra = sum(record.extra for record in sums)
    summary: dict[str, Any] = {
        "federation": terms.federation, "algorithm": terms.algorithm, "rounds": len(sums),
        "uploads": uploads, "bytes_up": uploads * each + extra, "epoch": server.now.epoch,
        "members": {client: member.rows for client, member in server.now.members.items()},
    }  # fmt: skip
    folder.save(folder.results / "summary.json", summary | measures)


def model_arrays(terms: Terms, model: Params) -> dict[str, np.ndarray]:
    """What model.npz holds."""
    arrays = {"w": np.asarray(model)} if isinstance(model, jax.Array) else tree.flatten(model)
    if isinstance(terms.features, tuple):
        arrays["features"] = np.array(terms.features)
    if terms.classes is not None:
        arrays["classes"] = np.array(terms.classes)
    return arrays
