"""Who takes part: the right distribution, a valid cohort, the same one for the same key."""

from itertools import combinations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from feddcd.participation import (
    Available,
    Everyone,
    ImportanceSubset,
    Lossy,
    UniformSubset,
    round_keys,
)

DRAWS = 20_000


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def drawn(participation, seed=0, draws=DRAWS):
    """Many cohorts at once, as arrays."""
    keys = jax.random.split(jax.random.key(seed), draws)
    return jax.tree.map(np.asarray, jax.jit(jax.vmap(participation))(keys))


def subset_counts(ids, N):
    """How often each subset came up, in the order of itertools.combinations."""
    subsets = list(combinations(range(N), ids.shape[1]))
    index = {subset: k for k, subset in enumerate(subsets)}
    return np.bincount([index[tuple(row)] for row in ids], minlength=len(subsets)), subsets


class TestDistribution:
    def test_uniform_takes_every_subset_equally_often(self):
        counts, _ = subset_counts(drawn(UniformSubset(5, 2)).ids, 5)
        assert scipy.stats.chisquare(counts).pvalue > 1e-3

    @pytest.mark.parametrize("tau", [2, 3])
    def test_importance_is_proportional_to_the_sum_of_alpha(self, tau):
        alpha = np.array([0.1, 3.0, 0.5, 1.0, 0.1])
        counts, subsets = subset_counts(drawn(ImportanceSubset(jnp.asarray(alpha), tau)).ids, 5)
        weights = np.array([alpha[list(subset)].sum() for subset in subsets])
        right, uniform = weights / weights.sum(), np.ones(len(subsets)) / len(subsets)
        assert scipy.stats.chisquare(counts, DRAWS * right).pvalue > 1e-3
        assert scipy.stats.chisquare(counts, DRAWS * uniform).pvalue < 1e-9

    def test_importance_includes_each_client_as_often_as_it_should(self):
        """P(i in I) = p_i + (1 - p_i)(τ-1)/(N-1), p_i = α_i / sum α."""
        alpha, tau = np.geomspace(1, 30, 8), 3
        ids = drawn(ImportanceSubset(jnp.asarray(alpha), tau)).ids
        share = np.bincount(ids.ravel(), minlength=8) / DRAWS
        p = alpha / alpha.sum()
        np.testing.assert_allclose(share, p + (1 - p) * (tau - 1) / 7, rtol=0, atol=0.015)

    def test_equal_alpha_is_uniform(self):
        counts, _ = subset_counts(drawn(ImportanceSubset(jnp.full(5, 0.3), 2)).ids, 5)
        assert scipy.stats.chisquare(counts).pvalue > 1e-3

    def test_available_clients_come_by_themselves(self):
        N, p = 12, 0.5
        cohort = drawn(Available(N, p))
        size = cohort.asked.sum(1)
        assert size.min() >= 2
        law = scipy.stats.binom(N, p).pmf(np.arange(N + 1))
        law[2] += law[:2].sum()  # two stand in where fewer are there
        np.testing.assert_allclose(size.mean(), law[2:] @ np.arange(2, N + 1), rtol=0.01)
        counts = np.bincount(size, minlength=N + 1)[2:]
        assert scipy.stats.chisquare(counts, DRAWS * law[2:]).pvalue > 1e-3
        np.testing.assert_allclose(cohort.asked.mean(0), p, rtol=0, atol=0.02)

    def test_available_has_two_even_if_nobody_comes(self):
        cohort = drawn(Available(6, 1e-6))
        assert np.all(cohort.asked.sum(1) == 2)
        counts = cohort.asked.sum(0)
        assert scipy.stats.chisquare(counts).pvalue > 1e-3

    def test_lossy_loses_at_its_rate(self):
        cohort = drawn(Lossy(UniformSubset(8, 5), 0.1))
        assert np.all(cohort.asked)
        lost = DRAWS * 5 - cohort.arrived.sum()
        assert scipy.stats.binomtest(lost, DRAWS * 5, 0.1).pvalue > 1e-3

    def test_lossy_is_independent_of_who_was_asked(self):
        cohort = drawn(Lossy(UniformSubset(8, 5), 0.3))
        rate = np.array([cohort.arrived[cohort.ids == i].mean() for i in range(8)])
        np.testing.assert_allclose(rate, 0.7, rtol=0, atol=0.02)
        counts, _ = subset_counts(cohort.ids, 8)
        assert scipy.stats.chisquare(counts).pvalue > 1e-3


class TestCohort:
    @settings(max_examples=12, deadline=None)
    @given(data=st.data())
    def test_distinct_sorted_and_in_range(self, data):
        self.check(data, lambda N: {2, N})

    @pytest.mark.chaos
    @settings(max_examples=300, deadline=None)
    @given(data=st.data())
    def test_many_are_distinct_sorted_and_in_range(self, data):
        self.check(data, lambda N: {2, (N + 2) // 2, N})

    @staticmethod
    def check(data, sizes):
        N = data.draw(st.sampled_from([2, 7]))
        tau = data.draw(st.sampled_from(sorted(sizes(N))))
        kind = data.draw(st.sampled_from(["uniform", "importance", "everyone", "available"]))
        loss = data.draw(st.sampled_from([None, 0.0, 0.4]))
        participation = {
            "uniform": lambda: UniformSubset(N, tau),
            "importance": lambda: ImportanceSubset(np.geomspace(1, 100, N), tau),
            "everyone": lambda: Everyone(N),
            "available": lambda: Available(N, tau / N),
        }[kind]()
        participation = participation if loss is None else Lossy(participation, loss)
        key = jax.random.key(data.draw(st.integers(0, 2**31 - 1)))
        cohort = jax.tree.map(np.asarray, participation(key))
        ids = cohort.ids
        assert np.all(np.diff(ids) > 0)
        assert ids.min() >= 0
        assert ids.max() < N
        assert cohort.asked.shape == cohort.arrived.shape == ids.shape
        assert not np.any(cohort.arrived & ~cohort.asked)
        assert np.sum(cohort.asked) >= 2
        if kind != "available":
            assert len(ids) == (N if kind == "everyone" else tau) == participation.tau
        if not loss:
            assert np.array_equal(cohort.arrived, cohort.asked)
        assert participation.N == N

    def test_usual_size(self):
        assert Available(20, 0.3).tau == 6
        assert Available(20, 0.01).tau == 2
        assert Everyone(7).tau == 7
        assert Lossy(UniformSubset(9, 4), 0.2).tau == 4


class TestKeys:
    @pytest.mark.parametrize(
        "participation",
        [
            pytest.param(UniformSubset(30, 8), marks=pytest.mark.chaos),  # Lossy has it
            pytest.param(ImportanceSubset(np.geomspace(1, 30, 30), 8), marks=pytest.mark.chaos),
            Available(30, 0.4),
            Lossy(UniformSubset(30, 8), 0.5),
        ],
        ids=lambda p: type(p).__name__,
    )
    def test_a_cohort_is_a_function_of_seed_and_round(self, participation):
        draw = lambda seed, t: participation(round_keys(jax.random.key(seed), t)[0])
        equal = lambda a, b: all(np.array_equal(x, y) for x, y in zip(a, b, strict=True))
        compiled = jax.jit(draw)
        assert equal(compiled(3, 5), compiled(3, 5))
        assert equal(draw(3, 5), compiled(3, 5))
        assert not equal(compiled(3, 5), compiled(3, 6))
        assert not equal(compiled(3, 5), compiled(4, 5))

    def test_clients_and_cohort_have_different_keys(self):
        cohort, clients = round_keys(jax.random.key(0), jnp.asarray(0))
        assert not np.array_equal(jax.random.key_data(cohort), jax.random.key_data(clients))


class TestRefusals:
    @pytest.mark.parametrize(
        ("build", "message"),
        [
            (
                lambda: UniformSubset(8, 1),
                "must be from 2 to .*; got tau=1, N=8",
            ),
            (
                lambda: UniformSubset(8, 0),
                "must be from 2 to .*; got tau=0, N=8",
            ),
            (
                lambda: UniformSubset(8, 9),
                "must be from 2 to .*; got tau=9, N=8",
            ),
            (
                lambda: ImportanceSubset(np.ones(4), 1),
                "must be from 2 to .*; got tau=1, N=4",
            ),
            (
                lambda: ImportanceSubset(np.ones(4), 5),
                "must be from 2 to .*; got tau=5, N=4",
            ),
            (lambda: ImportanceSubset(np.array([1.0, 0.0, 2.0]), 2), r"positive.*\[1\. 0\. 2\.\]"),
            (lambda: ImportanceSubset(np.array([1.0, -1.0]), 2), r"positive.*\[ 1\. -1\.\]"),
            (lambda: ImportanceSubset(np.array([1.0, np.nan]), 2), r"finite, got \[ 1\. nan\]"),
            (
                lambda: Available(1, 0.5),
                "must be from 2 to .*; got tau=2, N=1",
            ),
            (lambda: Available(8, 0.0), r"p must be above 0 and at most 1, got p=0\.0"),
            (lambda: Available(8, 1.1), r"p must be above 0 and at most 1, got p=1\.1"),
            (lambda: Lossy(Everyone(4), 1.0), r"must be at least 0 and below 1; got loss=1\.0"),
            (lambda: Lossy(Everyone(4), -0.1), r"must be at least 0 and below 1; got loss=-0\.1"),
        ],
    )
    def test_bad_settings(self, build, message):
        with pytest.raises(ValueError, match=message):
            build()

    def test_everyone_needs_two(self):
        with pytest.raises(
            ValueError,
            match=r"must be from 2 to .*; got tau=1, N=1",
        ):
            Everyone(1)
