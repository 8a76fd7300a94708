"""A network in one process: sites answer at once, unless a test breaks something."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import jax
import numpy as np
import pytest

from feddcd import _files as files
from feddcd.data import Dataset, load, read_site
from feddcd.durable.ledger import Ledger
from feddcd.durable.protocol import Summed
from feddcd.durable.server import committed_rounds, read_founding
from feddcd.federation.config import Config
from feddcd.federation.coordinator import _masked_training, _training, inspect, nodes
from feddcd.federation.coordinator.coordinator import coordinate
from feddcd.federation.folder import FederationFolder, load_place
from feddcd.federation.machine.init import create
from feddcd.federation.site.answer import SitePlace, answer
from feddcd.federation.terms import Terms, server_learner
from feddcd.federation.wire import unpack_message
from feddcd.runs.spec import Spec

Fault = Callable[[str, str], str | None]
Tamper = Callable[[str, str, bytes], bytes]


class LocalNetwork:
    """`fault(site, kind)` may say "request" or "answer": that message is lost. `tamper(site,
    kind, answer)` may change what a site says. A kind is hello, task or settle; `messages` are
    all that were sent, `heard` all that was said."""

    def __init__(
        self,
        places: list[SitePlace],
        fault: Fault = lambda *_: None,
        tamper: Tamper = lambda site, kind, data: data,
    ):
        self.places = dict(enumerate(places, 1))
        self.keys: dict[int, bytes] = {}
        self.fault, self.tamper = fault, tamper
        self.messages: list[tuple[str, str]] = []
        self.heard: list[tuple[str, bytes]] = []

    def nodes(self):
        return {node: self.keys.get(node, b"") for node in self.places}

    def ask(self, requests, seconds, work, stop):
        for node, request in requests.items():
            place = self.places[node]
            kind = kind_of(request)
            self.messages.append((place.client, kind))
            lost = self.fault(place.client, kind)
            data = None if lost == "request" else answer(request, place)
            if data is not None:
                self.heard.append((place.client, data))
                data = self.tamper(place.client, kind, data)
            yield node, None if lost == "answer" else data


def kind_of(request: bytes) -> str:
    kind, meta, _ = unpack_message(request)
    if kind == "ask":
        return "settle" if meta["number"] is None else "task"
    return kind


def make(
    folder: Path, sites=4, data: str | Dataset = "digits", split="iid", **settings
) -> FederationFolder:
    names = ("fewest", "largest", "features", "patience", "answers")
    own = {k: settings.pop(k) for k in names if k in settings}
    spec = Spec(**{"weighting": "samples", "l2": 1e-2, **settings})
    config = Config("test", spec, deadline=5.0, **{"patience": 5.0, **own})
    names = [f"site-{i + 1}" for i in range(sites)]
    data = load(data) if isinstance(data, str) else data
    return create(folder, names, config, data=data, split=split)


def places(home: FederationFolder) -> list[SitePlace]:
    return [load_place(folder) for folder in sorted((home.path / "sites").iterdir())]


def train(home: FederationFolder, network: LocalNetwork, rounds: int = 0) -> None:
    coordinate(network, {"folder": str(home.path), "rounds": rounds})


def events(home: FederationFolder, kind: str) -> list[dict]:
    return [event for _, event in home.read_events() if event["event"] == kind]


def reasons(home: FederationFolder) -> str:
    """Why somebody or something was refused, a line each."""
    return "\n".join(event["reason"] for event in events(home, "refused"))


def wine(sites: int = 4, rows: int = 28) -> Dataset:
    """As many rows for each site, so that all run the same compiled functions, and more than
    twice as many as columns, so that no Gram matrix is made for every message."""
    data = load("wine")
    return Dataset("wine", data.X[: sites * rows], data.y[: sites * rows])


def pooled(places: list[SitePlace]) -> tuple[Dataset, list[np.ndarray]]:
    """All sites' rows as one data set, and which of them are whose."""
    read = [read_site(place.data, place.label) for place in places]
    ends = np.cumsum([len(site.labels) for site in read])
    rows = np.concatenate([site.labels for site in read])
    parts = np.split(np.arange(ends[-1]), ends[:-1])
    return Dataset("pooled", np.concatenate([site.X for site in read]), rows), parts


def sums(home: FederationFolder) -> list[Summed]:
    """The rounds in the ledger."""
    with Ledger(home.ledger, readonly=True) as ledger:
        agreed = Terms.from_json(read_founding(ledger))
        with jax.enable_x64(agreed.double):
            return committed_rounds(ledger, inspect.server_learner(agreed).like)


def model(home: FederationFolder) -> np.ndarray:
    with np.load(home.server / "model.npz", allow_pickle=False) as file:
        return file["w"]


def _remembered(function: Callable) -> Callable:
    """By what the arguments look like."""
    known = {}

    def remembered(*args):
        key = repr(args)
        if key not in known:
            known[key] = function(*args)
        return known[key]

    return remembered


@contextmanager
def quick() -> Iterator[None]:
    """Without waiting for disks or sites, and without building the same things again for
    every message, as a site has to that is a new process each time."""
    with pytest.MonkeyPatch.context() as patch:
        built = _remembered(server_learner)
        for user in (_training, inspect, _masked_training):
            patch.setattr(user, "server_learner", built)
        patch.setattr(files, "_flush", lambda handle: None)
        patch.setattr(_training, "PAUSE_S", 0.01)
        patch.setattr(nodes, "PAUSE_S", 0.01)
        patch.setattr(_masked_training, "PAUSE_S", 0.01)
        yield
