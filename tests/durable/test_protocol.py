"""The durable protocol's state machines under faults: the result is the one that a fault-free
run over the same committed cohorts gives, and so the optimum."""

from collections import Counter
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import chaos
from chaos import Faults, PlainDual, World
from feddcd._errors import Refused
from feddcd.durable.protocol import Commit, Joined, Reply, Settle, Stamp, Started, Summed, Task
from feddcd.durable.protocol import client as client_side
from feddcd.durable.protocol import server as server_side
from feddcd.durable.protocol.server import Guard
from feddcd.durable.shapes import Compiled
from federations import ALGORITHMS, EXACT_ALGORITHMS, TAU, D, N, quadratics
from slices import sliced

MILD = Faults(lost=0.1)
WILD = Faults(lost=0.05, late=0.05, doubled=0.05, crash=0.05, restart=0.03)
FAULTS = (1200, pytest.param(100_000, marks=pytest.mark.chaos))


@pytest.fixture(scope="module", autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@cache
def algorithm(name: str):
    """`plain` is FedDCD in NumPy, for what asks about the protocol alone."""
    return PlainDual() if name == "plain" else Compiled(ALGORITHMS[name].make(N, TAU, jnp.zeros(D)))


def world(algorithm, faults=chaos.NONE, seed=0, members=N, name="equal") -> World:
    made = World(algorithm, quadratics(name), seed=seed, faults=faults)
    for row in range(members):
        made.join(f"site{row}", row)
    return made


def remaining(made: World) -> np.ndarray:
    rows = [made.rows[id] for id in made.server.members]
    A, b = np.asarray(made.problem.A), np.asarray(made.problem.b)
    return np.linalg.solve(A[rows].sum(0), b[rows].sum(0))


def error(made: World) -> float:
    return float(np.linalg.norm(np.asarray(made.model()) - remaining(made)))


def residual(made: World) -> tuple[float, float]:
    """|sum y| and max |y| over the members, settled."""
    held = [np.asarray(answer.conserved) for answer in made.settle()]
    return float(np.linalg.norm(sum(held))), max(float(np.abs(y).max()) for y in held)


# test_federation.py has FedQN with lost messages, and test_algorithms.py has a member of each leave
@pytest.mark.parametrize("name", sliced(("plain", *EXACT_ALGORITHMS), ("plain", "scaffold-2")))
def test_every_algorithm_reaches_the_optimum_of_who_remains(name):
    """Random cohort sizes, a tenth of the messages lost, two late joiners, one retired client;
    the second joins right after the departure, before any answer could even it out."""
    made = world(algorithm(name), MILD, members=N - 2)
    for _ in range(12):
        made.round(made.cohort())
    made.leave("site2")
    made.join("late", N - 2)
    for _ in range(12):
        made.round(made.cohort())
    made.join("later", N - 1)
    for _ in range(180):
        for _ in range(5):
            made.round(made.cohort())
        if error(made) <= 1e-8:
            break
    assert error(made) <= 1e-8
    assert made.count["lost"] > 20
    if name.startswith(("plain", "feddcd")):
        off, size = residual(made)
        assert off <= 1e-10 * (1 + size)


# the usual suite has Point-SAGA below, with faults and a departure
@pytest.mark.parametrize("faults", FAULTS)
@pytest.mark.parametrize("seed", sliced(range(2), (0,)))
@pytest.mark.parametrize("name", sliced(("plain", "feddcd", "pointsaga"), ("plain",)))
def test_no_mix_of_faults_moves_the_fixed_point(name, seed, faults):
    """Lost, late, doubled, crashed, restarted, at random; a fourth of the faults here."""
    met = Counter()
    while sum(met.values()) < faults / 4:
        made = world(algorithm(name), WILD, seed)
        for k in range(150):
            made.round(made.cohort())
            if k % 50 == 7 and name != "pointsaga":
                off, size = residual(made)
                assert off <= 1e-10 * (1 + size)
        met += Counter({kind: made.count[kind] for kind in Faults._fields})
        made.faults = chaos.NONE
        for _ in range(60):
            made.round(list(made.server.members))
        assert error(made) <= 1e-8
        seed += 2
    assert min(met[kind] for kind in Faults._fields) > 0


def test_the_ledger_alone_gives_the_same_server_bit_for_bit():
    made = world(algorithm("feddcd"), WILD, seed=3)
    for _ in range(80):
        made.round(made.cohort())
    before = np.asarray(made.model())
    commits = {id: member.commit for id, member in made.server.members.items()}
    made.start()
    assert np.array_equal(np.asarray(made.model()), before)
    for id, member in made.server.members.items():
        assert (member.commit is None) == (commits[id] is None)
        if member.commit is not None:
            assert member.commit.stamp == commits[id].stamp
            assert np.array_equal(member.commit.answer, commits[id].answer)


def test_faults_change_only_who_took_part():
    """A fault-free run over the committed cohorts, by the same functions: the same bits."""
    made = world(algorithm("feddcd"), WILD, seed=5)
    for _ in range(60):
        made.round(made.cohort())
    clean = world(algorithm("feddcd"), seed=5)
    for record in made.ledger:
        if isinstance(record, Summed):
            clean.server = clean.server._replace(round=record.stamp.round - 1)
            clean.round(record.members)
    assert np.array_equal(np.asarray(made.model()), np.asarray(clean.model()))
    made.settle()
    clean.settle()
    for id in made.disk:
        assert np.array_equal(made.disk[id].state.y, clean.disk[id].state.y)


def one_task(made: World):
    members = list(made.server.members)
    made.server, tasks = server_side.begin(made.algorithm, made.server, members, made.key)
    return tasks


def test_the_same_task_twice_gives_the_same_upload():
    made = world(algorithm("feddcd"))
    task = one_task(made)[0]
    first = made.deliver(task)
    held = made.disk[task.client]
    again = made.deliver(task)
    assert first is not None
    assert again is not None
    assert first.digest == again.digest
    assert made.disk[task.client] is held or held.pending.stamp == task.stamp


def reply_of(made: World, task) -> Reply:
    reply = made.deliver(task)
    assert reply is not None
    return reply


def guard_of(reply: Reply, **changes) -> Guard:
    like = jax.tree.map(lambda x: jax.ShapeDtypeStruct(x.shape, x.dtype), reply.value)
    return Guard(like, **changes)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda r: r._replace(value=r.value * jnp.nan), "not finite"),
        (lambda r: r._replace(value=jnp.zeros(D + 1)), "but the sites agreed on"),
        (
            lambda r: r._replace(value=r.value.astype(jnp.float32)),
            "the sites agreed on float64",
        ),
        (lambda r: r._replace(value=(r.value, r.value)), "does not have the structure"),
        (lambda r: r._replace(value=r.value + 1), "damaged on the way"),
        (lambda r: r._replace(client="stranger"), "'stranger' is not a member"),
        (lambda r: r._replace(stamp=Stamp(1, 99)), "is over or has not begun"),
        (lambda r: r._replace(stamp=Stamp(0, 1)), "is over or has not begun"),
    ],
)
def test_uploads_that_are_refused(change, message):
    made = world(algorithm("feddcd"))
    task = one_task(made)[0]
    reply = reply_of(made, task)
    with pytest.raises(Refused, match=message):
        server_side.receive(made.algorithm, made.server, change(reply), guard_of(reply))


def test_an_upload_out_of_all_proportion_is_refused():
    made = world(algorithm("feddcd"))
    reply = reply_of(made, one_task(made)[0])
    with pytest.raises(Refused, match="site0: its upload has the norm"):
        server_side.receive(made.algorithm, made.server, reply, guard_of(reply, largest=1e-9))


def test_an_upload_of_who_was_not_asked_is_refused():
    made = world(algorithm("feddcd"))
    reply = reply_of(made, one_task(made)[0])
    made.server, _ = server_side.begin(made.algorithm, made.server, ["site1", "site2"], made.key)
    assert made.server.open is not None
    now = reply._replace(stamp=made.server.open.stamp)
    with pytest.raises(Refused, match="'site0' answered in round 2, but was not asked"):
        server_side.receive(made.algorithm, made.server, now, guard_of(reply))


def test_the_same_upload_twice_counts_once():
    made = world(algorithm("feddcd"))
    reply = reply_of(made, one_task(made)[0])
    once = server_side.receive(made.algorithm, made.server, reply, guard_of(reply))
    assert server_side.receive(made.algorithm, once, reply, guard_of(reply)) is once


def test_a_round_that_is_begun_again_is_another_one():
    """Else an upload for the one that was given up would count in the new one."""
    made = world(algorithm("feddcd"))
    first, second = one_task(made)[0], one_task(made)[0]
    assert (first.stamp, second.stamp) == (Stamp(1, 1), Stamp(1, 2))


@pytest.mark.parametrize("commits", [True, False])
def test_a_client_remembers_the_latest_message_that_it_acted_on(commits):
    made = world(algorithm("feddcd"))
    if commits:
        made.round(list(made.server.members))
    old, new = one_task(made)[0], one_task(made)[0]
    client = client_side.resolve(made.algorithm, made.disk["site0"], new)
    assert client.seen == new.stamp
    with pytest.raises(
        Refused, match=r"has already seen a message from round \d+ .after start number 1 "
    ):
        client_side.resolve(made.algorithm, client, old)


def test_two_copies_of_a_site_are_noticed():
    made = world(algorithm("feddcd"))
    task = one_task(made)[0]
    reply = reply_of(made, task)
    made.server = server_side.receive(
        made.algorithm, made.server, reply._replace(incarnation=3), guard_of(reply)
    )
    with pytest.raises(Refused, match="an older copy of this site"):
        server_side.receive(made.algorithm, made.server, reply, guard_of(reply))
    other = reply._replace(incarnation=3, digest="other")
    with pytest.raises(Refused, match="'site0' sent two different uploads"):
        server_side.receive(made.algorithm, made.server, other, guard_of(reply))


def test_a_site_restored_from_an_old_backup_is_refused():
    made = world(algorithm("feddcd"))
    backup = made.disk["site1"]
    for _ in range(3):
        made.round(list(made.server.members))
    made.disk["site1"] = backup
    task = next(task for task in one_task(made) if task.client == "site1")
    with pytest.raises(Refused, match=r"older than the ledger.*retire the site"):
        client_side.resolve(made.algorithm, made.disk["site1"], task)


def test_an_old_ledger_is_refused():
    made = world(algorithm("feddcd"))
    for _ in range(3):
        made.round(list(made.server.members))
    made.settle()
    made.ledger = made.ledger[: N + 1]  # started and joined, no round
    made.start()
    made.write(Started(made.server.epoch + 5))
    task = one_task(made)[0]
    with pytest.raises(Refused, match="the ledger is older than this site's state"):
        client_side.resolve(made.algorithm, made.disk[task.client], task)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (Task("other", 0, Stamp(9, 9), None, None), "this site is 'site0'"),
        (
            Settle("site0", Stamp(0, 1), None, None),
            "has already seen a message from round 2 .after start number 1",
        ),
        (
            Task("site0", 0, Stamp(9, 9), None, Commit(Stamp(1, 1), "no", None)),
            "this site's last upload has other contents in the ledger than at the site",
        ),
    ],
)
def test_messages_that_a_client_refuses(message, reason):
    made = world(algorithm("feddcd"))
    made.round(list(made.server.members))
    made.settle()
    with pytest.raises(Refused, match=reason):
        client_side.resolve(made.algorithm, made.disk["site0"], message)


def test_records_that_cannot_follow():
    made = world(algorithm("feddcd"))
    with pytest.raises(Refused, match="'site0' is already a member"):
        made.write(Joined("site0", 1.0))
    with pytest.raises(Refused, match="number than before, but number 1 follows number 1"):
        made.write(Started(1))
    answers = [a for a in made.settle() if a.client != "site1"]
    with pytest.raises(
        Refused, match=r"site0 cannot leave yet, because site1 has not sent its last sums$"
    ):
        server_side.retire(made.server, ["site0"], answers)
    with pytest.raises(Refused, match="at least 2 sites"):
        server_side.begin(made.algorithm, made.server, ["site0"], made.key)


def test_one_upload_alone_is_not_summed():
    made = world(algorithm("feddcd"))
    task = one_task(made)[0]
    reply = reply_of(made, task)
    made.server = server_side.receive(made.algorithm, made.server, reply, guard_of(reply))
    assert server_side.close(made.server) is None


def no_log(monkeypatch):
    def start(self, keep=World.start):
        self.ledger = [r for r in self.ledger if not isinstance(r, Summed)] + [
            r for r in self.ledger if isinstance(r, Summed)
        ][:-1]
        keep(self)

    monkeypatch.setattr(World, "start", start)


def upload_before_saving(monkeypatch):
    def deliver(self, task):
        try:
            client = client_side.resolve(self.algorithm, self.disk[task.client], task)
        except Refused:
            return None
        f = self.f(task.client)
        after, reply = client_side.work(self.algorithm, f, client, task, self.key)
        if not self.happens("crash"):
            self.disk[task.client] = after
        return reply

    monkeypatch.setattr(World, "deliver", deliver)


def no_epoch(monkeypatch):
    keep = server_side.apply

    def apply(algorithm, server, record):
        after = keep(algorithm, server, record)
        return after._replace(epoch=1) if isinstance(record, Started) else after

    monkeypatch.setattr(chaos, "apply", apply)


def asked_instead_of_arrived(monkeypatch):
    def close(server):
        record = server_side.close(server)
        return record and record._replace(
            members=server.open.asked, digests=tuple("" for _ in server.open.asked)
        )

    monkeypatch.setattr(chaos, "close", close)


def applied_twice(monkeypatch):
    keep = client_side.resolve

    def resolve(algorithm, client, message):
        after = keep(algorithm, client, message)
        if after.committed != client.committed and message.commit.answer is not None:
            state = algorithm.client_receive(after.state, message.commit.answer)
            after = after._replace(state=state)
        return after

    monkeypatch.setattr(chaos, "resolve", resolve)


def aborted_work_is_kept(monkeypatch):
    keep = client_side.resolve

    def resolve(algorithm, client, message):
        after = keep(algorithm, client, message)
        dropped = client.pending is not None and after.pending is None
        if dropped and after.committed == client.committed:
            after = after._replace(state=algorithm.client_receive(client.pending.state, 0.0))
        return after

    monkeypatch.setattr(chaos, "resolve", resolve)


def commits_without_looking(monkeypatch):
    """Takes any commit for that of its pending round."""
    keep = client_side.resolve

    def resolve(algorithm, client, message):
        if client.pending is not None and message.commit is not None:
            pending = client.pending._replace(
                stamp=message.commit.stamp, digest=message.commit.digest
            )
            if client.pending.stamp != message.stamp:
                client = client._replace(pending=pending)
        return keep(algorithm, client, message)

    monkeypatch.setattr(chaos, "resolve", resolve)


def late_uploads_count(monkeypatch):
    keep = server_side.receive

    def receive(algorithm, server, reply, guard):
        if server.open is not None and reply.client in server.open.asked:
            reply = reply._replace(stamp=server.open.stamp)
        return keep(algorithm, server, reply, guard)

    monkeypatch.setattr(chaos, "receive", receive)


def stale_share(monkeypatch):
    """The share of those asked, not of those who arrived."""

    def close(server):
        record = server_side.close(server)
        if record is None:
            return None
        return record._replace(share=len(server.open.asked) / len(server.members))

    monkeypatch.setattr(chaos, "close", close)


def departures_are_not_rebalanced(monkeypatch):
    keep = server_side.retire
    monkeypatch.setattr(
        chaos, "retire", lambda server, id, answers: keep(server, id, answers)._replace(total=None)
    )


MUTANTS = {
    "no log": (no_log, "plain"),
    "upload before saving": (upload_before_saving, "plain"),
    "no epoch": (no_epoch, "pointsaga"),
    "asked instead of arrived": (asked_instead_of_arrived, "plain"),
    "applied twice": (applied_twice, "plain"),
    "aborted work is kept": (aborted_work_is_kept, "plain"),
    "commits without looking": (commits_without_looking, "plain"),
    "late uploads count": (late_uploads_count, "plain"),
    "stale share": (stale_share, "pointsaga"),
    "departures are not rebalanced": (departures_are_not_rebalanced, "plain"),
}


def leave_amid_work(made: World) -> None:
    """A round is asked, its uploads come late, a member leaves, and the server starts anew."""
    members = list(made.server.members)
    made.server, tasks = server_side.begin(made.algorithm, made.server, members, made.key)
    replies = [chaos.World.deliver(made, task) for task in tasks]
    made.late += [reply for reply in replies if reply is not None and reply.client != "site3"]
    made.leave("site3")
    made.start()


def holds(name: str, seed: int) -> bool:
    """The suite in small: faults, a departure, faults again, then quiet rounds with everyone.
    A departure mends sums that were broken before, so the second part matters."""
    made = world(algorithm(name), WILD, seed)
    try:
        for k in range(80):
            made.round(made.cohort())
            if k == 15:
                leave_amid_work(made)
        made.faults = chaos.NONE
        for _ in range(70):
            made.round(list(made.server.members))
        off = residual(made)[0] if name != "pointsaga" else 0.0
    except Refused:
        return False
    taking_part = isinstance(made.ledger[-1], Summed) and len(made.ledger[-1].members) == N - 1
    return error(made) <= 1e-8 and off <= 1e-9 and taking_part


@pytest.mark.parametrize("seed", sliced(range(2), (0,)))
@pytest.mark.parametrize("name", sliced(("plain", "feddcd", "pointsaga"), ("plain", "pointsaga")))
def test_the_protocol_itself_holds(name, seed):
    assert holds(name, seed)


OFTEN = ("no log", "upload before saving", "no epoch", "asked instead of arrived")
OFTEN += ("late uploads count", "departures are not rebalanced")


@pytest.mark.parametrize("name", sliced(MUTANTS, OFTEN))
def test_every_mutant_is_caught(name, monkeypatch):
    mutate, of = MUTANTS[name]
    mutate(monkeypatch)
    assert not all(holds(of, seed) for seed in range(3))
