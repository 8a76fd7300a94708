"""Absent sites: what they would say is guessed from what the others say."""

import numpy as np
import pytest

from feddcd import FederatedGLM
from feddcd.analysis._latest import KEPT, Latest, guess, is_astray, remember
from feddcd.analysis._model import model_of
from feddcd.analysis._points import point
from feddcd.analysis._sums import DesignRows, PointQuestion, answer
from feddcd.analysis.families import family_of
from slices import sliced

FAMILY, NAMES, SITES = family_of("binomial"), ["Intercept", "a", "b"], tuple("pqrst")
MODEL = model_of(FAMILY, NAMES, 1, 0.0, SITES, 0, False)
D = np.array([1.0, 2.0, 0.5])


def rows(seed, n=60):
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(n), rng.normal(size=(n, 2))])
    y = (rng.random(n) < 1 / (1 + np.exp(-X @ [0.3, 1.0, -0.7]))).astype(float)
    return DesignRows(X, y[:, None], np.ones(n), np.zeros(n))


def said(sites, w):
    none, user = np.zeros(0), w / D[:, None]
    asked = PointQuestion(user, user, none, np.zeros(1), none, np.ones(()), False)
    return {site: answer(own, FAMILY, asked) for site, own in sites.items()}


def off(seeds, w, there):
    """By how much the gradient is guessed wrongly, and by how much quadratic models would be."""
    sites, w0 = {s: rows(seed) for s, seed in zip(SITES, seeds, strict=True)}, np.zeros((3, 1))
    past = {site: (Latest(w0, each),) for site, each in said(sites, w0).items()}
    now = said(sites, w)
    truth = point(MODEL, D, w, now).g
    found = guess(MODEL, D, w, {site: now[site] for site in there}, past)
    nobody = guess(MODEL, D, w, {}, past)
    return np.linalg.norm(found.g - truth), np.linalg.norm(nobody.g - truth), truth


def test_sites_that_are_alike_are_guessed_exactly():
    w = np.array([[0.5], [2.0], [-0.4]])
    found, before, truth = off([3] * 5, w, "pqr")
    assert found < 1e-9 * np.linalg.norm(truth) < before


def test_a_guess_beats_quadratic_models_far_away_and_is_exact_at_hand():
    w = np.array([[0.5], [3.0], [-0.8]])
    found, before, _ = off(range(5), w, "pqrs")
    assert found < before / 4
    short, none, truth = off(range(5), 1e-4 * w, "pqrs")
    assert max(short, none) < 1e-6 * np.linalg.norm(truth)


def test_the_pilot_and_the_latest_answers_are_kept():
    told, past = said({"p": rows(0)}, np.zeros((3, 1)))["p"], {"p": (), "q": ()}
    for i in range(9):
        past = remember(past, np.full((3, 1), i), {"p": told})
    assert [float(each.w[0, 0]) for each in past["p"]] == [8, 7, 6, 5, 0]
    assert (len(past["p"]), past["q"]) == (KEPT, ())


def test_what_is_worse_by_value_and_by_decrement_is_astray():
    sites, (near, far) = {s: rows(0) for s in SITES}, (np.ones((3, 1)) / 9, 20 * np.ones((3, 1)))
    one, other = (point(MODEL, D, w, said(sites, w)) for w in (near, far))
    assert is_astray(other, one)
    assert not is_astray(one, other)
    assert not is_astray(one, None)
    assert is_astray(one._replace(objective=np.inf), None)


@pytest.mark.parametrize("family", sliced(["binomial", "poisson"], {"binomial"}))
def test_absent_sites_cost_fewer_exchanges_than_waiting_at_each_point(family, monkeypatch):
    rng = np.random.default_rng(2)
    X, site = rng.normal(size=(1500, 3)), np.arange(1500) % 25
    z = X @ [0.9, -0.6, 0.4] + 0.2
    y = rng.poisson(np.exp(z)) if family == "poisson" else rng.random(1500) < 1 / (1 + np.exp(-z))
    whole = FederatedGLM(family, tol=1e-8).fit(X, y.astype(float), site)
    fit = lambda seed: FederatedGLM(
        family, tol=0.01, absent=0.3, max_exchanges=100, random_state=seed
    ).fit(X, y.astype(float), site)
    # guesses alone, without what else saves exchanges
    monkeypatch.setattr("feddcd.analysis._together.MOST", 0.0)
    monkeypatch.setattr("feddcd.analysis._ahead.is_provable", lambda loss: False)
    monkeypatch.setattr("feddcd.analysis._first_guess.LEAST", 0.5)
    monkeypatch.setattr("feddcd.analysis._regression.own_block", lambda *given: np.zeros(1))
    quick = [fit(seed) for seed in range(4)]
    monkeypatch.setattr("feddcd.analysis._newton.MOVES", 0)
    monkeypatch.setattr("feddcd.analysis._newton.LAST", 100)  # every point is held
    slow = [fit(seed) for seed in range(4)]
    for each in quick:
        apart = abs(each.table_["coef"] - whole.table_["coef"]) / whole.table_["std_err"]
        assert each.choice_.method == "newton, remembered"
        assert apart.max() <= each.certified_error_ <= 0.01
    assert sum(m.n_exchanges_ for m in quick) <= sum(m.n_exchanges_ for m in slow) - 4
