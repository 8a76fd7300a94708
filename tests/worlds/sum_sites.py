"""Sites with fixed keys that answer under masks: what is random is the same each time."""

import hashlib
from typing import NamedTuple

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from feddcd.sums import signing
from feddcd.sums.chain import advanced, begin, public_half
from feddcd.sums.job import Job, SignedNonce, job_id
from feddcd.sums.keys import SiteKeys
from feddcd.sums.layout import Layout, Slot
from feddcd.sums.levels import grid_of
from feddcd.sums.masks import context, masked
from feddcd.sums.proof import JobProof, ProvenExchange, SignedAnswer
from feddcd.sums.roster import Roster, RosterMember

LAYOUT = Layout([
    Slot("value", "sum", ()), Slot("M", "max", (), grid_of(1)), Slot("g", "sum", (3,)),
    Slot("n", "count", (2,)), Slot("nothing", "sum", (0,)),
])  # fmt: skip
CHAINS = {}  # at the beginning of jobs, as they are dear to make
PLAIN = Layout([Slot("g", "sum", (4,)), Slot("n", "count", (3,))])  # nothing random in it


def fixed(*said):
    return hashlib.sha256(repr(said).encode()).digest()


def fixed_keys(name, again=0):
    pair = fixed("signing", name, again), fixed("agreement", name, again)
    return SiteKeys(
        Ed25519PrivateKey.from_private_bytes(pair[0]), X25519PrivateKey.from_private_bytes(pair[1])
    )


class Sites(NamedTuple):
    keys: dict
    roster: Roster

    def job(self, cohort=None, **other):
        values = {
            "plan": {"formula": "y ~ x"}, "agreement": {"levels": {}}, "codebook": "",
            "version": "1", "mode": "sum", "cohort": tuple(cohort or self.roster.names),
            "roster": self.roster.digest.hex(),
        }  # fmt: skip
        return Job(**values | other)

    def nonces(self, job, again=0):
        held = {name: public_half(fixed("nonce", name, again)) for name in job.cohort}
        sign = lambda name, nonce: signing.sign_nonce(self.keys[name].signing, job.digest, nonce)
        return {name: SignedNonce(nonce, sign(name, nonce)) for name, nonce in held.items()}

    def id(self, job, again=0):
        return job_id(job, self.roster, self.nonces(job, again))

    def chain(self, name, identity=b"", number=0, again=0):
        """The keys of one exchange of a job of all."""
        known = self.roster.digest, name, identity, again
        if known not in CHAINS:
            secrets = {other: fixed("nonce", other, again) for other in self.roster.names}
            nonces = {other: public_half(secret) for other, secret in secrets.items()}
            made = begin(self.keys[name], self.roster, identity, nonces, secrets[name])
            CHAINS[known] = made[""]
        return advanced(CHAINS[known], number)

    def answer(self, name, words, layout, cohort, ctx, chain=None):
        chain = chain or self.chain(name)
        return masked(words, layout, chain, name, self.roster, cohort, ctx)

    def exchange(self, job, number, question, values, layout=LAYOUT):
        """Signed answers of the job's cohort; `values` by site."""
        ctx = context(self.roster, job.cohort, self.id(job), number, question)
        answers = {}
        for name in job.cohort:
            words = self.answer(name, layout.encode(values[name]), layout, job.cohort, ctx)
            said = layout.to_bytes(words)
            signature = signing.sign_answer(self.keys[name].signing, ctx, layout.digest, said)
            answers[name] = SignedAnswer(said, signature)
        return ProvenExchange(question, layout, answers)

    def proof(self, exchanges=2, layout=LAYOUT, seed=0):
        job, rng = self.job(), np.random.default_rng(seed)
        made = [
            self.exchange(job, e, b"question %d" % e, some_values(job.cohort, rng, layout), layout)
            for e in range(exchanges)
        ]
        return JobProof(self.roster, job, self.nonces(job), tuple(made))


def sum_sites(n=3):
    keys = {f"site {k}": fixed_keys(k) for k in range(n)}
    roster = Roster(RosterMember.of(name, key) for name, key in keys.items())
    for key in keys.values():
        roster = roster.signed(key)
    return Sites(keys, roster)


def some_values(cohort, rng, layout=LAYOUT):
    draw = {
        "sum": lambda shape: rng.normal(size=shape) * 10.0 ** rng.integers(-9, 9, shape),
        "count": lambda shape: rng.integers(0, 1000, shape).astype(float),
        "max": lambda shape: rng.exponential(size=shape),
    }
    one = lambda: {slot.name: np.asarray(draw[slot.kind](slot.shape)) for slot in layout.slots}
    return {name: one() for name in cohort}
