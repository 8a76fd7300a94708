"""A one-time token of an invitation. A pair of Ed25519 keys follows from it.

Who has the token signs one request with it; the token itself never travels. Who invited keeps the
public half alone: it checks the signature, and nobody can make a token, or a signature, from it.
"""

import base64
import secrets

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from .._errors import Refused
from . import signing

BYTES = 20
GROUP = 4  # letters
PURPOSE = b"feddcd-token-1"
NO_TOKEN = (  # the same for all: who asks without a token does not learn who is invited
    "no valid invitation has this token. Perhaps the coordinator made a newer invitation for this "
    "site, or took this invitation back: ask the person at the coordinator"
)


def new_token() -> str:
    """160 random bits, in letters and digits that survive a mail and a dictation."""
    text = base64.b32encode(secrets.token_bytes(BYTES)).decode().lower()
    return "-".join(text[i : i + GROUP] for i in range(0, len(text), GROUP))


def public_half(token: str) -> bytes:
    """What the inviting side keeps."""
    return _key(token).public_key().public_bytes_raw()


def sign_claim(token: str, claim: bytes) -> bytes:
    return signing.sign_claim(_key(token), claim)


def verify_claim(public: bytes, claim: bytes, signature: bytes) -> None:
    """Refused unless who made the signature has the token."""
    try:
        Ed25519PublicKey.from_public_bytes(public)
        signing.verify_claim(public, claim, signature)
    except (Refused, ValueError):
        raise Refused(NO_TOKEN) from None


def _key(token: str) -> Ed25519PrivateKey:
    try:
        raw = base64.b32decode(token.replace("-", "").upper().encode("ascii"))
    except ValueError:
        raw = b""
    if len(raw) != BYTES:
        raise Refused("this is not the token of an invitation: letters are missing or were changed")
    seed = HKDF(hashes.SHA256(), 32, salt=None, info=PURPOSE).derive(raw)
    return Ed25519PrivateKey.from_private_bytes(seed)
