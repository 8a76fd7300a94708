"""The coordinator's side of training in sums, on its ledger: a question is written down before it
leaves, and the answers of a whole cohort before anything that follows from them does."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from hashlib import sha256

from jaxtyping import PyTree

from .._errors import Refused
from ..algorithms import no_parts, with_parts
from ..sums.job import SignedNonce
from ..sums.proof import SignedAnswer
from .protocol import Asked, Sealed, Stamp, Summed, Vouched
from .protocol.masked import (
    Pact,
    Replica,
    Told,
    ask,
    exchange_of,
    layout_of,
    mean_from,
    read_answer,
    read_nonce,
    read_pact,
    summed_parts,
    write_answer,
)
from .protocol.server import Server
from .server import LedgerServer, decode

WORD = 8  # bytes


def usual_masked(mean: PyTree) -> int:
    """Bytes of a masked upload without its extra parts."""
    return WORD * layout_of(no_parts(mean)).words


class MaskedServer:
    """`pact` is None until all members are sealed."""

    def __init__(self, server: LedgerServer):
        self.server, self.pact = server, None
        self.nonces: dict[str, SignedNonce] = {}
        self._questions: dict[int, bytes] = {}
        self._stamps: dict[int, Stamp] = {}  # of rounds that are over
        self._certificates: dict[int, bytes] = {}
        self._last: dict[str, int] = {}
        for entry in server.ledger.entries():
            if entry.kind in ("sealed", "asked", "summed"):
                self._note(decode(entry, server.like))
        self.told = lru_cache(maxsize=8)(self._told)

    @property
    def now(self) -> Server:
        return self.server.now

    @property
    def round(self) -> int:
        """The number of rounds that are over."""
        return len(self._stamps)

    @property
    def agreed(self) -> Pact:
        if self.pact is None:
            raise Refused("the sites have not agreed on the training yet")
        return self.pact

    def seal(self, record: Sealed) -> None:
        read_pact(record)  # refuses before anything is written
        self._write(record)

    def question(self) -> bytes:
        """Of the next round: what was asked before, or a new one, written down."""
        round = self.round + 1
        if round not in self._questions:
            replica = Replica(self.now.state, self.round)
            question = ask(self.server.algorithm, replica, self.server.key)
            self._write(Asked(Stamp(self.now.epoch, round), False, question))
        return self._questions[round]

    def parts(self) -> tuple[float, ...]:
        """Of each extra part, how much of the next round's cohort sends it."""
        own, replica = self.server, Replica(self.now.state, self.round, self.now.notes)
        return summed_parts(own.algorithm, self.agreed, replica, own.like, self.question())

    def summed(self) -> PyTree:
        """What the answers of the next round look like."""
        return with_parts(self.server.like.mean, self.parts())

    def commit(
        self, answers: Mapping[str, SignedAnswer], check: Callable[[PyTree], None] = lambda _: None
    ) -> Summed:
        """The next round, with the answers of its whole cohort; `check` may refuse their mean."""
        round, like = self.round + 1, self.server.like.mean
        cohort, question = self.agreed.cohort(round), self.question()
        number, layout = exchange_of(round), layout_of(self.summed())
        sums = self.agreed.opened(cohort, number, layout, question, answers)
        mean = mean_from(like, self.parts(), sums)
        check(mean)
        uploads = {id: write_answer(answers[id]) for id in cohort}
        digests = tuple(sha256(answers[id].words).hexdigest() for id in cohort)
        stamp, share = Stamp(self.now.epoch, round), self.agreed.share(round)
        extra = len(cohort) * (WORD * layout.words - usual_masked(like))
        record = Summed(stamp, cohort, digests, share, mean, extra)
        self._write(record, uploads)
        return record

    def certificate(self, question: bytes) -> bytes:
        """The question for the certificate after the last round, asked again as it was."""
        if self.round not in self._certificates:
            self._write(Asked(Stamp(self.now.epoch, self.round), True, question))
        return self._certificates[self.round]

    def certified(self, answers: Mapping[str, SignedAnswer]) -> None:
        said = {id: write_answer(answer) for id, answer in answers.items()}
        self._write(Vouched(Stamp(self.now.epoch, self.round), said))

    def history(self, client: str) -> list[Told]:
        """What this site may not know yet: the round that it answered last, and all after it."""
        return [self.told(round) for round in range(self._last.get(client, 1), self.round + 1)]

    def _told(self, round: int) -> Told:
        kept = self.server.ledger.uploads(*self._stamps[round])
        return Told(round, self._questions[round], {id: read_answer(x) for id, x in kept.items()})

    def _write(self, record: Sealed | Asked | Summed | Vouched, uploads=None) -> None:
        self.server.write(record, uploads)
        self._note(record)

    def _note(self, record: object) -> None:
        match record:
            case Sealed():
                self.pact = read_pact(record)
                self.nonces = {name: read_nonce(text) for name, text in record.nonces.items()}
            case Asked(stamp, True, question):
                self._certificates[stamp.round] = question
            case Asked(stamp, False, question):
                self._questions[stamp.round] = question
            case Summed(stamp, members):
                self._stamps[stamp.round] = stamp
                self._last |= dict.fromkeys(members, stamp.round)
