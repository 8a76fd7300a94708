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
from feddcd.problems import optimum, random_quadratics, worst_case_chain
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
def trajectories(fed, w0, look, rounds, seeds):
    """look(state) after 0, 1, 2, ... rounds for every seed."""

    def one(key):
        run = eqx.tree_at(lambda fed: fed.key, fed, key)
        first = start(run, w0)

        def step(state, _):
            state, _ = one_round(run, state)
            return state, look(state)

        _, seen = jax.lax.scan(step, first, length=rounds)
        return jax.tree.map(lambda a, b: jnp.concatenate([a[None], b]), look(first), seen)

    return jax.vmap(one)(jax.vmap(jax.random.key)(jnp.arange(seeds)))


def dual_gap(f, y):
    """G(y) - G(y*)."""
    shifted = y + f.b
    G = jnp.sum(shifted * jnp.linalg.solve(f.A, shifted[..., None])[..., 0]) / 2
    return G + total(f, optimum(f))


def dual_gaps(algorithm, participation, f, rounds, look=None):
    """Of every seed and round."""
    fed = federation(algorithm, f, participation, seed=0)
    look = (lambda state: dual_gap(f, state.clients.y)) if look is None else look
    return np.asarray(trajectories(fed, jnp.zeros(f.b.shape[-1]), look, rounds, SEEDS))


def bound(gaps, factor, constant=1.0):
    """constant · factor^t · (G(y_0) - G(y*))."""
    return constant * gaps[0, 0] * factor ** np.arange(gaps.shape[1])


class TestTheorem1:
    @pytest.mark.parametrize("tau", [2, 5, N])
    def test_feddcd(self, tau):
        """E[G(y_t) - G*] <= (1 - (τ-1)/(N-1) α/β)^t (G(0) - G*)."""
        gaps = dual_gaps(FedDCD(EXACT), UniformSubset(N, tau), problem(), ROUNDS)
        assert np.all(gaps > -1e-12)
        assert np.all(np.diff(gaps) < 1e-12)  # the dual never rises
        assert np.all(gaps.mean(0) <= bound(gaps, 1 - (tau - 1) / (N - 1) * KAPPA) + 1e-13)

    def test_too_short_a_step_breaks_the_bound(self):
        """So the bound is not an idle one: with everyone there it is nearly reached."""
        gaps = dual_gaps(FedDCD(EXACT, eta=0.2), UniformSubset(N, N), problem(), ROUNDS)
        assert gaps.mean(0)[-1] > bound(gaps, 1 - KAPPA)[-1]

    @pytest.mark.parametrize("tau", [2, 5])
    def test_primal_error_follows_the_dual_gap(self, tau):
        """mean_i |w_i(y) - w*|² <= 2 (G(y) - G*)/(N α), and the model is a mean of some w_i."""
        f = problem()
        best = optimum(f)

        def look(state):
            w = jnp.linalg.solve(f.A, (f.b + state.clients.y)[..., None])[..., 0]
            return dual_gap(f, state.clients.y), jnp.mean(jnp.sum((w - best) ** 2, 1))

        fed = federation(FedDCD(EXACT), f, UniformSubset(N, tau), seed=0)
        gaps, errors = trajectories(fed, jnp.zeros(D), look, ROUNDS, SEEDS)
        assert np.all(errors <= 2 * gaps / (N * ALPHA) + 1e-13)


class TestAccelerated:
    @staticmethod
    def gaps(tau, sets):
        f = problem()
        algorithm = AccFedDCD(tau, N, EXACT, kappa=KAPPA, sets=sets)

        def look(state):
            down = algorithm.broadcast(state.server)
            return dual_gap(f, jax.vmap(algorithm.caught_up, (0, None))(state.clients, down).y)

        return dual_gaps(algorithm, UniformSubset(N, tau), f, sets * ROUNDS, look)[:, ::sets]

    @pytest.mark.parametrize("tau", [2, 5, N])
    def test_rate_by_iteration(self, tau):
        """E[G(y_t) - G*] <= 2 (1 - sqrt(κ)/((N-1)/(τ-1) + sqrt(κ)))^t (G(0) - G*), t counting
        iterations of two rounds."""
        gaps = self.gaps(tau, 2)
        factor = 1 - np.sqrt(KAPPA) / ((N - 1) / (tau - 1) + np.sqrt(KAPPA))
        assert np.all(gaps.mean(0) <= bound(gaps, factor, 2.0) + 1e-13)

    def test_one_set_keeps_the_rate(self):
        gaps = self.gaps(5, 1)
        factor = 1 - np.sqrt(KAPPA) / ((N - 1) / 4 + np.sqrt(KAPPA))
        assert np.all(gaps.mean(0) <= bound(gaps, factor, 2.0) + 1e-13)

    def test_faster_than_plain_on_a_stiff_problem(self):
        """Per iteration, where β/α = 1000."""
        f = random_quadratics(N, D, alpha=0.003, beta=3.0, seed=7)
        plain = dual_gaps(FedDCD(EXACT), UniformSubset(N, 5), f, ROUNDS)
        algorithm = AccFedDCD(5, N, EXACT, kappa=1e-3)

        def look(state):
            down = algorithm.broadcast(state.server)
            return dual_gap(f, jax.vmap(algorithm.caught_up, (0, None))(state.clients, down).y)

        fast = dual_gaps(algorithm, UniformSubset(N, 5), f, 2 * ROUNDS, look)[:, ::2]
        assert fast.mean(0)[-1] < 0.1 * plain.mean(0)[-1]


class TestInexact:
    @pytest.mark.parametrize("tau", [2, N])
    def test_at_the_largest_error_allowed(self, tau):
        """δ = (1-κ)/4, η = 1/4, κ = (τ-1) α/(32 (N-1) β): the gap is below (1-κ)^t G_0."""
        kappa_inexact = (tau - 1) * ALPHA / (32 * (N - 1) * BETA)
        solver = GradientDescent(steps=10_000, stop=InexactOracle((1 - kappa_inexact) / 4))
        gaps = dual_gaps(FedDCD(solver, eta=0.25), UniformSubset(N, tau), problem(), 300)
        assert np.all(gaps.mean(0) <= bound(gaps, 1 - kappa_inexact) + 1e-13)
        assert gaps.mean(0)[-1] < 0.9 * gaps[0, 0]

    def test_the_oracle_is_really_inexact(self):
        """Far fewer steps than an exact solver takes, and still to the optimum."""
        f = problem()
        solver = GradientDescent(steps=10_000, stop=InexactOracle(0.2))
        fed = federation(FedDCD(solver, eta=0.25), f, UniformSubset(N, N), seed=0)
        look = lambda state: state.server
        w = trajectories(fed, jnp.zeros(D), look, 4000, 1)[0, -1]
        np.testing.assert_allclose(w, optimum(f), rtol=0, atol=1e-6)


class TestImportance:
    def test_fewer_rounds_than_uniform_where_alpha_differs(self):
        """With a 30x spread of α_i, Necoara's distribution needs fewer rounds to the same gap."""
        f = random_quadratics(N, D, alpha=0.1, beta=3.0, spread=30.0, seed=8)
        target = 1e-6

        def mean_rounds(participation):
            gaps = dual_gaps(FedDCD(EXACT), participation, f, 700)
            assert np.all(gaps[:, -1] < target)
            return np.argmax(gaps < target, axis=1).mean()

        tau = 2
        uniform = mean_rounds(UniformSubset(N, tau))
        importance = mean_rounds(ImportanceSubset(f.alpha, tau))
        assert importance < 0.9 * uniform


class TestWorstCase:
    """Knowledge walks down the chain one coordinate a round, and only when its keeper is there.

    The first keeper holds the source too, and so reveals two coordinates: after B successes the
    model has at most K = B + 1 non-zeros (0 if B = 0). With δ = q² and p = τ/N that costs a
    factor δ of the bound as printed:
    E gap >= (N α/2) δ/(1-δ) [(1-p)^t + δ ((1 - p(1-δ))^t - (1-p)^t)].
    """

    CLIENTS, LENGTH, T = 4, 60, 30
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
        best = optimum(f)

        def look(state):
            w = algorithm.model(state.server)
            gap = total(f, w) - total(f, best)
            return gap, jnp.sum(jnp.where(w != 0, jnp.arange(1, self.LENGTH + 1), 0) > 0)

        fed = federation(algorithm, f, UniformSubset(n, tau), seed=0)
        gaps, support = trajectories(fed, jnp.zeros(self.LENGTH), look, self.T, SEEDS)
        t, p, delta = np.arange(self.T + 1), tau / n, self.ratio() ** 2
        never = (1 - p) ** t
        law = never + delta * ((1 - p * (1 - delta)) ** t - never)
        lower = n * self.ALPHA / 2 * delta / (1 - delta) * law
        truncation = n * self.ALPHA / 2 * delta ** (self.LENGTH + 1) / (1 - delta)
        assert np.all(gaps.mean(0) >= 0.9 * (lower - truncation))
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
        look = lambda state: jnp.sum(state.server.x != 0)
        fed = federation(PointSAGA(4, 4, EXACT), f, Everyone(4), seed=0)
        support = trajectories(fed, jnp.zeros(self.LENGTH), look, 10, 1)[0]
        assert np.array_equal(support, [0, *range(2, 12)])
