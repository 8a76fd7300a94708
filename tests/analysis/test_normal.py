"""The model of a site that was heard at w = 0 alone."""

import numpy as np
from scipy.special import expit

from feddcd.analysis._model import model_of
from feddcd.analysis._normal import has_normal, normal
from feddcd.analysis._sums import DesignRows, PointQuestion, answer, square
from feddcd.analysis.families import family_of

BINOMIAL = family_of("binomial")
FAR = np.array([-1.5, 1.2, -1.6, 0.8])  # rows have a z between -8 and 5


def said_at(X, y, w, offset=0.0):
    rows = DesignRows(X, y[:, None], np.ones(len(y)), np.full(len(y), offset))
    none, w = np.zeros(0), w[:, None]
    return answer(rows, BINOMIAL, PointQuestion(w, w, none, np.zeros(1), none, np.ones(()), True))


def made(n=4000, seed=2, two=False):
    rng = np.random.default_rng(seed)
    X = (rng.random((n, 3)) < 0.4) * 2.0 if two else rng.normal(size=(n, 3))
    X = np.column_stack([np.ones(n), X])
    return X, (rng.random(n) < expit(X @ FAR)).astype(float)


def test_it_is_nearly_true_of_normal_columns():
    """To the noise of 4,000 rows; the quadratic model is not."""
    X, y = made()
    first, true = said_at(X, y, np.zeros(4)), said_at(X, y, FAR)
    guessed, H = normal(first, FAR), square(true.H, 4)
    off = lambda g: float(np.sqrt((g - true.g) @ np.linalg.solve(H, g - true.g)))
    assert off(guessed["g"]) < 1.5
    assert off(first.g + square(first.H, 4) @ FAR) > 20
    assert abs(guessed["value"] - true.value) < 0.01 * true.value
    ends = np.linalg.eigvals(np.linalg.solve(H, square(guessed["H"], 4))).real
    assert np.all(np.abs(np.log(ends)) < 0.1)


def test_gradient_and_hessian_are_derivatives_of_the_value():
    X, y = made(two=True)
    first, h = said_at(X, y, np.zeros(4)), 1e-5
    now = normal(first, FAR)
    for j, e in enumerate(np.eye(4) * h):
        high, low = normal(first, FAR + e), normal(first, FAR - e)
        np.testing.assert_allclose((high["value"] - low["value"]) / 2 / h, now["g"][j], rtol=1e-5)
        change = (high["g"] - low["g"]) / 2 / h
        np.testing.assert_allclose(change, square(now["H"], 4)[j], rtol=1e-5, atol=1e-4)


def test_its_hessian_is_positive_however_far_it_is():
    X, y = made(two=True)
    first = said_at(X, y, np.zeros(4))
    for scale in (0.0, 1e-9, 1.0, 10.0, 100.0):
        assert np.linalg.eigvalsh(square(normal(first, scale * FAR)["H"], 4)).min() > -1e-9


def test_at_the_first_point_it_is_the_answer():
    X, y = made()
    first = said_at(X, y, np.zeros(4))
    again = normal(first, np.zeros(4))
    for name in ("value", "g", "H"):
        np.testing.assert_allclose(again[name], getattr(first, name), rtol=1e-5, atol=1e-6)


def test_it_needs_yes_no_outcomes_and_no_offset():
    X, y = made(n=50)
    model = lambda name: model_of(family_of(name), ["a", "b", "c", "d"], 1, 0.0, ("0",), 0, False)
    first = said_at(X, y, np.zeros(4))
    assert has_normal(model("binomial"), first)
    assert not has_normal(model("poisson"), first)
    assert not has_normal(model("binomial"), said_at(X, y, np.zeros(4), offset=0.5))
    assert not has_normal(model("binomial"), first._replace(moments=None))
