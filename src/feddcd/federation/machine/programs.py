"""The programs of a federation's folder: link, coordinator, sites, and what to do when one of them
dies."""

import shlex
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..._errors import Failed, FlowerError, SpecError
from ..._files import Disk, Locked, lock_within, owner_only, shown
from ..about import CANCELLED_WORDS
from ..config import Config
from ..folder import FederationFolder, load_places
from ._inner import inner_port, inside, make_door, register
from ._keeper import Keeper
from ._keeper import connected as connected
from ._keeper import looked as looked
from ._served import RECORD, UP
from ._served import SITE_LOCK as SITE_LOCK
from ._served import Hang as Hang
from ._served import hang_of as hang_of
from ._served import is_up as is_up
from ._served import opened_for as opened_for
from ._served import site_runs as site_runs
from .keys import check_server, serves
from .processes import Group, Program

Event = dict[str, Any]
START_S = 60.0
POLL_S = 0.3
REST_S = 10.0  # between two starts: a link lets a killed node back in after up to a minute
CANCEL_S = 60.0  # in which a coordinator tells its sites that a person cancelled the study
ATTEMPTS = 5  # without a committed round in between
ASK_S = 1.0  # for which the question whether it is up may hold its lock, many times over


def link(folder: FederationFolder) -> Program:
    """The SuperLink: TLS, and only nodes with registered keys; by the key a site is known."""
    config, server = folder.config(), folder.server
    arguments = [
        "--door", f"{_bind(config)}:{config.port}", "--secret", str(server / "inner.secret"),
        "--enable-supernode-auth", "--isolation", "process",
        "--ssl-certfile", str(server / "server.crt"), "--ssl-keyfile", str(server / "server.key"),
        "--ssl-ca-certfile", str(server / "ca.crt"), "--host", "127.0.0.1",
        "--port", str(inner_port(folder)), "--database", str(server / "flower" / "link.db"),
        "--disable-runtime-dependency-installation",
    ]  # fmt: skip
    extra = _settings(server / "flower", server / "flower" / "compiled")
    log = server / "superlink.log"
    command = _python("feddcd.federation.machine.gate", str(folder.path), *arguments)
    return Program("superlink", command, log, extra)


def coordinator(folder: FederationFolder, run: int, rounds: int, mode: str = "") -> Program:
    given = (str(folder.path), str(run), str(rounds), mode, folder.study)
    command = _python("feddcd.federation.machine.conduct", *given)
    flower = folder.server / "flower"
    log = folder.results / "coordinator.log"
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
        raise FlowerError(
            "Flower is not installed; to install Flower: pip install 'feddcd[flower]'"
        )
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


def _bind(config: Config) -> str:
    """Where the link listens. Loopback stays loopback; any other name means all interfaces: it may
    be that of a router in front, or be another one in this network."""
    if config.bind:
        return f"[{config.bind}]" if ":" in config.bind else config.bind
    return "127.0.0.1" if config.host in ("127.0.0.1", "localhost") else "0.0.0.0"


def _here(config: Config) -> str:
    """An address of this machine at which the link answers, whatever the sites call it."""
    bound = _bind(config).strip("[]")
    return {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(bound, bound)


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
    places = load_places(folder) if sites else []
    with opened(folder, forget=sites) as group:
        for place in places:
            group.start(node(place.folder))
        return Supervisor(folder, group, watch, rounds, mode).to_the_end()


@contextmanager
def opened(folder: FederationFolder, *, forget: bool) -> Iterator[Group]:
    """The link is up and knows the invited sites' keys; at the end all that was started ends.

    `forget` what the link remembers, where nobody waits for it."""
    config = folder.config()
    try:
        lock = lock_within(Disk(), folder.server / UP, ASK_S)  # who asks whether it is up has it
    except Locked as error:
        raise SpecError(
            f"{folder.path} is already running, in {error.holder}; stop that process first"
        ) from None
    with lock, owner_only():
        group = Group(folder.server / RECORD)
        if answers(_here(config), config.port):
            raise FlowerError(
                f"port {config.port} of {_here(config)} is in use by another program. Stop that "
                "program, or use another port. For another port, write port = ... into "
                "federation.toml, and superlink = 'HOST:PORT' into the file site.toml of each "
                f"site. For the sites in {shown(folder.path / 'sites')}, the command `feddcd "
                "federation up` changes the port in site.toml"
            )
        check_server(folder.server)
        if not serves(folder.server, config.host):
            raise SpecError(
                f"the certificate is not for {config.host}, the host in "
                "federation.toml. Make a new certificate: feddcd federation certify "
                f"{shlex.quote(str(folder.path))}"
            )
        if forget:
            forget_link(folder)
        make_door(folder, free_port())
        try:
            group.start(link(folder))
            wait_for_link(folder, group)
            register(folder)
            yield group
        finally:
            group.end()


def wait_for_link(folder: FederationFolder, group: Group) -> None:
    config, until = folder.config(), time.monotonic() + START_S
    while not answers(_here(config), config.port):
        if "superlink" in group.dead() or time.monotonic() > until:
            raise FlowerError(
                f"the SuperLink did not start; the reason is in {group.programs['superlink'].log}"
            )
        time.sleep(0.2)


class Supervisor:
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
        self.rounds, self.mode, self.keeper = rounds, mode, Keeper(folder, group)
        self.place = folder.events.stat().st_size if folder.events.exists() else 0
        self.attempts, self.run, self.gone, self.ends = 0, 0, False, 0.0
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
            self.check_cancelled()
            self.restart()
            self.keeper.look()
            time.sleep(POLL_S)

    def check_cancelled(self) -> None:
        """Raises where the coordinator should have ended by itself, and has not."""
        if self.folder.cancelled:
            self.ends = self.ends or time.monotonic() + CANCEL_S
            if time.monotonic() > self.ends:
                raise Failed(CANCELLED_WORDS)

    def submit(self) -> None:
        self.attempts += 1
        if self.attempts > ATTEMPTS:
            raise Failed(
                f"the coordinator stopped {ATTEMPTS} times before it finished a round; "
                "the reason is in "
                f"{self.folder.results / 'coordinator.log'}"
            )
        link = inside(self.folder)
        if self.run:
            self.group.stop("coordinator")
            link.stop(self.run)
        self.run, self.gone = link.start(), False
        self.group.start(coordinator(self.folder, self.run, self.rounds, self.mode))

    def restart(self) -> None:
        """Starts again what died; a run that lost its coordinator, or its link, begins again."""
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
                wait_for_link(self.folder, self.group)
                lost = True
        if lost:
            self.watch({"event": "died", "program": "coordinator"})
            with suppress(FlowerError):
                self.submit()
