"""What is lost against sites that are away: rounds and waits to a gap of 1e-6, each beside sum.

    python benchmarks/absence.py [--sites 10] [--seeds 3] [METHOD ...]

The coordinator and the sites are those of a federation, in one process. In every exchange each site
is away by itself with a probability of 0, 5 or 30 %, and does not answer. One by one (`each`) a
round goes on with those who answer, and who was away rests a while. In sums (`sum`) a round waits
for its whole cohort, all sites here, and asks who is missing again. An exchange in which somebody
is away lasts a whole deadline, in both; `exchanges` counts all of them, `rounds` those that were
summed. The gap is the true one: the optimum comes from Newton's method over the pooled rows.
"""

import argparse
import random
import statistics
import tempfile
from pathlib import Path

import numpy as np

import feddcd
from feddcd.data import Dataset
from feddcd.durable.ledger import Ledger
from feddcd.durable.server import committed_rounds
from feddcd.federation.config import Config
from feddcd.federation.coordinator import _masked_training, coordinator, inspect, nodes
from feddcd.federation.folder import load_place
from feddcd.federation.machine.init import create
from feddcd.federation.site.answer import answer
from feddcd.federation.wire import unpack_message
from feddcd.runs.spec import Spec

GAP, L2, MOST = 1e-6, 0.1, 400
METHODS = ["feddcd", "accfeddcd", "pointsaga"]


class Flaky:
    """A network in one process, whose sites are away from time to time, but for greetings."""

    def __init__(self, places, absence: float, seed: int):
        self.places, self.absence, self.random = places, absence, random.Random(seed)
        self.exchanges = 0

    def nodes(self):
        return dict.fromkeys(self.places, b"")

    def ask(self, requests, seconds, work, stop):
        self.exchanges += work
        for node, request in requests.items():
            task = unpack_message(request).kind in ("ask", "round")
            away = task and self.random.random() < self.absence
            yield node, None if away else answer(request, self.places[node])


def problem(sites: int) -> Dataset:
    """Rows of breast cancer, as many for each site, so that all share compiled functions."""
    data = feddcd.load("breast-cancer")
    each = len(data.y) // sites
    return Dataset("breast-cancer", data.X[: sites * each], data.y[: sites * each])


def objective(data: Dataset, w: np.ndarray) -> float:
    z = data.X @ w * np.where(data.y == data.y.max(), 1, -1)
    return float(np.mean(np.logaddexp(0, -z)) + L2 / 2 * np.sum(w**2))


def optimum(data: Dataset) -> float:
    w, y = np.zeros(data.X.shape[1]), (data.y == data.y.max()).astype(float)
    for _ in range(50):
        p = 1 / (1 + np.exp(-data.X @ w))
        g = data.X.T @ (p - y) / len(y) + L2 * w
        H = (data.X.T * (p * (1 - p))) @ data.X / len(y) + L2 * np.eye(len(w))
        w = w - np.linalg.solve(H, g)
    return objective(data, w)


def trial(folder: Path, data: Dataset, sites: int, method: str, mode: str, away: float, seed: int):
    """(rounds, exchanges) to the gap; None where it was not reached."""
    spec = Spec(model="logistic", l2=L2, algorithm=method, weighting="samples", rounds=MOST)
    config = Config("absence", spec, deadline=5.0, patience=60.0, answers=mode)
    names = [f"site-{i + 1:02d}" for i in range(sites)]
    home = create(folder, names, config, data=data)
    network = Flaky({i: load_place(home.site(n)) for i, n in enumerate(names, 1)}, away, seed)
    best, spent = optimum(data), []

    class Reached(Exception):
        pass

    def watch(event):
        if event["event"] != "round" or not event["summed"]:
            return
        spent.append(network.exchanges)
        with Ledger(home.ledger, readonly=True) as ledger:
            like = inspect.server_learner(terms(ledger)).like
            mean = committed_rounds(ledger, like)[-1].mean
        w = np.asarray(mean[0] if isinstance(mean, tuple) else mean)[:, 0]
        if objective(data, w) - best <= GAP:
            raise Reached

    terms = lambda ledger: inspect.Terms.from_json(inspect.read_founding(ledger))
    try:
        coordinator.coordinate(network, {"folder": str(folder)}, watch)
    except Reached:
        return len(spent), spent[-1]
    return None


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("methods", nargs="*", default=METHODS)
    parser.add_argument("--sites", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3)
    given = parser.parse_args()
    for module in (coordinator, nodes, _masked_training):
        module.PAUSE_S = 0.0  # nobody is waited for in one process
    data = problem(given.sites)
    print("method      away   each: rounds exchanges   sum: rounds exchanges   exchanges sum/each")
    for method in given.methods:
        for away in (0.0, 0.05, 0.3):
            middle = {}
            for mode in ("each", "sum"):
                found = []
                for seed in range(given.seeds if away else 1):
                    with tempfile.TemporaryDirectory() as made:
                        got = trial(Path(made) / "f", data, given.sites, method, mode, away, seed)
                    found.append(got or (MOST, MOST))
                middle[mode] = [statistics.median(column) for column in zip(*found, strict=True)]
            (r1, e1), (r2, e2) = middle["each"], middle["sum"]
            print(
                f"{method:10s} {away:5.0%}   {r1:12g} {e1:9g}   {r2:11g} {e2:9g}   {e2 / e1:18.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
