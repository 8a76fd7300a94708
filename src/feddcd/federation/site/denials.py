"""What a person denied and the coordinator asked for after that: outgoing/ID.again.

A coordinator that waits asks again and again, so it hears of a denial by asking once more: that is
no reason for alarm. Whoever asks after that knows the answer.
"""

import json
from pathlib import Path
from typing import NamedTuple

from ..._files import Disk, save

QUEUE = "outgoing"
MOST_BYTES = 10_000


class AskedAgain(NamedTuple):
    study: str
    times: int  # since the denial
    time: float  # of the last


def note_again(queue: Path, id: str, study: str) -> None:
    before = asked_again(queue, id)
    times = before.times + 1 if before else 1
    save(Disk(), _path(queue, id), {"study": study, "times": times})


def asked_again(queue: Path, id: str) -> AskedAgain | None:
    path = _path(queue, id)
    data = Disk().read(path, MOST_BYTES)
    if data is None:
        return None
    try:
        held = json.loads(data)
        return AskedAgain(str(held["study"]), int(held["times"]), path.stat().st_mtime)
    except (ValueError, LookupError, TypeError):  # of an earlier version, which did not count
        return AskedAgain(data.decode("utf-8", "replace"), 2, path.stat().st_mtime)


def forget_again(queue: Path, id: str) -> None:
    """A person decides again."""
    _path(queue, id).unlink(missing_ok=True)


def denied_last(folder: Path) -> str:
    """The id of what a person denied, if nothing was decided at this site after that."""
    made = [*(folder / QUEUE).glob("*.approved"), *(folder / QUEUE).glob("*.denied")]
    last = max(made, key=lambda path: path.stat().st_mtime_ns, default=None)
    return last.stem if last is not None and last.suffix == ".denied" else ""


def _path(queue: Path, id: str) -> Path:
    return queue / f"{id}.again"
