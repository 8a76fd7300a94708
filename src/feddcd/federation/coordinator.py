"""The coordinator: rounds, certificates and membership, over whatever network there is.

    greet the sites  ->  agree and found, or go on with the ledger  ->  rounds  ->  settle

All that must not be lost is in the ledger. Killed at any moment and started again, it goes on.
"""

import os
import random
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from ..data import DataError
from ..data.agree import admit, agree
from ..engines.book import Book, found, founded
from ..engines.ledger import Ledger, LedgerError
from ..engines.protocol import Guard, Joined, Refused, Summed, begin, receive, retire, settle
from ..experiments.spec import SpecError
from . import parcels
from .certificate import Closings, combined, residual, write_results
from .home import Home
from .parcels import Ask, Closing, Hello, packed
from .roll import Exchange, Roll
from .terms import Parts, Terms, scale, server_parts, weight

PAUSE_S = 1.0
MOST_ROUNDS_OUT = 8


class Stalled(RuntimeError):
    """Not enough sites for too long; what was committed is kept."""


KNOWN = (Stalled, DataError, SpecError, LedgerError, Refused)


def coordinate(exchange: Exchange, run: Mapping[str, Any]) -> None:
    """The whole run of a federation whose folder the run's configuration names."""
    home = Home(Path(str(run["folder"])).resolve())
    config = home.config()
    home.note("greeting", pid=os.getpid())
    try:
        _coordinate(exchange, home, int(run.get("rounds", 0)) or config.spec.rounds)
    except KNOWN as error:
        home.note("failed", reason=str(error))
        raise


def _coordinate(exchange: Exchange, home: Home, rounds: int) -> None:
    config = home.config()
    with Ledger(home.ledger, config.name) as ledger:
        roll = Roll(exchange, home, Hello(config.name, config.spec.model), config.deadline)
        terms = _terms(home, roll, ledger)
        with jax.enable_x64(terms.double):
            Coordinator(home, roll, ledger, terms, rounds).run()


def _terms(home: Home, roll: Roll, ledger: Ledger) -> Terms:
    """From the ledger; the first time, from the sites' greetings."""
    known = founded(ledger)
    if known is not None:
        return Terms.from_json(known)
    config, until = home.config(), time.monotonic() + home.config().patience
    while True:
        roll.call()
        all_here = roll.here() >= set(home.invited())
        late = time.monotonic() > until
        if all_here or (late and len(roll.here()) >= config.fewest):
            break
        if late:
            raise Stalled(f"only {sorted(roll.here())} of {sorted(home.invited())} answered")
        time.sleep(PAUSE_S)
    offers = [roll.offers[client].offer for client in sorted(roll.here())]
    agreed, refused = agree(offers, config.features, config.classes, config.spec.model)
    accepted = len(offers) - len(refused)
    if accepted < config.fewest:
        raise DataError(f"only {accepted} sites fit together: {'; '.join(refused.values())}")
    terms = Terms.founded(config.name, config.spec, agreed, accepted)
    found(ledger, terms.to_json())
    home.note("founded", sites=accepted, refused=refused)
    return terms


class Coordinator:
    def __init__(self, home: Home, roll: Roll, ledger: Ledger, terms: Terms, rounds: int):
        self.home, self.roll, self.terms, self.config = home, roll, terms, home.config()
        self.rounds, self.parts = rounds, server_parts(terms)
        self.book = Book(ledger, self.parts.algorithm, self.parts.w, self.parts.like)
        self.guard = Guard(self.parts.like.value, self.config.largest)
        self.refused: dict[str, str] = {}  # once each, not in every round
        self.out: dict[str, int] = {}  # silent sites: not asked before this round
        self.misses: dict[str, int] = {}
        self.committed = sum(entry.kind == "summed" for entry in ledger.entries())
        self.certified_at, self.gap = -1, float("inf")

    @property
    def members(self) -> set[str]:
        return set(self.book.server.members)

    def run(self) -> None:
        spec = self.config.spec
        epoch = self.book.server.epoch
        self.home.note("started", epoch=epoch, committed=self.committed, rounds=self.rounds)
        self.gather()
        self.depart()
        while self.committed < self.rounds and not self.reached():
            self.gather()
            self.depart()
            self.round()
            due = spec.target_gap is not None and self.committed % spec.certify_every == 0
            if due and self.committed != self.certified_at:
                self.settle()
        self.finish()

    def reached(self) -> bool:
        target = self.config.spec.target_gap
        return target is not None and self.gap <= target

    def gather(self) -> None:
        """Until enough members are there for a round; who is new and fits joins."""
        until = time.monotonic() + self.config.patience
        while True:
            self.roll.call()
            for client in sorted(self.roll.here() - self.members):
                self.join(client)
            here = self.roll.here() & self.members
            if len(here) >= self.config.fewest:
                return
            if time.monotonic() > until:
                raise Stalled(
                    f"waited {self.config.patience:g} s for at least {self.config.fewest} of "
                    f"{sorted(self.members)}; here: {sorted(here)}"
                )
            time.sleep(PAUSE_S)

    def join(self, client: str) -> None:
        said = self.roll.offers[client]
        reason = admit(said.offer, self.terms.agreed)
        if not reason and said.known:
            reason = (
                f"{client} is no member, and its state file is of an earlier membership: move "
                "the file away, and it can join again"
            )
        try:
            if reason:
                raise Refused(reason)
            rows = said.offer.rows
            self.book.write(Joined(client, weight(self.terms, self.parts.algorithm, rows), rows))
            self.home.note("joined", site=client, rows=rows)
        except Refused as why:
            self.refuse(client, str(why))

    def depart(self) -> None:
        """Carries out what administrators asked for; what cannot be done yet waits."""
        for request in self.home.requests():
            gone = tuple(site for site in request.sites if site in self.members)
            others = self.members - set(gone)
            if gone and len(others) < self.config.fewest:
                self.home.note("refused", reason=f"without {', '.join(gone)} too few sites remain")
            elif gone and not others <= self.roll.here():
                missing = ", ".join(sorted(others - self.roll.here()))
                reason = f"to retire {', '.join(gone)} all others must be there, not so: {missing}"
                self.home.note("waiting", reason=reason)
                continue
            elif gone:
                said = self.settle_with(others)
                try:
                    answers = [closing.settled for closing in said.values()]
                    self.book.write(
                        retire(self.book.server, gone, answers, barred=request.barred)
                    )
                except Refused as reason:
                    self.home.note("waiting", reason=str(reason))
                    continue
                self.certified_at, self.gap = -1, float("inf")
                self.home.note("retired", sites=list(gone), barred=request.barred)
            request.path.unlink(missing_ok=True)

    def round(self) -> None:
        began, server = time.monotonic(), self.book.server
        cohort = self.cohort()
        server, tasks = begin(self.parts.algorithm, server, cohort)
        self.book.server = server
        requests = {task.client: self.packed(task) for task in tasks}
        for client, parcel in self.roll.ask(requests, work=True):
            self.take(client, parcel)
        now = self.book.server.open
        arrived = [] if now is None else sorted(now.replies)
        enough = len(arrived) >= self.config.fewest
        record = self.book.commit() if enough else None
        self.committed += record is not None
        self.home.note(
            "round", round=server.round, committed=self.committed, of=self.rounds,
            asked=sorted(cohort), summed=list(record.members) if record else [],
            seconds=round(time.monotonic() - began, 3),
        )  # fmt: skip

    def cohort(self) -> list[str]:
        """tau of those who are there and not resting; the same for the same round and people."""
        now = self.book.server.round + 1
        here = sorted(self.roll.here() & self.members)
        awake = [client for client in here if self.out.get(client, 0) <= now]
        pool = awake if len(awake) >= self.config.fewest else here
        tau = max(min(self.terms.tau, len(pool)), self.config.fewest)
        return random.Random(f"{self.terms.seed} {now}").sample(pool, tau)

    def take(self, client: str, parcel: parcels.Opened | None) -> None:
        """An answer to a task into the open round, or the reason why not."""
        if parcel is None:
            self.missed(client)
            return
        try:
            if parcel.kind == "refusal":
                raise Refused(parcels.refusal(parcel).reason)
            reply = self.read(client, parcels.reply, parcel, self.parts.like)
            if reply.client != client:
                raise Refused(f"{client} answered for {reply.client}")
            algorithm = self.parts.algorithm
            self.book.server = receive(algorithm, self.book.server, reply, self.guard)
            self.misses.pop(client, None)
            self.refused.pop(client, None)
        except Refused as reason:
            self.refuse(client, str(reason))
            self.rest(client)

    def read(self, client: str, how, *args) -> Any:
        try:
            return how(*args)
        except (KeyError, TypeError, ValueError) as error:
            raise Refused(f"{client}: its answer cannot be read: {error}") from None

    def refuse(self, client: str, reason: str) -> None:
        if self.refused.get(client) != reason:
            self.home.note("refused", site=client, reason=reason)
        self.refused[client] = reason

    def missed(self, client: str) -> None:
        self.home.note("silent", site=client)
        self.rest(client)
        self.roll.lost(client)

    def rest(self, client: str) -> None:
        """Not asked for the next 1, 2, 4, ... rounds, while there are enough others."""
        self.misses[client] = self.misses.get(client, 0) + 1
        rest = min(2 ** (self.misses[client] - 1), MOST_ROUNDS_OUT)
        self.out[client] = self.book.server.round + 1 + rest

    def packed(self, message, model=None) -> bytes:
        members = self.book.server.members
        row = scale(self.terms, [member.rows for member in members.values()])
        return packed(Ask(self.terms, members[message.client].rows, row, message, model))

    def settle_with(self, clients: Iterable[str]) -> Closings:
        """The outcome to these members; their parts of the sums and of the certificate."""
        algorithm, wanted = self.parts.algorithm, set(clients)
        self.book.server, messages = settle(algorithm, self.book.server)
        model = algorithm.model(self.book.server.state)
        requests = {m.client: self.packed(m, model) for m in messages if m.client in wanted}
        said: dict[str, Closing] = {}
        for client, parcel in self.roll.ask(requests, work=False):
            try:
                if parcel is None:
                    self.missed(client)
                    continue
                if parcel.kind == "refusal":
                    raise Refused(parcels.refusal(parcel).reason)
                closing = self.read(client, parcels.closing, parcel, self.parts.like, self.parts.w)
                if closing.settled.client != client:
                    raise Refused(f"{client} answered for {closing.settled.client}")
                said[client] = closing
            except Refused as reason:
                self.refuse(client, str(reason))
        return said

    def settle(self) -> set[str]:
        """Settles with everyone who is there; with all members, audits and certifies too."""
        said = self.settle_with(self.roll.here() & self.members)
        missing = self.members - set(said)
        if not missing:
            self.certified_at = self.committed
            found = combined(self.parts, self.book.server, said)
            self.gap = found["certified_gap"]
            off = residual(self.parts, self.book.server, said)
            self.book.ledger.prune(self.book.ledger.head[0])
            write_results(self.home, self.terms, self.book, self.committed, found, off)
            self.home.note("certified", committed=self.committed, residual=off, **found)
        return missing

    def finish(self) -> None:
        """Settles until every member has, or patience ends; the model is written in any case."""
        until, missing = time.monotonic() + self.config.patience, self.members
        for _ in range(5):
            missing = self.settle()
            if not missing or time.monotonic() > until:
                break
            self.roll.call()
            time.sleep(PAUSE_S)
        if missing:
            write_results(self.home, self.terms, self.book, self.committed, {}, None)
        sent = dict(self.roll.sent)
        self.home.note(
            "finished", committed=self.committed, unsettled=sorted(missing), messages=sent
        )


def uploads(ledger: Ledger, parts: Parts) -> list[Summed]:
    """The committed rounds, in order."""
    from ..engines.book import decoded

    records = (decoded(entry, parts.like) for entry in ledger.entries())
    return [record for record in records if isinstance(record, Summed)]


def plain(value: Any) -> Any:
    return np.asarray(value).tolist()
