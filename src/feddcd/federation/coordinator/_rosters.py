"""One roster of all sites that enrolled: proposed to them, signed by each, then given to all.

server/roster.proposed.json    with the signatures so far; it becomes roster.json when all have
                               signed. Until then the roster of before holds.
"""

import time
from collections.abc import Callable, Iterator, Mapping

from ..._errors import DataError, FolderError, Refused, Stalled
from ..._files import Disk, save
from ..._text import spoken
from ...sums.roster import FEWEST, Roster
from ...sums.signing import verify_roster
from .. import wire
from .._next_step import start_again
from ..enrolment.desk import members
from ..folder import FederationFolder, about_of
from ..roster import ROSTER, keep_earlier, load_roster, next_roster
from ..sign_up import read_roster, unsigned
from ..wire import Envelope
from ._ending import TooFewSites, next_step
from ._hearing import Patience

PROPOSED = "roster.proposed.json"
PAUSE_S = 1.0
Replies = Callable[[Mapping[str, bytes]], Iterator[tuple[str, Envelope]]]


def settle_roster(
    folder: FederationFolder, ask: Replies, refused: Mapping[str, str], patience: Patience
) -> None:
    """Where sites enrolled: waits, as long as patience lasts, until all of them have signed."""
    wanted = _wanted(folder)
    if wanted is None:
        return
    current = _current(folder)
    if current is None or current.digest != wanted.digest:
        current = _collect(folder, wanted, ask, refused, patience)
        keep_earlier(folder.server)
        save(Disk(), folder.server / ROSTER, current.to_json())
        (folder.server / PROPOSED).unlink(missing_ok=True)
        folder.note("roster", sites=list(current.names), words=current.words())
    # who was away when it was complete has it now
    for _ in ask(_message(folder, current, current.names)):
        pass


def _wanted(folder: FederationFolder) -> Roster | None:
    """All who enrolled, and who were in the roster before and still are invited. It is as new as
    the proposal of these members that goes round, or newer than the roster of before."""
    enrolled = members(folder)
    if enrolled is None:
        return None
    known, current = set(enrolled.names), _current(folder)
    before = current.members if current else ()
    kept = [m for m in before if m.name not in known and folder.key(m.name).exists()]
    wanted, path = next_roster([*enrolled.members, *kept], current), folder.server / PROPOSED
    if path.exists() and (current is None or wanted.made > current.made):
        proposed = read_roster(path)
        newer = current is None or proposed.made > current.made
        wanted = next_roster(wanted.members, proposed) if newer else wanted
    return wanted if len(wanted.names) >= FEWEST else None


def _current(folder: FederationFolder) -> Roster | None:
    try:
        return load_roster(folder.server)
    except FolderError:
        return None


def _collect(
    folder: FederationFolder,
    wanted: Roster,
    ask: Replies,
    refused: Mapping[str, str],
    patience: Patience,
) -> Roster:
    path = folder.server / PROPOSED
    patience.begin()
    proposed = read_roster(path) if path.exists() else wanted
    if proposed.digest != wanted.digest:
        proposed = wanted
    save(Disk(), path, proposed.to_json())
    while left := unsigned(proposed):
        for site, reply in ask(_message(folder, proposed, left)):
            try:
                mark = bytes.fromhex(str(reply.meta["signature"]))
                verify_roster(proposed[site].signing, proposed.digest, mark)
            except (Refused, LookupError, ValueError):
                raise DataError(
                    f"the signature of {site} does not match the roster that the coordinator sent"
                ) from None
            proposed = proposed.with_signatures({site: mark})
            save(Disk(), path, proposed.to_json())
        denied = [refused[site] for site in left if site in refused]
        if denied:
            sites = {site: refused[site] for site in left if site in refused}
            told = (
                "no sum is possible, because not all sites signed the roster (the list of sites).",
                f"Refused: {'; '.join(denied)}.",
                next_step(sites, again=start_again(folder)),
            )
            raise TooFewSites(told, sites)
        if unsigned(proposed) and patience.late():
            told = ", ".join(unsigned(proposed))
            late = (
                f"the coordinator waited {spoken(patience.limit)}, but {told} did not sign the "
                "roster (the list of sites). A person at each of these sites has to approve the "
                "list, with: feddcd federation approve SITE_DIR. Then start the study "
                f"again: {start_again(folder)}"
            )
            raise Stalled(late, unsigned(proposed))
        time.sleep(PAUSE_S if unsigned(proposed) else 0)
    return proposed.check()


def _message(
    folder: FederationFolder, roster: Roster, sites: tuple[str, ...] | list[str]
) -> dict[str, bytes]:
    meta = {"roster": roster.to_json().decode(), **about_of(folder).meta()}
    held = wire.pack_message(Envelope("roster", meta, {}))
    return dict.fromkeys(sites, held)
