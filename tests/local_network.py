"""A network in one process: sites answer at once, unless a test breaks something."""

from collections.abc import Callable
from pathlib import Path

from feddcd.data import load
from feddcd.experiments.spec import Spec
from feddcd.federation.config import Config
from feddcd.federation.coordinator import coordinate
from feddcd.federation.home import Home, load_place
from feddcd.federation.init import create
from feddcd.federation.worker import Place, answer

Fault = Callable[[str, bytes, bool], str | None]


class LocalNetwork:
    """`fault(site, request, work)` may say "request" or "answer": that message is lost."""

    def __init__(self, places: list[Place], fault: Fault = lambda *_: None):
        self.places = dict(enumerate(places, 1))
        self.keys: dict[int, bytes] = {}
        self.fault = fault
        self.messages: list[tuple[str, bool]] = []

    def nodes(self):
        return {node: self.keys.get(node, b"") for node in self.places}

    def ask(self, requests, seconds, *, work):
        for node, request in requests.items():
            place = self.places[node]
            self.messages.append((place.client, work))
            lost = self.fault(place.client, request, work)
            data = None if lost == "request" else answer(request, place)
            yield node, None if lost == "answer" else data


def make(folder: Path, sites=4, data="digits", split="iid", **settings) -> Home:
    own = {k: settings.pop(k) for k in ("fewest", "largest", "features") if k in settings}
    spec = Spec(**{"weighting": "samples", "l2": 1e-2, **settings})
    config = Config("test", spec, patience=5.0, deadline=5.0, **own)
    names = [f"site-{i + 1}" for i in range(sites)]
    return create(folder, names, config, data=load(data), split=split)


def places(home: Home) -> list[Place]:
    return [load_place(folder) for folder in sorted((home.path / "sites").iterdir())]


def train(home: Home, network: LocalNetwork, rounds: int = 0) -> None:
    coordinate(network, {"folder": str(home.path), "rounds": rounds})


def events(home: Home, kind: str) -> list[dict]:
    return [event for _, event in home.said() if event["event"] == kind]
