"""Table 1 over Flower: its messages, its apps, its bytes; in one process, and with real ones."""

import shlex
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("flwr")

from flwr.app import Context, Message, RecordDict
from flwr.common.serde import message_from_proto, message_to_proto
from flwr.proto.message_pb2 import Message as ProtoMessage
from flwr.supercore.task_identity import TaskIdentity

import feddcd
from docs_blocks import DOCS, run_line
from feddcd import flower
from feddcd.analysis.describing import DescribePlan
from feddcd.federation import answer_node, coordinate
from feddcd.federation.config import Config
from feddcd.federation.coordinator import _tables as tables
from feddcd.federation.machine.init import create
from feddcd.federation.machine.programs import free_port
from flower_world import Up, share_compiled

COLUMNS = ["age", "ward", "event"]


def patients():
    rng = np.random.default_rng(5)
    d = pd.DataFrame({"age": rng.integers(20, 90, 300), "ward": rng.choice(["a", "b"], 300)})
    d["event"] = np.where(rng.random(300) < 0.1, np.nan, rng.integers(0, 2, 300))
    return d.assign(sex=rng.choice(["f", "m"], 300), site=[f"site-{i % 3}" for i in range(300)])


def home_of(path, **settings):
    d = patients()
    parts = {site: rows.drop(columns="site") for site, rows in d.groupby("site")}
    plan = DescribePlan(COLUMNS, "sex")
    config = Config("test", plan=plan, **settings)
    return create(path / "fed", list(parts), config, data=parts)


def check(home):
    told = pd.read_csv(home.server / "describe" / "numbers.csv", keep_default_na=False)
    own = feddcd.describe(patients(), COLUMNS, by="sex", least=5, quantiles="rounded").numbers()
    assert told.statistic.tolist() == own.statistic.tolist()
    np.testing.assert_allclose(pd.to_numeric(told.value), own.value, rtol=1e-12)
    assert (home.server / "proof").exists()


class Grid:
    """Flower's, without its processes: every message is packed and read as Flower does it, and
    handled by the ClientApp of a site."""

    def __init__(self, home):
        self.app = flower.client_app(answer_node)
        self.sites = {i + 1: {"partition-id": i} for i, _ in enumerate(home.invited())}
        self.replies, self.number, self.run = {}, 0, {"folder": str(home.path)}

    def get_nodes(self):
        return [SimpleNamespace(node_id=id, public_key=b"") for id in self.sites]

    def push_messages(self, messages):
        for message in messages:
            self.number += 1
            id = f"message {self.number}"
            message.metadata._message_id = id
            asked, node = travel(message), message.metadata.dst_node_id
            context = Context(1, node, self.sites[node], RecordDict(), self.run)
            self.replies[id] = travel(self.app(asked, context))
            yield id

    def pull_messages(self, ids):
        return [self.replies.pop(id) for id in list(ids) if id in self.replies]


def travel(message: Message) -> Message:
    return message_from_proto(
        ProtoMessage.FromString(message_to_proto(message).SerializeToString())
    )


def test_describe_in_flowers_messages(tmp_path, monkeypatch):
    for name, value in {"run_id": 1, "node_id": 0, "task_id": 1}.items():
        monkeypatch.setattr(TaskIdentity, f"_{name}", value)
    monkeypatch.setattr(flower, "POLL_S", 0.0)
    monkeypatch.setattr(tables, "PAUSE_S", 0.01)
    home = home_of(tmp_path, patience=5.0)
    grid = Grid(home)
    coordinate(flower.FlowerExchange(grid), {"folder": str(home.path)})
    check(home)
    assert grid.number > 3 * 4  # a greeting, columns, a job and exchanges, of three sites


@pytest.mark.chaos
@pytest.mark.processes
def test_describe_over_real_processes(tmp_path):
    home = home_of(tmp_path, deadline=60.0, patience=300.0, port=free_port())
    share_compiled(home)
    up = Up(home)
    assert up.watch(lambda up, event: None, 600) == 0, up.said()
    check(home)
    line = shlex.join(["feddcd", "federation", "verify", home.path.name])
    assert "site-0: signed" in run_line(DOCS / "deploy.md", line, home.path.parent)
