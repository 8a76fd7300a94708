"""Every solver on every kind of problem: the optimum, an honest gradient norm, no surprises."""

from functools import cache, partial
from itertools import product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.optimize
import scipy.sparse
from threadpoolctl import threadpool_info

from feddcd import _memory, tree
from feddcd.data import Dataset
from feddcd.data.federate import federate
from feddcd.problems import (
    FAMILIES,
    MLP,
    AbstractProblem,
    Linear,
    Quadratic,
    mlp_params,
    random_quadratics,
    stack,
)
from feddcd.solvers import (
    LBFGS,
    SAGA,
    SGD,
    SOLVERS,
    SVRG,
    AbstractStop,
    GradientDescent,
    InexactOracle,
    LocalSolution,
    NewtonCG,
    Optax,
    Tolerance,
    _epochs,
    _sample_space,
    adam,
    newton,
)
from feddcd.solvers._epochs import shuffle_rows
from feddcd.solvers._sample_space import solve_in_samples
from slices import sliced

ROWS, D = (9, 14, 5), 6  # three clients of unequal size, so all but one have padding
COLUMNS = {"softmax": 3, "logistic": 1, "ridge": 2, "poisson": 1}
KEY = 0


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


# compiling takes far longer here than running: ask for the quickest code, not the best
quick = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}
jit = partial(eqx.filter_jit, compiler_options=quick)
NUMBERS = {
    "lr": np.float64,
    "stop": np.float64,
    "epochs": np.int32,
    "max_epochs": np.int32,
    "steps": np.int32,
}
known = jit(lambda f, w: jax.value_and_grad(f)(w))
hessian = jit(lambda f, w: jax.hessian(f)(w))
batch_gradient = jit(lambda f, rows, w: jax.grad(f.batch(rows))(w))
order = jit(shuffle_rows)


@jit
def compiled(solver, f, w, key):
    return solver(f, w, key)


def solve(solver, f, w, key):
    return compiled(flexible(solver), f, w, key)


def flexible(solver):
    """With its numbers as arrays, so that solvers that differ in them alone share a program."""
    for name, kind in NUMBERS.items():
        if getattr(solver, name, None) is not None:
            floats = lambda s, name=name: jax.tree.leaves(getattr(s, name))
            solver = eqx.tree_at(floats, solver, replace_fn=kind)
    return solver


def clients(family, *, sparse=False, mu=0.1, scale=1.0, rows=ROWS, dtype=np.float64) -> Linear:
    """Stacked clients with unequal row weights; the sparse ones hold the same numbers."""
    random = np.random.default_rng(7)
    k = COLUMNS[family]
    blocks, n = [], max(rows)
    Y, s = np.zeros((len(rows), n, k), dtype), np.zeros((len(rows), n), dtype)
    for i, m in enumerate(rows):
        X = random.normal(size=(m, D)) * (random.uniform(size=(m, D)) < 0.5) * scale
        blocks.append(scipy.sparse.csr_array(X) if sparse else X)
        s[i, :m] = random.uniform(0.5, 1.5, m) / m
        Y[i, :m] = labels(family, random, m, k)
    X, link = stack(blocks, dtype), FAMILIES[family]
    norms = np.array(
        [(s_i[: b.shape[0]] * (b * b).sum(1)).sum() for s_i, b in zip(s, blocks, strict=True)]
    )
    beta = (link.smoothness * norms).astype(dtype)
    full = np.full(len(rows), mu, dtype)
    Y, s, *rest = map(jax.device_put, (Y, s, full, np.array(rows), 0 * full, beta))
    return Linear(X, Y, s, link, *rest)


def labels(family, random, m, k):
    if family == "softmax":
        return np.eye(k)[random.integers(k, size=m)]
    if family == "logistic":
        return random.integers(2, size=(m, k))
    return random.poisson(2.0, (m, k)) if family == "poisson" else random.normal(size=(m, k))


def client(f: AbstractProblem, i: int) -> AbstractProblem:
    return jax.tree.map(lambda x: jax.device_put(np.asarray(x)[i]), f)


def perceptron() -> MLP:
    f = clients("softmax")
    inf = jnp.full(len(ROWS), jnp.inf)
    return MLP(f.X, f.Y, f.s, f.family, f.mu, f.rows, 0 * f.mu, inf)


def somewhere(family, seed=1, dtype=np.float64):
    numbers = np.random.default_rng(seed).normal(size=(D, COLUMNS[family]))
    return jax.device_put(numbers.astype(dtype))


def tilts(family):
    return jax.device_put(np.stack([0.1 * np.asarray(somewhere(family, i)) for i in range(3)]))


@cache
def problem(name: str) -> AbstractProblem:
    """The second client of each kind: softmax plain, the others tilted, proximal or both."""
    if name == "quadratic":
        return client(random_quadratics(2, D, alpha=0.2, beta=1.0), 1)
    family, *sparse = name.split("-")
    f = client(prepared(family, bool(sparse)), 0)
    u, v = somewhere(family, 3), somewhere(family, 4)
    if family == "logistic":
        return f.tilted(0.1 * u)
    if family == "ridge":
        return f.proximal(0.3, u)
    return f.proximal(0.2, u).tilted(0.1 * v) if family == "poisson" else f


@cache
def prepared(family: str, sparse: bool = False, mu: float = 0.1) -> Linear:
    return NewtonCG(space="samples", rank=2).prepare(clients(family, sparse=sparse, mu=mu))


def begin(name: str):
    if name == "quadratic":
        return jnp.ones(D)
    return 0.5 * somewhere(name.split("-")[0], 5)


@cache
def reference(name: str) -> np.ndarray:
    """The optimum by scipy's trust region, with our gradients and Hessians only."""
    f, w0 = problem(name), begin(name)
    unflat = lambda x: jax.device_put(x.reshape(w0.shape))
    bend = lambda x: np.reshape(hessian(f, unflat(x)), (w0.size, w0.size))
    both = lambda x: [np.ravel(a) for a in known(f, unflat(x))]
    found = scipy.optimize.minimize(
        lambda x: (both(x)[0][0], both(x)[1]),
        np.zeros(w0.size),
        jac=True,
        hess=bend,
        method="trust-exact",
        tol=1e-10,
    )
    x = found.x - np.linalg.solve(bend(found.x), both(found.x)[1])
    return x.reshape(w0.shape)


PROBLEMS = ["softmax", "softmax-sparse", "logistic", "ridge", "poisson", "quadratic"]


class Either(AbstractStop):
    """Whichever of the two asks for less, so that one program serves both."""

    tolerance: Tolerance
    oracle: InexactOracle

    def __call__(self, f, given):
        return jnp.maximum(self.tolerance(f, given), self.oracle(f, given))


def within(tol: float, delta: float = 1e-300) -> Either:
    return Either(Tolerance(tol), InexactOracle(delta))


TIGHT, NEVER = within(1e-8), within(0.0)
EXACT = {
    "newton": NewtonCG(within(1e-9), space="parameters"),
    "newton-samples": NewtonCG(within(1e-9)),
    "gd": GradientDescent(steps=5000, stop=TIGHT),
    "lbfgs": LBFGS(within(1e-9)),
    "svrg": SVRG(stop=TIGHT, batch_size=2),
    "saga": SAGA(stop=TIGHT),
}
ROUGH = {
    "gd": GradientDescent(steps=7, stop=NEVER),
    "sgd": SGD(lr=0.05, epochs=2, batch_size=4),
    "adam": adam(0.01, epochs=2, batch_size=4),
    "svrg": SVRG(stop=NEVER, max_epochs=2, batch_size=2),
    "saga": SAGA(stop=NEVER, max_epochs=2),
}


def suited(solver, name: str):
    """Poisson has no β, so its step must be given."""
    if not name.startswith("poisson") or getattr(solver, "lr", 0) is not None:
        return solver
    return eqx.tree_at(lambda s: s.lr, solver, 0.02, is_leaf=lambda x: x is None)


def value(f: AbstractProblem, w) -> float:
    return float(known(f, w)[0])


def slope(f: AbstractProblem, w) -> float:
    """|∇f(w)|."""
    return float(np.sqrt(sum(np.sum(np.square(g)) for g in jax.tree.leaves(known(f, w)[1]))))


def check_honest(f: AbstractProblem, out: LocalSolution):
    assert np.isclose(float(out.grad_norm), slope(f, out.w), rtol=1e-6, atol=1e-14)
    assert all(np.all(np.isfinite(x)) for x in jax.tree.leaves(out.w))


# sparse rows matter to those that take some of them, quadratics have none
TABLE = [
    (solver, name)
    for solver, name in product(EXACT, PROBLEMS)
    if solver in {"softmax-sparse": ("newton-samples", "svrg", "saga")}.get(name, EXACT)
    and (solver, name) not in {("saga", "quadratic"), ("newton-samples", "quadratic")}
]


# make chaos alone: families differ in what every solver asks of them alike, and another solver
# asks here; programs of logistic serve the tests below as well
REPEATS = {
    *(("newton", name) for name in ("softmax", "ridge", "poisson", "quadratic")),
    *(("newton-samples", name) for name in ("softmax", "ridge", "poisson")),
    *(("gd", name) for name in ("poisson", "quadratic")),
    *(("lbfgs", name) for name in ("softmax", "logistic", "ridge", "quadratic")),
    *(("svrg", name) for name in ("softmax", "softmax-sparse", "ridge", "poisson", "quadratic")),
    *(("saga", name) for name in ("softmax", "ridge", "poisson")),
}


@pytest.mark.parametrize(("solver", "name"), sliced(TABLE, set(TABLE) - REPEATS))
def test_reaches_the_optimum(solver, name):
    f, w = problem(name), begin(name)
    out = solve(suited(EXACT[solver], name), f, w, jax.random.key(KEY))
    check_honest(f, out)
    assert out.grad_norm <= 1e-8
    alpha = float(f.loss_alpha) + float(f.mu)
    assert np.linalg.norm(out.w - reference(name)) <= out.grad_norm / alpha + 1e-9
    assert out.steps > 0


ROUGHLY = [*product(("gd", "sgd", "adam"), PROBLEMS)]
ALIKE = {
    *(("gd", name) for name in ("softmax-sparse", "poisson")),
    *(("sgd", name) for name in ("ridge", "poisson", "quadratic")),
    *(("adam", name) for name in ("softmax", "softmax-sparse", "logistic", "poisson", "quadratic")),
}


@pytest.mark.parametrize(("solver", "name"), sliced(ROUGHLY, set(ROUGHLY) - ALIKE))
def test_honest_and_better_than_before(solver, name):
    f, w = problem(name), begin(name)
    out = solve(suited(ROUGH[solver], name), f, w, jax.random.key(KEY))
    check_honest(f, out)
    assert value(f, out.w) < value(f, w)


@pytest.mark.parametrize("solver", sliced((*ROUGH, "newton-samples"), ("sgd",)))
def test_sparse_equals_dense(solver):
    tried = {**EXACT, **ROUGH}[solver]
    dense, sparse = (
        solve(tried, problem(name), begin(name), jax.random.key(KEY))
        for name in ("softmax", "softmax-sparse")
    )
    np.testing.assert_allclose(dense.w, sparse.w, rtol=1e-10, atol=1e-12)
    assert dense.steps == sparse.steps or solver == "newton-samples"


MODELS = {
    "newton": NewtonCG(max_steps=5),
    "lbfgs": LBFGS(max_steps=5),
    "gd": GradientDescent(lr=0.1, steps=5),
    "sgd": SGD(lr=0.1, batch_size=4),
    "adam": adam(0.01, batch_size=4),
    "svrg": SVRG(lr=0.05, batch_size=4),
}


@pytest.mark.parametrize("solver", sliced(MODELS, ("newton",)))
def test_perceptron(solver):
    f = client(perceptron(), 0)
    w = mlp_params((D, 4, 3), jax.random.key(0), jnp.float64, bias=True)
    out = solve(MODELS[solver], f, w, jax.random.key(KEY))
    check_honest(f, out)
    assert value(f, out.w) < value(f, w)


OFTEN = [solver for solver in EXACT if solver != "lbfgs"]  # whose program of logistic is its own


@pytest.mark.parametrize("solver", sliced(EXACT, OFTEN))
def test_inexact_oracle(solver):
    f, w, best = problem("logistic"), begin("logistic"), reference("logistic")
    tried = eqx.tree_at(lambda s: s.stop, EXACT[solver], within(0.0, 0.3))
    out = solve(tried, f, w, jax.random.key(KEY))
    check_honest(f, out)
    alpha, beta = (float(f.mu + bound) for bound in (f.loss_alpha, f.loss_beta))
    assert out.grad_norm <= 0.3**0.5 * alpha / beta * slope(f, w)
    assert np.sum((out.w - best) ** 2) <= 0.3 * np.sum((w - best) ** 2)


@pytest.mark.parametrize("solver", sliced(EXACT, OFTEN))
def test_warm_start_is_kept(solver):
    f, best = problem("logistic"), jax.device_put(reference("logistic"))
    out = solve(EXACT[solver], f, best, jax.random.key(KEY))
    assert out.steps <= 3
    assert out.grad_norm <= 1e-9
    np.testing.assert_allclose(out.w, best, atol=1e-8)


@pytest.mark.parametrize("family", sliced(("softmax", "logistic", "ridge"), ("logistic",)))
def test_sample_space_equals_parameter_space(family):
    f = prepared(family).tilted(tilts(family))
    w = somewhere(family)
    for i in range(3):
        fi = client(f, i)
        here, there = (
            solve(EXACT[name], fi, w, jax.random.key(KEY)) for name in ("newton-samples", "newton")
        )
        check_honest(fi, here)
        np.testing.assert_allclose(here.w, there.w, rtol=1e-7, atol=1e-7)
    assert not np.any(np.isnan(f.gram.G))


def test_sample_space_with_fewer_rows_than_rank():
    """μ is small enough here for Ritz pairs, and two of the first client's three are null."""
    f = NewtonCG(space="samples", rank=50).prepare(clients("logistic", mu=1e-4, rows=(1, 14)))
    fi, w = client(f, 0), somewhere("logistic")
    assert f.gram.values.shape == (2, 3)
    found, solved = jit(solve_in_samples)(fi, fi.gram, w, jnp.array(1e-9), 50)
    assert found.steps > 0
    assert slope(fi, found.w) <= (1e-9 if solved else 1e-8)


@pytest.mark.parametrize("mu", [1e-8, 1e-4, 1e-2])
@pytest.mark.parametrize("far", [1.0, 1e4, 1e8])
def test_what_the_sample_space_calls_solved_is_solved(mu, far):
    """Also where w and q are so large that rounding is all that is left of the gradient."""
    f = client(NewtonCG(space="samples").prepare(clients("logistic", mu=mu)), 0)
    w, calls = somewhere("logistic"), jit(solve_in_samples)
    for tol in (1e-12, 1e-9, 1e-6, 1e-3):
        fi = f.tilted(jax.device_put(far * mu * np.asarray(somewhere("logistic", 3))))
        found, solved = calls(fi, fi.gram, far * w, jnp.array(tol), 50)
        assert not solved or slope(fi, found.w) <= tol
        if far == 1.0 and mu >= 1e-4 and tol >= 1e-6:
            assert solved, "else every round would compute one more gradient"


@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e5])
def test_half_precision_changes_no_solution(monkeypatch, scale):
    """As on an accelerator; the numbers of G may be far from what half precision can hold."""
    monkeypatch.setattr(newton, "on_cpu", lambda: False)
    monkeypatch.setattr(_sample_space, "on_cpu", lambda: False)
    f = NewtonCG(space="samples").prepare(clients("logistic", mu=0.01 * scale**2, scale=scale))
    fi, w = client(f, 0), somewhere("logistic") / scale
    assert f.gram.rough.dtype == np.float16
    found, solved = jit(solve_in_samples)(fi, fi.gram, w, jnp.array(1e-9 * scale), 50)
    assert solved
    assert slope(fi, found.w) <= 1e-9 * scale
    exact = NewtonCG(Tolerance(1e-9 * scale), space="parameters")(fi, w, jax.random.key(KEY))
    np.testing.assert_allclose(found.w, exact.w, rtol=1e-5)


def test_half_precision_is_not_taken_where_rounding_would_decide(monkeypatch):
    monkeypatch.setattr(newton, "on_cpu", lambda: False)
    kinds = [
        NewtonCG(space="samples").prepare(clients("logistic", mu=mu)).gram.rough.dtype
        for mu in (1.0, 1e-6)
    ]
    assert kinds == [np.float16, np.float32]
    nothing = newton.plain_gram(clients("logistic", scale=0.0), half=True)
    assert np.isfinite(nothing.rough).all(), "rows of zeros"


def test_set_up_factorises_with_one_thread_and_waits_for_it(monkeypatch):
    """With several, MNIST took a minute on a busy machine; unfinished work counted as compiling."""
    threads, real = [], newton._ritz_pairs

    def watched(*args):
        threads.extend(pool["num_threads"] for pool in threadpool_info())
        return real(*args)

    monkeypatch.setattr(newton, "_ritz_pairs", watched)
    f = NewtonCG(space="samples", rank=50).prepare(clients("logistic", mu=1e-4, rows=(1, 14)))
    assert threads
    assert set(threads) == {1}
    assert all(leaf.is_ready() for leaf in (f.gram.vectors, f.gram.values))


def test_gram_matrices_are_made_only_where_they_fit(monkeypatch):
    f = clients("logistic", rows=(1, 14))
    monkeypatch.setattr(newton, "free_memory", lambda: 100)
    monkeypatch.setattr(_memory, "free_memory", lambda: 100)
    assert NewtonCG().prepare(f).gram is None
    with pytest.raises(
        ValueError, match=r"Gram matrices of 2 clients with up to 14 rows each need"
    ):
        NewtonCG(space="samples").prepare(f)


def test_what_is_refused():
    with pytest.raises(ValueError, match="needs l2 > 0"):
        NewtonCG(space="samples").prepare(clients("ridge", mu=0.0))
    with pytest.raises(ValueError, match="0 < delta < 1"):
        InexactOracle(1.0)
    with pytest.raises(ValueError, match="batch_size must be >= 1"):
        SGD(batch_size=0)
    for solver in (SGD(), GradientDescent(), SVRG()):
        with pytest.raises(ValueError, match="give lr"):
            solver.prepare(perceptron())
    for solver in (SAGA(), SAGA(lr=0.1)):
        with pytest.raises(TypeError, match="Quadratic"):
            solver(problem("quadratic"), jnp.ones(D), jax.random.key(KEY))
    assert SGD(lr=0.1).prepare(perceptron()).rows.shape == (3,)
    assert list(SOLVERS) == ["newton", "gd", "lbfgs", "sgd", "adam", "svrg", "saga"]


# mu tiny against q: w* is near q/mu = 1e8, and every p there is 0 or 1 to rounding
@pytest.mark.parametrize("solver", sliced(EXACT, set(OFTEN) - {"newton-samples"}))
@pytest.mark.parametrize("start", [0.0, 1e3])
def test_saturated(solver, start):
    q = np.asarray(somewhere("logistic", 3))
    f = client(prepared("logistic", mu=1e-8), 0)
    if solver != "newton-samples":  # without Ritz pairs, as in the table, and so the same program
        f = eqx.tree_at(lambda f: f.mu, client(prepared("logistic"), 0), f.mu)
    f = f.tilted(jax.device_put(q / np.linalg.norm(q)))
    w = start * somewhere("logistic", 2)
    out = solve(EXACT[solver], f, w, jax.random.key(KEY))
    check_honest(f, out)
    assert value(f, out.w) <= value(f, w)
    if solver.startswith("newton"):
        assert out.grad_norm <= 1e-9


def plain_sgd(f: Linear, w, key, lr: float, epochs: int, batch_size: int):
    """The same rows in the same order, one dense step at a time."""
    for e in range(epochs):
        rows = np.asarray(order(f, batch_size, jax.random.fold_in(key, e)))
        for i in range(-(-int(f.rows) // batch_size)):
            w = w - lr * np.asarray(batch_gradient(f, jax.device_put(rows[i]), w))
    return w


# ημ from 0 through 1 (where c would vanish) to beyond: the last three write W out every step
@pytest.mark.parametrize("mu", [0.0, 0.1, 9.0, 9.9999, 10.0, 15.0])
@pytest.mark.parametrize("tilt", sliced((False, True), (True,)))
def test_lazy_sgd_equals_plain_sgd(mu, tilt):
    f = client(clients("softmax", sparse=True, mu=mu), 1)
    f = f.tilted(0.3 * somewhere("softmax", 3)) if tilt else f
    w, key = somewhere("softmax"), jax.random.key(KEY)
    out = solve(SGD(lr=0.1, epochs=3, batch_size=4), f, w, key)
    np.testing.assert_allclose(out.w, plain_sgd(f, w, key, 0.1, 3, 4), rtol=1e-11, atol=1e-13)
    assert out.steps == 3 * 4


def test_strong_decay_over_a_long_epoch():
    """(1 - ημ)^n = 10^-600 would underflow were W never written out."""
    f = client(clients("ridge", mu=9.9, rows=(300,)), 0)
    w, key = somewhere("ridge"), jax.random.key(KEY)
    out = solve(SGD(lr=0.1, batch_size=1), f, w, key)
    np.testing.assert_allclose(out.w, plain_sgd(f, w, key, 0.1, 1, 1), rtol=1e-11)


def test_an_epoch_visits_every_real_row_once():
    """On X = I, w_j moves by lr m s_j y_j / |batch| when row j is visited, and only then."""
    n, m = 14, 11
    f = eqx.tree_at(lambda f: f.X, clients("ridge", rows=(n,), mu=0.0), stack([np.eye(n)], float))
    f = eqx.tree_at(lambda f: (f.rows, f.Y), f, (np.array([m]), np.ones(f.Y.shape)))
    f = client(f, 0)
    out = solve(SGD(lr=0.1, batch_size=4), f, jnp.zeros((n, 2)), jax.random.key(KEY))
    visits = np.asarray(out.w) / (0.1 * m * np.asarray(f.s)[:, None])
    assert out.steps == 3
    np.testing.assert_allclose(np.sort(visits[:m, 0]), [1 / 4] * 8 + [1 / 3] * 3)
    assert not np.any(out.w[m:])


@pytest.mark.parametrize("solver", sliced(("sgd", "adam", "svrg", "saga"), ("sgd", "saga")))
def test_the_key_decides(solver):
    f, w = problem("ridge"), begin("ridge")
    tried = SGD(0.02, 2, 4, stop=NEVER) if solver == "sgd" else ROUGH[solver]  # as below
    first, again, other = (solve(tried, f, w, jax.random.key(i)) for i in (1, 1, 2))
    check_honest(f, first)
    assert value(f, first.w) < value(f, w)
    assert np.array_equal(first.w, again.w)
    assert not np.array_equal(first.w, other.w)


def test_checks_before_the_first_epoch_and_once_an_epoch():
    f, w = problem("ridge"), begin("ridge")
    easy = within(1e6)
    svrg, saga = SVRG(stop=easy, batch_size=2), SAGA(stop=easy)
    for solver in (SGD(0.02, 500, 4, stop=easy), svrg, saga, adam(stop=easy)):
        out = solve(solver, f, w, jax.random.key(KEY))
        assert out.steps == 0
        assert np.array_equal(out.w, w)
    half = slope(f, w) / 2
    out = solve(SGD(0.02, 500, 4, stop=within(half)), f, w, jax.random.key(KEY))
    assert 0 < out.steps < 500
    assert out.grad_norm <= half


@jit
def mapped(solver, f, w, keys):
    return jax.lax.map(lambda a: solver(a[0], w, a[1]), (f, keys))


@jit
def vectorised(solver, f, w, keys):
    return jax.vmap(lambda fi, key: solver(fi, w, key))(f, keys)


@pytest.mark.parametrize(
    "solver", sliced(("sgd", "svrg", "saga", "newton-samples", "lbfgs"), ("sgd",))
)
def test_unequal_clients_together_or_alone(solver):
    f, w = prepared("logistic").tilted(tilts("logistic")), begin("logistic")
    tried = flexible({**EXACT, **ROUGH}[solver])
    keys = jax.random.split(jax.random.key(KEY), 3)
    together, spread = mapped(tried, f, w, keys), vectorised(tried, f, w, keys)
    np.testing.assert_allclose(together.w, spread.w, rtol=1e-9, atol=1e-9)
    for i in range(3):
        alone = solve(tried, client(f, i), w, keys[i])
        np.testing.assert_allclose(alone.w, together.w[i], rtol=1e-9, atol=1e-9)
    if solver in ("sgd", "saga"):
        size = {"sgd": 4, "saga": 1}[solver]
        assert together.steps.tolist() == [2 * -(-m // size) for m in ROWS]


@pytest.mark.chaos  # test_sparse_equals_dense has one client
@pytest.mark.parametrize("solver", ["sgd", "saga"])
def test_unequal_sparse_clients_together(solver):
    keys, tried = jax.random.split(jax.random.key(KEY), 3), flexible(ROUGH[solver])
    dense, sparse = (
        prepared("logistic", sparse=sparse).tilted(tilts("logistic")) for sparse in (False, True)
    )
    spread = vectorised(tried, sparse, begin("logistic"), keys)
    together = mapped(tried, dense, begin("logistic"), keys)
    np.testing.assert_allclose(together.w, spread.w, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("solver", sliced(("sgd", "svrg", "saga"), ("sgd",)))
def test_padding_changes_nothing(solver):
    """A deployed client has no padding and must draw the same rows."""
    padded, w, key = problem("logistic"), begin("logistic"), jax.random.key(KEY)
    alone = client(clients("logistic", rows=ROWS[:1]), 0).tilted(padded.q)
    here, there = (solve(ROUGH[solver], f, w, key) for f in (padded, alone))
    np.testing.assert_allclose(here.w, there.w, rtol=1e-12)


@pytest.mark.parametrize("solver", sliced(SOLVERS, ("newton",)))
def test_single_precision_stays(solver):
    f = client(clients("logistic", dtype=np.float32), 0)
    f, w = (
        f.tilted(0.1 * somewhere("logistic", 3, np.float32)),
        somewhere("logistic", 1, np.float32),
    )
    stop = Tolerance()
    single = {"newton": NewtonCG(), "lbfgs": LBFGS(), "svrg": SVRG(stop=stop, batch_size=2)}
    tried = {**ROUGH, **single, "saga": SAGA(stop=stop)}[solver]
    out = solve(tried, f, w, jax.random.key(KEY))
    assert out.w.dtype == out.grad_norm.dtype == jnp.float32
    assert value(f, out.w) < value(f, w)
    if solver in ("newton", "lbfgs", "svrg", "saga"):
        assert out.grad_norm <= 1e-4


def test_lbfgs_keeps_a_start_it_cannot_leave():
    f = problem("poisson")
    w = jax.device_put(np.full((D, 1), 1e4))
    out = solve(EXACT["lbfgs"], f, w, jax.random.key(KEY))
    assert np.all(np.asarray(out.w) == 1e4)
    assert not np.isfinite(out.grad_norm)


def test_any_optax_optimizer_and_one_trace():
    f, w = problem("ridge"), begin("ridge")
    out = solve(Optax(optax.sgd(0.05), 2, 4), f, w, jax.random.key(KEY))
    plain = solve(SGD(0.05, 2, 4), f, w, jax.random.key(KEY))
    np.testing.assert_allclose(out.w, plain.w, rtol=1e-11)
    traces = []

    @jit
    def counted(solver, f, w, key):
        traces.append(1)
        return solver(f, w, key)

    for seed in range(3):
        counted(adam(0.02), f, w, jax.random.key(seed))
        counted(SGD(), f.tilted(w), w, jax.random.key(seed))
    assert len(traces) == 2


def test_quadratic_step_is_the_gradient_step():
    f = problem("quadratic")
    assert isinstance(f, Quadratic)
    out = solve(GradientDescent(steps=1, stop=NEVER), f, jnp.ones(D), jax.random.key(KEY))
    A, b, beta = map(np.asarray, (f.A, f.b, f.loss_beta))
    np.testing.assert_allclose(out.w, np.ones(D) - (A @ np.ones(D) - b) / beta, rtol=1e-12)
    assert out.steps == 1


def _clients(family: str, sparse: bool, dtype: type) -> Linear:
    """Three clients of unequal size, the largest of more rows than a block has."""
    rng, k = np.random.default_rng(3), COLUMNS[family]
    sizes = (40, 150, 9)
    X = [rng.normal(size=(n, D)) * (rng.random((n, D)) < 0.5) for n in sizes]
    Z = [x @ rng.normal(size=(D, k)) for x in X]
    if family == "softmax":
        Y = [np.eye(k)[z.argmax(1)] for z in Z]
    else:
        Y = [(z > 0).astype(float) for z in Z]
    blocks = [scipy.sparse.csr_array(x) for x in X] if sparse else X
    n, rows = max(sizes), np.array(sizes)
    pad = lambda a: np.stack([np.pad(x, ((0, n - len(x)), (0, 0))) for x in a]).astype(dtype)
    s = (np.arange(n) < rows[:, None]) / rows[:, None]
    ones = jnp.ones(3, dtype)
    return Linear(
        stack(blocks, dtype), jnp.asarray(pad(Y)), jnp.asarray(s, dtype), FAMILIES[family],
        1e-2 * ones, jnp.asarray(rows), 0 * ones, ones,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("family", "sparse", "lr", "batch_size", "dtype"),
    [
        ("softmax", False, 0.02, 1, np.float64),
        ("softmax", True, 0.5, 4, np.float64),
        ("logistic", True, 30.0, 1, np.float64),  # each step turns the next ones round
        ("logistic", False, 0.1, 1, np.float32),
    ],
)
def test_steps_at_once_are_steps_one_by_one(monkeypatch, family, sparse, lr, batch_size, dtype):
    f, k = _clients(family, sparse, dtype), COLUMNS[family]
    w = 0.3 * jax.random.normal(jax.random.key(2), (D, k), dtype)
    q = 0.1 * jax.random.normal(jax.random.key(5), (3, D, k), dtype)
    f = eqx.tree_at(lambda f: f.q, f, q, is_leaf=lambda x: x is None)
    solver, found = SGD(lr=lr, epochs=2, batch_size=batch_size), []
    for at_once in (False, True):
        monkeypatch.setattr(_epochs, "in_step", lambda flag=at_once: flag)
        ready = solver.prepare(f)
        assert (ready.gram is not None) == at_once  # pyright: ignore
        solve = jax.vmap(lambda f: solver(f, w, jax.random.key(KEY)))
        found.append(jit(solve)(ready))
    tight = 1e-11 if dtype is np.float64 else 1e-4
    np.testing.assert_allclose(found[1].w, found[0].w, rtol=tight, atol=tight)
    np.testing.assert_array_equal(found[1].steps, found[0].steps)


def test_a_mean_without_bounds_is_not_taken_at_once(monkeypatch):
    monkeypatch.setattr(_epochs, "in_step", lambda: True)
    for family in ("ridge", "poisson"):
        f = eqx.tree_at(
            lambda f: f.family, _clients("logistic", False, np.float64), FAMILIES[family]
        )
        assert SGD(lr=0.1).prepare(f).gram is None  # pyright: ignore


@pytest.mark.parametrize("tilted", [False, True])
@pytest.mark.parametrize(
    "solver", [SGD(lr=0.1, epochs=2, batch_size=4), adam(epochs=2, batch_size=4)]
)
def test_clients_side_by_side_take_their_own_number_of_steps(monkeypatch, solver, tilted):
    """On an accelerator the loops of all clients have one length, and end where each one's does."""
    plain = _clients("softmax", False, np.float64)
    f = MLP(plain.X, plain.Y, plain.s, plain.family, plain.mu, plain.rows, plain.mu, plain.mu)
    w, found = mlp_params((D, 4, 3), jax.random.key(1), jnp.float64), []
    if tilted:
        f = f.tilted(jax.tree.map(lambda x: 0.1 * jnp.stack([x, -x, x**2]), w))
    for in_step in (False, True):
        monkeypatch.setattr(_epochs, "in_step", lambda flag=in_step: flag)
        found.append(jit(jax.vmap(lambda f: solver(f, w, jax.random.key(KEY))))(f))
    np.testing.assert_array_equal(found[0].steps, found[1].steps)
    assert len(set(found[0].steps.tolist())) == 3
    for one, other in zip(*map(jax.tree.leaves, (found[0].w, found[1].w)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_many_rows_and_few_parameters_take_few_steps(monkeypatch):
    """The inverse Hessian changes the steps, not the minimum."""
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 20)) * np.geomspace(1, 100, 20)
    y = (random.random(200) < 0.5).astype(float)
    made = federate(Dataset("random", X, y), [np.arange(200)], model="logistic", l2=1e-3)
    f, w = tree.first(made.problem), jnp.zeros((20, 1))
    fast = jit(NewtonCG(Tolerance(1e-9)).__call__)(f, w, KEY)
    monkeypatch.setattr(newton, "few_parameters", lambda f, w: False)
    plain = jit(lambda f, w: NewtonCG(Tolerance(1e-9))(f, w, KEY))(f, w)
    for out in (fast, plain):
        check_honest(f, out)
        assert float(out.grad_norm) <= 1e-9
    np.testing.assert_allclose(fast.w, plain.w, atol=1e-6)
    assert 2 * int(fast.steps) < int(plain.steps)
