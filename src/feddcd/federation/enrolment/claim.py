"""What a site sends to enrol, and what comes back: JSON, one call, signed with the token.

    look    which codebook does the federation have? The token stays unused
    enrol   these are the public keys of this site

The signature covers the invitation and the authority that the site believes. Somebody between the
two, with another address or another authority, cannot pass it on: the coordinator finds that it
speaks of another invitation.
"""

import json
from typing import Any, NamedTuple

from ..._errors import Refused
from ...sums.roster import RosterMember, member_words
from ...sums.token import sign_claim, verify_claim
from .invitation import Invitation, check_site

PATH = "/v1/feddcd/enrol"
LARGEST = 8192  # bytes of a claim
LARGEST_ANSWER = 1 << 20
ASKS = ("look", "enrol")
_LONGEST = {"key": 1000, "signing": 64, "agreement": 64}


class Claim(NamedTuple):
    ask: str
    site: str
    invitation: str  # its digest
    authority: str  # the fingerprint that the site believes
    key: str = ""  # of its node, as OpenSSH writes it
    signing: str = ""  # of masked sums, 32 bytes in hexadecimal digits each
    agreement: str = ""

    def member(self) -> RosterMember:
        try:
            keys = bytes.fromhex(self.signing), bytes.fromhex(self.agreement)
        except ValueError:
            raise Refused("a key for masked sums in the request cannot be read") from None
        return RosterMember(self.site, *keys)

    def words(self) -> str:
        """Six words for both people: they follow from the invitation and from all keys."""
        return member_words(
            self.member(), bytes.fromhex(self.authority), self.invitation.encode(),
            self.key.strip().encode(),
        )  # fmt: skip

    def sealed(self, token: str) -> bytes:
        """As it travels."""
        mark = sign_claim(token, self._text()).hex()
        return json.dumps(self._asdict() | {"signature": mark}).encode()

    def _text(self) -> bytes:
        return json.dumps(self._asdict(), sort_keys=True, separators=(",", ":")).encode()


def claim_of(invitation: Invitation, ask: str, *keys: str) -> Claim:
    own = invitation.site, invitation.digest, invitation.authority
    return Claim(ask, *own, *keys)


class SignedClaim(NamedTuple):
    """A claim before its signature is checked."""

    claim: Claim
    signature: bytes

    def check(self, public: bytes) -> Claim:
        verify_claim(public, self.claim._text(), self.signature)
        return self.claim


def read_claim(data: bytes) -> SignedClaim:
    """Refused unless it is a claim, with nothing else in it."""
    try:
        values = json.loads(data.decode("ascii"))
        mark = bytes.fromhex(values.pop("signature"))
        claim = Claim(**values)
    except (ValueError, TypeError, AttributeError, LookupError, RecursionError):
        raise Refused("the message is not an enrolment request from a site") from None
    if not all(type(value) is str for value in claim) or claim.ask not in ASKS:
        raise Refused("the message is not an enrolment request from a site")
    longest = (10, 64, 64, 64, *_LONGEST.values())
    if any(len(value) > most for value, most in zip(claim, longest, strict=True)):
        raise Refused("the message is not an enrolment request from a site")
    if not check_site(claim.site):
        raise Refused("the name of the site in the request is not valid")
    return SignedClaim(claim, mark)


def answer_text(values: dict[str, Any]) -> bytes:
    return json.dumps(values).encode()
