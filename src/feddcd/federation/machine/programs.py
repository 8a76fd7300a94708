"""Flower's programs and commands for a federation's folder."""

import json
import shlex
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from ..._errors import FlowerError
from ..folder import Home, node_config, quote
from ..site.answer import Place
from .processes import Program, environment, search_path


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


def forget_link(home: Home) -> None:
    """Removes what Flower remembers of nodes and runs; what counts is in our ledger."""
    for path in (home.server / "flower").glob("link.db*"):
        path.unlink()


def node(place: Place, address: str, authority: Path, key: Path) -> Program:
    """The SuperNode of one site."""
    command = [
        _binary("flower-supernode"), "--root-certificates", str(authority),
        "--superlink", address, "--auth-supernode-private-key", str(key),
        "--host", "127.0.0.1", "--port", str(free_port()), "--node-config", node_config(place),
    ]  # fmt: skip
    extra = {
        "FLWR_HOME": str(place.folder / "flower"),
        # every message is answered by a new process: what XLA compiled once is kept
        "JAX_COMPILATION_CACHE_DIR": str(place.folder / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    if sys.platform == "linux":  # forks are not safe with macOS's libraries, and Windows has none
        extra["PATH"] = search_path(_warm(place.folder.resolve() / "flower" / "bin"))
    return Program(place.client, command, place.folder / "supernode.log", extra)


def _warm(folder: Path) -> Path:
    """A folder with a `flower-superexec` that forks client apps; a SuperNode calls it by name."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "flower-superexec"
    python = shlex.quote(sys.executable)
    script.write_text(f'#!/bin/sh\nexec {python} -m feddcd.flower.warm "$@"\n')
    script.chmod(0o755)
    return folder


def _flower_home(home: Home) -> dict[str, str]:
    """Flower's own folder, with the address of our link in its configuration."""
    config, folder = home.config(), home.server / "flower"
    folder.mkdir(exist_ok=True)
    text = (
        '[superlink]\ndefault = "feddcd"\n\n[superlink.feddcd]\n'
        f'address = "{config.host}:{config.port}"\n'
        f"root-certificates = {quote(home.server / 'ca.crt')}\n"
    )
    (folder / "config.toml").write_text(text, encoding="utf-8")
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
        command, env=environment(_flower_home(home)), capture_output=True, text=True, timeout=120
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


def submit(home: Home, rounds: int) -> str:
    """Hands the app to the link; the number of the run."""
    settings = f"folder={quote(home.path)} rounds={rounds}"
    said = flwr(home, "run", str(home.app), "feddcd", "--run-config", settings)
    return str(said.get("run-id", ""))


def stop(home: Home, run: str) -> None:
    """A run whose coordinator died: until the link knows, its nodes wait for messages that were
    half sent."""
    with suppress(FlowerError):
        flwr(home, "stop", run, "feddcd")


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
