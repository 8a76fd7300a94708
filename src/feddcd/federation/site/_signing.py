"""A site signs a roster: who may be summed with whom, once its administrator compared the words."""

from typing import Any

from ..._errors import FolderError, Refused
from ..._files import Disk, save
from ...sums.roster import MOST_BYTES, Roster
from ..roster import ROSTER, load_keys, load_roster
from ..wire import Envelope
from .approval import ID_LENGTH, require
from .log import append


def sign_roster(envelope: Envelope, place: Any) -> Envelope:
    """Its signature, for a roster that a person here agreed to; kept when all have signed.

    The coordinator cannot make a roster of its own: a person compares six words with the other
    sites, and they follow from all names and keys."""
    given = envelope.meta.get("roster")
    if not isinstance(given, str) or len(given) > MOST_BYTES:
        raise Refused(f"{place.client}: a roster that cannot be read")
    roster, before = Roster.from_json(given.encode()), _signed(place)
    try:
        keys = load_keys(place.folder)
    except FolderError as error:
        raise Refused(f"{place.client}: its keys for sums cannot be used") from error
    if roster.own(keys).name != place.client:
        raise Refused(f"{place.client}: its keys belong to another name in this roster")
    if before is None or before.digest != roster.digest:
        id = roster.digest.hex()[:ID_LENGTH]
        require(place.folder, id, "the list of sites", {"shown": _words(roster, before)})
    signed = roster.signed(keys)
    if all(name in signed.signatures for name in signed.names):
        if before is None or before.digest != roster.digest:
            append(place.folder, {"roster": signed.words()})
        save(Disk(), place.folder / ROSTER, signed.check().to_json())
    mark = signed.signatures[place.client].hex()
    return Envelope("roster", {"client": place.client, "signature": mark}, {})


def _signed(place: Any) -> Roster | None:
    """The roster that holds here until now."""
    try:
        return load_roster(place.folder)
    except FolderError:
        return None


def _words(roster: Roster, before: Roster | None) -> list[str]:
    """For the person who decides."""
    known = {member.name: member for member in before.members} if before else {}
    lines = ["Masked sums over these sites, and over no others, will be possible:"]
    for member in roster.members:
        old = known.get(member.name)
        told = "new" if old is None else "as before" if old == member else "with other keys"
        lines.append(f"  {member.name}: {told}")
    lines += [f"  {name}: no longer" for name in known if name not in roster.names]
    lines += ["Call the other sites, not the coordinator. All must have these words:"]
    return [*lines, f"  {roster.words()}"]
