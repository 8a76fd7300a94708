"""Two programs with the key of one site, as the port of the coordinator sees them.

server/rivals.json    by site: since when another program tries, and when it tried last
"""

import json
import time
from collections.abc import Callable
from contextlib import suppress
from typing import NamedTuple

from ..._errors import FeddcdError
from ..._files import Disk
from ..folder import FederationFolder
from .keys import same_key
from .link_state import HELD_S

GAP_S = 60.0  # between two tries of one program
EVENT = "two programs"
FILE = "rivals.json"
MOST_BYTES = 1 << 20
WRITE_S = 10.0  # between two times of one site in the file
SHOWN_S = 24 * 3600.0  # after the last try: then nobody has to read of it


class Rival(NamedTuple):
    site: str
    since: float
    last: float

    @property
    def tries_now(self) -> bool:
        return time.time() - self.last <= GAP_S + WRITE_S


def rivals(folder: FederationFolder) -> list[Rival]:
    """Programs that tried within a day, for those who look from outside. A site that enrolled again
    has another key."""
    members, now = folder.invited(), time.time()
    found = [Rival(site, *times) for site, times in sorted(_read(folder).items())]
    found = [one for one in found if one.site in members and now - one.last <= SHOWN_S]
    return [one for one in found if folder.key(one.site).stat().st_mtime <= one.last]


def _read(folder: FederationFolder) -> dict[str, tuple[float, float]]:
    data = Disk().read(folder.server / FILE, MOST_BYTES)
    try:
        held = json.loads(data) if data else {}
        return {str(site): (float(t[0]), float(t[1])) for site, t in held.items()}
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


class Rivals:
    """`held_off` hears of each try to connect with a key that is connected: for a minute it may be
    the same program that was started again; then it is another one, and this is noted once."""

    def __init__(self, folder: FederationFolder, now: Callable[[], float] = time.monotonic):
        self._folder, self._now = folder, now
        self._tries: dict[str, tuple[float, float]] = {}  # by site: the first in a row, the last
        self._told: set[str] = set()

    def held_off(self, key: bytes) -> None:
        with suppress(FeddcdError, OSError):
            invited = self._folder.invited().items()
            for site in [name for name, own in invited if same_key(own, key)]:
                now = self._now()
                first, last = self._tries.get(site, (now, now))
                if now - last > GAP_S:
                    first = now
                    self._told.discard(site)
                self._tries[site] = first, now
                if now - first > HELD_S:
                    self._keep(site, now - first)
                    if site not in self._told:
                        self._told.add(site)
                        self._folder.note(EVENT, site=site)

    def _keep(self, site: str, seconds: float) -> None:
        held, now = _read(self._folder), time.time()
        if site not in held or abs(now - held[site][1]) >= WRITE_S:
            held[site] = round(now - seconds, 3), round(now, 3)
            self._folder.save(self._folder.server / FILE, held)
