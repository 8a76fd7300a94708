"""A data file that is not there while somebody replaces it, or a policy that has a mistake while
somebody changes it: the site looks again for a minute before it refuses.

missing.json     since when the data file is not there, and when the coordinator asked last
mistaken.json    the same of the policy
"""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..._errors import PolicyError, SpecError
from ..._files import Disk, save
from .approval import Waits
from .policy import FILE as POLICY
from .policy import load_policy
from .told import LOOKS, READS

FILE, MISTAKEN = "missing.json", "mistaken.json"
LOOK_S = 60.0  # also between two questions: after a longer pause the file counts as missing again
MOST_BYTES = 1000


def check_there(place: Any, note: Callable[[str, str], None]) -> None:
    """Others wait for the file as for an approval. Who reads it after that says what is wrong."""
    path, what = place.folder / FILE, "the data file of this site"
    if _is_there(place.data):
        return _mended(path, f"{what} is there again", str(place.data), note)
    told = f"this site looks for the file for {LOOK_S:g} s, then it refuses the question"
    if _waits(path, f"{what} is missing or empty", f"{place.data}; {told}", note):
        raise Waits(LOOKS)


def check_settings(place: Any, note: Callable[[str, str], None]) -> Any:
    """The site as site.toml has it now. While nobody can read there which file it is, the file is
    missing."""
    try:
        return place if place.read is None else place.read(place.folder)
    except (SpecError, OSError) as error:
        told = (
            f"if site.toml still has a mistake after {LOOK_S:g} s, this site refuses the question"
        )
        if _waits(place.folder / FILE, "site.toml has a mistake", f"{error}; {told}", note):
            raise Waits(LOOKS) from None
        raise


def check_policy(place: Any, note: Callable[[str, str], None]) -> None:
    """The same of the policy. Nothing leaves while it has a mistake, before that minute and after
    it."""
    path, what = place.folder / MISTAKEN, "the policy of this site"
    try:
        load_policy(place.folder / POLICY)
    except PolicyError as error:
        told = (
            f"if the policy still has a mistake after {LOOK_S:g} s, this site refuses the question"
        )
        if _waits(path, f"{what} has a mistake", f"{error}; {told}", note):
            raise Waits(READS) from None
        return
    _mended(path, f"{what} has no mistake any more", str(place.folder / POLICY), note)


def _waits(path: Path, what: str, story: str, note: Callable[[str, str], None]) -> bool:
    """Whether the minute is not over yet; noted when it begins."""
    now = time.time()
    begun, last = _read(path) or (now, now)
    begun = begun if now - last <= LOOK_S else now
    save(Disk(), path, {"begun": begun, "last": now})
    if begun == now:
        note(what, story)
    return now - begun < LOOK_S


def _mended(path: Path, what: str, story: str, note: Callable[[str, str], None]) -> None:
    if path.exists():
        path.unlink(missing_ok=True)
        note(what, story)


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
