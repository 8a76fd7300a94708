"""Real processes: a SuperLink and four SuperNodes with TLS and keys, killed at different moments.

In `make test` four sites make a table, and one and the coordinator are killed; `make chaos` trains,
kills many, and lets a site retire.
"""

import re
import shlex
import shutil
import sys

import numpy as np
import pandas
import pytest
from cryptography.hazmat.primitives.asymmetric import ec

pytest.importorskip("flwr")

from docs_blocks import DOCS, ROOT, printed, run_line
from feddcd import FederatedGLM
from feddcd._errors import FlowerError
from feddcd.analysis.plan import RegressionPlan
from feddcd.data import load
from feddcd.federation.config import Config
from feddcd.federation.folder import FederationFolder
from feddcd.federation.machine._inner import inside
from feddcd.federation.machine.init import create
from feddcd.federation.machine.keys import write_pair
from feddcd.federation.machine.processes import Group
from feddcd.federation.machine.programs import free_port, node
from feddcd.federation.wire import read_refusal, unpack_message
from feddcd.flower import node as site_node
from feddcd.flower.node import SiteNode
from feddcd.runs.spec import Spec
from flower_world import (
    Up,
    duals,
    model,
    optimum,
    share_compiled,
    simulate,
    simulated,
    soon_back,
)
from hostile import CALLS, attempts, bundle, send_bundle

pytestmark = pytest.mark.processes
LIMIT_S = 600  # the machine may be busy
SITES = [f"site-{i}" for i in (1, 2, 3, 4)]
REST = [site for site in SITES if site != "site-3"]


def made(folder, algorithm, l2, rounds):
    spec = Spec(weighting="samples", l2=l2, algorithm=algorithm, rounds=rounds)
    config = Config("test", spec, deadline=30.0, patience=300.0, port=free_port())
    home = create(folder / "fed", SITES, config, data=load("digits"))
    share_compiled(home)
    return home


def feddcd(what, home, *more):
    """A command on a federation, in this process."""
    line = shlex.join(["feddcd", "federation", what, home.path.name, *more])
    return run_line(DOCS / "deploy.md", line, home.path.parent)


def as_printed(folder, **more):
    """Commands as they stand in the README and on the page on deployment, on the port that they
    take: what `init` makes, and what is to follow."""
    folder.mkdir()
    pip, init, *later = printed(DOCS / "deploy.md")[:5]
    assert pip.startswith("pip ")
    assert {init, later[0]} < set(printed(ROOT / "README.md"))
    run_line(DOCS / "deploy.md", init, folder)
    home = FederationFolder(folder / "fed")
    share_compiled(home)
    settings = (home.path / "federation.toml").read_text()
    assert "rounds = 3\n" in settings
    given = {"deadline": 30.0, "patience": 300.0, "l2": 200.0, **more}
    for name, value in given.items():
        settings, found = re.subn(rf"^{name} = .*$", f"{name} = {value}", settings, flags=re.M)
        assert found == 1
    (home.path / "federation.toml").write_text(settings)
    return home, later


class Watcher:
    """Kills what a plan says once so many rounds are committed; keeps the events."""

    def __init__(self, plan=(), begun=lambda up: None):
        self.plan, self.begun, self.events = dict(plan), begun, []

    def __call__(self, up, event):
        self.events.append(event)
        if event["event"] == "started" and event["epoch"] == 1:
            self.begun(up)
        if event["event"] != "progress":
            return
        for what in self.plan.pop(event["committed"], ()):
            if what == "coordinator":
                up.kill_coordinator()
            elif what.startswith("answer of "):
                assert up.kill_answer(what.removeprefix("answer of "))
            else:
                up.kill(what)

    def of(self, kind):
        return [event for event in self.events if event["event"] == kind]


def train(home, watcher, *options):
    up = Up(home, *options)
    assert up.watch(watcher, LIMIT_S) == 0, up.said()
    assert not watcher.plan
    feddcd("verify", home)
    return up.line


def check(home, conserved):
    """The model is the simulator's on the committed sets, and no site's state was lost."""
    np.testing.assert_allclose(model(home), simulated(home), rtol=0, atol=1e-8)
    held = duals(home, SITES, conserved)
    assert all(np.abs(y).max() > 0 for y in held)
    return held


def without_site_3(home, l2, rounds):
    """Its state is gone for ever and it is retired: the others' own optimum is reached."""
    (home.site("site-3") / "state").unlink()
    feddcd("retire", home, "site-3")
    watcher = Watcher()
    train(home, watcher, "--rounds", str(rounds))
    np.testing.assert_allclose(model(home), optimum(home, REST, l2), rtol=0, atol=1e-8)
    return watcher


@pytest.fixture
def stranger(tmp_path):
    """A site with a key that nobody registered; what it gives waits until it is turned away, for
    which the link has to be there."""
    folder = tmp_path / "site-5"
    group = Group(tmp_path / "process.json")

    def start(up):
        folder.mkdir()
        for name in ("site.toml", "ca.crt", "data.csv"):
            shutil.copy(up.home.site("site-1") / name, folder / name)
        write_pair(folder)
        group.start(node(folder))
        return lambda: group.running["site-5"].wait(LIMIT_S)

    yield start
    group.end()


def attack(up, trace, said):
    """An outsider with ca.crt, and a coordinator whose bundle is hostile."""
    fab, config = bundle(trace), up.home.config()
    authority = (up.home.server / "ca.crt").read_bytes()
    said |= attempts(f"127.0.0.1:{config.port}", authority, fab)
    said["answers"] = send_bundle(inside(up.home), fab, len(SITES))


def check_attack(home, said, trace):
    """Nobody but sites is let in, and no code from outside ran, not even the coordinator's."""
    answers = said.pop("answers")
    assert said == dict.fromkeys(said, "403")
    assert len(said) == len(CALLS)
    assert list(trace.iterdir()) == []
    assert [read_refusal(unpack_message(answer)).reason for answer in answers] == [
        f"{site}: this site cannot read the coordinator's message; the file site.log at the "
        "site says why"
        for site in SITES
    ]
    for site in SITES:
        noted = (home.site(site) / "site.log").read_text()
        assert "a run contained code; this site did not download or run this code" in noted
        assert "came with the code outsider/hostile 1.0.0, sha256 " in noted
    assert (
        "refused: POST /v1/control/start-run from 127.0.0.2: 403"
        in (home.server / "superlink.log").read_text()
    )


def test_the_printed_federation_trains_inspects_and_verifies(tmp_path):
    """In one process, by a quick method; `make chaos` does it with processes, and kills them."""
    home, (_, inspect, verify) = as_printed(tmp_path / "a folder", algorithm='"mbsgd"')
    feddcd("simulate", home)
    inspected, _ = (
        run_line(DOCS / "deploy.md", line, home.path.parent) for line in (inspect, verify)
    )
    assert ": 3 rounds, epoch " in inspected
    np.testing.assert_allclose(model(home), simulated(home), rtol=0, atol=1e-8)


@pytest.mark.chaos
def test_killed_processes_do_not_move_the_model(tmp_path, stranger):
    """Of the federation that the README and the page on deployment make."""
    home, (up, inspect, verify) = as_printed(tmp_path / "a folder")
    kills = {1: ["answer of site-2", "superlink"]}  # a coordinator without its link ends, too
    trace, said = tmp_path / "trace", {}
    trace.mkdir()

    def begun(up):
        with up.held():  # a few rounds are sooner over than a stranger is turned away
            turned_away = stranger(up)
            attack(up, trace, said)
            turned_away()

    line = train(home, Watcher(kills, begun))
    assert line == up
    inspected = run_line(DOCS / "deploy.md", inspect, home.path.parent)
    assert ": 3 rounds, epoch " in inspected
    assert inspected.count("settled") == 4
    assert verify == "feddcd federation verify fed"  # which `train` ran

    check_attack(home, said, trace)
    held = check(home, "y")
    total = np.abs(np.sum(held, axis=0)).max()
    assert total <= 1e-10 * (1 + np.abs(held).max())

    assert "ERROR: 127.0.0.1" in (tmp_path / "site-5" / "supernode.log").read_text()


@pytest.mark.chaos
@pytest.mark.parametrize(("algorithm", "conserved"), [("feddcd", "y"), ("pointsaga", "g")])
def test_twelve_rounds_with_many_kills(tmp_path, algorithm, conserved):
    home = made(tmp_path, algorithm, 1.0, 12)
    kills = {
        1: ["site-1"], 3: ["answer of site-2"], 4: ["coordinator"], 6: ["superlink"],
        7: ["answer of site-4", "site-3"], 9: ["superlink", "coordinator"], 10: ["site-2"],
    }  # fmt: skip
    train(home, Watcher(kills))
    check(home, conserved)

    # one message per participant and round; greetings and settlements apart
    quiet = without_site_3(home, 1.0, 12 + 30)
    asked = [site for event in quiet.of("round") for site in event["asked"]]
    (end,) = quiet.of("finished")
    summed = [site for event in quiet.of("round") for site in event["summed"]]
    assert end["messages"]["task"] == len(asked) == len(summed) == 30 * 3
    assert end["messages"]["settle"] == 2 * 3  # for the departure, and at the end


def table_of_four(folder):
    """A regression over four sites that take no part in training: they load no JAX."""
    d = load("breast-cancer")
    data = pandas.DataFrame(d.X[:, [0, 1, 4]], columns=["radius", "texture", "smooth"])
    data = data.assign(benign=d.y.astype(int), site=[SITES[i % 4] for i in range(len(d.y))])
    formula = "radius ~ benign + texture + smooth"  # least squares: few messages
    plan = RegressionPlan(formula, "gaussian")
    config = Config("test", plan=plan, deadline=60.0, patience=300.0, port=free_port())
    parts = {site: rows.drop(columns="site") for site, rows in data.groupby("site")}
    home = create(folder / "fed", SITES, config, data=parts)
    for site in SITES:
        rules = home.site(site) / "policy.toml"
        rules.write_text(rules.read_text().replace("training = true", "training = false"))
    return home, FederatedGLM("gaussian", formula).fit(data, groups="site")


def turn_away(home, monkeypatch):
    """A site with a key that nobody registered."""
    monkeypatch.setattr(site_node, "PATIENCE_S", 0.0)
    address, authority = f"127.0.0.1:{home.config().port}", (home.server / "ca.crt").read_bytes()
    key = ec.generate_private_key(ec.SECP384R1())
    nothing = lambda *_: None
    stranger = SiteNode(address, authority, key, nothing, nothing, nothing, nothing)
    with (
        stranger._client,
        pytest.raises(
            FlowerError, match="does not accept this site: the coordinator does not know the key"
        ),
    ):
        stranger.serve()


def test_four_sites_make_the_table_of_one_process_whoever_is_killed(tmp_path, monkeypatch):
    """TLS, keys and masked sums. After the first of them the coordinator and a site are killed, and
    strangers knock meanwhile."""
    home, model = table_of_four(tmp_path)
    up, killed, trace, said = Up(home, extra=soon_back(tmp_path)), [], tmp_path / "trace", {}
    trace.mkdir()
    watcher = Watcher()

    def kill(up, event):
        watcher(up, event)
        if event["event"] == "exchange" and not killed:
            killed.extend(["site-1", "coordinator"])
            up.kill("site-1")
            up.kill_coordinator()
            turn_away(home, monkeypatch)
            attack(up, trace, said)

    assert up.watch(kill, LIMIT_S) == 0, up.said()
    assert up.line in printed(ROOT / "README.md")
    assert killed == ["site-1", "coordinator"]
    table = pandas.read_csv(home.server / "glm" / "coefficients.csv", index_col="name")
    np.testing.assert_allclose(table, model.table_, rtol=1e-8)
    (end,) = watcher.of("finished")
    assert end["sites"] == SITES
    assert watcher.of("goes on")
    assert len(watcher.of("greeting")) == 2
    assert "the program 'site-1' stopped, and feddcd starts it again" in up.said()
    verified = feddcd("verify", home)
    for site in SITES:
        assert f"{site}: signed" in verified
    check_attack(home, said, trace)


@pytest.mark.chaos
def test_what_the_server_remembers_outlives_kills(tmp_path):
    """FedQN: notes of each site at the coordinator, and parts of an upload that travel only once.
    Who sends a Hessian is said by the places of those asked, whoever answers."""
    home = made(tmp_path, "fedqn", 1.0, 8)
    watcher = Watcher({2: ["answer of site-2"], 4: ["coordinator"], 5: ["site-1"]})
    train(home, watcher)
    held = check(home, "g")
    np.testing.assert_allclose(model(home), simulated(home), rtol=0, atol=1e-10)
    begun = np.abs(held).max()
    assert begun > 1e-3
    assert watcher.of("finished")


@pytest.mark.chaos
@pytest.mark.skipif(" " in sys.prefix, reason="Flower's own link needs a path without a space")
def test_the_example_in_flowers_simulation_engine(tmp_path):
    pytest.importorskip("ray")
    home = made(tmp_path, "feddcd", 1.0, 3)
    simulate(home)
    np.testing.assert_allclose(model(home), simulated(home), rtol=0, atol=1e-8)
