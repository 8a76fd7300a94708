"""The coordinator: rounds, certificates and membership, over whatever network there is.

    greet the sites  ->  agree and found, or go on with the ledger  ->  rounds  ->  settle

All that must not be lost is in the ledger. Killed at any moment and started again, it goes on.
"""

import json
import math
import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax

from ..._errors import DataError, LedgerError, Refused, SpecError, Stalled
from ...data.agreement import admit
from ...durable.ledger import Ledger
from ...durable.protocol import Joined, retire
from ...durable.server import Book
from ..folder import Home, Request
from ..terms import Terms, joining, server_parts
from ..wire import REGRESSION, Closing, Hello
from .certificate import combined, residual, write_results
from .founding import terms_of
from .nodes import Exchange, Roll
from .rounds import Desk

PAUSE_S = 1.0
KNOWN = (Stalled, DataError, SpecError, LedgerError, Refused)


def printed(event: dict[str, Any]) -> None:
    print(json.dumps(event), flush=True)


def coordinate(
    exchange: Exchange,
    run: Mapping[str, Any],
    watch: Callable[[dict[str, Any]], None] = printed,
) -> None:
    """The whole run of a federation whose folder the run's configuration names."""
    home = Home(Path(str(run["folder"])), watch)
    config = home.config()
    home.note("greeting", pid=os.getpid())
    kind = config.spec.model if config.glm is None else REGRESSION
    roll = Roll(exchange, home, Hello(config.name, kind), config.deadline)
    try:
        if config.glm is not None:
            from .tables import AnalysisRun  # with pandas and scikit-learn

            AnalysisRun(home, roll, config, config.glm).run()
            return
        with Ledger(home.ledger, config.name) as ledger:
            terms = terms_of(home, roll, ledger)
            with jax.enable_x64(terms.double):
                Coordinator(home, roll, ledger, terms, int(run.get("rounds", 0))).run()
    except KNOWN as error:
        home.note("failed", reason=str(error))
        raise


class Coordinator:
    def __init__(self, home: Home, roll: Roll, ledger: Ledger, terms: Terms, rounds: int):
        self.home, self.roll, self.terms, self.config = home, roll, terms, home.config()
        self.rounds, self.parts = rounds or self.config.spec.rounds, server_parts(terms)
        self.book = Book(ledger, self.parts.algorithm, self.parts.w, self.parts.like)
        self.desk = Desk(home, roll, self.book, terms, self.parts)
        self.committed = sum(entry.kind == "summed" for entry in ledger.entries())
        self.certified_at, self.gap, self.waiting = -1, math.inf, ""
        self.settled: tuple[Any, dict[str, Closing]] = (None, {})

    def run(self) -> None:
        spec, epoch = self.config.spec, self.book.server.epoch
        self.home.note("started", epoch=epoch, committed=self.committed, rounds=self.rounds)
        self.gather(departures=bool(self.home.requests()))
        while self.committed < self.rounds and not self.reached():
            self.committed += self.desk.round() is not None
            self.home.note("progress", committed=self.committed, of=self.rounds)
            due = spec.target_gap is not None and self.committed % spec.certify_every == 0
            if due and self.committed != self.certified_at:
                self.settle()
            self.gather()
        self.finish()

    def reached(self) -> bool:
        target = self.config.spec.target_gap
        return target is not None and self.gap <= target

    def gather(self, *, departures: bool = False) -> None:
        """Until enough members are there for a round; who is new joins, who is to go goes.

        With `departures`, until those who are to go have gone too, as far as patience allows.
        """
        until = time.monotonic() + self.config.patience
        while True:
            if departures or not self.enough():
                self.roll.call((lambda: False) if departures else self.enough)
            for client in sorted(self.roll.here() - self.desk.members):
                self.join(client)
            for request in self.home.requests():
                if self.depart(request):
                    request.path.unlink(missing_ok=True)
            departures = departures and bool(self.home.requests())
            late = time.monotonic() > until
            if self.enough() and (late or not departures):
                return
            if late:
                here = ", ".join(sorted(self.roll.here() & self.desk.members)) or "none"
                raise Stalled(
                    f"waited {self.config.patience:g} s for at least {self.config.fewest} of "
                    f"{', '.join(sorted(self.desk.members))}; here: {here}"
                )
            time.sleep(PAUSE_S)

    def enough(self) -> bool:
        return len(self.roll.here() & self.desk.members) >= self.config.fewest

    def join(self, client: str) -> None:
        said = self.roll.offers[client]
        reason = admit(said.offer, self.terms.agreed)
        if not reason and said.known:
            reason = (
                f"{client} is no member, and its state file is of an earlier membership: move "
                "that file away, and it can join again"
            )
        try:
            if reason:
                raise Refused(reason)
            rows = said.offer.rows
            weight = float(self.parts.algorithm.weight(joining(self.terms, rows)))
            self.book.write(Joined(client, weight, rows))
            self.gap = math.inf
            self.home.note("joined", site=client, rows=rows)
        except Refused as why:
            self.desk.refuse(client, str(why))

    def depart(self, request: Request) -> bool:
        """Whether an administrator's wish is dealt with; what cannot be done yet waits."""
        gone = tuple(site for site in request.sites if site in self.desk.members)
        others = self.desk.members - set(gone)
        if not gone:
            self.home.note("refused", reason=f"no members: {', '.join(request.sites)}")
            return True
        if len(others) < self.config.fewest:
            reason = f"without {', '.join(gone)} fewer than {self.config.fewest} sites remain"
            self.home.note("refused", reason=reason)
            return True
        if absent := others - self.roll.here():
            reason = f"to retire {', '.join(gone)}, wait for {', '.join(sorted(absent))}"
            self.wait(reason)
            return False
        answers = [closing.settled for closing in self.desk.settle(others).values()]
        try:
            self.book.write(retire(self.book.server, gone, answers, barred=request.barred))
        except Refused as reason:
            self.wait(str(reason))
            return False
        for site in gone:
            self.home.key(site).unlink(missing_ok=True)
        self.certified_at, self.gap = -1, math.inf
        self.home.note("retired", sites=list(gone), barred=request.barred)
        return True

    def wait(self, reason: str) -> None:
        if reason != self.waiting:
            self.home.note("waiting", reason=reason)
        self.waiting = reason

    def settle(self) -> set[str]:
        """With who is there and has not yet; with all members, audits and certifies. Who is left.

        Between two rounds nothing moves, so answers of several exchanges go together.
        """
        now = (self.committed, frozenset(self.desk.members))
        if self.settled[0] != now:
            self.settled = (now, {})
        said = self.settled[1]
        if self.desk.members <= set(said):
            return set()
        said |= self.desk.settle((self.roll.here() & self.desk.members) - set(said))
        missing = self.desk.members - set(said)
        if not missing:
            found = combined(self.parts, self.terms, self.book.server, said)
            off = residual(self.parts, self.book.server, said)
            self.certified_at, self.gap = self.committed, found.get("certified_gap", math.inf)
            self.book.ledger.prune(self.book.ledger.head[0])
            write_results(self.home, self.terms, self.book, found | {"dual_residual": off})
            self.home.note("certified", committed=self.committed, dual_residual=off, **found)
        return missing

    def finish(self) -> None:
        """Settles until every member has, or patience ends; the model is written in any case."""
        until, missing = time.monotonic() + self.config.patience, self.settle()
        while missing and time.monotonic() < until:
            time.sleep(PAUSE_S)
            self.roll.call(lambda: self.desk.members <= self.roll.here())
            if self.roll.here() & missing:
                missing = self.settle()
        if missing:
            write_results(self.home, self.terms, self.book, {})
        self.home.note(
            "finished", committed=self.committed, unsettled=sorted(missing),
            messages=dict(self.roll.sent),
        )  # fmt: skip
