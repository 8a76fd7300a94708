"""The durable protocol, without I/O: server and client as pure functions over messages.

Why it holds: each record alone moves its members as the algorithm says; a client differs
from the ledger by at most its one pending round; and a crash falls before or after one
atomic write. So the ledger runs exactly the algorithm, with the cohorts that were committed.
"""

from ..._errors import Refused
from .client import Client, Pending, new_client, resolve, settled, work
from .messages import (
    Commit,
    Founded,
    Joined,
    Record,
    Reply,
    Retired,
    Settle,
    Settled,
    Stamp,
    Started,
    Summed,
    Task,
)
from .server import (
    Guard,
    Member,
    Open,
    Server,
    apply,
    begin,
    close,
    new_server,
    receive,
    retire,
    settle,
)

__all__ = [
    "Client", "Commit", "Founded", "Guard", "Joined", "Member", "Open", "Pending", "Record",
    "Refused", "Reply", "Retired", "Server", "Settle", "Settled", "Stamp", "Started", "Summed",
    "Task", "apply", "begin", "close", "new_client", "new_server", "receive", "resolve", "retire",
    "settle", "settled", "work",
]  # fmt: skip
