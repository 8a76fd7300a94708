"""A site's node: takes messages from the SuperLink and answers them with a function of ours.

It stands in the place of Flower's SuperNode, which would fetch the run's bundle and import it.
Here no bundle is ever asked for, no program of Flower is started, and no port is opened.
"""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from typing import Any

import httpx
from flwr.app import Error, Message
from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL, ErrorCode
from flwr.common.serde import run_from_proto
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    DeactivateNodeRequest,
    PullMessagesRequest,
    PushMessagesRequest,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.proto.message_pb2 import ObjectTree
from flwr.proto.node_pb2 import Node
from flwr.proto.run_pb2 import GetRunRequest
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
from .._proxy import proxy_of, through
from .._text import printable, reason_in
from ._calls import use_own
from ._messages import BUNDLE, wrap
from ._responses import (
    LARGEST,
    RESTARTED,
    UNKNOWN,
    Clock,
    Forgotten,
    Malformed,
    TooLarge,
    bound,
    first_message,
    read_plain,
    reason_of,
)
from .answering import Ended, Overrun, Packed, packed

UNREAD = 3  # lines in a minute about messages that cannot be read
PARTS = 10_000  # of one message
SOONEST_S, LATEST_S = 0.2, 2.0  # between two looks for a message
PATIENCE_S = 30.0  # until a node that is not let in gives up
Say = Callable[[str], None]
Answerer = Callable[[str, dict[str, bytes]], Packed]


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
        self._proxy = proxy_of(address)
        self._public = public_key_to_bytes(key.public_key())
        auth = NodeAuthHttpInterceptor(key, key.public_key())
        chain = [RuntimeVersionHttpInterceptor(component_name="SuperNode"), auth]
        self._client = FleetHttpClient.from_server_address(address, False, authority, chain)
        self.clock = Clock()
        use_own(self._client, authority, self._proxy, (self.clock, bound))
        self._node = Node()
        self._runs: set[int] = set()
        self._unknown, self._lines = threading.Event(), LinePace(UNREAD)
        self._again = LinePace(UNREAD)

    def serve(self) -> None:
        """For ever; raises FlowerError, in plain words, when the link does not let it in."""
        self._tell("connecting", "")
        self._activate(UNKNOWN)
        while True:
            beat = HeartbeatSender(self._beat)
            beat.start()
            try:
                self._answer_all()
            except Forgotten:
                self._node = Node()
            finally:
                beat.stop()
                gone = DeactivateNodeRequest(node_id=self._node.node_id)
                with suppress(httpx.HTTPError):
                    self._client.DeactivateNode(gone)
            self._begin_again()

    def _begin_again(self) -> None:
        if (before := self._again.let()) is not None:
            self._say(f"{RESTARTED}{before}")
        self._tell("connecting", RESTARTED)
        self._unknown.clear()
        self._runs.clear()  # their numbers are of the link that has gone
        time.sleep(LATEST_S)
        self._activate(RESTARTED)

    def _activate(self, why: str) -> None:
        """A link holds on to a node that was killed for up to a minute, and one that starts takes a
        while to learn the keys: it is asked again."""
        beat, until = HEARTBEAT_DEFAULT_INTERVAL, None
        request = ActivateNodeRequest(public_key=self._public, heartbeat_interval=beat)
        while True:
            try:
                answer = self._patiently(self._client.ActivateNode, request)
                break
            except httpx.HTTPStatusError as error:
                self._tell("connecting", why)
                until = until or time.monotonic() + PATIENCE_S
                if time.monotonic() > until:
                    raise _errors.FlowerError(
                        f"{self._address} does not accept this site: {UNKNOWN}. The "
                        "coordinator says: "
                        f"{reason_of(error)}"
                    ) from None
            time.sleep(LATEST_S)
        self._node = Node(node_id=answer.node_id)
        self._say(f"{self._address} accepted this site as node {self._node.node_id}")
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
                self._handle(*first_message(pulled))
            except (httpx.HTTPStatusError, ObjectPullError, ObjectPushError) as error:
                self._check(error)
                self._say(f"this site could not answer a message: {reason_of(error)}")
            except (Malformed, TooLarge) as error:
                self._pass_by(error)
            pause = SOONEST_S
        if said := self.clock.problem():
            raise _errors.FlowerError(said)
        raise Forgotten("the SuperLink does not know this site")

    def _pass_by(self, error: Exception) -> None:
        """What the link says cannot be read: it may say it again and again."""
        if (before := self._lines.let()) is not None:
            self._say(f"ERROR: this site could not read a message: {reason_of(error)}{before}")
            self._note("this site could not read a message", reason_of(error))
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
        what = read_plain(run_from_proto, told.run)
        name = printable(f"{what.fab_id} {what.fab_version}"[:200])
        self._say(
            f"this site answers run {run} (Flower bundle {name}) with its own feddcd "
            f"{version('feddcd')}"
        )
        if what.fab_id != BUNDLE:
            story = f"run {run} came with the code {name}, sha256 {printable(what.fab_hash[:64])}"
            self._note("a run contained code; this site did not download or run this code", story)
        self._runs.add(run)

    def _pull(self, run: int, tree: ObjectTree) -> dict[str, bytes]:
        ids = list({part.object_id for part in iterate_object_tree(tree)})
        if len(ids) > PARTS:
            raise TooLarge(
                f"the question has {len(ids)} parts, and this site accepts at most {PARTS}"
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
                why = f"the HTTP status is {error.response.status_code}"
            except ValueError as error:  # bytes that are no message of Flower's
                raise Malformed(str(error)) from error
            except httpx.TransportError as error:
                why = reason_in(error)
                if "CERTIFICATE_VERIFY_FAILED" in str(error):
                    raise _errors.FlowerError(
                        f"{self._address} is not the coordinator that this site knows: {why}"
                    ) from None
            why = f"not reachable now{through(self._proxy)} ({why})"
            away = f"the coordinator is {why}; this site tries again"
            self._tell("connecting", away)
            if not told:
                self._say(f"{self._address}: {away}")
                told = True
            time.sleep(pause)
            pause = min(1.5 * pause, 5 * LATEST_S)

    def _check(self, error: Exception) -> None:
        """Whether the link believes who this is."""
        if isinstance(error, httpx.HTTPStatusError) and error.response.status_code == 401:
            why = self.clock.problem()
            if not why and self._node.node_id:
                raise Forgotten("the SuperLink does not know the number of this site") from None
            why = why or "the coordinator does not know this site (its key or its number)"
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
