"""What many clients cost: cohorts, rounds and sizes that differ."""

import math
import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from feddcd import participation
from feddcd.algorithms import FedNewton
from feddcd.participation import ImportanceSubset, UniformSubset
from feddcd.problems import random_quadratics
from feddcd.simulator.simulate import advance, federation, start


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


def sizes_within(jaxpr) -> set[int]:
    """Of all arrays that a traced function computes, loops included."""
    found = set()
    for equation in jaxpr.eqns:
        found |= {math.prod(getattr(v.aval, "shape", ())) for v in equation.outvars}
        for inner in jax.tree.leaves(equation.params, is_leaf=lambda x: hasattr(x, "eqns")):
            inner = getattr(inner, "jaxpr", inner)
            found |= sizes_within(inner) if hasattr(inner, "eqns") else set()
    return found


@pytest.mark.parametrize("kind", ["uniform", "importance"])
def test_a_cohort_of_a_million_costs_what_the_cohort_costs(kind):
    N, tau = 10**6, 100
    alpha = jnp.ones(N)
    who = UniformSubset(N, tau) if kind == "uniform" else ImportanceSubset(alpha, tau)
    assert max(sizes_within(jax.make_jaxpr(who)(jax.random.key(0)).jaxpr)) <= 8 * tau
    ids = np.asarray(who(jax.random.key(1)).ids)
    assert len(np.unique(ids)) == tau
    assert set(ids) <= set(range(N))
    assert ids.std() == pytest.approx(N / math.sqrt(12), rel=0.2)


def test_every_subset_is_as_likely_when_repeats_are_left_out(monkeypatch):
    monkeypatch.setattr(participation, "LARGE", 0)
    monkeypatch.setattr(participation, "FEW", 1)
    N, tau, draws = 6, 3, 20_000  # with 6 draws for 3 of 6, repeats and second attempts are common
    keys = jax.random.split(jax.random.key(0), draws)
    ids = np.asarray(jax.jit(jax.vmap(UniformSubset(N, tau)))(keys).ids)
    assert (np.diff(ids, axis=1) > 0).all()
    _, counts = np.unique(ids, axis=0, return_counts=True)
    assert len(counts) == math.comb(N, tau)
    assert scipy.stats.chisquare(counts).pvalue > 1e-3


def test_the_first_of_many_comes_with_its_own_probability(monkeypatch):
    monkeypatch.setattr(participation, "LARGE", 0)
    alpha = np.array([1.0, 2.0, 3.0, 4.0])
    who = ImportanceSubset(jnp.asarray(alpha), 2)
    keys = jax.random.split(jax.random.key(0), 20_000)
    counts = np.bincount(np.asarray(jax.vmap(who._first)(keys)), minlength=4)
    assert scipy.stats.chisquare(counts, alpha / alpha.sum() * counts.sum()).pvalue > 1e-3


def test_small_federations_draw_as_they_always_did():
    key = jax.random.key(3)
    old = jnp.sort(jax.random.choice(key, 100, (30,), replace=False))
    assert (UniformSubset(100, 30)(key).ids == old).all()


def test_no_round_copies_all_clients():
    """FedNewton writes two arrays of a client from one another: all were copied for each."""
    N, p = 37, 3
    f = random_quadratics(N, p, alpha=1.0, beta=3.0)
    fed = federation(FedNewton(jnp.zeros(p)), f, UniformSubset(N, 5), seed=0)
    state = start(fed, jnp.zeros(p))
    lowered = advance.lower(fed, state, jnp.asarray(1, jnp.int32), 1)  # pyright: ignore
    text = lowered.compile().compiled.as_text()
    copies = re.findall(rf"= f64\[{N},{p * (p + 1) // 2}\]\S* copy\((%\S+)\)", text)
    assert not [name for name in copies if "get-tuple-element" in name or "copy" in name]
