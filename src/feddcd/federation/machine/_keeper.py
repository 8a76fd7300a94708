"""Holds the link against the folder while it is up: which keys are let in, and who is connected."""

import json
import time
from contextlib import suppress
from typing import Any

from ..._errors import FlowerError
from ..folder import FederationFolder
from ._inner import inside
from .keys import public_pem
from .processes import Group

LOOK_S = 2.0
CONNECTED = "connected.json"


class Keeper:
    """`look` is cheap to call often."""

    def __init__(self, folder: FederationFolder, group: Group):
        self.folder, self.group, self._last, self.stale = folder, group, 0.0, False

    def look(self) -> None:
        """Lets in who was confirmed since, takes out who left, and writes down who is there.

        `stale`: a site came back with a key that the link has taken out, and will not take in
        again before its memory is new."""
        if time.monotonic() - self._last < LOOK_S:
            return
        self._last = time.monotonic()
        with suppress(FlowerError, OSError):
            self._look()

    def _look(self) -> None:
        link = inside(self.folder)
        nodes = {bytes(node.key): node for node in link.nodes()}
        invited = {public_pem(key): name for name, key in self.folder.invited().items()}
        for key, name in invited.items():
            known = nodes.get(key)
            if known is None:
                link.register(name, key)
            elif known.taken_out:
                self.stale = True
        for key, node in nodes.items():
            if key not in invited and not node.taken_out:
                link.unregister(node.id)
        here = {
            name: {"online": node.online, "since": node.since}
            for key, name in invited.items()
            if (node := nodes.get(key)) is not None
        }
        self.folder.save(
            self.folder.server / CONNECTED, {"time": round(time.time(), 3), "sites": here}
        )


def connected(folder: FederationFolder) -> dict[str, dict[str, Any]]:
    """By site, as of the last look; nothing where the link is down."""
    try:
        held = json.loads((folder.server / CONNECTED).read_text())
    except (OSError, ValueError):
        return {}
    return held["sites"] if time.time() - held["time"] < 10 * LOOK_S else {}


def looked(folder: FederationFolder) -> float | None:
    """When the last look was."""
    try:
        return float(json.loads((folder.server / CONNECTED).read_text())["time"])
    except (OSError, ValueError, LookupError, TypeError):
        return None
