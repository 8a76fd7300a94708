"""A job: what the sites of a cohort compute together, and the one name for it.

    digest = SHA256(plan, agreement, codebook, package version, mode, cohort, roster)
    id     = SHA256(digest, one fresh nonce of each site of the cohort)

Each site signs its nonce for the digest: nobody can found a job for it, nor found one twice. A
nonce is the public half of a key that the site makes for this job alone (`chain`).
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, NamedTuple

from .._errors import Refused
from . import signing
from ._canonical import canonical, digest, parse
from .chain import public_half
from .keys import SiteKeys
from .roster import FEWEST, Roster, check_agreement

NONCE = 32  # bytes
MODES = ("sum", "each")
MOST_BYTES = 2**24
SHORT = 8  # letters of a digest that people read
HOW = ("tol", "max_exchanges", "level", "latency", "bandwidth")  # of a plan: not what it asks


@dataclass(frozen=True)
class Job:
    """As plain values. `codebook` and `roster` are digests in hex, the first may be empty."""

    plan: dict[str, Any]
    agreement: dict[str, Any]
    codebook: str
    version: str
    mode: str
    cohort: tuple[str, ...]
    roster: str

    @cached_property
    def digest(self) -> bytes:
        return digest("feddcd-job-1", self.to_json())

    @property
    def short(self) -> str:
        """The name by which people know it, at the sites and at the coordinator."""
        return self.digest.hex()[:SHORT]

    @property
    def asked(self) -> dict[str, Any]:
        """The plan without what changes only how accurate the table is, or how fast."""
        return {name: value for name, value in self.plan.items() if name not in HOW}

    def to_json(self) -> bytes:
        return canonical(asdict(self))

    @classmethod
    def from_json(cls, data: bytes) -> "Job":
        values = parse(data, MOST_BYTES)
        names = set(cls.__dataclass_fields__)
        if not isinstance(values, dict) or set(values) != names:
            raise Refused(f"a job must have exactly these parts: {', '.join(sorted(names))}")
        kinds = {"plan": dict, "agreement": dict, "cohort": list}
        for name, value in values.items():
            if type(value) is not kinds.get(name, str):
                raise Refused(f"the part {name!r} of the job has a wrong type")
        values["cohort"] = tuple(values["cohort"])
        return cls(**values)

    def check(self, roster: Roster) -> "Job":
        """Refused unless it fits the roster."""
        if self.mode not in MODES:
            raise Refused(f"the mode of a job must be {' or '.join(map(repr, MODES))}")
        if self.roster != roster.digest.hex():
            raise Refused("the job is for another roster (another list of sites)")
        fewest = FEWEST if self.mode == "sum" else 1
        if roster.cohort(self.cohort, fewest) != self.cohort:
            raise Refused("the job does not list the names of its sites in alphabetical order")
        return self


class SignedNonce(NamedTuple):
    nonce: bytes
    signature: bytes


def signed_nonce(keys: SiteKeys, job: Job, secret: bytes) -> SignedNonce:
    """Of a secret that was made for this job, and is on disk."""
    nonce = public_half(secret)
    return SignedNonce(nonce, signing.sign_nonce(keys.signing, job.digest, nonce))


def job_id(job: Job, roster: Roster, nonces: Mapping[str, SignedNonce]) -> bytes:
    """32 bytes. Refused unless every site of the cohort, and no other, has signed a nonce."""
    job.check(roster)
    if set(nonces) != set(job.cohort):
        raise Refused(
            "the job must have a nonce (a new random number) of each site that takes part in the "
            "job, and of no other site"
        )
    fields = []
    for name in job.cohort:
        nonce, signature = nonces[name]
        if not (isinstance(nonce, bytes) and len(nonce) == NONCE):
            raise Refused(f"the nonce of site {name!r} does not have {NONCE} bytes")
        try:
            signing.verify_nonce(roster[name].signing, job.digest, nonce, signature)
        except Refused:
            told = f"the nonce of site {name!r} was not signed with the key of this site"
            raise Refused(told) from None
        check_agreement(nonce, f"the nonce of site {name!r}")
        fields += [name.encode(), nonce]
    if len({nonces[name].nonce for name in job.cohort}) < len(job.cohort):
        raise Refused("two sites have the same nonce, but each nonce must be a new random number")
    return digest("feddcd-job-id-2", job.digest, *fields)
