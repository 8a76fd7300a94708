"""What many clients cost: cohorts, rounds and sizes that differ."""

import math
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from feddcd import participation
from feddcd.algorithms import catalogue
from feddcd.measure import Measures
from feddcd.participation import ImportanceSubset, Lossy, UniformSubset
from feddcd.problems import random_quadratics
from feddcd.simulator.simulate import advance, federation, start
from federations import ALL
from slices import sliced


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


def within_rounds(text: str, N: int) -> list[str]:
    """What a compiled program computes in its loops of an array with a row for each of N clients,
    but for rows that are written in place. XLA copies all rows where one that was read before is
    written before it is read again."""
    named = dict(re.findall(r"^(?:ENTRY )?%(\S+) \(.*?\{\n(.*?)^\}", text, re.M | re.S))
    fused = set(re.findall(r" fusion\(.*calls=%([\w.-]+)", text))
    entry = re.search(r"^ENTRY %(\S+)", text, re.M)[1]  # pyright: ignore
    whole = re.compile(rf"%(\S+) = \w+\[{N}[,\]]\S* ([\w-]+)\((?:.*calls=%([\w.-]+))?")
    passed = {"parameter", "get-tuple-element", "bitcast", "dynamic-update-slice"}
    in_place = lambda body: all(op in passed for _, op, _ in whole.findall(body))
    return [
        f"{op} {name}"
        for computation, body in named.items()
        if computation not in fused | {entry}
        for name, op, calls in whole.findall(body)
        if op not in passed and not (op == "fusion" and in_place(named[calls]))
    ]


def unmeasured(*_):
    """The objective needs all clients."""
    return Measures(*[jnp.zeros(())] * 3)


ASK_SOME = [name for name in ALL if not catalogue.ALGORITHMS[name.partition("-")[0]].needs_everyone]


@pytest.mark.parametrize("kind", ["certain", pytest.param("lossy", marks=pytest.mark.chaos)])
@pytest.mark.parametrize(
    "name", sliced(ASK_SOME, ("feddcd", "fednewton", "fedqn", "pointsaga", "scaffold-2"))
)
def test_no_round_touches_all_clients(name, kind):
    """But those that ask every client; FedDCD, SCAFFOLD and FedQN copied all of them for each."""
    N, p = 4099, 3  # cohorts of so many are drawn without a permutation
    f = random_quadratics(N, p, alpha=1.0, beta=3.0)
    who = UniformSubset(N, 5) if kind == "certain" else Lossy(UniformSubset(N, 5), 0.2)
    fed = federation(ALL[name].make(N, 5, jnp.zeros(p)), f, who, seed=0)
    fed = eqx.tree_at(lambda fed: fed.measure, fed, unmeasured)
    state = start(fed, jnp.zeros(p))
    lowered = advance.lower(fed, state, jnp.asarray(1, jnp.int32), 1)  # pyright: ignore
    text = lowered.compile().compiled.as_text()
    assert f"[{N},{p}]" in text
    assert within_rounds(text, N) == []
