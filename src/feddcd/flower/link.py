"""Flower's SuperLink behind two doors, in one process.

    network    TLS; the calls of a site (`SITES`), of a bounded size; the desk at which a new site
               asks to be let in, a small call and few of them; everything else: 403
    loopback   TLS and a secret, for the coordinator of this machine: everything

Flower 1.41 serves the fleet, control and runtime API on one port, and its control API lets
everybody in, who may then run an app of his own. Which door a request came through is told by the
socket that accepted it. A forwarder in front would read each request a second time, and two
readers can differ about where one ends; here the path that is checked is the path that is used.
"""

import argparse
import asyncio
import base64
import hmac
import shutil
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from logging import WARNING
from pathlib import Path
from typing import Any, NamedTuple

import uvicorn
from flwr.supercore import log
from flwr.supercore.constant import FLEET_HTTP_PUBLIC_KEY_HEADER
from flwr.supercore.state.alembic import utils as migrations
from flwr.superlink.cli import flower_superlink

from .._pace import LinePace, Pace
from .._text import printable
from ._connections import Connection
from ._messages import SECRET

SITES = frozenset(
    f"/v1/fleet/{call}"
    for call in (
        "activate-node", "deactivate-node", "send-node-heartbeat", "get-run", "pull-messages",
        "pull-object", "confirm-message-received", "push-messages", "push-object",
    )
)  # fmt: skip
PUSH, ACTIVATE = "/v1/fleet/push-", "/v1/fleet/activate-node"
HTTP_HELD = 412
KEY = FLEET_HTTP_PUBLIC_KEY_HEADER.lower().encode()
ROOM, ROOM_SHARE = 1 << 30, 0.02  # bytes, or of the disk: sites do not fill the rest of it
LARGEST = 16 << 20  # bytes of one request; Flower cuts arrays into pieces of 5 MiB
LARGEST_HEAD = 16 << 10  # bytes of its headers
LONGEST_LINE = 200  # letters of a stranger's path in the log
REFUSALS = 60  # lines about them in a minute
CONNECTIONS = 1000
DESK_S = 10.0  # in which a call at the desk has come whole
# httptools, which uvicorn takes by itself, has no limit on headers; an access log is as long as
# strangers want it to be
SETTINGS = {
    "http": Connection, "h11_max_incomplete_event_size": LARGEST_HEAD, "access_log": False,
    "ws": "none", "proxy_headers": False, "server_header": False,
    "limit_concurrency": CONNECTIONS,
}  # fmt: skip


class DeskRoute(NamedTuple):
    """Where a new site asks: `take` makes a status and an answer of its bytes and its address.
    Calls that `known` finds signed by a token are not held up by those of strangers."""

    path: str
    take: Callable[[bytes, str], tuple[int, bytes]]
    largest: int  # bytes
    of_host: int = 20  # calls in a minute
    of_all: int = 100
    known: Callable[[bytes], bool] = lambda data: False
    held_off: Callable[[bytes], None] = lambda key: None  # a known key that is connected already


class Doors:
    """An ASGI app around Flower's."""

    def __init__(
        self, app: Any, inside: int, secret: bytes, desk: DeskRoute | None = None,
        room: Callable[[], bool] = lambda: True,
    ):  # fmt: skip
        if len(secret) < 32:
            raise ValueError("the secret for the coordinator's port must have at least 32 bytes")
        self._app, self._inside, self._secret, self._desk = app, inside, secret, desk
        self._lines, self._room = LinePace(REFUSALS), room
        of_host, of_all = (desk.of_host, desk.of_all) if desk else (0, 0)
        self._strangers, self._invited = Pace(of_host, of_all), Pace(of_host, of_all)
        self._one = asyncio.Lock()  # at the desk

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if self._desk is not None and self._at_desk(scope, self._desk):
            return await self._take(self._desk, scope, receive, send)
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        status = self._refusal(scope)
        if status:
            return await self._refuse(status, scope, send)
        if scope["server"][1] == self._inside:
            return await self._app(scope, receive, send)
        if self._desk is not None and scope["path"] == ACTIVATE:
            send = _heard(scope, send, self._desk.held_off)
        await self._app(scope, _counted(receive, LARGEST), send)

    def _at_desk(self, scope: Any, desk: DeskRoute) -> bool:
        if scope["type"] != "http" or scope["server"][1] == self._inside:
            return False
        return scope["path"] == desk.path and scope["method"] == "POST"

    async def _take(self, desk: DeskRoute, scope: Any, receive: Any, send: Any) -> None:
        """A call at the desk: small, whole within seconds, one at a time. Flower never sees it."""
        host, _ = scope.get("client") or ("?", 0)
        if status := _misfit(scope, desk.largest):
            return await self._refuse(status, scope, send)
        try:
            data = await asyncio.wait_for(_body(receive, desk.largest), DESK_S)
        except (TimeoutError, ValueError):
            return await self._refuse(408, scope, send)
        known = await asyncio.to_thread(desk.known, data)
        if not (self._invited if known else self._strangers).let(host):
            return await self._refuse(429, scope, send)
        async with self._one:
            status, said = await asyncio.to_thread(desk.take, data, host)
        head = [(b"content-length", b"%d" % len(said)), (b"content-type", b"application/json")]
        head.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": said})

    async def _refuse(self, status: int, scope: Any, send: Any) -> None:
        host, _ = scope.get("client") or ("?", 0)
        if (before := self._lines.let()) is not None:
            what = printable(f"{scope.get('method', '')} {scope['path']}"[:LONGEST_LINE])
            log(WARNING, "refused: %s from %s: %d%s", what[:LONGEST_LINE], host, status, before)
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
        if scope["path"].startswith(PUSH) and not self._room():
            return 507
        return _misfit(scope, LARGEST)


def _heard(scope: Any, send: Any, held_off: Callable[[bytes], None]) -> Any:
    """How Flower answers, once it has checked who asks, where the node of this key is online."""

    async def hearing(message: Any) -> None:
        if message["type"] == "http.response.start" and message["status"] == HTTP_HELD:
            given = dict(scope["headers"]).get(KEY, b"")
            with suppress(ValueError):
                await asyncio.to_thread(held_off, base64.b64decode(given, validate=True))
        await send(message)

    return hearing


def _misfit(scope: Any, largest: int) -> int:
    """The status for a request that does not say its size once, and nothing else about it."""
    names = [name.lower() for name, _ in scope["headers"]]
    if b"transfer-encoding" in names or names.count(b"content-length") > 1:
        return 400
    length = dict(scope["headers"]).get(b"content-length", b"")
    if not (length.isdigit() and len(length) < 10):
        return 411
    return 0 if int(length) <= largest else 413


def _counted(receive: Any, largest: int) -> Any:
    """Whatever the headers said: after this many bytes the caller has gone."""
    left = largest

    async def bounded() -> Any:
        nonlocal left
        message = await receive()
        left -= len(message.get("body", b""))
        return message if left >= 0 else {"type": "http.disconnect"}

    return bounded


async def _body(receive: Any, largest: int) -> bytes:
    """Raises ValueError for one that is too long, or if its sender has gone."""
    data, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request":
            raise ValueError
        data, more = data + message.get("body", b""), message.get("more_body", False)
        if len(data) > largest:
            raise ValueError
    return data


def main(desk: DeskRoute | None = None) -> None:
    """Its own arguments, and those of `flower-superlink`; `--host` and `--port` are the inner
    door's."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument(
        "--door", required=True, help="the address at which sites connect, written as host:port"
    )
    parser.add_argument(
        "--secret",
        required=True,
        type=Path,
        help="the file with the secret that the coordinator sends when it calls this program",
    )
    own, flowers = parser.parse_known_args()
    sys.argv = ["flower-superlink", *flowers]
    migrations.build_alembic_config = partial(_one_place, migrations.build_alembic_config)
    secret = own.secret.read_bytes()
    # Flower has no setting for what it serves, and where
    uvicorn.run = partial(_serve, own.door, secret, own.secret.parent, desk)  # pyright: ignore
    flower_superlink()


def _one_place(build: Callable[[Any], Any], engine: Any) -> Any:
    """Flower's folder of migrations is read as two where its path has a space in it; no table is
    then made."""
    config = build(engine)
    config.set_main_option("path_separator", "newline")
    return config


def _serve(
    door: str, secret: bytes, folder: Path, desk: DeskRoute | None, app: Any, host: str, port: int,
    **settings: Any,
) -> None:  # fmt: skip
    name, _, number = door.rpartition(":")
    sockets = [_listen(name.strip("[]"), int(number)), _listen(host, port)]
    doors = Doors(app, port, secret, desk, partial(has_room, folder))
    config = uvicorn.Config(doors, host=host, port=port, **(settings | SETTINGS))
    uvicorn.Server(config).run(sockets=sockets)


def has_room(folder: Path) -> bool:
    """Whether the disk has room for more of what sites send. The link keeps all of it until it is
    fetched, and a full disk would stop the coordinator itself."""
    whole, _, free = shutil.disk_usage(folder)
    return free > min(ROOM, ROOM_SHARE * whole)


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=256)
