"""Who may be summed with whom, as files: a site's keys for masks, the roster that all signed."""

import time
from collections.abc import Iterable
from pathlib import Path

from .._errors import FolderError, Refused
from .._files import Disk, save, shown
from ..sums.keys import SiteKeys
from ..sums.roster import FEWEST, MOST_BYTES, Roster, RosterMember

KEYS, ROSTER = "sum.keys", "roster.json"


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
    for folder in (server, *sites.values()):
        save(Disk(), folder / ROSTER, roster.to_json())
    return roster
