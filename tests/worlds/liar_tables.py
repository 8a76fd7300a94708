"""Tables over four sites of which one lies; honest answers are remembered, as most are the same."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from feddcd._errors import FeddcdError
from feddcd.analysis._result import TableResult
from feddcd.analysis.plan import RegressionPlan
from feddcd.federation.config import Config
from feddcd.federation.coordinator._tables import AnalysisRun
from feddcd.federation.coordinator.nodes import Nodes
from feddcd.federation.folder import FederationFolder, load_place
from feddcd.federation.machine.init import create
from feddcd.federation.site.answer import answer
from feddcd.federation.wire import REGRESSION, Envelope, Hello, pack_message, unpack_message
from lies import PLANS, Lie

SITES = ["east", "north", "south", "west"]
LIAR = "south"
_known: dict[tuple[str, bytes], bytes] = {}


def patients(n: int = 70) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(5)
    made = {}
    for site in SITES:
        d = pd.DataFrame({"age": rng.normal(5, 1, n).round(3), "bmi": rng.normal(2, 1, n).round(3)})
        d["ward"] = rng.choice(["a", "b", "c"], n)
        z = 0.5 * d.age - 2.5 + (d.ward == "b")
        d["y"] = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
        d["z"] = (z + rng.normal(size=n)).round(3)
        d["c"] = rng.poisson(np.exp(0.4 * z))
        d["k"] = rng.choice(["p", "q", "r"], n)
        d["word"] = np.where(d.y == 1, "dead", "alive")
        d["t"] = (np.exp(0.2 * z) * rng.gamma(2, 0.5, n) + 0.01).round(4)
        d["w"] = rng.integers(1, 4, n)
        made[site] = d
    return made


def founded(folder) -> FederationFolder:
    config = Config(
        "test", plan=RegressionPlan(**PLANS["binary"], answers="each"), patience=0.2, deadline=1.0
    )
    return create(folder / "fed", SITES, config, data=patients())


class Told(NamedTuple):
    """How a table ended."""

    result: Any
    error: Exception | None
    events: list[dict]
    liar: str = LIAR

    @property
    def named(self) -> bool:
        """Whether the liar is told, by a refusal or in the reason of the end."""
        refused = [e for e in self.events if e["event"] == "refused"]
        reasons = [str(e["reason"]) for e in refused if e.get("site", self.liar) == self.liar]
        return any(r.startswith(self.liar) for r in reasons) or self.liar in str(self.error or "")

    @property
    def how(self) -> str:
        if self.error is not None and not isinstance(self.error, FeddcdError):
            return "crashed"
        if self.named:
            return "refused by name"
        return "believed" if self.error is None else "stopped without a name"


class LyingNetwork:
    """One message of a kind is changed, if it is the liar's."""

    def __init__(self, home: FederationFolder, lie: Lie | None):
        self.places = dict(enumerate([load_place(home.site(s)) for s in SITES], 1))
        self.lie, self.sums = lie, 0

    def nodes(self):
        return dict.fromkeys(self.places, b"")

    def ask(self, requests, seconds, work, stop):
        for node, request in requests.items():
            place = self.places[node]
            key = place.client, request
            if key not in _known:
                _known[key] = answer(request, place)
            data = _known[key]
            yield node, data if place.client != LIAR or self.lie is None else self._told(data)

    def _told(self, data: bytes) -> bytes:
        said = unpack_message(data)
        if self.lie is None or said.kind != self.lie.kind:
            return data
        number, self.sums = self.sums, self.sums + (said.kind == "sums")
        changed = self.lie.change(said, number)
        return pack_message(changed) if isinstance(changed, Envelope) else changed


def table(home: FederationFolder, lie: Lie | None, plan: str | None = None, **settings) -> Told:
    chosen = RegressionPlan(
        **PLANS[plan or (lie.plan if lie else "binary")], answers="each", **settings
    )
    return analysed(home, lie, chosen)


def analysed(home: FederationFolder, lie: Lie | None, chosen: Any) -> Told:
    told: list[dict] = []
    watched = FederationFolder(home.path, told.append)
    config = Config("test", plan=chosen, patience=0.2, deadline=1.0)
    network = LyingNetwork(home, lie)
    nodes = Nodes(network, watched, Hello("test", REGRESSION), 1.0)
    try:
        result = AnalysisRun(watched, nodes, config, chosen).run()
    except Exception as error:
        return Told(None, error, told)
    return Told(result, None, told)


def quick(patch) -> None:
    """Without waiting for disks, and without the files of a result."""
    from feddcd import _files as files
    from feddcd.federation.coordinator import _tables, nodes

    patch.setattr(files, "_flush", lambda handle: None)
    patch.setattr(_tables, "PAUSE_S", 0.01)
    patch.setattr(nodes, "PAUSE_S", 0.01)
    patch.setattr(TableResult, "write", lambda self, folder: iter(()))


def distance(one: Any, other: Any) -> float:
    """Of two tables, in standard errors of the second."""
    own, theirs = one.original_table, other.original_table
    if list(own.index) != list(theirs.index):
        return np.inf
    return float(np.max(np.abs(own["coef"] - theirs["coef"]) / theirs["std_err"]))
