"""Masks that cancel in the sum over a cohort, and cover each answer until then.

    ctx  = SHA256("feddcd-sum-2", roster, cohort, job, exchange, question)
    m_ij = ChaCha20(HKDF(K_ij[exchange], "feddcd-mask-2", ctx, layout)),  K_ij as in `chain`
    Y_i  = q_i + sum_{j > i} m_ij - sum_{j < i} m_ij

A key stream is used once, as a site answers a question of an exchange of a job once. Whoever is
told another question, another cohort or another layout makes other masks, which cancel with none.
The random words of levels are drawn from a stream of the site's own: a site that has lost its
answer, and makes it again before it forgets the keys, makes the same bytes.
"""

from collections.abc import Iterable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms

from .._errors import Refused, SpecError
from ._canonical import digest, framed
from .chain import OWN, KeyChain, derived
from .layout import Layout
from .ring import WORDS, Adder
from .roster import Roster

CTX = 32  # bytes, as a job's id has
MOST_EXCHANGES = 2**32
CHUNK = 2**17  # bytes that are masked at a time: they stay in the processor's cache
_ZEROS = memoryview(bytes(CHUNK))


def context(
    roster: Roster, cohort: Iterable[str], job: bytes, exchange: int, question: bytes
) -> bytes:
    """What the masks of one exchange depend on; `job` is its id, with all sites' nonces in it."""
    if not (isinstance(job, bytes) and len(job) == CTX):
        raise SpecError(f"the id of a job must have {CTX} bytes")
    if type(exchange) is not int or not 0 <= exchange < MOST_EXCHANGES:
        raise SpecError("the number of an exchange must be 0 or more")
    names = framed("cohort", *(name.encode() for name in roster.cohort(cohort)))
    number = exchange.to_bytes(8, "big")
    return digest("feddcd-sum-2", roster.digest, names, job, number, question)


def masked(
    words: np.ndarray,
    layout: Layout,
    chain: KeyChain,
    me: str,
    roster: Roster,
    cohort: Iterable[str],
    ctx: bytes,
) -> np.ndarray:
    """Y_i: the words of an answer, as `layout.encode` makes them, under the masks of this site,
    `me`. The chain is that of the exchange that `ctx` is of."""
    chosen = roster.cohort(cohort)
    if me not in chosen:
        raise Refused("this site is not in the cohort of the job")
    if len(ctx) != CTX:
        raise SpecError(f"the context of the masks must have {CTX} bytes")
    others = [name for name in chosen if name != me]
    if not {OWN, *others} <= set(chain.keys):
        raise Refused("this site does not have the mask keys for a site of the cohort")
    streams = [_stream(mask_key(chain, other, layout, ctx)) for other in others]
    words = _redrawn(layout.check(words), layout, chain, ctx)
    sent, wide, room = np.empty_like(words), WORDS * layout.numbers, bytearray(CHUNK)
    for at in range(0, len(words), CHUNK // 8):
        part = words[at : at + CHUNK // 8]
        numbers = max(min(wide - at, len(part)), 0) // WORDS
        adder = Adder(numbers, len(part))
        adder.add(part)
        for other, stream in zip(others, streams, strict=True):
            mask = _next(stream, len(part), room)
            adder.add(mask) if me < other else adder.subtract(mask)
        sent[at : at + len(part)] = adder.total()
    return sent


def mask_key(chain: KeyChain, other: str, layout: Layout, ctx: bytes) -> bytes:
    """The same at both sites of a pair; one for each context and layout."""
    return derived(chain.keys[other], "feddcd-mask-2", ctx, layout.digest)


def _redrawn(words: np.ndarray, layout: Layout, chain: KeyChain, ctx: bytes) -> np.ndarray:
    """With random words of the site's own stream for this context, none of them 0."""
    where = np.flatnonzero(layout.random(words))
    first = 0 if words[-1] else WORDS * layout.numbers  # the numbers are random all or none
    key = derived(chain.keys[OWN], "feddcd-noise-2", ctx, layout.digest)
    drawn = _stream(key).update(bytes(8 * (layout.words - first)))
    words = words.copy()
    words[where] = np.maximum(np.frombuffer(drawn, "<u8")[where - first], 1)
    return words


def _stream(key: bytes) -> CipherContext:
    return Cipher(algorithms.ChaCha20(key, bytes(16)), None).encryptor()


def _next(stream: CipherContext, words: int, room: bytearray) -> np.ndarray:
    """The next words of a key stream, until `room` is used again."""
    stream.update_into(_ZEROS[: 8 * words], room)
    return np.frombuffer(room, "<u8", words).astype(np.uint64, copy=False)
