"""Objectives: gradients, rows, sparse matrices, curvature, and the algebra of μ and q."""

from functools import cache
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse

from feddcd import tree
from feddcd.data import Dataset
from feddcd.data.federate import federate
from feddcd.problems import (
    FAMILIES,
    MLP,
    AbstractFamily,
    Quadratic,
    curvature,
    gram,
    mlp_params,
    optimum,
    random_quadratics,
    stack,
    worst_case_chain,
)
from slices import sliced

D, SIZES = 5, (7, 12, 3)
KINDS = (*FAMILIES, "mlp", "quadratic")
power = eqx.filter_jit(curvature)
hessian = eqx.filter_jit(lambda f, w: jax.hessian(lambda x: f(x.reshape(w.shape)))(w.ravel()))
take = eqx.filter_jit(tree.take)
value = eqx.filter_jit(lambda f, w: f(w))
values = eqx.filter_jit(lambda f, w: jax.vmap(lambda f: f(w))(f))
products = eqx.filter_jit(
    lambda X, W, R: (X.matmul(W), X.rmatmul(R), X.add_rmatmul(jnp.asarray(-2.0), R, W))
)
on_rows = eqx.filter_jit(lambda f, rows, w: f.batch(rows)(w))


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def blocks(sparse=False):
    random = np.random.default_rng(1)
    X = [random.normal(size=(n, D)) * (random.uniform(size=(n, D)) < 0.6) for n in SIZES]
    X[1][4] = 0.0  # a row without entries
    return [scipy.sparse.csr_array(x) for x in X] if sparse else X


@cache
def clients(kind, sparse=False):
    """Three clients of unequal size, stacked, and a point to evaluate them at."""
    random = np.random.default_rng(2)
    if kind == "quadratic":
        f = random_quadratics(3, D, alpha=0.2, beta=3.0, seed=4)
        return f, jax.device_put(random.normal(size=D))
    X, n = blocks(sparse), sum(SIZES)
    y = {
        "softmax": lambda: np.arange(n) % 3,
        "mlp": lambda: np.arange(n) % 3,
        "logistic": lambda: np.arange(n) % 2,
        "ridge": lambda: random.normal(size=n),
        "poisson": lambda: random.poisson(2.0, n),
    }[kind]()
    pool = scipy.sparse.vstack(X, format="csr") if sparse else np.concatenate(X)
    parts = np.split(np.arange(n), np.cumsum(SIZES)[:-1])
    model = "mlp:4" if kind == "mlp" else kind
    made = federate(Dataset("made", pool, y.astype(float)), parts, model=model, l2=0.3)
    return made.problem, jax.tree.map(lambda x: jax.device_put(random.normal(size=x.shape)), made.w)


def client(kind, i=1, sparse=False):
    f, w = clients(kind, sparse)
    return take(f, jnp.asarray(i)), w


class TestGradients:
    @pytest.mark.parametrize("kind", sliced(KINDS, ("softmax", "mlp", "quadratic")))
    def test_against_finite_differences(self, kind):
        h = 1e-6

        @eqx.filter_jit
        def slopes(f, w, along):
            f = f.proximal(0.2, tree.scale(0.5, w)).tilted(tree.scale(0.1, w))
            ends = f(tree.axpy(h, along, w)), f(tree.axpy(-h, along, w))
            return tree.dot(jax.grad(f)(w), along), (ends[0] - ends[1]) / (2 * h)

        f, w = client(kind)
        random = np.random.default_rng(3)
        along = jax.tree.map(lambda x: random.normal(size=x.shape), w)
        np.testing.assert_allclose(*slopes(f, w, along), rtol=1e-7, atol=1e-8)

    @pytest.mark.parametrize("name", FAMILIES)
    def test_family_is_consistent(self, name):
        """mean = ∇A, curvature = ∇²A, and the smoothness bounds it; JAX finds the same."""
        family = FAMILIES[name]
        random = np.random.default_rng(4)
        k = 3 if name == "softmax" else 1
        z, v = (random.normal(size=(6, k)) for _ in range(2))
        y = np.eye(3)[np.arange(6) % 3] if k == 3 else np.ones((6, 1))

        @jax.jit
        def derivatives(z, v):
            g, hv = jax.jvp(jax.grad(lambda z: jnp.sum(family.value(z, y))), (z,), (v,))
            p, by_jax = family.point(z), AbstractFamily.gradient(family, z, y)
            return g, hv, family.mean(z), family.curvature(p, y, v), family.gradient(p, y), by_jax

        g, hv, mean, curvature, gradient, by_jax = derivatives(z, v)
        np.testing.assert_allclose(g, mean - y, atol=1e-14)
        np.testing.assert_allclose(hv, curvature, atol=1e-14)
        np.testing.assert_allclose(g, gradient, atol=1e-14)
        np.testing.assert_allclose(g, by_jax, atol=1e-14)
        assert np.all(np.sum(v * hv, 1) <= family.smoothness * np.sum(v * v, 1) + 1e-14)


class TestAlgebra:
    @pytest.mark.parametrize("kind", sliced(KINDS, ("softmax", "mlp", "quadratic")))
    def test_tilted_and_proximal(self, kind):
        """f(w) - <y, w> and f(w) + (m/2)|w - c|² - (m/2)|c|², also one after the other."""
        m = 0.4

        @eqx.filter_jit
        def changed(f, w):
            y, c = tree.scale(0.3, w), tree.scale(1.7, w)
            tilted, near = f.tilted(y), f.proximal(m, c)
            assert type(near.tilted(y)) is type(f)
            found = tilted(w), near(w), tilted.proximal(m, c).tilted(y)(w)
            away, down = tree.sub(w, c), tree.dot(y, w)
            pull = m / 2 * (tree.dot(away, away) - tree.dot(c, c))
            expected = f(w) - down, f(w) + pull, f(w) + pull - 2 * down
            bounds = [(g.alpha, g.beta) for g in (f, tilted, near)]
            return found, expected, bounds

        found, expected, (given, tilted, near) = changed(*client(kind))
        np.testing.assert_allclose(found, expected, rtol=1e-13)
        np.testing.assert_allclose(near[0], given[0] + m, rtol=1e-13)
        if np.isfinite(given[1]):
            np.testing.assert_allclose(near[1], given[1] + m, rtol=1e-13)
        assert tilted[0] == given[0]

    def test_normalised_divides_the_loss_by_the_row_weights(self):
        f, w = client("ridge")
        heavy = eqx.tree_at(lambda f: f.s, f, 3 * f.s)
        n = heavy.normalised()
        np.testing.assert_allclose(heavy.weight, 3.0, rtol=1e-14)
        np.testing.assert_allclose(n.loss(w), f.loss(w), rtol=1e-13)
        np.testing.assert_allclose(n(w) - n.loss(w), 0.15 * jnp.sum(w * w), rtol=1e-12)
        np.testing.assert_allclose(n.loss_beta, heavy.loss_beta / 3, rtol=1e-14)


class TestRows:
    @pytest.mark.parametrize(
        ("kind", "sparse"),
        sliced(
            product(("softmax", "poisson"), (False, True)), [("softmax", True), ("poisson", False)]
        ),
    )
    def test_batches_are_unbiased(self, kind, sparse):
        """The mean over all batches of one row is f, padding left out; so are two halves."""
        f, w = client(kind, i=0, sparse=sparse)
        n = SIZES[0]
        singles = [on_rows(f, np.array([j]), w) for j in range(n)]
        np.testing.assert_allclose(np.mean(singles), value(f, w), rtol=1e-13)
        everything = on_rows(f, np.arange(n)[::-1], w)
        np.testing.assert_allclose(everything, value(f, w), rtol=1e-13)

    def test_rows_out_of_range_are_absent(self):
        f, w = client("softmax", i=1)
        end = f.Y.shape[0]
        some = on_rows(f, np.array([2, 5]), w)
        filled = on_rows(f, np.array([2, 5, end, end]), w)
        np.testing.assert_allclose(filled, some, rtol=1e-13)

    def test_padding_counts_for_nothing(self):
        f, w = clients("logistic")
        X, (y, s) = blocks()[2], (np.asarray(f.Y)[2, :3, 0], np.asarray(f.s)[2])
        assert np.all(s[3:] == 0)
        z = X @ np.asarray(w)[:, 0]
        mine = np.mean(np.logaddexp(0, z) - y * z) + 0.15 * np.sum(np.asarray(w) ** 2)
        np.testing.assert_allclose(values(f, w)[2], mine, rtol=1e-13)
        assert f.rows.tolist() == list(SIZES)


@eqx.filter_jit
def some_rows(X, rows, R, fewer):
    """Some rows as a matrix, their product with R, and some of them again."""
    some, unit = X.take(rows), jnp.eye(D)
    return some.matmul(unit), some.rmatmul(R), some.take(fewer).matmul(unit)


class TestSparse:
    @pytest.fixture(scope="class")
    @classmethod
    def designs(cls):
        with jax.enable_x64(True):
            return stack(blocks(), np.float64), stack(blocks(sparse=True), np.float64)

    @pytest.mark.parametrize("i", range(3))
    def test_products(self, designs, i):
        dense, sparse = (take(X, jnp.asarray(i)) for X in designs)
        random = np.random.default_rng(5)
        W, R = random.normal(size=(D, 2)), random.normal(size=(max(SIZES), 2))
        padded = np.zeros((max(SIZES), D))
        padded[: SIZES[i]] = blocks()[i]
        for X in (dense, sparse):
            assert X.shape == (max(SIZES), D)
            forth, back, added = products(X, W, R)
            np.testing.assert_allclose(forth, padded @ W, atol=1e-14)
            np.testing.assert_allclose(back, padded.T @ R, atol=1e-14)
            np.testing.assert_allclose(added, W - 2 * padded.T @ R, atol=1e-13)

    @pytest.mark.parametrize("i", range(3))
    def test_some_rows(self, designs, i):
        """In any order, with repetition; out of range is zero. And some of those again."""
        dense, sparse = (take(X, jnp.asarray(i)) for X in designs)
        rows = np.array([2, 0, 2, max(SIZES), 4])
        padded = np.zeros((max(SIZES) + 1, D))
        padded[: SIZES[i]] = blocks()[i]
        expected = padded[rows]
        R = np.random.default_rng(6).normal(size=(5, 2))
        for X in (dense, sparse):
            some, back, again = some_rows(X, rows, R, np.array([1, 4, 9]))
            np.testing.assert_allclose(some, expected, atol=1e-15)
            np.testing.assert_allclose(back, expected.T @ R, atol=1e-14)
            np.testing.assert_allclose(again, [expected[1], expected[4], np.zeros(D)], atol=1e-15)

    @pytest.mark.parametrize("backend", ["cpu", "gpu"])
    def test_rows_of_any_length(self, backend, monkeypatch):
        """Empty ones, and such as take several runs; summed as on a CPU and as elsewhere."""
        monkeypatch.setattr(jax, "default_backend", lambda: backend)
        random = np.random.default_rng(8)
        lengths = [[0, 1, 8, 40, 0], [9, 16, 17]]
        X = [np.zeros((len(m), 50)) for m in lengths]
        for x, row in zip(X, lengths, strict=True):
            for i, m in enumerate(row):
                x[i, random.permutation(50)[:m]] = random.normal(size=m)
        design = stack([scipy.sparse.csr_array(x) for x in X], np.float64)
        W, R = random.normal(size=(50, 2)), random.normal(size=(5, 2))

        @eqx.filter_jit  # a function of its own, traced for this backend
        def each(design, W, R):
            one = lambda X: (X.matmul(W), X.rmatmul(R), X.take(jnp.arange(5)).matmul(W))
            return jax.vmap(one)(design)

        for x, (forth, back, some) in zip(X, zip(*each(design, W, R), strict=True), strict=True):
            padded = np.pad(x, ((0, 5 - len(x)), (0, 0)))
            np.testing.assert_allclose(forth, padded @ W, atol=1e-13)
            np.testing.assert_allclose(back, padded.T @ R, atol=1e-13)
            np.testing.assert_allclose(some, padded @ W, atol=1e-13)

    def test_gram(self, designs):
        dense, sparse = designs
        np.testing.assert_allclose(gram(sparse), gram(dense), atol=1e-14)
        np.testing.assert_allclose(
            np.asarray(gram(dense))[1, : SIZES[1], : SIZES[1]],
            blocks()[1] @ blocks()[1].T,
            atol=1e-14,
        )

    @pytest.mark.parametrize("kind", FAMILIES)
    def test_same_objective_and_bounds(self, kind):
        (f, w), (g, _) = clients(kind), clients(kind, sparse=True)
        np.testing.assert_allclose(values(f, w), values(g, w), rtol=1e-13)
        np.testing.assert_allclose(f.beta, g.beta, rtol=1e-13)


class TestCurvature:
    def test_quadratics_know_it_exactly(self):
        f = random_quadratics(6, D, alpha=0.1, beta=4.0, spread=30.0, seed=1)
        values = np.linalg.eigvalsh(np.asarray(f.A))
        np.testing.assert_allclose(f.alpha, 0.1 * np.geomspace(1, 30, 6), rtol=1e-12)
        np.testing.assert_allclose(f.alpha, values[:, 0], rtol=1e-12)
        np.testing.assert_allclose(f.beta, 4.0, rtol=1e-12)
        g = Quadratic(f.A, f.b).proximal(0.5, jnp.zeros((6, D)))
        np.testing.assert_allclose(g.alpha, values[:, 0] + 0.5, rtol=1e-12)
        np.testing.assert_allclose(g.beta, values[:, -1] + 0.5, rtol=1e-12)

    @pytest.mark.parametrize(
        "kind", sliced((*FAMILIES, "quadratic"), ("softmax", "poisson", "quadratic"))
    )
    @pytest.mark.parametrize("i", [0, 2])
    def test_power_iteration(self, kind, i):
        """Between 0.9 of λ_max and λ_max, which is at most the bound β; λ_min is at least α."""
        f, w = client(kind, i)
        found = np.linalg.eigvalsh(hessian(f, w))
        for seed in range(3):
            estimate = float(power(f, w, jax.random.key(seed)))
            assert 0.9 * found[-1] <= estimate <= found[-1] * (1 + 1e-12)
            assert estimate <= float(f.beta) * (1 + 1e-12)
        assert found[-1] <= float(f.beta) * (1 + 1e-12)
        assert found[0] >= float(f.alpha) - 1e-12

    def test_no_bound_where_there_is_none(self):
        for kind in ("poisson", "mlp"):
            assert np.all(np.isinf(clients(kind)[0].beta))
        assert clients("mlp")[0].convex is False
        assert clients("softmax")[0].convex is True


class TestMLP:
    def test_widths_and_biases(self):
        shapes = lambda params: jax.tree.map(lambda x: x.shape, params)
        key = jax.random.key(0)
        plain = mlp_params((6, 64, 32, 3), key, jnp.float64)
        assert shapes(plain) == (((6, 64),), ((64, 32),), ((32, 3),))
        biased = mlp_params((6, 8, 3), key, jnp.float64, bias=True)
        assert shapes(biased) == (((6, 8), (8,)), ((8, 3), (3,)))
        assert np.all(biased[0][1] == 0)
        np.testing.assert_allclose(jnp.std(plain[1][0]), np.sqrt(2 / 64), rtol=0.1)
        assert not np.array_equal(plain[0][0][:3, :3], plain[2][0][:3, :3])

    def test_prediction(self):
        """ReLU between the layers, none after the last."""
        random = np.random.default_rng(7)
        f, _ = client("mlp")
        layers = [(random.normal(size=(D, 4)), random.normal(size=4)),
                  (random.normal(size=(4, 3)), random.normal(size=3))]  # fmt: skip
        params = jax.tree.map(jnp.asarray, tuple(map(tuple, layers)))
        X = blocks()[1]
        z = np.maximum(X @ layers[0][0] + layers[0][1], 0) @ layers[1][0] + layers[1][1]
        np.testing.assert_allclose(f.predict(f.X, params)[: len(X)], z, atol=1e-13)
        plain = tuple((W,) for W, _ in params)
        z = np.maximum(X @ layers[0][0], 0) @ layers[1][0]
        np.testing.assert_allclose(f.predict(f.X, plain)[: len(X)], z, atol=1e-13)
        assert isinstance(f, MLP)

    def test_model_name_sets_the_widths(self):
        X, y = np.random.default_rng(0).normal(size=(20, D)), np.arange(20.0) % 2
        parts = np.split(np.arange(20), 2)
        w = federate(Dataset("made", X, y), parts, model="mlp:8x4").w
        assert jax.tree.map(lambda x: x.shape, w) == (((D, 8),), ((8, 4),), ((4, 2),))


class TestWorstCaseChain:
    N, LENGTH, ALPHA, BETA = 3, 10, 0.1, 2.0

    def test_structure(self):
        """sum_i A_i is c times the second difference plus N α; client i mod N alone couples
        coordinates i and i+1; only the first has a source."""
        f = worst_case_chain(self.N, self.LENGTH, alpha=self.ALPHA, beta=self.BETA)
        c = (self.BETA - self.N * self.ALPHA) / 4
        A = np.asarray(f.A)
        second = 2 * np.eye(self.LENGTH) - np.eye(self.LENGTH, k=1) - np.eye(self.LENGTH, k=-1)
        second[-1, -1] = 1
        whole = c * second + self.N * self.ALPHA * np.eye(self.LENGTH)
        np.testing.assert_allclose(A.sum(0), whole, atol=1e-14)
        for i in range(self.LENGTH - 1):
            coupled = np.flatnonzero(A[:, i, i + 1])
            assert coupled.tolist() == [i % self.N]
        assert np.count_nonzero(f.b) == 1
        np.testing.assert_allclose(f.b[0, 0], c, rtol=1e-14)

    def test_curvature_is_within_its_bounds(self):
        f = worst_case_chain(self.N, self.LENGTH, alpha=self.ALPHA, beta=self.BETA)
        np.testing.assert_allclose(f.alpha, self.ALPHA, rtol=1e-10)
        assert np.all(f.beta <= self.BETA)

    def test_optimum_solves_it(self):
        f = worst_case_chain(self.N, self.LENGTH, alpha=self.ALPHA, beta=self.BETA)
        w = optimum(f)
        slopes = jax.jit(jax.vmap(jax.grad(lambda w, f: f(w)), (None, 0)))(w, f)
        np.testing.assert_allclose(np.sum(slopes, 0), 0, atol=1e-14)

    @pytest.mark.parametrize(("alpha", "beta"), [(1.0, 2.9), (1.0, 3.0), (0.0, 1.0), (-1.0, 1.0)])
    def test_needs_a_large_enough_beta(self, alpha, beta):
        message = (
            f"the worst-case chain needs beta > N alpha > 0, got alpha={alpha}, beta={beta}, N=3"
        )
        with pytest.raises(ValueError, match=message):
            worst_case_chain(3, 10, alpha=alpha, beta=beta)
