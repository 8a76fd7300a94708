"""Flower's processes of one machine: started, watched, started again, ended by their ids."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .home import Home, node_config
from .worker import Place

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
GRACE_S = 10.0


class FlowerError(RuntimeError):
    """One of Flower's programs failed; the message says which, and where its log is."""


class Program(NamedTuple):
    name: str
    command: list[str]
    log: Path
    extra: Mapping[str, str]


def link(home: Home) -> Program:
    """The SuperLink: TLS, and only nodes whose keys are registered."""
    config, server = home.config(), home.server
    command = [
        _binary("flower-superlink"), "--enable-supernode-auth",
        "--ssl-certfile", str(server / "server.crt"), "--ssl-keyfile", str(server / "server.key"),
        "--ssl-ca-certfile", str(server / "ca.crt"), "--host", _bind(config.host),
        "--port", str(config.port), "--database", str(server / "flower" / "link.db"),
        "--disable-runtime-dependency-installation",
    ]  # fmt: skip
    return Program("superlink", command, server / "superlink.log", _flower_home(home))


def node(place: Place, address: str, authority: Path, key: Path) -> Program:
    """The SuperNode of one site."""
    command = [
        _binary("flower-supernode"), "--root-certificates", str(authority),
        "--superlink", address, "--auth-supernode-private-key", str(key),
        "--host", "127.0.0.1", "--port", str(_free_port()), "--node-config", node_config(place),
    ]  # fmt: skip
    extra = {
        "FLWR_HOME": str(place.folder / "flower"),
        # every message is answered by a new process: what XLA compiled once is kept
        "JAX_COMPILATION_CACHE_DIR": str(place.folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    return Program(place.client, command, place.folder / "supernode.log", extra)


def _flower_home(home: Home) -> dict[str, str]:
    """Flower's own folder, with the address of our link in its configuration."""
    config, folder = home.config(), home.server / "flower"
    folder.mkdir(exist_ok=True)
    text = (
        '[superlink]\ndefault = "feddcd"\n\n[superlink.feddcd]\n'
        f'address = "{config.host}:{config.port}"\n'
        f"root-certificates = {json.dumps(str(home.server / 'ca.crt'))}\n"
    )
    (folder / "config.toml").write_text(text)
    return {
        "FLWR_HOME": str(folder),
        "JAX_COMPILATION_CACHE_DIR": str(folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def flwr(home: Home, *arguments: str) -> dict:
    """One of Flower's commands, with its answer in JSON."""
    command = [_binary("flwr"), *arguments, "--format", "json"]
    done = subprocess.run(
        command, env=_environment(_flower_home(home)), capture_output=True, text=True, timeout=120
    )
    start = done.stdout.find("{")
    try:
        said = json.loads(done.stdout[start:]) if start >= 0 else {}
    except ValueError:
        said = {}
    if done.returncode != 0 or not said.get("success", True):
        reason = said.get("error-message") or done.stderr.strip() or done.stdout.strip()
        raise FlowerError(f"flwr {' '.join(arguments[:2])}: {reason}")
    return said


def register(home: Home) -> None:
    """Makes the invited sites' keys known to the link; those it knows already stay."""
    for name in home.invited():
        try:
            flwr(home, "supernode", "register", str(home.key(name)), "feddcd", "--name", name)
        except FlowerError as error:
            if "already in use" not in str(error):
                raise


def submit(home: Home, rounds: int) -> None:
    folder = json.dumps(str(home.path.resolve()))
    settings = f"folder={folder} rounds={rounds}"
    flwr(home, "run", str(home.app), "feddcd", "--run-config", settings)


def answers(host: str, port: int) -> bool:
    with suppress(OSError), socket.create_connection((host, port), timeout=1):
        return True
    return False


class Group:
    """Programs in process groups of their own, so that each ends with all that it started.

    Their ids are kept in a file: after a crash of this process the next one ends them.
    """

    def __init__(self, record: Path):
        self.record = record
        self.running: dict[str, subprocess.Popen] = {}
        self.programs: dict[str, Program] = {}
        self._end_left_over()

    def start(self, program: Program) -> None:
        program.log.parent.mkdir(parents=True, exist_ok=True)
        with program.log.open("ab") as log:
            self.running[program.name] = subprocess.Popen(
                program.command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env=_environment(program.extra), start_new_session=True,
            )  # fmt: skip
        self.programs[program.name] = program
        self._write()

    def dead(self) -> list[str]:
        return [name for name, process in self.running.items() if process.poll() is not None]

    def again(self, name: str) -> None:
        """A program that died, once more, after the rest of its group is gone."""
        _end([self.running[name].pid], grace=0)
        self.start(self.programs[name])

    def end(self) -> None:
        """The sites first, so that what they answered can still be delivered."""
        first = [p.pid for name, p in self.running.items() if name != "superlink"]
        _end(first)
        _end([p.pid for p in self.running.values()])
        for process in self.running.values():
            process.wait()
        self.running.clear()
        self.record.unlink(missing_ok=True)

    def _write(self) -> None:
        ids = {name: [p.pid, _began(p.pid)] for name, p in self.running.items()}
        self.record.write_text(json.dumps(ids))

    def _end_left_over(self) -> None:
        try:
            known = json.loads(self.record.read_text())
        except (FileNotFoundError, ValueError):
            return
        # an id may have been given to a stranger since: then the time of its start differs
        _end([pid for pid, began in known.values() if _began(pid) in (began, "")])
        self.record.unlink(missing_ok=True)


def _began(pid: int) -> str:
    """When a process began, as text; empty if there is none."""
    done = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True)
    return done.stdout.strip()


def _end(groups: list[int], grace: float = GRACE_S) -> None:
    for pid in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGTERM)
    until = time.monotonic() + grace
    while time.monotonic() < until and any(_alive(pid) for pid in groups):
        time.sleep(0.1)
    for pid in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


def _alive(group: int) -> bool:
    """Whether a process of the group is at work; one that ended and was not waited for is not."""
    done = subprocess.run(["ps", "-eo", "pgid=,stat="], capture_output=True, text=True)
    lines = (line.split() for line in done.stdout.splitlines())
    return any(pgid == str(group) and not state.startswith("Z") for pgid, state in lines)


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, **QUIET, **extra, "PATH": path}


def _binary(name: str) -> str:
    path = Path(sys.executable).parent / name
    if not path.exists():
        raise FlowerError(f"{name} is not installed; install it with: pip install 'feddcd[flower]'")
    return str(path)


def _bind(host: str) -> str:
    """Loopback stays loopback; any other name means all interfaces."""
    return host if host in ("127.0.0.1", "localhost") else "0.0.0.0"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
