"""The rates and bounds: against derivations of their own, and against what the methods do."""

import csv
import itertools
import math
import shlex
import subprocess
import sys
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from feddcd.algorithms import AccFedDCD, PointSAGA
from feddcd.algorithms._base import Curvature
from feddcd.cli.app import main
from feddcd.paper import rates, theory
from feddcd.problems import optimum, worst_case_chain

SETTINGS = [
    (N, tau, alpha, alpha * c)
    for N, tau in itertools.product((2, 10, 100), (2, 3, 30, 100))
    for alpha, c in itertools.product((1e-3, 2.0), (1, 30, 1e6))
    if tau <= N
]
UPPER = {"FedDCD": theory.feddcd, "AccFedDCD": theory.accfeddcd, "Point-SAGA": theory.pointsaga}

errors = cache(rates.errors)
gaps = cache(rates.chain_gaps)


@cache
def least() -> np.ndarray:
    bound = theory.lower_bound(rates.CHAIN_N, rates.CHAIN_TAU, rates.CHAIN_ALPHA, rates.CHAIN_BETA)
    return np.array([bound.on_chain(t) / bound.start for t in range(15_000)])


def first_below(values: np.ndarray, eps: float) -> int:
    """The round from which on the values stay below eps."""
    return int(np.flatnonzero(values > eps)[-1]) + 1


class TestValues:
    TAUS = (2, 5, 10, 20)

    def test_the_bounds_in_the_notes(self):
        """N = 20, β/α = 30."""
        found = [theory.feddcd(20, tau, 0.1, 3).factor for tau in self.TAUS]
        np.testing.assert_allclose(found, [0.998, 0.993, 0.984, 0.967], atol=5e-4)
        found = [theory.accfeddcd(20, tau, 0.1, 3).factor for tau in self.TAUS]
        np.testing.assert_allclose(found, [0.990, 0.963, 0.920, 0.846], atol=5e-4)

    def test_inexact(self):
        # κ = 4 · 0.1/(32 · 19 · 3)
        found = theory.inexact_settings(20, 5, 0.1, 3)
        assert found == pytest.approx((0.4 / 1824, (1 - 0.4 / 1824) / 4, 0.25))
        assert theory.inexact_feddcd(20, 5, 0.1, 3).factor == pytest.approx(1 - found.kappa)

    @pytest.mark.parametrize(("N", "tau", "alpha", "beta"), SETTINGS)
    def test_as_the_algorithms_have_them(self, N, tau, alpha, beta):
        with jax.enable_x64(True):
            a, s, length = AccFedDCD(tau, N).coefficients(jnp.asarray(alpha / beta))
            rho = PointSAGA(tau, N)._rho(Curvature(jnp.asarray(alpha), jnp.asarray(beta)))
        found = theory.acceleration(N, tau, alpha, beta)
        expected = (float(a), float(s), float(length))
        assert (found.a, found.s, found.a * found.r / (found.a**2 + found.b)) == pytest.approx(
            expected
        )
        assert theory.pointsaga_rho(N, tau, alpha, beta) == pytest.approx(float(rho))

    def test_everyone_with_the_best_condition_needs_one_round(self):
        rate = theory.feddcd(5, 5, 2.0, 2.0)
        assert (rate.factor, rate.at(0), rate.at(1), rate.rounds(1e-9)) == (0, 1, 0, 1)

    @pytest.mark.parametrize("eps", [0.5, 1e-3, 1e-12])
    @pytest.mark.parametrize("name", UPPER)
    def test_rounds_is_the_first_one(self, name, eps):
        rate = UPPER[name](100, 30, 0.01, 2.5)
        t = rate.rounds(eps)
        assert rate.at(t) <= eps < rate.at(t - 1)

    @pytest.mark.parametrize(
        "case",
        [
            (20, 1, 30),
            pytest.param((20, 2, 30), marks=pytest.mark.chaos),
            pytest.param((20, 20, 30), marks=pytest.mark.chaos),
            (10, 2, 1e3),
        ],
    )
    def test_point_saga_shrinks_its_lyapunov_function(self, case):
        """With X = x - x*, Y_i = g_i - g_i*, γ = 1/ρ, one round is W_i = X + γ(Y_i - Ȳ) - γY_i',
        E|X⁺|² <= mean|W_i|², E mean|Y⁺|² = (1-p) mean|Y|² + p mean|Y'|², p = τ/N, and for
        every i  <Y_i', W_i> >= (αβ/(α+β))|W_i|² + |Y_i'|²/(α+β).

        E T⁺ <= λ T, T = |X|² + mean|Y|²/(αβ), holds if with some multiplier m >= 0 two forms are
        negative, one in the means (X, Ȳ'), one in the deviations from them (y, y'); Ȳ is alone.
        """
        N, tau, c = case
        alpha, beta, n = 1.0, c, N / tau
        # τ = 1 is Defazio's case, which `theory` refuses
        gamma = (math.sqrt((n - 1) ** 2 + 4 * n * c) - (n - 1)) / (2 * beta * n)
        factor = 1 / (1 + alpha * gamma)
        if tau > 1:
            assert theory.pointsaga(N, tau, alpha, beta).factor == pytest.approx(factor)
        product = lambda u, v: (np.outer(u, v) + np.outer(v, u)) / 2
        p, scale = tau / N, 1 / (alpha * beta)
        first, second = np.eye(2)

        def worst(m):
            def form(w, before):
                gained = product(second, w) - alpha * beta / (alpha + beta) * product(w, w)
                gained = gained - product(second, second) / (alpha + beta)
                return product(w, w) + p * scale * product(second, second) + m * gained - before

            means = form(first - gamma * second, factor * product(first, first))
            kept = (factor - (1 - p)) * scale * product(first, first)
            deviations = form(gamma * (first - second), kept)
            return max(np.linalg.eigvalsh(means)[-1], np.linalg.eigvalsh(deviations)[-1])

        assert 1 - p <= factor
        assert min(worst(m) for m in gamma * np.linspace(1.5, 2.5, 2001)) <= 1e-12

    @pytest.mark.parametrize("name", UPPER)
    def test_more_of_everything_good_is_better(self, name):
        gain = lambda *where: UPPER[name](*where).gain
        base = gain(50, 10, 0.1, 3)
        assert gain(50, 11, 0.1, 3) > base
        assert gain(51, 10, 0.1, 3) < base
        assert gain(50, 10, 0.11, 3) > base
        assert gain(50, 10, 0.1, 3.1) < base
        assert gain(50, 10, 0.2, 6) == pytest.approx(base)  # only β/α matters
        rate = UPPER[name](50, 10, 0.1, 3)
        assert rate.rounds(1e-6) > rate.rounds(1e-3) > rate.rounds(0.1)


class TestLowerBound:
    WHERE = (10, 3, 1e-3, 1.0)

    def test_it_is_a_sum_over_the_coordinates_known(self):
        """E (N α/2) sum_{i > K} q^(2i), K ~ Binomial(t, τ/N); on the paper's chain the first
        success counts twice."""
        N, tau, alpha, _ = self.WHERE
        bound, t, p = theory.lower_bound(*self.WHERE), 12, tau / N
        assert bound.q == pytest.approx(9 / 11)  # β/(N α) = 10²
        tail = lambda k: N * alpha / 2 * bound.q ** (2 * k + 2) / (1 - bound.q**2)
        chances = [math.comb(t, k) * p**k * (1 - p) ** (t - k) for k in range(t + 1)]
        expected = sum(c * tail(k) for k, c in enumerate(chances))
        assert bound.at(t) == pytest.approx(expected)
        expected = sum(c * tail(k + (k > 0)) for k, c in enumerate(chances))
        assert bound.on_chain(t) == pytest.approx(expected)
        assert bound.q**2 * bound.at(t) < bound.on_chain(t) < bound.at(t)

    def test_the_start_of_the_chain(self):
        N, _, alpha, beta = self.WHERE
        with jax.enable_x64(True):
            f = worst_case_chain(N, 200, alpha=alpha, beta=beta)
            w, b = np.asarray(optimum(f)), np.asarray(f.b).sum(0)
        start = b @ w / 2  # F(0) - F*
        bound = theory.lower_bound(*self.WHERE)
        assert bound.start == pytest.approx(start)
        assert bound.at(0) == pytest.approx(N * alpha / 2 * (w @ w))
        assert bound.rounds(1e-4) == math.ceil(math.log(1e3) / -math.log(bound.factor))
        assert bound.rounds(0.5) == 0

    def test_trivial_unless_beta_is_large(self):
        for beta in (0.5, 1.0):
            bound = theory.lower_bound(10, 2, 0.1, beta)
            assert bound.trivial
            assert (bound.at(0), bound.at(5), bound.rounds(1e-9)) == (0, 0, 0)
        assert not theory.lower_bound(10, 2, 0.1, 1.01).trivial

    @pytest.mark.parametrize(("N", "tau", "alpha", "beta"), SETTINGS)
    def test_no_theorem_contradicts_it(self, N, tau, alpha, beta):
        bound = theory.lower_bound(N, tau, alpha, beta)
        if bound.trivial:
            return
        for name, upper in UPPER.items():
            cohorts = 2 if name == "AccFedDCD" else 1
            assert bound.factor**cohorts < upper(N, tau, alpha, beta).factor

    def test_as_printed_it_contradicts_the_accelerated_theorem(self):
        """E gap >= C₁ 0.9999887^t and <= C₂ 0.99971^t cannot both hold for large t, not even with
        two rounds for one of AccFedDCD's: the min in the theorem takes the wrong case."""
        where = (100, 30, 1.0, 1e6)
        printed = theory.lower_bound_as_printed(*where)
        assert printed == pytest.approx(1 - 8 * math.sqrt(2) / 1e6)
        assert printed**2 > theory.accfeddcd(*where).factor
        assert printed > theory.pointsaga(*where).factor
        # the case that applies (β > N α) has (τ/sqrt(N)) 4/sqrt(β/α) = 0.012
        assert theory.lower_bound(*where).factor == pytest.approx(1 - 0.012, abs=5e-4)


class TestTable:
    def test_the_primal_rows(self):
        """N=100, τ=20, α=0.1, β=10, ε=0.01, ζ=2, σ=3, K=4: S = 9/(20·0.1·0.01) = 450."""
        found = theory.predictions(100, 20, 0.1, 10, 0.01, zeta=2, sigma=3, local_steps=4)
        rounds = {row.method: row.rounds for row in found}
        log = math.log(100)
        assert rounds["MB-SGD"] == pytest.approx(450 + 0.8 * 4 / 0.02 + 100 * log)
        drift = math.sqrt(10) * (2 * 4 + 3 * 2) / (0.1 * 0.1)
        assert rounds["FedAvg"] == pytest.approx(450 / 4 + drift + 100 * log)
        assert rounds["SCAFFOLD"] == pytest.approx(450 / 4 + (100 + 5) * log)

    def test_the_dual_rows_are_bounds(self):
        where = (100, 30, 0.01, 2.5)
        rows = {row.method: row for row in theory.predictions(*where, 1e-3)}
        assert list(rows) == [
            "MB-SGD", "FedAvg", "SCAFFOLD", "FedDCD", "FedDCD inexact", "AccFedDCD",
            "Point-SAGA", "any method",
        ]  # fmt: skip
        kinds = ["order"] * 3 + ["bound"] * 4 + ["lower"]
        assert [row.kind for row in rows.values()] == kinds
        assert rows["AccFedDCD"].uploads_per_round == 60
        for name, upper in UPPER.items():
            row, rate = rows[name], upper(*where)
            assert (row.gain, row.rounds) == (rate.gain, rate.rounds(1e-3))
            assert row.uploads == row.rounds * row.uploads_per_round
            assert row.rounds > rows["any method"].rounds
        assert rows["Point-SAGA"].uploads < rows["AccFedDCD"].uploads < rows["FedDCD"].uploads

    def test_the_ends_of_the_orders(self):
        """log(1/ε) (N/τ) β/α, and so on, up to constants near 1 when β/α and N/τ are large."""
        N, tau, c, eps = 10_000, 100, 1e6, 1e-6
        log = math.log(1 / eps)
        ratio = lambda upper, order: upper(N, tau, 1.0, c).rounds(eps) / (order * log)
        assert ratio(theory.feddcd, N / tau * c) == pytest.approx(1, abs=0.02)
        assert ratio(theory.accfeddcd, N / tau * math.sqrt(c)) == pytest.approx(1.06, abs=0.02)
        assert ratio(theory.pointsaga, N / tau + math.sqrt(N / tau * c)) < 1.01


WRONG = {
    "--tau 1": "must be from 2 to N; got tau=1, N=100",
    "--tau 101": "must be from 2 to N; got tau=101, N=100",
    "--alpha 0": "need 0 < alpha <= beta, got alpha=0.0, beta=2.5",
    "--alpha 3": "need 0 < alpha <= beta, got alpha=3.0, beta=2.5",
    "--beta nan": "need 0 < alpha <= beta, got alpha=0.01, beta=nan",
    "--beta inf": "need 0 < alpha <= beta, got alpha=0.01, beta=inf",
    "--eps 1": "need 0 < eps < 1, got eps=1.0",
    "--eps 0": "need 0 < eps < 1, got eps=0.0",
    "--zeta -1": "got zeta=-1.0, sigma=0.0, local_steps=1",
    "--sigma nan": "got zeta=1.0, sigma=nan, local_steps=1",
    "--local-steps 0": "got zeta=1.0, sigma=0.0, local_steps=0",
}


class TestCommand:
    @staticmethod
    def run(command: str):
        with pytest.raises(SystemExit) as stop:
            main(shlex.split(f"theory {command}"))
        return stop.value.code

    def test_prints_the_table(self, capsys):
        options = "--N 100 --tau 30 --alpha 0.01 --beta 2.5 --eps 1e-3"
        assert self.run(options) == 0
        lines = capsys.readouterr().out.splitlines()
        assert all(len(line) <= 80 for line in lines)
        (row,) = [line for line in lines if line.split()[:1] == ["AccFedDCD"]]
        # factor, uploads a round, rounds, uploads
        assert row.split()[2:] == ["0.98181", "60", "415", "24,900", "bound"]
        assert any(line.split()[:1] == ["order:"] and "constant" in line for line in lines)
        assert self.run("") == 0
        assert capsys.readouterr().out.splitlines() == lines  # these are the defaults

    def test_says_when_the_lower_bound_is_trivial(self, capsys):
        assert self.run("--N 100 --alpha 0.01 --beta 0.9") == 0
        assert "trivial" in capsys.readouterr().out.split()

    @pytest.mark.parametrize("options", WRONG)
    def test_bad_input(self, options, capsys):
        assert self.run(options) == 2
        out, err = capsys.readouterr()
        assert out == ""
        assert WRONG[options] in err
        assert err.count("\n") == 1

    def test_out_is_a_folder(self, tmp_path, capsys):
        (tmp_path / "file").write_text("")
        assert self.run(f"--out {shlex.quote(str(tmp_path / 'file'))}") == 2
        assert "is a file, not a folder" in capsys.readouterr().err

    def test_nothing_heavy_is_loaded(self):
        script = (
            "import sys\nfrom feddcd.cli.app import main\n"
            "try:\n    main(['theory'])\nexcept SystemExit as stop:\n    assert stop.code == 0\n"
            "heavy = {'jax', 'numpy', 'matplotlib'} & set(sys.modules)\n"
            "sys.exit(f'loaded {heavy}' if heavy else 0)\n"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr


class TestParts:
    """What the experiments use in place of the library's own."""

    def test_the_chain_is_the_worst_case(self):
        every = lambda look: jax.vmap(jax.value_and_grad(lambda w, f: f(w)), look)

        @jax.jit
        def compare(full, w, center):
            change = jax.vmap(lambda f: f.tilted(w).proximal(0.3, center))
            full, short = change(full), change(rates.Chain(full))
            solve = lambda solver: jax.vmap(
                lambda f: rates.Exact(solver)(f, w, jax.random.key(0)).w
            )
            slopes = [
                every(0)(solve(rates.dense)(full), full)[1],
                every(0)(solve(rates.by_blocks)(short), full)[1],
            ]
            return every((None, 0))(w, full), every((None, 0))(w, short), slopes

        with jax.enable_x64(True):
            full = worst_case_chain(3, 8, alpha=0.1, beta=2.0)
            expected, found, slopes = compare(full, *np.random.default_rng(0).normal(size=(2, 8)))
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-14)
        np.testing.assert_allclose(slopes, 0, atol=1e-14)

    def test_some_of_is_a_uniform_subset(self):
        draw = lambda seed: rates.SomeOf(6, jnp.asarray(2))(jax.random.key(seed)).arrived
        there = np.asarray(jax.jit(jax.vmap(draw))(jnp.arange(4000)))
        assert np.all(there.sum(1) == 2)
        pairs = there.T.astype(float) @ there / len(there)
        expected = np.where(np.eye(6), 2 / 6, 2 / 30)
        np.testing.assert_allclose(pairs, expected, atol=0.025)

    def test_where_the_chain_is_cut_does_not_matter(self):
        bound = theory.lower_bound(
            rates.CHAIN_N, rates.CHAIN_TAU, rates.CHAIN_ALPHA, rates.CHAIN_BETA
        )
        assert bound.q**rates.CHAIN_D < 1e-16


@pytest.mark.chaos  # test_rates.py has less of the same
class TestMeasured:
    @pytest.mark.parametrize("name", rates.METHODS)
    def test_never_worse_than_the_bound(self, name):
        """In every round, and for every τ."""
        for tau, paths in zip(rates.TAUS, errors(name), strict=True):
            rate = rates.METHODS[name].rate(rates.N, tau, rates.ALPHA, rates.BETA)
            mean = paths.mean(0)
            bound = mean[rate.delay] * np.array([rate.at(t) for t in range(len(mean))])
            assert np.all(mean[rate.delay :] <= bound[rate.delay :] * (1 + 1e-9) + 1e-13)

    def test_contractions(self, monkeypatch):
        """Near those in the notes, which are of other quadratics."""
        monkeypatch.setattr(rates, "errors", errors)
        found = {name: rates.contractions(name) for name in rates.METHODS}
        for rows in found.values():
            assert [row.tau for row in rows] == [2, 5, 10, 20]
            assert all(row.measured < row.bound for row in rows)
        measured = lambda name: [row.measured for row in found[name]]
        np.testing.assert_allclose(measured("FedDCD"), [0.988, 0.976, 0.958, 0.924], atol=0.015)
        np.testing.assert_allclose(measured("AccFedDCD"), [0.981, 0.936, 0.861, 0.679], atol=0.02)
        assert all(a < b for a, b in zip(measured("Point-SAGA"), measured("FedDCD"), strict=True))

    # test_rates.py has SCAFFOLD on a shorter chain
    @pytest.mark.parametrize(
        "name",
        [
            pytest.param(name, marks=[pytest.mark.chaos] * (name == "SCAFFOLD"))
            for name in rates.CHAIN_METHODS
        ],
    )
    def test_no_method_beats_the_lower_bound(self, name):
        """After any number of exchanges, of which a round of AccFedDCD has two; the bound is that
        of this chain. Rare seeds rule the mean, so its standard error says little: by Jensen the
        mean is at least the geometric one, which stays above too, less three standard errors."""
        found = gaps(name)
        bound = least()[: found.shape[1]]
        np.testing.assert_allclose(found[:, 0], 1)
        assert np.all(found.mean(0) >= bound)
        logs = np.log(found)
        low = logs.mean(0) - 3 * logs.std(0, ddof=1) / len(logs) ** 0.5
        assert np.all(np.exp(low) >= bound)

    @pytest.mark.parametrize("eps", [1e-2, 1e-3, 1e-4, 1e-5])
    def test_point_saga_comes_close_to_it(self, eps):
        needed = first_below(gaps("Point-SAGA").mean(0), eps)
        assert first_below(least(), eps) < needed <= 4 * first_below(least(), eps)

    @pytest.mark.parametrize("eps", [1e-3, 1e-4, 1e-5])
    def test_acceleration(self, eps):
        iterations = first_below(gaps("AccFedDCD").mean(0), eps) / 2
        assert iterations <= first_below(gaps("FedDCD").mean(0), eps) / 5

    def test_fedavg_stalls(self):
        assert gaps("FedAvg").mean(0)[-500:].min() > 0.01


def better_than_the_bound(name: str) -> np.ndarray:
    """Stands in for `errors`, which take seconds."""
    rate = lambda tau: rates.METHODS[name].rate(rates.N, tau, rates.ALPHA, rates.BETA)
    return np.array([[[rate(tau).at(t) * 0.99**t for t in range(600)]] * 2 for tau in rates.TAUS])


def above_the_bound(name: str) -> np.ndarray:
    """Stands in for `chain_gaps`."""
    return np.minimum(1, 10 * np.maximum(least()[None, :400], [[0.01], [0.02]]))


@pytest.mark.parametrize("measured", [False, pytest.param(True, marks=pytest.mark.chaos)])
def test_the_figure(measured, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(rates, "errors", errors if measured else better_than_the_bound)
    stand_in = {"SCAFFOLD": "FedAvg"}  # whose gaps other tests have made
    slow = lambda name: gaps(stand_in.get(name, name))
    monkeypatch.setattr(rates, "chain_gaps", slow if measured else above_the_bound)
    folder = tmp_path / "new" / "folder"
    assert TestCommand.run(f"--out {shlex.quote(str(folder))}") == 0
    assert "picture:" in capsys.readouterr().out
    assert {path.name for path in folder.iterdir()} == {"rates.png", "rates.svg", "rates.csv"}
    png, text = (folder / "rates.png").read_bytes(), (folder / "rates.svg").read_text()
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    assert len(png) > 20_000
    for words in (*rates.CHAIN_METHODS, "lower bound:", "exchanges"):
        assert words in text
    with open(folder / "rates.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert sum(row["experiment"] == "contraction" for row in rows) == 12
    for row in rows:
        assert float(row["measured"]) < float(row["bound"]) or row["experiment"] == "chain"
    (start,) = [r for r in rows if r["method"] == "FedDCD" and r["exchanges"] == "0"]
    assert (float(start["measured"]), float(start["bound"])) == pytest.approx((1, 0.1))
