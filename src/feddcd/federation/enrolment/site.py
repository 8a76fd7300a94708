"""The site's side of enrolment: keys are made here, and only their public halves leave.

NAME/              the site's folder, made where the command is run
    key            of its node, private
    sum.keys       for masked sums, private
    ca.crt         the authority of the invitation, the only one that this site believes
    site.toml      where the data are, and the coordinator
    policy.toml    careful
"""

import base64
import http.client
import json
import shutil
import ssl
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, Protocol
from urllib.parse import unquote, urlsplit

import tomli_w

from ..._errors import FolderError, Refused, SpecError
from ..._files import Disk, owner_only, save, shown
from ..._proxy import proxy_of, through
from ..._text import printable, reason_in
from ...data.codebook import FILE as CODEBOOK
from ...sums.keys import SiteKeys
from ...sums.roster import RosterMember
from ..machine.keys import write_pair
from ..roster import KEYS, ROSTER
from ..sign_up import MEMBER, write_member
from ..site.ended import end_all
from ..site.log import LOG, append
from ..site.policy import FILE as POLICY
from ..site.template import comment, template
from .claim import LARGEST_ANSWER, PATH, Claim, claim_of
from .invitation import Invitation

TIMEOUT_S = 20.0
READ_OUT = (
    "Read the first three of these enrolment words aloud; the other person reads the last three:"
)
ENROLLED = "enrolled.json"
LEFT = "left.json"  # of a site that was retired, until it enrols again or is connected again
LASTING = ("key", KEYS, POLICY, CODEBOOK, LOG)  # which a second enrolment does not change
_SITE = comment(
    "This file has the settings of this site. The rows of the data never leave this machine."
)
Post = Callable[[Invitation, bytes], tuple[int, bytes]]


class Enrolled(NamedTuple):
    """`kept`: the files of an earlier enrolment that this one goes on with."""

    folder: Path
    words: str
    confirmed: bool
    kept: tuple[str, ...] = ()


def look(
    invitation: Invitation, post: Post | None = None, folder: Path | None = None
) -> dict[str, Any] | None:
    """The codebook of the federation, if it has one; the token stays unused. By the keys in its
    folder a site is known that has used the token, and did not hear the answer."""
    begun = folder is not None and _ours(folder, invitation) and (folder / KEYS).exists()
    keys = _public_keys(invitation.site, folder) if folder is not None and begun else ()
    return _ask(invitation, claim_of(invitation, "look", *keys), post).get("codebook")


def is_enrolled(invitation: Invitation, folder: Path) -> bool:
    """Whether this folder was enrolled with this invitation: the words follow from it and from the
    keys."""
    if not (_ours(folder, invitation) and (folder / KEYS).exists()):
        return False
    claim = claim_of(invitation, "enrol", *_public_keys(invitation.site, folder))
    return enrolment_words(folder) == claim.words()


def enrol(
    invitation: Invitation,
    folder: Path,
    data: Path,
    settings: Mapping[str, Any],
    codebook: Path | None = None,
    post: Post | None = None,
) -> Enrolled:
    """Makes the site's folder and tells the coordinator its public keys.

    Called again after a failure it goes on with the keys that it made.
    """
    kept = tuple(name for name in LASTING if (folder / name).exists())
    with owner_only():
        claim = _prepare(invitation, folder)
        own = {"client-id": invitation.site, "superlink": invitation.address}
        own |= {"data": str(data.resolve()), **settings}
        (folder / "site.toml").write_text(_SITE + tomli_w.dumps(own), "utf-8")
        if not (folder / POLICY).exists():
            (folder / POLICY).write_text(template(), "utf-8")
        if codebook is not None:
            shutil.copyfile(codebook, folder / CODEBOOK)
        said = _ask(invitation, claim, post)
        held = {"federation": invitation.federation, "words": claim.words()}
        if not said.get("confirmed") and (closed := end_all(folder)):  # of before it left
            append(folder, {"enrolled": invitation.address, "closed": closed})
        (folder / LEFT).unlink(missing_ok=True)
        held |= {"authority": invitation.authority, "time": round(time.time(), 3)}
        save(Disk(), folder / ENROLLED, held)
    return Enrolled(folder, claim.words(), said.get("confirmed") is True, kept)


def enrolment_words(folder: Path) -> str:
    """Those that the site was enrolled with; none where its keys came with its folder."""
    try:
        return str(json.loads((folder / ENROLLED).read_text())["words"])
    except (OSError, ValueError, LookupError):
        return ""


def first_words(folder: Path) -> str:
    """The enrolment words, as long as no list of sites has words of its own."""
    return "" if (folder / ROSTER).exists() else enrolment_words(folder)


def enrolled_at(folder: Path) -> float | None:
    """When the site enrolled last. Of earlier versions the time of the file, which a copy of the
    folder does not keep."""
    path = folder / ENROLLED
    try:
        held = json.loads(path.read_text())
        return float(held.get("time") or path.stat().st_mtime)
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _prepare(invitation: Invitation, folder: Path) -> Claim:
    """Keys, made once."""
    if folder.exists() and any(folder.iterdir()) and not _ours(folder, invitation):
        raise FolderError("is not empty; choose another --out", file=shown(folder))
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    (folder / "ca.crt").write_text(invitation.certificate)
    if not (folder / "key.pub").exists():
        write_pair(folder)
    if not (folder / KEYS).exists():
        SiteKeys.generate().save(folder / KEYS)
    member = RosterMember.of(invitation.site, SiteKeys.load(folder / KEYS))
    write_member(folder / MEMBER, member)
    return claim_of(invitation, "enrol", *_public_keys(invitation.site, folder))


def _public_keys(site: str, folder: Path) -> tuple[str, str, str]:
    member = RosterMember.of(site, SiteKeys.load(folder / KEYS))
    key = (folder / "key.pub").read_text().strip()
    return key, member.signing.hex(), member.agreement.hex()


def _ours(folder: Path, invitation: Invitation) -> bool:
    """Whether an enrolment with this authority was begun here."""
    held = folder / "ca.crt"
    return (
        (folder / "key").exists() and held.exists() and held.read_text() == invitation.certificate
    )


def _ask(invitation: Invitation, claim: Claim, post: Post | None) -> dict[str, Any]:
    status, data = (post or over_tls)(invitation, claim.sealed(invitation.token))
    try:
        said = json.loads(data) if data else {}
        if not isinstance(said, dict):
            raise ValueError
    except (ValueError, RecursionError):
        raise Refused(
            f"{invitation.address} does not answer like a coordinator of feddcd; check the address"
        ) from None
    if status == 200:
        return said
    told = {
        403: "the coordinator cannot enrol sites; perhaps its version of feddcd is too old",
        413: "the request is too large",
        429: "too many requests; try again in a minute",
    }
    reason = said.get("refused") or told.get(
        status, f"its answer has the HTTP status {status}, and gives no reason"
    )
    raise Refused(
        f"the coordinator at {invitation.address} refused: {printable(str(reason)[:300])}"
    )


class Callee(Protocol):
    """Who is called, and the certificate of the authority that is believed."""

    @property
    def address(self) -> str: ...

    @property
    def certificate(self) -> str: ...


def over_tls(invitation: Callee, data: bytes) -> tuple[int, bytes]:
    """One call over TLS that believes the authority of the invitation and no other."""
    host, _, port = invitation.address.rpartition(":")
    trust = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    trust.minimum_version = ssl.TLSVersion.TLSv1_2
    trust.load_verify_locations(cadata=invitation.certificate)
    proxy = proxy_of(invitation.address)
    call = _connection(host.strip("[]"), int(port), proxy, trust)
    try:
        call.request("POST", PATH, data, {"content-type": "application/json"})
        answer = call.getresponse()
        held = answer.read(LARGEST_ANSWER + 1)
    except ssl.SSLCertVerificationError as error:
        raise Refused(
            f"{invitation.address} is not the coordinator of the invitation: {error.verify_message}"
        ) from None
    except (OSError, http.client.HTTPException) as error:
        raise SpecError(
            f"{invitation.address} does not answer{through(proxy)}: {reason_in(error)}. "
            f"The coordinator must run (feddcd federation serve DIR), and "
            f"{'the proxy' if proxy else 'this machine'} must be able to reach the "
            "port of the coordinator"
        ) from None
    finally:
        call.close()
    if len(held) > LARGEST_ANSWER:
        raise Refused(f"the answer of {invitation.address} is too large")
    return answer.status, held


def _connection(
    host: str, port: int, proxy: str, trust: ssl.SSLContext
) -> http.client.HTTPSConnection:
    if not proxy:
        return http.client.HTTPSConnection(host, port, timeout=TIMEOUT_S, context=trust)
    way = urlsplit(proxy)
    user = f"{unquote(way.username or '')}:{unquote(way.password or '')}".encode()
    headers = {"Proxy-Authorization": f"Basic {base64.b64encode(user).decode()}"}
    call = http.client.HTTPSConnection(
        way.hostname or "", way.port or 80, timeout=TIMEOUT_S, context=trust
    )
    call.set_tunnel(host, port, headers if way.username else None)
    return call
