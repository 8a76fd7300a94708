"""A site in training by sums: its own state, its replica of the server, and what it has sent.

    learn(round) ...  ->  work(question)  ->  save  ->  the masked answer

What was masked for an exchange is kept and sent again byte for byte: a mask must never cover two
texts. Asked anything else for the same exchange, the site refuses.
"""

import hashlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import PyTree

from ..._errors import DataError, Refused
from ..._text import plural
from ..._types import Key, Params
from ...algorithms import AbstractAlgorithm, filled, opened_now, with_parts
from ...problems import AbstractProblem
from ...sums import signing
from ...sums.chain import KeyChain
from ...sums.keys import SiteKeys
from ...sums.masks import context, masked
from ...sums.proof import SignedAnswer
from ..shapes import Shapes
from .client import own_key, unsound
from .masked import (
    Pact,
    Replica,
    Told,
    advance,
    exchange_of,
    flat,
    layout_of,
    mean_from,
    on_grid,
    read_question,
    summed_parts,
)
from .notes import new_notes


class Sent(NamedTuple):
    """A masked answer, and the state of the site if its round is summed."""

    exchange: int
    question: str  # its digest
    answer: SignedAnswer
    state: PyTree | None = None


class MaskedClient(NamedTuple):
    id: str
    state: PyTree
    replica: Replica
    pending: Sent | None = None  # of the latest round
    certificate: Sent | None = None  # of the latest


class Follower(NamedTuple):
    """All that a site computes with, beside its data and its state. `chain` gives the keys of an
    exchange, as long as they are there."""

    algorithm: AbstractAlgorithm
    pact: Pact
    keys: SiteKeys
    like: Shapes
    key: Key
    chain: Callable[[int], KeyChain] | None = None


def new_masked_client(
    algorithm: AbstractAlgorithm, f: AbstractProblem, w: Params, id: str
) -> MaskedClient:
    server = Replica(algorithm.init_server(w), 0, new_notes(algorithm, w))
    return MaskedClient(id, algorithm.init_client(f, w), server)


def learn(own: Follower, client: MaskedClient, told: Told) -> MaskedClient:
    """After a round that is over; what it knows already is passed over."""
    algorithm, pact, _, like, key, _ = own
    if told.round <= client.replica.round:
        return client
    if told.round != client.replica.round + 1:
        raise _older(client, told.round)
    read_question(algorithm, client.replica, key, like.down, told.question)
    cohort, number = pact.cohort(told.round), exchange_of(told.round)
    parts = summed_parts(algorithm, pact, client.replica, like, told.question)
    layout = layout_of(with_parts(like.mean, parts))
    sums = pact.opened(cohort, number, layout, told.question, told.answers)
    replica, answer = advance(algorithm, pact, client.replica, mean_from(like.mean, parts, sums))
    if client.id not in cohort:
        return client._replace(replica=replica)
    pending = client.pending
    if pending is None or pending.exchange != number:
        raise _older(client, told.round)
    if pending.answer != told.answers[client.id]:
        raise Refused(
            f"{client.id}: the message says what this site answered in round {told.round}, but "
            "this differs from the answer that this site sent"
        )
    state = pending.state
    if answer is not None:
        state = algorithm.client_receive(state, answer)
    return client._replace(state=state, replica=replica, pending=None)


def _older(client: MaskedClient, round: int) -> Refused:
    return Refused(
        f"{client.id}: the state file of this site is too old. The file has the state after "
        f"{plural(client.replica.round, 'round')}, but the coordinator is in round {round}. "
        "Somebody restored this site from a backup, or a copy of the site runs elsewhere. Make a "
        "new federation"
    )


def work(own: Follower, f: AbstractProblem, client: MaskedClient, question: bytes) -> MaskedClient:
    """With the masked answer to the question of the next round as `pending`."""
    algorithm, pact, _, like, key, _ = own
    round = client.replica.round + 1
    number, cohort = exchange_of(round), pact.cohort(round)
    if _is_again(client, client.pending, number, question):
        return client
    if round > pact.rounds:
        raise Refused(
            f"{client.id}: the sites agreed on {plural(pact.rounds, 'round')}, so this site "
            "answers no further round"
        )
    if client.id not in cohort:
        raise Refused(f"{client.id} is not in the cohort of round {round}")
    down = read_question(algorithm, client.replica, key, like.down, question)
    mine = own_key(key, np.int32(round - 1), np.int32(pact.members.index(client.id)))
    parts = summed_parts(algorithm, pact, client.replica, like, question)
    state, up = algorithm.client_step(f, client.state, down, mine)
    if bad := unsound(up.value):
        raise Refused(f"{client.id}: the result of this site in round {round} {bad}")
    summed = with_parts(opened_now(up.value), parts)
    try:
        scaled, error = on_grid(summed, pact.part(round, client.id))
    except DataError:
        raise Refused(
            f"{client.id}: the result of this site in round {round} is too large"
        ) from None
    if error is not None:  # what left is what the site goes on with
        state = algorithm.adjusted(state, down, filled(like.mean, error, parts))
    answer = _mask(own, client.id, cohort, number, summed, question, scaled)
    return client._replace(pending=Sent(number, _digest(question), answer, state))


def certify(
    own: Follower,
    client: MaskedClient,
    question: bytes,
    like: PyTree,
    part: Callable[[MaskedClient], PyTree],
) -> MaskedClient:
    """With the masked part of the certificate as `certificate`; all members take part."""
    number = exchange_of(client.replica.round, certificate=True)
    if _is_again(client, client.certificate, number, question):
        return client
    said = part(client)
    if bad := unsound(said):
        raise Refused(f"{client.id}: the part of this site in the certificate {bad}")
    answer = _mask(own, client.id, own.pact.members, number, like, question, flat(said))
    return client._replace(certificate=Sent(number, _digest(question), answer))


def _is_again(client: MaskedClient, sent: Sent | None, number: int, question: bytes) -> bool:
    if sent is None or sent.exchange != number:
        return False
    if sent.question != _digest(question):
        raise Refused(
            f"{client.id}: this site has already answered another question in this exchange"
        )
    return True


def _mask(
    own: Follower,
    id: str,
    cohort: tuple[str, ...],
    number: int,
    like: PyTree,
    question: bytes,
    parts: dict[str, np.ndarray],
) -> SignedAnswer:
    pact, keys = own.pact, own.keys
    if pact.roster.own(keys).name != id:
        raise Refused(f"{id}: this site has the keys of another site")
    if own.chain is None:
        raise Refused(f"{id}: this site does not have the keys for the masks of this job")
    layout = layout_of(like)
    ctx = context(pact.roster, cohort, pact.identity, number, question)
    chain = own.chain(number)
    words = masked(layout.encode(parts), layout, chain, id, pact.roster, cohort, ctx)
    data = layout.to_bytes(words)
    return SignedAnswer(data, signing.sign_answer(keys.signing, ctx, layout.digest, data))


def _digest(question: bytes) -> str:
    return hashlib.sha256(question).hexdigest()
