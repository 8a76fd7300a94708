"""What sites sign, each with words of its own in front, so that no signature stands for another."""

import hashlib

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from .._errors import Refused
from ._canonical import framed

ROSTER, NONCE, ANSWER = "feddcd-sign-roster-1", "feddcd-sign-nonce-2", "feddcd-sign-answer-1"
CLAIM = "feddcd-sign-claim-1"
SIGNATURE = 64  # bytes


def sign_roster(key: Ed25519PrivateKey, roster: bytes) -> bytes:
    return key.sign(framed(ROSTER, roster))


def verify_roster(public: bytes, roster: bytes, signature: bytes) -> None:
    _verify(public, signature, framed(ROSTER, roster))


def sign_nonce(key: Ed25519PrivateKey, job: bytes, nonce: bytes) -> bytes:
    """`job` is the digest of the job that the nonce is for."""
    return key.sign(framed(NONCE, job, nonce))


def verify_nonce(public: bytes, job: bytes, nonce: bytes, signature: bytes) -> None:
    _verify(public, signature, framed(NONCE, job, nonce))


def sign_answer(key: Ed25519PrivateKey, ctx: bytes, layout: bytes, answer: bytes) -> bytes:
    """`layout` is its digest, `answer` the masked words as they travel."""
    return key.sign(framed(ANSWER, ctx, layout, hashlib.sha256(answer).digest()))


def verify_answer(
    public: bytes, ctx: bytes, layout: bytes, answer: bytes, signature: bytes
) -> None:
    _verify(public, signature, framed(ANSWER, ctx, layout, hashlib.sha256(answer).digest()))


def sign_claim(key: Ed25519PrivateKey, claim: bytes) -> bytes:
    """What a site asks for when it enrols, with the key that follows from its token."""
    return key.sign(framed(CLAIM, claim))


def verify_claim(public: bytes, claim: bytes, signature: bytes) -> None:
    _verify(public, signature, framed(CLAIM, claim))


def _verify(public: bytes, signature: bytes, signed: bytes) -> None:
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, signed)
    except (InvalidSignature, ValueError, TypeError):
        raise Refused("the signature was not made with the key of the site") from None
