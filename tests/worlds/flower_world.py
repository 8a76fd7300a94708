"""A real federation of processes on this machine, and what kills them."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from feddcd import tree
from feddcd.data import Dataset
from feddcd.data.federate import federate
from feddcd.data.tables import read_site
from feddcd.durable.codec import unpack
from feddcd.durable.ledger import Ledger
from feddcd.durable.server import committed_rounds, read_founding
from feddcd.federation.folder import FederationFolder, load_place
from feddcd.federation.machine.processes import QUIET, Group, Program, processes
from feddcd.federation.machine.programs import answers, free_port
from feddcd.federation.terms import Terms, server_learner
from feddcd.participation import AbstractParticipation, Cohort
from feddcd.simulator.simulate import federation, one_round, start
from feddcd.solvers import NewtonCG, Tolerance

NONE: Mapping[str, str] = MappingProxyType({})


def share_compiled(home: FederationFolder) -> None:
    """What XLA makes at one of them serves all: each has a folder of its own, here the same."""
    shared = Path(os.environ["JAX_COMPILATION_CACHE_DIR"])
    shared.mkdir(parents=True, exist_ok=True)
    for folder in (home.server / "flower", *(home.path / "sites").iterdir()):
        (folder / "compiled").symlink_to(shared, target_is_directory=True)


# A link lets a killed node back in after two of its intervals: here ten seconds each, not thirty
SOON_BACK = """
import sys
if "feddcd.federation.machine.serve" in sys.orig_argv:
    import flwr.common.constant
    flwr.common.constant.HEARTBEAT_DEFAULT_INTERVAL = 10
"""


def soon_back(folder: Path) -> dict[str, str]:
    """The environment of programs whose nodes are let back in soon after they were killed."""
    (folder / "sitecustomize.py").write_text(SOON_BACK)
    paths = filter(None, (str(folder), os.environ.get("PYTHONPATH")))
    return {"PYTHONPATH": os.pathsep.join(paths)}


class Up:
    """`feddcd federation up`, as it is printed, beside the folder; `when(event)` is called for
    each event, and may kill."""

    def __init__(self, home: FederationFolder, *options: str, extra: Mapping[str, str] = NONE):
        self.home = home
        line = shlex.join(["feddcd", "federation", "up", home.path.name, *options])
        self.place = home.events.stat().st_size if home.events.exists() else 0
        self.log = (home.path / "up.log").open("ab")
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.process = subprocess.Popen(
            ["bash", "-c", f"exec {line}"], cwd=home.path.parent,
            env={**os.environ, "PATH": path, **extra}, stdout=self.log, stderr=self.log,
        )  # fmt: skip
        self.line = line

    def watch(self, when: Callable[["Up", dict], None], seconds: float) -> int:
        """To the end of the process; its exit code."""
        try:
            return self._watch(when, seconds)
        finally:
            if self.process.poll() is None:
                self.stop()
            self.log.close()

    def _watch(self, when: Callable[["Up", dict], None], seconds: float) -> int:
        until = time.monotonic() + seconds
        while self.process.poll() is None:
            for place, event in list(self.home.read_events(self.place)):
                self.place = place
                when(self, event)
            if time.monotonic() > until:
                raise TimeoutError(f"not done in {seconds} s:\n{self.said()}")
            time.sleep(0.1)
        return self.process.returncode

    def stop(self) -> None:
        """Nothing is left running, also where `up` does not end as it should."""
        self.process.terminate()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            Group(self.home.server / "processes.json")  # ends who is written down there

    def said(self) -> str:
        return (self.home.path / "up.log").read_text()[-4000:]

    def pid(self, program: str) -> int:
        return json.loads((self.home.server / "processes.json").read_text())[program][0]

    def kill(self, program: str) -> None:
        os.kill(self.pid(program), signal.SIGKILL)

    def kill_coordinator(self) -> None:
        os.kill(self._coordinator(), signal.SIGKILL)

    @contextmanager
    def held(self) -> Iterator[None]:
        """The coordinator stands still, so that nothing ends meanwhile, however long it takes."""
        pid = self._coordinator()
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def _coordinator(self) -> int:
        events = [event for _, event in self.home.read_events() if event["event"] == "greeting"]
        return events[-1]["pid"]

    def kill_answer(self, site: str, seconds: float = 90) -> bool:
        """A process that works on an answer of this site; False if none came."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for pid in self._answers(site):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    return True
            time.sleep(0.02)
        return False

    def _answers(self, site: str) -> list[int]:
        """All processes of a site but the oldest two: its node, and the server of its forks."""
        group = self.pid(site)
        there = [p for p in processes() if p.group == group and p.at_work]
        return [p.pid for p in sorted(there, key=lambda p: (int(p.began), p.pid))[2:]]


def simulate(home: FederationFolder, seconds: float = 600) -> None:
    """The app in Flower's simulation engine, with the sites of the folder as its nodes."""
    port, folder = free_port(), home.server / "flower"
    text = f'address = "127.0.0.1:{port}"\ninsecure = true\n'
    (folder / "config.toml").write_text(f'[superlink]\ndefault = "sim"\n[superlink.sim]\n{text}')
    bin = Path(sys.executable).parent
    command = [str(bin / "flower-superlink"), "--insecure", "--simulation", "--host", "127.0.0.1"]
    program = Program("superlink", [*command, "--port", str(port)], home.path / "sim.log", {})
    environment = {**os.environ, **QUIET, "FLWR_HOME": str(folder), "PATH": f"{bin}:/usr/bin:/bin"}
    group = Group(home.server / "simulation.json")
    try:
        path = f"{bin}{os.pathsep}{os.environ['PATH']}"  # Flower looks there for its programs
        group.start(program._replace(extra={"FLWR_HOME": str(folder), "PATH": path}))
        until = time.monotonic() + seconds
        while not answers("127.0.0.1", port):
            assert not group.dead(), program.log.read_text()[-4000:]
            time.sleep(0.2)
        app = Path(__file__).parents[2] / "examples" / "flower"
        run = [str(bin / "flwr"), "run", str(app), "sim", "--run-config"]
        nodes = ["--federation-config", "num-supernodes=4"]
        subprocess.run([*run, f'folder="{home.path}"', *nodes], env=environment, check=True)
        while not any(event["event"] == "finished" for _, event in home.read_events()):
            if time.monotonic() > until:
                raise TimeoutError((home.path / "sim.log").read_text()[-4000:])
            time.sleep(0.5)
    finally:
        group.end()


def rows(home: FederationFolder, sites: list[str]) -> tuple[Dataset, list[np.ndarray]]:
    """What these sites hold, pooled, and whose rows are whose."""
    places = [load_place(home.site(site)) for site in sites]
    held = [read_site(place.data, place.label) for place in places]
    ends = np.cumsum([len(site.labels) for site in held])
    parts = [np.arange(end - len(site.labels), end) for site, end in zip(held, ends, strict=True)]
    X = np.concatenate([np.asarray(site.X) for site in held])
    return Dataset("pooled", X, np.concatenate([site.labels for site in held])), parts


class _Given(AbstractParticipation):
    certain: ClassVar[bool] = False
    N: int
    tau: int
    ids: jax.Array
    arrived: jax.Array

    def __call__(self, key) -> Cohort:
        return Cohort(self.ids, jnp.ones(self.ids.shape, bool), self.arrived)


def _cohorts(home: FederationFolder, sums: list) -> list[list[str]]:
    """Who was asked in these rounds, by the events: a method may address a site by its place among
    those. A coordinator that was killed may not have noted its last round."""
    rounds = [event for _, event in home.read_events() if event["event"] == "round"]
    asked = {(e["round"], *sorted(e["summed"])): e["asked"] for e in rounds}
    key = lambda record: (record.stamp.round, *sorted(record.members))
    return [asked.get(key(record), list(record.members)) for record in sums]


def simulated(home: FederationFolder) -> np.ndarray:
    """The simulator's model after the rounds that the ledger has committed, with no faults."""
    with Ledger(home.ledger, readonly=True) as ledger, jax.enable_x64(True):
        terms = Terms.from_json(read_founding(ledger) or {})
        parts = server_learner(terms)
        sums = committed_rounds(ledger, parts.like)
        sites = sorted({site for record in sums for site in record.members})
        data, split = rows(home, sites)
        fed = federate(data, split, model=terms.model, l2=terms.l2, weighting=terms.weighting)
        algorithm = parts.algorithm._algorithm  # pyright: ignore
        step, state = eqx.filter_jit(one_round), None
        for record, cohort in zip(sums, _cohorts(home, sums), strict=True):
            asked = [site for site in sites if site in cohort]
            ids = jnp.array([sites.index(site) for site in asked])
            arrived = jnp.array([site in record.members for site in asked])
            who = _Given(len(sites), len(ids), ids, arrived)
            world = federation(algorithm, fed.problem, who, seed=terms.seed)
            state = start(world, fed.w) if state is None else state
            now = jnp.asarray(record.stamp.round - 1, jnp.int32)  # so that keys are the same
            state, _ = step(world, state._replace(t=now))
        assert state is not None
        return np.asarray(algorithm.model(state.server))


def duals(home: FederationFolder, sites: list[str], name: str) -> list[np.ndarray]:
    """What the sites' own files hold of a conserved quantity."""
    packed = [unpack((home.site(site) / "state").read_bytes())[1] for site in sites]
    return [arrays[f"state.{name}"] for arrays in packed]


def model(home: FederationFolder) -> np.ndarray:
    with np.load(home.server / "model.npz", allow_pickle=False) as file:
        return file["w"]


def optimum(home: FederationFolder, sites: list[str], l2: float) -> np.ndarray:
    """The pooled rows' own minimiser, by Newton's method."""
    with jax.enable_x64(True):
        data, parts = rows(home, sites)
        one = federate(data, [np.concatenate(parts)], l2=l2, weighting="samples")
        f = tree.take(one.problem, 0)
        solved = NewtonCG(stop=Tolerance(1e-11), space="parameters")(f, one.w, jax.random.key(0))
        return np.asarray(solved.w)
