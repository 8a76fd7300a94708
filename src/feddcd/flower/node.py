"""A site's node: takes messages from the SuperLink and answers them with a function of ours.

It stands in the place of Flower's SuperNode, which would fetch the run's bundle and import it.
Here no bundle is ever asked for, no program of Flower is started, and no port is opened.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from typing import Any, TypeVar

import httpx
from flwr.app import Error, Message
from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL, ErrorCode
from flwr.common.serde import message_from_proto, run_from_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PullMessagesResponse,
    PushMessagesRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.node_pb2 import Node
from flwr.proto.run_pb2 import GetRunRequest
from flwr.supercore.error import FlowerError
from flwr.supercore.heartbeat import HeartbeatSender
from flwr.supercore.inflatable.inflatable_object import iterate_object_tree
from flwr.supercore.inflatable.inflatable_protobuf_utils import (
    make_confirm_message_received_fn_protobuf,
    make_pull_object_fn_protobuf,
    make_push_object_fn_protobuf,
)
from flwr.supercore.inflatable.inflatable_utils import (
    ObjectPullError,
    ObjectPushError,
    pull_objects,
    push_object_contents_from_iterable,
)
from flwr.supercore.interceptors.http.runtime_version import RuntimeVersionHttpInterceptor
from flwr.supercore.primitives.asymmetric import public_key_to_bytes
from flwr.supernode.fleet_http_client import FleetHttpClient
from flwr.supernode.node_auth_http_interceptor import NodeAuthHttpInterceptor

from .. import _errors
from .._pace import LinePace
from .._text import printable
from ._messages import BUNDLE, wrap
from ._responses import LARGEST, Clock, TooLarge, bound
from .answering import Ended, Overrun, Packed, packed

UNREAD = 3  # lines in a minute about messages that cannot be read
PARTS = 10_000  # of one message
SOONEST_S, LATEST_S = 0.2, 2.0  # between two looks for a message
UNKNOWN = (
    "the coordinator does not know the key of this site (perhaps nobody confirmed this site yet), "
    "or another program uses this key"
)
PATIENCE_S = 30.0  # until a node that is not let in gives up
Say = Callable[[str], None]
Answerer = Callable[[str, dict[str, bytes]], Packed]
Made = TypeVar("Made")


class Malformed(_errors.FlowerError):
    """The link said what cannot be read."""


class SiteNode:
    """`refuse` makes the answer to a question that cannot be answered here; `note` writes to the
    site's own log; `tell` hears how it stands: connecting (and why), connected, answering."""

    def __init__(
        self, address: str, authority: bytes, key: Any, answering: Answerer,
        refuse: Callable[[str], bytes], note: Callable[[str, str], None], say: Say,
        tell: Callable[[str, str], None] = lambda state, why: None,
    ):  # fmt: skip
        self._address, self.answering = address, answering
        self._refuse, self._note, self._say, self._tell = refuse, note, say, tell
        self._public = public_key_to_bytes(key.public_key())
        auth = NodeAuthHttpInterceptor(key, key.public_key())
        chain = [RuntimeVersionHttpInterceptor(component_name="SuperNode"), auth]
        self._client = FleetHttpClient.from_server_address(address, False, authority, chain)
        self.clock = Clock()
        # a redirection would lead elsewhere, and a packed body could unpack to any size
        self._client._client.follow_redirects = False
        self._client._client.headers["accept-encoding"] = "identity"
        self._client._client.event_hooks = {"response": [self.clock, bound]}
        self._node = Node()
        self._runs: set[int] = set()
        self._unknown, self._lines = threading.Event(), LinePace(UNREAD)

    def serve(self) -> None:
        """For ever; raises FlowerError, in plain words, when the link does not let it in."""
        self._tell("connecting", "")
        self._activate()
        beat = HeartbeatSender(self._beat)
        beat.start()
        try:
            self._answer_all()
        finally:
            beat.stop()
            with suppress(httpx.HTTPError):
                self._client.DeactivateNode(DeactivateNodeRequest(node_id=self._node.node_id))

    def _activate(self) -> None:
        """A link holds on to a node that was killed for up to a minute: it is asked again."""
        beat, until = HEARTBEAT_DEFAULT_INTERVAL, time.monotonic() + PATIENCE_S
        request = ActivateNodeRequest(public_key=self._public, heartbeat_interval=beat)
        while True:
            try:
                answer = self._patiently(self._client.ActivateNode, request)
                break
            except httpx.HTTPStatusError as error:
                self._tell("connecting", why := UNKNOWN)
                if time.monotonic() > until:
                    raise _errors.FlowerError(
                        f"{self._address} does not accept this site: {why} ({_reason(error)})"
                    ) from None
            time.sleep(LATEST_S)
        self._node = Node(node_id=answer.node_id)
        self._say(f"{self._address} accepted this site, as node {self._node.node_id}")
        if said := self.clock.problem():
            self._say(f"WARNING: {said}")

    def _answer_all(self) -> None:
        pause = SOONEST_S
        while not self._unknown.is_set():
            try:
                pulled = self._patiently(
                    self._client.PullMessages, PullMessagesRequest(node=self._node)
                )
                self._tell("connected", "")
                if not pulled.messages_list:
                    time.sleep(pause)
                    pause = min(1.5 * pause, LATEST_S)
                    continue
                self._handle(*_first(pulled))
            except (httpx.HTTPStatusError, ObjectPullError, ObjectPushError) as error:
                self._check(error)
                self._say(f"this site could not answer a message: {_reason(error)}")
            except (Malformed, TooLarge) as error:
                self._pass_by(error)
            pause = SOONEST_S
        raise _errors.FlowerError(self.clock.problem() or "the SuperLink does not know this site")

    def _pass_by(self, error: Exception) -> None:
        """What the link says cannot be read: it may say it again and again."""
        if (before := self._lines.let()) is not None:
            self._say(f"ERROR: this site could not read a message: {_reason(error)}{before}")
            self._note("this site could not read a message", _reason(error))
        time.sleep(LATEST_S)

    def _handle(self, message: Message, tree: ObjectTree) -> None:
        began = time.monotonic()
        run, id = message.metadata.run_id, tree.object_id
        self._look_at(run)
        try:
            parts = self._pull(run, tree)
            self._tell("answering", "")
            reply = self.answering(id, parts)
        except (TooLarge, Overrun) as error:
            self._say(f"ERROR: this site did not answer a question: {error}")
            self._note("this site did not answer a question", str(error))
            reply = self._refusal(message, str(error))
        except Ended as error:
            self._say(f"ERROR: this site did not answer a question: {error}")
            failed = Error(ErrorCode.CLIENT_APP_RAISED_EXCEPTION, "no answer")
            reply = packed(Message(failed, reply_to=message))
        self._push(run, reply, time.monotonic() - began)

    def _look_at(self, run: int) -> None:
        """Names the bundle of a run in the site's log; it is not fetched."""
        if run in self._runs:
            return
        told = self._patiently(self._client.GetRun, GetRunRequest(node=self._node, run_id=run))
        what = _read(run_from_proto, told.run)
        name = printable(f"{what.fab_id} {what.fab_version}"[:200])
        self._say(
            f"run {run}, bundle {name}: feddcd {version('feddcd')} of this machine answers it"
        )
        if what.fab_id != BUNDLE:
            story = f"run {run} came with the bundle {name}, sha256 {printable(what.fab_hash[:64])}"
            self._note("this site did not fetch and did not run code from outside", story)
        self._runs.add(run)

    def _pull(self, run: int, tree: ObjectTree) -> dict[str, bytes]:
        ids = list({part.object_id for part in iterate_object_tree(tree)})
        if len(ids) > PARTS:
            raise TooLarge(
                f"the question has {len(ids)} parts, and this site takes at most {PARTS}"
            )
        patient = lambda call: lambda request: self._patiently(call, request)
        fetch = make_pull_object_fn_protobuf(patient(self._client.PullObject), self._node, run)
        sizes: list[int] = []

        def take(id: str) -> bytes:
            part = fetch(id)
            sizes.append(len(part))
            if sum(sizes) > LARGEST:
                raise TooLarge(f"the question has more than {LARGEST >> 20} MiB")
            return part

        parts = pull_objects(ids, take)
        confirm = patient(self._client.ConfirmMessageReceived)
        make_confirm_message_received_fn_protobuf(confirm, self._node, run)(tree.object_id)
        return parts

    def _refusal(self, message: Message, reason: str) -> Packed:
        return packed(Message(wrap(self._refuse(reason)), reply_to=message))

    def _push(self, run: int, reply: Packed, seconds: float) -> None:
        request = PushMessagesRequest(
            node=self._node, messages_list=[ProtoMessage.FromString(reply.message)],
            message_object_trees=[ObjectTree.FromString(reply.tree)],
            clientapp_runtime_list=[seconds],
        )  # fmt: skip
        said = self._patiently(self._client.PushMessages, request)
        patient = lambda request: self._patiently(self._client.PushObject, request)
        push = make_push_object_fn_protobuf(patient, self._node, run, said.session_id)
        wanted = [(id, reply.parts[id]) for id in said.objects_to_push if id in reply.parts]
        push_object_contents_from_iterable(wanted, push)

    def _patiently(self, call: Callable[[Any], Any], request: Any) -> Any:
        """Again and again while the link is away."""
        pause, told = SOONEST_S, False
        while True:
            try:
                return call(request)
            except httpx.HTTPStatusError as error:
                self._check(error)
                if error.response.status_code not in (502, 503, 504):
                    raise
                why = f"it answers with the HTTP status {error.response.status_code}"
            except ValueError as error:  # bytes that are no message of Flower's
                raise Malformed(str(error)) from error
            except httpx.TransportError as error:
                why = str(error)
                if "CERTIFICATE_VERIFY_FAILED" in why:
                    raise _errors.FlowerError(
                        f"{self._address} is not the coordinator that this site knows: {why}"
                    ) from None
            self._tell("connecting", why)
            if not told:
                self._say(f"this site has no connection to {self._address} ({why}) and tries again")
                told = True
            time.sleep(pause)
            pause = min(1.5 * pause, 5 * LATEST_S)

    def _check(self, error: Exception) -> None:
        """Whether the link believes who this is."""
        if isinstance(error, httpx.HTTPStatusError) and error.response.status_code == 401:
            why = self.clock.problem() or "the coordinator knows neither its key nor its number"
            raise _errors.FlowerError(f"{self._address} does not accept this site: {why}") from None

    def _beat(self) -> bool:
        beat = HEARTBEAT_DEFAULT_INTERVAL
        try:
            request = SendNodeHeartbeatRequest(node=self._node, heartbeat_interval=beat)
            if not self._client.SendNodeHeartbeat(request).success:
                self._unknown.set()
        except httpx.HTTPStatusError as error:
            if error.response.status_code == 401:
                self._unknown.set()
            return error.response.status_code < 500
        except httpx.TransportError:
            return False
        return True


def _first(pulled: PullMessagesResponse) -> tuple[Message, ObjectTree]:
    heads, trees = pulled.messages_list, pulled.message_object_trees
    if len(heads) != len(trees):
        raise Malformed(f"the SuperLink sent {len(heads)} messages and {len(trees)} lists of parts")
    return _read(message_from_proto, heads[0]), trees[0]


def _read(read: Callable[[Any], Made], plain: Any) -> Made:
    try:
        return read(plain)
    except Exception as error:  # of Flower's own, whatever a stranger made of its fields
        raise Malformed(f"{type(error).__name__}: {error}") from error


def _reason(error: Exception) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        said = FlowerError.from_json(error.response.text)
        return printable(str(said or error)[:300])
    return printable(str(error)[:300])
