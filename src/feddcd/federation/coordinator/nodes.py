"""Who is there: the network's nodes and the sites that answer behind them."""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from ..._errors import CodecError, DataError, Refused, Stalled
from ..._text import spoken
from .. import wire
from ..about import CANCELLED_WORDS
from ..config import Config
from ..folder import FederationFolder
from ..machine.keys import same_key
from ..site.answer import SitePlace, answer
from ..site.told import WAITS, is_waiting
from ..wire import Envelope, Hello, Welcome
from ._checks import check_welcome, reason_of

PAUSE_S = 1.0
LINGER_S = 10.0  # for the rest, once enough sites have answered a greeting
GREETING = 1 << 24  # bytes of one
MOST = 1 << 30  # bytes of any answer
AGAIN_S = 60.0  # after which a node that was refused is greeted again: it may have been mended


class Cancelled(DataError):
    """A person wants the study to end."""


class Exchange(Protocol):
    """A network of numbered nodes."""

    def nodes(self) -> Mapping[int, bytes]:
        """Who is connected, with the key by which each was let in; empty if by none."""
        ...

    def ask(
        self, requests: Mapping[int, bytes], seconds: float, work: bool, stop: Callable[[], bool]
    ) -> Iterator[tuple[int, bytes | None]]:
        """One message to each; the answers as they come, None where there is none before the
        time is over or `stop` says so."""
        ...


class LocalExchange:
    """A network in one process, to try a federation out. Each request, and each answer, is lost
    with probability `loss`; each site asks a person by `ask` before anything leaves."""

    def __init__(
        self,
        places: Sequence[SitePlace],
        *,
        loss: float = 0.0,
        seed: int = 0,
        ask: Callable[[str], str] | None = None,
    ):
        self._places, self._loss, self._ask = dict(enumerate(places, 1)), loss, ask
        self._random = random.Random(seed)

    def nodes(self) -> dict[int, bytes]:
        return dict.fromkeys(self._places, b"")

    def ask(
        self, requests: Mapping[int, bytes], seconds: float, work: bool, stop: Callable[[], bool]
    ) -> Iterator[tuple[int, bytes | None]]:
        for node, request in requests.items():
            data = None if self._lost() else answer(request, self._places[node], self._ask)
            yield node, None if data is None or self._lost() else data

    def _lost(self) -> bool:
        return self._random.random() < self._loss


class Nodes:
    """Sites by their own names; the network's numbers of nodes stay in here."""

    def __init__(self, exchange: Exchange, folder: FederationFolder, hello: Hello, deadline: float):
        self.exchange, self.folder, self.deadline = exchange, folder, deadline
        self._hello = wire.pack_message(hello)
        self._asked: set[int] = set()
        self._refused: dict[int, tuple[float, str]] = {}  # by node: when, and why
        self._node: dict[str, int] = {}
        self._called = time.monotonic()  # when greetings were waited for
        self.offers: dict[str, Welcome] = {}
        self.sent = {"hello": 0, "task": 0, "settle": 0}

    def here(self) -> set[str]:
        return set(self._node)

    def refusals(self) -> list[str]:
        """Why nodes refused a greeting, or were refused."""
        return sorted({reason for _, reason in self._refused.values()})

    def people(self) -> bool:
        """Whether a person has to decide before a node answers a greeting."""
        return any(WAITS in reason for _, reason in self._refused.values())

    def lost(self, client: str) -> None:
        """Not there any more as far as we know; it is greeted again when it is."""
        self._asked.discard(self._node.pop(client, 0))

    def overdue(self, members: set[str]) -> bool:
        """Whether a member is connected that was only greeted beside the work of others, which
        a slow site never answers in time: now and then it is waited for."""
        late = time.monotonic() - self._called > AGAIN_S
        return late and bool(members - self.here()) and bool(self._new())

    def check_wanted(self) -> None:
        """Raises where a person has cancelled the study."""
        if self.folder.cancelled:
            raise Cancelled(CANCELLED_WORDS)

    def call(self, enough: Callable[[], bool]) -> None:
        """Greets whoever is new and forgets who has gone; waits for all, or for enough."""
        self.check_wanted()
        new, began = self._new(), time.monotonic()
        self._called = began
        late = lambda: time.monotonic() - began > LINGER_S
        stop = lambda: self.folder.cancelled or (enough() and late())
        self.sent["hello"] += len(new)
        greetings = dict.fromkeys(new, self._hello)
        for node, data in self.exchange.ask(greetings, self.deadline, False, stop):
            self._welcome(node, new[node], data)

    def _new(self) -> dict[int, bytes]:
        nodes = self.exchange.nodes()
        now = time.monotonic()
        late = lambda when, why: now - when > (PAUSE_S if is_waiting(why) else AGAIN_S)
        again = {node for node, refused in self._refused.items() if late(*refused)}
        self._asked = (self._asked & set(nodes)) - again
        self._node = {client: node for client, node in self._node.items() if node in nodes}
        return {node: key for node, key in nodes.items() if node not in self._asked}

    def _welcome(self, node: int, key: bytes, data: bytes | None) -> None:
        if data is None:
            return  # lost or too late: it is greeted again next time
        self._asked.add(node)
        try:
            envelope = wire.unpack_message(data, GREETING)
            if envelope.kind == "refusal":
                said = wire.read_refusal(envelope)
                raise Refused(
                    reason_of(self._name(key) or said.client or "a SuperNode", said.reason)
                )
            welcome = wire.read_welcome(envelope)
            check_welcome(welcome.offer)
            self._check(welcome.offer.client, node, key)
        except Refused as reason:
            self._refuse(node, reason_of(self._name(key), str(reason)))
        except (CodecError, KeyError, TypeError, ValueError, ArithmeticError):
            who = self._name(key) or "a SuperNode"
            self._refuse(node, f"{who} connected, but the coordinator cannot read its first answer")
        else:
            self._refused.pop(node, None)
            self._node[welcome.offer.client] = node
            self.offers[welcome.offer.client] = welcome

    def _name(self, key: bytes) -> str:
        """The site that was invited with this key; nothing where it is not known."""
        known = self.folder.invited().items() if key else ()
        return next((name for name, own in known if same_key(key, own)), "")

    def _refuse(self, node: int, reason: str) -> None:
        if reason != self._refused.get(node, (0.0, ""))[1]:
            self.folder.note("waiting" if is_waiting(reason) else "refused", reason=reason)
        self._refused[node] = time.monotonic(), reason

    def _check(self, client: str, node: int, key: bytes) -> None:
        """A name is only a claim: the key by which the network let the node in decides."""
        invited = self.folder.invited()
        if client not in invited:
            raise Refused(
                f"{client!r} is not invited; to invite this site: feddcd federation "
                f"invite DIR {client}"
            )
        if key and not same_key(key, invited[client]):
            raise Refused(f"a site that calls itself {client} does not have the key of {client}")
        if self._node.get(client, node) != node:
            raise Refused(f"two programs answer as {client}: stop one of the two")

    def ask(
        self, requests: Mapping[str, bytes], *, work: bool, most: int = MOST
    ) -> Iterator[tuple[str, Envelope | None]]:
        """The sites' answers as they come, None for no answer; what cannot be read is a refusal,
        and so are more bytes than `most`.

        Nodes that are new are greeted beside, and not waited for.
        """
        if work:
            self.check_wanted()
        new = self._new()
        self.sent["task" if work else "settle"] += len(requests)
        self.sent["hello"] += len(new)
        names = {self._node[client]: client for client in requests if client in self._node}
        by_node = {node: requests[client] for node, client in names.items()}
        waiting, greetings = set(names), dict.fromkeys(new, self._hello)
        stop = lambda: not waiting or (work and self.folder.cancelled)
        for node, data in self.exchange.ask(by_node | greetings, self.deadline, work, stop):
            if work:  # a finished result is still sent
                self.check_wanted()
            waiting.discard(node)
            if node in names:
                yield names[node], _read(names[node], data, most)
            else:
                self._welcome(node, new[node], data)
        yield from ((client, None) for client in requests if client not in names.values())

    def tell(self, message: bytes, sites: Iterable[str], seconds: float) -> set[str]:
        """Who of these took a message that is no question, within these seconds."""
        names = {self._node[site]: site for site in sites if site in self._node}
        asked = self.exchange.ask(dict.fromkeys(names, message), seconds, False, lambda: False)
        heard = {names[node]: _read(names[node], data, GREETING) for node, data in asked}
        return {site for site, said in heard.items() if said is not None}


def greet(folder: FederationFolder, nodes: Nodes, config: Config) -> None:
    """Until all invited sites answered, or patience ends with enough of them."""
    began, seen = time.monotonic(), -1
    while True:
        nodes.call(lambda: False)
        here, invited = nodes.here(), set(folder.invited())
        if here >= invited:
            return
        if len(here) != seen:
            seen, away = len(here), ", ".join(sorted(invited - here))
            folder.note("here", here=seen, of=len(invited), missing=away)
        limit = config.approvals if nodes.people() else config.patience
        if time.monotonic() - began > limit:
            if len(here) >= config.fewest:
                return
            names = f"connected: {', '.join(sorted(here)) or 'none'}"
            told = (
                f"the coordinator waited {spoken(limit)}, but some sites did not connect: "
                f"{', '.join(sorted(invited - here))}; {names}"
            )
            raise Stalled("; ".join([told, *nodes.refusals()]), sorted(invited - here))
        time.sleep(PAUSE_S)


def unanswered(patience: float, sites: Iterable[str]) -> Stalled:
    sites = list(sites)
    waited, names = f"the coordinator waited {spoken(patience)}", ", ".join(sites)
    told = f"{waited}, but got no answer from these sites: {names}"
    return Stalled(f"{told}. Start the study again when these sites can answer", sites)


def _read(client: str, data: bytes | None, most: int) -> Envelope | None:
    try:
        return None if data is None else wire.unpack_message(data, most)
    except (CodecError, Refused) as error:
        reason = f"{client}: the coordinator cannot read the answer of this site: {error}"
        return Envelope("refusal", {"client": client, "reason": reason}, {})
