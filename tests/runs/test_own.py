"""A researcher's own loss, network, problem, tables and algorithm, through the usual functions."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pandas as pd
import pytest
import scipy.optimize
import scipy.sparse

import feddcd
from feddcd import tree
from feddcd._errors import DataError, FolderError, SpecError
from feddcd.algorithms import FedAvg, FedDCD, MinibatchSGD
from feddcd.data import Dataset
from feddcd.data.federate import federate
from feddcd.history import COLUMNS
from feddcd.problems import (
    AbstractFamily,
    AbstractProblem,
    Architecture,
    optimum,
    random_quadratics,
)
from feddcd.solvers import LBFGS, SAGA, SGD, SVRG, GradientDescent, NewtonCG, Tolerance, adam
from slices import sliced

SIZES, D = (9, 14, 6), 4
PARTS = np.split(np.arange(sum(SIZES)), np.cumsum(SIZES)[:-1])
# one program for all tests of tables
USUAL = {"model": "logistic", "l2": 0.1, "tau": 2, "rounds": 5, "algorithm": "mbsgd"}


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


@pytest.fixture(autouse=True)
def _no_pictures(monkeypatch):
    # pictures take most of the time, and tests/report/test_report.py looks at them
    monkeypatch.setattr("feddcd.report.run.panels", lambda *a: [])
    monkeypatch.setattr("feddcd.report.curves", lambda entries: None)
    monkeypatch.setattr("feddcd.report.save_png", lambda figure, path: path.write_bytes(b""))
    monkeypatch.setattr("feddcd.report.save_pdf", lambda figure, path: path.write_bytes(b""))


class SmoothHinge(AbstractFamily):
    """No canonical link: the gradient in z is not a mean less y."""

    smoothness: ClassVar[float] = 1.0
    convex: ClassVar[bool] = True
    targets: ClassVar = "binary"

    def value(self, z, y):
        m = (2 * y - 1) * z
        return jnp.sum(jnp.where(m < 0, 0.5 - m, jnp.maximum(1 - m, 0) ** 2 / 2), -1)

    def score(self, z, y, s):
        return jnp.sum(s * jnp.all((z > 0) == (y > 0.5), -1)) / jnp.sum(s)


class Squares(AbstractProblem):
    """Least squares, as a user would write it: loss(w) = sum_j s_j (x_j'w - y_j)²/2."""

    X: Any
    y: Any
    s: Any
    mu: Any
    rows: Any
    loss_alpha: Any
    loss_beta: Any
    q: Any = None
    convex: ClassVar[bool] = True

    @property
    def capacity(self):
        return self.y.shape[-1]

    @property
    def weight(self):
        return jnp.sum(self.s, -1)

    def loss(self, w):
        return jnp.sum(self.s * (self.X @ w - self.y) ** 2) / 2

    def batch(self, rows):
        there = rows < self.capacity
        s = jnp.where(there, self.s[rows], 0) * self.rows / jnp.maximum(jnp.sum(there), 1)
        parts = lambda f: (f.X, f.y, f.s)
        return eqx.tree_at(parts, self, (self.X[rows], self.y[rows], s))

    def normalised(self):
        return eqx.tree_at(lambda f: f.s, self, self.s / self.weight)


class Rowless(Squares):
    """The same without a word about its rows."""

    @property
    def capacity(self):
        return None


def numbers() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    X = random.normal(size=(sum(SIZES), D))
    return X, X @ random.normal(size=D) + random.normal(size=len(X))


def signs() -> tuple[np.ndarray, np.ndarray]:
    X, y = numbers()
    return X, (y > 0).astype(float)


@cache
def squares(kind=Squares) -> Any:
    """Stacked clients, and the same from `federate`."""
    X, y = numbers()
    with jax.enable_x64(True):
        f = federate(Dataset("made", X, y), PARTS, model="ridge", l2=0.1).problem
    own = kind(f.X.X, f.Y[..., 0], f.s, f.mu, f.rows, f.loss_alpha, f.loss_beta)
    return jax.tree.map(np.asarray, own), f


class TestFamily:
    SOLVERS: ClassVar = {
        "samples": NewtonCG(Tolerance(1e-9), space="samples"),
        "parameters": NewtonCG(Tolerance(1e-9), space="parameters"),
        "gd": GradientDescent(steps=20000, stop=Tolerance(1e-9)),
        "lbfgs": LBFGS(Tolerance(1e-9)),
        "svrg": SVRG(stop=Tolerance(1e-9), batch_size=2),
        "saga": SAGA(stop=Tolerance(1e-9)),
    }
    # the certificate below is of Newton in the space of samples
    OFTEN: ClassVar = [("gd", False)]

    @staticmethod
    @cache
    def local(sparse: bool = False) -> tuple[Any, Any, np.ndarray]:
        """A client's problem, tilted, all clients', and the optimum by scipy in NumPy."""
        X, y = signs()
        rows = scipy.sparse.csr_array(X) if sparse else X
        f = federate(Dataset("made", rows, y), PARTS, model=SmoothHinge(), l2=0.1).problem
        tilt = 0.05 * np.arange(D)
        x, sign = X[PARTS[1]], 2 * y[PARTS[1]] - 1

        def objective(w):
            m = sign * (x @ w)
            loss = np.where(m < 0, 0.5 - m, np.maximum(1 - m, 0) ** 2 / 2)
            slope = np.where(m < 0, -1, -np.maximum(1 - m, 0)) * sign
            value = loss.mean() + 0.05 * w @ w - tilt @ w
            return value, x.T @ slope / len(x) + 0.1 * w - tilt

        best = scipy.optimize.minimize(objective, np.zeros(D), jac=True, tol=1e-14).x
        return f, tilt, best

    @pytest.mark.usefixtures("x64")
    @pytest.mark.parametrize(
        ("name", "sparse"),
        [
            # tests/solvers has all with other losses, and those of rows with sparse ones
            *sliced(((name, False) for name in SOLVERS), OFTEN),
            *sliced(((name, True) for name in ("samples", "svrg", "saga")), ()),
        ],
    )
    def test_every_solver_finds_the_optimum(self, name, sparse):
        stacked, tilt, best = self.local(sparse)
        solver = self.SOLVERS[name]
        f = tree.take(solver.prepare(stacked), 1).tilted(jnp.asarray(tilt[:, None]))
        out = eqx.filter_jit(solver)(f, jnp.ones((D, 1)), jax.random.key(0))
        assert out.grad_norm <= 1e-9
        np.testing.assert_allclose(out.w[:, 0], best, atol=1e-6)
        np.testing.assert_allclose(out.grad_norm, tree.norm(jax.grad(f)(out.w)), atol=1e-12)

    @pytest.mark.usefixtures("x64")
    @pytest.mark.parametrize(
        "solver",
        [
            SGD(epochs=200),
            pytest.param(adam(0.02, epochs=200, batch_size=4), marks=pytest.mark.chaos),
        ],
    )
    def test_rough_solvers_come_near(self, solver):
        stacked, tilt, best = self.local()
        f = tree.take(solver.prepare(stacked), 1).tilted(jnp.asarray(tilt[:, None]))
        out = eqx.filter_jit(solver)(f, jnp.ones((D, 1)), jax.random.key(0))
        np.testing.assert_allclose(out.w[:, 0], best, atol=0.05)

    @pytest.mark.chaos
    def test_the_certificate_holds(self):
        """F* <= the objective, lower_bound <= F*, and Point-SAGA reaches it."""
        X, y = signs()
        words = np.where(y > 0, "yes", "no")
        result = feddcd.run(
            (X, words), model=SmoothHinge(), parts=PARTS, tau=2, l2=0.1, rounds=80,
            algorithm="pointsaga", target_gap=1e-9, settings={"space": "samples"},
        )  # fmt: skip
        assert 0 <= result.certificate.gap <= 1e-9
        assert result.classes.tolist() == ["no", "yes"]
        assert result.summary["accuracy_is"] == "score of SmoothHinge"
        right = (X @ result.model[:, 0] > 0) == (y > 0)
        shares = np.mean([right[part].mean() for part in PARTS])
        np.testing.assert_allclose(result.summary["accuracy"], shares, rtol=1e-12)

    def test_fedqn_learns_its_curvature(self):
        """In 8 bits to the optimum of all clients, each of which counts the same, by SciPy."""
        X, y = signs()
        result = feddcd.run(
            (X, y), model=SmoothHinge(), parts=PARTS, tau=2, l2=0.1, rounds=60, algorithm="fedqn"
        )

        def pooled(w):
            m = (2 * (y > 0) - 1) * (X @ w)
            loss = np.where(m < 0, 0.5 - m, np.maximum(1 - m, 0) ** 2 / 2)
            slope = -(2 * (y > 0) - 1) * np.where(m < 0, 1, np.maximum(1 - m, 0))
            means = np.mean([loss[part].mean() for part in PARTS])
            grad = np.mean([slope[part] @ X[part] / len(part) for part in PARTS], 0)
            return means + 0.05 * w @ w, grad + 0.1 * w

        best = scipy.optimize.minimize(pooled, np.zeros(D), jac=True, method="BFGS", tol=1e-10)
        assert result.certificate.gap < 1e-9
        np.testing.assert_allclose(result.model[:, 0], best.x, atol=1e-7)

    def test_no_certificate_without_convexity(self):
        class Bounded(SmoothHinge):
            convex: ClassVar[bool] = False

            def value(self, z, y):
                return jnp.tanh(SmoothHinge.value(self, z, y))

        result = feddcd.run(
            signs(), model=Bounded(), parts=PARTS, algorithm="mbsgd", tau=2, l2=0.1, rounds=5
        )
        assert result.summary["lower_bound"] is None

    def test_a_value_a_row(self):
        class Wide(SmoothHinge):
            def value(self, z, y):
                return (z - y) ** 2

        class Worded(SmoothHinge):
            targets: ClassVar = "words"

        with pytest.raises(
            SpecError, match=r"Wide.value\(z, y\) must return one number for each row"
        ):
            feddcd.run(signs(), model=Wide(), parts=PARTS)
        with pytest.raises(SpecError, match=r"targets must be one of the words .*, not 'words'"):
            feddcd.run(signs(), model=Worded(), parts=PARTS)
        with pytest.raises(SpecError, match="the class SmoothHinge, but model must be an object"):
            feddcd.run(signs(), model=SmoothHinge, parts=PARTS)


@pytest.mark.usefixtures("x64")
class TestRows:
    @pytest.mark.parametrize(
        "solver",
        [
            SGD(0.05, 2, 4),
            pytest.param(adam(0.05, epochs=2, batch_size=4), marks=pytest.mark.chaos),
        ],
    )
    def test_mini_batches_take_all_rows(self, solver):
        """As the library's own least squares does; a client with padding, too."""
        own, same = squares()
        solve = eqx.filter_jit(lambda f, w: solver(f, w, jax.random.key(1)))
        for i in range(3):
            mine = solve(jax.tree.map(jnp.asarray, tree.take(own, i)), jnp.zeros(D))
            there = solve(tree.take(same, i), jnp.zeros((D, 1)))
            assert mine.steps == there.steps == 2 * -(-SIZES[i] // 4)
            np.testing.assert_allclose(mine.w, there.w[:, 0], rtol=1e-10)

    @pytest.mark.parametrize("solver", [SGD(0.05), adam(), SVRG(0.05)])
    def test_without_rows_no_mini_batches(self, solver):
        f = jax.tree.map(jnp.asarray, tree.take(squares(Rowless)[0], 0))
        told = (
            r"does not know how many rows a problem of the class Rowless has.* gd, lbfgs or newton"
        )
        with pytest.raises(SpecError, match=told):
            solver(f, jnp.zeros(D), jax.random.key(0))

    @pytest.mark.parametrize("solver", [NewtonCG(), LBFGS(), GradientDescent(steps=2)])
    def test_without_rows_others_work(self, solver):
        f = jax.tree.map(jnp.asarray, tree.take(squares(Rowless)[0], 0))
        found = eqx.filter_eval_shape(solver, f, jnp.zeros(D), jax.random.key(0))
        assert found.w.shape == (D,)


def folder_names(folder) -> set[str]:
    return {path.name for path in folder.iterdir()}


FILES = {
    "checkpoint.npz", "config.toml", "history.csv", "model.npz", "report.html", "summary.json"
}  # fmt: skip


def config(folder) -> dict[str, Any]:
    return tomllib.loads((folder / "config.toml").read_text())


def assert_same_rounds(one, other) -> None:
    for name in COLUMNS:
        if name not in ("seconds", "lower_bound", "certified_gap"):
            np.testing.assert_array_equal(one.history[name], other.history[name], name)


class TestProblem:
    def test_quadratics(self, tmp_path):
        with jax.enable_x64(True):
            f = random_quadratics(5, 3, alpha=0.2, beta=1.0, seed=1)
            best = np.asarray(optimum(f))
        result = feddcd.run(
            problem=f, algorithm="fednewton", tau=3, rounds=100, names="abcde", out=tmp_path / "a"
        )
        np.testing.assert_allclose(result.model, best, atol=1e-6)
        assert 0 <= result.certificate.gap < 1e-9
        assert result.names == ("a", "b", "c", "d", "e")
        assert folder_names(tmp_path / "a") == FILES
        assert "fednewton on Quadratic" in (tmp_path / "a" / "report.html").read_text()
        expected = {"data": "Quadratic", "model": "Quadratic", "clients": 5, "given": ["problem"]}
        assert config(tmp_path / "a").items() >= expected.items()

    def test_goes_on_bit_for_bit(self, tmp_path):
        f, other = squares()[0], random_quadratics(3, D, alpha=0.2, beta=1.0)
        options = {"problem": f, "w": np.ones(D), "algorithm": "mbsgd", "tau": 2}
        whole = feddcd.run(rounds=8, **options)
        feddcd.run(rounds=3, out=tmp_path / "a", **options)
        first = feddcd.resume(tmp_path / "a", problem=f, w=np.ones(D), rounds=5)
        rest = feddcd.run(rounds=8, out=tmp_path / "a", resume=True, **options)
        assert first.history.rounds == 5
        assert_same_rounds(rest, whole)
        assert np.array_equal(rest.model, whole.model)
        with pytest.raises(FolderError, match=r"objects from Python .problem.*problem=\.\.\.\)"):
            feddcd.resume(tmp_path / "a", rounds=9)
        with pytest.raises(FolderError, match="was written with other data"):
            feddcd.resume(tmp_path / "a", problem=other, w=np.ones(D), rounds=9)
        with pytest.raises(FolderError, match="was written with other settings"):
            feddcd.run(**{**options, "tau": 3}, rounds=9, out=tmp_path / "a", resume=True)

    @pytest.mark.parametrize(
        "names",
        [
            ["fednewton"],
            pytest.param(
                ["feddcd", "pointsaga", "fednewton", "fedqn", "fedavg", "mbsgd"],
                marks=pytest.mark.chaos,
            ),
        ],
    )
    def test_every_method_takes_it(self, names):
        """And those that are exact agree."""
        own, _ = squares()
        race = feddcd.compare(problem=own, w=np.zeros(D), algorithms=names, tau=2, rounds=60)
        X, y = numbers()
        Xs, ys = (np.concatenate([a[p] / len(p) ** 0.5 for p in PARTS]) for a in (X, y))
        best = np.linalg.solve(Xs.T @ Xs + 0.3 * np.eye(D), Xs.T @ ys)
        np.testing.assert_allclose(race["fednewton"].model, best, atol=1e-9)
        if "pointsaga" in names:
            np.testing.assert_allclose(race["pointsaga"].model, best, atol=1e-6)
            np.testing.assert_allclose(race["fedqn"].model, best, atol=1e-6)
        assert list(race.results) == names
        assert all(0 <= r.certificate.gap < 1 for r in race.results.values())

    def test_its_precision_is_that_of_mu(self):
        f = jax.tree.map(lambda x: x.astype(np.float32) if x.dtype.kind == "f" else x, squares()[0])
        few = {"w": np.zeros(D), "tau": 2, "rounds": 2, "algorithm": "mbsgd"}
        assert feddcd.run(problem=f, **few).model.dtype == np.float32
        assert feddcd.run(problem=squares()[0], **few).model.dtype == np.float64
        assert not jax.config.jax_enable_x64

    BAD: ClassVar = {
        "no start": (lambda f: {}, "the shape of the model w in Squares.* w="),
        "penalty": (lambda f: {"w": 0, "l2": 0.1}, "Squares already has its .*: leave out l2"),
        "data": (lambda f: {"data": numbers()}, "leave out data"),
        "one client": (lambda f: {"problem": tree.take(f, 0)}, r"must contain all N clients"),
        "no problem": (lambda f: {"problem": numbers()}, "must be an AbstractProblem, not tuple"),
        "names": (lambda f: {"names": "ab"}, "2 names, but the number of clients is 3"),
        "saga": (
            lambda f: {"w": np.zeros(D), "settings": {"solver": "saga"}},
            "not with Squares: use",
        ),
        "no bound": (
            lambda f: {
                "problem": eqx.tree_at(lambda f: f.loss_beta, f, np.full(3, np.inf)),
                "w": np.zeros(D),
                "algorithm": "fedavg",
            },
            (
                "feddcd cannot compute a step size here, because the curvature of Squares has "
                "no known bound: give lr"
            ),
        ),
        "no bound for a step": (
            lambda f: {
                "problem": eqx.tree_at(lambda f: f.loss_beta, f, np.full(3, np.inf)),
                "w": np.zeros(D),
                "algorithm": MinibatchSGD(),
            },
            (
                "feddcd cannot compute a step size here, because the curvature of Squares has "
                "no known bound: give lr"
            ),
        ),
        "not strongly convex": (
            lambda f: {
                "problem": eqx.tree_at(lambda f: f.mu, f, 0 * f.mu),
                "w": np.zeros(D),
                "algorithm": FedDCD(),
            },
            "FedDCD gives client 0 the weight 0",
        ),
    }  # fmt: skip

    @pytest.mark.parametrize(("change", "message"), BAD.values(), ids=BAD)
    def test_refused(self, change, message):
        f = squares()[0]
        with pytest.raises(SpecError, match=message):
            feddcd.run(**{"problem": f, "rounds": 2, **change(f)})


class TestTables:
    @pytest.mark.parametrize("sparse", sliced((False, True), (False,)))
    def test_a_table_for_each_client_is_as_parts_of_one(self, sparse):
        X, y = signs()
        options = USUAL
        whole = feddcd.run((X, y), parts=PARTS, **options)
        tables = [(X[part], y[part]) for part in PARTS]
        rows = scipy.sparse.csr_array if sparse else np.asarray
        mapping = {name: (rows(X), y) for name, (X, y) in zip("abc", tables, strict=True)}
        listed, named = feddcd.run(tables, **options), feddcd.run(mapping, **options)
        assert_same_rounds(listed, whole)
        np.testing.assert_allclose(named.model, whole.model, rtol=1e-8)
        assert named.names == ("a", "b", "c")
        assert listed.spec.partition == whole.spec.partition == "parts"
        assert (listed.spec.given, whole.spec.given) == (("data",), ("data", "parts"))

    def test_frames(self, tmp_path):
        X, y = signs()
        frame = pd.DataFrame(X, columns=list("abcd")).assign(
            state=np.where(y > 0, "ill", "well"), site=np.repeat(["s", "t", "u"], SIZES)
        )
        options = USUAL
        whole = feddcd.run((X, 1 - y), parts=PARTS, **options)
        pooled = feddcd.run(frame, label="state", group="site", **options)
        each = [frame[frame.site == name].drop(columns="site") for name in "stu"]
        each[1] = each[1][["state", *"dcba"]]
        apart = feddcd.run(each, label="state", out=tmp_path / "a", **options)
        for result in (pooled, apart):
            assert_same_rounds(result, whole)
            assert result.classes.tolist() == ["ill", "well"]
        assert feddcd.resume(tmp_path / "a", each, rounds=6).history.rounds == 6
        with pytest.raises(FolderError, match=r"objects from Python .data.*data=\.\.\."):
            feddcd.resume(tmp_path / "a", rounds=8)

    def test_words_are_classes(self):
        X, y = signs()
        words = np.array(["b", "a"])[y.astype(int)]
        options = USUAL | {"parts": PARTS}
        result = feddcd.run((X, words.tolist()), **options)
        assert_same_rounds(result, feddcd.run((X, 1 - y), **options))
        assert result.classes.tolist() == ["a", "b"]
        with pytest.raises(
            DataError,
            match=r"the model ridge needs numbers as labels, but the first row has '[ab]'",
        ):
            feddcd.run((X, words), **options | {"model": "ridge"})

    BAD: ClassVar = {
        "one client": (lambda X, y: [(X, y)], "at least 2 clients, got 1"),
        "features": (lambda X, y: [(X, y), (X[:, 1:], y)], (
            r"client 0 has examples of shape \(4,\), but client 1 has examples of shape "
            r"\(3,\)"
        )),
        "nan": (lambda X, y: {"a": (X, y), "b": (X * np.nan, y)}, "client b: X has nan at row 0"),
        "lengths": (lambda X, y: [(X, y), (X, y[1:])], r"client 1: y must have shape \(29,\)"),
        "labels": (lambda X, y: [(X, y), (X, ["a"] * 29)], "client 1 has words"),
        "mixed": (lambda X, y: [(X, y), pd.DataFrame(X)], "all be data frames or all be pairs"),
        "no pair": (lambda X, y: {"a": (X, y), "b": X}, r"client b must be a pair \(X, y\)"),
        "no label": (lambda X, y: [pd.DataFrame(X)] * 2, r"client 0: give label=.* to predict"),
        "mixed words": (lambda X, y: (X, ["a", *y[1:]]), "arrays from Python: y must be numbers"),
    }  # fmt: skip

    @pytest.mark.parametrize(("data", "message"), BAD.values(), ids=BAD)
    def test_refused(self, data, message):
        with pytest.raises(DataError, match=message):
            feddcd.run(data(*signs()), rounds=2)
        with pytest.raises(SpecError, match="leave out 'parts' and 'partition'"):
            feddcd.run([signs()] * 2, partition="iid")


class Convolution(eqx.Module):
    conv: eqx.nn.Conv2d
    out: eqx.nn.Linear
    twice: jax.Array  # not trained
    activation: Any  # a leaf that is no array

    def __init__(self, key):
        a, b = jax.random.split(key)
        self.conv = eqx.nn.Conv2d(1, 3, 3, stride=2, key=a)
        self.out = eqx.nn.Linear(27, 10, key=b)
        self.twice, self.activation = jnp.array(2), jax.nn.relu

    def __call__(self, image):
        return self.out(self.twice * self.activation(self.conv(image)).ravel())


def entropy(model, x, y):
    return optax.softmax_cross_entropy_with_integer_labels(model(x), y.astype(int))


def right(model, x, y):
    return jnp.argmax(model(x)) == y


@cache
def images() -> tuple[np.ndarray, np.ndarray]:
    digits = feddcd.load("digits")
    return digits.X[:303].reshape(-1, 1, 8, 8), digits.y[:303]


NETWORK = {"loss": entropy, "score": right, "tau": 2, "l2": 1e-2, "rounds": 6}
BATCHES = {"solver": "sgd", "lr": 0.1, "batch_size": 16}
# clients of 30 to 110 rows, and a method with states; one program for all tests of it
UNEQUAL = NETWORK | {
    "parts": np.split(np.arange(303), [30, 100, 210]),
    "algorithm": "feddcd",
    "settings": BATCHES,
}
NETWORK |= {"clients": 4}


def trained(folder, options) -> tuple[feddcd.Result, Path]:
    start = Convolution(jax.random.key(0))
    return feddcd.run(images(), model=start, out=folder, **options), folder


@pytest.fixture(scope="module")
def unequal_run(tmp_path_factory) -> tuple[feddcd.Result, Path]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("feddcd.report.run.panels", lambda *a: [])
        return trained(tmp_path_factory.mktemp("unequal") / "a", UNEQUAL)


class TestNetwork:
    def test_a_convolution_learns(self, unequal_run):
        assert config(unequal_run[1])["given"] == ["data", "model", "parts"]
        self.check_learned(*unequal_run)

    @pytest.mark.chaos
    @pytest.mark.parametrize(
        ("algorithm", "settings"),
        [
            ("fedavg", {"solver": "adam", "lr": 0.01}),
            ("scaffold", {"lr": 0.1, "batch_size": 16}),
            ("fedavg", {"lr": 0.1, "batch_size": 16}),  # as on the page about own models
            ("feddcd", {"lr": 0.01}),
            ("feddcd", BATCHES),
        ],
    )
    def test_with_other_methods_too(self, algorithm, settings, tmp_path):
        options = NETWORK | {"algorithm": algorithm, "settings": settings}
        result, folder = trained(tmp_path / "a", options)
        assert config(folder)["given"] == ["data", "model"]
        self.check_learned(result, folder)

    @staticmethod
    def check_learned(result, folder):
        objective = result.history["objective"]
        assert objective[-1] < 0.9 * objective[0]
        assert result.summary["accuracy"] > 0.3
        assert result.summary["lower_bound"] is None
        X, _ = images()
        assert isinstance(result.model, Convolution)
        assert result.model.conv.weight.dtype == np.float32
        assert (result.model.twice, result.model.activation) == (2, jax.nn.relu)
        assert np.argmax(result.model(X[0].astype(np.float32))) in range(10)
        assert folder_names(folder) == FILES
        assert config(folder)["model"] == "Convolution"
        with np.load(folder / "model.npz") as arrays:
            assert np.array_equal(arrays["w.conv.weight"], result.model.conv.weight)

    def test_measures_are_those_of_the_module(self, unequal_run):
        """F/N and the score in NumPy, over clients of unequal size."""
        X, y = images()
        parts, result = UNEQUAL["parts"], unequal_run[0]
        z = jax.vmap(result.model)(X.astype(np.float32))
        losses = jax.nn.logsumexp(z, axis=1) - z[np.arange(len(y)), y.astype(int)]
        weights = jax.tree.leaves(eqx.filter(result.model, eqx.is_inexact_array))
        penalty = 0.5e-2 * sum(np.sum(np.square(w)) for w in weights)
        mean = lambda values: np.mean([np.mean(np.asarray(values)[part]) for part in parts])
        np.testing.assert_allclose(result.certificate.objective, mean(losses) + penalty, rtol=1e-4)
        np.testing.assert_allclose(
            result.summary["accuracy"], mean(np.argmax(z, 1) == y), rtol=1e-5
        )

    @pytest.mark.chaos
    def test_goes_on_bit_for_bit(self, tmp_path, unequal_run):
        start, given = Convolution(jax.random.key(0)), self.GIVEN
        whole = unequal_run[0]
        assert whole.history["objective"][-1] < whole.history["objective"][0]
        feddcd.run(images(), model=start, out=tmp_path / "a", **{**UNEQUAL, "rounds": 3})
        rest = feddcd.resume(tmp_path / "a", images(), model=start, rounds=6, **given)
        assert_same_rounds(rest, whole)

    GIVEN: ClassVar = {"parts": UNEQUAL["parts"], "loss": entropy, "score": right}

    def test_goes_on_only_with_what_was_given(self, unequal_run):
        with pytest.raises(
            FolderError, match=r"objects from Python .data and model and .*model=..."
        ):
            feddcd.resume(unequal_run[1])
        other = Convolution(jax.random.key(1))
        with pytest.raises(FolderError, match="was written with other data"):
            feddcd.resume(unequal_run[1], images(), model=other, **self.GIVEN)

    def test_any_pytree_and_rows_that_are_reshaped(self):
        """Rows from a name, lost uploads, words as labels, padding that no loss may see."""
        W = {"W": np.zeros((3, 3), np.float32), "b": np.zeros(3, np.float32)}
        loss = lambda w, x, y: jnp.sum((x.reshape(-1)[:3] @ w["W"] + w["b"] - y) ** 2) / x[0, 0]
        model = Architecture(W, loss, shape=(1, 4))
        X, y = np.abs(numbers()[0]) + 1, np.where(signs()[1] > 0, "u", "v")
        options = {"parts": PARTS, "tau": 2, "algorithm": "fedavg", "settings": {"lr": 0.01}}
        result = feddcd.run((X, y), model=model, loss=0.1, rounds=4, **options)
        assert np.isfinite(result.history["objective"]).all()
        assert result.spec.loss == 0.1
        assert result.classes.tolist() == ["u", "v"]
        assert result.summary["accuracy"] is None
        assert set(result.model) == {"W", "b"}

    def test_refused(self):
        start = Convolution(jax.random.key(0))
        run = lambda **options: feddcd.run(images(), **{**NETWORK, "model": start, **options})
        with pytest.raises(SpecError, match=r"Convolution.* needs a loss: .* of one example"):
            run(loss=0.1)
        told = r"model 'softmax' has its own\. .*functions of \(model, x, y\)"
        with pytest.raises(SpecError, match=told):
            run(model="softmax")
        with pytest.raises(SpecError, match=r"one number for one example, not .* shape \(10,\)"):
            run(loss=lambda model, x, y: model(x))
        with pytest.raises(SpecError, match="saga works only with linear models, not with Network"):
            run(settings={"solver": "saga"})
        with pytest.raises(
            SpecError,
            match=(
                "feddcd cannot compute a step size here, because the curvature of Network has no "
                "known bound: give lr"
            ),
        ):
            run(algorithm="fedavg")
        with pytest.raises(
            DataError, match=r"a row has 64 numbers, but an example of shape \(3, 3\) has 9"
        ):
            feddcd.run("digits", model=Architecture(start, entropy, shape=(3, 3)), clients=4)
        with pytest.raises(
            SpecError,
            match=(
                r"the model \(of the type list\) has no array of floating-point numbers, so there "
                r"is nothing to train"
            ),
        ):
            run(model=[1, "a"])


class TestAlgorithm:
    def test_an_object_is_recorded_as_its_class(self, tmp_path):
        X, y = signs()
        quick = FedDCD(GradientDescent(steps=3))
        options = {"parts": PARTS, "tau": 2, "l2": 0.1}
        whole = feddcd.run((X, y), algorithm=quick, rounds=6, **options)
        feddcd.run((X, y), algorithm=quick, rounds=2, out=tmp_path / "a", **options)
        said = config(tmp_path / "a")
        assert (said["algorithm"], said["given"]) == ("FedDCD", ["data", "parts", "algorithm"])
        assert "FedDCD on arrays" in (tmp_path / "a" / "report.html").read_text()
        again = {"data": (X, y), "parts": PARTS, "rounds": 6}
        assert_same_rounds(feddcd.resume(tmp_path / "a", algorithm=quick, **again), whole)
        with pytest.raises(
            FolderError, match=r"objects from Python .algorithm.*algorithm=\.\.\.\)"
        ):
            feddcd.resume(tmp_path / "a", **again)

    @pytest.mark.parametrize(
        ("function", "made", "message"),
        [
            ("server_step", lambda made: made[0], "Wrong.server_step must return two values"),
            (
                "server_step",
                lambda made: (1.0, None),
                "Wrong.server_step must .* a state with the same structure",
            ),
            ("client_step", lambda made: (made[0], made[1].value), "the second value is of type"),
            ("client_step", lambda made: made[1], "Wrong.client_step must return two values"),
        ],
    )
    def test_a_function_that_returns_something_else_is_named(self, function, made, message):
        right = getattr(MinibatchSGD, function)
        wrong = type("Wrong", (MinibatchSGD,), {function: lambda *a: made(right(*a))})
        with pytest.raises(SpecError, match=message):
            feddcd.run(signs(), algorithm=wrong(lr=0.1), parts=PARTS, tau=2, l2=0.1)

    def test_settings_beside_an_object_are_refused(self):
        with pytest.raises(
            SpecError, match=r"FedProx is an algorithm object .*, so leave out 'lr'"
        ):
            feddcd.run(signs(), algorithm=FedAvg(), settings={"lr": 0.1}, parts=PARTS)
        with pytest.raises(
            SpecError,
            match="algorithm must be the name of an algorithm or an algorithm object, not 3",
        ):
            feddcd.run(signs(), algorithm=3, parts=PARTS)  # pyright: ignore

    def test_two_objects_of_one_class_need_labels(self):
        two = [MinibatchSGD(lr=0.2), MinibatchSGD(lr=0.1)]
        wanted = r"two .* of the class MinibatchSGD.*\. Give a dict with a label for each, for exam"
        with pytest.raises(SpecError, match=wanted):
            feddcd.compare(signs(), algorithms=two, parts=PARTS)
        with pytest.raises(SpecError, match="name at least one algorithm, and each only once"):
            feddcd.compare(signs(), algorithms=["mbsgd", "mbsgd"], parts=PARTS)

    @pytest.mark.chaos
    def test_compare_takes_objects(self, tmp_path):
        quick, slow = MinibatchSGD(lr=0.2), MinibatchSGD(lr=0.1)
        options = {"parts": PARTS, "model": "logistic", "tau": 2, "l2": 0.1, "rounds": 2}
        mixed = feddcd.compare(
            signs(), algorithms=["mbsgd", quick], settings={"mbsgd": {"lr": 0.1}}, **options
        )
        assert list(mixed.results) == ["mbsgd", "MinibatchSGD"]
        named = {"quick": quick, "slow": slow, "plain": "mbsgd"}
        race = feddcd.compare(
            signs(),
            algorithms=named,
            settings={"plain": {"lr": 0.1}},
            out=tmp_path / "a",
            **options,
        )
        assert list(race.to_pandas()["algorithm"]) == list(named)
        assert config(tmp_path / "a" / "slow")["algorithm"] == "MinibatchSGD"
        assert config(tmp_path / "a" / "plain")["settings"] == {"lr": 0.1}
        longer = feddcd.compare(
            signs(), algorithms=named, settings={"plain": {"lr": 0.1}}, out=tmp_path / "a",
            resume=True, **{**options, "rounds": 4},
        )  # fmt: skip
        assert [r.history.rounds for r in longer.results.values()] == [4, 4, 4]
        with pytest.raises(
            SpecError, match=r"class MinibatchSGD.* give a dict with a label for ea"
        ):
            feddcd.compare(signs(), algorithms=[quick, slow], **options)
        with pytest.raises(SpecError, match="the label 'a/b' cannot be a folder name"):
            feddcd.compare(signs(), algorithms={"a/b": quick}, **options)


def test_a_start_of_ones_choice():
    far = feddcd.run(signs(), parts=PARTS, **USUAL)
    near = feddcd.run(signs(), parts=PARTS, w=far.model, **USUAL)
    assert near.history["objective"][0] < far.history["objective"][0]
    with pytest.raises(SpecError, match=r"w must have the same shapes as the model: \(4, 1\)"):
        feddcd.run(signs(), parts=PARTS, w=np.zeros(4), **USUAL)


def test_a_file_may_not_name_other_objects():
    with pytest.raises(
        SpecError, match="the setting 'given' has the unknown name 'solver'; known names: "
    ):
        feddcd.Spec(given=("solver",))


def test_resume_needs_a_folder():
    with pytest.raises(SpecError, match=r"resume=True .* out="):
        feddcd.run(signs(), resume=True)


def test_a_name_that_is_no_option_gets_the_name_that_was_meant():
    """Of all arguments; what is a setting of a method belongs into the settings."""
    alike = {"ouut": "out", "seads": "seeds", "bitz": "bits", "watsh": "watch"}
    for call in (feddcd.run, feddcd.compare):
        for odd, right in alike.items():
            with pytest.raises(SpecError, match=f"no option '{odd}'; did you mean '{right}'") as no:
                call("wine", **{odd: 2})
            assert "settings=" not in str(no.value)
            assert {"problem", "w", "score", "names", "parts", "resume"} <= {
                *str(no.value).split(", ")
            }
            assert "given" not in str(no.value)
    with pytest.raises(SpecError, match="Settings of a method go into settings, for example"):
        feddcd.run("wine", zzzz=2)
    with pytest.raises(SpecError, match=r"so give it in settings, .*settings=\{'delta': 0\.2\}$"):
        feddcd.run("wine", delta=0.2)
    with pytest.raises(SpecError, match=r"settings=\{'fedavg': \{'lr': 0\.1\}\}$"):
        feddcd.compare("wine", lr=0.1)
    with pytest.raises(SpecError, match="no option 'algorithm'; did you mean 'algorithms'"):
        feddcd.compare("wine", algorithm="fedavg")


def test_a_message_says_how_the_clients_of_a_list_are_counted():
    X, y = np.ones((4, 2)), np.array([0, 1, 0, 1])
    told = r"^client 1: X has nan at row 0, column 0 \(.*\); clients are counted from 0$"
    with pytest.raises(DataError, match=told):
        feddcd.run([(X, y), (X * np.nan, y)])
    with pytest.raises(DataError, match=r"^client 7: .* \(row and column are counted from 0\)$"):
        feddcd.run({"5": (X, y), "7": (X * np.nan, y)})


def test_a_refused_target_names_the_argument_of_python():
    X = np.arange(120.0).reshape(60, 2)
    with pytest.raises(DataError, match=r"use model='ridge', or poisson for counts$"):
        feddcd.run((X, X[:, 0] + 0.5), clients=2)


@pytest.mark.parametrize("model", ["logistic", "softmax"])
def test_a_model_of_own_tables_predicts_as_the_page_says(model):
    """It has no intercept; the accuracy of the run is that of these predictions."""
    X, y = signs()
    result = feddcd.run([(X[part], y[part]) for part in PARTS], **USUAL | {"model": model})
    z = X @ result.model
    best = z.argmax(axis=1) if model == "softmax" else (z[:, 0] > 0).astype(int)
    assert result.model.shape == (D, 2 if model == "softmax" else 1)
    right = [np.mean(result.classes[best[part]] == y[part]) for part in PARTS]
    assert np.mean(right) == pytest.approx(result.summary["accuracy"])
