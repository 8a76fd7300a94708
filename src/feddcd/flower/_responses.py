"""What a node looks at in each answer of the link: its date, its size, its form."""

import time
from collections.abc import Callable
from contextlib import suppress
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar

import httpx
from flwr.app import Message
from flwr.common.constant import SYSTEM_TIME_TOLERANCE, TIMESTAMP_TOLERANCE
from flwr.common.serde import message_from_proto
from flwr.proto.fleet_pb2 import PullMessagesResponse
from flwr.proto.message_pb2 import ObjectTree
from flwr.supercore.error import FlowerError

from .. import _errors
from .._text import plural, printable

LARGEST = 256 << 20  # bytes of one message
UNKNOWN = (
    "the coordinator does not know the key of this site, perhaps because nobody has confirmed "
    "this site yet. Or another program is connected with the same key"
)
RESTARTED = (
    "the coordinator has probably restarted and does not know this site yet; this site connects "
    "again by itself"
)
Made = TypeVar("Made")


class Malformed(_errors.FlowerError):
    """The link said what cannot be read."""


class Forgotten(_errors.FlowerError):
    """The link let this node in, and does not know it any more: as one that started again."""


class TooLarge(Exception):
    """More than is taken."""


class Clock:
    """How far this machine's clock is from the coordinator's, from the dates of its answers."""

    def __init__(self, now: Callable[[], float] = time.time):
        self._now, self.ahead = now, 0.0

    def __call__(self, response: httpx.Response) -> None:
        with suppress(KeyError, TypeError, ValueError):
            told = parsedate_to_datetime(response.headers["date"]).timestamp()
            self.ahead = self._now() - told - 0.5  # a date has whole seconds

    def problem(self) -> str:
        """In plain words; empty if a site with this clock is let in."""
        fast, slow = SYSTEM_TIME_TOLERANCE, TIMESTAMP_TOLERANCE + SYSTEM_TIME_TOLERANCE
        if -slow + 1 < self.ahead < fast - 1:
            return ""
        off = f"{abs(self.ahead):.0f} s {'ahead of' if self.ahead > 0 else 'behind'}"
        return (
            f"this machine's clock is {off} the coordinator's clock. The clock of a site may be "
            f"at most {fast} s ahead and {slow} s behind. Set both clocks, for example with NTP"
        )


def bound(response: httpx.Response, largest: int = LARGEST) -> None:
    """Stops reading an answer that is too large, or packed."""
    if response.headers.get("content-encoding", "identity") != "identity":
        raise httpx.DecodingError(
            "the SuperLink sent a compressed answer, and this site does not read "
            "compressed answers",
            request=response.request,
        )
    response.stream = _Bounded(response.stream, largest)


class _Bounded(httpx.SyncByteStream):
    def __init__(self, stream: Any, left: int):
        self._stream, self._left = stream, left

    def __iter__(self):
        for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise TooLarge("an answer of the SuperLink is too large")
            yield chunk

    def close(self) -> None:
        self._stream.close()


def first_message(pulled: PullMessagesResponse) -> tuple[Message, ObjectTree]:
    heads, trees = pulled.messages_list, pulled.message_object_trees
    if len(heads) != len(trees):
        raise Malformed(
            f"the answer of the SuperLink has {plural(len(heads), 'message')}, but "
            f"{plural(len(trees), 'list')} of parts; each message needs one list"
        )
    return read_plain(message_from_proto, heads[0]), trees[0]


def read_plain(read: Callable[[Any], Made], plain: Any) -> Made:
    try:
        return read(plain)
    except Exception as error:  # of Flower's own, whatever a stranger made of its fields
        raise Malformed(f"{type(error).__name__}: {error}") from error


def reason_of(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        said = FlowerError.from_json(error.response.text)
        return printable(str(said or error)[:300])
    return printable(str(error)[:300])
