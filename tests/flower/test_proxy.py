"""A site behind a proxy: `enrol` and the site's program take the same way, and name it."""

import json
import socket
import ssl
import threading
from contextlib import closing, contextmanager, suppress

import pytest

pytest.importorskip("flwr")

from cryptography.hazmat.primitives.asymmetric import ec

from feddcd import _errors
from feddcd._proxy import proxy_of
from feddcd.federation import _site_status
from feddcd.federation.enrolment.site import over_tls
from feddcd.federation.machine.keys import Authority, write_server
from feddcd.flower.inside import Inside
from feddcd.flower.node import SiteNode

WHERE = "fed.example.org:9093"
CERTIFICATE = Authority.new("test").pem()
NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


class Over(Exception):
    pass


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@contextmanager
def proxy(monkeypatch):
    """One that lets nobody through, and what it was asked."""
    asked, server = [], socket.create_server(("127.0.0.1", 0))

    def take():
        while True:
            try:
                call, _ = server.accept()
            except OSError:
                return
            with call:
                asked.append(call.recv(4096).decode(errors="replace"))
                call.sendall(b"HTTP/1.1 403 Forbidden\r\ncontent-length: 0\r\n\r\n")

    threading.Thread(target=take, daemon=True).start()
    at = f"127.0.0.1:{server.getsockname()[1]}"
    monkeypatch.setenv("HTTPS_PROXY", f"http://user:secret@{at}")
    try:
        yield at, asked
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


class Who:
    address, certificate = WHERE, CERTIFICATE.decode()


def why_not_connected(certificate=CERTIFICATE):
    def tell(state, why):
        if why:
            raise Over(why)

    key, nothing = ec.generate_private_key(ec.SECP384R1()), lambda *_: b""
    made = SiteNode(WHERE, certificate, key, nothing, nothing, nothing, nothing, tell)  # pyright: ignore
    with closing(made._client._client), pytest.raises(Over) as told:
        made.serve()
    return str(told.value)


def test_enrol_and_a_site_take_the_same_way(monkeypatch):
    with proxy(monkeypatch) as (at, asked):
        with pytest.raises(_errors.SpecError) as told:
            over_tls(Who, b"{}")  # pyright: ignore
        assert f"{WHERE} does not answer through the proxy {at}: " in str(told.value)
        why = why_not_connected()
        assert why.startswith(f"the coordinator is not reachable now through the proxy {at} (403")
        assert "secret" not in str(told.value) + why
        assert [text.split()[:2] for text in asked] == [["CONNECT", WHERE]] * 2
        assert all("Basic dXNlcjpzZWNyZXQ=" in text for text in asked)
        monkeypatch.setenv("NO_PROXY", "example.org")
        with pytest.raises(_errors.SpecError) as told:
            over_tls(Who, b"{}")  # pyright: ignore
        assert "proxy" not in str(told.value) + why_not_connected()
        assert len(asked) == 2


def test_through_a_proxy_the_coordinator_is_known_by_its_own_certificate(tmp_path, monkeypatch):
    """The proxy passes bytes on; it cannot read them."""
    ours, other = Authority.new("test"), Authority.new("other")
    write_server(ours, tmp_path, ["fed.example.org"])
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    trust.load_cert_chain(tmp_path / "server.crt", tmp_path / "server.key")
    server = socket.create_server(("127.0.0.1", 0))

    def pass_on(call):
        with call, suppress(OSError):
            call.recv(4096)
            call.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
            with trust.wrap_socket(call, server_side=True) as inner:
                inner.recv(65536)
                inner.sendall(b"HTTP/1.1 503 x\r\ncontent-length: 0\r\n\r\n")
                while inner.recv(65536):  # the rest of a request, then its end
                    pass

    def take():
        with suppress(OSError):
            while True:
                threading.Thread(target=pass_on, args=server.accept()[:1], daemon=True).start()

    threading.Thread(target=take, daemon=True).start()
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{server.getsockname()[1]}")
    try:
        monkeypatch.setattr(Who, "certificate", ours.pem().decode())
        assert over_tls(Who, b"{}") == (503, b"")  # pyright: ignore
        assert "the HTTP status is 503" in why_not_connected(ours.pem())
        monkeypatch.setattr(Who, "certificate", other.pem().decode())
        with pytest.raises(_errors.Refused, match="is not the coordinator of the invitation"):
            over_tls(Who, b"{}")  # pyright: ignore
        with pytest.raises(_errors.FlowerError, match="is not the coordinator that this site kn"):
            why_not_connected(other.pem())
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def test_a_call_to_this_machine_needs_no_proxy(monkeypatch):
    with proxy(monkeypatch) as (_, asked):
        monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:1")
        inside = Inside("127.0.0.1:1", CERTIFICATE, "s" * 32)
        with pytest.raises(
            _errors.FlowerError, match=r"the SuperLink .Flower's server. does not answer"
        ):
            inside.nodes()
        assert asked == []
        for here in ("127.0.0.1:9093", "localhost:9093", "[::1]:9093"):
            assert proxy_of(here) == ""


def test_a_proxy_that_cannot_be_used_is_named(monkeypatch):
    for wrong in ("https://proxy:3128", "http://proxy:port"):
        monkeypatch.setenv("HTTPS_PROXY", wrong)
        with pytest.raises(_errors.SpecError, match="write the proxy as http://HOST:PORT"):
            proxy_of(WHERE)
    monkeypatch.setenv("HTTPS_PROXY", "proxy:3128")
    assert proxy_of(WHERE) == "http://proxy:3128"


def test_the_status_suspects_the_proxy_and_not_the_coordinator(tmp_path, monkeypatch):
    why = "the coordinator is not reachable now through the proxy proxy:3128 (403 Forbidden)"
    held = {"left_federation": [], "problems": [], "paused": False, "waits": [], "warnings": []}
    held |= {"state": "connecting", "why": why, "coordinator": WHERE}
    told = _site_status._next_at_site(tmp_path, held)
    assert f"whether the proxy runs and lets this machine reach {WHERE}" in told
    assert "fed.example.org into the environment variable NO_PROXY" in told
    assert "whether its port" not in json.dumps(told)
