"""A connection to the link: uvicorn's, which would wait for ever for a request that does not come.

Connections count until they are closed, and there is a largest number of them. So a stranger who
opened many and said nothing kept all sites out.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from .._pace import network_of

HEAD_S = 30.0  # until a request has begun: all of its headers are there
CALL_S = 600.0  # until it is answered, the answer taken
OF_NETWORK = 400  # connections of one address, or of one network of IPv6


class Connection(H11Protocol):
    """Closed where a request, or the end of one, does not come; few for one address. Calls through
    the inner door, on the port that the server was started with, are never too many."""

    _timer: asyncio.TimerHandle | None = None
    _call: Any = None  # the one that is being answered

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore
        super().connection_made(transport)
        self._within(HEAD_S)
        if self.server is not None and self.server[1] == self.config.port:
            self.limit_concurrency = None
        elif self.client is not None and self._neighbours(self.client[0]) > OF_NETWORK:
            transport.abort()

    def _neighbours(self, host: str) -> int:
        """Itself among them."""
        own = network_of(host)
        clients = (getattr(other, "client", None) for other in self.connections)
        return sum(client is not None and network_of(client[0]) == own for client in clients)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not self._call:
            self._call = self.cycle
            self._within(CALL_S)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._within(HEAD_S)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._timer is not None:
            self._timer.cancel()

    def _within(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_later(seconds, self.transport.abort)
