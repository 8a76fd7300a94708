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
from feddcd.engines.simulate import federation, one_round, round_keys, start
from feddcd.participation import Everyone, ImportanceSubset, UniformSubset
from feddcd.problems import Quadratic, optimum, random_quadratics, worst_case_chain
from feddcd.solvers import GradientDescent, InexactOracle
from federations import EXACT, D, N, total

SEEDS, ROUNDS = 32, 120
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
def trajectories(fed, look, rounds, seeds=SEEDS):
    """look(fed, state) from w = 0 after 0, 1, 2, ... rounds, for every seed."""

    def one(key):
        run = eqx.tree_at(lambda fed: fed.key, fed, key)
        first = start(run, jnp.zeros(run.problem.b.shape[-1]))

        def step(state, _):
            state, _ = one_round(run, state)
            return state, look(run, state)

        _, seen = jax.lax.scan(step, first, length=rounds)
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), look(run, first), seen)

    return jax.vmap(one)(jax.vmap(jax.random.key)(jnp.arange(seeds)))


def dual_gap(f, y):
    """G(y) - G(y*)."""
    shifted = y + f.b
    G = jnp.sum(shifted * jnp.linalg.solve(f.A, shifted[..., None])[..., 0]) / 2
    return G + total(f, optimum(f))


def dual_and_primal(fed, state):
    """G(y) - G(y*) and mean_i |w_i(y_i) - w*|²."""
    f, y = fed.problem, state.clients.y
    w = jnp.linalg.solve(f.A, (f.b + y)[..., None])[..., 0]
    return dual_gap(f, y), jnp.mean(jnp.sum((w - optimum(f)) ** 2, 1))


def accelerated_gap(fed, state):
    down = fed.algorithm.broadcast(state.server)
    now = jax.vmap(fed.algorithm.caught_up, (0, None))(state.clients, down)
    return dual_gap(fed.problem, now.y)


def plain_gaps(algorithm, participation, f, rounds):
    """Dual gaps and primal errors of every seed and round."""
    fed = federation(algorithm, f, participation, seed=0)
    return jax.tree.map(np.asarray, trajectories(fed, dual_and_primal, rounds))


def accelerated_gaps(algorithm, f):
    """Of every seed and iteration."""
    fed = federation(algorithm, f, UniformSubset(N, algorithm.tau), seed=0)
    gaps = trajectories(fed, accelerated_gap, algorithm.sets * ROUNDS)
    return np.asarray(gaps)[:, :: algorithm.sets]


def bound(gaps, factor, constant=1.0):
    """constant · factor^t · (G(y_0) - G(y*))."""
    return constant * gaps[0, 0] * factor ** np.arange(gaps.shape[1])


class TestTheorem1:
    @pytest.mark.parametrize("tau", [2, 5, N])
    def test_feddcd(self, tau):
        """E[G(y_t) - G*] <= (1 - (τ-1)/(N-1) α/β)^t (G(0) - G*), and
        mean_i |w_i - w*|² <= 2 (G(y) - G*)/(N α)."""
        gaps, errors = plain_gaps(FedDCD(EXACT), UniformSubset(N, tau), problem(), ROUNDS)
        assert np.all(gaps > -1e-12)
        assert np.all(np.diff(gaps) < 1e-12)  # the dual never rises
        assert np.all(gaps.mean(0) <= bound(gaps, 1 - (tau - 1) / (N - 1) * KAPPA) + 1e-13)
        assert np.all(errors <= 2 * gaps / (N * ALPHA) + 1e-12)

    def test_too_short_a_step_breaks_the_bound(self):
        """So the bound is not an idle one: with everyone there it is nearly reached."""
        gaps, _ = plain_gaps(FedDCD(EXACT, eta=0.2), UniformSubset(N, N), problem(), ROUNDS)
        assert gaps.mean(0)[-1] > bound(gaps, 1 - KAPPA)[-1]


class TestAccelerated:
    @pytest.mark.parametrize(("tau", "sets"), [(2, 2), (5, 2), (N, 2), (5, 1)])
    def test_rate_by_iteration(self, tau, sets):
        """E[G(y_t) - G*] <= 2 (1 - sqrt(κ)/((N-1)/(τ-1) + sqrt(κ)))^t (G(0) - G*), t counting
        iterations of two rounds; one set for both halves keeps the rate."""
        gaps = accelerated_gaps(AccFedDCD(tau, N, EXACT, kappa=KAPPA, sets=sets), problem())
        factor = 1 - np.sqrt(KAPPA) / ((N - 1) / (tau - 1) + np.sqrt(KAPPA))
        assert np.all(gaps.mean(0) <= bound(gaps, factor, 2.0) + 1e-13)

    def test_faster_than_plain_on_a_stiff_problem(self):
        """Per iteration, where β/α = 1000."""
        f = random_quadratics(N, D, alpha=0.003, beta=3.0, seed=7)
        plain, _ = plain_gaps(FedDCD(EXACT), UniformSubset(N, 5), f, ROUNDS)
        fast = accelerated_gaps(AccFedDCD(5, N, EXACT, kappa=1e-3), f)
        assert fast.mean(0)[-1] < 0.1 * plain.mean(0)[-1]


class TestInexact:
    @pytest.mark.parametrize("tau", [2, N])
    def test_at_the_largest_error_allowed(self, tau):
        """δ = (1-κ)/4, η = 1/4, κ = (τ-1) α/(32 (N-1) β): the gap is below (1-κ)^t G_0."""
        kappa_inexact = (tau - 1) * ALPHA / (32 * (N - 1) * BETA)
        delta = (1 - kappa_inexact) / 4
        solver = GradientDescent(steps=10_000, stop=InexactOracle(delta))
        gaps, _ = plain_gaps(FedDCD(solver, eta=0.25), UniformSubset(N, tau), problem(), ROUNDS)
        assert np.all(gaps.mean(0) <= bound(gaps, 1 - kappa_inexact) + 1e-13)
        assert gaps.mean(0)[-1] < 0.95 * gaps[0, 0]

        f = problem()
        out = jax.vmap(lambda f: solver(f, jnp.zeros(D), None).w)(f)
        exact = jnp.linalg.solve(f.A, f.b[..., None])[..., 0]
        left = jnp.sum((out - exact) ** 2, 1) / jnp.sum(exact**2, 1)
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
            gaps, _ = plain_gaps(FedDCD(EXACT), participation, f, self.ROUNDS)
            below = gaps < 1e-3 * gaps[0, 0]
            assert np.all(below[:, -1])
            mean_rounds[type(participation)] = np.argmax(below, axis=1).mean()
            if isinstance(participation, ImportanceSubset):
                factor = 1 - (tau - 1) / (N - 1) / 10
                assert np.all(gaps.mean(0) <= bound(gaps, factor) + 1e-13)
        assert mean_rounds[ImportanceSubset] < 0.85 * mean_rounds[UniformSubset]


def gap_and_support(fed, state):
    """F(w) - F* and the last coordinate of w that is not 0, counted from 1."""
    f, w = fed.problem, fed.algorithm.model(state.server)
    gap = total(f, w) - total(f, optimum(f))
    return gap, jnp.max(jnp.where(w != 0, jnp.arange(1, len(w) + 1), 0))


class TestWorstCase:
    """Knowledge walks down the chain one coordinate a round, and only when its keeper is there:
    E gap >= (N α/2) δ/(1-δ) (1 - (τ/N)(1-δ))^t with δ = q².

    (The first keeper holds the source too and so reveals two coordinates at once, which the
    proof overlooks; `reach` counts them.)
    """

    CLIENTS, LENGTH, T = 4, 40, 30
    ALPHA, BETA = 0.02, 4.0
    METHODS = {  # noqa: RUF012
        "feddcd": lambda tau, N: FedDCD(EXACT),
        "accfeddcd": lambda tau, N: AccFedDCD(tau, N, EXACT),
        "pointsaga": lambda tau, N: PointSAGA(tau, N, EXACT),
        "scaffold": lambda tau, N: Scaffold(GradientDescent(steps=5)),
        "fedavg": lambda tau, N: FedAvg(GradientDescent(steps=5)),
    }

    def chain(self):
        return worst_case_chain(self.CLIENTS, self.LENGTH, alpha=self.ALPHA, beta=self.BETA)

    def ratio(self):
        s = np.sqrt(self.BETA / (self.CLIENTS * self.ALPHA))
        return (s - 1) / (s + 1)

    def test_optimum_is_geometric(self):
        f = worst_case_chain(self.CLIENTS, 200, alpha=self.ALPHA, beta=self.BETA)
        powers = self.ratio() ** np.arange(1, 201)
        np.testing.assert_allclose(optimum(f), powers, rtol=0, atol=1e-6)

    @pytest.mark.parametrize("name", METHODS)
    def test_no_method_is_below_the_bound(self, name):
        f, n, tau = self.chain(), self.CLIENTS, 2
        algorithm = self.METHODS[name](tau, n)
        fed = federation(algorithm, f, UniformSubset(n, tau), seed=0)
        gaps, support = trajectories(fed, gap_and_support, self.T)
        t, delta, scale = np.arange(self.T + 1), self.ratio() ** 2, n * self.ALPHA / 2
        lower = scale * delta / (1 - delta) * (1 - tau / n * (1 - delta)) ** t
        truncation = scale * delta ** (self.LENGTH + 1) / (1 - delta)
        assert np.all(gaps.mean(0) >= lower - truncation)
        assert np.all(support <= self.reach())

    def reach(self):
        """The most coordinates that the model of each seed can have, from its cohorts alone."""
        who = UniformSubset(self.CLIENTS, 2)
        draw = lambda seed, t: who(round_keys(jax.random.key(seed), t)[0]).ids
        draws = jax.vmap(jax.vmap(draw, (None, 0)), (0, None))
        ids = np.asarray(draws(jnp.arange(SEEDS), jnp.arange(self.T)))
        known = np.zeros((SEEDS, self.T + 1), int)
        for seed in range(SEEDS):
            for t in range(self.T):
                at = known[seed, t]
                # coordinates at-1 and at (from 0) are coupled by client (at-1) mod N
                keeper = 0 if at == 0 else (at - 1) % self.CLIENTS
                step = (2 if at == 0 else 1) if keeper in ids[seed, t] else 0
                known[seed, t + 1] = at + step
        return known

    def test_everyone_still_walks_step_by_step(self):
        f = self.chain()
        fed = federation(PointSAGA(4, 4, EXACT), f, Everyone(4), seed=0)
        _, support = trajectories(fed, gap_and_support, 10, 1)
        assert np.array_equal(support[0], [0, *range(2, 12)])
