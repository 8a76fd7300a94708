"""A federation over a network: the simulator's rounds, whoever dies, comes late or leaves."""

import random
import shutil
from collections import Counter

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

from disks import in_memory
from feddcd._errors import Stalled
from feddcd.algorithms import ALGORITHMS, AbstractStateless
from feddcd.data.federate import federate
from feddcd.durable.ledger import Ledger
from feddcd.durable.site import ClientFile
from feddcd.federation.coordinator import _rounds, nodes
from feddcd.federation.coordinator.inspect import inspect, verify
from feddcd.federation.folder import FederationFolder, load_place
from feddcd.federation.machine.init import add_site
from feddcd.federation.site.template import loose_text
from feddcd.runs.build import make_algorithm
from feddcd.simulator.simulate import federation, one_round, start
from federations import Given
from local_network import (
    LocalNetwork,
    events,
    kind_of,
    make,
    model,
    places,
    pooled,
    quick,
    reasons,
    sums,
    train,
    wine,
)
from slices import sliced

RIDGE = {"model": "ridge", "l2": 20.0}


@pytest.fixture(scope="module", autouse=True)
def _quick():
    with quick():
        yield


@pytest.fixture
def tmp_path():
    with in_memory() as folder:
        yield folder


def some_lost(share: float):
    """Requests and answers of every kind, at random."""
    draw = random.Random(0)

    def fault(site, kind):
        return draw.choice(("request", "answer")) if draw.random() < share else None

    return fault


def test_one_message_per_participant_and_round(tmp_path):
    home = make(tmp_path / "f", data=wine(), rounds=4, tau=3, **RIDGE)
    network = LocalNetwork(places(home))
    train(home, network)
    asked = Counter(site for site, kind in network.messages if kind == "task")
    assert asked == Counter(site for record in sums(home) for site in record.members)
    assert sum(asked.values()) == 4 * 3
    assert len(asked) == 4, "tau of the sites are drawn, not always the same"
    assert [event["asked"] for event in events(home, "round")] == [
        sorted(record.members) for record in sums(home)
    ]
    (done,) = events(home, "finished")
    assert done["messages"] == {"hello": 4, "task": 12, "settle": 4}
    assert done["messages"] == Counter(kind for _, kind in network.messages)
    summary = inspect(home).summary
    assert (summary["uploads"], summary["bytes_up"]) == (12, 12 * 13 * 8)


def test_certificates_are_counted_apart(tmp_path):
    home = make(tmp_path / "f", data=wine(), rounds=4, target_gap=1e-30, certify_every=2, **RIDGE)
    network = LocalNetwork(places(home))
    train(home, network)
    assert [event["committed"] for event in events(home, "certified")] == [2, 4]
    (done,) = events(home, "finished")
    assert done["messages"] == {"hello": 4, "task": 16, "settle": 8}
    assert done["messages"] == Counter(kind for _, kind in network.messages)


def test_it_stops_at_the_target(tmp_path):
    home = make(tmp_path / "f", data=wine(), rounds=90, target_gap=1e-9, certify_every=1, **RIDGE)
    train(home, LocalNetwork(places(home)))
    gaps = [event["certified_gap"] for event in events(home, "certified")]
    assert gaps[-1] <= 1e-9 < gaps[-2]
    assert events(home, "finished")[0]["committed"] == len(gaps) < 90


def optimum(sites, weighting: str) -> np.ndarray:
    """(Σ s_i X_i'X_i + N l2) w = Σ s_i X_i'y_i with s_i = 1/n_i, or N/n for all."""
    data, parts = pooled(sites)
    N, n = len(parts), len(data.y)
    s = np.concatenate(
        [np.full(len(p), 1 / len(p) if weighting == "clients" else N / n) for p in parts]
    )
    H = data.X.T @ (s[:, None] * data.X) + N * RIDGE["l2"] * np.eye(13)
    return np.linalg.solve(H, data.X.T @ (s * data.y))[:, None]


def objective(sites, w: np.ndarray) -> float:
    """F/N with all rows weighing the same."""
    data, _ = pooled(sites)
    return np.mean((data.X @ w[:, 0] - data.y) ** 2) / 2 + RIDGE["l2"] / 2 * np.sum(w**2)


def simulated(home: FederationFolder) -> tuple[np.ndarray, np.ndarray]:
    """The simulator's model after the ledger's cohorts, and its Σ y; the sites' own rows."""
    terms, rows = inspect(home).terms, sums(home)
    with jax.enable_x64(True):
        data, parts = pooled(places(home))
        made = federate(data, parts, model=terms.model, l2=terms.l2, weighting=terms.weighting)
        N = len(parts)
        algorithm = make_algorithm(terms.spec, terms.clients, terms.tau, made)
        everyone = Given(jnp.ones(N, bool), N=N, tau=N)
        fed = federation(algorithm, made.problem, everyone, seed=terms.seed)
        names = sorted(home.invited())
        state, step = start(fed, made.w), eqx.filter_jit(one_round)
        for record in rows:
            arrived = jnp.array([name in record.members for name in names])
            now = eqx.tree_at(lambda fed: fed.participation.arrived, fed, arrived)
            t = jnp.asarray(record.stamp.round - 1, jnp.int32)  # so that keys are the same
            state = state._replace(t=t)
            state, said = step(now, state)
        return np.asarray(algorithm.model(state.server)), np.asarray(said.dual_residual)


def test_a_site_that_never_answers_is_named_once_and_not_in_every_round(tmp_path, monkeypatch):
    """It is asked again and again; the next line about it comes half a minute later."""
    monkeypatch.setattr(_rounds, "MOST_ROUNDS_OUT", 1)
    home = make(tmp_path / "f", data=wine(), rounds=8, patience=0.01, **RIDGE)
    lost, asked = places(home)[0].client, []

    def fault(site, kind):
        if site == lost and kind == "task":
            asked.append(kind)
            return "answer"

    train(home, LocalNetwork(places(home), fault))
    assert len(asked) > 2
    assert [event["site"] for event in events(home, "silent")] == [lost]


@pytest.mark.parametrize("algorithm", sliced(["feddcd", "pointsaga", "fedqn"], {"feddcd"}))
def test_with_lost_messages_it_is_the_simulator(algorithm, tmp_path):
    """A fifth of all requests and answers is lost, which changes only who takes part."""
    home = make(tmp_path / "f", data=wine(), algorithm=algorithm, rounds=9, **RIDGE)
    train(home, LocalNetwork(places(home), some_lost(0.2)))
    cohorts = [record.members for record in sums(home)]
    assert len(cohorts) == 9
    assert {len(cohort) for cohort in cohorts} >= {3, 4}
    assert events(home, "silent")
    expected, residual = simulated(home)
    np.testing.assert_allclose(
        model(home), expected, rtol=0, atol=1e-10 if algorithm == "fedqn" else 1e-8
    )
    assert np.abs(expected).max() > 1e-3
    (said,) = events(home, "certified")
    assert max(said["dual_residual"], residual) <= 1e-10
    assert events(home, "finished")[0]["unsettled"] == []
    assert verify(home).records == 2 + 4 + 9


def test_in_few_bits_it_is_the_simulator_where_two_kinds_of_uploads_take_turns(tmp_path):
    """Server and sites hold the same notes, whoever missed an exchange of either kind."""
    wish = RIDGE | {"settings": {"bits": 8, "solver": "gd"}}
    home = make(tmp_path / "f", data=wine(), algorithm="mime", rounds=9, **wish)
    train(home, LocalNetwork(places(home), some_lost(0.2)))
    assert {len(record.members) for record in sums(home)} >= {3, 4}
    expected, _ = simulated(home)
    np.testing.assert_allclose(model(home), expected, rtol=0, atol=1e-8)
    assert np.abs(expected).max() > 1e-3


RUN = sliced(
    [name for name, row in ALGORITHMS.items() if not row.needs_everyone],
    {"feddcd"},
)


@pytest.mark.parametrize("algorithm", RUN)
def test_every_algorithm_runs(algorithm, tmp_path):
    whole = {"rank": 13} if algorithm == "fednlpp" else {}  # else it learns for 13 rounds
    own = RIDGE | {"settings": whole}
    home = make(tmp_path / "f", data=wine(), algorithm=algorithm, rounds=3, **own)
    train(home, LocalNetwork(places(home)))
    assert [len(record.members) for record in sums(home)] == [4, 4, 4]
    (said,) = events(home, "certified")
    if issubclass(ALGORITHMS[algorithm].algorithm, AbstractStateless):
        assert said["dual_residual"] is None
    else:
        assert said["dual_residual"] <= 1e-10
    best = objective(places(home), optimum(places(home), "samples"))
    np.testing.assert_allclose(said["objective"], objective(places(home), model(home)), rtol=1e-12)
    assert said["lower_bound"] <= best <= said["objective"] < best + 1e-3
    assert said["objective"] < objective(places(home), np.zeros((13, 1))) - 0.04
    assert verify(home).records == 2 + 4 + 3


class Death(Exception):
    pass


class Doom:
    """The coordinator dies at the `at`-th time it gets to a place; 0 is never."""

    def __init__(self, at: int):
        self.at, self.count = at, 0

    def __call__(self) -> None:
        self.count += 1
        if self.count == self.at:
            raise Death


def deadly_event(patch, doom, network):
    real = FederationFolder.note

    def note(self, event, **what):
        real(self, event, **what)
        doom()

    patch.setattr(FederationFolder, "note", note)


def deadly_record(patch, doom, network):
    real = Ledger.append

    def append(self, *args):
        entry = real(self, *args)
        doom()
        return entry

    patch.setattr(Ledger, "append", append)


def deadly_answer(patch, doom, network):
    def tamper(site, kind, data):
        doom()
        return data

    network.tamper = tamper


@pytest.fixture(scope="module")
def founded_here():
    """A folder where nothing has happened yet, and the model of an undisturbed run."""
    with in_memory() as folder:
        home, other = (
            make(folder / "f", 2, wine(2), rounds=2, **RIDGE),
            FederationFolder(folder / "other"),
        )
        shutil.copytree(home.path, other.path)
        train(other, LocalNetwork(places(other)))
        yield home, model(other)


def hashes(home: FederationFolder) -> list[str]:
    if not home.ledger.exists():
        return []
    with Ledger(home.ledger, readonly=True) as ledger:
        return [entry.hash for entry in ledger.entries()]


def epochs(home: FederationFolder) -> list[int]:
    if not home.ledger.exists():
        return []
    with Ledger(home.ledger, readonly=True) as ledger:
        return [entry.epoch for entry in ledger.entries() if entry.kind == "started"]


@pytest.mark.parametrize("every", sliced([1, 5], {5}))
@pytest.mark.parametrize("deadly", [deadly_event, deadly_record, deadly_answer])
def test_killed_anywhere_it_goes_on(deadly, every, founded_here, tmp_path):
    """After every event, every record (before the tasks that follow from it) and every answer, or
    after a fifth of them."""
    origin, expected = founded_here
    at, places_to_die = 0, 99
    while at <= places_to_die:
        home = FederationFolder(tmp_path / f"{at}")
        shutil.copytree(origin.path, home.path)
        network, doom = LocalNetwork(places(home)), Doom(at)
        with pytest.MonkeyPatch.context() as patch:
            deadly(patch, doom, network)
            if at:
                with pytest.raises(Death):
                    train(home, network)
            else:
                train(home, network)
                places_to_die = doom.count
                assert places_to_die >= 6
        before, starts = hashes(home), epochs(home)
        train(home, LocalNetwork(places(home)))
        assert hashes(home)[: len(before)] == before, "what was committed stays"
        assert len(sums(home)) == 2
        assert np.array_equal(model(home), expected)
        assert epochs(home) == list(range(1, len(starts) + 2)), "one more with every start"
        assert events(home, "started")[-1]["epoch"] == epochs(home)[-1]
        at += every
        shutil.rmtree(home.path)


def test_a_coordinator_that_dies_all_the_time_arrives(founded_here, tmp_path):
    origin, expected = founded_here
    home = FederationFolder(tmp_path / "f")
    shutil.copytree(origin.path, home.path)
    for at in range(1, 30):
        with pytest.MonkeyPatch.context() as patch:
            network, doom = LocalNetwork(places(home)), Doom(at)
            deadly_answer(patch, doom, network)
            try:
                train(home, network)
                break
            except Death:
                pass
    assert at > 5
    assert epochs(home) == list(range(1, len(events(home, "started")) + 1))
    assert len(epochs(home)) > 3
    assert len(sums(home)) == 2
    np.testing.assert_allclose(model(home), expected, rtol=0, atol=1e-12)
    assert verify(home).records == len(hashes(home))


def test_two_coordinators_do_not_share_a_ledger(founded_here, tmp_path):
    origin, _ = founded_here
    home = FederationFolder(tmp_path / "f")
    shutil.copytree(origin.path, home.path)
    with Ledger(home.ledger, "test"), pytest.raises(Exception, match="is in use by process"):
        train(home, LocalNetwork(places(home)))
    assert (
        "A federation can have only one coordinator: stop that process first"
        in events(home, "failed")[0]["reason"]
    )


def shorten(place, rows: int) -> None:
    """Sites of different sizes, or `samples` and `clients` would be the same."""
    pd.read_csv(place.data).head(rows).to_csv(place.data, index=False, float_format="%.17g")


def newcomer(home: FederationFolder, name: str, like) -> None:
    """A site that was invited later, with other rows than the others."""
    folder = add_site(home, name)
    data = wine(5)
    table = pd.DataFrame(data.X[-28:], columns=[f"x{j}" for j in range(13)])
    table.assign(label=data.y[-28:]).to_csv(folder / "data.csv", index=False, float_format="%.17g")
    told = f'client-id = "{name}"\nsuperlink = "x:1"\ndata = "data.csv"\nlabel = "label"\n'
    (folder / "site.toml").write_text(told)
    (folder / "policy.toml").write_text(loose_text())
    assert load_place(folder) != like


def arrays_of(place) -> dict[str, np.ndarray]:
    with ClientFile(place.state, federation="test", client=place.client) as file:
        saved = file.load()
        assert saved is not None
        return saved[1]


def test_a_late_joiner_begins_with_nothing(tmp_path):
    home = make(tmp_path / "f", 3, wine(3), rounds=2, **RIDGE)
    train(home, LocalNetwork(places(home)))
    newcomer(home, "site-4", places(home)[0])
    train(home, LocalNetwork(places(home)), 2)  # it joins, and no round follows
    assert events(home, "joined")[-1]["site"] == "site-4"
    assert events(home, "joined")[-1]["rows"] == 28
    held = {place.client: arrays_of(place)["state.y"] for place in places(home)}
    assert not held["site-4"].any()
    assert all(held[name].any() for name in ("site-1", "site-2", "site-3"))
    train(home, LocalNetwork(places(home)), 28)  # of four, tau = 3 are asked
    assert events(home, "certified")[-1]["dual_residual"] <= 1e-10
    everyone = optimum(places(home), "samples")
    np.testing.assert_allclose(model(home), everyone, rtol=0, atol=1e-8)
    assert np.abs(everyone - optimum(places(home)[:3], "samples")).max() > 1e-4


DEPARTURES = [("feddcd", "samples", 16), ("feddcd", "clients", 16), ("pointsaga", "samples", 26)]


@pytest.mark.parametrize(("algorithm", "weighting", "rounds"), sliced(DEPARTURES, DEPARTURES[:1]))
def test_without_a_site_that_is_gone_for_ever(algorithm, weighting, rounds, tmp_path):
    settings = {"algorithm": algorithm, "weighting": weighting, "rounds": 3}
    home = make(tmp_path / "f", data=wine(), **settings, **RIDGE)
    if algorithm == "feddcd":
        shorten(places(home)[0], 27)
    train(home, LocalNetwork(places(home)))
    *others, gone = places(home)
    shutil.rmtree(gone.folder)
    home.request((gone.client,), False)
    network = LocalNetwork(others)
    train(home, network, rounds)
    assert events(home, "retired")[0]["sites"] == ["site-4"]
    assert home.requests() == []
    assert set(inspect(home).server.members) == {"site-1", "site-2", "site-3"}
    assert events(home, "certified")[-1]["dual_residual"] <= 1e-10
    np.testing.assert_allclose(model(home), optimum(others, weighting), rtol=0, atol=1e-8)
    assert verify(home)
    both = [optimum(others, kind) for kind in ("samples", "clients")]
    assert algorithm != "feddcd" or np.abs(both[0] - both[1]).max() > 1e-6, "they should differ"


@pytest.mark.chaos
def test_several_leave_at_once_from_a_lossy_network(tmp_path):
    home = make(tmp_path / "f", 5, wine(5), rounds=3, **RIDGE)
    train(home, LocalNetwork(places(home)))
    home.request(("site-2", "site-4"), False)
    left = [place for place in places(home) if place.client not in ("site-2", "site-4")]
    train(home, LocalNetwork(left, some_lost(0.1)), 30)
    assert events(home, "retired")[0]["sites"] == ["site-2", "site-4"]
    np.testing.assert_allclose(model(home), optimum(left, "samples"), rtol=0, atol=1e-8)


@pytest.fixture
def four(tmp_path):
    home = make(tmp_path / "f", data=wine(), rounds=2, patience=0.3, **RIDGE)
    train(home, LocalNetwork(places(home)))
    return home


def test_who_was_expelled_stays_out(four):
    four.request(("site-4",), True)
    train(four, LocalNetwork(places(four)), 3)
    assert events(four, "retired") == [events(four, "retired")[0]]
    assert events(four, "retired")[0]["barred"] is True
    train(four, LocalNetwork(places(four)), 4)
    assert "'site-4' is not invited" in reasons(four)
    add_site(four, "site-4")
    places(four)[3].state.unlink()
    train(four, LocalNetwork(places(four)), 5)
    assert "'site-4' was expelled and cannot join again" in reasons(four)
    assert set(inspect(four).server.members) == {"site-1", "site-2", "site-3"}
    assert inspect(four).server.barred == {"site-4"}
    assert sums(four)[-1].members == ("site-1", "site-2", "site-3")


@pytest.mark.chaos
def test_who_was_retired_may_come_back_as_a_new_member(four):
    four.request(("site-4",), False)
    train(four, LocalNetwork(places(four)), 3)
    add_site(four, "site-4")
    train(four, LocalNetwork(places(four)), 4)
    assert (
        "site-4 left this training before, and still has its old state file. At the site: move "
        "the file `state` away, then the site can join again" in reasons(four)
    )
    assert "site-4" not in inspect(four).server.members
    old = places(four)[3].state
    old.rename(old.with_name("state.old"))
    train(four, LocalNetwork(places(four)), 20)
    assert [event["site"] for event in events(four, "joined")].count("site-4") == 2
    assert sums(four)[-1].members == ("site-1", "site-2", "site-3", "site-4")
    assert events(four, "certified")[-1]["dual_residual"] <= 1e-10
    np.testing.assert_allclose(model(four), optimum(places(four), "samples"), rtol=0, atol=1e-8)


def test_a_departure_waits_for_all_others(four):
    four.request(("site-4",), False)
    one, two, _, left = places(four)
    train(four, LocalNetwork([one, two, left]), 3)
    said = {event["reason"] for event in events(four, "waiting")}
    assert said == {"site-4 can leave when these sites are connected: site-3"}
    assert "site-4" in inspect(four).server.members
    assert inspect(four).requests == ["retire site-4"]
    assert len(sums(four)) == 3, "training goes on meanwhile"
    assert events(four, "finished")[-1]["unsettled"] == ["site-3"]
    train(four, LocalNetwork(places(four)[:3]), 4)
    assert [event["sites"] for event in events(four, "retired")] == [["site-4"]]
    assert inspect(four).requests == []


def test_a_departure_waits_for_who_cannot_settle(four):
    """A site that is there and refuses, here for its data, is as good as absent."""
    four.request(("site-4",), False)
    shorten(places(four)[2], 20)
    train(four, LocalNetwork(places(four)), 3)
    assert (
        "site-4 cannot leave yet, because site-3 has not sent its last sums"
        in events(four, "waiting")[0]["reason"]
    )
    assert not events(four, "retired")


def test_too_few_may_not_remain(tmp_path):
    home = make(tmp_path / "f", 3, wine(3), rounds=1, fewest=3, **RIDGE)
    train(home, LocalNetwork(places(home)))
    home.request(("site-2",), False)
    train(home, LocalNetwork(places(home)), 2)
    assert reasons(home) == "site-2 cannot leave: fewer than 3 sites would remain"
    assert home.requests() == []
    assert len(inspect(home).server.members) == 3
    assert sums(home)[-1].members == ("site-1", "site-2", "site-3")


def test_it_says_whom_it_waited_for(tmp_path):
    home = make(tmp_path / "f", 3, wine(3), patience=0.05, rounds=1, **RIDGE)
    with pytest.raises(
        Stalled, match=r"waited 0.05 s, .* did not connect: site-2, site-3; connected: site-1"
    ):
        train(home, LocalNetwork(places(home)[:1]))
    train(home, LocalNetwork(places(home)[:2]))  # two are enough
    with pytest.raises(
        Stalled, match=r"needs at least 2 of the sites site-1, site-2; connected: site-1"
    ):
        train(home, LocalNetwork(places(home)[:1]), 2)
    assert [event["event"] for _, event in home.read_events()].count("failed") == 2
    assert list(home.read_events())[-1][1]["event"] == "failed"


def test_it_ends_where_every_site_refuses_and_says_why(tmp_path):
    home = make(tmp_path / "f", 3, wine(3), patience=0.3, rounds=2, **RIDGE)
    for place in places(home):
        (place.folder / "policy.toml").write_text(
            "training = true\napprove = 'none'\nmethods = ['fedavg']\ncomplete = true\n"
        )
    with pytest.raises(Stalled, match="too few sites answered to finish a round; site-1: its"):
        train(home, LocalNetwork(places(home)))
    assert sums(home) == []


class SlowNetwork(LocalNetwork):
    """The last node answers a greeting only to who waits for it."""

    def ask(self, requests, seconds, work, stop):
        slow = max(self.places)
        first = {node: request for node, request in requests.items() if node != slow}
        yield from super().ask(first, seconds, work, stop)
        if slow in requests and (kind_of(requests[slow]) != "hello" or not stop()):
            yield from super().ask({slow: requests[slow]}, seconds, work, stop)


def test_a_slow_site_that_lost_one_message_is_asked_again(tmp_path, monkeypatch):
    monkeypatch.setattr(nodes, "AGAIN_S", 0.0)
    home = make(tmp_path / "f", 3, wine(3), rounds=6, **RIDGE)
    lost = iter([True])
    fault = lambda site, kind: (
        "answer" if (site, kind) == ("site-3", "task") and next(lost, False) else None
    )
    train(home, SlowNetwork(places(home), fault))
    assert [len(record.members) for record in sums(home)].count(2) <= 2
    assert len(sums(home)[-1].members) == 3


def test_rounds_with_too_few_answers_are_given_up(tmp_path):
    home = make(tmp_path / "f", 3, wine(3), fewest=3, rounds=2, **RIDGE)
    lost = iter([True, True])
    fault = lambda site, kind: (
        "answer" if (site, kind) == ("site-2", "task") and next(lost, False) else None
    )
    train(home, LocalNetwork(places(home), fault))
    assert [event["summed"] for event in events(home, "round")][:2] == [[], []]
    assert len(sums(home)) == 2
    assert {len(record.members) for record in sums(home)} == {3}
    assert events(home, "certified")[-1]["dual_residual"] <= 1e-10
