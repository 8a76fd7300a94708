"""A roster that goes round: keys made at each site, one proposal, everybody's signature.

at a site          new_member   a new pair of keys; its public half goes to the coordinator
at the coordinator propose      server/roster.json of all public halves, signed by nobody yet
at each site       sign         the proposal, once the six words were compared by phone
at the coordinator merge        the signatures that came back; complete, it goes to every site
"""

import json
from collections.abc import Iterable
from pathlib import Path

from .._errors import FolderError, Refused
from .._files import Disk, save, shown
from ..sums.keys import SiteKeys
from ..sums.roster import MOST_BYTES, Roster, RosterMember
from ..sums.signing import verify_roster
from .roster import KEYS, ROSTER, keep_earlier, load_keys, next_roster, write_rosters

MEMBER = "member.json"


def new_member(site: Path, name: str) -> RosterMember:
    """New keys, for the first time or in place of keys that were lost, or seen by others. The old
    ones are kept beside them; jobs that were begun with them do not go on."""
    path = site / KEYS
    if path.exists():
        number = 1
        while (old := path.with_name(f"{KEYS}.{number}")).exists():
            number += 1
        Disk().replace(path, old)
    keys = SiteKeys.generate()
    keys.save(path)
    member = RosterMember.of(name, keys)
    write_member(site / MEMBER, member)
    return member


def write_member(path: Path, member: RosterMember) -> None:
    keys = {"signing": member.signing.hex(), "agreement": member.agreement.hex()}
    save(Disk(), path, {"name": member.name, **keys})


def read_member(path: Path) -> RosterMember:
    try:
        held = json.loads((Disk().read(path, 10_000) or b"").decode())
        pair = (bytes.fromhex(held[part]) for part in ("signing", "agreement"))
        return RosterMember(str(held["name"]), *pair)
    except (OSError, ValueError, LookupError, TypeError):
        raise FolderError(
            "this file does not have the public keys of a site", file=shown(path)
        ) from None


def read_roster(path: Path) -> Roster:
    """Whoever has signed it so far; every signature that is there is right."""
    data = Disk().read(path, MOST_BYTES)
    if data is None:
        raise FolderError("there is no roster", file=shown(path))
    try:
        roster = Roster.from_json(data)
        for name, signature in roster.signatures.items():
            verify_roster(roster[name].signing, roster.digest, signature)
        return roster
    except Refused as reason:
        raise FolderError(str(reason), file=shown(path)) from None


def propose(server: Path, members: Iterable[RosterMember]) -> Roster:
    """Of these members, and of those of before who are not named again."""
    before = read_roster(server / ROSTER) if (server / ROSTER).exists() else None
    known = {member.name: member for member in before.members} if before else {}
    known |= {member.name: member for member in members}
    roster = next_roster(known.values(), before)
    keep_earlier(server)
    save(Disk(), server / ROSTER, roster.to_json())
    return roster


def sign(site: Path, path: Path) -> Roster:
    """The roster in this file, with this site's signature, there and in the site's folder."""
    roster = read_roster(path).signed(load_keys(site))
    for file in (path, site / ROSTER):
        save(Disk(), file, roster.to_json())
    return roster


def merge(server: Path, paths: Iterable[Path]) -> Roster:
    """The proposal with all signatures that are in these files."""
    roster = read_roster(server / ROSTER)
    for path in paths:
        other = read_roster(path)
        if other.digest != roster.digest:
            raise FolderError(
                "this is not the roster that the coordinator proposed", file=shown(path)
            )
        roster = roster.with_signatures(other.signatures)
    save(Disk(), server / ROSTER, roster.to_json())
    return roster


def renew(server: Path, sites: dict[str, Path]) -> Roster | None:
    """After a site was added. Where all folders are here, all sign; else it is a proposal."""
    given_away = [name for name, path in sites.items() if not (path / "site.toml").exists()]
    if not given_away:
        return write_rosters(server, sites)
    new = [name for name, path in sites.items() if (path / KEYS).exists()]
    return propose(server, [RosterMember.of(name, load_keys(sites[name])) for name in new])


def unsigned(roster: Roster) -> list[str]:
    return [name for name in roster.names if name not in roster.signatures]
