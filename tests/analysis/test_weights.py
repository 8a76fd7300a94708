"""The list of all numbers of an answer is whole: added up over rows, it is the answer."""

import numpy as np
import pytest

from feddcd.analysis._robust import meat_of
from feddcd.analysis._sums import KINDS, DesignRows, PointQuestion, answer, parts, upper
from feddcd.analysis._weights import ALL, COLUMNS, weights
from feddcd.analysis.plan import RegressionPlan
from feddcd.analysis.protocol import SiteRows

NO_SUMS = ("M", "m", "own", "clusters")  # bounds; and what no sum over sites has
OUTCOMES = {"poisson": 3, "gamma": 3, "gaussian": 3, "binomial": 1, "ordinal": 2, "multinomial": 1}
PLANS = [
    ("binomial", {}),
    ("binomial", {"link": "probit"}),
    ("binomial", {"firth": True}),
    ("binomial", {"covariance": "HC3"}),
    ("gaussian", {"covariance": "HC0"}),
    ("poisson", {}),
    ("gamma", {"link": "log"}),
    ("negative_binomial", {}),
    ("multinomial", {}),
    ("ordinal", {"classes": ["a", "b", "c"]}),
]


def site(family, more):
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(60), rng.integers(0, 2, (60, 2)), rng.normal(size=60)])
    most = OUTCOMES.get(family, 3)
    Y = rng.integers(0, most + 1, (60, 1)).astype(float) + (family == "gamma")
    if family == "multinomial":
        Y = (rng.integers(0, 3, 60)[:, None] == [1, 2]).astype(float)
    plan = RegressionPlan("y ~ x", family, **more)
    extras = len(plan.loss().extras)
    if plan.loss().bare:
        X = X[:, 1:]
    X = np.hstack([X, np.zeros((60, extras))])
    s, o = rng.integers(1, 4, 60).astype(float), rng.normal(size=60) / 9
    return SiteRows(plan, DesignRows(X, Y, s, 0 * o if family == "multinomial" else o), 60)


def questions(rows):
    loss, (X, Y, *_) = rows.plan.loss(), rows.data
    w = np.zeros((X.shape[1], Y.shape[1]))
    w[len(w) - len(loss.extras) :, 0] = loss.origin
    V = (np.eye(w.size) / 900)[upper(w.size)]
    edges = np.linspace(0.3, 0.7, 5) if loss.name in ("binomial", "gaussian", "poisson") else V[:0]
    closing = rows.plan.covariance != "model"
    first = PointQuestion(w, w, V[:0], w[0] * 0, V[:0], np.ones(()), True)
    later = w + 0.1 * np.arange(1, len(w) + 1)[:, None] * (np.arange(len(w)) < 2)[:, None]
    return first, PointQuestion(later, w, V, w[0] + 0.2, edges, np.ones(()), False, closing=closing)


def added(rows, question):
    """By part of the answer, all that its weights add up to."""
    X, found = rows.data.X, {}
    for part, of, weight in weights(rows.plan, rows.data, rows.data, question, 5):
        pairs = X.T @ (weight[:, None] * X)
        made = {ALL: [weight.sum()], COLUMNS: [*(X.T @ weight), *(abs(X).T @ weight), weight.sum()]}
        more = [*pairs.ravel(), *(X.T @ weight), weight.sum()]
        found.setdefault(part, []).append(np.array(made.get(of, more)))
    return {part: np.concatenate(each) for part, each in found.items()}


@pytest.mark.parametrize(("family", "more"), PLANS, ids=str)
def test_every_number_of_an_answer_is_in_the_list(family, more):
    rows = site(family, more)
    exact = ("multinomial", "ordinal", "negative_binomial")  # sums of several weights there
    for question in questions(rows):
        said = answer(rows.data, rows.plan.loss(), question, 5, 5)
        if question.closing:
            said = said._replace(**meat_of(rows, question)._asdict())
        told, known = parts(said), added(rows, question)
        if question.pilot and "F" in known:
            known["H"] = known["F"]  # as `_sums` has it
        pilot = question.pilot or not rows.plan.loss().quadratic
        for name in KINDS:
            value = np.ravel(told.get(name, np.zeros(0)))
            value = value[value != 0]
            if name in NO_SUMS or not len(value) or not (pilot or name in ("bins", "meat")):
                continue
            assert name in known, name
            if family not in exact and name != "moments.start":
                near = np.isclose(value[:, None], known[name], rtol=1e-9, atol=1e-9).any(1)
                assert near.all(), name
