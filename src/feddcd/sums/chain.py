"""The keys of a job's masks: made for this job, used up from answer to answer, and then gone.

    nonce_i  = the public half of an X25519 key e_i that site i makes for this job alone
    K_ij[0]  = HKDF(X25519(e_i, nonce_j) || X25519(sk_i, pk_j), "feddcd-pair-2", job, i and j)
    K_ij[n]  = HKDF(K_ij[n-1], "feddcd-next-2")

K_ij[n] makes the mask of exchange n, and nobody finds K_ij[n-1] from it. A site forgets e_i when it
has answered the first exchange, and K_ij[n] when it has answered exchange n: from then on neither
the site nor a thief of all its files can work out that mask. The long-term keys sk_i of the roster
are in it, too: a key e_i that somebody saw is not enough while a job goes on.
"""

import secrets
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from .._errors import Refused
from ._canonical import framed
from .keys import SiteKeys
from .roster import Roster

KEY = 32  # bytes
OWN = ""  # in place of another site's name: the key of the random words that are a site's own


class KeyChain(NamedTuple):
    """The keys of exchange `number`, by the name of the other site; those before are gone."""

    number: int
    keys: Mapping[str, bytes]


def new_secret() -> bytes:
    """For one job."""
    return secrets.token_bytes(KEY)


def public_half(secret: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def begin(
    keys: SiteKeys,
    roster: Roster,
    identity: bytes,
    nonces: Mapping[str, bytes],
    secret: bytes,
    labels: Iterable[str] = ("",),
) -> dict[str, KeyChain]:
    """Before the first exchange of a job: a chain for each kind of exchanges that is counted by
    itself. `identity` is the job's id, with all nonces in it."""
    me, fresh = roster.own(keys).name, X25519PrivateKey.from_private_bytes(secret)
    if nonces.get(me) != public_half(secret):
        raise Refused(
            "this site lost its key for the job, or has the key of another job; start a new job "
            "at the coordinator"
        )
    private = secret + keys.agreement.private_bytes_raw()
    roots = {OWN: derived(private, "feddcd-own-2", identity)}
    for other in set(nonces) - {me}:
        ends = (
            x for n in sorted((me, other)) for x in (n.encode(), roster[n].agreement, nonces[n])
        )
        shared = fresh.exchange(X25519PublicKey.from_public_bytes(nonces[other]))
        shared += keys.secret(roster[other].agreement)
        roots[other] = derived(shared, "feddcd-pair-2", identity, *ends)
    each = lambda label: {n: derived(k, "feddcd-label-2", label.encode()) for n, k in roots.items()}
    return {label: KeyChain(0, each(label)) for label in labels}


def advanced(chain: KeyChain, number: int) -> KeyChain:
    """The keys of this exchange, or of a later one."""
    if number < chain.number:
        raise Refused(
            f"this site has already answered exchange {number}, and has removed the keys of this "
            "exchange"
        )
    keys = dict(chain.keys)
    for _ in range(chain.number, number):
        keys = {name: derived(key, "feddcd-next-2") for name, key in keys.items()}
    return KeyChain(number, keys)


def derived(key: bytes, purpose: str, *fields: bytes) -> bytes:
    return HKDF(SHA256(), KEY, None, framed(purpose, *fields)).derive(key)
