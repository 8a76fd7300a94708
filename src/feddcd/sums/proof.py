"""One file that shows how a job came to its result, without any data.

It holds the roster, the job, the sites' nonces, and for each exchange the question, the layout and
every masked answer, all of them signed by the sites. The masks cancel in the sum alone.

    magic | roster | job | nonce and signature for each site | number of exchanges
    each exchange: question | layout | masked words and signature for each site

A text has its length before it, in 8 bytes; the rest has a length that follows from what was read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import numpy as np

from .._errors import Refused
from .._files import Disk, save
from . import signing
from .job import NONCE, Job, SignedNonce, job_id
from .layout import Layout
from .masks import context
from .roster import Roster
from .signing import SIGNATURE

MAGIC = b"feddcd proof 2\n\0"
MOST_BYTES = 2**31
MOST_EXCHANGES = 100_000


class SignedAnswer(NamedTuple):
    """A site's masked words as they travel, and its signature."""

    words: bytes
    signature: bytes


class ProvenExchange(NamedTuple):
    question: bytes
    layout: Layout
    answers: Mapping[str, SignedAnswer]


@dataclass(frozen=True)
class JobProof:
    roster: Roster
    job: Job
    nonces: Mapping[str, SignedNonce]
    exchanges: tuple[ProvenExchange, ...]

    @cached_property
    def id(self) -> bytes:
        """Refused where a nonce is not signed."""
        return job_id(self.job, self.roster, self.nonces)

    def to_bytes(self) -> bytes:
        parts = [MAGIC, _text(self.roster.to_json()), _text(self.job.to_json())]
        parts += [part for name in self.job.cohort for part in self.nonces[name]]
        parts.append(len(self.exchanges).to_bytes(8, "big"))
        for exchange in self.exchanges:
            parts += [_text(exchange.question), _text(exchange.layout.to_json())]
            parts += [part for name in self.job.cohort for part in exchange.answers[name]]
        return b"".join(parts)

    @classmethod
    def from_bytes(cls, data: bytes) -> "JobProof":
        """Refused where a byte is missing, left over or not as it is written here. Signatures are
        looked at by `check`."""
        rest = _Bytes(data)
        if rest.take(len(MAGIC)) != MAGIC:
            raise Refused("this is not a proof, or a proof of another version of feddcd")
        roster = Roster.from_json(rest.text())
        job = Job.from_json(rest.text()).check(roster)
        pair = lambda size: (rest.take(size), rest.take(SIGNATURE))
        nonces = {name: SignedNonce(*pair(NONCE)) for name in job.cohort}
        number, exchanges = rest.number(), []
        if number > MOST_EXCHANGES:
            raise Refused(f"a proof may have at most {MOST_EXCHANGES:,} exchanges")
        for _ in range(number):
            question, layout = rest.text(), Layout.from_json(rest.text())
            size = 8 * layout.words
            answers = {name: SignedAnswer(*pair(size)) for name in job.cohort}
            exchanges.append(ProvenExchange(question, layout, answers))
        if rest.left:
            raise Refused("there are more bytes after the end of the proof")
        return cls(roster, job, nonces, tuple(exchanges))

    def check(self) -> "JobProof":
        """Every signature; Refused names the site."""
        self.roster.check()
        job_id(self.job, self.roster, self.nonces)
        for number in range(len(self.exchanges)):
            self.sums(number)
        return self

    def sums(self, number: int) -> dict[str, np.ndarray]:
        """What the answers of an exchange, the first being 0, add up to; or Refused."""
        exchange = self.exchanges[number]
        return check_exchange(self.roster, self.job, self.id, number, exchange)

    def write(self, path: Path, disk: Disk | None = None) -> None:
        save(disk or Disk(), path, self.to_bytes())

    @classmethod
    def read(cls, path: Path, disk: Disk | None = None) -> "JobProof":
        try:
            data = (disk or Disk()).read(path, MOST_BYTES)
        except OSError as reason:
            raise Refused(f"the proof cannot be read: {reason.strerror or reason}") from None
        if data is None:
            raise Refused(f"there is no proof at {path}")
        return cls.from_bytes(data)


def check_exchange(
    roster: Roster, job: Job, identity: bytes, number: int, exchange: ProvenExchange
) -> dict[str, np.ndarray]:
    """The opened sums, once the signatures of the whole cohort are right; `identity` is the job's
    id."""
    ctx = context(roster, job.cohort, identity, number, exchange.question)
    if set(exchange.answers) != set(job.cohort):
        raise Refused(
            "an exchange must have the answer of each site of the cohort, and of no other site"
        )
    layout, vectors = exchange.layout, []
    for name in job.cohort:
        words, signature = exchange.answers[name]
        try:
            vectors.append(layout.from_bytes(words))
            signing.verify_answer(roster[name].signing, ctx, layout.digest, words, signature)
        except Refused as reason:
            raise Refused(f"exchange {number}, {name}: {reason}") from None
    return layout.decode(layout.total(vectors))


class _Bytes:
    """What is left to read; no more is taken than there is."""

    def __init__(self, data: bytes):
        self.data, self.at = memoryview(data), 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, size: int) -> bytes:
        if size > self.left:
            raise Refused("the proof is not complete, because its end is missing")
        self.at += size
        return bytes(self.data[self.at - size : self.at])

    def number(self) -> int:
        return int.from_bytes(self.take(8), "big")

    def text(self) -> bytes:
        return self.take(self.number())


def _text(data: bytes) -> bytes:
    return len(data).to_bytes(8, "big") + data
