"""What a site holds is what its file holds: mistakes in how it is kept are found by name."""

import inspect
import textwrap
from types import SimpleNamespace
from typing import NamedTuple

import jax
import numpy as np
import pytest

from disks import FailingDisk, in_memory
from feddcd._errors import Refused, StateError
from feddcd.durable import site as module
from feddcd.durable.protocol import NEVER, Commit, Settle, Stamp, Task
from feddcd.durable.site import ClientFile, Site


class State(NamedTuple):
    total: np.ndarray


class Adding:
    """A method that needs no compiler: a client adds what it is sent, and takes the answer."""

    def init_client(self, f, w):
        return State(np.zeros(2, "f4"))

    def client_step(self, f, client, down, key):
        total = client.total + down
        return State(total), SimpleNamespace(value={"x": 2 * total})

    def client_receive(self, client, answer):
        return State(client.total + answer)

    def conserved(self, client, down):
        return client.total


LIKE = SimpleNamespace(state=State(np.zeros(2, "f4")), value={"x": np.zeros(2, "f4")})
DOWN, ANSWER = np.array([1, 2], "f4"), np.array([10, 20], "f4")


class Home:
    """One site, which can be started again; `disk` is that of its running process."""

    def __init__(self, folder):
        self.path, self.running = folder / "state", None
        self.start()

    def start(self):
        if self.running is not None:
            self.running.file.close()
        self.disk = FailingDisk()
        file = ClientFile(self.path, federation="f", client="a", disk=self.disk)
        self.running = Site(file, Adding(), None, np.zeros(2, "f4"), jax.random.key(0), LIKE)

    def work(self, round, commit=None):
        return self.running.handle(Task("a", 0, Stamp(1, round), DOWN, commit))

    def settle(self, round, commit=None):
        return self.running.handle(Settle("a", Stamp(1, round), DOWN, commit))

    def commit(self, reply):
        return Commit(reply.stamp, reply.digest, ANSWER)

    def close(self):
        self.running.file.close()


def outcome(home):
    """What became of a round is on disk before the answer that rests on it."""
    done = home.commit(home.work(1))
    assert home.settle(2, done).conserved.tolist() == [11, 22]
    held = home.running.file.load()
    assert held[0]["pending"] is None
    assert held[0]["committed"] == [1, 1, done.digest]
    assert held[1]["state.total"].tolist() == [11, 22]
    home.work(3, done)
    home.settle(4, done)  # without round 3
    for _ in range(2):
        with pytest.raises(
            Refused, match=r"round 3 .* this site .* from round 4 .after start number 1"
        ):
            home.work(3, done)
        home.start()
    assert home.settle(5, done).conserved.tolist() == [11, 22]


def unsaved(home):
    """What could not be written has not happened: no answer rests on it afterwards."""
    for write, known in ((0, NEVER), (1, Stamp(1, 1))):  # what the task tells, then the work
        home.disk.at, home.disk.fault = len(home.disk.operations) + 4 * write + 1, "disk full"
        with pytest.raises(StateError, match="cannot write"):
            home.work(1)
        assert (home.running.client.seen, home.running.client.pending) == (known, None)
    said = home.work(1)
    home.start()
    kept = home.running.client.pending
    assert kept is not None
    assert (kept.stamp, kept.digest) == (said.stamp, said.digest)


def seen(home):
    """A message of the past is refused by the next process, too."""
    home.work(3)
    home.settle(4)
    home.start()
    assert home.running.client.seen == Stamp(1, 4) > NEVER
    for late in (home.work, home.settle):
        with pytest.raises(
            Refused, match=r"round 3 .* this site .* from round 4 .after start number 1"
        ):
            late(3)


def damaged(home):
    """A file that cannot be read is not an empty one: the site does not begin anew."""
    home.work(1)
    whole = home.path.read_bytes()
    for spoiled in (whole[:-1], whole[:40], b"", whole[:-9] + b"123456789"):
        home.path.write_bytes(spoiled)
        with pytest.raises(StateError, match="is damaged"):
            home.start()
        assert home.path.read_bytes() == spoiled
    home.path.write_bytes(whole)
    home.start()
    assert home.running.client.pending is not None


def incarnation(home):
    """Every process of a site is told from the one before, in the file and in what it says."""
    for number in (1, 2, 3):
        assert home.running.file.incarnation == number
        assert home.work(1).incarnation == number
        home.start()
    assert home.settle(2).incarnation == 4


CHECKS = {check.__name__: check for check in (outcome, unsaved, seen, damaged, incarnation)}
SAVED = "self.file.save(*pack_client(client))\n    self.client = client"
DAMAGED = 'raise StateError(f"{self.path} is damaged: {why}. {_REPAIR}") from None'
MUTANTS = [  # by the check that finds it: where, what is there, what is there instead
    ("outcome", Site, "handle", "self._save(client)  # the outcome", "pass  # the outcome"),
    ("outcome", Site, "handle", "self._save(client)  # the outcome", "self.client = client  # "),
    ("unsaved", Site, "_save", SAVED, "\n    ".join(reversed(SAVED.split("\n    ")))),
    ("seen", module, "unpack_client", 'Stamp(*meta["seen"])', "Stamp(0, 0)"),
    ("seen", module, "pack_client", "list(client.seen)", "[0, 0]"),
    ("damaged", ClientFile, "_read", DAMAGED, "return None"),
    ("incarnation", ClientFile, "__init__", "saved.incarnation + 1", "saved.incarnation or 1"),
    ("incarnation", module, "unpack_client", "Client(id, incarnation,", "Client(id, 1,"),
]


@pytest.fixture
def home():
    with in_memory() as folder:
        made = Home(folder)
        yield made
        made.close()


@pytest.mark.parametrize("name", CHECKS)
def test_the_state_of_a_site_is_that_of_its_file(name, home):
    CHECKS[name](home)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: f"{m[2]}: {m[3][:30]} -> {m[4][:30]}")
def test_a_mistake_in_keeping_it_is_found(mutant, home, monkeypatch):
    check, owner, name, text, other = mutant
    function, made = getattr(owner, name), {}
    source = textwrap.dedent(inspect.getsource(function))
    assert source.count(text) == 1
    exec(source.replace(text, other), function.__globals__, made)
    monkeypatch.setattr(function, "__code__", made[name].__code__)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        CHECKS[check](home)
