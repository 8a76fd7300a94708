"""Two programs with the key of one site, as the port of the coordinator sees them."""

import time
from collections.abc import Callable
from contextlib import suppress

from ..._errors import FeddcdError
from ..folder import FederationFolder
from .keys import same_key
from .link_state import HELD_S

GAP_S = 60.0  # between two tries of one program
EVENT = "two programs"


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
                if now - first > HELD_S and site not in self._told:
                    self._told.add(site)
                    self._folder.note(EVENT, site=site)
