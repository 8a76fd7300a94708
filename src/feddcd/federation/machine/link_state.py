"""How a site's node stands with the coordinator, in a file that others may look at: link.json."""

import json
import os
import time
from pathlib import Path
from typing import Any

from ..._files import Disk, save
from .processes import processes

FILE = "link.json"
SEEN_S = 10.0  # between two signs of life
SILENT_S = 30.0  # without one: it does not respond, and a person hears so
STALE_S = 150.0  # without one: it hangs, and is started again
STATES = ("connecting", "connected", "answering", "refused")
LINKED = ("connected", "answering")  # one connection, whatever is done with it
UNKNOWN = "does not know the key"  # as a node says before it is confirmed
RESTARTED = "has probably restarted"  # as one says that was let in before
HELD_S = 90.0  # a link holds an earlier connection for a minute; after that, another program has it


class LinkState:
    """Written by the node: when its state changes, and every few seconds to show that it lives."""

    def __init__(self, folder: Path, address: str):
        self._path, self._address = folder / FILE, address
        self._now, self._since, self._seen = ("", ""), 0.0, 0.0
        self._let_in, self._refused = let_in_at(folder), refused_since(folder)

    def tell(self, state: str, why: str = "") -> None:
        now, same = time.time(), (state, why) == self._now
        if same and now - self._seen < SEEN_S:
            return
        goes_on = same or (state in LINKED and self._now[0] in LINKED)
        self._since = self._since if goes_on else now
        self._now, self._seen = (state, why), now
        self._let_in = now if state in LINKED else self._let_in
        refused = UNKNOWN in why or RESTARTED in why
        if state in LINKED or (why and not refused):
            self._refused = None
        elif refused:
            self._refused = self._refused or now
        held = {"state": state, "why": why, "since": round(self._since, 3), "seen": round(now, 3)}
        held |= {"address": self._address, "pid": os.getpid(), "let_in": self._let_in}
        held |= {"refused": self._refused}
        save(Disk(), self._path, held)


def link_of(folder: Path) -> dict[str, Any]:
    """What the node said last; it is "down" where nothing was said or its process has gone."""
    try:
        held = json.loads((folder / FILE).read_text())
        if any(process.pid == held["pid"] and process.at_work for process in processes()):
            return held
    except (OSError, ValueError, LookupError, TypeError):
        pass
    return {"state": "down", "why": "", "since": None}


def let_in_at(folder: Path) -> float | None:
    """When the coordinator has had a connection of this site last, if ever."""
    try:
        return float(json.loads((folder / FILE).read_text())["let_in"])
    except (OSError, ValueError, LookupError, TypeError):
        return None


def refused_since(folder: Path) -> float | None:
    """Since when the coordinator answers and does not let this site in, without a break."""
    try:
        held = json.loads((folder / FILE).read_text())
        return float(held["refused"]) if time.time() - held["seen"] < HELD_S else None
    except (OSError, ValueError, LookupError, TypeError):
        return None


def hangs(held: dict[str, Any], longest: float, limit: float = STALE_S) -> bool:
    """Whether a node that runs gave no sign of life for too long; an answer may take `longest`."""
    limit += longest if held.get("state") == "answering" else 0.0
    return held.get("state") in STATES and time.time() - held["seen"] > limit
