"""What two answers of one job tell together: bins, bounds and sums that change from one to the
next, as they do where a coordinator that owns a site bends the sums by a hair."""

import numpy as np
import pytest

from feddcd.analysis._many import of_many, settled
from feddcd.analysis._sums import NONE, DesignRows, PointQuestion, answer, upper
from feddcd.analysis.plan import RegressionPlan
from feddcd.analysis.protocol import SiteRows
from feddcd.federation.site._again import check_changes
from feddcd.federation.site.policy import Policy, Ruled

K = 5
EDGES = np.linspace(0, 1, 31)[1:-1]


def rows(n=200, seed=0):
    rng = np.random.default_rng(seed)
    age = rng.uniform(20, 95, n)
    X = np.column_stack([np.ones(n), age, rng.normal(26, 4, n)])
    Y = (rng.random(n) < 1 / (1 + np.exp(3 - 0.05 * age))).astype(float)[:, None]
    plan = RegressionPlan("died ~ age + bmi", "binomial")
    return SiteRows(plan, DesignRows(X, Y, np.ones(n), np.zeros(n)), n)


def asked(*w, V=NONE):
    w = np.reshape(w, (-1, 1)).astype(float)
    return PointQuestion(w, 0 * w, V, np.zeros(1), EDGES, np.ones(()), False)


def bins(own, question, before=(), k=K):
    return answer(own.data, own.plan.loss(), question, 0, k, before)


def test_bins_at_two_points_differ_by_no_row_or_by_many():
    """A point that is moved by a hair takes one patient from one bin to the next; the outcome of
    that patient is the difference."""
    own = rows()
    first = asked(-3, 0.0512, 0)
    hairs = [asked(-3, 0.0512, hair) for hair in np.linspace(0, 2e-4, 60)]
    counts = lambda question, **more: bins(own, question, **more).bins
    told = [counts(each, k=0) - counts(first, k=0) for each in hairs]
    assert any(abs(each[0]).sum() == 2 for each in told)  # one patient, without the rule
    for each in hairs:
        change = abs(counts(each, before=(first,)) - counts(first))[0]
        assert np.all((change == 0) | (change >= K))
    residuals = [bins(own, each, (first,)).residuals - bins(own, first).residuals for each in hairs]
    assert all(np.all((change == 0) | (abs(change) >= K)) for change in residuals)


@pytest.mark.parametrize("seed", range(20))
def test_no_combination_of_counts_tells_few_rows_apart(seed):
    """Rows that were in the same bins of all questions are k or more, so any sum or difference of
    counts is of k rows or more, or of none."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=150)
    raw = [np.searchsorted(EDGES, 1 / (1 + np.exp(-z - 0.05 * rng.normal(size=150))))]
    raw += [np.searchsorted(EDGES, 1 / (1 + np.exp(-z - d))) for d in (0.02, 0.3, 0.01)]
    made = np.array([settled(raw[: i + 1], K) for i in range(len(raw))])
    assert (np.unique(made[:, made[0] >= 0], axis=1, return_counts=True)[1] >= K).all()
    assert (made[:, made[0] < 0] == -1).all()  # left out for good
    assert np.mean(made[-1] == raw[-1]) > 0.5  # and most rows are where they belong
    assert (settled(raw, 0) == raw[-1]).all()


def test_all_rows_less_those_of_bins_are_many_or_none():
    """One row alone in its bin: all rows less those of the bins were this row."""
    places = np.repeat([3, 4, 6, 9], [20, 7, 1, 12])
    first = settled([places], K)
    assert (first[places == 6] == -1).all()
    assert np.sum(first < 0) == 8  # with the smallest of the others
    later = settled([places, np.where(places == 4, 6, places)], K)
    assert (later < 0).tolist() == (first < 0).tolist()
    assert np.sum(settled([np.repeat([3, 4, 9], [20, 7, 12])], K) < 0) == 0
    few = np.repeat([1, 2, 3, 8], [3, 3, 4, 20])
    assert np.sum(settled([few], K) < 0) == 10  # many in all: no other bin


def test_a_bound_tells_the_row_at_its_top_only_where_it_stands_far_apart():
    """With V chosen so that x'Vx is (age - t)², M told the largest age to a thousandth."""
    own, V = rows(), np.diag([1e-8, 1.0, 1e-8])
    V[0, 1] = V[1, 0] = 1e-9
    bound = lambda data, k: float(
        answer(data, own.plan.loss(), asked(0, 0, 0, V=V[upper(3)]), k=k).M
    )
    X = own.data.X.copy()
    X[:, 1] -= 57
    oldest = int(X[:, 1].argmax())
    moved = [X.copy() for _ in range(30)]
    for i, each in enumerate(moved):
        each[oldest, 1] += i / 2  # up to 15 years older than the next
    told = lambda k: {bound(own.data._replace(X=each), k) for each in moved}
    assert len(told(0)) > 1
    assert len(told(K)) == 1
    values = np.array([1.0, 2, 3, 4, 5, 100])
    assert of_many(values, K, 4.0) == 100
    assert of_many(np.arange(1.0, 9), K, 4.0) == 16
    assert of_many(values[:3], K, 4.0) == 3


def test_a_change_that_few_rows_hold_is_refused():
    """A last question at which all but three rows have the same terms as at an earlier one."""
    own = rows(60)
    X = own.data.X.copy()
    X[:, 2] = 1e-7 * np.arange(60)
    X[:3, 2] = (4.0, 5.0, 6.0)
    lonely = own._replace(data=own.data._replace(X=X))
    before = (asked(-3, 0.05, 0),)
    check_changes(Policy(), own._replace(before=before), asked(-3.1, 0.051, 0))
    with pytest.raises(Ruled) as refusal:
        check_changes(Policy(), lonely._replace(before=before), asked(-3, 0.05, 0.1))
    assert refusal.value.rule == "changes"
    assert "4 rows alone give nearly all" in refusal.value.story
    check_changes(Policy(), own._replace(before=before), asked(-3, 0.05, 0.1))
    check_changes(Policy(min_support=0), lonely._replace(before=before), asked(-3, 0.05, 0.1))


def test_a_row_that_stays_with_its_like_is_told_within_their_bin():
    """Else an honest site's bins would hold predictions that they cannot hold, and it would be
    refused as one that lies."""
    own = rows()
    first = asked(-3, 0.05, 0)
    for w in ((-3.2, 0.055, 0), (-2.5, 0.06, -0.02), (-4, 0.04, 0.05)):
        weight, _, predicted = bins(own, asked(*w), (first,)).bins
        low, high = np.append(0, EDGES) * weight, np.append(EDGES, 1) * weight
        assert np.all((low - 1e-9 <= predicted) & (predicted <= high + 1e-9))
