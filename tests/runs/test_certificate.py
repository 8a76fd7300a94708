"""The certificate: never above the optimum, on a thousand random convex federations."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from feddcd import tree
from feddcd.measure import Certificate, certify, tangent_bound
from feddcd.problems import FAMILIES, Dense, Linear, Quadratic, random_quadratics
from federations import D, N, quadratics, solution, total
from slices import sliced

MANY = 220  # federations of each kind; there are five kinds
CLIENTS, ROWS, d = 4, 6, 3
COLUMNS = {"softmax": 3, "logistic": 1, "ridge": 1, "poisson": 1}
KINDS = ("quadratic", *COLUMNS)


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def random_quadratic(random) -> tuple[np.ndarray, np.ndarray]:
    """A and b of clients with α_i over four decades, and no two with the same optimum."""
    A = np.empty((CLIENTS, d, d))
    for i in range(CLIENTS):
        basis, _ = np.linalg.qr(random.normal(size=(d, d)))
        A[i] = basis * 10 ** random.uniform(-3, 1, d) @ basis.T
    return (A + A.swapaxes(1, 2)) / 2, random.normal(size=(CLIENTS, d)) * 3


def random_linear(random, family: str) -> Linear:
    k, shape = COLUMNS[family], (CLIENTS, ROWS)
    X = random.normal(size=(*shape, d)) * 10 ** random.uniform(-1, 0.5)
    s = random.uniform(0.1, 1.0, shape) * (random.uniform(size=shape) < 0.8)  # with padding
    Y = {
        "softmax": lambda: np.eye(k)[random.integers(k, size=shape)],
        "logistic": lambda: random.integers(2, size=(*shape, 1)),
        "ridge": lambda: random.normal(size=(*shape, 1)) * 5,
        "poisson": lambda: random.poisson(2.0, (*shape, 1)),
    }[family]()
    mu = np.full(CLIENTS, 10 ** random.uniform(-4, 1))
    zero, rows = 0 * mu, np.full(CLIENTS, ROWS)
    X, Y, s, *rest = jax.device_put((X, Y.astype(float), s, mu, rows, zero, zero + np.inf))
    return Linear(Dense(X), Y, s, FAMILIES[family], *rest)


def federations(kind: str):
    """MANY federations, stacked, with a model and a witness per client for each of them."""
    random = np.random.default_rng(KINDS.index(kind))
    make = random_quadratic if kind == "quadratic" else lambda r: random_linear(r, kind)
    stacked = lambda *x: jax.device_put(np.stack(x))
    problems = jax.tree.map(stacked, *[make(random) for _ in range(MANY)])
    problems = Quadratic(*problems) if kind == "quadratic" else problems
    shape = (d,) if kind == "quadratic" else (d, COLUMNS[kind])
    size = 10 ** random.uniform(-2, 0.5, MANY).reshape(MANY, *[1] * len(shape))
    w = random.normal(size=(MANY, *shape)) * size
    near = 10 ** random.uniform(-3, 0, (MANY, 1, *[1] * len(shape)))
    witnesses = w[:, None] + near * random.normal(size=(MANY, CLIENTS, *shape))
    return problems, jax.device_put(w), jax.device_put(witnesses)


@eqx.filter_jit
def minimum(problem, w0):
    """w*, F* from above and from below, by Newton's method with halving; both in mean form."""
    flat, shape = w0.reshape(-1), w0.shape
    F = lambda w: jnp.sum(jax.vmap(lambda f: f(w.reshape(shape)))(problem))
    slope, hessian = jax.grad(F), jax.hessian(F)

    def step(_, w):
        p = -jnp.linalg.solve(hessian(w), slope(w))
        trials = w + p * 0.5 ** jnp.arange(30)[:, None]
        values = jnp.append(jax.vmap(F)(trials), F(w))
        norms = jnp.append(jax.vmap(lambda w: tree.norm(slope(w)))(trials), tree.norm(slope(w)))
        # near the optimum values no longer tell points apart, but gradients do
        tied = values <= jnp.nanmin(values) + 1e-13 * (1 + jnp.abs(F(w)))
        best = jnp.nanargmin(jnp.where(tied, norms, jnp.inf))
        return jnp.concatenate([trials, w[None]])[best]

    w = jax.lax.fori_loop(0, 40, step, flat)
    g = slope(w)
    above, alpha = F(w), jnp.sum(problem.alpha)
    below = above - g @ g / (2 * alpha)
    return w.reshape(shape), above / CLIENTS, below / CLIENTS, tree.norm(g)


@eqx.filter_jit
@jax.vmap
def certified(f, w, points):
    """With and without the witnesses, and the witnesses' bound alone."""
    return certify(f, w, points), certify(f, w, None), tangent_bound(f, points, stacked=True)


@pytest.fixture(scope="module")
def solved():
    """Everything about a kind, once."""
    known = {}

    def find(kind):
        if kind not in known:
            problems, w, witnesses = federations(kind)
            found = eqx.filter_jit(jax.vmap(minimum))(problems, jnp.zeros(w.shape))
            known[kind] = problems, w, witnesses, tuple(map(np.asarray, found))
        return known[kind]

    return find


USUAL = sliced(KINDS, ("logistic",))  # the thousand in `make chaos`


class TestThousandFederations:
    @pytest.mark.parametrize("kind", USUAL)
    def test_never_above_the_optimum(self, kind, solved):
        problems, w, witnesses, (best, above, below, norm) = solved(kind)
        assert np.max(norm) < 1e-9
        assert np.max(above - below) < 1e-13
        if kind == "quadratic":
            exact = np.linalg.solve(np.sum(problems.A, 1), np.sum(problems.b, 1)[..., None])
            np.testing.assert_allclose(best, exact[..., 0], rtol=1e-8, atol=1e-10)
        for found in certified(problems, w, witnesses)[:2]:
            found = Certificate(*map(np.asarray, found))
            assert np.all(np.isfinite(found.lower_bound))
            assert np.all(found.lower_bound <= below)
            assert np.all(found.gap >= found.objective - above)

    @pytest.mark.parametrize("kind", USUAL)
    def test_tight_at_the_optimum(self, kind, solved):
        problems, _, _, (best, above, _, _) = solved(kind)
        witnesses = np.broadcast_to(best[:, None], (MANY, CLIENTS, *best.shape[1:]))
        _, found, bound = certified(problems, *map(jax.device_put, (best, witnesses)))
        scale = 1 + np.abs(above)
        assert np.all(np.asarray(found.objective) - found.lower_bound <= 1e-10 * scale)
        assert np.all(above - bound <= 1e-10 * scale)

    @pytest.mark.parametrize("kind", USUAL)
    def test_still_valid_and_tight_close_to_the_optimum(self, kind, solved):
        """Where rounding is as large as the gap itself."""
        problems, _, _, (best, _, below, _) = solved(kind)
        random = np.random.default_rng(5)
        for size in (1e-5, 1e-7, 1e-9):
            w = best * (1 + size * random.normal(size=best.shape))
            witnesses = w[:, None] + size * random.normal(size=(MANY, CLIENTS, *best.shape[1:]))
            found, _, _ = certified(problems, *map(jax.device_put, (w, witnesses)))
            assert np.all(found.lower_bound <= below)


def tangents(f: Quadratic, points, slopes):
    """The witness bound for quadratics in NumPy, with the gradients that are given."""
    A, b, alpha = np.asarray(f.A), np.asarray(f.b), np.asarray(f.alpha)
    values = np.einsum("ni,nij,nj->n", points, A, points) / 2 - np.sum(b * points, 1)
    constants = values - np.sum(slopes * points, 1) + alpha * np.sum(points**2, 1) / 2
    slope = (alpha[:, None] * points - slopes).sum(0)
    return (constants.sum() - slope @ slope / (2 * alpha.sum())) / N


class TestWitnesses:
    def test_the_formula(self):
        """Each f_i at its own client's point, with its own α_i."""
        f = quadratics("unequal")
        points = np.random.default_rng(1).normal(size=(N, D))
        slopes = np.einsum("nij,nj->ni", f.A, points) - np.asarray(f.b)
        expected = tangents(f, points, slopes)
        found = eqx.filter_jit(tangent_bound)(f, jax.device_put(points), stacked=True)
        np.testing.assert_allclose(found, expected, rtol=1e-12)
        w = np.ones(D)
        both = max(expected, tangents(f, np.tile(w, (N, 1)), np.asarray(f.A) @ w - np.asarray(f.b)))
        np.testing.assert_allclose(
            certify(f, jnp.ones(D), jax.device_put(points)).lower_bound, both, rtol=1e-12
        )

    def test_gradients_from_elsewhere_would_prove_too_much(self):
        """Why g_i must be taken where f_i is: with the gradients at another point the bound can
        pass the optimum."""
        f, optimum = quadratics("unequal"), float(total(quadratics("unequal"), solution("unequal")))
        random = np.random.default_rng(2)
        right, wrong = [], []
        for _ in range(200):
            points = solution("unequal") + random.normal(size=(N, D))
            other = solution("unequal") + random.normal(size=(N, D))
            slopes = lambda x: np.einsum("nij,nj->ni", f.A, x) - np.asarray(f.b)
            right.append(tangents(f, points, slopes(points)))
            wrong.append(tangents(f, points, slopes(other)))
        assert max(right) <= optimum / N
        assert max(wrong) > optimum / N

    def test_dual_solutions_close_the_gap(self):
        """At y* every client's own minimiser is w*: witnesses prove it where the model cannot."""
        f, best = quadratics("unequal"), solution("unequal")
        far = jnp.full(D, 10.0)
        found = certify(f, far, jax.device_put(np.tile(best, (N, 1))))
        np.testing.assert_allclose(found.lower_bound, total(f, best) / N, rtol=0, atol=1e-10)
        assert certify(f, far, None).lower_bound < float(total(f, best)) / N - 0.1

    def test_both_bounds_are_used(self):
        """With useless witnesses the model's own tangents remain."""
        f, best = quadratics("equal"), solution("equal")
        bad = jnp.full((N, D), 100.0)
        found = certify(f, jax.device_put(best), bad)
        assert 0 <= float(found.gap) < 1e-10


class TestLimits:
    def test_without_strong_convexity_nothing_is_proven(self):
        random = np.random.default_rng(0)
        f = jax.tree.map(jax.device_put, random_linear(random, "logistic"))
        flat = eqx.tree_at(lambda f: f.mu, f, 0 * f.mu)
        w = jnp.ones((d, 1))
        assert certify(flat, w, None).lower_bound == -jnp.inf
        assert certify(flat, w, jnp.ones((CLIENTS, d, 1))).lower_bound == -jnp.inf
        assert jnp.isfinite(certify(f, w, None).lower_bound)

    def test_one_flat_client_is_no_obstacle(self):
        """Only the sum of the α_i matters."""
        f = random_quadratics(N, D, alpha=0.2, beta=1.0, seed=1)
        A = np.array(f.A)
        A[0] = 0.0
        g = Quadratic(A, f.b)
        w = jax.device_put(np.linalg.solve(A.sum(0), np.sum(f.b, 0)))
        found = certify(g, w, None)
        assert 0 <= float(found.gap) < 1e-10

    def test_what_is_not_finite_proves_nothing(self):
        f = quadratics("equal")
        far = jnp.full(D, jnp.inf)
        assert certify(f, far, None).lower_bound == -jnp.inf
        good = certify(f, jax.device_put(solution("equal")), jnp.full((N, D), jnp.nan))
        assert 0 <= float(good.gap) < 1e-10
