"""Every crash point of four sites and a server over three rounds, on real files: whatever
happens, the sites hold what a fault-free run over the committed cohorts gives, bit for bit."""

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest

from chaos import World, remembered_arrays, remembered_keys
from deployment import SITES, Deployment, Fault, Remembered, parts
from feddcd.algorithms import FedDCD
from feddcd.engines.book import audit
from feddcd.problems import random_quadratics
from federations import EXACT

PAIRS = os.environ.get("FEDDCD_CRASH_PAIRS", "2000")  # or "all", which takes hours
PARTS = 1000 if PAIRS == "all" else 4


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True), remembered_keys(), remembered_arrays():
        yield


@pytest.fixture
def folder():
    """In memory where that can be had: SQLite waits for the disk, which is not what is tested."""
    memory = Path("/dev/shm")
    quick = memory if memory.is_dir() and os.access(memory, os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=quick) as made:
        yield Path(made)


@cache
def plain():
    return FedDCD(EXACT)


@cache
def algorithm():
    return Remembered(plain())


@cache
def problem():
    return random_quadratics(4, 2, alpha=0.2, beta=1.0, seed=9)


@cache
def shared():
    return parts(plain(), problem())


def play(folder, faults=()) -> Deployment:
    folder.mkdir()
    made = Deployment(folder, algorithm(), shared(), faults)
    made.run()
    return made


@cache
def clean(cohorts: tuple[tuple[int, tuple[str, ...]], ...]) -> dict[str, bytes]:
    """The duals after these rounds (number, members) without a fault."""
    made = World(plain(), problem(), np.zeros(2), seed=0)
    for row, id in enumerate(SITES):
        made.join(id, row)
    for number, members in cohorts:
        made.server = made.server._replace(round=number - 1)
        made.round(members)
    made.settle()
    return {id: np.asarray(made.disk[id].state.y).tobytes() for id in SITES}


def check(made: Deployment) -> None:
    done = made.committed()
    assert len(done) >= made.rounds
    cohorts = tuple((record.stamp.round, record.members) for record in done)
    duals = made.duals()
    total = sum(duals.values())
    assert np.abs(total).max() <= 1e-10 * (1 + max(np.abs(y).max() for y in duals.values()))
    assert {id: y.tobytes() for id, y in duals.items()} == clean(cohorts)
    assert not made.refusals
    book = made.server()
    assert audit(book.ledger, made.algorithm, made.w, made.like) == book.ledger.head[0]
    made.close()


@cache
def length(place: str, *faults: Fault) -> int:
    """Disk operations of the last process of a place that these faults let start."""
    with tempfile.TemporaryDirectory() as folder:
        made = play(Path(folder) / "run", faults)
        check(made)
        return made.length(place, len(faults))


HOW = [
    ("before", 1.0, False),
    ("after", 0.6, True),
    ("after", 0.0, False),
    (40, 1.0, False),  # torn
    ("disk full", 1.0, False),
    ("input/output error", 1.0, False),
    ("error after", 1.0, False),
]


def points(place: str) -> list[Fault]:
    if place == "server":
        return [Fault(place, at, how) for at in range(length(place)) for how in ("before", "after")]
    return [Fault(place, at, *how) for at in range(length(place)) for how in HOW]


def survives(folder: Path, faults) -> None:
    folder = folder / "run"
    try:
        check(play(folder, faults))
    except Exception as error:
        raise AssertionError(f"after {faults}") from error
    shutil.rmtree(folder)


@pytest.mark.parametrize("place", [*SITES, "server"])
def test_every_single_crash_point(place, folder):
    for fault in points(place):
        survives(folder, [fault])


def pairs(part: int) -> Iterator[tuple[Fault, Fault]]:
    """A part of all pairs, or of as many drawn ones.

    The order matters at one place alone: there the process that is started after the first
    fault meets the second, if it gets that far; else the pair is a single fault.
    """
    everything = [fault for place in (*SITES, "server") for fault in points(place)]
    if PAIRS != "all":
        draw = np.random.default_rng(part).choice(len(everything), (int(PAIRS) // PARTS, 2))
        return ((everything[i], everything[j]) for i, j in draw)
    numbered = itertools.product(enumerate(everything), repeat=2)
    distinct = (
        (a, b)
        for (i, a), (j, b) in numbered
        if (b.at < length(a.where, a) if a.where == b.where else i < j)
    )
    return itertools.islice(distinct, part, None, PARTS)


@pytest.mark.parametrize("part", range(PARTS))
def test_pairs_of_crash_points(part, folder):
    for pair in pairs(part):
        survives(folder, pair)
