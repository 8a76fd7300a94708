"""The way out of a site: its policy, a person where one is to be asked, and its log.

outgoing/ID.json holds an answer that waits; beside ID.approved it may leave.
"""

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._errors import LogError, Refused, SpecError
from ..._files import Disk, save
from ..._text import listed
from .log import append, hash_of, lock
from .policy import FILE, REVEALS, Outgoing, Policy, load_policy

WAITING = "outgoing"
WAITS = "its answer waits for approval by its administrator"
MOST_WAITING = 100  # so that questions cannot fill the disk


def describe(outgoing: Outgoing) -> str:
    """For a person; names are quoted, so that none can play tricks on a terminal."""
    counts = lambda rows: ", ".join(f"{str(k)!r}: {rows[k]}" for k in list(rows)[:20])
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
        reply = ask(f"{describe(outgoing)}\nMay it leave? Write yes or no: ")
    except EOFError:
        reply = ""
    if reply.strip().lower() not in ("y", "yes"):
        raise Refused("its administrator did not agree to send this answer")


def record(outgoing: Outgoing, question: bytes) -> dict[str, Any]:
    """As it is logged: arrays by shape and hash; levels in words where they themselves leave."""
    plain: dict[str, Any] = {"kind": outgoing.kind, "method": outgoing.method}
    plain |= {"columns": list(outgoing.columns)}
    plain |= {name: int(getattr(outgoing, name)) for name in ("rows", "parameters", "sites")}
    if outgoing.kind == "columns":
        plain["classes"] = _plain(outgoing.classes)
        plain["levels"] = {name: _plain(rows) for name, rows in outgoing.levels.items()}
    plain["arrays"] = {name: _fingerprint(array) for name, array in outgoing.arrays.items()}
    return plain | {"question": hashlib.sha256(question).hexdigest()}


def _plain(counts: Mapping[str, int]) -> dict[str, int]:
    return {str(key): int(count) for key, count in counts.items()}


def _fingerprint(array: np.ndarray) -> dict[str, Any]:
    array = np.asarray(array)
    if array.dtype.kind not in "biuf":
        raise TypeError(f"numbers leave a site, not {array.dtype}")
    content = hashlib.sha256(array.tobytes()).hexdigest()
    return {"dtype": array.dtype.str, "shape": list(array.shape), "sha256": content}


def hold(folder: Path, outgoing: Outgoing, question: bytes, disk: Disk) -> None:
    """Refuses unless this very answer to this very question was approved.

    The id stays here: it is a hash of the answer, against which guesses could be tried.
    """
    entry = record(outgoing, question)
    id = hash_of(json.dumps(entry, sort_keys=True).encode())[:16]
    queue = folder / WAITING
    if (queue / f"{id}.approved").exists():
        return
    try:
        queue.mkdir(parents=True, exist_ok=True)
        with lock(disk, queue / "held"):
            if id not in (ids := waiting(folder)) and len(ids) < MOST_WAITING:
                numbers = {name: np.asarray(a).tolist() for name, a in outgoing.arrays.items()}
                shown = {"shown": describe(outgoing).splitlines(), "numbers": numbers}
                save(disk, queue / f"{id}.json", entry | shown)
    except OSError as error:
        raise LogError(f"{queue} cannot be written: {error}") from error
    raise Refused(WAITS)


def waiting(folder: Path) -> list[str]:
    """The ids of the answers that nobody approved yet."""
    paths = sorted((folder / WAITING).glob("*.json"))
    return [path.stem for path in paths if not path.with_suffix(".approved").exists()]


def approve(folder: Path, id: str) -> None:
    if id not in (ids := waiting(folder)):
        raise SpecError(f"no answer {id!r} waits for approval; there wait: {listed(ids)}")
    save(Disk(), folder / WAITING / f"{id}.approved", {"time": time.time()})


class Release(NamedTuple):
    """The way out of a site: its folder, its name, and who is asked, if anyone is there."""

    folder: Path
    client: str
    ask: Callable[[str], str] | None = None
    disk: Disk = Disk()

    def check(self, outgoing: Outgoing, question: bytes) -> Policy:
        """The rules alone, for before the work; arrays may be missing still."""
        self.folder.mkdir(parents=True, exist_ok=True)
        policy = load_policy(self.folder / FILE)
        self._guard(lambda: policy.check(outgoing), outgoing, question)
        return policy

    def release(self, answer: bytes, outgoing: Outgoing, question: bytes) -> bytes:
        """The answer, once the rules and a person allow it and the log has it.

        With `ask` a person is asked; without, what has to be asked for waits in the folder.
        """
        policy = self.check(outgoing, question)
        if self.ask is not None:
            self._guard(partial(confirm, outgoing, self.ask), outgoing, question)
        elif policy.ask_before_sending:
            wait = partial(hold, self.folder, outgoing, question, self.disk)
            self._guard(wait, outgoing, question)
        # logged before it leaves: a crash in between leaves a line too many, never one too few
        content = {"bytes": len(answer), "sha256": hashlib.sha256(answer).hexdigest()}
        append(self.folder, record(outgoing, question) | content, self.disk)
        return answer

    def _guard(self, act: Callable[[], None], outgoing: Outgoing, question: bytes) -> None:
        """A refusal leaves too, so the log has it first."""
        try:
            act()
        except Refused as reason:
            line = record(outgoing._replace(classes={}, levels={}, arrays={}), question)
            append(self.folder, line | {"refused": str(reason)}, self.disk)
            raise Refused(f"{self.client}: {reason}") from None
