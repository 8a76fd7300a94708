"""An outsider with nothing but ca.crt, and an app of his own that reads what it can."""

import time
import warnings
from pathlib import Path

import httpx
from flwr.cli.build import build_fab_from_files
from flwr.common.serde import fab_to_proto
from flwr.proto.control_pb2 import ListNodesRequest, ListRunsRequest, StartRunRequest
from flwr.proto.fab_pb2 import GetFabRequest, GetFabResponse
from flwr.proto.runtime_pb2 import AcquireTaskRequest, PullTaskInputRequest
from flwr.supercore.constant import TaskType
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.fab import Fab
from flwr.supercore.runtime import RuntimeHttpClient

_PROJECT = """\
[project]
name = "hostile"
version = "1.0.0"
description = "Reads what it can."
license = "MIT"
dependencies = []
[tool.flwr.app]
publisher = "outsider"
[tool.flwr.app.components]
serverapp = "hostile.server:app"
clientapp = "hostile.client:app"
[tool.flwr.app.config]
"""
_SERVER = """\
import time
from pathlib import Path
from flwr.app import Message, MessageType, RecordDict
from flwr.serverapp import ServerApp
app = ServerApp()
Path({trace!r}, "server").write_text("ran at the coordinator")

@app.main()
def main(grid, context):
    for _ in range(20):
        nodes = list(grid.get_node_ids())
        grid.push_messages([Message(RecordDict(), n, MessageType.TRAIN, ttl=60) for n in nodes])
        time.sleep(3)
"""
_CLIENT = """\
from pathlib import Path
from flwr.app import Message
from flwr.clientapp import ClientApp
app = ClientApp()
Path({trace!r}, "client").write_text("ran at a site")

@app.train()
def train(message, context):
    data = Path(context.node_config["data"])
    Path({trace!r}, "rows").write_bytes(data.read_bytes())
    return Message(message.content, reply_to=message)
"""


def bundle(trace: Path) -> bytes:
    """A Flower app that leaves a file in `trace` wherever it runs."""
    parts = {"pyproject.toml": _PROJECT, "hostile/__init__.py": ""}
    parts["hostile/server.py"] = _SERVER.format(trace=str(trace))
    parts["hostile/client.py"] = _CLIENT.format(trace=str(trace))
    with warnings.catch_warnings(action="ignore"):  # of Flower's own
        return build_fab_from_files({name: text.encode() for name, text in parts.items()})[0]


def start_run(fab: bytes) -> StartRunRequest:
    return StartRunRequest(fab=fab_to_proto(Fab("", fab, {})))


def outsider(kind, address: str, authority: bytes):
    """A client that comes from another address of the loopback net."""
    client = kind.from_server_address(address, False, authority, interceptors=[])
    verify = client._client._transport._pool._ssl_context  # pyright: ignore
    transport = httpx.HTTPTransport(verify=verify, local_address="127.0.0.2")
    client._client = httpx.Client(transport=transport, timeout=300)
    return client


def _get(path: str):
    return lambda control, runtime: control._client.get(control._base_url + path).raise_for_status()


TASK = AcquireTaskRequest(supported_task_types=[TaskType.SERVER_APP])
CALLS = {  # the last is given the bundle
    "list runs": lambda control, runtime: control.ListRuns(ListRunsRequest()),
    "list nodes": lambda control, runtime: control.ListNodes(ListNodesRequest()),
    "take a task": lambda control, runtime: runtime.AcquireTask(TASK),
    "read a task": lambda control, runtime: runtime.PullTaskInput(PullTaskInputRequest()),
    "fetch a bundle": lambda control, runtime: control._unary_unary(
        path="/v1/fleet/get-fab",
        rpc_method="",
        request=GetFabRequest(),
        response_type=GetFabResponse,
    ),
    "docs": _get("/docs"),
    "health": _get("/health"),
    "around": _get("/v1/fleet/../control/list-runs"),
    "around again": _get("//v1/control/list-runs"),
    "start a run": lambda control, runtime: control.StartRun(control.run),
}


def attempts(address: str, authority: bytes, fab: bytes) -> dict[str, str]:
    """What the link says to each: "done", or the status of the refusal."""
    control = outsider(ControlHttpClient, address, authority)
    runtime = outsider(RuntimeHttpClient, address, authority)
    control.run = start_run(fab)
    said = {}
    with control, runtime:
        for name, call in CALLS.items():
            try:
                call(control, runtime)
                said[name] = "done"
            except httpx.HTTPStatusError as error:
                said[name] = str(error.response.status_code)
    return said


def send_bundle(inside, fab: bytes, sites: int) -> list[bytes | None]:
    """What so many sites answer to a coordinator who sends this bundle, and sends it again where
    no answer came: a site may just be on its way back."""
    with inside._client(ControlHttpClient) as control:
        run = control.StartRun(start_run(fab)).run_id
    said = {}

    def ask(exchange):
        until = time.monotonic() + 300
        while len(said) < sites and time.monotonic() < until:
            questions = {node: b"" for node in exchange.nodes() if node not in said}
            found = dict(exchange.ask(questions, 300, True, lambda: False)) if questions else {}
            said.update({node: data for node, data in found.items() if data is not None})
            time.sleep(0.5)

    inside.conduct(run, ask)
    return sorted(said.values(), key=lambda data: data or b"")
