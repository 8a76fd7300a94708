"""Four sites and a server on real files, which crash where a plan says and are started again."""

from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from disks import Crash, FailingDisk, QuickDisk
from feddcd import tree
from feddcd._errors import Refused, StateError
from feddcd.durable.ledger import Ledger
from feddcd.durable.protocol import Joined, Summed
from feddcd.durable.protocol.server import Guard
from feddcd.durable.server import LedgerServer, decode
from feddcd.durable.shapes import shapes
from feddcd.durable.site import ClientFile, Site

SITES = ("a", "b", "c", "d")


class Fault(NamedTuple):
    """At the disk operation number `at` of a site's process, or at a write of the server."""

    where: str  # a site, or "server"
    at: int
    fault: str | int = "before"
    keep: float = 1.0
    undo: bool = False


def parts(algorithm, problem):
    """What all deployments of a test share."""
    problems = {id: tree.take(problem, row) for row, id in enumerate(SITES)}
    weights = {id: float(algorithm.weight(f)) for id, f in problems.items()}
    w = jnp.zeros(problem.b.shape[-1])
    return problems, weights, w, shapes(algorithm, problems["a"], w), jax.random.key(0)


class Deployment:
    """`faults` are met in their order, one per process: a process that crashed is started anew
    and meets the next fault of its place, if there is one."""

    def __init__(
        self, folder: Path, algorithm, shared, faults=(), rounds: int = 3, watch=lambda ends: None
    ):
        """`watch` is told of the ends of processes: place, moment, and the files it left."""
        self.folder, self.algorithm, self.rounds, self.watch = folder, algorithm, rounds, watch
        self.moment, self.ends = 0, []
        self.problems, self.weights, self.w, self.like, self.key = shared
        self.plans = {place: [] for place in (*SITES, "server")}
        for fault in faults:
            self.plans[fault.where].append(fault)
        self.lives: dict[str, list[list]] = {place: [] for place in (*SITES, "server")}
        self.refusals: list[str] = []
        self.sites: dict[str, Site | None] = dict.fromkeys(SITES)
        self.running_server: LedgerServer | None = None

    def length(self, place: str, life: int) -> int:
        """Disk operations of the process of a place that was started as number `life`."""
        return len(self.lives[place][life]) if life < len(self.lives[place]) else 0

    def ended(self, place: str) -> None:
        """What is to come depends on the moment and on the files, and on nothing else."""
        left = sorted(self.folder.glob(f"*{place}.state*")) if place in SITES else []
        held = [(path.name, path.read_bytes()) for path in left if path.suffix != ".lock"]
        self.ends.append((place, self.moment, hash(tuple(held))))
        self.watch(self.ends)

    def disk(self, place: str):
        made = FailingDisk()
        if self.plans[place]:
            _, at, fault, keep, undo = self.plans[place].pop(0)
            made = FailingDisk(at, fault, keep=keep, undo=undo)
        self.lives[place].append(made.operations)
        return made

    def site(self, id: str) -> Site:
        """The running process of a site, started if need be."""
        starts = 0
        while (running := self.sites[id]) is None:
            self.moment, starts = self.moment + 1, starts + 1
            assert starts < 20, f"{id} does not start any more"
            disk = self.disk(id)
            try:
                file = ClientFile(self.folder / f"{id}.state", federation="f", client=id, disk=disk)
                try:
                    f = self.problems[id]
                    self.sites[id] = Site(file, self.algorithm, f, self.w, self.key, self.like)
                except (Crash, StateError):
                    file.close()
                    raise
            except (Crash, StateError):
                self.ended(id)
        return running

    def ask(self, id: str, message):
        """The answer, or None: the process crashed, or its disk failed and it was ended."""
        site = self.site(id)
        self.moment += 1
        try:
            return site.handle(message)
        except Refused as reason:
            self.refusals.append(str(reason))
        except (Crash, StateError):
            site.file.close()
            self.sites[id] = None
            self.ended(id)
        return None

    def server(self) -> LedgerServer:
        while self.running_server is None:
            ledger = Ledger(self.folder / "ledger.db", "f", disk=QuickDisk())
            try:
                opened = _Watched(self, ledger)
                for id in SITES:
                    if id not in opened.now.members:
                        opened.write(Joined(id, self.weights[id]))
                self.running_server = opened
            except Crash:
                ledger.close()
                self.ended("server")
        return self.running_server

    def down(self) -> None:
        if self.running_server is not None:
            self.running_server.ledger.close()
        self.running_server = None

    def round(self) -> None:
        running = self.server()
        for task in running.begin(SITES):
            reply = self.ask(task.client, task)
            if reply is not None:
                running.receive(reply, Guard(self.like.value))
        try:
            running.commit()
        except Crash:
            self.down()
            self.ended("server")

    def committed(self) -> list[Summed]:
        entries = [e for e in self.server().ledger.entries() if e.kind == "summed"]
        records = [decode(entry, self.like) for entry in entries]
        return [record for record in records if isinstance(record, Summed)]

    def run(self) -> None:
        for _ in range(20):
            entries = self.server().ledger.entries()
            if sum(entry.kind == "summed" for entry in entries) >= self.rounds:
                break
            self.round()
        self.settle()

    def settle(self) -> None:
        running = self.server()
        for _ in range(5):
            answers = [self.ask(message.client, message) for message in running.settle()]
            if all(answer is not None for answer in answers):
                return

    def duals(self) -> dict[str, np.ndarray]:
        return {id: np.asarray(self.site(id).client.state.y) for id in SITES}

    def close(self) -> None:
        for id in SITES:
            running = self.sites[id]
            if running is not None:
                running.file.close()
                self.sites[id] = None
        self.down()


class _Watched(LedgerServer):
    """A server whose process dies before or after a write, where the plan says."""

    def __init__(self, home: Deployment, ledger: Ledger):
        self.writes: list[str] = []
        home.lives["server"].append(self.writes)
        self.plan = home.plans["server"].pop(0) if home.plans["server"] else None
        super().__init__(ledger, home.algorithm, home.w, home.like, home.key)

    def write(self, record, uploads=None) -> None:
        hit = self.plan is not None and self.plan.at == len(self.writes)
        self.writes.append(type(record).__name__)
        if hit and self.plan.fault == "before":
            raise Crash
        super().write(record, uploads)
        if hit:
            raise Crash
