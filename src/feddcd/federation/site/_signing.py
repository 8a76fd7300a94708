"""A site signs a roster: who may be summed with whom, once its administrator compared the words."""

import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..._errors import FolderError, LogError, Refused
from ..._files import Disk, save
from ...sums.roster import MOST_BYTES, Roster
from ..enrolment.invitation import when
from ..roster import ROSTER, load_keys, load_roster
from ..wire import Envelope
from .approval import FEW_WAITING, ID_LENGTH, LIST, Asker, require
from .log import LOG, append

OLDER = [
    "CAREFUL: this is an OLD list, and this site already has a newer list.",
    "The old list may have sites that left, and keys that other people have seen.",
    "Do not approve it. Call the people at the coordinator and at another site.",
]
BACK = (
    "CAREFUL: in this list, the site {0!r} has keys from an older list. The last list that you "
    "approved did not have these keys. Ask the people at the site {0!r} whether other people "
    "may have seen these keys."
)
AHEAD = (
    "CAREFUL: this date is in the future. Approve this list only if the clock of this machine is "
    "wrong. If you approve a list with a date in the future, each later list with the right date "
    "looks old."
)
DAY = 86_400  # seconds


def sign_roster(envelope: Envelope, place: Any, study: str = "") -> Envelope:
    """Its signature, for a roster that a person here agreed to; kept when all have signed.

    The coordinator cannot make a roster of its own: a person compares six words with the other
    sites, and they follow from all names and keys."""
    given = envelope.meta.get("roster")
    if not isinstance(given, str) or len(given) > MOST_BYTES:
        raise Refused(f"{place.client}: this site cannot read the roster (the list of sites)")
    roster, before = Roster.from_json(given.encode()), _signed(place)
    try:
        keys = load_keys(place.folder)
    except FolderError as error:
        raise Refused(f"{place.client}: this site cannot use its keys for sums") from error
    if roster.own(keys).name != place.client:
        raise Refused(
            f"{place.client}: this list of sites has the keys of this site under another name"
        )
    if before is None or before.digest != roster.digest:
        earlier = _earlier(place)
        shown = _words(roster, before, earlier)
        id = _approval(roster, before, len(_all_words(earlier)))
        asked = Asker(address=place.address)
        said = f"{LIST} for study {study!r} and later studies" if study else LIST
        entry = {"shown": shown, "said": said}  # it is for all studies
        require(place.folder, id, LIST, entry, most=FEW_WAITING, asked=asked)
    signed = roster.signed(keys)
    if all(name in signed.signatures for name in signed.names):
        if before is None or before.digest != roster.digest:
            replaced = {"replaced": before.words()} if before else {}
            held = {"made": signed.made, "keys": [*map(_mark, _keys(signed))]}
            append(place.folder, {"roster": signed.words(), **held, **replaced})
        save(Disk(), place.folder / ROSTER, signed.check().to_json())
    mark = signed.signatures[place.client].hex()
    return Envelope("roster", {"client": place.client, "signature": mark}, {})


def _signed(place: Any) -> Roster | None:
    """The roster that holds here until now."""
    try:
        return load_roster(place.folder)
    except FolderError:
        return None


def _earlier(place: Any) -> list[dict[str, Any]]:
    """All lists that ever held here, from the log, which nobody shortens unseen."""
    try:
        whole, _, _ = (place.folder / LOG).read_bytes().rpartition(b"\n")  # the rest is torn
        lines = whole.splitlines()
        held = [json.loads(line) for line in lines if b'"roster"' in line]
        return [line for line in held if "roster" in line or "replaced" in line]
    except FileNotFoundError:
        return []
    except ValueError as error:
        raise LogError(
            f"{place.folder / LOG} is damaged, so this site does not know which lists of sites it "
            "signed; put the file back from a backup"
        ) from error


def _all_words(earlier: Sequence[Mapping[str, Any]]) -> list[str]:
    return [str(line[part]) for line in earlier for part in ("roster", "replaced") if part in line]


def _keys(roster: Roster | None) -> list[bytes]:
    return [key for each in roster.members for key in each[1:]] if roster else []


def _mark(key: bytes) -> str:
    return hashlib.sha256(key).hexdigest()[:ID_LENGTH]


def _is_old(roster: Roster, before: Roster | None, earlier: Sequence[Mapping[str, Any]]) -> bool:
    """Not newer than all lists that held here. The coordinator chooses the time of a list, but the
    words follow from it: a list that was signed once never looks newer than it is."""
    newest = max([before.made if before else 0, *(int(line.get("made", 0)) for line in earlier)])
    if newest or roster.made:
        return roster.made <= newest
    return roster.words() in _all_words(earlier)  # of earlier versions, without a time


def _back(
    roster: Roster, before: Roster | None, earlier: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Sites of a new list with keys of an earlier one, which the list that holds does not have:
    whoever has a stolen key needs a list with it, and can make one with a new time."""
    marks, hold = {mark for line in earlier for mark in line.get("keys", ())}, set(_keys(before))
    same = Roster(roster.members).words() in _all_words(earlier)  # in the log of earlier versions
    for member in roster.members if before else ():
        new = {key for key in member[1:] if key not in hold}
        if new and (same or any(_mark(key) in marks for key in new)):
            yield member.name


def _approval(roster: Roster, before: Roster | None, number: int) -> str:
    """A person agrees to this list in place of the one that holds now. Once any other holds, that
    is used up: an older list, with keys that may be stolen by now, does not come back alone."""
    held = before.digest if before else b""
    text = b"|".join([roster.digest.hex().encode(), held.hex().encode(), b"%d" % number])
    return hashlib.sha256(text).hexdigest()[:ID_LENGTH]


def _words(
    roster: Roster, before: Roster | None, earlier: Sequence[Mapping[str, Any]]
) -> list[str]:
    """For the person who decides."""
    known = {member.name: member for member in before.members} if before else {}
    lines = ["This is the list of sites. Only these sites can take part in a masked sum:"]
    dated = [f"  made by the coordinator on {when(roster.made)}"] if roster.made else []
    dated += [AHEAD] if roster.made > time.time() + DAY else []
    old = _is_old(roster, before, earlier)
    careful = OLDER if old else [BACK.format(name) for name in _back(roster, before, earlier)]
    for member in roster.members:
        had = known.get(member.name)
        told = (
            "new" if had is None else "as before" if had == member else "has other keys than before"
        )
        lines.append(f"  {member.name}: {told}")
    lines += [
        f"  {name}: is not in the list any more" for name in known if name not in roster.names
    ]
    lines += [
        *dated,
        "Call each other site of the list. Find the phone number yourself: do not ask the "
        "coordinator, who could have invented a site. The people at all sites must have these "
        "six roster words, which are computed from the list:",
    ]
    return [*lines, f"  {roster.words()}", *careful]
