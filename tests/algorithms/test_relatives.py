"""What docs/relatives.md says of relatives of the paper's methods, on small problems."""

import importlib.util
from pathlib import Path

import jax
import numpy as np
import pytest
from test_field_rates import ALPHA, BETA, N, problem, run

from feddcd.algorithms import AccFedDCD
from federations import DIRECT
from slices import sliced

_PATH = Path(__file__).parents[2] / "benchmarks" / "relatives.py"
_SPEC = importlib.util.spec_from_file_location("relatives", _PATH)
relatives = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(relatives)


class OneMaster(AccFedDCD):
    """AccFedDCD with the constants of MSDA (Scaman et al. 2017)."""

    def coefficients(self, kappa):
        root = kappa**0.5
        return root / (1 + root), root, 1 / root


def momentum(rounds, m, c):
    """y⁺ = v - α(w - w̄), v⁺ = y⁺ + m (y⁺ - y) + c (v - y⁺), w = ∇f*(v) of all: c = 0 is MSDA where
    one master takes the mean, and so the gossip matrix is I - 11'/N."""
    _, A, b, _ = problem()
    y = v = np.zeros_like(b)
    means = []
    for _ in range(rounds):
        w = np.linalg.solve(A, (b + v)[..., None])[..., 0]
        new = v - ALPHA * (w - w.mean(0))
        v, y = new + m * (new - y) + c * (v - new), new
        means.append(w.mean(0))
    return np.stack(means)


@pytest.mark.parametrize("kind", sliced([OneMaster, AccFedDCD], [OneMaster]))
def test_msda_with_one_master(kind):
    """With MSDA's constants the same numbers. Algorithm 2's own, with everyone, are the same
    recursion with c = a s < κ: MSDA but for terms of the order of κ."""
    kappa = ALPHA / BETA
    with jax.enable_x64(True):
        algorithm = kind(N, N, DIRECT, kappa=kappa, sets=1)
        a, s, length = map(float, algorithm.coefficients(jax.numpy.asarray(kappa)))
        servers, _, _ = run(algorithm, 40)
    m, c = (1 - s) * (1 - a), 1 - s + a * s - a * length
    np.testing.assert_allclose(servers.w, momentum(40, m, c), rtol=0, atol=1e-12)
    root = np.sqrt(kappa)
    if kind is OneMaster:
        assert m == pytest.approx((1 - root) / (1 + root))
        assert c == pytest.approx(0, abs=1e-15)
    else:
        assert c == pytest.approx(a * s)
        assert 0 < c < kappa
        assert abs(m - (1 - root) / (1 + root)) < kappa**1.5


def test_acceleration_without_smoothness():
    """A tenth of the dual gap costs at most sqrt(10) times the rounds; without it costs more."""
    f = relatives.chain(30, 4, 0.02)
    best = -relatives.dual_ascent(f, 4, 400, True)[-1]
    first = lambda gaps, most: np.flatnonzero(np.nan_to_num(gaps, nan=np.inf) <= most)[0]
    fast, plain = (best + relatives.dual_ascent(f, 3, 281, way) for way in (True, False))
    for gap in (0.1, 0.05):
        assert first(fast, gap / 10) <= np.sqrt(10) * first(fast, gap)
    assert plain[280] > 0.05
    assert first(fast, 0.05) < 100


@pytest.mark.parametrize("method", ["feddcd", "pointsaga", "fedqn", "fedavg-1", "fedavg-5"])
def test_rounds_that_do_not_wait(method):
    """With one step FedAvg has no bias where rounds wait; here fast clients count more."""
    f = relatives.quadratics(6, 3, 0.2, 1.0)
    gap, stale = relatives.asynchronous_run(f, method, np.geomspace(1, 10, 6), 2, 1600)
    assert stale > 1
    assert gap > 1e-4 if method.startswith("fedavg") else gap < 1e-10


def test_a_greedy_cohort_may_agree_with_itself():
    """FedDCD on those farthest from the model stalls; Point-SAGA gains a little."""
    f = relatives.quadratics(10, 4, 0.1, 1.0)
    rounds = lambda method, choice: relatives.greedy_run(f, method, choice, 3, most=400)
    assert rounds("feddcd", "uniform") < 400
    assert rounds("feddcd", "oracle") == 400
    assert rounds("pointsaga", "oracle") < rounds("pointsaga", "uniform")


def test_acceleration_bears_some_error():
    f = relatives.quadratics(10, 4, 0.05, 1.0)
    rounds = lambda delta: relatives.inexact_run(f, "accfeddcd", delta, "random", 4, most=600)
    exact = rounds(0.0)
    assert exact < 200
    assert rounds(0.01) < 1.25 * exact
    assert rounds(0.6) == 600
