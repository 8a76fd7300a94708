"""Flower's programs and commands for a federation's folder: link, nodes, training, and what to do
when one of them dies."""

import json
import shlex
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..._errors import Failed, FlowerError, SpecError
from ..._files import Disk, Locked
from ..folder import FederationFolder, load_places, node_config, quote
from ..site.answer import SitePlace
from .init import write_app
from .processes import Group, Program, environment, processes, search_path

Event = dict[str, Any]
START_S = 60.0
POLL_S = 0.3
REST_S = 10.0  # between two starts: a link lets a killed node back in after up to a minute
ATTEMPTS = 5  # without a committed round in between


def link(folder: FederationFolder) -> Program:
    """The SuperLink: TLS, and only nodes whose keys are registered; by the key a site is known."""
    config, server = folder.config(), folder.server
    command = [
        _binary("flower-superlink"), "--enable-supernode-auth",
        "--ssl-certfile", str(server / "server.crt"), "--ssl-keyfile", str(server / "server.key"),
        "--ssl-ca-certfile", str(server / "ca.crt"), "--host", _bind(config.host),
        "--port", str(config.port), "--database", str(server / "flower" / "link.db"),
        "--disable-runtime-dependency-installation",
    ]  # fmt: skip
    return Program("superlink", command, server / "superlink.log", _flower_home(folder))


def forget_link(folder: FederationFolder) -> None:
    """Removes what Flower remembers of nodes and runs; what counts is in our ledger."""
    for path in (folder.server / "flower").glob("link.db*"):
        path.unlink()


def node(place: SitePlace, address: str, authority: Path, key: Path) -> Program:
    """The SuperNode of one site."""
    command = [
        _binary("flower-supernode"), "--root-certificates", str(authority),
        "--superlink", address, "--auth-supernode-private-key", str(key),
        "--host", "127.0.0.1", "--port", str(free_port()), "--node-config", node_config(place),
    ]  # fmt: skip
    extra = _settings(place.folder / "flower", place.folder / "compiled")
    if sys.platform == "linux":  # forks are not safe with macOS's libraries, and Windows has none
        extra["PATH"] = search_path(_warm(place.folder.resolve() / "flower" / "bin"))
    return Program(place.client, command, place.folder / "supernode.log", extra)


def _warm(path: Path) -> Path:
    """A folder with a `flower-superexec` that forks client apps; a SuperNode calls it by name."""
    path.mkdir(parents=True, exist_ok=True)
    script = path / "flower-superexec"
    python = shlex.quote(sys.executable)
    script.write_text(f'#!/bin/sh\nexec {python} -m feddcd.flower.warm "$@"\n')
    script.chmod(0o755)
    return path


def _flower_home(folder: FederationFolder) -> dict[str, str]:
    """Flower's own folder, with the address of our link in its configuration."""
    config, path = folder.config(), folder.server / "flower"
    path.mkdir(exist_ok=True)
    text = (
        '[superlink]\ndefault = "feddcd"\n\n[superlink.feddcd]\n'
        f'address = "{config.host}:{config.port}"\n'
        f"root-certificates = {quote(folder.server / 'ca.crt')}\n"
    )
    (path / "config.toml").write_text(text, encoding="utf-8")
    return _settings(path, path / "compiled")


def _settings(flower: Path, compiled: Path) -> dict[str, str]:
    """Every message is answered by a new process, so what XLA compiled once is kept."""
    return {
        "FLWR_HOME": str(flower),
        "JAX_COMPILATION_CACHE_DIR": str(compiled),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def flwr(folder: FederationFolder, *arguments: str) -> dict:
    """One of Flower's commands, with its answer in JSON."""
    command = [_binary("flwr"), *arguments, "--format", "json"]
    done = subprocess.run(
        command, env=environment(_flower_home(folder)), capture_output=True, text=True, timeout=120
    )
    start = done.stdout.find("{")
    try:
        reply = json.loads(done.stdout[start:]) if start >= 0 else {}
    except ValueError:
        reply = {}
    if done.returncode != 0 or not reply.get("success", True):
        reason = reply.get("error-message") or done.stderr.strip() or done.stdout.strip()
        raise FlowerError(f"flwr {' '.join(arguments[:2])}: {reason}")
    return reply


def register(folder: FederationFolder) -> None:
    """Makes the invited sites' keys known to the link; those it knows already stay."""
    for name in folder.invited():
        try:
            flwr(folder, "supernode", "register", str(folder.key(name)), "feddcd", "--name", name)
        except FlowerError as error:
            if "already in use" not in str(error):
                raise


def submit(folder: FederationFolder, rounds: int) -> str:
    """Hands the app to the link; the number of the run."""
    settings = f"folder={quote(folder.path)} rounds={rounds}"
    reply = flwr(folder, "run", str(folder.app), "feddcd", "--run-config", settings)
    return str(reply.get("run-id", ""))


def stop(folder: FederationFolder, run: str) -> None:
    """A run whose coordinator died: until the link knows, its nodes wait for messages that were
    half sent."""
    with suppress(FlowerError):
        flwr(folder, "stop", run, "feddcd")


def answers(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


def _binary(name: str) -> str:
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise FlowerError(f"{name} is not installed; install it with: pip install 'feddcd[flower]'")
    return str(path)


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
) -> Event:
    """Trains to the end, starting again whatever dies; returns the last event."""
    config, places = folder.config(), load_places(folder) if sites else []
    try:
        lock = Disk().lock(folder.server / ".up.lock")
    except Locked as error:
        raise SpecError(f"{folder.path} is up already, by {error.holder}") from None
    with lock:
        group = Group(folder.server / "processes.json")
        if answers(config.host, config.port):
            raise FlowerError(
                f"port {config.port} of {config.host} is in use; set another in federation.toml"
            )
        write_app(folder.app)  # one of an earlier version may import what is gone
        if sites:  # nobody else is connected, so nobody waits for what the link remembers
            forget_link(folder)
        try:
            group.start(link(folder))
            _wait_for_link(folder, group)
            register(folder)
            address = f"{config.host}:{config.port}"
            for place in places:
                key = place.folder / "key"
                group.start(node(place, address, place.folder / "ca.crt", key))
            return _Supervisor(folder, group, watch, rounds).to_the_end()
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
    ):
        self.folder, self.group, self.watch, self.rounds = folder, group, watch, rounds
        self.place = folder.events.stat().st_size if folder.events.exists() else 0
        self.coordinator, self.submitted, self.attempts = 0, 0.0, 0
        self.run = ""
        self.rest: dict[str, float] = {}

    def to_the_end(self) -> Event:
        self.submit()
        while True:
            for place, event in list(self.folder.read_events(self.place)):
                self.place = place
                self.watch(event)
                if event["event"] == "greeting":
                    self.coordinator = event["pid"]
                elif event["event"] == "round" and event["summed"]:
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
                f"{self.folder.server / 'superlink.log'}"
            )
        if self.run:
            stop(self.folder, self.run)
        self.run = submit(self.folder, self.rounds)
        self.coordinator, self.submitted = 0, time.monotonic()

    def restart(self) -> None:
        """Starts again what died; a run that lost its coordinator is submitted anew."""
        for name in self.group.dead():
            if time.monotonic() < self.rest.get(name, 0.0):
                continue
            self.watch({"event": "died", "program": name})
            self.rest[name] = time.monotonic() + REST_S
            self.group.again(name)
            if name == "superlink":
                _wait_for_link(self.folder, self.group)
                self.coordinator = -1
        late = self.coordinator == 0 and time.monotonic() - self.submitted > START_S
        if late or (self.coordinator != 0 and not _alive(self.coordinator)):
            self.watch({"event": "died", "program": "coordinator"})
            with suppress(FlowerError):
                self.submit()


def _alive(pid: int) -> bool:
    return any(process.pid == pid and process.at_work for process in processes())
