"""Flower as the network: bytes to nodes and back, nothing else.

    app = server_app(coordinate)       coordinate(exchange, run_config)
    app = client_app(answer)           answer(request, node_config, run_config) -> bytes

What the bytes say is `feddcd.federation`'s business, and the algorithms are the simulator's. Bytes
travel as one array of them, which Flower sends in chunks, never pickled.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MessageType, RecordDict
from flwr.clientapp import ClientApp
from flwr.serverapp import Grid, ServerApp

__all__ = ["FlowerExchange", "client_app", "server_app"]

Answer = Callable[[bytes, Mapping[str, Any], Mapping[str, Any]], bytes]
POLL_S = 0.5  # nodes themselves look every three seconds
_RECORD, _ARRAY = "feddcd", "packed"


def client_app(answer: Answer) -> ClientApp:
    app = ClientApp()

    @app.train()
    @app.query()
    def handle(message: Message, context: Context) -> Message:
        data = answer(_unwrap(message) or b"", context.node_config, context.run_config)
        return Message(_wrap(data), reply_to=message)

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
        messages = [
            Message(_wrap(data), node, kind, ttl=seconds) for node, data in requests.items()
        ]
        # error replies name the SuperLink as their source, so an answer is known by its question
        sent = zip(self._grid.push_messages(messages), requests, strict=False)
        waiting = {id: node for id, node in sent if id}
        silent, until = set(requests), time.monotonic() + seconds
        while waiting and time.monotonic() < until and not stop():
            for reply in self._grid.pull_messages(list(waiting)):
                node = waiting.pop(reply.metadata.reply_to_message_id, None)
                if node is not None:
                    silent.discard(node)
                    yield node, _unwrap(reply)
            time.sleep(POLL_S)
        yield from ((node, None) for node in sorted(silent))


def server_app(coordinate: Callable[[FlowerExchange, Mapping[str, Any]], None]) -> ServerApp:
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        coordinate(FlowerExchange(grid), context.run_config)

    return app


def _wrap(data: bytes) -> RecordDict:
    array = Array(np.frombuffer(data, np.uint8))
    return RecordDict({_RECORD: ArrayRecord({_ARRAY: array})})


def _unwrap(message: Message) -> bytes | None:
    """None for an error, and for what is no message of ours."""
    if message.has_error():
        return None
    try:
        array = message.content.array_records[_RECORD][_ARRAY].numpy()
    except (KeyError, TypeError, ValueError):
        return None
    return array.tobytes() if array.dtype == np.uint8 and array.ndim == 1 else None
