"""The two doors of the SuperLink, what a node reads of its answers, and who answers a message."""

import asyncio
import shutil
import sys
import time
from base64 import b64encode
from datetime import UTC, datetime
from email.utils import format_datetime

import httpx
import pytest

pytest.importorskip("flwr")

import uvicorn
from flwr.supercore.error import ApiErrorCode
from flwr.supercore.error.catalog import API_ERROR_MAP
from flwr.supercore.state.alembic import utils as migrations
from sqlalchemy import create_engine

from feddcd._pace import LinePace, Pace, network_of
from feddcd.flower import _connections, link
from feddcd.flower._messages import SECRET
from feddcd.flower._responses import Clock, TooLarge, bound
from feddcd.flower.link import ACTIVATE, HTTP_HELD, KEY, LARGEST, SETTINGS, SITES, DeskRoute, Doors

INSIDE, SITE = 4711, "/v1/fleet/pull-messages"
PASSWORD = b"s" * 32


def ask(port=9093, path=SITE, method="POST", kind="http", length=b"5", secret=None, doors=None):
    """The status with which the guard refuses; 0 if Flower is called."""
    headers = [] if length is None else [(b"content-length", length)]
    headers += [] if secret is None else [(SECRET.encode(), secret)]
    scope = {"type": kind, "path": path, "method": method, "headers": headers}
    scope |= {"server": ("127.0.0.1", port), "client": ("127.0.0.2", 1)}
    said = []

    async def send(message):
        said.append(message)

    async def app(scope, receive, send):
        said.append({"status": 0})

    doors = doors or Doors(app, INSIDE, PASSWORD)
    doors._app = app
    asyncio.run(doors(scope, None, send))
    return said[0]["status"] if said else None


def test_a_site_may_do_what_a_site_does():
    assert [ask(path=path) for path in sorted(SITES)] == [0] * len(SITES)
    assert ask(path="/any", kind="lifespan") == 0


ELSEWHERE = """
/ /docs /openapi.json /health /v1/control/start-run /v1/runtime/acquire-task /v1/runtime/responses
/v1/fleet/ /v1/fleet/get-fab /v1/fleet/register-node /v1/fleet/unregister-node
/v1/fleet/pull-messages/ //v1/fleet/pull-messages /V1/FLEET/PULL-MESSAGES
/v1/fleet/../control/start-run /v1/fleet/pull-messages/../../control/start-run
"""


@pytest.mark.parametrize("path", [*ELSEWHERE.split(), SITE + "\x00", "\x1b[31m", SITE + " "])
def test_from_the_network_everything_else_is_refused(path):
    assert ask(path=path) == 403
    assert ask(path=path, secret=PASSWORD) == 403, "the secret is of the other door"


def test_sites_do_not_fill_the_disk_of_the_coordinator(tmp_path, monkeypatch):
    """The link keeps what they send, and a site may send as often as it likes."""
    made, full = [], lambda path: shutil._ntuple_diskusage(2**40, 2**40 - 2**29, 2**29)
    (tmp_path / "secret").write_bytes(PASSWORD)
    argv = ["link", "--door", "127.0.0.1:9", "--secret", str(tmp_path / "secret")]
    monkeypatch.setattr(sys, "argv", argv)
    monkeypatch.setattr(uvicorn, "run", uvicorn.run)  # both are put back
    monkeypatch.setattr(migrations, "build_alembic_config", migrations.build_alembic_config)
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: made.append(self.config.app))
    monkeypatch.setattr(link, "_listen", lambda *place: None)
    start = lambda: uvicorn.run(None, host="127.0.0.1", port=INSIDE)
    monkeypatch.setattr(link, "flower_superlink", start)
    link.main()
    push = [path for path in sorted(SITES) if "push" in path]
    assert [ask(path=path, doors=made[0]) for path in push] == [0, 0]
    monkeypatch.setattr(shutil, "disk_usage", full)
    assert [ask(path=path, doors=made[0]) for path in push] == [507, 507]
    assert ask(doors=made[0]) == 0
    assert ask(port=INSIDE, secret=PASSWORD, doors=made[0]) == 0


def test_how_a_call_looks_from_the_network():
    assert ask(method="GET") == 403
    assert ask(length=None) == 411
    assert ask(length=b"-1") == 411
    assert ask(length=b"%d" % (LARGEST + 1)) == 413
    assert ask(kind="websocket") is None  # closed without a word


async def told(sent):
    """The first line of the answer of the server as it is set up, with doors and without Flower;
    and the sizes of the bodies that came through."""
    sizes = []

    async def app(scope, receive, send):
        size, more = 0, True
        while more:
            message = await receive()
            size += len(message.get("body", b""))
            more = message.get("more_body", False)
        sizes.append(size)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    listening = link._listen("127.0.0.1", 0)
    config = uvicorn.Config(
        Doors(app, INSIDE, PASSWORD), lifespan="off", log_config=None, **SETTINGS
    )
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    lines = []
    for data in sent:
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        try:
            writer.write(data)
            await writer.drain()
            lines.append(await reader.readline())
        except ConnectionError:  # cut off before all was sent
            lines.append(b"HTTP/1.1 400")
        writer.close()
    server.should_exit = True
    await serving
    return [int(line.split()[1]) for line in lines], sizes


def test_a_request_is_as_long_as_it_says():
    """An endless header, and a body of another length than the one that is checked."""
    head = f"POST {SITE} HTTP/1.1\r\nHost: x\r\n".encode()
    five, chunked = b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n"
    long = b"6\r\nlonger\r\n0\r\n\r\n"
    statuses, sizes = asyncio.run(
        told(
            [
                head + b"X: " + b"a" * (1 << 20), head + b"a: b\r\n" * 20_000,
                head + five + chunked + b"\r\n" + long, head + chunked + five + b"\r\n" + long,
                head + chunked + b"\r\n" + long, head + b"Content-Length: 6\r\n" + five + b"\r\n",
                head + five + b"\r\nhello",
            ]
        )
    )  # fmt: skip
    assert statuses == [400] * 6 + [200]
    assert sizes == [5], "nothing else came to Flower"
    assert SETTINGS["access_log"] is False, "strangers write no lines of any length"


async def held_open(starts, others):
    """The answers to good requests while others were begun and not ended, or said nothing; and
    how many of these are open at the end."""
    good = f"POST {SITE} HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello".encode()

    async def app(scope, receive, send):
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    listening = link._listen("127.0.0.1", 0)
    settings = SETTINGS | {"limit_concurrency": len(starts) + 1}
    doors = Doors(app, INSIDE, PASSWORD)
    server = uvicorn.Server(uvicorn.Config(doors, lifespan="off", log_config=None, **settings))
    serving, lines = asyncio.create_task(server.serve(sockets=[listening])), []
    kept = []
    for start in starts:
        kept.append(await asyncio.open_connection(*listening.getsockname()))
        kept[-1][1].write(start)
    for wait in others:
        await asyncio.sleep(wait)
        reader, writer = await asyncio.open_connection(*listening.getsockname())
        writer.write(good)
        lines.append(int((await reader.readline() or b"x 0").split()[1]))
        writer.close()
        await writer.wait_closed()
    still = len(server.server_state.connections)
    for _, writer in kept:
        writer.close()
    server.should_exit = True
    await serving
    return lines, still


def test_who_says_nothing_is_not_waited_for(monkeypatch):
    """Strangers who hold all connections open: those are closed, and the next site is served."""
    head = f"POST {SITE} HTTP/1.1\r\nHost: x\r\n".encode()
    starts = [b"", b"", head, head + b"Content-Length: 5\r\n\r\nhe"]
    monkeypatch.setattr(_connections, "HEAD_S", 0.3)
    monkeypatch.setattr(_connections, "CALL_S", 0.3)
    lines, still = asyncio.run(held_open(starts, (0.0, 0.5)))
    assert lines == [503, 200]
    assert still <= 1
    monkeypatch.setattr(_connections, "OF_NETWORK", 4)
    lines, _ = asyncio.run(held_open([b""] * 4, (0.1,)))
    assert lines == [0], "one address has few of them"


def test_a_body_ends_at_the_limit_whatever_was_said(monkeypatch):
    monkeypatch.setattr(link, "LARGEST", 7)
    parts, taken = [b"12345", b"67890"], []

    async def receive():
        return {"type": "http.request", "body": parts.pop(0), "more_body": True}

    async def app(scope, receive, send):
        taken.extend([await receive(), await receive()])

    scope = {"type": "http", "path": SITE, "method": "POST", "server": ("127.0.0.1", 9093)}
    scope["headers"] = [(b"content-length", b"5")]
    asyncio.run(Doors(app, INSIDE, PASSWORD)(scope, receive, None))
    assert taken == [
        {"type": "http.request", "body": b"12345", "more_body": True}, {"type": "http.disconnect"}
    ]  # fmt: skip


def test_refusals_fill_no_disk(monkeypatch):
    """Of 100 strangers' calls within a minute a few short lines are left, and then their number."""
    lines, now = [], [0.0]
    monkeypatch.setattr(link, "log", lambda level, text, *parts: lines.append(text % parts))
    monkeypatch.setattr(link, "LinePace", lambda most: LinePace(most, lambda: now[0]))
    doors = Doors(None, INSIDE, PASSWORD, DeskRoute(DESK, lambda *_: (200, b""), 100))
    for _ in range(100):
        assert at_desk("/" + "\x1b" * 4000, doors=doors)[0] == 403
    assert len(lines) == link.REFUSALS
    assert max(map(len, lines)) < 300
    now[0] = 61.0
    at_desk("/x", doors=doors)
    assert lines[-1].endswith(": 403 (before this line, 40 similar lines were left out)")


def test_the_inner_door_has_a_secret():
    assert ask(INSIDE, "/v1/control/start-run", secret=PASSWORD) == 0
    for wrong in (None, b"", PASSWORD[:-1], PASSWORD + b"s"):
        assert ask(INSIDE, "/v1/control/start-run", secret=wrong) == 403
        assert ask(INSIDE, SITE, secret=wrong) == 403
    with pytest.raises(ValueError, match="must have at least 32 bytes"):
        Doors(None, INSIDE, b"")


DESK = "/v1/feddcd/enrol"


def at_desk(path=DESK, method="POST", length=b"5", port=9093, body=(b"hello",), doors=None):
    """The status, and what the desk was given."""
    given = []
    take = lambda data, host: (given.append((data, host)), (200, b"yes"))[1]
    doors = doors or Doors(None, INSIDE, PASSWORD, DeskRoute(DESK, take, 100))
    headers = [] if length is None else [(b"content-length", length)]
    scope = {"type": "http", "path": path, "method": method, "headers": headers}
    scope |= {"server": ("127.0.0.1", port), "client": ("127.0.0.2", 1)}
    said, parts = [], list(body)

    async def send(message):
        said.append(message)

    async def receive():
        if not parts:
            return {"type": "http.disconnect"}
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    asyncio.run(doors(scope, receive, send))
    return said[0]["status"], given


def test_the_desk_is_one_narrow_call():
    assert at_desk() == (200, [(b"hello", "127.0.0.2")])
    assert at_desk(body=(b"he", b"llo")) == (200, [(b"hello", "127.0.0.2")])
    for path in (DESK + "/", DESK + "/x", "/" + DESK, DESK.upper(), "/v1/feddcd/", DESK + "\x00"):
        assert at_desk(path) == (403, [])
    assert at_desk(method="GET") == (403, [])
    assert at_desk(method="PUT") == (403, [])
    assert at_desk(port=INSIDE) == (403, []), "the inner door has no desk"
    assert at_desk(length=None) == (411, [])
    assert at_desk(length=b"-1") == (411, [])
    assert at_desk(length=b"9" * 5000) == (411, [])
    assert at_desk(length=b"101") == (413, [])
    assert at_desk(body=(b"x" * 60, b"x" * 60)) == (408, []), "longer than it said"
    assert at_desk(body=()) == (408, []), "gone before it was whole"
    assert ask(path=DESK) == 403, "without a desk the port is as it was"


def test_the_desk_is_called_seldom():
    now = [0.0]
    pace = Pace(2, 3, lambda: now[0])
    assert [pace.let(host) for host in "aaabc"] == [True, True, False, True, False]
    now[0] = 61.0
    assert pace.let("a")
    doors = Doors(None, INSIDE, PASSWORD, DeskRoute(DESK, lambda *_: (200, b""), 100, 1))
    assert at_desk(doors=doors)[0] == 200
    assert at_desk(doors=doors)[0] == 429


def test_strangers_do_not_hold_up_who_has_a_token():
    """100 calls a minute of strangers, from however many addresses: a hospital still enrols."""
    take = lambda data, host: (200, b"yes")
    route = DeskRoute(DESK, take, 100, 2, 3, known=lambda data: data == b"token")
    doors = Doors(None, INSIDE, PASSWORD, route)
    assert [at_desk(doors=doors)[0] for _ in range(3)] == [200, 200, 429]
    assert [at_desk(doors=doors, body=(b"token",))[0] for _ in range(3)] == [200, 200, 429]


def test_a_network_of_ipv6_is_one_caller():
    hosts = ("2001:db8::1", "2001:db8::ffff:1", "2001:db8:0:0:9::")
    assert {network_of(host) for host in hosts} == {"2001:db8::/64"}
    assert network_of("2001:db8:0:1::1") == "2001:db8:0:1::/64"
    assert network_of("fe80::1%eth0") == "fe80::/64"
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("?") == "?"
    pace = Pace(2, 100)
    assert [pace.let(host) for host in hosts] == [True, True, False]


def answered(ahead):
    told = format_datetime(datetime.fromtimestamp(1_000_000, UTC), usegmt=True)
    clock = Clock(lambda: 1_000_000.5 + ahead)
    clock(httpx.Response(401, headers={"date": told}))
    return clock.problem()


def test_a_clock_that_is_off_is_named():
    assert [answered(ahead) for ahead in (0, 3, -100, -300)] == [""] * 4
    assert answered(61).startswith(
        "this machine's clock is 61 s ahead of the coordinator's clock. The clock"
    )
    assert answered(5).startswith("this machine's clock is 5 s ahead")
    assert answered(-3600).startswith("this machine's clock is 3600 s behind the coordinator's")
    clock = Clock(time.time)
    clock(httpx.Response(401, headers={"date": "yesterday"}))
    clock(httpx.Response(401))
    assert clock.problem() == ""


def test_an_answer_of_the_link_has_an_end():
    request = httpx.Request("POST", "https://host/")
    endless = (b"x" * 1000 for _ in iter(int, 1))
    response = httpx.Response(200, content=endless, request=request)
    bound(response, 10_000)
    with pytest.raises(TooLarge):
        response.read()
    packed = httpx.Response(200, headers={"content-encoding": "gzip"}, request=request)
    with pytest.raises(httpx.DecodingError):
        bound(packed)


def test_flower_may_be_installed_in_a_folder_with_a_space(tmp_path, monkeypatch):
    """Its link would start without a table, and refuse every site."""
    secret = tmp_path / "secret"
    secret.write_bytes(b"s")
    found = []

    def started():
        config = migrations.build_alembic_config(create_engine("sqlite://"))
        found.extend(config.get_version_locations_list() or ())

    monkeypatch.setattr(migrations, "ALEMBIC_DIR", tmp_path / "a folder, with a space")
    monkeypatch.setattr(migrations, "build_alembic_config", migrations.build_alembic_config)
    monkeypatch.setattr(link, "flower_superlink", started)
    monkeypatch.setattr(uvicorn, "run", uvicorn.run)
    monkeypatch.setattr("sys.argv", ["link", "--door", "127.0.0.1:1", "--secret", str(secret)])
    link.main()
    assert found == [str(tmp_path / "a folder, with a space" / "versions")]


def test_who_is_connected_already_is_told_to_the_desk():
    """By the key, which Flower has checked before it answers like this."""
    heard, key = [], b64encode(b"a key")
    desk = DeskRoute(DESK, lambda *_: (200, b""), 100, held_off=heard.append)
    for path, status, port in (
        (ACTIVATE, HTTP_HELD, 9093), (ACTIVATE, 200, 9093), (ACTIVATE, 401, 9093),
        (SITE, HTTP_HELD, 9093), (ACTIVATE, HTTP_HELD, INSIDE),
    ):  # fmt: skip

        async def app(scope, receive, send, status=status):
            await send({"type": "http.response.start", "status": status, "headers": []})

        headers = [(b"content-length", b"5"), (KEY, key), (SECRET.encode(), PASSWORD)]
        scope = {"type": "http", "path": path, "method": "POST", "headers": headers}
        scope |= {"server": ("127.0.0.1", port), "client": ("127.0.0.2", 1)}
        said = []

        async def send(message, said=said):
            said.append(message["status"])

        asyncio.run(Doors(app, INSIDE, PASSWORD, desk)(scope, None, send))
        assert said == [status]
    assert heard == [b"a key"]
    failed = API_ERROR_MAP[ApiErrorCode.FLEET_NODE_ACTIVATION_FAILED]
    assert failed.http_status_code == HTTP_HELD
