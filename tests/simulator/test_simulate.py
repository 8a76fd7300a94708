"""Runs: reproducible, the same side by side and resumed, counted and measured rightly."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp

import feddcd
from feddcd.algorithms import (
    AccFedDCD,
    FedAvg,
    FedDCD,
    FedNewton,
    MinibatchSGD,
    PointSAGA,
    Scaffold,
)
from feddcd.data import Dataset
from feddcd.data.federate import federate
from feddcd.history import COLUMNS, History
from feddcd.participation import Available, UniformSubset
from feddcd.problems import Dense
from feddcd.runs.sizes import message_sizes
from feddcd.simulator.simulate import federation
from feddcd.solvers import SGD, GradientDescent
from federations import ALGORITHMS, TAU, D, N, play, quadratics
from slices import sliced

SIZES = (4, 11, 6, 9)  # unequal clients
FOUR = {"partition": "contiguous", "clients": 4, "l2": 0.1}  # of the rows in a file
LOSSY = {"tau": 3, "loss": 0.3, "settings": {"start": "model", "solver": "gd"}}
SOME_LOST = {"tau": 2, "loss": 0.1}
TWO = {"tau": 2, "settings": {"sets": 2, "solver": "gd"}}
BATCHES = {"settings": {"epochs": 2, "batch_size": 4}}


@pytest.fixture
def x64():
    with jax.enable_x64(True):
        yield


def rows():
    """Three classes in 3 dimensions, and the rows of four clients."""
    random = np.random.default_rng(0)
    X = random.normal(size=(sum(SIZES), 3))
    y = np.argmax(X @ random.normal(size=(3, 3)) + random.normal(size=(len(X), 3)), 1)
    return X, y.astype(float), np.split(np.arange(len(X)), np.cumsum(SIZES)[:-1])


@pytest.fixture(scope="module")
def data_file(tmp_path_factory):
    """The rows as a file, which a resumed run can read again."""
    X, y, _ = rows()
    path = tmp_path_factory.mktemp("data") / "rows.svm"
    lines = [
        f"{int(label)} " + " ".join(f"{j + 1}:{float(v)!r}" for j, v in enumerate(x))
        for label, x in zip(y, X, strict=True)
    ]
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.mark.usefixtures("x64")
class TestEngine:
    def test_same_seed_same_records(self):
        algorithm, f = ALGORITHMS["feddcd"].make(N, TAU, jnp.zeros(D)), quadratics("unequal")
        one, two, other = (
            play(algorithm, f, Available(N, 0.5), 30, seed, side_by_side=False)
            for seed in (5, 5, 6)
        )
        for a, b in zip(one.records, two.records, strict=True):
            assert np.array_equal(a, b, equal_nan=True)
        assert np.array_equal(one.model, two.model)
        assert not np.array_equal(one.records.objective, other.records.objective)

    # test_threads.py has SCAFFOLD one by one and on threads
    @pytest.mark.parametrize("name", sliced(("feddcd", "scaffold-2", "accfeddcd"), ("feddcd",)))
    def test_one_by_one_equals_side_by_side(self, name):
        algorithm = ALGORITHMS[name].make(N, TAU, jnp.zeros(D))
        run = lambda side_by_side: play(
            algorithm, quadratics("unequal"), Available(N, 0.5), 25, side_by_side=side_by_side
        )
        turn, beside = run(False), run(True)
        np.testing.assert_allclose(turn.model, beside.model, rtol=0, atol=1e-10)
        for a, b in zip(jax.tree.leaves(turn.state), jax.tree.leaves(beside.state), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-10)
        for column in ("asked", "arrived"):
            assert np.array_equal(getattr(turn.records, column), getattr(beside.records, column))
        for column in ("objective", "grad_norm"):
            np.testing.assert_allclose(
                getattr(turn.records, column), getattr(beside.records, column), rtol=0, atol=1e-10
            )

    def test_absent_clients_do_no_work(self):
        """Side by side they are computed too, but not counted: FedAvg takes 3 steps a client."""
        algorithm = ALGORITHMS["fedavg"].make(N, TAU, jnp.zeros(D))
        for side_by_side in (False, True):
            records = play(
                algorithm, quadratics("equal"), Available(N, 0.5), 20, side_by_side=side_by_side
            ).records
            assert len(set(records.asked)) > 1
            assert np.array_equal(records.steps, 3 * records.asked), f"{side_by_side=}"

    # test_solvers.py has mini-batches with and without padding
    STEPS = pytest.param(FedAvg(SGD(batch_size=4, epochs=2)), marks=pytest.mark.chaos)

    NEWTON = pytest.param(FedDCD(), marks=pytest.mark.chaos)
    DUAL = pytest.param(FedDCD(GradientDescent(steps=5)), marks=pytest.mark.chaos)

    @pytest.mark.parametrize("algorithm", [FedAvg(GradientDescent(steps=5)), DUAL, NEWTON, STEPS])
    def test_padding_has_no_influence(self, algorithm):
        X, y, parts = rows()
        f = federate(Dataset("made", X, y), parts, l2=0.1).problem
        longer = lambda x: jax.device_put(np.pad(x, [(0, 0), (0, 7)] + [(0, 0)] * (x.ndim - 2)))
        padded = eqx.tree_at(
            lambda f: (f.X, f.Y, f.s), f, (Dense(longer(f.X.X)), longer(f.Y), longer(f.s))
        )
        w0 = jnp.zeros((3, 3))
        a, b = (play(algorithm, g, UniformSubset(4, 3), 12, seed=1, w0=w0) for g in (f, padded))
        np.testing.assert_allclose(a.model, b.model, rtol=0, atol=1e-8)
        np.testing.assert_allclose(a.records.objective, b.records.objective, rtol=0, atol=1e-8)


@pytest.mark.usefixtures("x64")
class TestMessages:
    """Bytes of a message, by hand: W is 3 by 3, a double is 8 bytes, a counter 4."""

    W = 9 * 8

    def sizes(self, algorithm):
        X, y, parts = rows()
        made = federate(Dataset("made", X, y), parts, l2=0.1)
        return message_sizes(
            federation(algorithm, made.problem, UniformSubset(4, 2), seed=0), made.w
        )

    def test_feddcd(self):
        assert self.sizes(FedDCD())[:3] == (0, self.W, self.W)
        assert self.sizes(FedDCD(start="model"))[:3] == (self.W, self.W, self.W)

    def test_accfeddcd(self):
        """Down t and κ, back κ; where κ is not given down its 16 values, up α and a square."""
        assert self.sizes(AccFedDCD(2, 4))[:3] == (4 + 16 * 8, self.W + 16, self.W + 12)
        assert self.sizes(AccFedDCD(2, 4, kappa=0.1))[:3] == (4 + 8, self.W, self.W + 12)

    def test_pointsaga(self):
        """One download, one upload, no answer; up five scalars where ρ is not given."""
        assert self.sizes(PointSAGA(2, 4))[:3] == (self.W + 8 + 4, self.W + 40, 0)
        assert self.sizes(PointSAGA(2, 4, rho=1.0))[:3] == (self.W + 8 + 4, self.W, 0)

    def test_scaffold(self):
        assert self.sizes(Scaffold())[:3] == (2 * self.W, 2 * self.W, 0)

    def test_fedavg(self):
        assert self.sizes(FedAvg())[:3] == (self.W, self.W, 0)

    def test_fednewton(self):
        """The upper triangle of H, b, and a few numbers about the step; one bit back."""
        down, up, answer, _ = self.sizes(FedNewton(jnp.zeros((3, 3))))
        assert self.W <= down <= 2 * self.W
        assert 8 * (45 + 9) <= up <= 8 * (45 + 9 + 4)
        assert answer == 1

    def test_certificate(self):
        """A scalar and a vector for the model, and the same for a client's own point."""
        assert self.sizes(FedDCD()).certificate == 2 * (self.W + 8)
        assert self.sizes(FedAvg()).certificate == self.W + 8


class TestColumns:
    def test_counts_under_losses(self, data_file):
        """The model goes to all that are asked, the answer to those that arrived."""
        history = feddcd.run(data_file, rounds=12, **FOUR, **LOSSY).history
        W = 9 * 8
        arrived = np.diff(history["uploads"], prepend=0)
        assert set(arrived) <= {0, 2, 3}
        assert min(arrived) < 3
        assert np.array_equal(history["bytes_up"], W * history["uploads"])
        assert np.array_equal(
            history["bytes_down"], W * (3 * history["round"] + history["uploads"])
        )
        assert np.array_equal(history["round"], np.arange(1, 13))

    @pytest.mark.chaos
    def test_an_iteration_may_be_two_rounds(self, data_file):
        class Two(MinibatchSGD):
            @property
            def rounds_per_iteration(self):
                return 2

        two = feddcd.run(data_file, rounds=7, **FOUR, algorithm=Two(lr=0.1), tau=2)
        assert two.history["iteration"].tolist() == [1, 1, 2, 2, 3, 3, 4]
        assert two.history["round"].tolist() == [1, 2, 3, 4, 5, 6, 7]
        assert two.summary["iterations"] == 4
        assert [AccFedDCD(2, 4, sets=sets).rounds_per_iteration for sets in (1, 2)] == [1, 2]

    @pytest.mark.chaos
    def test_an_iteration_of_accfeddcd_is_two_rounds(self, data_file):
        two = feddcd.run(data_file, rounds=7, **FOUR, algorithm="accfeddcd", **TWO)
        assert two.history["iteration"].tolist() == [1, 1, 2, 2, 3, 3, 4]
        assert two.history["round"].tolist() == [1, 2, 3, 4, 5, 6, 7]
        assert two.history["uploads"].tolist() == [2, 4, 6, 8, 10, 12, 14]
        assert two.summary["iterations"] == 4

    @pytest.mark.chaos
    def test_or_one_with_one_set(self, data_file):
        settings = {"sets": 1, "kappa": 0.1, "solver": "gd"}
        one = feddcd.run(
            data_file, rounds=7, **FOUR, algorithm="accfeddcd", tau=2, settings=settings
        )
        assert one.history["iteration"].tolist() == [1, 2, 3, 4, 5, 6, 7]

    @pytest.mark.parametrize("weighting", ["clients", "samples"])
    def test_objective_is_the_mean_over_clients_or_rows(self, weighting):
        """F/N in NumPy: mean_i mean_j loss_ij, or the mean over all rows; plus l2/2 |W|²."""
        X, y, parts = rows()
        few = {"tau": 3, "rounds": 6, "l2": 0.1, "algorithm": "mbsgd"}
        result = feddcd.run((X, y), parts=parts, weighting=weighting, **few)
        z = X @ result.model
        losses = logsumexp(z, axis=1) - z[np.arange(len(y)), y.astype(int)]
        right = np.argmax(z, 1) == y
        if weighting == "clients":
            mean = lambda x: np.mean([x[part].mean() for part in parts])
        else:
            mean = np.mean
        expected = mean(losses) + 0.05 * np.sum(result.model**2)
        np.testing.assert_allclose(result.history["objective"][-1], expected, rtol=1e-13)
        np.testing.assert_allclose(result.certificate.objective, expected, rtol=1e-13)
        np.testing.assert_allclose(result.history["accuracy"][-1], mean(right), rtol=1e-13)

    def test_target_gap_ends_a_run(self, data_file):
        result = feddcd.run(
            data_file, rounds=400, **FOUR, algorithm="fednewton", tau=3, target_gap=1e-6
        )
        assert 5 <= result.history.rounds < 400
        assert result.history.rounds % 5 == 0
        assert 0 <= result.certificate.gap <= 1e-6
        assert result.history["certified_gap"][-1] == result.certificate.gap
        earlier = result.history["certified_gap"][:-1]
        assert np.all(earlier[~np.isnan(earlier)] > 1e-6)
        gaps = result.history["certified_gap"]
        assert np.flatnonzero(gaps <= 1e-6).tolist() == [result.history.rounds - 1]
        bounds = result.history["lower_bound"]
        assert np.all(np.diff(bounds[~np.isnan(bounds)]) >= 0)


class TestPrecision:
    def test_double_without_a_global_setting(self, data_file):
        assert not jax.config.jax_enable_x64
        result = feddcd.run(data_file, rounds=6, **FOUR, **LOSSY, algorithm="feddcd")
        assert not jax.config.jax_enable_x64
        assert jnp.zeros(1).dtype == jnp.float32
        assert result.model.dtype == np.float64
        assert result.history["dual_residual"].max() < 1e-14
        assert result.model.shape == (3, 3)

    def test_single_on_request(self):
        X, y, parts = rows()
        few = {"tau": 2, "rounds": 3, "l2": 0.1, "algorithm": "mbsgd"}
        result = feddcd.run((X, y), parts=parts, dtype="float32", **few)
        assert result.model.dtype == np.float32
        assert not jax.config.jax_enable_x64


class TestResume:
    @pytest.mark.parametrize(
        ("algorithm", "more"),
        [
            ("feddcd", LOSSY),
            pytest.param("accfeddcd", TWO, marks=pytest.mark.chaos),
            pytest.param("accfeddcd", SOME_LOST, marks=pytest.mark.chaos),
            pytest.param("scaffold", SOME_LOST | BATCHES, marks=pytest.mark.chaos),
            pytest.param("pointsaga", SOME_LOST, marks=pytest.mark.chaos),
            pytest.param("fednewton", SOME_LOST, marks=pytest.mark.chaos),
            ("fedqn", SOME_LOST),
        ],
    )
    def test_bit_identical(self, algorithm, more, data_file, tmp_path):
        """Twenty rounds at once, or seven and then the rest; seven is within a chunk, within an
        iteration of AccFedDCD and, but for that, anywhere."""
        options = {**FOUR, **more, "algorithm": algorithm, "seed": 3}
        whole = feddcd.run(data_file, rounds=20, **options)
        feddcd.run(data_file, rounds=7, out=tmp_path / "run", **options)
        resumed = feddcd.resume(tmp_path / "run", rounds=20)
        assert whole.history.rounds == resumed.history.rounds == 20
        for name in COLUMNS:
            if name not in ("seconds", "lower_bound", "certified_gap"):
                np.testing.assert_array_equal(whole.history[name], resumed.history[name], name)
        assert np.array_equal(whole.model, resumed.model)
        assert resumed.certificate.lower_bound >= whole.certificate.lower_bound
        assert np.all(np.diff(resumed.history["seconds"]) >= 0)
        saved = History.load(tmp_path / "run" / "history.csv")
        for name in COLUMNS:
            np.testing.assert_array_equal(saved[name], resumed.history[name], name)
        with np.load(tmp_path / "run" / "model.npz") as file:
            assert np.array_equal(file["w"], whole.model)
