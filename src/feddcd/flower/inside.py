"""The coordinator's way to the SuperLink of its machine, through the inner door.

    register(...)      the keys of the sites that are let in; unregister(...), nodes()
    start(), stop()    a run; its bundle is a name and a version, and holds no code
    conduct(...)       takes the run's task and calls our own function with an exchange

The token of the task stays in this process: Flower's own way shows it in the list of processes.
"""

import hashlib
import io
import zipfile
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from typing import Any, NamedTuple

import httpx
from flwr.common.constant import SubStatus
from flwr.common.serde import fab_to_proto, run_from_proto
from flwr.proto.control_pb2 import (
    ListNodesRequest,
    RegisterNodeRequest,
    StartRunRequest,
    StopRunRequest,
    UnregisterNodeRequest,
)
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest, PushTaskOutputRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.control import ControlHttpClient
from flwr.supercore.error import ApiErrorCode, FlowerError
from flwr.supercore.fab import Fab
from flwr.supercore.heartbeat import HeartbeatSender, make_task_heartbeat_fn_http
from flwr.supercore.interceptors import RuntimeTokenHttpInterceptor, RuntimeVersionHttpInterceptor
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supercore.runtime import RuntimeHttpClient
from flwr.supercore.task_identity import TaskIdentity

from .. import _errors
from . import FlowerExchange
from ._calls import use_own
from ._messages import BUNDLE, SECRET

# Flower wants names of components; nobody imports them
_PROJECT = f"""\
[project]
name = "{BUNDLE.partition("/")[2]}"
version = "{version("feddcd")}"
description = "No code: coordinator and sites run their installed package."
license = "MIT"
dependencies = []
[tool.flwr.app]
publisher = "{BUNDLE.partition("/")[0]}"
[tool.flwr.app.components]
serverapp = "none:app"
clientapp = "none:app"
[tool.flwr.app.config]
"""


class _Secret:
    def __init__(self, secret: str):
        self._secret = secret

    def intercept(self, context: Any, call_next: Callable[[Any], httpx.Response]):
        context.request.headers[SECRET] = self._secret
        return call_next(context)


class LinkNode(NamedTuple):
    """A node as the link knows it. The key of one that was taken out stays in its memory."""

    id: int
    key: bytes  # PEM
    status: str  # registered, online, offline or unregistered
    since: str  # when it came last, as ISO 8601 writes it

    @property
    def online(self) -> bool:
        return self.status == "online"

    @property
    def taken_out(self) -> bool:
        return self.status == "unregistered"


class Inside(NamedTuple):
    address: str
    authority: bytes  # certificates, PEM
    secret: str

    def register(self, name: str, key: bytes) -> None:
        """Lets a site in by its public key (PEM); one that is known already stays."""
        with self._client(ControlHttpClient) as client:
            _call(client.RegisterNode, RegisterNodeRequest(public_key=key, name=name))

    def unregister(self, node: int) -> None:
        """Its key is refused from now on."""
        with self._client(ControlHttpClient) as client:
            _call(client.UnregisterNode, UnregisterNodeRequest(node_id=node))

    def nodes(self) -> list[LinkNode]:
        with self._client(ControlHttpClient) as client:
            said = _call(client.ListNodes, ListNodesRequest())
        return [
            LinkNode(node.node_id, node.public_key, node.status, node.last_activated_at)
            for node in said.nodes_info
        ]

    def start(self) -> int:
        """The number of a new run."""
        fab = Fab("", _bundle(), {})
        with self._client(ControlHttpClient) as client:
            return _call(client.StartRun, StartRunRequest(fab=fab_to_proto(fab))).run_id

    def stop(self, run: int) -> None:
        """A run after its coordinator died: until the link knows, its nodes wait for messages that
        were half sent."""
        with suppress(_errors.FlowerError), self._client(ControlHttpClient) as client:
            _call(client.StopRun, StopRunRequest(run_id=run))

    def conduct(self, run: int, coordinate: Callable[[FlowerExchange], None]) -> None:
        from ._replies import (
            RepliesGrid,
        )  # Flower's grid loads a database, which others do not need

        request = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
        with self._client(RuntimeHttpClient) as client:
            taken = client.AcquireTask(request)
        if taken.task.run_id != run or not taken.token:
            raise _errors.FlowerError(f"the SuperLink gave this coordinator no task for run {run}")
        patience = make_simple_http_retry_invoker()
        client = self._client(
            RuntimeHttpClient,
            RuntimeVersionHttpInterceptor(component_name="flwr-serverapp"),
            RuntimeTokenHttpInterceptor(token=taken.token),
            retry_invoker=patience,
        )
        grid = RepliesGrid(self.address, False, self.authority, token=taken.token)
        grid._client = client
        beat, status = HeartbeatSender(make_task_heartbeat_fn_http(client)), SubStatus.FAILED
        beat.start()
        try:
            given = client.PullTaskInput(PullTaskInputRequest())
            TaskIdentity.task_id, TaskIdentity.run_id = given.task_id, given.run.run_id
            TaskIdentity.node_id = given.context.node_id
            grid.set_run(run_from_proto(given.run))
            coordinate(FlowerExchange(grid))
            status = SubStatus.COMPLETED
        finally:
            patience.max_tries = 1
            beat.stop()
            with suppress(httpx.HTTPError):
                client.PushTaskOutput(PushTaskOutputRequest(sub_status=status))
            grid.close()

    def _client(self, kind: Any, *interceptors: Any, **how: Any) -> Any:
        chain = [_Secret(self.secret), *interceptors]
        made = kind.from_server_address(self.address, False, self.authority, chain, **how)
        use_own(made, self.authority)
        return made


def _bundle() -> bytes:
    """As `flwr build` would make it."""
    project, whole = _PROJECT.encode(), io.BytesIO()
    content = f"pyproject.toml,{hashlib.sha256(project).hexdigest()},{8 * len(project)}"
    with zipfile.ZipFile(whole, "w") as file:
        file.writestr("pyproject.toml", project)
        file.writestr(".info/CONTENT", content)
    return whole.getvalue()


def _call(call: Callable[[Any], Any], request: Any) -> Any:
    try:
        return call(request)
    except httpx.HTTPStatusError as error:
        said = FlowerError.from_json(error.response.text)
        if said is not None and said.code == ApiErrorCode.PUBLIC_KEY_ALREADY_IN_USE:
            return None
        raise _errors.FlowerError(f"the SuperLink refused: {said or error}") from None
    except httpx.HTTPError as error:
        raise _errors.FlowerError(
            f"the SuperLink (Flower's server) does not answer: {error}"
        ) from None
