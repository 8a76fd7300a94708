"""Who is there: the network's nodes and the sites that answer behind them."""

from collections.abc import Iterator, Mapping
from typing import Protocol

from ..engines.codec import CodecError
from ..engines.protocol import Refused
from . import parcels
from .home import Home
from .keys import same_key
from .parcels import Hello, Opened, Welcome


class Exchange(Protocol):
    """A network: one message to each node, and its answer, or None if there was none in time."""

    def nodes(self) -> Mapping[int, bytes]: ...

    def ask(
        self, requests: Mapping[int, bytes], seconds: float, *, work: bool
    ) -> Iterator[tuple[int, bytes | None]]: ...


class Roll:
    """Sites by their own names; the network's numbers of nodes stay in here."""

    def __init__(self, exchange: Exchange, home: Home, hello: Hello, deadline: float):
        self.exchange, self.home, self.deadline = exchange, home, deadline
        self._hello = parcels.packed(hello)
        self._asked: set[int] = set()
        self._node: dict[str, int] = {}
        self.offers: dict[str, Welcome] = {}
        self.sent = {"hello": 0, "task": 0, "settle": 0}

    def here(self) -> set[str]:
        return set(self._node)

    def lost(self, client: str) -> None:
        """Not there any more as far as we know; it is greeted again when it is."""
        self._asked.discard(self._node.pop(client))

    def call(self) -> None:
        """Greets whoever is new, and forgets who has gone."""
        nodes = self.exchange.nodes()
        self._asked &= set(nodes)
        self._node = {client: node for client, node in self._node.items() if node in nodes}
        new = [node for node in nodes if node not in self._asked]
        self.sent["hello"] += len(new)
        for node, data in self.exchange.ask(
            dict.fromkeys(new, self._hello), self.deadline, work=False
        ):
            if data is not None:  # a silent node is greeted again next time
                self._asked.add(node)
                self._greeted(node, nodes[node], data)

    def _greeted(self, node: int, key: bytes, data: bytes) -> None:
        try:
            parcel = parcels.opened(data)
            if parcel.kind == "refusal":
                raise Refused(parcels.refusal(parcel).reason)
            said = parcels.welcome(parcel)
            self._check(said.offer.client, node, key)
        except Refused as reason:
            self.home.note("refused", reason=str(reason))
        except (CodecError, KeyError, TypeError, ValueError):
            self.home.note("refused", reason="a node sent something that is no greeting")
        else:
            self._node[said.offer.client] = node
            self.offers[said.offer.client] = said

    def _check(self, client: str, node: int, key: bytes) -> None:
        invited = self.home.invited()
        if client not in invited:
            raise Refused(
                f"{client!r} is not invited; invite it with: feddcd federation join DIR {client}"
            )
        if key and not same_key(key, invited[client]):
            raise Refused(f"a site that calls itself {client} does not have the key of {client}")
        if self._node.get(client, node) != node:
            raise Refused(f"{client} is there twice: stop one of the two")

    def ask(
        self, requests: Mapping[str, bytes], *, work: bool
    ) -> Iterator[tuple[str, Opened | None]]:
        """The sites' answers as they come; None for no answer, or one that cannot be read."""
        self.sent["task" if work else "settle"] += len(requests)
        names = {self._node[client]: client for client in requests}
        by_node = {node: requests[client] for node, client in names.items()}
        for node, data in self.exchange.ask(by_node, self.deadline, work=work):
            yield names[node], _read(data)


def _read(data: bytes | None) -> Opened | None:
    try:
        return None if data is None else parcels.opened(data)
    except (CodecError, Refused):
        return None
