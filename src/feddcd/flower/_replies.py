"""How the coordinator takes in what sites send: part by part, without waiting for any of them.

Flower's own grid waits up to two hours for the parts of one reply, takes as many bytes as come, and
raises what a reply makes it raise. So one site could stop all others, or the coordinator.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

import httpx
from flwr.app import Message, Metadata
from flwr.app.message import make_message
from flwr.proto.message_pb2 import ConfirmMessageReceivedRequest, PullObjectRequest
from flwr.proto.runtime_pb2 import PullAppMessagesRequest
from flwr.supercore.constant import SYSTEM_MESSAGE_TYPE
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.superlink.grid import HttpGrid

from ._messages import wrap

MOST_BYTES = 1 << 30  # of one reply
MOST_PARTS = 1000
UNREADABLE = b"?"  # is given for a reply that is none: who reads it refuses it by the site's name


class Arriving(NamedTuple):
    """A reply with parts that are not there yet."""

    id: str
    reply_to: str
    wanted: list[str]
    parts: dict[str, bytes]


class RepliesGrid(HttpGrid):
    """Flower's, with its own way to pull messages."""

    def __init__(self, *args: Any, **how: Any):
        super().__init__(*args, **how)
        self._arriving: dict[str, Arriving] = {}  # by the message that is replied to

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        """The replies that are whole, as far as they are replies to these."""
        ids = list(message_ids)
        self._arriving = {id: each for id, each in self._arriving.items() if id in ids}
        self._look([id for id in ids if id not in self._arriving])
        whole = []
        for id, each in list(self._arriving.items()):
            if (message := self._whole(each)) is not None:
                del self._arriving[id]
                whole.append(message)
        return whole

    def _look(self, ids: list[str]) -> None:
        """Which replies there are; one that the link cannot give does not hide the others."""
        if not ids:
            return
        try:
            found = self._runtime_client.PullMessages(PullAppMessagesRequest(message_ids=ids))
        except httpx.HTTPStatusError as error:
            if error.response.status_code < 500:
                raise
            for half in (ids[: len(ids) // 2], ids[len(ids) // 2 :]) if len(ids) > 1 else ():
                self._look(half)
            return
        trees = found.message_object_trees
        for head, tree in zip(found.messages_list, trees, strict=False):
            own, reply_to = head.metadata.message_id, head.metadata.reply_to_message_id
            if reply_to in ids:
                wanted = list(dict.fromkeys(part.object_id for part in iterate_object_tree(tree)))
                self._arriving[reply_to] = Arriving(own, reply_to, wanted, {})

    def _whole(self, each: Arriving) -> Message | None:
        """The reply; None while parts of it are on their way."""
        size = sum(map(len, each.parts.values()))
        for id in each.wanted if len(each.wanted) <= MOST_PARTS else ():
            if id in each.parts:
                continue
            request = PullObjectRequest(node=self.node, run_id=self._run_id, object_id=id)
            part = self._runtime_client.PullObject(request)
            if part.object_found and not part.object_available:
                return None
            size += len(part.object_content)
            if not part.object_found or size > MOST_BYTES:
                break
            each.parts[id] = part.object_content
        self._runtime_client.ConfirmMessageReceived(
            ConfirmMessageReceivedRequest(
                node=self.node, run_id=self._run_id, message_object_id=each.id
            )
        )
        return self._read(each) if len(each.parts) == len(each.wanted) else self._none(each)

    def _read(self, each: Arriving) -> Message:
        try:
            message = inflate_object_from_contents(each.id, each.parts)
            if not isinstance(message, Message):
                return self._none(each)
            message.metadata.__dict__["_message_id"] = each.id
            message.metadata.__dict__["_reply_to_message_id"] = each.reply_to
            return message
        except Exception:  # of Flower's own, whatever a stranger made of its parts
            return self._none(each)

    def _none(self, each: Arriving) -> Message:
        own = self.node.node_id
        metadata = Metadata(
            run_id=self._run_id, message_id=each.id, src_node_id=own, dst_node_id=own,
            message_type=SYSTEM_MESSAGE_TYPE, group_id="", ttl=0.0, created_at=0.0,
            reply_to_message_id=each.reply_to,
        )  # fmt: skip
        return make_message(metadata, content=wrap(UNREADABLE))

    @property
    def _run_id(self) -> int:
        assert self._run is not None
        return self._run.run_id
