"""What leaves a site: its words for a person, the question whether it may, and its log.

outgoing.jsonl         a line per answer, durable before the answer leaves
.outgoing.jsonl.head   number, hash and place of the last line, durable before it leaves too
outgoing/ID.json       an answer that waits; beside ID.approved it may leave

A line holds the hash of the line before, the head that of the last: a line that was changed or
removed is found. What a crash leaves behind the head never left the site: a whole line stays and
counts, a torn one is cut off before the next is written. Who may write here may forge all of it,
so note elsewhere, now and then, the hash that `verify_log` gives.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..data.agree import listed
from ..engines.files import Disk, Locked, lock_file, prepare, publish
from ..engines.protocol import Refused
from ..experiments.spec import SpecError

LOG, WAITING = "outgoing.jsonl", "outgoing"
WAITS = "its answer waits for approval by its administrator"
WAIT_S = 10.0  # for another answer of this site that is being logged
MOST_WAITING = 100  # so that questions cannot fill the disk

REVEALS = {
    "columns": "names of columns, classes and category levels, and counts of rows",
    "gradient": "one sum over the rows per parameter; of very few rows it tells the rows",
    "bins": "counts of rows by prediction; a bin of one row tells of that row",
    "moments": "a gradient and a Hessian: more than a gradient, see hessian",
    "hessian": "sums of products of columns: spreads, correlations, counts of pairs of levels",
    "model": "what fits this site's rows alone; with fewer rows than parameters it can tell rows",
}


class Outgoing(NamedTuple):
    """What is about to leave. A count that is left out here is not guarded."""

    kind: str  # one of REVEALS
    method: str
    columns: tuple[str, ...]  # that enter, the label included; () where they have no names
    rows: int  # that enter
    parameters: int
    classes: Mapping[str, int]  # label: its rows here; empty where it is a number
    levels: Mapping[str, Mapping[str, int]]  # category column: level: its rows here
    sites: int  # in the sum, as the coordinator says
    arrays: Mapping[str, np.ndarray]


class LogError(RuntimeError):
    """The log of what left cannot be written or trusted, so nothing leaves."""


class Head(NamedTuple):
    lines: int = 0
    hash: str = ""
    start: int = 0  # of the last line, in bytes
    end: int = 0


def describe(outgoing: Outgoing) -> str:
    """For a person; names are quoted, so that none can play tricks on a terminal."""
    counts = lambda held: ", ".join(f"{str(k)!r}: {held[k]}" for k in list(held)[:20])
    lines = {
        "kind": f"{outgoing.kind!r}: {REVEALS.get(outgoing.kind, 'unknown')}",
        "method": repr(outgoing.method),
        "columns": f"{len(outgoing.columns)}: {listed(outgoing.columns)}",
        "rows": outgoing.rows,
        "parameters": outgoing.parameters,
        "sites": f"{outgoing.sites} in the sum, as the coordinator says",
        "classes": f"{len(outgoing.classes)}: {counts(outgoing.classes)}",
        **{f"levels of {k!r}": f"{len(v)}: {counts(v)}" for k, v in outgoing.levels.items()},
        **{repr(name): _numbers(np.asarray(array)) for name, array in outgoing.arrays.items()},
    }
    return "\n".join(["This would leave this site:", *(f"  {k}: {v}" for k, v in lines.items())])


def _numbers(array: np.ndarray, most: int = 6) -> str:
    first = ", ".join(f"{value:.6g}" for value in array.ravel()[:most].tolist())
    more = ", ..." if array.size > most else ""
    span = f", from {array.min().item():.6g} to {array.max().item():.6g}" if array.size else ""
    return f"{array.dtype} {array.shape}{span}: {first}{more}"


def confirm(outgoing: Outgoing, ask: Callable[[str], str]) -> None:
    try:
        said = ask(f"{describe(outgoing)}\nMay it leave? Write yes or no: ")
    except EOFError:
        said = ""
    if said.strip().lower() not in ("y", "yes"):
        raise Refused("its administrator did not agree to send this answer")


def record(outgoing: Outgoing, question: bytes) -> dict[str, Any]:
    """As it is logged: arrays by shape and hash; levels in words where they themselves leave."""
    plain: dict[str, Any] = {"kind": outgoing.kind, "method": outgoing.method}
    plain |= {"columns": list(outgoing.columns)}
    plain |= {name: int(getattr(outgoing, name)) for name in ("rows", "parameters", "sites")}
    if outgoing.kind == "columns":
        plain["classes"] = _plain(outgoing.classes)
        plain["levels"] = {name: _plain(held) for name, held in outgoing.levels.items()}
    plain["arrays"] = {name: _print_of(array) for name, array in outgoing.arrays.items()}
    return plain | {"question": hashlib.sha256(question).hexdigest()}


def _plain(counts: Mapping[str, int]) -> dict[str, int]:
    return {str(key): int(count) for key, count in counts.items()}


def _print_of(array: np.ndarray) -> dict[str, Any]:
    array = np.asarray(array)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"numbers leave a site, not {array.dtype}")
    content = hashlib.sha256(array.tobytes()).hexdigest()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": content}


def append(folder: Path, what: Mapping[str, Any], disk: Disk | None = None) -> None:
    """Has happened, durably, when it returns."""
    disk, path = disk or Disk(), folder / LOG
    try:
        with _locked(disk, path):
            head = _mended(disk, path)
            told = {"line": head.lines + 1, "time": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
            line = json.dumps({**told, **what, "previous": head.hash}).encode() + b"\n"
            with open(path, "ab", buffering=0, opener=_private) as file:
                file.truncate(head.end)  # what a crash left of a line
                if (wrote := file.write(line)) != len(line):
                    raise OSError(f"{wrote} of {len(line)} bytes were written")
                disk.fsync(file)
            _save(disk, _head_file(path), _next(head, line)._asdict())
    except OSError as error:
        raise LogError(f"{path} cannot be written: {error}") from error


def verify_log(folder: Path) -> Head:
    """Follows the chain from its first line; raises `LogError` where it breaks."""
    path = folder / LOG
    known = _known(Disk(), path)  # before the lines: a running site may add one meanwhile
    heads = _followed(path, Head())
    if known not in heads:
        raise _damaged(path, heads[-1], f"line {known.lines} was changed or removed")
    return heads[-1]


def _mended(disk: Disk, path: Path) -> Head:
    """The head after the last whole line; only the last lines are read."""
    known = _known(disk, path)
    last = _read(path, known.start)[: known.end - known.start]
    if known.lines and _hash(last) != known.hash:
        raise _damaged(path, known, f"line {known.lines} was changed or removed")
    head = _followed(path, known)[-1]
    if head != known or not head.lines:
        _save(disk, _head_file(path), head._asdict())
    return head


def _followed(path: Path, head: Head) -> list[Head]:
    """This head and those of the lines after it, up to a torn one."""
    rest, heads = _read(path, head.end), [head]
    while (size := rest.find(b"\n") + 1) and _follows(rest[:size], heads[-1]):
        heads.append(_next(heads[-1], rest[:size]))
        rest = rest[size:]
    if b"\n" in rest[:-1]:
        raise _damaged(path, heads[-1], "what follows does not belong to it")
    return heads


def _follows(line: bytes, head: Head) -> bool:
    try:
        told = json.loads(line)
        return (told["line"], told["previous"]) == (head.lines + 1, head.hash)
    except (ValueError, TypeError, LookupError):
        return False


def _next(head: Head, line: bytes) -> Head:
    return Head(head.lines + 1, _hash(line), head.end, head.end + len(line))


def _hash(line: bytes) -> str:
    return hashlib.sha256(line).hexdigest()


def _known(disk: Disk, path: Path) -> Head:
    data = disk.read(_head_file(path), 10_000)
    if data is None and _read(path, 0):
        raise _damaged(path, Head(), "its head is missing")
    try:
        return Head() if data is None else Head(**json.loads(data))
    except (ValueError, TypeError):
        raise _damaged(path, Head(), "its head cannot be read") from None


def _damaged(path: Path, head: Head, what: str) -> LogError:
    return LogError(
        f"{path} was changed or damaged after line {head.lines}: {what}. Nothing leaves until "
        f"it and {_head_file(path).name} are put back, or both are moved away to begin anew"
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


def _save(disk: Disk, path: Path, values: Mapping[str, Any]) -> None:
    prepare(disk, path, json.dumps(values, indent=1).encode())
    publish(disk, path)


@contextmanager
def _locked(disk: Disk, path: Path) -> Iterator[None]:
    until = time.monotonic() + WAIT_S
    while True:
        try:
            handle = disk.lock(lock_file(path))
            break
        except Locked as error:
            if time.monotonic() > until:
                raise LogError(f"{path} is in use by {error.holder}") from None
            time.sleep(0.02)
    with handle:
        yield


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def hold(folder: Path, outgoing: Outgoing, question: bytes, disk: Disk) -> None:
    """Refuses unless this very answer to this very question was approved.

    The id stays here: it is a hash of the answer, against which guesses could be tried.
    """
    told = record(outgoing, question)
    id = _hash(json.dumps(told, sort_keys=True).encode())[:16]
    room = folder / WAITING
    if (room / f"{id}.approved").exists():
        return
    try:
        room.mkdir(parents=True, exist_ok=True)
        with _locked(disk, room / "held"):
            if id not in (there := waiting(folder)) and len(there) < MOST_WAITING:
                numbers = {name: np.asarray(a).tolist() for name, a in outgoing.arrays.items()}
                shown = {"shown": describe(outgoing).splitlines(), "numbers": numbers}
                _save(disk, room / f"{id}.json", told | shown)
    except OSError as error:
        raise LogError(f"{room} cannot be written: {error}") from error
    raise Refused(WAITS)


def waiting(folder: Path) -> list[str]:
    """The ids of the answers that nobody approved yet."""
    held = sorted((folder / WAITING).glob("*.json"))
    return [path.stem for path in held if not path.with_suffix(".approved").exists()]


def approve(folder: Path, id: str) -> None:
    if id not in (there := waiting(folder)):
        raise SpecError(f"no answer {id!r} waits for approval; there wait: {listed(there)}")
    _save(Disk(), folder / WAITING / f"{id}.approved", {"time": time.time()})
