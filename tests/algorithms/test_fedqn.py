"""FedQN: its metric against matrices, and the bytes that really travel."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

import feddcd
from feddcd import tree
from feddcd._errors import SpecError
from feddcd.algorithms import FedQN
from feddcd.algorithms import _guard as guards
from feddcd.algorithms import _metric as metrics
from feddcd.algorithms import _start as starts
from feddcd.algorithms._coding import _extras, code_square, opened, usual_bytes
from feddcd.algorithms._start import Form
from feddcd.algorithms.fedqn import QNDown
from feddcd.data.federate import federate

D, L2 = 6, 0.01
FORM = Form(D, 1)


@pytest.fixture(scope="module", autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


base_from = jax.jit(starts.base_from, static_argnums=1)
sent_square = jax.jit(lambda H, bits: opened(code_square(H, bits)), static_argnums=1)


def matrix(seed: int = 0, scale: np.ndarray | float = 1.0) -> np.ndarray:
    root = np.random.default_rng(seed).standard_normal((3 * D, D)) * scale
    return root.T @ root / (3 * D)


def learned(pairs: int):
    """A metric from a Hessian and some pairs, and the same by matrices."""
    random, A = np.random.default_rng(1), matrix(3)
    upper = jnp.asarray(matrix()[np.triu_indices(D)])
    base, *_ = base_from(upper, FORM, jnp.asarray(1e9))
    held = metrics.no_pairs(D, 4, jnp.float64)
    put = jax.jit(lambda held, s, y: metrics.put_pair(held, base, s, y, L2))
    kept = []
    for _ in range(pairs):
        s = random.standard_normal(D)
        kept = [*kept, (s, A @ s)][-4:]
        held = put(held, jnp.asarray(s), jnp.asarray(A @ s))
    metric = jax.jit(lambda held: metrics.assembled(base, held, L2))(held)
    H0 = np.asarray(base.C @ base.C.T + jnp.diag(base.rest))
    M = float(metrics.gamma_of(held)) * H0 + L2 * np.eye(D)
    for s, y in kept:
        y, u = y + L2 * s, M @ s
        if s @ y < 0.2 * s @ u:
            t = 0.8 * (s @ u) / (s @ u - s @ y)
            y = t * y + (1 - t) * u
        M = M - np.outer(u, u) / (s @ u) + np.outer(y, y) / (s @ y)
    return metric, M


@pytest.mark.parametrize("pairs", [0, 3, 7])
def test_the_metric_is_the_matrix(pairs):
    """BFGS by matrices, damped; the oldest of more than four pairs are forgotten."""
    metric, M = learned(pairs)
    v = np.random.default_rng(5).standard_normal(D)
    product = jax.jit(lambda v: metrics.product(metric, v, L2))(v)
    np.testing.assert_allclose(product, M @ v, rtol=1e-9)
    solved = jax.jit(lambda v: metrics.solve(metric, v, L2))(v)
    np.testing.assert_allclose(solved, np.linalg.solve(M, v), rtol=1e-7)


def test_a_start_of_eight_bits_is_positive_and_near():
    H = matrix(scale=np.array([1e-4, 1e-2, 1.0, 1.0, 1e2, 1e4]))
    (C, rest), diagonal, _ = base_from(sent_square(jnp.asarray(H), 8), FORM, jnp.asarray(1e9))
    H0 = np.asarray(C @ C.T + jnp.diag(rest))
    root = np.sqrt(np.diag(H))
    values = scipy.linalg.eigvalsh(H0 / root / root[:, None], H / root / root[:, None])
    assert 0.9 < values.min() <= values.max() < 1.1
    np.testing.assert_allclose(diagonal, np.diag(H), rtol=1e-6)


def test_columns_that_nobody_has_get_the_usual_curvature():
    H = np.diag([1.0, 0.0, 4.0, 0.0, 9.0, 4.0])
    _, diagonal, _ = base_from(jnp.asarray(H[np.triu_indices(D)]), FORM, jnp.asarray(1e9))
    assert list(np.asarray(diagonal)) == [1.0, 4.0, 4.0, 4.0, 9.0, 4.0]


def test_a_sketch_leaves_no_direction_without_curvature():
    """20 products find few of 220 eigenvalues. In the others a step may be some ten times too long,
    not some ten thousand times, as it was."""
    d, random = 220, np.random.default_rng(2)
    Q = np.linalg.qr(random.standard_normal((d, d)))[0]
    H = (Q / np.arange(1.0, d + 1) ** 2) @ Q.T
    form = Form(d, 1)
    probes = starts._probes(form, jnp.float64)
    (C, rest), *_ = base_from(H @ probes, form, jnp.asarray(1e9))
    H0 = np.asarray(C) @ np.asarray(C).T + np.diag(rest)
    assert scipy.linalg.eigvalsh(H, H0).max() < 100


def test_each_output_of_a_large_matrix_has_the_curvature_of_the_inputs():
    """60 products see all of 50 rows. At w = 0 a block of softmax is X'X/n (1/K - 1/K²)."""
    n, p, K = 50, 201, 3
    X = np.random.default_rng(5).standard_normal((n, p))
    loss = lambda w: jnp.mean(jax.nn.logsumexp(X @ w.reshape(p, K), axis=1))
    form = Form(p, K)
    sent, _ = opened(starts.measured(loss, jnp.zeros(p * K), jnp.asarray(True), form))
    assert sent.shape == (p, 60) == starts.shape_of(form)
    base, diagonal, _ = starts.base_from(sent, form, jnp.asarray(1e9))
    block = X.T @ X / n * (1 / K - 1 / K**2)
    H0 = np.asarray(base.C @ base.C.T)
    assert np.abs(H0 - block).max() < 0.05 * block.max()
    H0 = H0 + np.diag(base.rest)
    assert diagonal.shape == (p * K,)
    metric = metrics.assembled(base, metrics.no_pairs(p * K, 2, jnp.float64), L2)
    M = np.kron(H0, np.eye(K)) + L2 * np.eye(p * K)
    v = np.random.default_rng(6).standard_normal(p * K)
    np.testing.assert_allclose(metrics.product(metric, jnp.asarray(v), L2), M @ v)
    np.testing.assert_allclose(metrics.solve(metric, jnp.asarray(M @ v), L2), v)
    np.testing.assert_allclose(metrics.base_energy(metric, jnp.asarray(v), L2), v @ M @ v / 2)
    # of few rows the diagonal is believed, and little else
    few, *_ = starts.base_from(sent, form, jnp.asarray(1.0))
    assert np.sum(few.C**2) < 0.02 * np.sum(base.C**2)


@pytest.mark.parametrize(
    ("asked", "places"), [(2, [0, 1]), (3, [0, 1, 2]), (4, [0, 1, 2]), (40, [0, 13, 26])]
)
def test_the_start_comes_from_all_over_the_cohort(asked, places):
    """In a list that is sorted by label the first three would hold the same one."""
    method, yes = FedQN(jnp.zeros(3)), jnp.asarray(True)
    down = QNDown(jnp.zeros(3), jnp.zeros(3, jnp.int8), ~yes, yes, yes, yes)
    own = [method.addressed(down, jnp.asarray(k), jnp.asarray(asked)) for k in range(asked)]
    assert [k for k in range(asked) if own[k].start] == places
    none = down._replace(start=~yes)
    assert not method.addressed(none, jnp.asarray(places[0]), jnp.asarray(asked)).start


def test_trouble_makes_the_guard_grow_and_three_times_in_a_row_the_metric():
    calm = guards.new_guard(jnp.float64)
    once = guards.judged(calm, jnp.asarray(50.0))
    assert float(once.c) == 50.0
    assert float(once.room) < float(calm.room)
    third = guards.judged(guards.judged(once, jnp.asarray(50.0)), jnp.asarray(50.0))
    assert (float(third.c), float(third.lift)) == (1.0, 10.0)
    eased = guards.judged(once, jnp.asarray(1.0))
    assert 1.0 < float(eased.c) < 50.0
    idle = calm._replace(low=jnp.asarray(0.0))
    for _ in range(25):
        idle = guards.watched(idle, jnp.asarray(1.0), jnp.asarray(1.0))
    assert bool(guards.stalled(idle))
    assert float(idle.least) > 1.0


def test_the_first_loss_stays_the_unit_however_wrong_the_first_metric_is():
    """Columns over eight decades: beside a first step of 1e8 losses all else would look near."""
    guard = guards.new_guard(jnp.float64)._replace(loss=jnp.asarray(0.69))
    after = guards.measured(guard, jnp.asarray(1.7e8))
    assert float(after.loss) == 0.69
    assert bool(guards.far(after._replace(energy=jnp.asarray(300.0))))
    # quadratics are 0 at 0: their loss is no unit
    assert float(guards.measured(guard._replace(loss=jnp.asarray(0.0)), jnp.asarray(5.0)).loss) == 5


def test_a_pair_of_few_sites_needs_more_of_them():
    """Eight sites, or half of all; of many sites a fifth."""
    assert [metrics.enough_of(N) for N in (6, 16, 20, 40, 50)] == [0.5, 0.5, 0.4, 0.2, 0.2]
    state = metrics.nothing_learned(2, 2, 2, 4, jnp.float64)
    one = jnp.ones(2)
    more = metrics.Gathered(0.3 * one, 0.3 * one, jnp.asarray(0.3))
    assert int(metrics.learn(state, more, L2, 0.2).pairs.n) == 1
    waits = metrics.learn(state, more, L2, 0.5)
    assert int(waits.pairs.n) == 0
    assert int(metrics.learn(waits, more, L2, 0.5).pairs.n) == 1


def test_a_step_is_shorter_while_sites_are_unseen():
    """30 % of the weight spoke; the other 70 % count three tenths: 0.3 / (0.3 + 0.3 0.7)."""
    assert float(guards.trusted(jnp.asarray(0.3))) == pytest.approx(0.3 / 0.51)
    assert float(guards.trusted(jnp.asarray(1.0))) == 1.0


def test_two_traces_are_the_hessian_of_softmax_at_zero():
    """At w = 0 every class has the chance 1/K, and the Hessian is X'X/n ⊗ (I/K - 11'/K²)."""
    n, p, K = 40, 5, 3
    X = np.random.default_rng(4).standard_normal((n, p))
    loss = lambda w: jnp.mean(jax.nn.logsumexp(X @ w.reshape(p, K), axis=1))
    form, yes = Form(p, K), jnp.asarray(True)
    twice = lambda w: loss(w) + loss(w + 1.0)
    sent, both = jax.jit(
        lambda w: (
            opened(starts.measured(loss, w, yes, form))[0],
            opened(starts.measured(twice, w + 1, yes, form))[0],
        )
    )(jnp.zeros(p * K))
    (C, rest), diagonal, _ = base_from(sent, form, jnp.asarray(1e9))
    H = np.kron(X.T @ X / n, np.eye(K) / K - 1 / K**2)
    np.testing.assert_allclose(diagonal, np.diag(H), rtol=1e-6)
    # eight bits of correlations: half a unit of 1/127 for each of 5 columns
    np.testing.assert_allclose(C @ C.T + jnp.diag(rest), H, atol=5 / 254 * np.diag(H).max())
    A, B = np.zeros((p, p)), np.zeros((K, K))
    A[np.triu_indices(p)], B[np.triu_indices(K)] = both
    whole = np.asarray(jax.jit(jax.hessian(twice))(jnp.ones(p * K))).reshape(p, K, p, K)
    np.testing.assert_allclose(np.diag(A), np.einsum("jaja->j", whole), rtol=1e-6)
    np.testing.assert_allclose(B[0], np.einsum("jajb->ab", whole)[0], rtol=1e-5)


@pytest.mark.parametrize("same", [True, False])
def test_of_sites_that_bend_each_its_own_way_the_diagonal_counts(same):
    """Site i has I + 10 v v', v of 8 signs, orthogonal to the others': correlations of 10/11, 56 of
    them. Their mean has (64/3 - 8) (10/11)² of 56 (10/11)² in squares, and the variance of a mean
    of three, half of the difference, is more than that: no correlation is to be believed."""
    signs = scipy.linalg.hadamard(8)
    losses = [lambda w, v=signs[0 if same else i]: w @ w / 2 + 5 * (w @ v) ** 2 for i in (1, 2, 3)]
    measured = lambda f: opened(starts.measured(f, jnp.zeros(8), jnp.asarray(True), Form(8, 1)))
    sent, spread = jax.tree.map(lambda *x: sum(x) / 3, *map(measured, losses))
    (C, rest), diagonal, differ = base_from(sent, Form(8, 1), jnp.asarray(1e9), spread)
    np.testing.assert_allclose(differ, 0 if same else 1, atol=0.02)
    H0 = np.asarray(C @ C.T + jnp.diag(rest))
    v = signs[0]
    expected = np.eye(8) + 10 * np.outer(v, v) if same else 11 * np.eye(8)
    np.testing.assert_allclose(H0, expected, atol=11 / 127)  # a unit of eight bits
    np.testing.assert_allclose(diagonal, 11.0)


def test_sites_with_few_rows_of_the_same_kind_do_not_differ():
    """Of 30 rows each of the same 8 normal columns, of squares 1/30 on average in each of 8 7
    correlations: chance is all of what the sites have apart."""
    measured = lambda f: opened(starts.measured(f, jnp.zeros(8), jnp.asarray(True), Form(8, 1)))

    def differ(seed: int, rows: float) -> float:
        X = np.random.default_rng(seed).normal(size=(3, 30, 8))
        losses = [lambda w, X=X: jnp.sum((X @ w) ** 2) / 60 for X in jnp.asarray(X)]
        sent, spread = jax.tree.map(lambda *x: sum(x) / 3, *map(measured, losses))
        return float(base_from(sent, Form(8, 1), jnp.asarray(rows), spread).differ)

    assert max(differ(seed, 3 * 30.0) for seed in range(5)) < starts.DIFFER
    assert min(differ(seed, 1e9) for seed in range(5)) > 0.5  # had the sites any number of rows


def test_a_pair_waits_for_more_sites_the_more_they_differ():
    of = lambda differ: float(metrics.enough_where(0.4, jnp.asarray(differ)))
    assert of(0.0) == pytest.approx(0.4)
    assert of(0.1) == pytest.approx(0.8)
    assert of(1.0) == pytest.approx(1.0)


def test_of_sites_that_differ_a_pair_with_an_absurd_curvature_is_left_out():
    """Of H₀ = I the ratio is y'y / s'y: 1 + t² for y = s + t v, with v orthogonal to s."""
    base = metrics.Base(jnp.zeros((2, 1)), jnp.ones(2))
    s = jnp.asarray([1.0, 0.0])
    none = metrics.no_pairs(2, 4, s.dtype)
    put = lambda t, differ: metrics.put_pair(none, base, s, jnp.asarray([1.0, t]), 0.0, differ)
    assert [int(put(t, 1.0).n) for t in (0.0, 2.9, 3.1, 100.0)] == [1, 1, 0, 0]
    assert int(put(100.0, 0.0).n) == 1


def test_an_energy_that_was_low_by_chance_does_not_make_every_later_step_shorter():
    """Once 1e-9, and then from 1e-3 on slowly less: c's least grows once, and no more."""
    guard = guards.watched(guards.new_guard(jnp.float32), jnp.asarray(1e-9), jnp.asarray(1.0))
    for visit in range(40):
        guard = guards.watched(guard, jnp.asarray(1e-3 * 0.95**visit), jnp.asarray(1.0))
    assert float(guard.least) <= 2
    assert bool(guards.stalled(guard))  # what it reports stays as strict


@pytest.mark.parametrize("differ", [False, True])
def test_where_sites_differ_new_sites_send_their_hessian_later_too(differ):
    """Of 7 x 2 parameters and 400 rows; columns have a common part whose signs are a site's own."""
    random, N, rows = np.random.default_rng(3), 6, 400
    signs = scipy.linalg.hadamard(8)[:N, 1:] if differ else np.ones((N, 7))
    common = random.normal(size=(N, rows, 1)) * signs[:, None]
    X = (common + random.normal(size=(N, rows, 7)) / 2).reshape(-1, 7)
    y = random.integers(0, 2, N * rows)
    given = {"partition": "parts", "parts": np.split(np.arange(N * rows), N), "l2": 0.1}
    run = feddcd.run((X, y), algorithm="fedqn", model="softmax", tau=2, rounds=12, **given)
    sent = np.diff(np.asarray(run.history["bytes_up"], float), prepend=0)
    with_hessian = sum(sent > 2 * (7 * 2 + 4 + 2))
    assert with_hessian > 1 if differ else with_hessian == 1


def test_of_many_outputs_the_largest_eigenvalues_are_kept():
    """Of 80 x 4 parameters 198 factors: each eigenvalue comes three times, and 199 places hold 66
    of them. The mean of the other 122 eigenvalues, 80 of them zero, stands for these."""
    random, form = np.random.default_rng(7), Form(80, 4)
    root = random.standard_normal((160, 80)) / np.arange(1, 81)
    A, B = root.T @ root, np.eye(4) / 4 - 1 / 16
    A *= np.trace(B) / np.trace(A)
    upper = lambda H: sent_square(jnp.asarray(H), 32)
    found = base_from((upper(A), upper(B)), form, jnp.asarray(1e9))
    (C, rest), diagonal, _ = jax.tree.map(np.asarray, found)
    assert C.shape == (320, 199)
    H0, H, scale = C @ C.T + np.diag(rest), np.kron(A, B) / np.trace(B), np.sqrt(diagonal)
    ours, true = (np.linalg.eigvalsh(M / scale / scale[:, None])[::-1] for M in (H0, H))
    np.testing.assert_allclose(ours[:198], true[:198], rtol=1e-5)
    np.testing.assert_allclose(ours[198:], true[198:].mean(), rtol=1e-4)


def test_parameters_that_are_no_matrix_have_one_output():
    assert starts.form_of(jnp.zeros((7, 3))) == (7, 3)
    assert starts.form_of({"w": jnp.zeros((7, 3)), "b": jnp.zeros(3)}) == (24, 1)
    assert (Form(64, 10).whole, Form(640, 1).whole, Form(199, 20).whole) == (True, False, False)


@pytest.mark.chaos
def test_bytes_are_those_that_travel():
    """Of 13 x 3 parameters: all in 8 bits a number and a unit, and a number of two bytes. Three of
    the first cohort send 13 numbers of 32 bits, 13 12 / 2 correlations of 8, the 3 4 / 2 numbers of
    the outputs and the number of rows, too."""
    run = feddcd.run("wine", algorithm="fedqn", clients=10, tau=6, rounds=3, l2=0.01)
    each = 6 * (13 * 3 + 4 + 2)
    start = 3 * (4 * 13 + 13 * 12 // 2 + 4 * 6 + 4 + 4)
    assert list(run.history["bytes_up"]) == [each + start, 2 * each + start, 3 * each + start]


@pytest.mark.parametrize(("bits", "each"), [(8, 39 + 4 + 2), (64, 8 * 39 + 8)])
def test_the_first_upload_of_a_site(bits, each):
    """The same by its shapes: the start has eight bits also where gradients have 64."""
    w, data = jnp.zeros((13, 3)), feddcd.load("wine")
    f = federate(data, [np.arange(60), np.arange(60, 142)], l2=0.01).problem
    method = FedQN(w, 0.01, bits=bits)

    def upload(f):
        down = method.broadcast(method.init_server(w), jax.random.key(0))
        return method.client_step(f, method.init_client(f, w), down, jax.random.key(0))[1].value

    value = jax.eval_shape(upload, jax.tree.map(lambda x: x[0], f))
    _, _, first, start = (tree.nbytes(part.value) for part in _extras(value))
    assert usual_bytes(value) + first == each
    assert start == 4 * 13 + 13 * 12 // 2 + 4 * 6 + 4 + 4  # and two numbers


@pytest.mark.chaos
def test_the_start_has_eight_bits_also_where_gradients_have_64():
    few = {"clients": 10, "tau": 6, "rounds": 1, "l2": 0.01}
    run = feddcd.run("wine", algorithm="fedqn", settings={"bits": 64}, **few)
    start = 3 * (4 * 13 + 13 * 12 // 2 + 4 * 6 + 4 + 4)
    assert list(run.history["bytes_up"]) == [6 * (8 * 13 * 3 + 8) + start]


def test_of_few_parameters_new_sites_send_their_hessian_later_too():
    """Two of six sites in a round: each sends its Hessian once, and later no site does."""
    method = FedQN(jnp.zeros((4, 1)))
    server = method.init_server(jnp.zeros((4, 1)))
    down = method.broadcast(server, jax.random.key(0))
    assert bool(down.start)
    later = server._replace(started=jnp.asarray(True), seen=jnp.asarray(0.4))
    down = method.broadcast(later, jax.random.key(0))
    parts = lambda seen: [bool(part) for part in method._parts(down, jnp.asarray(seen))]
    assert parts(False) == [False, True, False, True]  # change, fresh, first, start
    assert parts(True) == [True, False, False, False]
    ended = later._replace(seen=jnp.asarray(1.0))
    assert not bool(method.broadcast(ended, jax.random.key(0)).start)
    large = FedQN(jnp.zeros((13, 1)))
    after = large.init_server(jnp.zeros((13, 1)))._replace(started=jnp.asarray(True))
    assert not bool(large.broadcast(after, jax.random.key(0)).start)


@pytest.mark.chaos
def test_a_large_model_begins_where_sites_would_go_alone():
    """A round of minimisers in place of gradients, then all as for small models."""
    p, N = 210, 4
    random = np.random.default_rng(7)
    X = random.standard_normal((N * 300, p)) / np.sqrt(p)
    y = X @ random.standard_normal(p) + 0.1 * random.standard_normal(len(X))
    parts = list(zip(np.split(X, N), np.split(y, N), strict=True))
    few = {"l2": 0.01, "rounds": 12, "tau": 3, "settings": {"bits": 64}}
    run = feddcd.run(parts, model="ridge", algorithm="fedqn", **few)
    up = np.diff(run.history["bytes_up"], prepend=0)
    each = 8 * p + 8
    assert list(up[[0, 2]]) == [3 * each, 3 * each]
    assert up[1] > 3 * each  # with the products that start the metric
    pooled = lambda w: np.mean((X @ w - y) ** 2) / 2 + 0.005 * w @ w
    solve = lambda X, y: np.linalg.solve(X.T @ X / len(X) + 0.01 * np.eye(p), X.T @ y / len(X))
    alone = [solve(*part) for part in parts]
    means = [np.mean([w for k, w in enumerate(alone) if k != left], 0) for left in range(N)]
    first = run.history["objective"][0]
    assert min(abs(pooled(w) / first - 1) for w in means) < 1e-3 < pooled(np.zeros(p)) / first - 1
    assert abs(run.history["objective"][-1] - pooled(solve(X, y))) < 1e-6


def test_sites_that_disagree_do_not_move_the_first_point():
    moves = jnp.array([[3.0, 4.0], [3.0, 4.0]])
    common = lambda m: np.asarray(starts.common(jnp.mean(m, 0), jnp.mean(jnp.sum(m**2, 1))))
    assert list(common(moves)) == [3.0, 4.0]
    assert list(common(moves.at[1].multiply(-1))) == [0.0, 0.0]
    apart = jnp.eye(8)  # a common part of an eighth: a quarter of the mean is believed
    np.testing.assert_allclose(common(apart), 0.25 / 8)
    assert list(common(0 * moves)) == [0.0, 0.0]


def test_a_site_that_was_only_asked_for_its_own_point_counts_as_new():
    """Server and site agree on that, also where the upload is rounded to the grid of sums."""
    fed = federate(_wide(), [np.arange(5), np.arange(5, 9)])
    f, like = jax.tree.map(lambda x: x[0], fed.problem), fed.w
    method, key = FedQN(like, 0.01), jax.random.key(0)
    server = method.init_server(like)
    down = method.broadcast(server, key)
    parts = lambda down, seen: [bool(x) for x in method._parts(down, jnp.asarray(seen))]
    assert (bool(down.alone), parts(down, False)) == (True, [False, False, True, False])
    client = method.init_client(f, like)
    after, sent = jax.jit(lambda *x: method.client_step(*x))(f, client, down, key)
    assert np.abs(sent.value.first.value.q).max() == 127
    note = method.first_note(like)
    error = jax.tree.map(jnp.ones_like, opened(sent.value))
    for state in (after, method.adjusted(after, down, error)):
        jax.tree.map(np.testing.assert_array_equal, state, client)
        jax.tree.map(np.testing.assert_array_equal, method.told(state), note)
    jax.tree.map(np.testing.assert_array_equal, method.noted(server, note, None), note)
    later = method.broadcast(server._replace(alone=jnp.asarray(False)), key)
    assert parts(later, False) == [False, False, True, True]


def _wide() -> feddcd.data.Dataset:
    random = np.random.default_rng(8)
    return feddcd.data.Dataset("wide", random.standard_normal((9, 210)), np.arange(9) % 2)


def test_bits_are_powers_of_two():
    with pytest.raises(SpecError, match="the setting 'bits' must be 8, 16, 32 or 64, got bits=12"):
        FedQN(jnp.zeros(3), bits=12)  # pyright: ignore


def test_rounding_does_not_choose_among_equal_eigenvalues():
    """Of softmax at 0, each curvature of the inputs comes K - 1 times: the 199 factors that find a
    place would end within such a block."""
    form = starts.Form(64, 10)
    random = np.random.default_rng(0)
    X = random.normal(size=(300, form.p))
    A = X.T @ X / 300
    B = np.eye(form.K) / form.K - 1 / form.K**2
    upper = lambda H: jnp.asarray(H[np.triu_indices(len(H))])

    def base_of(noise):
        moved = upper(A * (1 + noise * random.normal(size=A.shape)))
        turned = upper(B * (1 + noise * random.normal(size=B.shape)))
        base, *_ = starts.base_from((moved, turned), form, jnp.asarray(300.0))
        return np.asarray(base.C @ base.C.T) + np.diag(base.rest)

    with jax.enable_x64(True):
        exact, rounded = base_of(0.0), base_of(1e-15)
    np.testing.assert_allclose(rounded, exact, rtol=0, atol=1e-10 * np.abs(exact).max())
