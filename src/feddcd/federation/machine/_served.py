"""Whether a process serves a federation or a site, and whether it still responds."""

import time
from pathlib import Path
from typing import NamedTuple

from ..._files import holder_of
from ..._text import spoken
from ..folder import FederationFolder
from ._keeper import looked
from .processes import recorded

UP = ".up.lock"
RECORD = "processes.json"  # of the programs that it started
SITE_LOCK = ".site.lock"  # in the folder of a site that runs
SILENT_S = 15.0  # without a word of who is connected: who serves does not respond


def is_up(folder: FederationFolder) -> bool:
    """Whether a process holds the federation's port open."""
    return holder_of(folder.server / UP) is not None


def site_runs(folder: Path) -> bool:
    """Whether `feddcd federation site` runs for the site of this folder."""
    return holder_of(folder / SITE_LOCK) is not None


class Hang(NamedTuple):
    """The process that serves, since how many seconds it says nothing, and what it started."""

    holder: str
    seconds: float
    programs: tuple[int, ...] = ()

    def words(self) -> str:
        told = f"the program `feddcd federation serve` ({self.holder}) has not responded for "
        return f"{told}{spoken(self.seconds)}. The program hangs, or somebody suspended it"


def hang_of(folder: FederationFolder) -> Hang | None:
    """Of a process that holds the port and has not written for too long who is connected."""
    path = folder.server / UP
    if (holder := holder_of(path)) is None:
        return None
    began = path.stat().st_mtime  # when it took the lock: the last look may be of another process
    seconds = round(time.time() - max(began, looked(folder) or 0.0))
    if seconds <= SILENT_S:
        return None
    return Hang(holder, seconds, tuple(recorded(folder.server / RECORD)))


def opened_for(folder: FederationFolder) -> float | None:
    """Since how many seconds a process serves; None if none does."""
    path = folder.server / UP
    return None if holder_of(path) is None else time.time() - path.stat().st_mtime
