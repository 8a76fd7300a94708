"""Sites that do not answer: noted at once, and then after waits that double."""

import time

from ..folder import FederationFolder

FIRST_S = 30.0  # after which it is said for the second time


class Silences:
    def __init__(self, folder: FederationFolder):
        self._folder = folder
        self._since: dict[str, tuple[float, float]] = {}  # by site: the first, and what comes next

    def note(self, site: str) -> None:
        now = time.monotonic()
        began, due = self._since.get(site, (now, 0.0))
        if now - began >= due:
            self._folder.note("silent", site=site, seconds=round(now - began))
            due = max(2 * due, FIRST_S)
        self._since[site] = began, due

    def ended(self, site: str) -> None:
        """It said something."""
        self._since.pop(site, None)
