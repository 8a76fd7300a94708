"""The programs of a federation's folder: link, coordinator, sites, and what to do when one of them
dies."""

import shlex
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..._errors import Failed, FlowerError, SpecError
from ..._files import Disk, Locked, owner_only
from ..folder import FederationFolder, load_places
from ._inner import inner_port, inside, make_door, register
from .keys import serves
from .processes import Group, Program

Event = dict[str, Any]
START_S = 60.0
POLL_S = 0.3
REST_S = 10.0  # between two starts: a link lets a killed node back in after up to a minute
ATTEMPTS = 5  # without a committed round in between


def link(folder: FederationFolder) -> Program:
    """The SuperLink: TLS, and only nodes whose keys are registered; by the key a site is known."""
    config, server = folder.config(), folder.server
    arguments = [
        "--door", f"{_bind(config.host)}:{config.port}", "--secret", str(server / "inner.secret"),
        "--enable-supernode-auth", "--isolation", "process",
        "--ssl-certfile", str(server / "server.crt"), "--ssl-keyfile", str(server / "server.key"),
        "--ssl-ca-certfile", str(server / "ca.crt"), "--host", "127.0.0.1",
        "--port", str(inner_port(folder)), "--database", str(server / "flower" / "link.db"),
        "--disable-runtime-dependency-installation",
    ]  # fmt: skip
    extra = _settings(server / "flower", server / "flower" / "compiled")
    log = server / "superlink.log"
    return Program("superlink", _python("feddcd.flower.link", *arguments), log, extra)


def coordinator(folder: FederationFolder, run: int, rounds: int, mode: str = "") -> Program:
    given = (str(folder.path), str(run), str(rounds), *([mode] if mode else []))
    command = _python("feddcd.federation.machine.conduct", *given)
    flower = folder.server / "flower"
    log = folder.server / "coordinator.log"
    return Program("coordinator", command, log, _settings(flower, flower / "compiled"))


def forget_link(folder: FederationFolder) -> None:
    """Removes what Flower remembers of nodes and runs; what counts is in our ledger."""
    for path in (folder.server / "flower").glob("link.db*"):
        path.unlink()


def node(folder: Path) -> Program:
    """The node of a site, from its folder."""
    folder = folder.resolve()
    command = _python("feddcd.federation.machine.serve", str(folder))
    extra = _settings(folder / "flower", folder / "compiled")
    return Program(folder.name, command, folder / "supernode.log", extra)


def _python(module: str, *arguments: str) -> list[str]:
    """A module of this package in a Python that imports nothing from the current folder."""
    if find_spec("flwr") is None:
        raise FlowerError("Flower is not installed; install it with: pip install 'feddcd[flower]'")
    return [sys.executable, "-P", "-m", module, *arguments]


def _settings(flower: Path, compiled: Path) -> dict[str, str]:
    """Every message is answered by a new process, so what XLA compiled once is kept."""
    return {
        "FLWR_HOME": str(flower),
        "JAX_COMPILATION_CACHE_DIR": str(compiled),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def answers(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


def _bind(host: str) -> str:
    """Loopback stays loopback; any other name means all interfaces."""
    return host if host in ("127.0.0.1", "localhost") else "0.0.0.0"


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def up(
    folder: FederationFolder,
    watch: Callable[[Event], None],
    *,
    rounds: int = 0,
    sites: bool = True,
    mode: str = "",
) -> Event:
    """Trains to the end, starting again whatever dies; returns the last event."""
    config, places = folder.config(), load_places(folder) if sites else []
    try:
        lock = Disk().lock(folder.server / ".up.lock")
    except Locked as error:
        raise SpecError(f"{folder.path} is up already, by {error.holder}") from None
    with lock, owner_only():
        group = Group(folder.server / "processes.json")
        if answers(config.host, config.port):
            raise FlowerError(
                f"port {config.port} of {config.host} is in use; set another in federation.toml"
            )
        if not serves(folder.server, config.host):
            raise SpecError(
                f"the certificate is not for {config.host}, the host in federation.toml; make a "
                f"new one: feddcd federation certify {shlex.quote(str(folder.path))}"
            )
        if sites:  # nobody else is connected, so nobody waits for what the link remembers
            forget_link(folder)
        make_door(folder, free_port())
        try:
            group.start(link(folder))
            _wait_for_link(folder, group)
            register(folder)
            for place in places:
                group.start(node(place.folder))
            return _Supervisor(folder, group, watch, rounds, mode).to_the_end()
        finally:
            group.end()


def _wait_for_link(folder: FederationFolder, group: Group) -> None:
    config, until = folder.config(), time.monotonic() + START_S
    while not answers(config.host, config.port):
        if "superlink" in group.dead() or time.monotonic() > until:
            raise FlowerError(f"the SuperLink did not start; see {group.programs['superlink'].log}")
        time.sleep(0.2)


class _Supervisor:
    """Follows the events of one run, and starts again what dies meanwhile."""

    def __init__(
        self,
        folder: FederationFolder,
        group: Group,
        watch: Callable[[Event], None],
        rounds: int,
        mode: str = "",
    ):
        self.folder, self.group, self.watch = folder, group, watch
        self.rounds, self.mode = rounds, mode
        self.place = folder.events.stat().st_size if folder.events.exists() else 0
        self.attempts, self.run, self.gone = 0, 0, False
        self.rest: dict[str, float] = {}

    def to_the_end(self) -> Event:
        self.submit()
        while True:
            for place, event in list(self.folder.read_events(self.place)):
                self.place = place
                self.watch(event)
                if event["event"] == "round" and event["summed"]:
                    self.attempts = 0
                elif event["event"] == "failed":
                    raise Failed(event["reason"])
                elif event["event"] == "finished":
                    return event
            self.restart()
            time.sleep(POLL_S)

    def submit(self) -> None:
        self.attempts += 1
        if self.attempts > ATTEMPTS:
            raise Failed(
                f"the coordinator died {ATTEMPTS} times without a round in between; see "
                f"{self.folder.server / 'coordinator.log'}"
            )
        link = inside(self.folder)
        if self.run:
            self.group.stop("coordinator")
            link.stop(self.run)
        self.run, self.gone = link.start(), False
        self.group.start(coordinator(self.folder, self.run, self.rounds, self.mode))

    def restart(self) -> None:
        """Starts again what died; a run that lost its coordinator, or its link, begins anew."""
        dead = self.group.dead()
        lost = "coordinator" in dead and self.gone  # its last event may have come just now
        self.gone = "coordinator" in dead
        for name in set(dead) - {"coordinator"}:
            if time.monotonic() < self.rest.get(name, 0.0):
                continue
            self.watch({"event": "died", "program": name})
            self.rest[name] = time.monotonic() + REST_S
            self.group.again(name)
            if name == "superlink":
                _wait_for_link(self.folder, self.group)
                lost = True
        if lost:
            self.watch({"event": "died", "program": "coordinator"})
            with suppress(FlowerError):
                self.submit()
