"""Questions to the members and what comes back: rounds, settlements, and who was refused."""

import random
import time
from collections.abc import Callable, Iterable
from typing import Any

from ..._errors import Refused
from ..._types import Params
from ...durable.protocol import Guard, Settle, Stamp, Summed, Task, begin, receive, settle
from ...durable.protocol.client import unsound
from ...durable.server import Book
from .. import wire as parcels
from ..config import Config
from ..folder import Home
from ..terms import Parts, Terms, scale
from ..wire import Ask, Closing, Opened
from .nodes import Roll

MOST_ROUNDS_OUT = 8


class Desk:
    def __init__(self, home: Home, roll: Roll, book: Book, terms: Terms, parts: Parts):
        self.home, self.roll, self.book, self.terms, self.parts = home, roll, book, terms, parts
        self.config: Config = home.config()
        self._guard = Guard(parts.like.value, self.config.largest)
        self._refused: dict[str, str] = {}  # said once each, not in every round
        self._out: dict[str, int] = {}  # sites at rest, until this round
        self._misses: dict[str, int] = {}

    @property
    def members(self) -> set[str]:
        return set(self.book.server.members)

    def round(self) -> Summed | None:
        """One message to each of a cohort; the record of their sum, None if too few answered."""
        began, cohort = time.monotonic(), self._cohort()
        self.book.server, tasks = begin(
            self.parts.algorithm, self.book.server, cohort, self.parts.key
        )
        requests = {task.client: self._packed(task) for task in tasks}
        for client, parcel in self.roll.ask(requests, work=True):
            self._heard(client, parcel, self._receive)
        now = self.book.server.open
        enough = now is not None and len(now.replies) >= self.config.fewest
        record = self.book.commit() if enough else None
        self.home.note(
            "round", round=self.book.server.round, asked=sorted(cohort),
            summed=list(record.members) if record else [],
            seconds=round(time.monotonic() - began, 3),
        )  # fmt: skip
        return record

    def settle(self, clients: Iterable[str]) -> dict[str, Closing]:
        """The outcome to these members; their parts of the sums and of the certificate."""
        algorithm, wanted = self.parts.algorithm, set(clients)
        self.book.server, messages = settle(algorithm, self.book.server, self.parts.key)
        model = algorithm.model(self.book.server.state)
        requests = {m.client: self._packed(m, model) for m in messages if m.client in wanted}
        said: dict[str, Closing] = {}

        def keep(client: str, parcel: Opened) -> None:
            closing = _read(client, parcels.closing, parcel, self.parts.like, self.parts.w)
            _check_name(client, closing.settled.client)
            _check_settled(closing, Stamp(self.book.server.epoch, self.book.server.round))
            said[client] = closing

        for client, parcel in self.roll.ask(requests, work=False):
            self._heard(client, parcel, keep)
        return said

    def refuse(self, client: str, reason: str) -> None:
        if self._refused.get(client) != reason:
            self.home.note("refused", site=client, reason=reason)
        self._refused[client] = reason

    def _cohort(self) -> list[str]:
        """All who are there and not at rest, or tau of them; the same for the same round."""
        now = self.book.server.round + 1
        here = sorted(self.roll.here() & self.members)
        awake = [client for client in here if self._out.get(client, 0) <= now]
        pool = awake if len(awake) >= self.config.fewest else here
        wanted = self.config.spec.tau or len(pool)
        tau = max(min(wanted, len(pool)), self.config.fewest)
        return random.Random(f"{self.terms.seed} {now}").sample(pool, tau)

    def _heard(
        self, client: str, parcel: Opened | None, use: Callable[[str, Opened], None]
    ) -> None:
        """An answer put to use, or the reason why not; who did not answer is greeted again."""
        try:
            if parcel is None:
                self.home.note("silent", site=client)
                self.roll.lost(client)
                self._rest(client)
                return
            if parcel.kind == "refusal":
                raise Refused(_read(client, parcels.refusal, parcel).reason)
            use(client, parcel)
            self._misses.pop(client, None)
            self._refused.pop(client, None)
        except Refused as reason:
            self.refuse(client, str(reason))
            self._rest(client)

    def _receive(self, client: str, parcel: Opened) -> None:
        reply = _read(client, parcels.reply, parcel, self.parts.like)
        _check_name(client, reply.client)
        algorithm, server = self.parts.algorithm, self.book.server
        self.book.server = receive(algorithm, server, reply, self._guard)

    def _rest(self, client: str) -> None:
        """Not asked for the next 1, 2, 4, ... rounds, while there are enough others."""
        self._misses[client] = self._misses.get(client, 0) + 1
        rounds = min(2 ** (self._misses[client] - 1), MOST_ROUNDS_OUT)
        self._out[client] = self.book.server.round + 1 + rounds

    def _packed(self, message: Task | Settle, model: Params | None = None) -> bytes:
        members = self.book.server.members
        row = scale(self.terms, [member.rows for member in members.values()])
        return parcels.packed(Ask(self.terms, members[message.client].rows, row, message, model))


def _read(client: str, how: Callable[..., Any], *args: Any) -> Any:
    try:
        return how(*args)
    except (KeyError, TypeError, ValueError) as error:
        raise Refused(f"{client}: its answer cannot be read: {error}") from None


def _check_settled(closing: Closing, now: Stamp) -> None:
    (client, _, stamp, conserved), proof = closing
    if stamp != now or proof is None:
        raise Refused(f"{client}: its settlement is not the one that was asked for")
    if bad := unsound((conserved, proof.value, proof.at_model, proof.at_own)):
        raise Refused(f"{client}: its settlement {bad}")


def _check_name(client: str, said: str) -> None:
    if said != client:
        raise Refused(f"{client} answered in the name of {said}")
