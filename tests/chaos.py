"""A federation in one process whose messages get lost, late, doubled and replayed, and whose
parts crash between any two steps. What is durable is what a crash leaves."""

from collections import Counter
from contextlib import contextmanager
from functools import cache
from types import SimpleNamespace
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from feddcd import tree
from feddcd._errors import Refused
from feddcd.durable import codec
from feddcd.durable.protocol import (
    Client,
    Guard,
    Joined,
    Record,
    Reply,
    Started,
    Task,
    apply,
    begin,
    close,
    new_client,
    new_server,
    receive,
    resolve,
    retire,
    settle,
    settled,
    work,
)
from feddcd.durable.protocol import client as client_side
from feddcd.durable.protocol import server as server_side


def remembered(function):
    """A pure function, computed once for each value, bit for bit, of its arguments. The very
    same arrays of JAX are known by their ids, without a look at what they hold."""
    known, same = {}, {}

    def call(*args):
        leaves, structure = jax.tree.flatten(args)
        place = (structure, *map(_place, leaves))
        if place not in same:
            key = (structure, *map(_content, leaves))
            if key not in known:
                known[key] = function(*args)
            same[place] = leaves, known[key]  # what is held keeps its id
        return same[place][1]

    return call


def _place(leaf):
    return _content(leaf) if isinstance(leaf, np.ndarray | np.generic) else id(leaf)


def _content(leaf):
    if jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    array = np.asarray(leaf)
    return array.dtype, array.shape, array.tobytes()


@contextmanager
def remembering():
    """The same keys, each drawn once, and the same small arrays and numbers, each given to JAX
    once: that takes longer than a round this small."""
    known = {}

    def asarray(value):
        place = _content(value) if isinstance(value, np.ndarray) else (type(value), value)
        if place not in known:
            known[place] = jnp.asarray(value)
        return known[place]

    with pytest.MonkeyPatch.context() as patch:
        for user in (codec, server_side):
            patch.setattr(user, "jnp", SimpleNamespace(asarray=asarray))
        patch.setattr(client_side, "_own_key", remembered(client_side._own_key))
        patch.setattr(server_side, "_down_key", remembered(server_side._down_key))
        yield


class Jitted:
    """As `Compiled`, for one algorithm, with less between a call and its program; what is seldom
    called is not worth a program."""

    def __init__(self, algorithm):
        self._algorithm = algorithm
        self._beginners = {}

    def __getattr__(self, name):
        found = getattr(self._algorithm, name)
        if name in OFTEN:
            found = jax.jit(lambda *args, function=found: function(*args))
        setattr(self, name, found)
        return found

    def beginner(self, problem, row: int):
        """The data, the weight and the first state of who holds this row, made once."""
        place = id(problem), row
        if place not in self._beginners:
            f = tree.take(problem, row)
            client = new_client(self, f, jnp.zeros(f.b.shape), "")
            self._beginners[place] = problem, (f, float(self.weight(f)), client)
        return self._beginners[place][1]


OFTEN = ("broadcast", "client_step", "server_step", "client_receive")
_key = cache(jax.random.key)
_JITTED: dict[int, Jitted] = {}


def jitted(algorithm) -> Jitted:
    """One for each algorithm, which it holds, so that the id stays the algorithm's."""
    return _JITTED.setdefault(id(algorithm), Jitted(algorithm))


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
        self.algorithm, self.problem = jitted(algorithm), problem
        self.w = jnp.zeros(problem.b.shape[-1])
        self.random = np.random.default_rng(seed)
        self.faults, self.key, self.count = faults, _key(seed), Counter()
        self.disk: dict[str, Client] = {}
        self.rows: dict[str, int] = {}  # which of the stacked problems a member holds
        self.problems = {}
        self.ledger: list[Record] = []
        self.late: list = []
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
        f, weight, client = self.algorithm.beginner(self.problem, row)
        self.rows[id], self.problems[id] = row, f
        self.disk[id] = client._replace(id=id)
        self.write(Joined(id, weight))

    def happens(self, fault: str) -> bool:
        hit = self.random.random() < getattr(self.faults, fault)
        self.count[fault] += hit
        return hit

    def deliver(self, task: Task) -> Reply | None:
        """A client gets a task; a crash forgets what was not saved."""
        client = self.disk[task.client]
        try:
            client = resolve(self.algorithm, client, task)
        except Refused:
            self.count["refused"] += 1
            return None
        if self.happens("crash"):
            return None
        self.disk[task.client] = client
        if self.happens("crash"):
            return None
        client, reply = work(self.algorithm, self.f(task.client), client, task, self.key)
        if self.happens("crash"):
            return None
        self.disk[task.client] = client
        return None if self.happens("crash") else reply

    def round(self, cohort) -> None:
        self.server, tasks = begin(self.algorithm, self.server, cohort, self.key)
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
