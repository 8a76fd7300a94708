"""Rounds on several threads: the same as on one, bit for bit the same again, and only where it
is worth their while."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import feddcd
from feddcd.algorithms import FedAvg, FedDCD
from feddcd.data.federate import federate
from feddcd.participation import Available, UniformSubset
from feddcd.simulator import threads
from feddcd.simulator.simulate import federation, start
from feddcd.solvers import SGD
from federations import ALGORITHMS, TAU, D, N, play, quadratics

ROUNDS = 12


@pytest.fixture
def three(monkeypatch):
    """Three threads, however little there is to do."""
    monkeypatch.setenv(threads.THREADS, "3")
    monkeypatch.setattr(threads, "WORTH", 0)


def make(name):
    with jax.enable_x64(True):
        return ALGORITHMS[name].make(N, TAU, jnp.zeros(D))


def played(algorithm, who, rounds=ROUNDS, chunk=ROUNDS, problem="unequal"):
    with jax.enable_x64(True):
        fed = federation(algorithm, quadratics(problem), who, seed=3, side_by_side=False)
        state = start(fed, jnp.zeros(D))
        advance, records = threads.compiled(fed, state, chunk), []
        for _ in range(rounds // chunk):
            state, record, sound = advance(fed, state, chunk)
            assert sound
            records.append(record)
        return state, jax.tree.map(lambda *x: np.concatenate(x), *records)


@pytest.mark.usefixtures("three")
@pytest.mark.parametrize(
    ("name", "who"),
    [
        ("feddcd", UniformSubset(N, TAU)),
        ("feddcd", Available(N, 0.5)),
        pytest.param("accfeddcd", Available(N, 0.5), marks=pytest.mark.chaos),
        pytest.param("fednewton", Available(N, 0.5), marks=pytest.mark.chaos),
        pytest.param("scaffold-2", UniformSubset(N, TAU), marks=pytest.mark.chaos),
    ],
)
def test_the_same_as_one_thread(name, who):
    algorithm = make(name)
    state, records = played(algorithm, who)
    alone = play(algorithm, quadratics("unequal"), who, ROUNDS, 3, side_by_side=False)
    for a, b in zip(jax.tree.leaves(state), jax.tree.leaves(alone.state), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)
    for column in ("asked", "arrived"):
        assert np.array_equal(getattr(records, column), getattr(alone.records, column))
    for column in ("objective", "dual_residual"):
        a, b = getattr(records, column), getattr(alone.records, column)
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9)


@pytest.mark.usefixtures("three")
def test_the_same_again_in_chunks_of_any_length():
    one, rest = played(make("feddcd"), UniformSubset(N, TAU)), ROUNDS // 4
    two = played(make("feddcd"), UniformSubset(N, TAU), chunk=rest)
    for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(two), strict=True):
        assert np.array_equal(a, b, equal_nan=True)


SINGLE = {"algorithm": "mbsgd", "dtype": "float32"}  # one program for two tests


def run(folder, rounds, **more):
    settings = {"tau": 5, "clients": 11, "partition": "iid", "l2": 0.01, "seed": 2, **more}
    return feddcd.run("wine", rounds=rounds, out=folder, **settings)


@pytest.mark.usefixtures("three")
def test_a_run_goes_on_bit_for_bit(tmp_path):
    whole = run(None, 14, **SINGLE)
    run(tmp_path / "cut", 6, **SINGLE)
    again = feddcd.resume(tmp_path / "cut", rounds=14)
    assert np.array_equal(whole.model, again.model)
    for name in ("objective", "dual_residual", "solver_steps", "accuracy"):
        assert np.array_equal(whole.history[name], again.history[name], equal_nan=True), name


@pytest.mark.usefixtures("three")
def test_single_precision_stays_single(tmp_path):
    result = run(tmp_path / "single", 3, **SINGLE)
    assert {leaf.dtype for leaf in jax.tree.leaves(result.model)} == {np.dtype(np.float32)}


@pytest.mark.usefixtures("three")
def test_it_ends_with_the_round_that_is_not_finite():
    with jax.enable_x64(True):
        runaway = FedAvg(SGD(lr=1e200, batch_size=1, epochs=3))
        data = feddcd.load("wine")
        made = federate(data, feddcd.partition(data.y, "iid", 5), l2=0.1)
        fed = federation(runaway, made.problem, UniformSubset(5, 3), seed=0, side_by_side=False)
        state = start(fed, made.w)
        state, records, sound = threads.compiled(fed, state, 9)(fed, state, 9)
    assert not sound
    assert len(records.objective) == int(state.t) < 9
    assert not np.isfinite(records.objective[-1])


class TestChoice:
    def fed(self, tau=TAU, side_by_side=False):
        who = UniformSubset(N, tau)
        return federation(FedDCD(), quadratics("equal"), who, seed=0, side_by_side=side_by_side)

    def test_little_work_stays_on_one(self, monkeypatch):
        monkeypatch.setenv(threads.THREADS, "4")
        assert threads.worthwhile_threads(self.fed()) == 1

    def test_never_more_than_clients(self, monkeypatch):
        monkeypatch.setattr(threads, "WORTH", 0)
        monkeypatch.setenv(threads.THREADS, "400")
        assert threads.worthwhile_threads(self.fed(tau=3)) == 3

    def test_side_by_side_is_one_program(self, monkeypatch):
        monkeypatch.setattr(threads, "WORTH", 0)
        monkeypatch.setenv(threads.THREADS, "4")
        assert threads.worthwhile_threads(self.fed(side_by_side=True)) == 1

    def test_as_many_as_this_process_may_use(self, monkeypatch):
        monkeypatch.delenv(threads.THREADS, raising=False)
        monkeypatch.setattr(threads.os, "sched_getaffinity", lambda pid: {0, 3, 5}, raising=False)
        monkeypatch.setattr(threads.os, "cpu_count", lambda: 7)
        for linux, expected in ((True, 3), (False, 7)):
            monkeypatch.setattr(threads, "LINUX", linux)
            assert threads.cores() == expected

    @pytest.mark.parametrize("given", ["0", "-1", "two", "1.5"])
    def test_a_bad_number_is_named(self, monkeypatch, given):
        monkeypatch.setenv(threads.THREADS, given)
        with pytest.raises(ValueError, match=f"FEDDCD_THREADS must be the number .* not '{given}'"):
            threads.cores()
