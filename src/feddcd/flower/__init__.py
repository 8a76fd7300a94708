"""Flower as the network: bytes to nodes and back, nothing else.

    app = server_app(coordinate)       coordinate(exchange, run_config)
    app = client_app(answer)           answer(request, node_config, run_config) -> bytes

What the bytes say is `feddcd.federation`'s business, and the algorithms are the simulator's.
"""

from ._apps import FlowerExchange, client_app, server_app

__all__ = ["FlowerExchange", "client_app", "server_app"]
