"""A site that was retired, expelled or rejected can learn it, although its key is refused.

    server/left/NAME.json    at the coordinator: the public key, when it left, whether for ever,
                             and whether it was let in before
    SITE_DIR/left.json       at the site, once it has asked; until it is connected again

Who asks names a public key, which only the site and the coordinator have. The answer says nothing
about other sites.
"""

import json
import shlex
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..._errors import FeddcdError
from ..._files import Disk, save, shown
from ..._text import sentence_list
from ...sums.roster import FEWEST
from ..folder import FederationFolder, load_address
from ..machine.keys import same_key
from ..site.ended import end_all
from ..site.log import append
from .invitation import when
from .site import LEFT, over_tls

LONGEST_KEY = 1000
RETIRED = "this site was retired by the coordinator"
BARRED = "this site was expelled by the coordinator"
REJECTED = "the enrolment of this site was rejected by the coordinator"
MOST_BYTES = 10_000
LATEST = 253_370_764_800.0  # the year 9999, the last that a calendar here shows


class Called(NamedTuple):
    """Whom a site calls, and the authority that it believes."""

    address: str
    certificate: str


class Departure(NamedTuple):
    time: float
    barred: bool
    rejected: bool = False  # nobody had confirmed it

    @property
    def how(self) -> str:
        return "expelled" if self.barred else "rejected" if self.rejected else "retired"

    def words(self) -> str:
        return BARRED if self.barred else REJECTED if self.rejected else RETIRED


def let_go(folder: FederationFolder, site: str, barred: bool) -> None:
    """At the coordinator: its key is not accepted any more, and is remembered as one that left."""
    path = folder.key(site)
    if path.exists():
        remember_key(folder, site, path.read_text(), barred)
    path.unlink(missing_ok=True)


def remember_key(
    folder: FederationFolder, site: str, key: str, barred: bool, rejected: bool = False
) -> None:
    """So that a site with this key can learn that it is not in the federation."""
    (folder.server / "left").mkdir(mode=0o700, exist_ok=True)
    left = Departure(round(time.time(), 3), barred, rejected)
    held = {"key": key, **left._asdict()}
    folder.save(folder.server / "left" / f"{site}.json", held)


def forget_departure(folder: FederationFolder, site: str) -> None:
    """It enrols again."""
    (folder.server / "left" / f"{site}.json").unlink(missing_ok=True)


def departure_of(folder: FederationFolder, site: str) -> Departure | None:
    return _read(folder.server / "left" / f"{site}.json")


def has_left(folder: FederationFolder, site: str) -> bool:
    """Whether it was in the federation, and is not now."""
    return site not in folder.invited() and departure_of(folder, site) is not None


def bar_departed(folder: FederationFolder, site: str) -> None:
    """Of one that was retired: it learns that it cannot come back."""
    path = folder.server / "left" / f"{site}.json"
    folder.save(path, json.loads(path.read_text()) | {"barred": True})
    folder.note("retired", sites=[site], barred=True)


def after_departure(folder: FederationFolder, gone: Sequence[str]) -> str:
    """What the person at the coordinator does next about a study that lost these sites."""
    names, left = sentence_list(gone), sorted(folder.invited())
    where = shlex.quote(shown(folder.path))
    again = f"feddcd federation study {where} {folder.study}"
    if len(left) < FEWEST:
        few = f"A sum needs at least {FEWEST} sites, and now the federation has {len(left)}"
        return f"{few}. Next: invite another site: feddcd federation invite {where} NAME"
    return (
        f"Next: start the study again without {names}: "
        f"{again if folder.study else 'give the same command again'}. People at the other sites "
        "have to approve the new list of sites and the job once more"
    )


def read_question(data: bytes) -> str | None:
    """The key about which a call at the desk asks; None for another call."""
    try:
        asked = json.loads(data)
    except (ValueError, RecursionError):
        return None
    if not isinstance(asked, dict) or set(asked) != {"ask", "key"} or asked["ask"] != "standing":
        return None
    key = asked["key"]
    return key if isinstance(key, str) and len(key) <= LONGEST_KEY else None


def standing(folder: FederationFolder, key: str) -> dict[str, Any]:
    """What the coordinator says of a key: nothing unless it is that of a site that left."""
    asked = key.encode()
    if any(same_key(now, asked) for now in folder.invited().values()):
        return {}
    for path in sorted((folder.server / "left").glob("*.json")):
        data = Disk().read(path, MOST_BYTES)
        held = json.loads(data) if data else {}
        if same_key(str(held.get("key", "")).encode(), asked):
            return {"left": _checked(held)._asdict()}
    return {}


def ask_standing(folder: Path, post: Callable[..., tuple[int, bytes]] = over_tls) -> bool:
    """At a site with a refused key: whether it left. That is kept and logged once."""
    try:
        who = Called(load_address(folder), (folder / "ca.crt").read_text())
        key = (folder / "key.pub").read_text().strip()
        status, data = post(who, json.dumps({"ask": "standing", "key": key}).encode())
        held = json.loads(data).get("left") if status == 200 else None
        left = _checked(held) if held else None
    except (FeddcdError, OSError, ValueError, LookupError, TypeError, AttributeError):
        return left_of(folder) is not None
    if left is None:
        return False
    if left != left_of(folder):
        closed = end_all(folder)
        save(Disk(), folder / LEFT, left._asdict())
        append(folder, {"left": left.how, "address": who.address, "closed": closed})
    return True


def left_of(folder: Path) -> Departure | None:
    """At a site: how it left, as far as it knows."""
    return _read(folder / LEFT)


def is_back(folder: Path) -> None:
    (folder / LEFT).unlink(missing_ok=True)


def words_at_site(folder: Path) -> list[str]:
    """What happened, who did it, and what now."""
    left = left_of(folder)
    if left is None:
        return []
    back = (
        "An expelled site cannot join again under the same name"
        if left.barred
        else "To take part again, ask the person at the coordinator for a new invitation, and "
        "give this command: feddcd federation enrol INVITATION --data FILE"
    )
    then = (
        "the coordinator deleted the keys that this site sent, and does not let this site in"
        if left.rejected
        else "the coordinator sends this site no more questions, and no longer uses its answers"
    )
    return [
        f"{left.words()} at {load_address(folder)} ({when(left.time)}): {then}",
        "you do not have to decide anything. If you did not expect this message, call the person "
        f"at the coordinator. If this site will not take part again, stop its program. {back}",
    ]


def _checked(held: Any) -> Departure:
    """From a file or from the network, where a time can be anything."""
    time = float(held["time"])
    if not 0 <= time <= LATEST:
        raise ValueError(f"feddcd cannot read {time} as a date")
    return Departure(time, held["barred"] is True, held.get("rejected") is True)


def _read(path: Path) -> Departure | None:
    data = Disk().read(path, MOST_BYTES)
    try:
        held = json.loads(data) if data else None
        return _checked(held) if held else None
    except (ValueError, LookupError, TypeError):
        return None
