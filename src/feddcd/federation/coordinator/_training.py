"""The coordinator of a training: terms, rounds, certificates and membership, over a ledger."""

import math
import time
from collections.abc import Mapping
from typing import Any

import jax

from ..._errors import DataError, Refused, SpecError, Stalled
from ..._text import plural
from ...data.agreement import admit, agree
from ...durable.ledger import Ledger
from ...durable.protocol import Joined
from ...durable.protocol.server import retire
from ...durable.server import LedgerServer, read_founding, write_founding
from ..config import AGREED, Config
from ..enrolment.departed import let_go
from ..folder import FederationFolder, Request
from ..roster import load_roster
from ..terms import Terms, joining_problem, server_learner
from ..training_wire import Closing
from ._rounds import Rounds, certify, conserved, imbalance, write_results
from .nodes import Nodes, greet

PAUSE_S = 1.0


def train(folder: FederationFolder, nodes: Nodes, rounds: int) -> None:
    with Ledger(folder.ledger, folder.config().name) as ledger:
        terms = agree_on_terms(folder, nodes, ledger)
        with jax.enable_x64(terms.double):
            kind = Coordinator
            if terms.answers == "sum":
                from ._masked_training import MaskedTraining as kind  # with what sums need
            kind(folder, nodes, ledger, terms, rounds).run()


def agree_on_terms(folder: FederationFolder, nodes: Nodes, ledger: Ledger) -> Terms:
    """From the ledger; the first time, from what the sites offer."""
    config, founding = folder.config(), read_founding(ledger)
    if founding is not None:
        return _check_unchanged(Terms.from_json(founding), config)
    greet(folder, nodes, config)
    names = _on_roster(folder, nodes.here()) if config.answers == "sum" else nodes.here()
    offers = [nodes.offers[client].offer for client in sorted(names)]
    agreed, refused = agree(offers, config.features, config.classes, config.spec.model)
    accepted = len(offers) - len(refused)
    if accepted < config.fewest:
        raise DataError(
            f"a training needs {config.fewest} sites with data that fit together, but only "
            f"{plural(accepted, 'site')} can take part: {'; '.join(refused.values())}"
        )
    terms = Terms.make(config.name, config.spec, agreed, accepted, config.answers or "each")
    try:  # whether the settings make an algorithm, before they are written down for ever
        with jax.enable_x64(terms.double):
            server_learner(terms)
    except ValueError as error:
        raise SpecError(f"federation.toml: {error}") from None
    write_founding(ledger, terms.to_json())
    folder.note("founded", sites=accepted)
    return terms


def _on_roster(folder: FederationFolder, here: set[str]) -> set[str]:
    """Who can be summed with the others."""
    listed = set(load_roster(folder.server).names)
    for client in sorted(here - listed):
        folder.note(
            "refused",
            site=client,
            reason=f"the site {client!r} is not in the roster (the list of sites)",
        )
    return here & listed


def _check_unchanged(terms: Terms, config: Config) -> Terms:
    """What is trained is what was agreed: a change needs a new federation."""
    said = {name: getattr(config.spec, name) for name in AGREED}
    for name, now in {**said, "answers": config.answers or "each"}.items():
        then = getattr(terms, name)
        if then != now:
            raise SpecError(
                f"federation.toml has {name} = {now!r}, but the sites agreed on {name} "
                f"= {then!r}. Write the old value into federation.toml again, or make a "
                "new federation"
            )
    return terms


class Coordinator:
    def __init__(
        self, folder: FederationFolder, nodes: Nodes, ledger: Ledger, terms: Terms, rounds: int
    ):
        self.folder, self.nodes, self.terms, self.config = folder, nodes, terms, folder.config()
        self.wanted, self.learner = rounds or self.config.spec.rounds, server_learner(terms)
        learner = self.learner
        self.server = LedgerServer(ledger, learner.algorithm, learner.w, learner.like, learner.key)
        self.rounds = Rounds(folder, nodes, self.server, terms, learner)
        self.committed = sum(entry.kind == "summed" for entry in ledger.entries())
        self.certified_at, self.gap, self.waiting = -1, math.inf, ""
        self.settled: tuple[Any, dict[str, Closing]] = (None, {})

    def run(self) -> None:
        spec, epoch = self.config.spec, self.server.now.epoch
        self.folder.note("started", epoch=epoch, committed=self.committed, rounds=self.wanted)
        self.gather(departures=bool(self.folder.requests()))
        moved = time.monotonic()
        while self.committed < self.wanted and not self.reached():
            if self.rounds.next() is None:
                self.wait_for_answers(moved)
            else:
                self.committed, moved = self.committed + 1, time.monotonic()
            self.folder.note("progress", committed=self.committed, of=self.wanted)
            due = spec.target_gap is not None and self.committed % spec.certify_every == 0
            if due and self.committed != self.certified_at:
                self.settle()
            self.gather()
        self.finish()

    def wait_for_answers(self, since: float) -> None:
        """After a round without a sum: a site may be mended, as long as patience lasts."""
        if time.monotonic() - since > self.config.patience:
            told = (
                f"the coordinator waited {self.config.patience:g} s, but too few sites answered "
                "to finish a round"
            )
            raise Stalled("; ".join([told, *self.rounds.refusals()]))
        time.sleep(PAUSE_S)

    def reached(self) -> bool:
        target = self.config.spec.target_gap
        return target is not None and self.gap <= target

    def gather(self, *, departures: bool = False) -> None:
        """Until enough members are there for a round; who is new joins, who is to go goes.

        With `departures`, until those who are to go have gone too, as far as patience allows.
        """
        until = time.monotonic() + self.config.patience
        while True:
            if departures or not self.enough() or self.nodes.overdue(self.rounds.members):
                self.nodes.call((lambda: False) if departures else self.enough)
            for client in sorted(self.nodes.here() - self.rounds.members):
                self.join(client)
            for request in self.folder.requests():
                if self.depart(request):
                    request.path.unlink(missing_ok=True)
            departures = departures and bool(self.folder.requests())
            late = time.monotonic() > until
            if self.enough() and (late or not departures):
                return
            if late:
                here = ", ".join(sorted(self.nodes.here() & self.rounds.members)) or "none"
                raise Stalled(
                    f"the coordinator waited {self.config.patience:g} s, but too few sites are "
                    f"connected. A round needs at least {self.config.fewest} of the sites "
                    f"{', '.join(sorted(self.rounds.members))}; connected: {here}"
                )
            time.sleep(PAUSE_S)

    def enough(self) -> bool:
        return len(self.nodes.here() & self.rounds.members) >= self.config.fewest

    def join(self, client: str) -> None:
        offer, known = self.nodes.offers[client]
        reason = admit(offer, self.terms.agreed)
        # its state is that of sums it has left: as a new member it must begin with zero
        if not reason and known:
            reason = (
                f"{client} left this training before, and still has its old state file. At "
                "the site: move the file `state` away, then the site can join again"
            )
        if reason:
            return self.rounds.refuse(client, reason)
        try:
            problem = joining_problem(self.terms, offer.rows)
            weight = float(self.learner.algorithm.weight(problem))
            self.server.write(Joined(client, weight, offer.rows))
            self.gap = math.inf
            self.folder.note("joined", site=client, rows=offer.rows)
        except Refused as why:
            self.rounds.refuse(client, str(why))

    def depart(self, request: Request) -> bool:
        """Whether an administrator's wish is dealt with; what cannot be done yet waits."""
        gone = tuple(site for site in request.sites if site in self.rounds.members)
        others = self.rounds.members - set(gone)
        if not gone:
            self.folder.note(
                "refused",
                reason=(
                    "these sites cannot leave, because they are not members: "
                    f"{', '.join(request.sites)}"
                ),
            )
            return True
        if len(others) < self.config.fewest:
            reason = (
                f"{', '.join(gone)} cannot leave: fewer than {self.config.fewest} sites "
                "would remain"
            )
            self.folder.note("refused", reason=reason)
            return True
        if absent := others - self.nodes.here():
            self.wait(
                f"{', '.join(gone)} can leave when these sites are connected: "
                f"{', '.join(sorted(absent))}"
            )
            return False
        answers = [closing.settled for closing in self.rounds.settle(others).values()]
        try:
            self.server.write(retire(self.server.now, gone, answers, barred=request.barred))
        except Refused as reason:
            self.wait(str(reason))
            return False
        # only after the record: a crash in between must not lock out a member
        for site in gone:
            let_go(self.folder, site, request.barred)
        self.certified_at, self.gap = -1, math.inf
        self.folder.note("retired", sites=list(gone), barred=request.barred)
        return True

    def wait(self, reason: str) -> None:
        if reason != self.waiting:
            self.folder.note("waiting", reason=reason)
        self.waiting = reason

    def settle(self) -> set[str]:
        """With who is there and has not yet; with all members, audits and certifies. Who is left.

        Between two rounds nothing moves, so answers of several exchanges go together.
        """
        now = (self.committed, frozenset(self.rounds.members))
        if self.settled[0] != now:
            self.settled = (now, {})
        closings = self.settled[1]
        if self.rounds.members <= set(closings):
            return set()
        closings |= self.rounds.settle((self.nodes.here() & self.rounds.members) - set(closings))
        missing = self.rounds.members - set(closings)
        if not missing:
            self._certify(closings)
        return missing

    def _certify(self, closings: Mapping[str, Closing]) -> None:
        server = self.server
        try:
            measures = certify(self.learner, self.terms, server.now, closings)
        except Refused as reason:  # nothing is proven now, and it goes on
            self.folder.note("refused", reason=str(reason))
            measures = {}
        self.certified_at, self.gap = self.committed, measures.get("certified_gap", math.inf)
        # nobody waits for the outcome of a round any more: single uploads need not be kept
        server.ledger.prune(server.ledger.head[0])
        # the files' name for the imbalance; measure.dual_residual is something else
        held = conserved(server.now, closings)
        audit = {"dual_residual": imbalance(self.learner, server.now, held)}
        write_results(self.folder, self.terms, server, measures | audit)
        if measures:
            self.folder.note("certified", committed=self.committed, **audit, **measures)

    def finish(self) -> None:
        """Settles until every member has, or patience ends; the model is written in any case."""
        until, missing = time.monotonic() + self.config.patience, self.settle()
        while missing and time.monotonic() < until:
            time.sleep(PAUSE_S)
            self.nodes.call(lambda: self.rounds.members <= self.nodes.here())
            if self.nodes.here() & missing:
                missing = self.settle()
        if missing:
            write_results(self.folder, self.terms, self.server, {})
        self.folder.note(
            "finished", committed=self.committed, unsettled=sorted(missing),
            messages=dict(self.nodes.sent),
        )  # fmt: skip
