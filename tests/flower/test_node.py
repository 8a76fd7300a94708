"""A site's node against a link of this process, which is not always what it should be."""

import socket
import subprocess
import time
from email.utils import formatdate

import httpx
import numpy as np
import pytest

pytest.importorskip("flwr")

from cryptography.hazmat.primitives.asymmetric import ec
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, RecordDict
from flwr.common.serde import message_from_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeResponse,
    PullMessagesResponse,
    PushMessagesRequest,
    PushMessagesResponse,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatResponse
from flwr.proto.message_pb2 import (
    ConfirmMessageReceivedResponse,
    ObjectTree,
    PullObjectRequest,
    PullObjectResponse,
    PushObjectRequest,
    PushObjectResponse,
)
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.run_pb2 import GetRunResponse, Run
from flwr.supercore.task_identity import TaskIdentity

from feddcd._errors import FlowerError
from feddcd.federation.machine.keys import Authority
from feddcd.flower import node
from feddcd.flower._messages import BUNDLE, FEW, unwrap, wrap
from feddcd.flower.answering import Ended, Overrun, _reply, packed
from feddcd.flower.node import SiteNode


class Over(Exception):
    """The link has no more to say."""


class Link:
    """One question; the calls, and the bytes of the reply."""

    def __init__(self, monkeypatch, bundle=BUNDLE, statuses=(), ahead=0.0):
        for name, value in {"run_id": 1, "node_id": 0, "task_id": 1}.items():
            monkeypatch.setattr(TaskIdentity, f"_{name}", value)
        monkeypatch.setattr(node, "SOONEST_S", 0.0)
        monkeypatch.setattr(node, "LATEST_S", 0.0)
        monkeypatch.setattr(node, "HeartbeatSender", lambda beat: Silent())
        self.bundle, self.statuses, self.ahead = bundle, list(statuses), ahead
        self.question = packed(Message(wrap(b"question"), 7, "train"))
        self.tree = ObjectTree.FromString(self.question.tree)
        self.calls, self.pushed, self.reply = [], {}, None
        self.noted, self.said, self.told = [], [], []

    def serve(self, answering):
        key = ec.generate_private_key(ec.SECP384R1())
        authority = Authority.new("test").pem()
        refuse = lambda reason: f"refused: {reason}".encode()
        note = lambda what, story: self.noted.append((what, story))
        tell = lambda *state: self.told.append(state)
        made = SiteNode("host:1", authority, key, answering, refuse, note, self.said.append, tell)
        hooks = made._client._client.event_hooks
        transport = httpx.MockTransport(self.handle)
        made._client._client = httpx.Client(transport=transport, event_hooks=hooks)
        made.serve()

    def handle(self, request):
        call = request.url.path.removeprefix("/v1/fleet/")
        self.calls.append(call)
        date = {"date": formatdate(time.time() - self.ahead, usegmt=True)} if self.ahead else {}
        if self.statuses:
            status = self.statuses.pop(0)
            if status is None:
                raise httpx.ConnectError("nobody there")
            if status != 200:
                return httpx.Response(status, headers=date)
        message = getattr(self, call.replace("-", "_"))(request.content)
        return httpx.Response(200, content=message.SerializeToString())

    def activate_node(self, data):
        return ActivateNodeResponse(node_id=7)

    def deactivate_node(self, data):
        return SendNodeHeartbeatResponse()

    def pull_messages(self, data):
        if self.reply is not None:
            raise Over
        head = ProtoMessage.FromString(self.question.message)
        return PullMessagesResponse(messages_list=[head], message_object_trees=[self.tree])

    def get_run(self, data):
        run = Run(run_id=1, fab_id=self.bundle, fab_version="1.0.0", fab_hash="f" * 64)
        return GetRunResponse(run=run)

    def pull_object(self, data):
        content = self.question.parts[PullObjectRequest.FromString(data).object_id]
        return PullObjectResponse(object_found=True, object_available=True, object_content=content)

    def confirm_message_received(self, data):
        return ConfirmMessageReceivedResponse()

    def push_messages(self, data):
        request = PushMessagesRequest.FromString(data)
        self.reply, self.wanted = request.messages_list[0], request.message_object_trees[0]
        ids = _ids(self.wanted)
        return PushMessagesResponse(objects_to_push=ids, session_id="s")

    def push_object(self, data):
        part = PushObjectRequest.FromString(data)
        self.pushed[part.object_id] = part.object_content
        return PushObjectResponse(stored=True)

    def text(self):
        """What the reply says."""
        from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

        return unwrap(inflate_object_from_contents(self.wanted.object_id, self.pushed))


def _ids(tree):
    return [tree.object_id, *(id for child in tree.children for id in _ids(child))]


class Silent:
    def start(self):
        pass

    def stop(self):
        pass


def echo(id, parts):
    return _reply(id, parts, lambda question: b"answer to " + question)


def raising(error):
    def answering(id, parts):
        raise error

    return answering


def test_a_question_is_answered_by_our_function(monkeypatch):
    link = Link(monkeypatch, statuses=[None, 503, None])
    with pytest.raises(Over):
        link.serve(echo)
    assert link.text() == b"answer to question"
    assert link.noted == []
    away = "host:1: the coordinator is not reachable now (nobody there); this site tries again"
    assert link.said.count(away) == 1, "said once"


def test_a_node_opens_no_port_and_starts_no_program(monkeypatch):
    """Flower's own node has a port, at which any process of the machine could take its tasks."""
    opened = []
    for owner, name in ((socket.socket, "bind"), (socket.socket, "listen"), (subprocess, "Popen")):
        monkeypatch.setattr(owner, name, lambda *a, name=name, **k: opened.append(name))
    link = Link(monkeypatch)
    with pytest.raises(Over):
        link.serve(echo)
    assert link.text() == b"answer to question"
    assert opened == []
    assert not any(call.startswith("/") for call in link.calls), "the fleet's calls alone"


class Torn:
    """Bytes that are no message of Flower's."""

    def SerializeToString(self):
        return b"\xff\xff\xff"


@pytest.mark.parametrize("call", ["pull_object", "confirm_message_received"])
@pytest.mark.parametrize("fault", ["away", "torn"])
def test_a_part_that_does_not_come_whole_does_not_end_the_node(call, fault, monkeypatch):
    link, faults = Link(monkeypatch), [fault] * 2
    honest = getattr(link, call)

    def faulty(data):
        if not faults:
            return honest(data)
        if faults.pop() == "away":
            raise httpx.ReadError("the link was started again")
        return Torn()

    monkeypatch.setattr(link, call, faulty)
    with pytest.raises(Over):
        link.serve(echo)
    assert link.text() == b"answer to question"


@pytest.mark.parametrize(("size", "parts"), [(0, 3), (FEW, 3), (FEW + 1, 5)])
def test_few_bytes_are_one_part_and_all_come_back(size, parts, monkeypatch):
    """Each part is a call of its own: beside our bytes there are the message and its list."""
    link = Link(monkeypatch)
    data = bytes(range(256)) * (size // 256 + 1)
    link.question = packed(Message(wrap(data[:size]), 7, "train"))
    link.tree = ObjectTree.FromString(link.question.tree)
    with pytest.raises(Over):
        link.serve(lambda id, parts: _reply(id, parts, lambda question: question))
    assert link.calls.count("pull-object") == len(link.pushed) == parts
    assert link.text() == data[:size]


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"feddcd": ConfigRecord({"other": b"x"})}),
        RecordDict({"feddcd": ConfigRecord({"packed": "text"})}),
        RecordDict({"feddcd": ArrayRecord({"packed": Array(np.ones(2))})}),
    ],
)
def test_what_is_no_message_of_ours(content, monkeypatch):
    Link(monkeypatch)
    assert unwrap(Message(content, 7, "train")) is None


def test_a_bundle_of_code_is_named_and_not_fetched(monkeypatch):
    link = Link(monkeypatch, "outsider/\x1b[31mhostile")
    with pytest.raises(Over):
        link.serve(echo)
    ((what, story),) = link.noted
    assert what == "a run contained code; this site did not download or run this code"
    assert "the code outsider/\\x1b[31mhostile 1.0.0, sha256 fff" in story
    assert "get-fab" not in link.calls
    assert link.text() == b"answer to question", "by the package of this machine, as ever"


@pytest.mark.parametrize("error", [Overrun("it would take longer than 3 s"), Ended("killed")])
def test_a_question_that_cannot_be_answered(error, monkeypatch):
    link = Link(monkeypatch)
    with pytest.raises(Over):
        link.serve(raising(error))
    if isinstance(error, Overrun):
        assert link.text() == b"refused: it would take longer than 3 s"
        assert link.noted == [("this site did not answer a question", str(error))]
    else:  # it may work the next time
        assert message_from_proto(link.reply).has_error()


@pytest.mark.parametrize("limit", ["LARGEST", "PARTS"])
def test_a_question_that_is_too_large_is_not_read(limit, monkeypatch):
    link = Link(monkeypatch)
    monkeypatch.setattr(node, limit, 2)
    with pytest.raises(Over):
        link.serve(raising(AssertionError("it was read")))
    assert link.text().startswith(b"refused: the question has ")


class Babbler(Link):
    """Says what cannot be read, and then a question."""

    def __init__(self, monkeypatch, *babble):
        super().__init__(monkeypatch)
        self.babble = list(babble)

    def handle(self, request):
        said = self.babble.pop(0) if self.babble and "pull-messages" in request.url.path else None
        return super().handle(request) if said is None else httpx.Response(200, content=said)


def test_a_message_that_cannot_be_read_is_passed_by(monkeypatch):
    """The node goes on, and its log is not filled."""
    empty, tree = ProtoMessage(), ObjectTree()
    bad = [
        PullMessagesResponse(messages_list=[empty]),
        PullMessagesResponse(messages_list=[empty], message_object_trees=[tree]),
        PullMessagesResponse(messages_list=[empty], message_object_trees=[tree, tree]),
    ]
    link = Babbler(monkeypatch, *(one.SerializeToString() for one in bad * 3), b"\xff\xff")
    with pytest.raises(Over):
        link.serve(echo)
    assert link.text() == b"answer to question"
    told = [said for said in link.said if "could not read a message" in said]
    assert len(told) == len(link.noted) == node.UNREAD
    assert "has 1 message, but 0 lists of parts" in told[0]


def test_a_coordinator_that_restarts_is_no_alarm(monkeypatch):
    """It forgets its nodes, and takes a while to learn their keys: the node connects again."""
    link = Link(monkeypatch, statuses=[200, None, 401, 200, 409, 409])
    with pytest.raises(Over):
        link.serve(echo)
    assert link.text() == b"answer to question"
    assert link.noted == []
    restarted, accepted = node.RESTARTED, "host:1 accepted this site as node 7"
    assert link.said[:4] == [
        accepted,
        "host:1: the coordinator is not reachable now (nobody there); this site tries again",
        restarted,
        accepted,
    ]
    assert not any("ERROR" in said or "not accept" in said for said in link.said)
    assert {why for _, why in link.told} == {
        "", restarted, "the coordinator is not reachable now (nobody there); this site tries again"
    }  # fmt: skip
    monkeypatch.setattr(node, "PATIENCE_S", 0.0)  # but for ever it is one
    with pytest.raises(FlowerError, match="does not know the key of this site"):
        Link(monkeypatch, statuses=[200, 401, *[409] * 100]).serve(echo)


def test_why_a_site_is_not_let_in(monkeypatch):
    off = Link(monkeypatch, statuses=[401], ahead=4000)
    clock = "host:1 does not accept this site: this machine's clock is (3999|400.) s ahead of"
    with pytest.raises(FlowerError, match=clock):
        off.serve(echo)
    with pytest.raises(
        FlowerError, match=r"the coordinator does not know this site \(its key or its number\)"
    ):
        Link(monkeypatch, statuses=[401]).serve(echo)
    with pytest.raises(Over):  # a node of this site was killed just now
        Link(monkeypatch, statuses=[409, 409]).serve(echo)
    monkeypatch.setattr(node, "PATIENCE_S", 0.0)
    with pytest.raises(FlowerError, match="does not know the key of this site"):
        Link(monkeypatch, statuses=[409] * 100).serve(echo)
