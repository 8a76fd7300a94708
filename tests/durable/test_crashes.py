"""Every crash point of four sites and a server over three rounds, on real files: whatever
happens, the sites hold what a fault-free run over the committed cohorts gives, bit for bit."""

import shutil
from functools import cache
from pathlib import Path

import jax
import numpy as np
import pytest

from chaos import PlainDual, World
from deployment import SITES, Deployment, Fault, parts
from disks import in_memory
from feddcd.algorithms import FedDCD
from feddcd.durable.server import audit
from feddcd.durable.shapes import Compiled
from feddcd.problems import random_quadratics
from federations import EXACT

PAIRS, PARTS = 15, 20  # a sample; make chaos follows all


@pytest.fixture(scope="module", autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture
def folder():
    with in_memory() as made:
        yield made


SHIPPED, PLAIN = Compiled(FedDCD(EXACT)), PlainDual()


@cache
def problem():
    return random_quadratics(4, 2, alpha=0.2, beta=1.0, seed=9)


@cache
def shared():
    return parts(FedDCD(EXACT), problem())


def play(folder, faults=(), watch=lambda ends: None, algorithm=PLAIN) -> Deployment:
    folder.mkdir()
    made = Deployment(folder, algorithm, shared(), faults, watch=watch)
    try:
        made.run()
    except BaseException:
        made.close()
        raise
    return made


@cache
def clean(algorithm, cohorts: tuple[tuple[int, tuple[str, ...]], ...]) -> dict[str, bytes]:
    """The duals after these rounds (number, members) without a fault."""
    made = World(algorithm, problem(), seed=0)
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
    assert {id: y.tobytes() for id, y in duals.items()} == clean(made.algorithm, cohorts)
    assert not made.refusals
    running = made.server()
    assert (
        audit(running.ledger, made.algorithm, made.w, made.like, made.key) == running.ledger.head[0]
    )
    made.close()


@cache
def length(place: str, *faults: Fault) -> int:
    """Disk operations of the last process of a place that these faults let start."""
    with in_memory() as folder:
        made = play(folder / "run", faults)
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


def survives(folder: Path, faults, algorithm=PLAIN) -> None:
    folder = folder / "run"
    try:
        check(play(folder, faults, algorithm=algorithm))
    except Exception as error:
        raise AssertionError(f"after {faults}") from error
    shutil.rmtree(folder)


def test_every_crash_point_of_a_site_and_the_server(folder):
    """At each of them a site crashes in one way of seven, which take turns. The other sites
    run the same code; the pairs below draw their points, too."""
    faults = [fault for n, fault in enumerate(points("a")) if (n - n // len(HOW)) % len(HOW) < 1]
    assert {fault.at for fault in faults} == set(range(length("a")))
    assert len({fault[2:] for fault in faults}) == len(HOW)
    for number, fault in enumerate([*faults, *points("server")]):
        survives(folder, [fault], PLAIN if number % 7 else SHIPPED)


@pytest.mark.chaos
@pytest.mark.parametrize("place", SITES)
def test_every_single_crash_point(place, folder):
    for fault in points(place):
        survives(folder, [fault])


@pytest.mark.chaos
@pytest.mark.parametrize("place", ["a", "server"])
def test_every_single_crash_point_as_shipped(place, folder):
    for fault in points(place):
        survives(folder, [fault], SHIPPED)


def everything() -> list[Fault]:
    return [fault for place in (*SITES, "server") for fault in points(place)]


def test_pairs_of_crash_points(folder):
    faults = everything()
    for i, j in np.random.default_rng(0).choice(len(faults), (PAIRS, 2)):
        survives(folder, (faults[i], faults[j]))


class Known(Exception):
    """From here on it goes as another run does, which is followed to its end."""


def until_known(folder: Path, faults, watch) -> bool:
    """Whether a run was followed to its end, and checked, or `watch` knew how it goes on."""
    run = folder / "run"
    try:
        check(play(run, faults, watch))
        return True
    except Known:
        return False
    except Exception as error:
        raise AssertionError(f"after {faults}") from error
    finally:
        shutil.rmtree(run)


@cache
def firsts() -> tuple[Fault, ...]:
    """Of the faults that leave the same files at the same moment, one."""
    found: dict[tuple, Fault] = {}
    with in_memory() as folder:
        for fault in everything():

            def note(ends, fault=fault):
                key = ends[0] if fault.where != "server" else fault
                found.setdefault(key, fault)
                raise Known

            until_known(folder, [fault], note)
    return tuple(found.values())


def follow(folder: Path, first: Fault) -> int:
    """Every second fault after this one, if it is met later: once for each of the files that
    it can leave at a moment. If it is met earlier, the pair is followed from there."""
    seen, followed = set(), 0

    def once(ends):
        if ends[0][0] != first.where:
            raise Known
        if len(ends) == 2 and ends[1][0] != "server":
            if ends[1] in seen:
                raise Known
            seen.add(ends[1])

    for second in everything():
        met = second.where != first.where or second.at < length(first.where, first)
        followed += met and until_known(folder, (first, second), once)
    return followed


@pytest.mark.chaos
@pytest.mark.parametrize("part", range(PARTS))
def test_all_pairs_of_crash_points(part, folder):
    """Two runs in which as much has happened and the same files are there go on alike."""
    for first in firsts()[part::PARTS]:
        assert follow(folder, first) > 0


@pytest.mark.parametrize("count", [45, pytest.param(120, marks=pytest.mark.chaos)])
def test_runs_that_are_known_to_go_on_alike_do(count, folder):
    """The shortcut of all pairs, tried on some: what it leaves out ends as what it follows."""
    draw = np.random.default_rng(0)
    by_end: dict[tuple, list[bytes]] = {}
    for i in draw.choice(len(everything()), count, replace=False):
        fault = everything()[i]
        made = play(folder / "run", [fault])
        end = made.ends[0] if fault.where != "server" else fault
        files = sorted(folder.glob("run/*.state"))
        by_end.setdefault(end, []).append(b"".join(path.read_bytes() for path in files))
        check(made)
        shutil.rmtree(folder / "run")
    assert max(map(len, by_end.values())) > 3
    assert all(len(set(left)) == 1 for left in by_end.values())
