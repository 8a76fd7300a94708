"""What server and clients draw in common: one key a round, the same wherever the round is run."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from chaos import World
from feddcd.algorithms import Scaffnew
from feddcd.durable.shapes import Compiled, shapes
from feddcd.participation import Everyone, broadcast_key, client_key, round_keys
from feddcd.simulator import threads
from feddcd.simulator.lanes import advance_lanes, lanes
from feddcd.simulator.simulate import federation, start
from feddcd.solvers import SGD, GradientDescent, adam
from federations import N, play, quadratics, solution

# γ = 1/β and p = sqrt(α/β) of the federation "equal"
SKIP, F, ROUNDS = Scaffnew(lr=1.0, p=0.45), "equal", 20
FEW = 5  # where every step of every site is on its own


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def steps(seed=0, rounds=ROUNDS) -> list[int]:
    """Of one client in each round."""
    draw = lambda t: jax.random.geometric(broadcast_key(jax.random.key(seed), t), SKIP.p)
    return [int(draw(t)) for t in range(rounds)]


def test_the_keys_of_a_round_are_all_different():
    key, t = jax.random.key(3), jnp.asarray(5)
    cohort, clients = round_keys(key, t)
    several = [cohort, clients, broadcast_key(key, t), broadcast_key(key, t + 1)]
    several += [client_key(clients, i) for i in range(4)]
    data = {jax.random.key_data(k).tobytes() for k in several}
    assert len(data) == len(several)


def test_the_keys_of_cohorts_and_clients_stay_what_they_were():
    """By the formula of the first version: ledgers and checkpoints of runs that go on."""
    key = jax.random.key(7)
    cohort, clients = jax.random.split(jax.random.fold_in(key, 11))
    again = round_keys(key, jnp.asarray(11))
    for one, two in zip((cohort, clients), again, strict=True):
        assert np.array_equal(jax.random.key_data(one), jax.random.key_data(two))
    one, two = jax.random.fold_in(clients, 4), client_key(again[1], jnp.asarray(4))
    assert np.array_equal(jax.random.key_data(one), jax.random.key_data(two))


def test_scaffnew_reaches_the_optimum():
    """w* = (sum A_i)^-1 sum b_i, with all clients taking the number of steps that was drawn."""
    played = play(SKIP, quadratics(F), Everyone(N), 300)
    assert np.linalg.norm(played.model - solution(F)) < 1e-8
    assert np.max(played.records.dual_residual) < 1e-10
    assert played.records.steps[:ROUNDS].tolist() == [N * k for k in steps()]
    assert len(set(steps())) > 3


def test_one_by_one_side_by_side_and_on_threads(monkeypatch):
    alone, beside = (
        play(SKIP, quadratics(F), Everyone(N), ROUNDS, side_by_side=side) for side in (False, True)
    )
    monkeypatch.setenv(threads.THREADS, "3")
    monkeypatch.setattr(threads, "WORTH", 0)
    fed = federation(SKIP, quadratics(F), Everyone(N), seed=0, side_by_side=False)
    state = start(fed, jnp.zeros_like(alone.model))
    spread, records, _ = threads.compiled(fed, state, ROUNDS)(fed, state, ROUNDS)
    for other in (beside.state, spread):
        for a, b in zip(jax.tree.leaves(alone.state), jax.tree.leaves(other), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-12)
    assert records.steps.tolist() == [N * k for k in steps()]


@pytest.mark.chaos
def test_in_lanes():
    feds = [
        federation(SKIP, quadratics(F), Everyone(N), seed=seed, side_by_side=True)
        for seed in (0, 1)
    ]
    states = [start(fed, jnp.zeros(quadratics(F).b.shape[-1])) for fed in feds]
    together = jax.tree.map(lambda *x: jnp.stack(x), *states)
    _, records = advance_lanes(lanes(feds), together, jnp.asarray(ROUNDS), ROUNDS)
    for seed in (0, 1):
        assert np.asarray(records.steps)[:, seed].tolist() == [N * k for k in steps(seed)]


def test_deployed_as_simulated():
    made = World(Compiled(SKIP), quadratics(F), seed=0)
    for row in range(N):
        made.join(f"site{row}", row)
    for _ in range(FEW):
        made.round(list(made.server.members))
    played = play(SKIP, quadratics(F), Everyone(N), FEW)
    np.testing.assert_allclose(made.model(), played.model, rtol=0, atol=1e-12)
    held = [answer.conserved for answer in made.settle()]
    np.testing.assert_allclose(np.stack(held), played.state.clients.h, rtol=0, atol=1e-12)
    like = shapes(SKIP, made.f("site0"), made.w)
    assert like.down.steps.shape == ()
    assert like.down.steps.dtype == jnp.int32


@pytest.mark.parametrize(
    "solver", [lambda k: SGD(0.1, epochs=k), lambda k: GradientDescent(0.1, steps=k),
               pytest.param(lambda k: adam(0.1, epochs=k), marks=pytest.mark.chaos)],
)  # fmt: skip
def test_a_number_of_steps_may_be_drawn(solver):
    """Traced, it gives what the plain number gives."""
    f = jax.tree.map(lambda x: x[0], quadratics(F))
    w, key = jnp.ones(f.b.shape), jax.random.key(0)
    drawn = eqx.filter_jit(lambda k: solver(k)(f, w, key))
    for count in (1, 4):
        one, two = drawn(jnp.asarray(count, jnp.int32)), solver(count)(f, w, key)
        np.testing.assert_allclose(one.w, two.w, rtol=0, atol=1e-14)
        assert int(one.steps) == int(two.steps)


def test_a_plain_number_is_still_checked():
    with pytest.raises(ValueError, match="epochs must be >= 0"):
        SGD(epochs=-1)
