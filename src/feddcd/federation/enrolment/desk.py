"""The coordinator's side of enrolment.

    invite     server/invitations/NAME.json: the token's public half, when it ends
    take       a claim from the network: the keys that the site made
    confirm    a person compared the words: the site's key is let in, its keys for sums are kept

    server/keys/NAME.pub        the key of its node, as before
    server/members/NAME.json    its public keys for masked sums

Nothing of a claim is believed before a person confirms it. Every claim that is refused is noted.
"""

import shlex
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from ..._errors import FeddcdError, Refused, SpecError
from ..._files import shown
from ..._pace import LinePace
from ..._text import printable
from ...data.codebook import FILE as CODEBOOK
from ...data.codebook import load_codebook
from ...sums.roster import Roster
from ...sums.token import NO_TOKEN, new_token, public_half
from ..folder import FederationFolder
from ..machine.keys import check_node_key, same_key
from ..sign_up import read_member, write_member
from ._records import (
    InvitationRecord,
    held,
    load_record,
    readable,
    record_path,
    record_paths,
    save_record,
)
from ._records import pending as pending
from ._records import records as records
from .claim import LARGEST, Claim, answer_text, read_claim
from .departed import forget_departure, read_question, remember_key, standing
from .invitation import DAYS, Invitation, check_address, check_site, fingerprint, when

ASK = "ask the person at the coordinator for a new invitation"
FAILED = "the coordinator had an error; the file events.jsonl at the coordinator says why"
DAY_S = 86400
NOTES = 10  # of refused claims in a minute
LONGEST_REASON = 500


def invite(folder: FederationFolder, site: str, days: float = DAYS) -> Invitation:
    """A new invitation; one that the site has not used yet ends by it."""
    if not check_site(site):
        raise SpecError(f"the name of a site may have letters, digits, - and _ only, got {site!r}")
    if not 0 < days <= 365:
        raise SpecError(f"need 0 < days <= 365, got days={days:g}")
    for other in {*folder.invited(), *(path.stem for path in record_paths(folder))} - {site}:
        if other.casefold() == site.casefold():
            raise SpecError(f"there is already a site {other!r}; choose another name")
    check_barred(site, folder.barred())
    if folder.key(site).exists():
        at = shlex.quote(shown(folder.path))
        raise SpecError(
            f"the site {site!r} is already in the federation. If the site must enrol with new "
            f"keys, first retire this site: feddcd federation retire {at} {site}"
        )
    config, now = folder.config(), time.time()
    address = check_address(f"{config.host}:{config.port}")
    certificate = (folder.server / "ca.crt").read_text()
    expires = int(now + days * DAY_S)
    made = Invitation(config.name, site, address, expires, certificate, new_token())
    public = public_half(made.token).hex()
    with held(folder):
        save_record(folder, InvitationRecord(site, public, made.digest, round(now, 3), expires))
    folder.note("invited", site=site, until=when(expires))
    return made


def check_barred(site: str, barred: Iterable[str]) -> None:
    if site.casefold() in map(str.casefold, barred):
        raise SpecError(
            f"the site {site!r} was expelled and cannot join again; choose another name"
        )


class Desk:
    """Takes claims from the network: bytes to a status and bytes. It raises nothing."""

    def __init__(self, folder: FederationFolder, now: Callable[[], float] = time.time):
        self.folder, self._now = folder, now
        self._lines = LinePace(NOTES)

    def known(self, data: bytes) -> bool:
        """Whether a claim is signed by the token of an invitation: then it waits for nobody. It
        is cheap, and changes nothing."""
        try:
            if len(data) > LARGEST:
                return False
            signed = read_claim(data)
            record = load_record(self.folder, signed.claim.site)
            return record is not None and bool(signed.check(bytes.fromhex(record.public)))
        except (FeddcdError, OSError, ValueError):
            return False

    def __call__(self, data: bytes, host: str) -> tuple[int, bytes]:
        site = "?"
        try:
            if len(data) > LARGEST:
                raise Refused("the message is not an enrolment request from a site")
            if (key := read_question(data)) is not None:
                return 200, answer_text(standing(self.folder, key))
            signed = read_claim(data)
            site = signed.claim.site
            with held(self.folder):
                record = load_record(self.folder, site)
                if record is None:  # in the words of a wrong token: who is invited stays secret
                    raise Refused(NO_TOKEN)
                claim = signed.check(bytes.fromhex(record.public))
                return 200, answer_text(self._take(record, claim))
        except Refused as reason:
            self._refuse(site, host, str(reason))
            return 403, answer_text({"refused": str(reason)})
        except (FeddcdError, OSError, ValueError) as error:  # ours: its reason stays here
            self._refuse(site, host, f"the coordinator had an error: {error}")
            return 500, answer_text({"refused": FAILED})

    def _take(self, record: InvitationRecord, claim: Claim) -> dict[str, Any]:
        if claim.site != record.site:  # a file system may not tell north from NORTH
            raise Refused(NO_TOKEN)
        own = fingerprint((self.folder.server / "ca.crt").read_text())
        if claim.authority != own:
            raise Refused(
                "the invitation is from another coordinator, or this coordinator has a new "
                f"certificate authority for TLS; {ASK}"
            )
        if claim.invitation != record.digest:
            raise Refused(
                f"the invitation was changed on its way, or the coordinator made a newer one; {ASK}"
            )
        told = {"site": record.site, "codebook": _codebook(self.folder)}
        if claim.ask == "look":
            if claim._replace(ask="enrol") != record.claimed():  # else it has enrolled with it
                _check_open(record, self._now())
            return told
        if record.claim is not None and claim == record.claimed():  # its answer was lost
            return told | {"confirmed": self.folder.key(record.site).exists()}
        _check_open(record, self._now())
        _check_keys(self.folder, claim)
        now = round(self._now(), 3)
        save_record(self.folder, replace(record, claim=claim._asdict(), used=now))
        forget_departure(self.folder, record.site)
        self.folder.note("enrolled", site=record.site)
        return told | {"confirmed": False}

    def _refuse(self, site: str, host: str, reason: str) -> None:
        if (before := self._lines.let()) is None:
            return
        told = printable(reason[:LONGEST_REASON]) + before
        with suppress(OSError):
            self.folder.note("not enrolled", site=printable(site[:64]), host=host, reason=told)


def words_of(folder: FederationFolder, site: str) -> str:
    return _claimed(folder, site)[1].words()


def confirm(folder: FederationFolder, site: str) -> None:
    """After both people compared the words: this site is let in."""
    with held(folder):
        record, claim = _claimed(folder, site)
        check_barred(site, folder.barred())
        _check_keys(folder, claim)
        for part in ("keys", "members"):
            (folder.server / part).mkdir(mode=0o700, parents=True, exist_ok=True)
        write_member(folder.server / "members" / f"{site}.json", claim.member())
        save_record(folder, replace(record, confirmed=round(time.time(), 3)))
        folder.save(folder.key(site), claim.key.encode())  # the last: by it the site is let in
    folder.note("confirmed", site=site)


def confirmed_for(folder: FederationFolder) -> float | None:
    """Since how many seconds the newest site is let in; None if nobody confirmed one."""
    known = [record.confirmed for record in records(folder).values() if record]
    last = max(filter(None, known), default=None)
    return None if last is None else time.time() - last


def withdraw(folder: FederationFolder, site: str) -> None:
    """An invitation, and what was made of it, as if it had not been."""
    (folder.server / "members" / f"{site}.json").unlink(missing_ok=True)
    record_path(folder, site).unlink(missing_ok=True)


def take_back(folder: FederationFolder, site: str, barred: bool) -> bool:
    """The invitation of a site that was not let in, with the keys that the site has sent; whether
    it had sent any."""
    with held(folder):
        record = readable(folder, site)
        claim = record.claimed() if record else None
        if claim is not None:
            remember_key(folder, site, claim.key, barred, rejected=True)
        withdraw(folder, site)
    folder.note("taken back", site=site, enrolled=claim is not None, barred=barred)
    return claim is not None


def members(folder: FederationFolder) -> Roster | None:
    """Of all sites that are let in and have known keys for sums; signed by nobody."""
    paths = sorted((folder.server / "members").glob("*.json"))
    held = [read_member(path) for path in paths if folder.key(path.stem).exists()]
    return Roster(held) if held else None


def _claimed(folder: FederationFolder, site: str) -> tuple[InvitationRecord, Claim]:
    record = load_record(folder, site) if check_site(site) else None
    if record is None or record.site != site:
        raise SpecError(
            f"{site!r} is not invited; to invite a site: feddcd federation "
            f"invite {shlex.quote(shown(folder.path))} NAME"
        )
    if record.confirmed is not None and folder.key(site).exists():
        raise SpecError(f"the site {site!r} is already confirmed")
    claim = record.claimed()
    if claim is None:
        raise SpecError(
            f"the site {site!r} has not enrolled yet; its invitation is valid until "
            f"{when(record.expires)}"
        )
    return record, claim


def _check_open(record: InvitationRecord, now: float) -> None:
    if record.claim is not None:
        raise Refused(
            "this invitation was already used with other keys, perhaps from another folder or on "
            f"another machine; {ASK}"
        )
    if record.expires < now:
        raise Refused(f"this invitation was valid until {when(record.expires)}; {ASK}")


def _check_keys(folder: FederationFolder, claim: Claim) -> None:
    """Keys that nobody else here has."""
    check_node_key(claim.key.encode())
    Roster([claim.member()])  # refuses weak ones
    for name, key in folder.invited().items():
        if name != claim.site and same_key(key, claim.key.encode()):
            raise Refused("another site already has this key; each site needs its own key")
    known = members(folder)
    Roster([*(known.members if known else ()), claim.member()])


def _codebook(folder: FederationFolder) -> dict[str, Any] | None:
    """Of the federation, or of what it makes."""
    path = folder.path / CODEBOOK
    if path.exists():
        return load_codebook(path).to_dict()
    plan = folder.config().plan
    return dict(plan.codebook) if getattr(plan, "codebook", None) else None
