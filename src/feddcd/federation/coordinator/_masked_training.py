"""Training in sums: the coordinator adds up masked answers, and can read nothing else.

    all members sign a job  ->  rounds, each with the cohort that is drawn for it  ->  certificate

A cohort is drawn once: who is missing is waited for. All that must not be lost is in the ledger;
killed at any moment and started again, it asks the same question again.
"""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ... import tree
from ..._errors import DataError, Refused, SpecError, Stalled
from ..._text import plural
from ...data.agreement import admit
from ...durable.ledger import Ledger
from ...durable.masked_server import WORD, MaskedServer, usual_masked
from ...durable.protocol import Sealed
from ...durable.protocol.masked import exchange_of, layout_of, read_nonce, unflat, write_nonce
from ...durable.server import LedgerServer
from ...sums.job import Job, SignedNonce
from ...sums.proof import SignedAnswer
from ...sums.roster import FEWEST, Roster
from ...sums.signing import verify_nonce
from .. import sealed, wire
from ..folder import FederationFolder
from ..roster import load_roster
from ..site.told import is_waiting
from ..terms import Terms, server_learner, weights_of
from ..wire import Envelope
from ._checks import reason_of
from ._rounds import SMALL, imbalance, write_results
from ._silence import Silences
from ._summed import summed_measures
from .nodes import Nodes

PAUSE_S = 1.0
A_NEW_ONE = "make a new federation: feddcd federation init DIR --sites N"
Said = TypeVar("Said", SignedNonce, SignedAnswer)


class MaskedTraining:
    def __init__(
        self, folder: FederationFolder, nodes: Nodes, ledger: Ledger, terms: Terms, rounds: int
    ):
        self.folder, self.nodes, self.terms, self.config = folder, nodes, terms, folder.config()
        self.wanted, self.learner = rounds or self.config.spec.rounds, server_learner(terms)
        learner = self.learner
        server = LedgerServer(ledger, learner.algorithm, learner.w, learner.like, learner.key)
        self.server = MaskedServer(server)
        self.certified_at, self.gap = -1, math.inf
        self._refused: dict[str, str] = {}  # noted once each
        self._nonces: dict[str, str] = {}
        self._silences = Silences(folder)

    def run(self) -> None:
        spec, server = self.config.spec, self.server
        epoch, wanted = server.now.epoch, self.wanted
        self.folder.note("started", epoch=epoch, committed=server.round, rounds=wanted)
        self.seal()
        if wanted > server.agreed.rounds:
            raise SpecError(
                f"the sites agreed on {plural(server.agreed.rounds, 'round')}, so {wanted} rounds "
                f"are not possible; {A_NEW_ONE}"
            )
        while server.round < wanted and not self.reached():
            self.next()
            self.folder.note("progress", committed=server.round, of=wanted)
            if spec.target_gap is not None and server.round % spec.certify_every == 0:
                self.certify()
        self.finish()

    def reached(self) -> bool:
        target = self.config.spec.target_gap
        return target is not None and self.gap <= target

    def seal(self) -> None:
        """All members sign one job; the first time alone."""
        if self.server.pact is None:
            roster = load_roster(self.folder.server)
            job = self._job(roster, self._members(roster))

            def read(client: str, envelope: Envelope) -> SignedNonce:
                nonce = read_nonce(envelope.meta["nonce"])
                verify_nonce(roster[client].signing, job.digest, *nonce)
                return nonce

            asked = Envelope("training", {"job": job.to_json().decode()}, {})
            packed = wire.pack_message(asked)
            nonces = self._ask_all(job.cohort, "nonce", lambda _: packed, read)
            rows, weights = job.agreement["rows"], job.agreement["weights"]
            members = tuple((name, weights[name], rows[name]) for name in job.cohort)
            texts = {name: write_nonce(nonces[name]) for name in job.cohort}
            text = job.to_json().decode()
            self.server.seal(Sealed(members, roster.to_json().decode(), text, texts))
            self.folder.note("sealed", sites=list(job.cohort), rounds=self.wanted)
        self._nonces = {name: write_nonce(n) for name, n in self.server.nonces.items()}

    def _members(self, roster: Roster) -> dict[str, int]:
        """The rows of those for whom the terms were made: all of them, or nobody begins."""
        until, here = time.monotonic() + self.config.patience, {}
        while time.monotonic() < until:
            names = self.nodes.here() & set(roster.names)
            offers = {name: self.nodes.offers[name].offer for name in names}
            fit = {name: offer for name, offer in offers.items() if not self._misfit(offer)}
            here = {name: fit[name].rows for name in sorted(fit)}
            if len(here) == self.terms.clients:
                if len(here) < FEWEST:
                    raise DataError(
                        f"sums need at least {FEWEST} sites, and only "
                        f"{plural(len(here), 'site')} can take part"
                    )
                return here
            time.sleep(PAUSE_S)
            self.nodes.call(lambda: False)
        raise Stalled(
            f"this training needs all of its {self.terms.clients} sites. These sites "
            f"are connected and have data that fit the training: {', '.join(here) or 'none'}. "
            "Start the other sites, then start the training again"
        )

    def _misfit(self, offer) -> str:
        reason = admit(offer, self.terms.agreed)
        if reason:
            self.refuse(offer.client, reason)
        return reason

    def _job(self, roster: Roster, rows: dict[str, int]) -> Job:
        weights = weights_of(self.learner, self.terms, rows)
        return sealed.training_job(self.terms, roster, rows, weights, self.wanted).check(roster)

    def next(self) -> None:
        """One round: the same question to its whole cohort, however long that takes."""
        began, server = time.monotonic(), self.server
        question, round = server.question(), server.round + 1
        cohort = server.agreed.cohort(round)
        number, summed = exchange_of(round), server.summed()
        said = self._exchange("round", cohort, number, question, summed)
        record = server.commit(said, self._check_size)
        self.folder.note(
            "round", round=round, asked=list(cohort), summed=list(record.members),
            seconds=float(f"{time.monotonic() - began:.3f}"),
            bytes=len(record.members) * usual_masked(self.learner.like.mean) + record.extra,
        )  # fmt: skip

    def _check_size(self, mean: Any) -> None:
        """Nobody can tell who sent what, but a sum that is none is not taken."""
        size = lambda x: float(tree.norm(x))
        bound = self.config.largest * (1 + size(self.server.server.model))
        if not (got := size(mean)) <= bound:
            cohort = self.server.agreed.cohort(self.server.round + 1)
            raise DataError(
                f"the mean upload of {', '.join(cohort)} is too large: its norm is "
                f"{got:.3g}, and at most {bound:.3g} is allowed. One of these sites "
                f"sent a wrong upload. Find out which site it was; then {A_NEW_ONE}"
            )

    def _exchange(
        self, kind: str, cohort: tuple[str, ...], number: int, question: bytes, like: Any
    ) -> dict[str, SignedAnswer]:
        layout = layout_of(like)

        def pack(client: str) -> bytes:
            history, name = self.server.history(client), self.terms.federation
            return wire.pack_message(
                sealed.ask_envelope(kind, name, self._nonces, history, question)
            )

        def read(client: str, envelope: Envelope) -> SignedAnswer:
            answer = sealed.read_signed(envelope)
            self.server.agreed.check_answer(cohort, number, layout, question, client, answer)
            return answer

        return self._ask_all(cohort, "masked", pack, read, SMALL + WORD * layout.words)

    def _ask_all(
        self,
        cohort: tuple[str, ...],
        kind: str,
        pack: Callable[[str], bytes],
        read: Callable[[str, Envelope], Said],
        most: int = SMALL,
    ) -> dict[str, Said]:
        """The answers of all of them; who is missing is asked again, as long as patience lasts.
        More bytes than `most` are not read."""
        said: dict[str, Said] = {}
        moved, greeted = time.monotonic(), False
        while missing := [client for client in cohort if client not in said]:
            if greeted:
                time.sleep(PAUSE_S)
                self.nodes.call(lambda: set(missing) <= self.nodes.here())
            requests = {client: pack(client) for client in missing if client in self.nodes.here()}
            for client, envelope in self.nodes.ask(requests, work=kind == "masked", most=most):
                if (found := self._read(client, kind, envelope, read)) is not None:
                    said[client], moved = found, time.monotonic()
            greeted = True
            self._turn_away()
            if time.monotonic() - moved > self.config.patience:
                told = (
                    f"the coordinator waited {self.config.patience:g} s, but got no answer from "
                    f"these sites: {', '.join(missing)}"
                )
                raise Stalled("; ".join([told, *(self._refused[c] for c in sorted(self._refused))]))
        return said

    def _read(
        self, client: str, kind: str, envelope: Envelope | None, read: Callable[..., Said]
    ) -> Said | None:
        try:
            if envelope is None:
                self._silences.note(client)
                self.nodes.lost(client)
                return None
            self._silences.ended(client)
            if envelope.kind == "refusal":
                raise Refused(wire.read_refusal(envelope).reason)
            if envelope.kind != kind or envelope.meta["client"] != client:
                raise Refused(f"{client}: it answered another question than the coordinator asked")
            found = read(client, envelope)
            self._refused.pop(client, None)
            return found
        except Refused as reason:
            self.refuse(client, str(reason))
        except (KeyError, TypeError, ValueError, ArithmeticError) as error:
            told = f"{client}: the coordinator cannot read the answer of this site: {error}"
            self.refuse(client, told)
        return None

    def refuse(self, client: str, reason: str) -> None:
        reason = reason_of(client, reason)
        if self._refused.get(client) != reason:
            event = "waiting" if is_waiting(reason) else "refused"
            self.folder.note(event, site=client, reason=reason)
        self._refused[client] = reason

    def _turn_away(self) -> None:
        """Nobody joins or leaves: two sums with and without a site would reveal its part."""
        members = set(self.server.now.members)
        if members:
            for client in sorted(self.nodes.here() - members):
                self.refuse(
                    client,
                    f"{client} cannot join, because this training in mode sum has already begun; "
                    f"{A_NEW_ONE}",
                )
        for request in self.folder.requests():
            names = ", ".join(request.sites)
            told = (
                f"{names} cannot leave, because no site can leave a training in mode sum. Stop "
                f"this training and {A_NEW_ONE}"
            )
            self.folder.note("refused", reason=told)
            request.path.unlink(missing_ok=True)

    def certify(self) -> None:
        """Objective, lower bound, score and conserved sums, all of them sums over all members."""
        if self.certified_at == self.server.round:
            return
        server, learner, members = self.server, self.learner, self.server.agreed.members
        asked = sealed.model_question(server.server.model, server.round)
        question, number = server.certificate(asked), exchange_of(server.round, certificate=True)
        like = sealed.certificate_like(learner.like, learner.w)
        said = self._exchange("certificate", members, number, question, like)
        server.certified(said)
        measures: dict[str, float | None] = {}
        try:
            sums = server.agreed.opened(members, number, layout_of(like), question, said)
            total, rows = unflat(like, sums), [m.rows for m in server.now.members.values()]
            proof, model = total["proof"], server.server.model
            measures |= summed_measures(learner, self.terms, proof, model, rows)
            measures["dual_residual"] = imbalance(learner, server.now, total["conserved"])
            self.folder.note("certified", committed=server.round, **measures)
        except Refused as reason:  # nothing is proven now, and it goes on
            self.folder.note("refused", reason=str(reason))
        gap = measures.get("certified_gap")
        self.certified_at, self.gap = server.round, math.inf if gap is None else gap
        self._write(measures)

    def _write(self, measures: Mapping[str, Any]) -> None:
        each = usual_masked(self.learner.like.mean)
        write_results(self.folder, self.terms, self.server.server, dict(measures), each)

    def finish(self) -> None:
        """The last outcome reaches every site with the certificate; the model is written in any
        case."""
        unsettled: list[str] = []
        try:
            self.certify()
        except Stalled as reason:
            self._write({})
            self.folder.note("waiting", reason=str(reason))
            unsettled = list(self.server.agreed.members)
        self.folder.note(
            "finished", committed=self.server.round, unsettled=unsettled,
            messages=dict(self.nodes.sent),
        )  # fmt: skip
