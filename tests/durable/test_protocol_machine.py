"""Any order of joining, leaving, crashing, restoring old backups, cloning, losing and replaying:
hypothesis looks for a history after which the federation is off the optimum."""

from functools import cache

import jax
import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from chaos import PlainDual, World
from feddcd._errors import Refused
from feddcd.durable.protocol.client import resolve
from feddcd.durable.protocol.server import apply, begin, close, settle
from feddcd.problems import random_quadratics

ROWS, FIRST, LEAST = 8, 5, 3


@cache
def problem():
    with jax.enable_x64(True):
        return random_quadratics(ROWS, 2, alpha=0.3, beta=1.0, seed=11)


class Machine(RuleBasedStateMachine):
    @initialize()
    def begin(self):
        self.x64 = jax.enable_x64(True)
        self.x64.__enter__()
        self.world = World(PlainDual(), problem())
        self.names = 0
        self.backups, self.old_tasks, self.old_replies = {}, [], []
        for _ in range(FIRST):
            self.join()

    def teardown(self):
        if not hasattr(self, "world"):
            return
        try:
            self.mend()
            for _ in range(130):
                self.world.round(list(self.world.server.members))
            rows = [self.world.rows[id] for id in self.world.server.members]
            A, b = np.asarray(problem().A)[rows], np.asarray(problem().b)[rows]
            best = np.linalg.solve(A.sum(0), b.sum(0))
            last = self.world.ledger[-1]
            assert set(last.members) == set(self.world.server.members)  # nobody is left out
            assert np.linalg.norm(np.asarray(self.world.model()) - best) <= 1e-8
        finally:
            self.x64.__exit__(None, None, None)

    def pick(self, data, what="member"):
        return data.draw(st.sampled_from(sorted(self.world.server.members)), what)

    @rule()
    def join(self):
        """The next row of data, round and round; a site that comes back is a new member."""
        if len(self.world.server.members) < ROWS:
            self.world.join(f"site{self.names:03}", self.names % ROWS)
            self.names += 1

    @rule(data=st.data())
    def round(self, data):
        """Some are asked; some tasks, saves and uploads do not happen."""
        members = sorted(self.world.server.members)
        asked = data.draw(st.lists(st.sampled_from(members), min_size=2, unique=True), "asked")
        self.world.server, tasks = begin(
            self.world.algorithm, self.world.server, asked, self.world.key
        )
        for task in tasks:
            fate = data.draw(st.sampled_from(["fine", "fine", "lost", "crash", "mute"]), "fate")
            self.old_tasks.append(task)
            if fate == "lost":
                continue
            before = self.world.disk[task.client]
            reply = self.world.deliver(task)
            if fate == "crash":  # before anything was saved
                self.world.disk[task.client] = before
            elif reply is not None:
                self.old_replies.append(reply)
                if fate == "fine":
                    self.world.pass_on(reply)
        written = data.draw(st.sampled_from(["closed", "closed", "died before", "died after"]))
        if written == "died before":
            self.world.start()
            return
        record = close(self.world.server)
        if record is not None:
            self.world.ledger.append(record)
            self.world.server = apply(self.world.algorithm, self.world.server, record)
        if written == "died after":
            self.world.start()

    @rule()
    def restart(self):
        self.world.start()

    @rule(data=st.data())
    def back_up(self, data):
        id = self.pick(data)
        self.backups[id] = self.world.disk[id]

    @precondition(lambda self: self.backups)
    @rule(data=st.data())
    def restore(self, data):
        """An old state comes back, or a clone of it takes the site's place."""
        id = data.draw(st.sampled_from(sorted(self.backups)), "backup")
        if id in self.world.server.members:
            self.world.disk[id] = self.backups[id]

    @precondition(lambda self: self.old_tasks)
    @rule(data=st.data())
    def replay_task(self, data):
        task = data.draw(st.sampled_from(self.old_tasks[-12:]), "task")
        if task.client in self.world.disk:
            reply = self.world.deliver(task)
            if reply is not None:
                self.world.pass_on(reply)

    @precondition(lambda self: self.old_replies)
    @rule(data=st.data())
    def replay_reply(self, data):
        self.world.pass_on(data.draw(st.sampled_from(self.old_replies[-12:]), "reply"))

    @precondition(lambda self: len(self.world.server.members) > LEAST + 1)
    @rule(data=st.data())
    def leave(self, data):
        self.mend(self.pick(data))

    def unsound(self) -> list[str]:
        """Members whose state does not fit the ledger, and who say so themselves."""
        odd = []
        _, messages = settle(self.world.algorithm, self.world.server, self.world.key)
        for message in messages:
            try:
                resolve(self.world.algorithm, self.world.disk[message.client], message)
            except Refused:
                odd.append(message.client)
        return odd

    def mend(self, *more: str):
        """What an administrator does: retire whoever is refused, and let them join anew."""
        gone = sorted({*self.unsound(), *more})
        while gone and len(self.world.server.members) - len(gone) < 2:
            self.join_anyway()
        if gone:
            self.world.leave(*gone)
        for id in gone:
            self.backups.pop(id, None)

    def join_anyway(self):
        self.world.join(f"site{self.names:03}", self.names % ROWS)
        self.names += 1

    @invariant()
    def the_duals_balance(self):
        """Over all members whose state fits the ledger, if that is everyone."""
        if (
            not hasattr(self, "world")
            or self.unsound()
            or self.world.server.state.excess is not None
        ):
            return
        _, messages = settle(self.world.algorithm, self.world.server, self.world.key)
        after = [
            resolve(self.world.algorithm, self.world.disk[m.client], m).state.y for m in messages
        ]
        total, size = sum(np.asarray(y) for y in after), max(np.abs(y).max() for y in after)
        assert np.abs(total).max() <= 1e-10 * (1 + size)


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=3,
    stateful_step_count=25,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.mark.chaos
class TestManyHistories(Machine.TestCase):
    settings = settings(TestMachine.settings, max_examples=1000)
