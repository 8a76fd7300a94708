"""What the coordinator makes of replies: one site does not keep it from those of the others."""

import hashlib
from types import SimpleNamespace

import httpx
import pytest

pytest.importorskip("flwr")

from flwr.app import ConfigRecord, Message
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.message_pb2 import ObjectTree, PullObjectResponse
from flwr.proto.runtime_pb2 import PullAppMessagesResponse
from flwr.supercore.task_identity import TaskIdentity

from feddcd.flower import FlowerExchange, _messages, _replies
from feddcd.flower._messages import unwrap, wrap
from feddcd.flower._replies import UNREADABLE, RepliesGrid
from feddcd.flower.answering import packed


class Link:
    """Of a SuperLink what the coordinator asks of it; replies by the message replied to."""

    def __init__(self):
        self.replies, self.objects, self.confirmed, self.broken = {}, {}, [], set()

    def take(self, reply_to, said, missing=()):
        head, tree = ProtoMessage.FromString(said.message), ObjectTree.FromString(said.tree)
        head.metadata.reply_to_message_id = reply_to
        head.metadata.message_id = tree.object_id
        self.replies[reply_to] = head, tree
        self.objects |= {id: None if id in missing else part for id, part in said.parts.items()}

    def PullMessages(self, request):
        ids = [id for id in request.message_ids if id in self.replies]
        if self.broken & set(ids):
            response = httpx.Response(500, request=httpx.Request("POST", "https://link"))
            raise httpx.HTTPStatusError("broken", request=response.request, response=response)
        pairs = [self.replies.pop(id) for id in ids]  # once
        heads, trees = zip(*pairs, strict=True) if pairs else ((), ())
        return PullAppMessagesResponse(messages_list=heads, message_object_trees=trees)

    def PullObject(self, request):
        known = request.object_id in self.objects
        part = self.objects.get(request.object_id)
        there = part is not None
        return PullObjectResponse(
            object_found=known, object_available=there, object_content=part or b""
        )

    def ConfirmMessageReceived(self, request):
        self.confirmed.append(request.message_object_id)


@pytest.fixture(autouse=True)
def task(monkeypatch):
    for name in ("run_id", "node_id", "task_id"):
        monkeypatch.setattr(TaskIdentity, f"_{name}", 3, raising=False)


@pytest.fixture
def link():
    return Link()


@pytest.fixture
def grid(link):
    made = RepliesGrid("127.0.0.1:1", True, token="t")
    made._client = link
    made._run = SimpleNamespace(run_id=3)
    return made


def reply(data: bytes):
    return packed(Message(wrap(data), 7, "train"))


def forged(content: bytes):
    """A reply of one part, of whatever bytes."""
    id = hashlib.sha256(content).hexdigest()
    head, tree = ProtoMessage(), ObjectTree(object_id=id)
    return SimpleNamespace(
        message=head.SerializeToString(), tree=tree.SerializeToString(), parts={id: content}
    )


def heard(grid, *ids):
    return {m.metadata.reply_to_message_id: unwrap(m) for m in grid.pull_messages(ids)}


def test_a_reply_of_one_part_or_of_many_is_read(grid, link):
    large = bytes(range(256)) * 5000  # above `FEW`: an array
    assert len(large) > _messages.FEW
    link.take("a", reply(b"small"))
    link.take("b", reply(large))
    assert heard(grid, "a", "b", "c") == {"a": b"small", "b": large}
    assert len(link.confirmed) == 2
    assert heard(grid, "c") == {}


def test_nobody_waits_for_parts_that_do_not_come(grid, link):
    """Flower's own grid would, for up to two hours."""
    late = reply(b"late")
    held = list(late.parts)[-1]
    link.take("slow", late, missing=[held])
    link.take("b", reply(b"hello"))
    assert heard(grid, "slow", "b") == {"b": b"hello"}
    assert heard(grid, "slow") == {}
    link.objects[held] = late.parts[held]
    assert heard(grid, "slow") == {"slow": b"late"}
    link.take("gone", late, missing=[held])
    assert heard(grid, "gone") == heard(grid, "other") == heard(grid, "gone") == {}, "forgotten"


def test_what_is_no_reply_is_named_and_stops_nobody(grid, link, monkeypatch):
    record = ConfigRecord({"packed": b"x"}).deflate()
    whole = reply(b"hi")
    first = next(iter(whole.parts.values()))
    for content in (b"", b"?", record, b"Evil 0 5\x00abcde", b"Message 9999 3\x00abc", first[:-1]):
        link.take("bad", forged(content))
        link.take("good", reply(b"hello"))
        assert heard(grid, "bad", "good") == {"bad": UNREADABLE, "good": b"hello"}
    link.take("bad", reply(b"larger"))
    monkeypatch.setattr(_replies, "MOST_BYTES", 20)
    assert heard(grid, "bad") == {"bad": UNREADABLE}
    monkeypatch.setattr(_replies, "MOST_PARTS", 1)
    link.take("bad", reply(b"more"))
    assert heard(grid, "bad") == {"bad": UNREADABLE}
    assert len(link.confirmed) == 2 * 6 + 2, "nothing of it stays at the link"


def test_what_the_link_cannot_give_hides_no_other(grid, link):
    for id in "abcde":
        link.take(id, reply(id.encode()))
    link.broken = {"d"}
    assert heard(grid, *"abcde") == {id: id.encode() for id in "abce"}


def test_an_array_larger_than_memory_is_no_message():
    """The head of an array says how large it is, and is believed before anything is read."""
    content = wrap(bytes(_messages.FEW + 1))
    array = content.array_records["feddcd"]["packed"]
    array.data = array.data.replace(b"(1048577,)", b"(%d,)" % 10**16).ljust(len(array.data))
    assert unwrap(Message(content, 7, "train")) is None


def test_a_reply_that_is_none_is_an_answer_of_its_site(grid, link):
    asked = []

    def push(messages):
        asked.extend(messages)
        link.take("first", forged(b"?"))
        return ["first"]

    grid.push_messages = push
    said = dict(FlowerExchange(grid).ask({7: b"question"}, 5.0, True, lambda: False))
    assert said == {7: UNREADABLE}
