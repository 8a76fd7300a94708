"""The log of what left a site: durable before an answer leaves, and chained by hashes.

outgoing.jsonl         a line per answer
.outgoing.jsonl.head   number, hash and place of the last line

A line holds the hash of the line before, the head that of the last: a line that was changed or
removed is found. What a crash leaves behind the head never left the site: a whole line stays and
counts, a torn one is cut off before the next is written. Who may write here may forge all of it,
so note elsewhere, now and then, the hash that `verify_log` gives.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ..._errors import LogError
from ..._files import Disk, Locked, lock_file, lock_within, private, save

LOG = "outgoing.jsonl"
TODO = " What to do: "
WAIT_S = 10.0  # for another answer of this site that is being logged


class Head(NamedTuple):
    lines: int = 0
    hash: str = ""
    start: int = 0  # of the last line, in bytes
    end: int = 0


def append(folder: Path, what: Mapping[str, Any], disk: Disk | None = None) -> None:
    """Has happened, durably, when it returns."""
    disk, path = disk or Disk(), folder / LOG
    try:
        with lock(disk, path):
            head = _repair(disk, path)
            start = {"line": head.lines + 1, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
            line = json.dumps({**start, **what, "previous": head.hash}).encode() + b"\n"
            with open(path, "ab", buffering=0, opener=private) as file:
                file.truncate(head.end)  # what a crash left of a line
                if (wrote := file.write(line)) != len(line):
                    raise OSError(f"only {wrote} of {len(line)} bytes could be written")
                disk.fsync(file)
            # after its line: a head without one would be a line that somebody removed
            save(disk, _head_file(path), _next(head, line)._asdict())
    except OSError as error:
        raise LogError(f"{path} cannot be written: {error}") from error


def verify_log(folder: Path) -> Head:
    """Follows the chain from its first line; raises `LogError` where it breaks."""
    path = folder / LOG
    saved = _read_head(Disk(), path)  # before the lines: a running site may add one meanwhile
    heads = _follow(path, Head())
    if saved not in heads:
        raise _damage(path, heads[-1], f"line {saved.lines} was changed or removed")
    return heads[-1]


def check_log(folder: Path) -> None:
    """Raises `LogError` where no line can be added, so that no answer can leave."""
    _heads(Disk(), folder / LOG)


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The lines that can be read, for a person; whether all are there, `verify_log` says."""
    entries = []
    for line in _read(folder / LOG, 0).splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        entries += [entry] if isinstance(entry, dict) else []
    return entries


def _heads(disk: Disk, path: Path) -> tuple[Head, Head]:
    """As it was saved, and after the last whole line; only the last lines are read."""
    saved = _read_head(disk, path)
    last = _read(path, saved.start)[: saved.end - saved.start]
    if saved.lines and hash_of(last) != saved.hash:
        right = _follow(path, Head())[-1]  # it may end before: then this names the first line
        raise _damage(path, right, f"line {saved.lines} was changed or removed")
    return saved, _follow(path, saved)[-1]


def _repair(disk: Disk, path: Path) -> Head:
    saved, head = _heads(disk, path)
    if head != saved or not head.lines:
        save(disk, _head_file(path), head._asdict())
    return head


def _follow(path: Path, head: Head) -> list[Head]:
    """This head and those of the lines after it, up to a torn one."""
    rest, heads = _read(path, head.end), [head]
    while (size := rest.find(b"\n") + 1) and _follows(rest[:size], heads[-1]):
        heads.append(_next(heads[-1], rest[:size]))
        rest = rest[size:]
    if b"\n" in rest[:-1]:
        raise _damage(path, heads[-1], "the lines after this line do not belong to the log")
    return heads


def _follows(line: bytes, head: Head) -> bool:
    try:
        entry = json.loads(line)
        return (entry["line"], entry["previous"]) == (head.lines + 1, head.hash)
    except (ValueError, TypeError, LookupError):
        return False


def _next(head: Head, line: bytes) -> Head:
    return Head(head.lines + 1, hash_of(line), head.end, head.end + len(line))


def hash_of(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _read_head(disk: Disk, path: Path) -> Head:
    data = disk.read(_head_file(path), 10_000)
    if data is None and _read(path, 0):
        raise _damage(path, Head(), f"the file {_head_file(path).name} is missing")
    try:
        return Head() if data is None else Head(**json.loads(data))
    except (ValueError, TypeError):
        raise _damage(path, Head(), f"the file {_head_file(path).name} cannot be read") from None


def _damage(path: Path, head: Head, what: str) -> LogError:
    after = f" after line {head.lines}" if head.lines else ""
    return LogError(
        f"{path} was changed or damaged{after}: {what}. This site sends nothing now.{TODO}put "
        f"{path.name} and {_head_file(path).name} back from a backup. If there is no backup, move "
        "both files away: then a new log begins"
    )


def _read(path: Path, start: int) -> bytes:
    try:
        with open(path, "rb") as file:
            file.seek(start)
            return file.read()
    except FileNotFoundError:
        return b""


def _head_file(path: Path) -> Path:
    return path.with_name(f".{path.name}.head")


@contextmanager
def lock(disk: Disk, path: Path) -> Iterator[None]:
    """Waits for a moment, since a site may answer several questions at once."""
    try:
        handle = lock_within(disk, lock_file(path), WAIT_S)
    except Locked as error:
        raise LogError(f"{path} is in use by {error.holder}") from None
    with handle:
        yield
