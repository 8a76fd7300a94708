"""The paper's rates, in expectation over the cohorts, on quadratics where the dual is known.

f_i(w) = w'A_i w/2 - b_i'w has f_i*(y) = (y + b_i)'A_i^-1 (y + b_i)/2, and G(y*) = -F(w*).
"""

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from feddcd.algorithms import AccFedDCD, FedAvg, FedDCD, PointSAGA, Scaffold
from feddcd.participation import Everyone, ImportanceSubset, UniformSubset, round_keys
from feddcd.problems import Quadratic, optimum, random_quadratics, worst_case_chain
from feddcd.simulator.simulate import federation, one_round, start
from feddcd.solvers import GradientDescent, InexactOracle
from federations import DIRECT, D, Given, N
from slices import sliced

SEEDS, ROUNDS = 32, 120
BLOCK = ROUNDS + 1  # rounds in one call
ALPHA, BETA = 0.1, 3.0
KAPPA = ALPHA / BETA


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@cache
def problem():
    with jax.enable_x64(True):
        return random_quadratics(N, D, alpha=ALPHA, beta=BETA, seed=6)


@eqx.filter_jit
def some_rounds(fed, look, keys, states, arrived):
    """look(fed, state) before each round, for every seed; and the states after them."""

    def one(key, state, arrived):
        run = eqx.tree_at(lambda fed: fed.key, fed, key)

        def step(state, arrived):
            now = eqx.tree_at(lambda fed: fed.participation.arrived, run, arrived)
            return one_round(now, state)[0], look(run, state)

        return jax.lax.scan(step, state, arrived)

    return jax.vmap(one)(keys, states, arrived)


@eqx.filter_jit
def arrivals(participation):
    """Who takes part in each round of every seed, as the simulator draws them."""

    def draw(key, t):
        ids = participation(round_keys(key, t)[0]).ids
        return jnp.zeros(participation.N, bool).at[ids].set(True)

    return jax.vmap(jax.vmap(draw, (None, 0)), (0, None))(keys(), jnp.arange(7 * BLOCK))


def keys():
    return jax.random.split(jax.random.key(0), SEEDS)


def trajectories(algorithm, f, participation, look, rounds, block=BLOCK):
    """look(fed, state) from w = 0 after 0, 1, 2, ... rounds, for every seed. The cohorts are
    drawn first and the rounds come in blocks, so that one program is enough for all of them."""
    n, d = f.b.shape
    blocks = -(-(rounds + 1) // block)
    there = np.asarray(arrivals(participation))[:, : blocks * block]
    fed = federation(algorithm, f, Given(jnp.ones(n, bool), n, n), seed=0)
    many = lambda x: jax.device_put(np.broadcast_to(x, (SEEDS, *np.shape(x))))
    states, seen = jax.tree.map(many, start(fed, jnp.zeros(d))), []
    for now in np.split(there, blocks, 1):
        states, found = some_rounds(fed, look, keys(), states, jax.device_put(now))
        seen.append(found)
    return np.concatenate(seen, 1)[:, : rounds + 1]


def least(f):
    """w* and F(w*)."""
    A, b = np.sum(f.A, 0), np.sum(f.b, 0)
    w = np.linalg.solve(A, b)
    return w, -b @ w / 2


def minimisers(f, y):
    """w_i(y_i) = A_i^-1 (b_i + y_i) for every seed and round."""
    right = np.moveaxis(y + np.asarray(f.b), 2, 0).reshape(N, -1, D)
    w = np.linalg.solve(np.asarray(f.A), right.swapaxes(1, 2)).swapaxes(1, 2)
    return np.moveaxis(w.reshape(N, *y.shape[:2], D), 0, 2)


def dual_gaps(f, y):
    """G(y) - G(y*) for every seed and round."""
    return np.sum((y + np.asarray(f.b)) * minimisers(f, y), (2, 3)) / 2 + least(f)[1]


def duals(fed, state):
    return state.clients.y


def duals_now(fed, state):
    down = fed.algorithm.broadcast(state.server, fed.key)
    return jax.vmap(fed.algorithm.caught_up, (0, None))(state.clients, down).y


def plain_gaps(participation, f, rounds, solver=DIRECT, eta=1.0):
    """Dual gaps and primal errors mean_i |w_i(y_i) - w*|² of every seed and round."""
    algorithm = eqx.tree_at(lambda a: a.eta, FedDCD(solver, eta=eta), replace_fn=jnp.asarray)
    y = trajectories(algorithm, f, participation, duals, rounds)
    errors = np.sum((minimisers(f, y) - least(f)[0]) ** 2, 3).mean(2)
    return dual_gaps(f, y), errors


def accelerated_gaps(tau, f, *, kappa, sets=2):
    """Of every seed and iteration; one program for all settings."""
    algorithm = AccFedDCD(tau, N, DIRECT, kappa=kappa, sets=sets)
    algorithm = eqx.tree_at(lambda a: (a.tau, a.kappa), algorithm, replace_fn=jnp.asarray)
    algorithm = eqx.tree_at(lambda a: a.sets, algorithm, replace_fn=jnp.int32)
    y = trajectories(algorithm, f, UniformSubset(N, tau), duals_now, sets * ROUNDS)
    return dual_gaps(f, y)[:, ::sets]


def bound(gaps, factor, constant=1.0):
    """constant · factor^t · (G(y_0) - G(y*))."""
    return constant * gaps[0, 0] * factor ** np.arange(gaps.shape[1])


class TestTheorem1:
    @pytest.mark.parametrize("tau", [2, 5, N])
    def test_feddcd(self, tau):
        """E[G(y_t) - G*] <= (1 - (τ-1)/(N-1) α/β)^t (G(0) - G*), and
        mean_i |w_i - w*|² <= 2 (G(y) - G*)/(N α)."""
        gaps, errors = plain_gaps(UniformSubset(N, tau), problem(), ROUNDS)
        assert np.all(gaps > -1e-12)
        assert np.all(np.diff(gaps) < 1e-12)  # the dual never rises
        assert np.all(gaps.mean(0) <= bound(gaps, 1 - (tau - 1) / (N - 1) * KAPPA) + 1e-13)
        assert np.all(errors <= 2 * gaps / (N * ALPHA) + 1e-12)

    def test_too_short_a_step_breaks_the_bound(self):
        """So the bound is not an idle one: with everyone there it is nearly reached."""
        gaps, _ = plain_gaps(UniformSubset(N, N), problem(), ROUNDS, eta=0.2)
        assert gaps.mean(0)[-1] > bound(gaps, 1 - KAPPA)[-1]


class TestAccelerated:
    @pytest.mark.parametrize(("tau", "sets"), [(2, 2), (5, 2), (N, 2), (5, 1)])
    def test_rate_by_iteration(self, tau, sets):
        """E[G(y_t) - G*] <= 2 (1 - sqrt(κ)/((N-1)/(τ-1) + sqrt(κ)))^t (G(0) - G*), t counting
        iterations of two rounds; one set for both halves keeps the rate."""
        gaps = accelerated_gaps(tau, problem(), kappa=KAPPA, sets=sets)
        factor = 1 - np.sqrt(KAPPA) / ((N - 1) / (tau - 1) + np.sqrt(KAPPA))
        assert np.all(gaps.mean(0) <= bound(gaps, factor, 2.0) + 1e-13)

    def test_faster_than_plain_on_a_stiff_problem(self):
        """Per iteration, where β/α = 1000."""
        f = random_quadratics(N, D, alpha=0.003, beta=3.0, seed=7)
        plain, _ = plain_gaps(UniformSubset(N, 5), f, ROUNDS)
        fast = accelerated_gaps(5, f, kappa=1e-3)
        assert fast.mean(0)[-1] < 0.1 * plain.mean(0)[-1]


@eqx.filter_jit
def first_answers(solver, f):
    return jax.vmap(lambda f: solver(f, jnp.zeros(D), None).w)(f)


class TestInexact:
    @pytest.mark.parametrize("tau", sliced((2, N), (2,)))
    def test_at_the_largest_error_allowed(self, tau):
        """δ = (1-κ)/4, η = 1/4, κ = (τ-1) α/(32 (N-1) β): the gap is below (1-κ)^t G_0."""
        kappa_inexact = (tau - 1) * ALPHA / (32 * (N - 1) * BETA)
        delta = (1 - kappa_inexact) / 4
        solver = GradientDescent(steps=10_000, stop=InexactOracle(delta))
        solver = eqx.tree_at(lambda s: s.stop.delta, solver, replace_fn=jnp.asarray)
        gaps, _ = plain_gaps(UniformSubset(N, tau), problem(), ROUNDS, solver, eta=0.25)
        assert np.all(gaps.mean(0) <= bound(gaps, 1 - kappa_inexact) + 1e-13)
        assert gaps.mean(0)[-1] < 0.95 * gaps[0, 0]

        f = problem()
        out = np.asarray(first_answers(solver, f))
        exact = np.linalg.solve(f.A, f.b[..., None])[..., 0]
        left = np.sum((out - exact) ** 2, 1) / np.sum(exact**2, 1)
        assert np.all(left <= delta)
        assert np.all(left > 1e-8)  # the oracle is really inexact


class TestImportance:
    """A 30x spread of α_i, and β_i = 10 α_i. (With one β for all, the clients with a small α_i
    are the slow ones, and the distribution that the rate needs is not the faster one.)"""

    ROUNDS = 800

    @staticmethod
    def problem():
        unit, size = random_quadratics(N, D, alpha=1.0, beta=10.0, seed=8), np.geomspace(0.1, 3, N)
        return Quadratic(size[:, None, None] * unit.A, size[:, None] * unit.b)

    def test_fewer_rounds_than_uniform(self):
        f, tau = self.problem(), 2
        mean_rounds = {}
        for participation in (UniformSubset(N, tau), ImportanceSubset(f.alpha, tau)):
            gaps, _ = plain_gaps(participation, f, self.ROUNDS)
            below = gaps < 1e-3 * gaps[0, 0]
            assert np.all(below[:, -1])
            mean_rounds[type(participation)] = np.argmax(below, axis=1).mean()
            if isinstance(participation, ImportanceSubset):
                factor = 1 - (tau - 1) / (N - 1) / 10
                assert np.all(gaps.mean(0) <= bound(gaps, factor) + 1e-13)
        assert mean_rounds[ImportanceSubset] < 0.85 * mean_rounds[UniformSubset]


def model(fed, state):
    return fed.algorithm.model(state.server)


def gap_and_support(f, w):
    """F(w) - F* and the last coordinate of w that is not 0, counted from 1."""
    A, b = np.sum(f.A, 0), np.sum(f.b, 0)
    gap = np.sum(w * (w @ A / 2 - b), -1) - least(f)[1]
    return gap, np.max(np.where(w != 0, np.arange(1, w.shape[-1] + 1), 0), -1)


class TestWorstCase:
    """Knowledge walks down the chain one coordinate a round, and only when its keeper is there:
    E gap >= (N α/2) δ/(1-δ) (1 - (τ/N)(1-δ))^t with δ = q².

    (The first keeper holds the source too and so reveals two coordinates at once, which the
    proof overlooks; `reach` counts them.)
    """

    CLIENTS, LENGTH, T = 4, 40, 30
    ALPHA, BETA = 0.02, 4.0
    METHODS = {  # noqa: RUF012
        "feddcd": lambda tau, N: FedDCD(DIRECT),
        "accfeddcd": lambda tau, N: AccFedDCD(tau, N, DIRECT),
        "pointsaga": lambda tau, N: eqx.tree_at(
            lambda a: a.tau, PointSAGA(tau, N, DIRECT), replace_fn=jnp.asarray
        ),
        "scaffold": lambda tau, N: Scaffold(GradientDescent(steps=5)),
        "fedavg": lambda tau, N: FedAvg(GradientDescent(steps=5)),
    }

    def chain(self):
        return worst_case_chain(self.CLIENTS, self.LENGTH, alpha=self.ALPHA, beta=self.BETA)

    def walk(self, name, who):
        f, algorithm = self.chain(), self.METHODS[name](who.tau, who.N)
        w = trajectories(algorithm, f, who, model, self.T, block=self.T + 1)
        return gap_and_support(f, w)

    def ratio(self):
        s = np.sqrt(self.BETA / (self.CLIENTS * self.ALPHA))
        return (s - 1) / (s + 1)

    def test_optimum_is_geometric(self):
        f = worst_case_chain(self.CLIENTS, 200, alpha=self.ALPHA, beta=self.BETA)
        powers = self.ratio() ** np.arange(1, 201)
        np.testing.assert_allclose(optimum(f), powers, rtol=0, atol=1e-6)

    @pytest.mark.parametrize("name", sliced(METHODS, ("fedavg",)))
    def test_no_method_is_below_the_bound(self, name):
        n, tau = self.CLIENTS, 2
        gaps, support = self.walk(name, UniformSubset(n, tau))
        t, delta, scale = np.arange(self.T + 1), self.ratio() ** 2, n * self.ALPHA / 2
        lower = scale * delta / (1 - delta) * (1 - tau / n * (1 - delta)) ** t
        truncation = scale * delta ** (self.LENGTH + 1) / (1 - delta)
        assert np.all(gaps.mean(0) >= lower - truncation)
        assert np.all(support <= self.reach())

    def reach(self):
        """The most coordinates that the model of each seed can have, from its cohorts alone."""
        there = np.asarray(arrivals(UniformSubset(self.CLIENTS, 2)))
        known = np.zeros((SEEDS, self.T + 1), int)
        for seed in range(SEEDS):
            for t in range(self.T):
                at = known[seed, t]
                # coordinates at-1 and at (from 0) are coupled by client (at-1) mod N
                keeper = 0 if at == 0 else (at - 1) % self.CLIENTS
                step = (2 if at == 0 else 1) if there[seed, t, keeper] else 0
                known[seed, t + 1] = at + step
        return known

    def test_everyone_still_walks_step_by_step(self):
        _, support = self.walk("fedavg", Everyone(self.CLIENTS))
        assert np.array_equal(support[0, :11], [0, *range(2, 12)])
