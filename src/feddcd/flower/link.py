"""Flower's SuperLink behind two doors, in one process.

    network    TLS; the calls of a site (`SITES`), of a bounded size; everything else: 403
    loopback   TLS and a secret, for the coordinator of this machine: everything

Flower 1.41 serves the fleet, control and runtime API on one port, and its control API lets
everybody in, who may then run an app of his own. Which door a request came through is told by the
socket that accepted it. A forwarder in front would read each request a second time, and two
readers can differ about where one ends; here the path that is checked is the path that is used.
"""

import argparse
import hmac
import socket
import sys
from functools import partial
from logging import WARNING
from pathlib import Path
from typing import Any

import uvicorn
from flwr.supercore import log
from flwr.superlink.cli import flower_superlink

from .._text import printable

SITES = frozenset(
    f"/v1/fleet/{call}"
    for call in (
        "activate-node", "deactivate-node", "send-node-heartbeat", "get-run", "pull-messages",
        "pull-object", "confirm-message-received", "push-messages", "push-object",
    )
)  # fmt: skip
SECRET = "x-feddcd-inside"
LARGEST = 16 << 20  # bytes of one request; Flower cuts arrays into pieces of 5 MiB
CONNECTIONS = 1000


class Doors:
    """An ASGI app around Flower's."""

    def __init__(self, app: Any, inside: int, secret: bytes):
        if len(secret) < 32:
            raise ValueError("the secret of the inner door is too short")
        self._app, self._inside, self._secret = app, inside, secret

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        status = 0 if scope["type"] == "lifespan" else self._refusal(scope)
        if not status:
            return await self._app(scope, receive, send)
        host, _ = scope.get("client") or ("?", 0)
        what = printable(f"{scope.get('method', '')} {scope['path']}"[:200])
        log(WARNING, "refused: %s from %s: %d", what, host, status)
        if scope["type"] == "http":
            head = [(b"content-length", b"0"), (b"connection", b"close")]
            await send({"type": "http.response.start", "status": status, "headers": head})
            await send({"type": "http.response.body", "body": b""})

    def _refusal(self, scope: Any) -> int:
        """The status with which a request is refused, 0 if it is let in."""
        if scope["type"] != "http":
            return 403
        headers = dict(scope["headers"])
        if scope["server"][1] == self._inside:
            given = headers.get(SECRET.encode(), b"")
            return 0 if hmac.compare_digest(given, self._secret) else 403
        if scope["path"] not in SITES or scope["method"] != "POST":
            return 403
        length = headers.get(b"content-length", b"")
        if not length.isdigit():
            return 411
        return 0 if int(length) <= LARGEST else 413


def main() -> None:
    """Its own arguments, and those of `flower-superlink`; `--host` and `--port` are the inner
    door's."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--door", required=True, help="host:port for the sites")
    parser.add_argument("--secret", required=True, type=Path, help="the inner door's, a file")
    own, flowers = parser.parse_known_args()
    sys.argv = ["flower-superlink", *flowers]
    # Flower has no setting for what it serves, and where
    uvicorn.run = partial(_serve, own.door, own.secret.read_bytes())  # pyright: ignore
    flower_superlink()


def _serve(door: str, secret: bytes, app: Any, host: str, port: int, **settings: Any) -> None:
    name, _, number = door.rpartition(":")
    sockets = [_listen(name.strip("[]"), int(number)), _listen(host, port)]
    settings |= {"ws": "none", "proxy_headers": False, "server_header": False}
    settings |= {"limit_concurrency": CONNECTIONS}
    config = uvicorn.Config(Doors(app, port, secret), host=host, port=port, **settings)
    uvicorn.Server(config).run(sockets=sockets)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=256)


if __name__ == "__main__":
    main()
