"""What travels between server and client, and what the server writes down."""

from typing import NamedTuple

from jaxtyping import PyTree


class Refused(ValueError):
    """A message that must not be acted on; the reason is for an administrator."""


class Stamp(NamedTuple):
    """When: a restart of the server begins a new epoch, so a stamp is never used twice."""

    epoch: int
    round: int


NEVER = Stamp(0, 0)


class Commit(NamedTuple):
    """The last round whose sum holds this client's upload, and what that round gave back."""

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


class Started(NamedTuple):
    """The server was started: what was under way before is aborted."""

    epoch: int


class Joined(NamedTuple):
    client: str
    weight: float


class Summed(NamedTuple):
    """A round that was committed. The members' uploads enter in the order of their numbers."""

    stamp: Stamp
    members: tuple[str, ...]
    digests: tuple[str, ...]
    share: float  # of all members' weight
    mean: PyTree


class Retired(NamedTuple):
    """Members left for ever; `total` is the sum of what the others conserve."""

    clients: tuple[str, ...]
    total: PyTree


Record = Started | Joined | Summed | Retired
