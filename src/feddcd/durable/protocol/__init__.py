"""The durable protocol, without I/O: server and client as pure functions over messages.

Why it holds: each record alone moves its members as the algorithm says; a client differs
from the ledger by at most its one pending round; and a crash falls before or after one
atomic write. So the ledger runs exactly the algorithm, with the cohorts that were committed.

Here is what travels between server and client, and what the server writes down.
"""

from typing import Any, NamedTuple

from jaxtyping import PyTree


class Stamp(NamedTuple):
    """When: a restart of the server begins a new epoch, so a stamp is never used twice."""

    epoch: int
    round: int

    def __str__(self) -> str:
        """For messages."""
        return f"round {self.round} (after start number {self.epoch} of the coordinator)"


NEVER = Stamp(0, 0)


class Commit(NamedTuple):
    """The last round with this client's upload in its sum, and what that round gave back."""

    stamp: Stamp
    digest: str  # of the upload
    answer: PyTree


class Task(NamedTuple):
    """Work for one client. Whatever it has pending and is not `commit` was aborted."""

    client: str
    number: int  # the client's place in the order of sums, and in the keys
    stamp: Stamp
    down: PyTree
    commit: Commit | None


class Settle(NamedTuple):
    """The outcome alone, when no more work follows."""

    client: str
    stamp: Stamp
    down: PyTree
    commit: Commit | None


class Reply(NamedTuple):
    client: str
    incarnation: int
    stamp: Stamp
    value: PyTree
    digest: str


class Settled(NamedTuple):
    """`conserved` is what must sum to zero, or to what the server holds, over all members."""

    client: str
    incarnation: int
    stamp: Stamp
    conserved: PyTree


class Founded(NamedTuple):
    """What was agreed in the beginning, in the words of who built it; the first record."""

    terms: dict[str, Any]


class Started(NamedTuple):
    """The server was started: what was under way before is aborted."""

    epoch: int


class Joined(NamedTuple):
    client: str
    weight: float
    rows: int = 0  # of its data, where that matters


class Summed(NamedTuple):
    """A round that was committed. The members' uploads enter in the order of their numbers."""

    stamp: Stamp
    members: tuple[str, ...]
    digests: tuple[str, ...]
    share: float  # of all members' weight
    mean: PyTree
    extra: int = 0  # bytes of what only some of the uploads had
    sent: tuple[PyTree, ...] = ()  # the uploads, where the server's notes follow from them


class Retired(NamedTuple):
    """Members left; `total` is the sum of what the others conserve. Who is barred stays out."""

    clients: tuple[str, ...]
    total: PyTree
    barred: bool = False


class Sealed(NamedTuple):
    """All members at once, for training in sums: the job, and the nonces that they signed."""

    members: tuple[tuple[str, float, int], ...]  # name, weight, rows
    roster: str
    job: str
    nonces: dict[str, str]  # with their signatures, in hex


class Asked(NamedTuple):
    """A question of training in sums, written down before it leaves: it is asked again as it is."""

    stamp: Stamp
    certificate: bool
    question: bytes


class Vouched(NamedTuple):
    """What all members answered to the question for the certificate, masked and signed."""

    stamp: Stamp
    answers: dict[str, bytes]


Record = Founded | Started | Joined | Summed | Retired | Sealed | Asked | Vouched
