"""Programs of this machine: started, watched, started again, ended by their ids."""

import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from ..._files import private, write_atomically
from ..._text import printable
from ._lifeline import HELD

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
}
GRACE_S = 10.0
LARGEST_LOG = 10_000_000  # bytes; as many again in the log before it


class Program(NamedTuple):
    name: str
    command: list[str]
    log: Path
    extra: Mapping[str, str]


class Group:
    """Programs in process groups of their own, so that each ends with all that it started.

    A program ends by itself when this process has gone (`_lifeline`). Their ids are kept in a file,
    too: after a crash of this process the next one ends those that hang. `after_crash`: the
    process before this one did not end its programs itself.
    """

    def __init__(self, record: Path):
        self.record = record
        self.running: dict[str, subprocess.Popen] = {}
        self.programs: dict[str, Program] = {}
        self._held: dict[str, int] = {}  # by program: our end of the pipe that it watches
        self.after_crash = self._end_left_over()

    def start(self, program: Program) -> None:
        program.log.parent.mkdir(parents=True, exist_ok=True)
        _turn(program.log)
        theirs, ours = os.pipe()
        try:
            with open(program.log, "ab", opener=private) as log:
                self.running[program.name] = subprocess.Popen(
                    program.command, stdout=log, stderr=log, stdin=theirs,
                    env=environment(program.extra) | {HELD: "1"}, start_new_session=True,
                    umask=0o077,
                )  # fmt: skip
        finally:
            os.close(theirs)
            self._let_go(program.name)
            self._held[program.name] = ours
        self.programs[program.name] = program
        self._write()

    def dead(self) -> list[str]:
        """Who ended. Asked for again and again, so that logs are looked after here, too."""
        for program in self.programs.values():
            _turn(program.log)
        return [name for name, process in self.running.items() if process.poll() is not None]

    def again(self, name: str) -> None:
        """A program that died, once more, after the rest of its group is gone."""
        _end([self.running[name].pid], grace=0)
        self.start(self.programs[name])

    def stop(self, name: str) -> None:
        process = self.running.pop(name)
        _end([process.pid], grace=0)
        process.wait()
        self._let_go(name)

    def end(self) -> None:
        """The sites first, so that what they answered can still be delivered."""
        first = [p.pid for name, p in self.running.items() if name != "superlink"]
        _end(first)
        _end([p.pid for p in self.running.values()])
        for process in self.running.values():
            process.wait()
        for name in list(self._held):
            self._let_go(name)
        self.running.clear()
        self.record.unlink(missing_ok=True)

    def _let_go(self, name: str) -> None:
        if name in self._held:
            os.close(self._held.pop(name))

    def _write(self) -> None:
        ids = {name: [p.pid, _began(p.pid)] for name, p in self.running.items()}
        write_atomically(self.record, lambda path: path.write_text(json.dumps(ids)))

    def _end_left_over(self) -> bool:
        try:
            left = json.loads(self.record.read_text())
        except (FileNotFoundError, ValueError):
            return False
        # an id may have been given to a stranger since: then the time of its start differs
        _end([pid for pid, began in left.values() if _began(pid) in (began, "")])
        self.record.unlink(missing_ok=True)
        return True


def recorded(record: Path) -> list[int]:
    """The programs of a group of another process that are there."""
    try:
        held = json.loads(record.read_text())
        return [pid for pid, began in held.values() if began and _began(pid) == began]
    except (OSError, ValueError, TypeError, AttributeError):
        return []


def last_error(log: Path) -> str:
    """The last line about one in what a program printed."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if "ERROR:" in line]
    told = printable(lines[-1].partition("ERROR:")[2].strip()) if lines else ""
    return told or (
        "the program ended without a message about an error. Perhaps the connection was lost. The "
        f"last lines of {log} can show more"
    )


def _turn(log: Path) -> None:
    """A log that has grown too long becomes the older one. Its program has it open and writes at
    its end, wherever that is."""
    with suppress(OSError):
        if log.stat().st_size > LARGEST_LOG:
            older = log.with_name(f"{log.name}.1")
            with open(log, "rb") as source, open(older, "wb", opener=private) as kept:
                source.seek(-LARGEST_LOG, os.SEEK_END)
                shutil.copyfileobj(source, kept)
            os.truncate(log, 0)


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    return {**os.environ, **QUIET, **extra}


class Process(NamedTuple):
    pid: int
    group: int
    state: str
    began: str  # a time, in whatever unit; with the id it names a process for good
    command: str

    @property
    def at_work(self) -> bool:
        """One that ended and was not waited for is not."""
        return not self.state.startswith("Z")


def processes() -> list[Process]:
    """The processes of this machine, from /proc or, where there is none, from ps."""
    if Path("/proc/self/stat").exists():
        there = (_from_proc(path) for path in Path("/proc").glob("[0-9]*"))
        return [process for process in there if process is not None]
    columns = ["ps", "-A", "-o", "pid=,pgid=,stat=,lstart=,command="]
    lines = subprocess.run(columns, capture_output=True, text=True, check=True).stdout.splitlines()
    parts = [line.split(None, 8) for line in lines]
    return [Process(int(p[0]), int(p[1]), p[2], " ".join(p[3:8]), p[8]) for p in parts]


def _from_proc(path: Path) -> Process | None:
    try:
        fields = (path / "stat").read_text().rpartition(")")[2].split()
        command = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:  # it has ended meanwhile
        return None
    return Process(int(path.name), int(fields[2]), fields[0], fields[19], command)


def _began(pid: int) -> str:
    """When a process began; empty if there is none."""
    return next((process.began for process in processes() if process.pid == pid), "")


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
    """Whether a process of the group is at work."""
    return any(process.group == group and process.at_work for process in processes())
