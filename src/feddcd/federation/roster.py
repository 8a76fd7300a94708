"""Who may be summed with whom, as files: a site's keys for masks, the roster that all signed.

server/roster.json             the roster that holds now
server/rosters/DIGEST.json     one that all had signed and that held before, with the time of that
"""

import json
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from .._errors import FolderError, Refused
from .._files import Disk, save, shown
from .._text import sentence_list
from ..sums.keys import SiteKeys
from ..sums.roster import FEWEST, MOST_BYTES, Roster, RosterMember
from .enrolment.invitation import when

KEYS, ROSTER = "sum.keys", "roster.json"
MOST_FILE = 2 * MOST_BYTES
EARLIER = "rosters"  # a folder of the coordinator: what it had agreed on is proven for ever


class EarlierRoster(NamedTuple):
    roster: Roster
    time: float  # when all had signed it

    def told(self, now: Roster | None) -> list[str]:
        """For who reads a result of then. `now` is the roster that holds in its place."""
        names = ", ".join(self.roster.names)
        lines = [f"made with an earlier list of sites (of {when(self.time)}): {names}"]
        keys = {member.name: member for member in now.members} if now else {}
        other = [m.name for m in self.roster.members if keys.get(m.name, m) != m]
        if other:
            whose = f"the site{'s' * (len(other) > 1)} {sentence_list([*map(repr, other)])}"
            lines.append(
                f"CAREFUL: {whose} {'has' if len(other) == 1 else 'have'} other keys now. Somebody "
                f"who has the old keys of {whose} could have changed this result. Ask the people "
                f"at {whose} whether somebody else had the old keys"
            )
        return lines


def load_keys(site: Path) -> SiteKeys:
    """Of the site with this folder; made when it was invited."""
    return SiteKeys.load(site / KEYS)


def load_roster(folder: Path) -> Roster:
    """As it is in a site's folder or in the server's; signed by everybody in it."""
    path = folder / ROSTER
    try:
        data = Disk().read(path, MOST_BYTES)
    except OSError as error:
        raise FolderError(
            f"the roster (the list of sites) cannot be read: {error}", file=shown(path)
        ) from None
    if data is None:
        raise FolderError(
            "there is no roster (no signed list of sites), and sums need a roster", file=shown(path)
        )
    try:
        return Roster.from_json(data).check()
    except Refused as reason:
        raise FolderError(str(reason), file=shown(path)) from None


def next_roster(members: Iterable[RosterMember], before: Roster | None) -> Roster:
    """A list of these members, unsigned: the one before where they are the same, or a newer one."""
    held = Roster(members)
    if before is not None and before.members == held.members:
        return Roster(held.members, made=before.made)
    oldest = before.made + 1 if before else 0
    return Roster(held.members, made=max(int(time.time()), oldest))


def keep_earlier(server: Path) -> None:
    """Before another roster takes its place: proofs of jobs that were made with it stay valid."""
    path = server / ROSTER
    with suppress(FolderError):  # one that not all have signed never held
        roster, since = load_roster(server), path.stat().st_mtime
        held = {"time": round(since, 3), "roster": roster.to_json().decode()}
        (server / EARLIER).mkdir(mode=0o700, exist_ok=True)
        save(Disk(), server / EARLIER / f"{roster.digest.hex()}.json", held)


def earlier_roster(server: Path, digest: bytes) -> EarlierRoster | None:
    """The roster with this digest, if this folder had it and all of its members had signed it."""
    try:
        held = json.loads(Disk().read(server / EARLIER / f"{digest.hex()}.json", MOST_FILE) or b"")
        found = EarlierRoster(Roster.from_json(held["roster"].encode()), float(held["time"]))
        return found if found.roster.check().digest == digest else None
    except (OSError, Refused, ValueError, LookupError, TypeError, AttributeError):
        return None


def held_before(server: Path, digest: bytes) -> EarlierRoster | None:
    """The same, unless it is the roster that holds now."""
    with suppress(FolderError):
        if load_roster(server).digest == digest:
            return None
    return earlier_roster(server, digest)


def write_rosters(server: Path, sites: dict[str, Path]) -> Roster | None:
    """Keys for each site that has none, and one roster for all of them, signed with the keys of
    each: where all folders are on one machine. None where there are too few for a sum."""
    if len(sites) < FEWEST:
        return None
    for folder in sites.values():
        if not (folder / KEYS).exists():
            SiteKeys.generate().save(folder / KEYS)
    keys = {name: load_keys(folder) for name, folder in sites.items()}
    try:
        before = load_roster(server)
    except FolderError:
        before = None
    roster = next_roster((RosterMember.of(name, own) for name, own in keys.items()), before)
    for own in keys.values():
        roster = roster.signed(own)
    keep_earlier(server)
    for folder in (server, *sites.values()):
        save(Disk(), folder / ROSTER, roster.to_json())
    return roster
