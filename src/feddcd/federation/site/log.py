"""The log of what left a site: durable before an answer leaves, and chained by hashes.

outgoing.jsonl         a line per answer
.outgoing.jsonl.head   number, hash and place of the last line

A line holds the hash of the line before, the head that of the last: a line that was changed or
removed is found. What a crash leaves behind the head never left the site: a whole line stays and
counts, a torn one is cut off before the next is written. Who may write here may cut the end or
forge any of it, so note elsewhere, now and then, the hash that `verify_log` gives.
"""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
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


def verify_log(folder: Path, noted: str = "") -> Head:
    """Follows the chain from its first line; raises `LogError` where it breaks, or if no line has
    the hash that somebody noted."""
    last = _heads(Disk(), folder / LOG)[1]
    end = f'"previous": "{noted}"}}'.encode()
    if (
        noted
        and noted != last.hash
        and not any(line.endswith(end) for line in _read(folder / LOG).splitlines())
    ):
        raise LogError(
            f"no line of {folder / LOG} has the digest {noted}. If this digest was in this log "
            "earlier, somebody cut or changed the log later, even if feddcd finds no other damage "
            "in the log. Do not trust the log until you know who changed it"
        )
    return last


def read_log(folder: Path) -> list[dict[str, Any]]:
    """The lines that can be read, for a person; whether all are there, `verify_log` says."""
    entries = []
    for line in _read(folder / LOG).splitlines():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        entries += [entry] if isinstance(entry, dict) else []
    return entries


def _heads(disk: Disk, path: Path) -> tuple[Head, Head]:
    """As it was saved, and after the last whole line. Always from the first line on: one that
    changed and kept its length is found by no other check. 100,000 lines take 0.2 s."""
    saved = _read_head(disk, path)  # before the lines: a running site may add one meanwhile
    last, known, wrong = Head(), saved == Head(), ""
    with path.open("rb") if path.exists() else BytesIO() as file:
        for line in file:
            if not _follows(line, last):
                wrong = _wrong(line, rest := file.read(), last, saved)
                if b"\n" in (line + rest)[:-1]:  # else it is torn
                    raise _damage(path, wrong)
                break
            last = _next(last, line)
            known = known or last == saved
    if not known:
        raise _damage(path, wrong or _missing(path, last, saved))
    return saved, last


def _wrong(line: bytes, rest: bytes, last: Head, saved: Head) -> str:
    """Of a line that does not follow the one before: if it has its hash in the next line, or in the
    head, the line before changed."""
    number, own = last.lines + 1, hash_of(line)
    whole = own == saved.hash or f'"previous": "{own}"'.encode() in rest
    if whole and last.lines and line.startswith(_start(number)):
        return f"line {last.lines} was changed"
    return f"line {number} was changed or removed"


def _missing(path: Path, last: Head, saved: Head) -> str:
    """Of a chain that does not lead to the line that was written last."""
    if saved.lines < 1:
        return f"the file {_head_file(path).name} was changed"
    if last.lines >= saved.lines:
        return f"line {saved.lines} was changed"
    if last.lines + 1 == saved.lines:
        return f"line {saved.lines} was removed"
    return f"the lines {last.lines + 1} to {saved.lines} were removed"


def _repair(disk: Disk, path: Path) -> Head:
    saved, head = _heads(disk, path)
    if head != saved or not head.lines:
        save(disk, _head_file(path), head._asdict())
    return head


def _follows(line: bytes, head: Head) -> bool:
    last = f'"previous": "{head.hash}"}}\n'
    return line.startswith(_start(head.lines + 1)) and line.endswith(last.encode())


def _start(number: int) -> bytes:
    return f'{{"line": {number}, '.encode()


def _next(head: Head, line: bytes) -> Head:
    return Head(head.lines + 1, hash_of(line), head.end, head.end + len(line))


def hash_of(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _read_head(disk: Disk, path: Path) -> Head:
    data = disk.read(_head_file(path), 10_000)
    if data is None and _read(path):
        raise _damage(path, f"the file {_head_file(path).name} is missing")
    try:
        return Head() if data is None else Head(**json.loads(data))
    except (ValueError, TypeError):
        raise _damage(path, f"the file {_head_file(path).name} cannot be read") from None


def _damage(path: Path, what: str) -> LogError:
    return LogError(
        f"{path} was changed or damaged: {what}. This site sends nothing now.{TODO}first find out "
        f"what changed {path.name}: a disk error, a person, or an attack. Then put "
        f"{path.name} and {_head_file(path).name} back from a backup. If there is no backup, move "
        "both files away, and keep them: then a new log begins. The new log does not show what "
        "left this site before, and `feddcd federation verify --site` cannot check earlier studies"
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
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
