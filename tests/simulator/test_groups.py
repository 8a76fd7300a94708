"""Clients of very different sizes stand in a few stacks, and nothing else changes."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from feddcd.algorithms import FedAvg, FedDCD
from feddcd.data import Dataset, federate
from feddcd.data.federate import federate as make
from feddcd.measure import certify
from feddcd.participation import UniformSubset
from feddcd.problems import Stacks, each, groups, of_client, of_some, size_groups, summed
from feddcd.simulator.simulate import federation, one_round, start
from feddcd.solvers import SGD, GradientDescent, NewtonCG

SIZES = np.array([3, 90, 5, 4, 17, 2, 16])


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def both(monkeypatch, sparse=False):
    """The same clients in one stack, and in several."""
    random = np.random.default_rng(0)
    X = random.normal(size=(SIZES.sum(), 4)) * (random.random((SIZES.sum(), 4)) < 0.7)
    y = (random.random(len(X)) < 0.4).astype(float)
    data = Dataset("x", scipy.sparse.csr_array(X) if sparse else X, y)
    parts = np.split(np.arange(len(X)), np.cumsum(SIZES)[:-1])
    one = make(data, parts, model="logistic", l2=1e-2, weighting="samples")
    monkeypatch.setattr(federate, "WORTH", 0)
    monkeypatch.setattr(groups, "MOST", 2)
    several = make(data, parts, model="logistic", l2=1e-2, weighting="samples")
    assert isinstance(several.problem, Stacks)
    assert not isinstance(one.problem, Stacks)
    return one, several


@settings(max_examples=200, deadline=None)
@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=60))
def test_groups_hold_every_client_once_and_bring_padding_down(sizes):
    sizes = np.array(sizes)
    found = size_groups(sizes)
    assert sorted(np.concatenate(found)) == list(range(len(sizes)))
    assert 1 <= len(found) <= groups.MOST
    tops = [sizes[ids].max() for ids in found]
    assert tops == sorted(tops)
    padded = sum(len(ids) * top for ids, top in zip(found, tops, strict=True))
    assert padded <= groups.SPARE * sizes.sum() or len(found) == groups.MOST


def test_the_fewest_groups_that_do():
    assert len(size_groups(np.full(50, 7))) == 1
    assert [len(ids) for ids in size_groups(np.array([9768, *[465] * 49]))] == [49, 1]
    power = np.maximum(1, (np.random.default_rng(0).pareto(1.2, 10_000) * 10).astype(int))
    assert sum(len(ids) * power[ids].max() for ids in size_groups(power)) < 2 * power.sum()


@pytest.mark.parametrize("sparse", [False, pytest.param(True, marks=pytest.mark.chaos)])
def test_every_question_has_the_same_answer(monkeypatch, sparse):
    one, several = both(monkeypatch, sparse)
    N, w = len(SIZES), jnp.linspace(-1, 1, 4)[:, None]
    points = jnp.asarray(np.random.default_rng(1).normal(size=(N, 4, 1)))
    value = lambda f, x: f(x)
    np.testing.assert_array_equal(several.problem.rows, SIZES)

    @jax.jit
    def answers(f):
        return (
            (f.mu, f.alpha, f.loss_beta, f.rows),
            each(value, f, points),
            summed(value, f, points),
            jax.lax.map(lambda i: of_client(lambda f: f(w), f, i), jnp.arange(N)),
            of_some(lambda f, i: f(points[i]), f, jnp.array([6, 0, 1, 3])),
            certify(f, w, points),
        )

    same = lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-12)
    jax.tree.map(same, answers(one.problem), answers(several.problem))


METHODS = {
    "simple": FedDCD(GradientDescent(steps=3)),
    "feddcd": FedDCD(NewtonCG(space="parameters")),
    "fedavg": FedAvg(SGD(epochs=2, batch_size=3)),
}


@pytest.mark.parametrize(
    ("method", "side_by_side"),
    [
        ("fedavg", False),
        pytest.param("simple", False, marks=pytest.mark.chaos),
        pytest.param("fedavg", True, marks=pytest.mark.chaos),
        pytest.param("feddcd", False, marks=pytest.mark.chaos),
        pytest.param("feddcd", True, marks=pytest.mark.chaos),
    ],
)
def test_rounds_are_the_same_to_rounding(monkeypatch, method, side_by_side):
    """Mini-batches, too: which rows a client takes does not depend on its padding."""
    one, several = both(monkeypatch)
    algorithm = METHODS[method]
    who = UniformSubset(len(SIZES), 4)

    def after(made):
        fed = federation(algorithm, made.problem, who, seed=1, side_by_side=side_by_side)
        step, state = jax.jit(lambda state: one_round(fed, state)), start(fed, made.w)
        for _ in range(2):
            state, _ = step(state)
        return step(state)

    same = lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-9)
    jax.tree.map(same, after(one), after(several))
