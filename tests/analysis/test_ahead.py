"""While some sites have not answered at first, the others go on; first guesses of rows."""

import numpy as np
import pandas as pd
import pytest

from feddcd import FederatedGLM
from feddcd._errors import DataError
from feddcd.analysis import _ahead, _first_guess, _newton
from feddcd.analysis._first_guess import first_guess, shares_start
from feddcd.analysis._first_steps import first_steps
from feddcd.analysis._latest import said_at
from feddcd.analysis._model import model_of
from feddcd.analysis._points import gram, point, scales, total
from feddcd.analysis._sums import DesignRows, PointQuestion, answer, square
from feddcd.analysis._trust import TableTrust
from feddcd.analysis.families import family_of
from feddcd.analysis.plan import RegressionPlan
from feddcd.analysis.protocol import converse
from feddcd.analysis.registry import ANALYSES

BINOMIAL = family_of("binomial")


def made(seed=3, n=1500, sites=25, w=(0.2, 0.9, -0.6, 0.4)):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = rng.random(n) < 1 / (1 + np.exp(-(X @ w[1:] + w[0])))
    return X, y.astype(float), np.arange(n) % sites


@pytest.mark.chaos
def test_going_ahead_saves_exchanges(monkeypatch):
    monkeypatch.setattr("feddcd.analysis._regression.own_block", lambda *given: np.zeros(1))
    X, y, site = made(n=1200, sites=30, w=(0.2, 1.0, -1.0, 1.0))
    whole = FederatedGLM(tol=1e-8).fit(X, y, site)
    options = {"tol": 0.01, "absent": 0.3, "max_exchanges": 100}
    fit = lambda seed: FederatedGLM(**options, random_state=seed).fit(X, y, site)
    quick = [fit(seed) for seed in range(4)]
    monkeypatch.setattr(_ahead, "is_provable", lambda loss: False)
    slow = [fit(seed) for seed in range(4)]
    assert sum(m.n_exchanges_ for m in quick) <= sum(m.n_exchanges_ for m in slow) - 4
    for each in quick:
        apart = abs(each.table_["coef"] - whole.table_["coef"]) / whole.table_["std_err"]
        assert apart.max() <= each.certified_error_ <= 0.01


def test_units_of_a_course_change_with_the_sites_that_are_heard():
    """What was asked stays the same in the user's units."""
    X, y, site = made(sites=3)
    rows = {
        str(i): DesignRows(
            np.column_stack([np.ones(500), X[site == i]]), y[site == i][:, None],
            np.ones(500), np.zeros(500),
        )
        for i in range(3)
    }  # fmt: skip
    zero, none = np.zeros((4, 1)), np.zeros(0)
    asked = PointQuestion(zero, zero, none, np.zeros(1), none, np.ones(()), True)
    said = {site: answer(own, BINOMIAL, asked) for site, own in rows.items()}
    model = model_of(BINOMIAL, ["Intercept", "a", "b", "c"], 1, 0.0, tuple(rows), 0, False)
    course = _ahead._begun(model, {site: said[site] for site in "01"})
    assert course is not None
    D = np.array([1.0, 3.0, 0.2, 5.0])
    other = course.scaled(D)
    np.testing.assert_allclose(other.trial / D[:, None], course.asked.w, rtol=1e-12)
    back = other.metric * np.outer(D, D)
    np.testing.assert_allclose(back, course.metric * np.outer(course.D, course.D), rtol=1e-12)
    assert set(other.questions()) == {"0", "1"}
    late = answer(rows["2"], BINOMIAL, course.asked._replace(pilot=True))
    past = other._replace(answers={"2": late}).remembered()
    assert {site: len(own) for site, own in past.items()} == {"0": 1, "1": 1, "2": 1}
    np.testing.assert_allclose(past["2"][0].w / D[:, None], course.asked.w, rtol=1e-12)
    assert set(said_at(past, zero)) == {"0", "1"}


def rows_of(X, y, site, i):
    own = site == i
    n = int(own.sum())
    ones = np.column_stack([np.ones(n), X[own]])
    return DesignRows(ones, y[own][:, None], np.ones(n), np.zeros(n))


@pytest.mark.parametrize("scale", [1.0, 1e3])
def test_a_first_guess_of_rows_is_nearer_than_those_from_moments(scale):
    """In the norm of the Hessian at the optimum, in whatever units a column has."""
    X, y, site = made(n=4000, sites=10, w=(0.5, 2.0, -1.5, 1.0))
    X = X * [1, 1, scale] + [0, 0, 5 * scale]
    whole = FederatedGLM(tol=1e-9).fit(X, y, site)
    best = np.concatenate([[whole.intercept_], whole.coef_])
    model = model_of(BINOMIAL, ["Intercept", "a", "b", "c"], 1, 0.0, tuple("0123456789"), 0, False)
    zero, none = np.zeros((4, 1)), np.zeros(0)
    asked = PointQuestion(zero, zero, none, np.zeros(1), none, np.ones(()), True)
    said = {str(i): answer(rows_of(X, y, site, i), BINOMIAL, asked) for i in range(10)}
    sums = total([a.moments for a in said.values()])
    D = scales(sums)
    first = point(model, D, zero, said)
    guessed, moments, newton = first_steps(model, D, sums, gram(model, D, first), first, None)
    Z = np.column_stack([np.ones(len(X)), X])
    p = 1 / (1 + np.exp(-Z @ best))
    H = Z.T @ ((p * (1 - p))[:, None] * Z)
    near, mid, far = (
        float(np.sqrt(e @ H @ e)) for e in (w[:, 0] / D - best for w in (guessed, moments, newton))
    )
    assert near < mid / 2
    assert mid < far


def test_what_rows_tell_of_a_first_guess_adds_up():
    rows = rows_of(*made(sites=1), 0)
    weight, target = first_guess(rows)
    start = shares_start(rows)
    A = square(start[:10], 4)
    np.testing.assert_allclose(A, rows.X.T @ (weight[:, None] * rows.X))
    np.testing.assert_allclose(start[10:14], rows.X.T @ target)
    assert start[14] == len(rows.s)
    assert np.all((weight > 0) & (weight <= 0.25))


def test_a_site_of_one_outcome_tells_no_guess():
    X, y, site = made(sites=1)
    assert not np.any(shares_start(rows_of(X, 0 * y, site, 0)))


def test_where_most_sites_have_one_outcome_moments_guess(monkeypatch):
    """The same points as without the sites' guesses."""
    X, y, _ = made()
    site = np.argsort(np.argsort(y, kind="stable"), kind="stable") * 25 // len(y)
    one = FederatedGLM().fit(X, y, site)
    monkeypatch.setattr(_first_guess, "LEAST", 0.5)
    other = FederatedGLM().fit(X, y, site)
    np.testing.assert_allclose(one.history_["objective"], other.history_["objective"], rtol=1e-12)


def drawn(sites=12, n=60, seed=5):
    rng = np.random.default_rng(seed)
    frames = {}
    for i in range(sites):
        X = rng.normal(size=(n, 2)) + i / sites
        y = rng.random(n) < 1 / (1 + np.exp(-(0.3 + X @ [0.9, -0.6])))
        frames[f"s{i}"] = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y.astype(float)})
    return frames


def asked_with(frames, there):
    """The table of a talk with those that are there at each exchange, all that they say being
    checked; and the questions, by exchange and site."""
    plan = RegressionPlan(formula="y ~ a + b", family="binomial", tol=0.01)
    table = ANALYSES[plan.analysis]
    cohort, _ = table.agree({s: table.offer(d, plan).offer for s, d in frames.items()}, plan)
    rows = {site: table.rows(d, plan, cohort, site) for site, d in frames.items()}
    trust, questions = TableTrust(plan, cohort), []

    def exchange(asked):
        questions.append(asked)
        replies = {
            s: table.answer(rows[s], q) for s, q in asked.items() if there(len(questions), s)
        }
        for site, blocks in replies.items():
            trust.hear(site, asked[site], blocks)
        return replies

    return converse(table.talk(plan, cohort, absent=0.3), exchange), questions


def test_a_late_site_is_asked_where_the_others_are():
    """And is believed there. It never answers at w = 0."""
    frames = drawn()
    whole, _ = asked_with(frames, lambda number, site: True)
    fit, questions = asked_with(frames, lambda number, site: site != "s3" or number >= 4)
    assert [each["s3"].pilot for each in questions[:5]] == [True] * 4 + [False]
    assert not questions[0]["s3"].w.any()
    assert all(each["s3"].w.any() for each in questions[1:])
    assert len(questions) == 5
    assert fit.certified_error <= 0.01
    apart = abs(fit.table["coef"] - whole.table["coef"]) / whole.table["std_err"]
    assert apart.max() <= 0.02
    assert fit.null_deviance == pytest.approx(whole.null_deviance, rel=1e-12)


def test_where_the_others_have_gone_astray_late_sites_are_asked_at_first(monkeypatch):
    frames = drawn()
    monkeypatch.setattr(_newton, "is_astray", lambda now, before: True)
    fit, questions = asked_with(
        frames, lambda number, site: site != "s3" or number in (3, 4, 6, 7, 8)
    )
    again = [number for number, asked in enumerate(questions) if set(asked) == {"s3"}]
    assert again == [3]
    assert questions[3]["s3"].pilot
    assert not questions[3]["s3"].w.any()
    assert fit.certified_error <= 0.01


def test_a_dependent_column_is_refused_when_a_site_is_late():
    frames = drawn()
    frames = {site: d.assign(b=d["a"] * 2 + 1) for site, d in frames.items()}
    with pytest.raises(DataError, match="the column 'b' can be computed from 'Intercept', 'a'"):
        asked_with(frames, lambda number, site: site != "s3" or number >= 4)
