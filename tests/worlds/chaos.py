"""A federation in one process whose messages get lost, late, doubled and replayed, and whose
parts crash between any two steps. What is durable is what a crash leaves."""

from collections import Counter
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from feddcd import tree
from feddcd._errors import Refused
from feddcd.algorithms import Upload
from feddcd.algorithms.feddcd import DualClient, DualServer
from feddcd.durable.protocol import Joined, Record, Reply, Stamp, Started, Summed, Task
from feddcd.durable.protocol.client import Client, new_client, resolve, settled, work
from feddcd.durable.protocol.server import (
    Guard,
    apply,
    begin,
    close,
    new_server,
    receive,
    retire,
    settle,
)


class PlainDual:
    """FedDCD on quadratics in NumPy, behind the functions that the protocol calls: to call a
    compiled program for two numbers takes longer than all that happens around it."""

    def init_server(self, w):
        return DualServer(np.asarray(w))

    def init_client(self, f, w):
        return DualClient(np.zeros_like(w), np.asarray(w), np.asarray(f.alpha))

    def weight(self, f):
        return f.alpha

    def broadcast(self, server, key):
        return None

    def first_note(self, w):
        return None

    def addressed(self, down, place, asked):
        return down

    def parts(self, down, note):
        return ()

    def client_step(self, f, client, down, key):
        A, b, y = (np.asarray(x) for x in (f.A, f.b, client.y))
        w = np.linalg.solve(A, b + y)
        return client._replace(w=w), Upload(w, np.zeros(()), np.ones((), int))

    def server_step(self, server, mean, share):
        mean, excess = np.asarray(mean), server.excess
        return DualServer(mean), mean if excess is None else mean - excess / np.asarray(share)

    def client_receive(self, client, answer):
        y, w, weight, mean = (np.asarray(x) for x in (*client, answer))
        return client._replace(y=y - weight * (w - mean))

    def adjusted(self, client, down, error):
        return client._replace(w=client.w + np.asarray(error))

    def model(self, server):
        return server.w

    def conserved(self, client, down):
        return client.y

    def rebalance(self, server, total, weight):
        return server._replace(excess=np.asarray(total) / np.asarray(weight))

    def joined(self, server, ratio):
        rest = server.excess
        return server if rest is None else server._replace(excess=rest * np.asarray(ratio))


class Faults(NamedTuple):
    """Probabilities, each for one message or one step."""

    lost: float = 0.0
    late: float = 0.0  # delivered in a later round
    doubled: float = 0.0
    crash: float = 0.0  # of a client, before or after a save
    restart: float = 0.0  # of the server, before or after a write


NONE = Faults()


class World:
    """From zero; `disk` and `ledger` survive crashes, everything else is memory."""

    def __init__(self, algorithm, problem, *, seed: int = 0, faults: Faults = NONE):
        self.algorithm, self.problem = algorithm, problem
        self.w = jnp.zeros(problem.b.shape[-1])
        self.random = np.random.default_rng(seed)
        self.faults, self.key, self.count = faults, jax.random.key(seed), Counter()
        self.disk: dict[str, Client] = {}
        self.rows: dict[str, int] = {}  # which of the stacked problems a member holds
        self.problems = {}
        self.ledger: list[Record] = []
        self.late: list = []
        self.asked: dict[Stamp, list[str]] = {}
        self.crashed: set[str] = set()
        self.guard: Guard | None = None
        self.start()

    def start(self) -> None:
        """The server comes up: the fold of its ledger, in a new epoch."""
        self.server = new_server(self.algorithm, self.w)
        for record in self.ledger:
            self.server = apply(self.algorithm, self.server, record)
        self.write(Started(self.server.epoch + 1))

    def write(self, record: Record) -> None:
        self.ledger.append(record)
        self.server = apply(self.algorithm, self.server, record)

    def f(self, id: str):
        return self.problems[id]

    def join(self, id: str, row: int) -> None:
        f = tree.take(self.problem, row)
        self.rows[id], self.problems[id] = row, f
        self.disk[id] = new_client(self.algorithm, f, self.w, id)
        self.write(Joined(id, float(self.algorithm.weight(f))))

    def happens(self, fault: str) -> bool:
        hit = self.random.random() < getattr(self.faults, fault)
        self.count[fault] += hit
        return hit

    def crash(self, id: str) -> bool:
        hit = self.happens("crash")
        if hit:
            self.crashed.add(id)
        return hit

    def deliver(self, task: Task) -> Reply | None:
        """A client gets a task; a crash forgets what was not saved."""
        client = self.disk[task.client]
        try:
            client = resolve(self.algorithm, client, task)
        except Refused:
            self.count["refused"] += 1
            return None
        if self.crash(task.client):
            return None
        self.disk[task.client] = client
        if self.crash(task.client):
            return None
        client, reply = work(self.algorithm, self.f(task.client), client, task, self.key)
        if self.crash(task.client):
            return None
        self.disk[task.client] = client
        return None if self.crash(task.client) else reply

    def round(self, cohort, heard=None) -> None:
        self.server, tasks = begin(self.algorithm, self.server, cohort, self.key)
        self.asked[self.server.open.stamp] = list(cohort)
        if heard is not None:  # the others never get their task
            tasks = [task for task in tasks if task.client in heard]
        mail, self.late = [*self.late, *tasks], []
        for message in mail:
            if message.client not in self.server.members or self.happens("lost"):
                continue
            if self.happens("late"):
                self.late.append(message)
                continue
            for _ in range(1 + self.happens("doubled")):
                self.pass_on(message)
        if self.happens("restart"):
            self.start()
            return
        record = close(self.server)
        if record is not None:
            self.ledger.append(record)
            if self.happens("restart"):
                self.start()
                return
            self.server = apply(self.algorithm, self.server, record)

    def repeat(self, other: "World") -> None:
        """The committed rounds of another world, each with the cohort that it asked, whose others
        stay silent: a method may address a client by its place among those asked."""
        for record in other.ledger:
            if isinstance(record, Summed):
                self.server = self.server._replace(round=record.stamp.round - 1)
                self.round(other.asked[record.stamp], record.members)

    def pass_on(self, message: Task | Reply) -> None:
        reply = self.deliver(message) if isinstance(message, Task) else message
        if reply is None or self.happens("lost"):
            return
        if self.happens("late"):
            self.late.append(reply)
            return
        if self.guard is None:
            self.guard = Guard(
                jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), reply.value)
            )
        for _ in range(1 + self.happens("doubled")):
            try:
                self.server = receive(self.algorithm, self.server, reply, self.guard)
            except Refused:
                self.count["refused"] += 1

    def settle(self):
        """Everyone hears the outcome of its last round; no message is lost here. Who has no
        state any more, or one that does not fit the ledger, gives no answer."""
        self.server, messages = settle(self.algorithm, self.server, self.key)
        answers = []
        for message in messages:
            if message.client not in self.disk:
                continue
            try:
                client = resolve(self.algorithm, self.disk[message.client], message)
            except Refused:
                self.count["refused"] += 1
                continue
            self.disk[message.client] = client
            answers.append(settled(self.algorithm, client, message))
        return answers

    def leave(self, *ids: str) -> None:
        """For ever, and without a word: their disks are gone."""
        for id in ids:
            del self.disk[id]
        self.write(retire(self.server, ids, self.settle()))

    def cohort(self, least: int = 2):
        members = list(self.server.members)
        size = self.random.integers(least, len(members) + 1)
        return self.random.choice(members, size, replace=False)

    def model(self):
        return self.algorithm.model(self.server.state)
