"""Flower as the network: bytes to nodes and back, nothing else.

    app = server_app(coordinate)       coordinate(exchange, run_config)
    app = client_app(answer)           answer(request, node_config, run_config) -> bytes

What the bytes say is `feddcd.federation`'s business, and the algorithms are the simulator's.

These two are for Flower's simulation engine. In a real federation no app is sent or started:
`link` is Flower's SuperLink behind two doors, `inside` the coordinator's way to it, `node` a site.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from .._extras import needs

with needs("flower"):
    from flwr.app import Context, Message, MessageType
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp

from ._messages import unwrap, wrap

__all__ = ["FlowerExchange", "client_app", "server_app"]

Answer = Callable[[bytes, Mapping[str, Any], Mapping[str, Any]], bytes]
POLL_S = 0.5  # nodes themselves look every three seconds


def client_app(answer: Answer) -> ClientApp:
    app = ClientApp()

    @app.train()
    @app.query()
    def handle(message: Message, context: Context) -> Message:
        data = answer(unwrap(message) or b"", context.node_config, context.run_config)
        return Message(wrap(data), reply_to=message)

    return app


class FlowerExchange:
    """Flower's nodes by their ids, which mean nothing beyond one run."""

    def __init__(self, grid: Grid):
        self._grid = grid

    def nodes(self) -> dict[int, bytes]:
        """Who is connected, with the public key by which each was let in.

        In Flower's simulation there are no keys, only random bytes in their place.
        """
        keys = ((node.node_id, bytes(node.public_key)) for node in self._grid.get_nodes())
        return {id: key if key.startswith(b"-----BEGIN") else b"" for id, key in keys}

    def ask(
        self, requests: Mapping[int, bytes], seconds: float, work: bool, stop: Callable[[], bool]
    ) -> Iterator[tuple[int, bytes | None]]:
        """One message to each; the answers as they come, None where there is none before the
        time is over or `stop` says so."""
        kind = MessageType.TRAIN if work else MessageType.QUERY
        messages = [Message(wrap(data), node, kind, ttl=seconds) for node, data in requests.items()]
        # error replies name the SuperLink as their source, so an answer is known by its question
        sent = zip(self._grid.push_messages(messages), requests, strict=False)
        waiting = {id: node for id, node in sent if id}
        silent, until = set(requests), time.monotonic() + seconds
        while waiting and time.monotonic() < until and not stop():
            for reply in self._grid.pull_messages(list(waiting)):
                node = waiting.pop(reply.metadata.reply_to_message_id, None)
                if node is not None:
                    silent.discard(node)
                    yield node, unwrap(reply)
            time.sleep(POLL_S)
        yield from ((node, None) for node in sorted(silent))


def server_app(coordinate: Callable[[FlowerExchange, Mapping[str, Any]], None]) -> ServerApp:
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        coordinate(FlowerExchange(grid), context.run_config)

    return app
