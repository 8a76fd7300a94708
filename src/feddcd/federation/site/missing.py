"""A data file that is not there while somebody replaces it: the site looks again for a minute
before it answers that it has no data.

missing.json    since when the file is not there, and when the coordinator asked last
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..._files import Disk, save
from .approval import Waits
from .told import LOOKS

FILE = "missing.json"
LOOK_S = 60.0  # also between two questions: after a longer pause the file counts as missing again
MOST_BYTES = 1000


def check_there(place: Any, note: Callable[[str, str], None]) -> None:
    """Others wait for the file as for an approval. Who reads it after that says what is wrong."""
    path, now = place.folder / FILE, time.time()
    if _is_there(place.data):
        if path.exists():
            path.unlink(missing_ok=True)
            note("the data file of this site is there again", str(place.data))
        return
    begun, last = _read(path) or (now, now)
    begun = begun if now - last <= LOOK_S else now
    save(Disk(), path, {"begun": begun, "last": now})
    if begun == now:
        told = f"this site looks for it again for {LOOK_S:g} s before it refuses the question"
        note("the data file of this site is missing or empty", f"{place.data}; {told}")
    if now - begun < LOOK_S:
        raise Waits(LOOKS)


def looks(folder: Path) -> bool:
    """Whether a question waits for the file now."""
    begun, _ = _read(folder / FILE) or (0.0, 0.0)
    return time.time() < begun + LOOK_S


def _is_there(data: Path) -> bool:
    """A copy begins with an empty file."""
    try:
        return data.stat().st_size > 0
    except OSError:
        return False


def _read(path: Path) -> tuple[float, float] | None:
    data = Disk().read(path, MOST_BYTES)
    try:
        held = json.loads(data) if data else None
        return (float(held["begun"]), float(held["last"])) if held else None
    except (ValueError, LookupError, TypeError):
        return None
