"""Seconds per round on Flower: our app against Flower's own FedAvg, turn by turn on one federation.

    python benchmarks/flower.py [--rounds 5] [--turns 2] [--stock]

Both run on one SuperLink and four SuperNodes of this machine with TLS and keys; the clients read
the same files and solve the same local problems with the same solver, each answer in a process
of its own: forked, as our nodes do it, or with --stock started anew, as Flower does it. The first
round of a turn is left out: a new app is unpacked there.
"""

import argparse
import json
import statistics
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from feddcd.data import load
from feddcd.federation.config import Config
from feddcd.federation.folder import FederationFolder, load_place
from feddcd.federation.machine.init import create
from feddcd.federation.machine.processes import Group
from feddcd.federation.machine.programs import (
    answers,
    flwr,
    free_port,
    link,
    node,
    register,
    submit,
)
from feddcd.runs.spec import Spec

SITES = [f"site-{i}" for i in (1, 2, 3, 4)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--stock", action="store_true", help="nodes as Flower has them")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        spec = Spec(weighting="samples", l2=0.01, rounds=10_000)
        config = Config("bench", spec, port=free_port())
        home = create(Path(folder) / "fed", SITES, config, data=load("digits"))
        group = Group(home.server / "processes.json")
        try:
            begin(home, group, options.stock)
            ours, theirs = [], []
            for turn in range(options.turns):
                ours += feddcd(home, (turn + 1) * options.rounds)[1:]
                theirs += fedavg(home, options.rounds)[1:]
                print(f"turn {turn + 1}: ours {ours[-3:]}, FedAvg {theirs[-3:]}", flush=True)
        finally:
            group.end()
    a, b = statistics.median(ours), statistics.median(theirs)
    print(f"seconds per round, median: ours {a:.2f}, Flower's FedAvg {b:.2f}, ratio {a / b:.2f}")


def begin(home: FederationFolder, group: Group, stock: bool) -> None:
    config = home.config()
    group.start(link(home))
    while not answers(config.host, config.port):
        time.sleep(0.2)
    register(home)
    for site in SITES:
        place = load_place(home.site(site))
        address = f"{config.host}:{config.port}"
        program = node(place, address, place.folder / "ca.crt", place.folder / "key")
        if stock:
            extra = {name: value for name, value in program.extra.items() if name != "PATH"}
            program = program._replace(extra=extra)
        group.start(program)


def feddcd(home: FederationFolder, rounds: int) -> list[float]:
    """To so many committed rounds; the seconds of each that was new."""
    seen = home.events.stat().st_size if home.events.exists() else 0
    submit(home, rounds)
    while True:
        events = [event for _, event in home.read_events(seen)]
        if any(event["event"] in ("finished", "failed") for event in events):
            break
        time.sleep(0.5)
    marks = [e["time"] for e in events if e["event"] in ("started", "progress")]
    return [round(b - a, 2) for a, b in pairwise(marks)]


def fedavg(home: FederationFolder, rounds: int) -> list[float]:
    app, result = Path(__file__).parent / "fedavg_app", home.path / "fedavg.json"
    result.unlink(missing_ok=True)
    settings = f"folder={json.dumps(str(home.path))} rounds={rounds}"
    flwr(home, "run", str(app), "feddcd", "--run-config", settings)
    while not result.exists():
        time.sleep(0.5)
    time.sleep(0.5)
    marks = json.loads(result.read_text())
    return [round(b - a, 2) for a, b in pairwise(marks)]


if __name__ == "__main__":
    main()
