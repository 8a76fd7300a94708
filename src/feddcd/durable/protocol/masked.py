"""Training in sums, without I/O: everybody follows the same server, and nobody sees one upload.

    cohort of round t = the first tau members in the order of SHA256(job, t, name)
    question          = what the server sends in round t, as bytes
    site i            Y_i = masked(p_i value_i), signed, with p_i its part of the cohort's weight
    everybody         mean = sum_i Y_i,    server = server_step(server, mean, share)

A round is never given up and never drawn again: two sums of nearly the same sites would differ by
what one of them sent. So there is no stamp but the number of the round, and a site that was away
learns the rounds it missed, with what proves them, before it answers the next.
"""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PyTree

from ... import tree
from ..._errors import Refused
from ..._types import Key
from ...algorithms import AbstractAlgorithm, filled, with_parts
from ...participation import broadcast_key
from ...sums import ring
from ...sums.job import NONCE, Job, SignedNonce, job_id
from ...sums.layout import Layout, Slot
from ...sums.masks import context
from ...sums.proof import ProvenExchange, SignedAnswer, check_exchange
from ...sums.roster import FEWEST, Roster
from ...sums.signing import SIGNATURE, verify_answer
from ..codec import pack, unpack
from ..shapes import Shapes
from . import Sealed
from .notes import Notes, after_round, asked_parts, recalled

ROUND, CERTIFICATE = CHAINS = ("round", "certificate")
Answers = Mapping[str, SignedAnswer]
_down_key = jax.jit(broadcast_key)


class Pact(NamedTuple):
    """What the members agreed on when they were sealed to one another; nothing of it changes."""

    job: Job
    roster: Roster
    identity: bytes  # of the job, with a nonce of each member in it
    weights: Mapping[str, float]
    tau: int
    rounds: int  # no more are answered
    nonces: Mapping[str, bytes]

    @property
    def members(self) -> tuple[str, ...]:
        return self.job.cohort

    def cohort(self, round: int) -> tuple[str, ...]:
        """Nobody chooses it: the job's name holds a nonce of each member. In the members' order."""
        place = lambda name: hashlib.sha256(b"%b%d %b" % (self.identity, round, name.encode()))
        drawn = sorted(self.members, key=lambda name: place(name).digest())
        return tuple(sorted(drawn[: self.tau]))

    def part(self, round: int, client: str) -> float:
        """Of the cohort's weight."""
        return self.weights[client] / self._weight(self.cohort(round))

    def share(self, round: int) -> float:
        return self._weight(self.cohort(round)) / self._weight(self.members)

    def _weight(self, names: tuple[str, ...]) -> float:
        return math.fsum(self.weights[name] for name in names)  # the same in any order

    def check_answer(
        self,
        cohort: tuple[str, ...],
        number: int,
        layout: Layout,
        question: bytes,
        client: str,
        answer: SignedAnswer,
    ) -> None:
        """Refused unless this member signed it as its answer to this question."""
        layout.from_bytes(answer.words)
        ctx = context(self.roster, cohort, self.identity, number, question)
        key = self.roster[client].signing
        verify_answer(key, ctx, layout.digest, *answer)

    def opened(
        self, cohort: tuple[str, ...], number: int, layout: Layout, question: bytes, said: Answers
    ) -> dict[str, np.ndarray]:
        """The sum of what the whole cohort signed as its answer to this question."""
        exchange = ProvenExchange(question, layout, said)
        own = replace(self.job, cohort=cohort)
        sums = check_exchange(self.roster, own, self.identity, number, exchange)
        if not all(np.isfinite(x).all() for x in sums.values()):
            raise Refused(
                f"exchange {number}: one of the sites {', '.join(cohort)} could not "
                "compute its part of the sum"
            )
        return sums


def seal(job: Job, roster: Roster, nonces: Mapping[str, SignedNonce]) -> Pact:
    """The pact of all who signed a nonce for this job; its `agreement` says the rest."""
    identity, said = job_id(job, roster, nonces), job.agreement
    weights, tau, rounds = said.get("weights"), said.get("tau"), said.get("rounds")
    if not isinstance(weights, dict) or set(weights) != set(job.cohort):
        raise Refused("the job must give a weight for each of its sites, and for no other site")
    if not all(type(x) is float and 0 < x < math.inf for x in weights.values()):
        raise Refused("the weight of a site must be a number above 0")
    if type(tau) is not int or type(rounds) is not int or rounds < 1:
        raise Refused("the job must say how many sites a cohort has, and how many rounds there are")
    if not FEWEST <= tau <= len(job.cohort):
        most = len(job.cohort)
        told = f"in this job, a cohort must have {FEWEST} to {most} sites"
        raise Refused(f"{told}, but tau (the number of sites in a round) is {tau}")
    given = {name: nonces[name].nonce for name in job.cohort}
    return Pact(job, roster, identity, weights, tau, rounds, given)


def read_pact(record: Sealed) -> Pact:
    roster = Roster.from_json(record.roster.encode()).check()
    nonces = {name: read_nonce(text) for name, text in record.nonces.items()}
    return seal(Job.from_json(record.job.encode()), roster, nonces)


def write_nonce(signed: SignedNonce) -> str:
    return (signed.nonce + signed.signature).hex()


def read_nonce(text: str) -> SignedNonce:
    try:
        data = bytes.fromhex(text)
    except (TypeError, ValueError):
        raise Refused("a nonce (a random number of a site) in the message cannot be read") from None
    return SignedNonce(data[:NONCE], data[NONCE:])


def write_answer(answer: SignedAnswer) -> bytes:
    return answer.words + answer.signature


def read_answer(data: bytes) -> SignedAnswer:
    return SignedAnswer(data[:-SIGNATURE], data[-SIGNATURE:])


class Replica(NamedTuple):
    """The server after this number of rounds: the same at the coordinator and at every site."""

    state: PyTree
    round: int
    notes: Notes | None = None


class Told(NamedTuple):
    """A round that is over, with what proves its sum."""

    round: int
    question: bytes
    answers: Answers


def exchange_of(round: int, *, certificate: bool = False) -> int:
    """The number under which masks are made: never the same for two questions."""
    return 2 * round + certificate


def chain_of(exchange: int) -> tuple[str, int]:
    """Of whom an exchange uses keys, and which keys: rounds and certificates are counted apart, as
    a certificate may be asked for after the next round has begun."""
    round, certificate = divmod(exchange, 2)
    return CHAINS[certificate], round


def layout_of(like: PyTree) -> Layout:
    """One sum for each array."""
    shapes = zip(_names(like), jax.tree.leaves(like), strict=True)
    return _layout(tuple((name, tuple(leaf.shape)) for name, leaf in shapes))


def _names(like: PyTree) -> tuple[str, ...]:
    structure = jax.tree.structure(like)
    return tuple(tree.flatten(structure.unflatten(range(structure.num_leaves))))


@lru_cache
def _layout(shapes: tuple[tuple[str, tuple[int, ...]], ...]) -> Layout:
    return Layout(Slot(name or "value", "sum", shape) for name, shape in shapes)


def flat(x: PyTree) -> dict[str, np.ndarray]:
    """The parts of an answer by the names of its layout."""
    return {name or "value": array for name, array in tree.flatten(x).items()}


def unflat(like: PyTree, sums: Mapping[str, np.ndarray]) -> PyTree:
    """Opened sums as a tree, in the precision of `like`."""
    named = zip(_names(like), jax.tree.leaves(like), strict=True)
    return tree.restore(like, {n: np.asarray(sums[n or "value"], x.dtype) for n, x in named})


def on_grid(value: PyTree, part: float) -> tuple[dict[str, np.ndarray], PyTree | None]:
    """`part` times the value for a layout, and what rounding to the ring's grid adds to the value:
    None where that is nothing, as for all numbers of ordinary size."""
    scaled, errors = {}, {}
    for name, x in tree.flatten(value).items():
        product = part * np.asarray(x, np.float64)
        held = ring.decode(ring.encode(product)).reshape(product.shape)
        scaled[name or "value"] = held
        error = np.where(held == product, 0.0, held / part - x)
        errors[name] = error.astype(x.dtype)
    if not any(error.any() for error in errors.values()):
        return scaled, None
    return scaled, tree.restore(value, errors)


def summed_parts(
    algorithm: AbstractAlgorithm, pact: Pact, replica: Replica, like: Shapes, question: bytes
) -> tuple[float, ...]:
    """Of each extra part, how much of the next round's cohort sends it: all or nothing of it. Masks
    hide a site among those who send; so nobody is addressed apart, and a part that only some of
    the cohort would send is refused."""
    down, cohort = tree.restore(like.down, unpack(question)[1]), pact.cohort(replica.round + 1)
    sent = {asked_parts(algorithm, replica.notes, id, down) for id in cohort}
    if len(sent) > 1:
        raise Refused(
            "in this round, one part of the upload would come from only some sites of the cohort. "
            "In mode 'sum', all sites of a cohort must send the same parts. Remove tau from the "
            "settings: in mode 'sum', this method needs every site in every round"
        )
    return tuple(float(there) for there in sent.pop())


def mean_from(like: PyTree, parts: tuple[float, ...], sums: Mapping[str, np.ndarray]) -> PyTree:
    """The mean of a round's uploads, from its opened sums."""
    return filled(like, unflat(with_parts(like, parts), sums), parts)


def ask(algorithm: AbstractAlgorithm, replica: Replica, key: Key) -> bytes:
    """The question of the next round."""
    down = next_down(algorithm, replica, key)
    return pack({"round": replica.round + 1}, tree.flatten(down))


def next_down(algorithm: AbstractAlgorithm, replica: Replica, key: Key) -> PyTree:
    # the simulator counts rounds from 0: the same key there
    return algorithm.broadcast(replica.state, _down_key(key, np.int32(replica.round)))


def read_question(
    algorithm: AbstractAlgorithm, replica: Replica, key: Key, like: PyTree, question: bytes
) -> PyTree:
    """What the server sends in the next round; refused unless it follows from the sums before."""
    meta, arrays = unpack(question)
    if meta != {"round": replica.round + 1}:
        raise Refused(f"the message does not have the question of round {replica.round + 1}")
    asked = tree.restore(like, arrays)
    check_follows(next_down(algorithm, replica, key), asked, algorithm.model(replica.state))
    return asked


def check_follows(own: PyTree, asked: PyTree, model: PyTree) -> None:
    """Up to rounding: other processors round the last bits of a step differently, and such
    differences add up over rounds."""
    size = max(float(np.max(np.abs(x), initial=0.0)) for x in tree.flatten(model).values())
    for (name, mine), theirs in zip(
        tree.flatten(own).items(), tree.flatten(asked).values(), strict=True
    ):
        if mine.dtype.kind != "f":
            close = np.array_equal(mine, theirs)
        else:
            scale = max(size, float(np.max(np.abs(mine), initial=0.0)))
            most = math.sqrt(np.finfo(mine.dtype).eps) * scale
            # of nan and infinity nothing follows: any number would be near enough
            close = math.isfinite(most) and bool(np.all(np.abs(mine - theirs) <= most))
        if not close:
            raise Refused(
                "the coordinator's question disagrees with the sums of the earlier "
                f"rounds: in the part {name or 'value'!r}, this site computed other numbers"
            )


def advance(
    algorithm: AbstractAlgorithm, pact: Pact, replica: Replica, mean: PyTree
) -> tuple[Replica, PyTree]:
    """The server after the next round."""
    before, round, notes = replica.state, replica.round + 1, replica.notes
    cohort, share = pact.cohort(round), jnp.asarray(pact.share(round))
    weights = [pact.weights[name] for name in cohort]
    heard = recalled(algorithm, before, notes, mean, cohort, weights)
    state, answer = algorithm.server_step(before, heard, share)
    return Replica(state, round, after_round(algorithm, before, notes, round, cohort, ())), answer
