"""Single steps of the protocol's two sides, by hand: mutants of these survived whole runs."""

import jax
import numpy as np
import pytest

from chaos import PlainDual
from feddcd._errors import Refused
from feddcd.algorithms import Upload
from feddcd.durable.codec import digest
from feddcd.durable.protocol import (
    Commit,
    Founded,
    Joined,
    Reply,
    Retired,
    Sealed,
    Settled,
    Stamp,
    Started,
    Summed,
    Task,
)
from feddcd.durable.protocol.client import new_client, own_key, resolve, work
from feddcd.durable.protocol.notes import Notes
from feddcd.durable.protocol.server import (
    Guard,
    _down_key,
    apply,
    begin,
    close,
    new_server,
    receive,
    retire,
    settle,
)
from federations import quadratics

KEY = jax.random.key(3)
W = np.zeros(2)


class Spy(PlainDual):
    """Remembers the keys that it was given, and how often it worked."""

    def __init__(self, sends=None):
        self.keys, self.steps, self.sends, self.ratios = [], [], sends, []

    def broadcast(self, server, key):
        self.keys.append(key)

    def client_step(self, f, client, down, key):
        self.steps.append(key)
        if self.sends is None:
            return super().client_step(f, client, down, key)
        return client, Upload(self.sends, np.zeros(()), np.ones((), int))

    def joined(self, server, ratio):
        self.ratios.append(float(ratio))
        return super().joined(server, ratio)


class Remembering(PlainDual):
    """With notes that follow from rounds: the round's model."""

    follows = "rounds"

    def first_note(self, w):
        return np.zeros_like(w)

    def reminder(self, state, note):
        return note

    def noted(self, state, note, sent):
        return np.asarray(state.w)

    def server_step(self, server, mean, share):
        return super().server_step(server, mean.mean if hasattr(mean, "mean") else mean[0], share)


def same(a, b):
    return np.array_equal(jax.random.key_data(a), jax.random.key_data(b))


def problem(row=0):
    return jax.tree.map(lambda x: np.asarray(x)[row], quadratics("equal"))


def started(algorithm=None, members=("a", "b", "c")):
    algorithm = algorithm or PlainDual()
    server = apply(algorithm, new_server(algorithm, W), Started(1))
    for name in members:
        server = apply(algorithm, server, Joined(name, 2.0))
    return algorithm, server


def reply(name, value, stamp, **more):
    held = {"incarnation": 1, "digest": digest({"": value})} | more
    return Reply(name, held["incarnation"], stamp, value, held["digest"])


GUARD = Guard(jax.ShapeDtypeStruct((2,), np.float64), largest=1.0)


def test_a_new_server_and_a_new_client_begin_at_nothing():
    server = new_server(PlainDual(), W)
    assert (server.epoch, server.round, server.joined, server.members) == (0, 0, 0, {})
    client = new_client(PlainDual(), problem(), np.zeros(problem().b.shape), "a")
    assert (client.incarnation, client.committed, client.pending) == (1, None, None)


def test_keys_are_those_of_the_simulator_which_counts_from_0():
    spy = Spy()
    _, server = started(spy)
    server, _ = begin(spy, server, ["a", "b"], KEY)
    server, _ = begin(spy, server, ["a", "b"], KEY)
    assert [same(k, _down_key(KEY, np.int32(t))) for t, k in enumerate(spy.keys)] == [True, True]
    f = problem()
    client = new_client(spy, f, np.zeros(f.b.shape), "a")
    work(spy, f, client, Task("a", 4, Stamp(1, 3), None, None), KEY)
    assert same(spy.steps[0], own_key(KEY, np.int32(2), np.int32(4)))


def test_work_that_is_asked_for_again_is_not_done_again():
    spy, f = Spy(), problem()
    task = Task("a", 0, Stamp(1, 1), None, None)
    client, first = work(spy, f, new_client(spy, f, np.zeros(f.b.shape), "a"), task, KEY)
    again, second = work(spy, f, client, task, KEY)
    assert len(spy.steps) == 1
    assert again is client
    assert first.digest == second.digest


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_what_is_not_finite_does_not_leave_a_site(value):
    spy, f = Spy(sends=np.array([1.0, value])), problem()
    client = new_client(spy, f, np.zeros(f.b.shape), "a")
    with pytest.raises(Refused, match="a: the result of this site in round 1 has a value that is"):
        work(spy, f, client, Task("a", 0, Stamp(1, 1), None, None), KEY)


def test_a_commit_without_an_answer_keeps_what_was_worked_out():
    spy, f = Spy(), problem()
    client = new_client(spy, f, np.zeros(f.b.shape), "a")
    client, said = work(spy, f, client, Task("a", 0, Stamp(1, 1), None, None), KEY)
    named = Commit(Stamp(1, 1), said.digest, None)
    after = resolve(spy, client, Task("a", 0, Stamp(1, 2), None, named))
    assert after.state is client.pending.state
    assert after.committed == (Stamp(1, 1), said.digest)


def opened(members=("a", "b", "c"), asked=("a", "b", "c")):
    algorithm, server = started(members=members)
    return algorithm, *begin(algorithm, server, asked, KEY)


def test_two_uploads_are_enough_and_the_round_is_over_then():
    algorithm, server, tasks = opened()
    for name in ("a", "b"):
        server = receive(
            algorithm, server, reply(name, np.ones(2), tasks[0].stamp), GUARD._replace(largest=9.0)
        )
    record = close(server)
    assert record.members == ("a", "b")
    assert record.share == pytest.approx(2 / 3)
    after = apply(algorithm, server, record)
    assert after.open is None
    assert after.round == server.round == 1
    assert after.members["a"].commit.stamp == record.stamp
    assert after.members["c"].commit is None


def test_the_bound_on_uploads_grows_with_the_model():
    """|upload| <= largest (1 + |model|): 6 where the model is (3, 4)."""
    algorithm, server, tasks = opened()
    server = server._replace(state=server.state._replace(w=np.array([3.0, 4.0])))
    fits = reply("a", np.array([0.0, 6.0]), tasks[0].stamp)
    assert receive(algorithm, server, fits, GUARD).open.replies["a"] is fits
    with pytest.raises(Refused, match=r"has the norm 6, but at most 5\.94 is allowed"):
        receive(algorithm, server, fits, GUARD._replace(largest=0.99))
    assert receive(algorithm, server, fits, GUARD._replace(largest=1.01)).open.replies


def test_an_upload_has_the_parts_that_were_asked_for():
    algorithm, server, tasks = opened()
    asked = server.open._replace(parts=dict.fromkeys("abc", (True,)))
    with pytest.raises(Refused, match="'a' did not send the parts that the coordinator asked for"):
        receive(
            algorithm,
            server._replace(open=asked),
            reply("a", np.ones(2), tasks[0].stamp),
            GUARD._replace(largest=9.0),
        )


def test_a_training_begins_once():
    algorithm, server = PlainDual(), new_server(PlainDual(), W)
    assert apply(algorithm, server, Founded({})) is server
    server = apply(algorithm, server, Started(1))
    with pytest.raises(Refused, match="has already begun"):
        apply(algorithm, server, Founded({}))


def test_a_start_and_a_departure_give_up_the_open_round():
    algorithm, server, _ = opened()
    assert apply(algorithm, server, Started(2)).open is None
    left = apply(algorithm, server, Retired(("c",), None))
    assert left.open is None
    assert set(left.members) == {"a", "b"}
    assert left.state is server.state  # nothing is to be shared out
    after, messages = settle(algorithm, server, KEY)
    assert after.open is None
    assert after.round == server.round + 1
    assert {m.stamp for m in messages} == {Stamp(1, after.round)}


def test_all_members_of_sums_come_at_once_and_once():
    algorithm, server = PlainDual(), new_server(PlainDual(), W)
    sealed = Sealed((("a", 1.0, 7), ("b", 2.0, 8)), "", "", {})
    joined = apply(algorithm, server, sealed)
    assert [(m.number, m.weight, m.rows) for m in joined.members.values()] == [
        (0, 1.0, 7),
        (1, 2.0, 8),
    ]
    with pytest.raises(Refused, match="have already agreed on this training"):
        apply(algorithm, joined, sealed)


def test_who_was_expelled_stays_out_and_numbers_are_not_used_again():
    algorithm, server = started()
    with pytest.raises(Refused, match="'z' is not a member"):
        apply(algorithm, server, Retired(("z",), None))
    with pytest.raises(Refused, match="'z' is not a member"):
        retire(server, ["z"], [])
    gone = apply(algorithm, server, Retired(("c",), None, barred=True))
    with pytest.raises(Refused, match="'c' was expelled and cannot join again"):
        apply(algorithm, gone, Joined("c", 1.0))
    left = apply(algorithm, server, Retired(("c",), None))
    back = apply(algorithm, left, Joined("c", 1.0))
    assert back.members["c"].number == 3


def test_who_joins_shares_with_those_before():
    spy = Spy()
    started(spy, ("a", "b"))
    assert spy.ratios == [0.5]  # not of the first, who is alone


def test_a_departure_adds_up_what_the_others_hold():
    _, server = started()
    held = lambda name, value: Settled(name, 1, Stamp(1, 1), value)
    assert retire(server, ["a", "b", "c"], []).total is None  # nobody is left
    none = retire(server, ["a"], [held("b", None), held("c", None)])
    assert none.total is None
    one = retire(server, ["a", "b"], [held("c", np.ones(2))])
    assert np.asarray(one.total).tolist() == [1.0, 1.0]
    some = retire(server, ["a"], [held("b", np.ones(2)), held("c", 2 * np.ones(2))], barred=True)
    assert np.asarray(some.total).tolist() == [3.0, 3.0]
    assert some.barred


def test_notes_are_kept_of_who_was_summed_and_of_nobody_who_left():
    algorithm, server = started(Remembering())
    assert isinstance(server.notes, Notes)
    record = Summed(Stamp(1, 1), ("a", "b"), ("x", "y"), 2 / 3, np.ones(2))
    after = apply(algorithm, server, record)
    assert after.notes.last == {"a": "1", "b": "1"}
    left = apply(algorithm, after, Retired(("a",), None))
    assert left.notes.last == {"b": "1"}
