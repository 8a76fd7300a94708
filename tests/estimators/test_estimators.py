"""The federated estimators are scikit-learn's: its checks, its conventions, its coefficients."""

import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import sklearn
from scipy.optimize import minimize
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from feddcd import FederatedLogisticRegression, FederatedPoissonRegressor, FederatedRidge
from feddcd.estimators._gap import prove
from feddcd.estimators._rows import EstimatorRows, split
from feddcd.losses import LOGISTIC, POISSON, RIDGE, SOFTMAX
from slices import sliced

ALL = (FederatedLogisticRegression, FederatedRidge, FederatedPoissonRegressor)
TIGHT = {"tol": 1e-14, "random_state": 0}
# scikit-learn's l-bfgs leaves 1e-6 in the coefficients; its Newton does not
NEWTON = {"tol": 1e-10, "max_iter": 10_000, "solver": "newton-cholesky"}
REFERENCE = {
    FederatedLogisticRegression: (LogisticRegression, NEWTON),
    FederatedRidge: (Ridge, {"tol": 1e-12}),
    FederatedPoissonRegressor: (PoissonRegressor, NEWTON),
}
# with check_estimator's shapes, a program is compiled once: 10 clients, at most 32 rows each
N_ROWS, N_SITES = 160, 10


def one_of_each(cases) -> list:
    """Each check once, of FederatedRidge where it has it: the others share its code but for the
    loss and the targets, and take longer to compile."""
    having: dict[tuple, tuple] = {}
    for estimator, check in cases:
        if not isinstance(estimator, ALL[2]):
            having[check.func.__name__, str(check.keywords)] = (estimator, check)
    return [case for case in having.values() if case[1].func.__name__ not in LONG]


# compiled for their own shapes: test_two_classes_by_name has classes by name, and FederatedRidge
# has the check of what is not an array
LONG = ("check_classifiers_classes", "check_classifier_data_not_an_array")
CHECKS = parametrize_with_checks([make() for make in ALL])
CASES = list(CHECKS.args[1])


@pytest.mark.parametrize(CHECKS.args[0], sliced(CASES, one_of_each(CASES)), **CHECKS.kwargs)
def test_scikit_learns_checks(estimator, check):
    check(estimator)


def data(make, classes=2, d=6, n=N_ROWS, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d)) * np.geomspace(0.3, 3, d) + 0.5
    z = X @ random.normal(size=(d, classes)) / np.sqrt(d)
    if make is FederatedLogisticRegression:
        return X, np.argmax(z + random.gumbel(size=z.shape), 1)
    if make is FederatedRidge:
        return X, 3 * z[:, 0] + random.normal(size=n) + 100
    return X, random.poisson(np.exp(0.5 * z[:, 0] + 0.7))


def reference(make, penalty=1.0, **options):
    its, more = REFERENCE[make]
    return its(**more, **{name_of(make): penalty}, **options)


def name_of(make):
    return "C" if make is FederatedLogisticRegression else "alpha"


def assert_same(model, its, atol=1e-6):
    assert np.shape(model.coef_) == np.shape(its.coef_)
    assert np.shape(model.intercept_) == np.shape(its.intercept_)
    np.testing.assert_allclose(model.coef_, its.coef_, rtol=1e-6, atol=atol)
    np.testing.assert_allclose(model.intercept_, its.intercept_, rtol=1e-6, atol=atol)


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("make", ALL)
def test_same_as_scikit_learn(make, weighted, fit_intercept):
    X, y = data(make)
    weight = np.random.default_rng(1).integers(0, 4, len(y)).astype(float) if weighted else None
    its = reference(make, fit_intercept=fit_intercept).fit(X, y, sample_weight=weight)
    model = make(**TIGHT, fit_intercept=fit_intercept).fit(X, y, sample_weight=weight)
    assert_same(model, its)
    assert model.certified_gap_ <= 1e-14
    np.testing.assert_allclose(model.predict(X), its.predict(X), rtol=1e-6)
    np.testing.assert_allclose(
        model.score(X, y, sample_weight=weight), its.score(X, y, sample_weight=weight), rtol=1e-6
    )


@pytest.mark.parametrize("strength", [0.01, 100.0])
@pytest.mark.parametrize("make", ALL)
def test_weak_and_strong_penalties(make, strength):
    X, y = data(make)
    its = reference(make, strength).fit(X, y)
    assert_same(make(strength, **TIGHT).fit(X, y), its)
    scale = {
        FederatedLogisticRegression: 1 / (len(y) * strength),
        FederatedRidge: strength / len(y),
    }
    own = make(l2=scale.get(make, strength), **TIGHT).fit(X, y)
    assert_same(own, its)


@pytest.mark.parametrize("make", ALL)
def test_sparse_and_frames(make):
    X, y = data(make)
    X[np.abs(X) < 0.4] = 0
    its = reference(make).fit(X, y)
    names = [f"x{j}" for j in range(X.shape[1])]
    frame = make(**TIGHT).fit(pd.DataFrame(X, columns=names), pd.Series(y))
    assert_same(frame, its)
    assert list(frame.feature_names_in_) == names
    with pytest.raises(ValueError, match="feature names should match"):
        frame.predict(pd.DataFrame(X, columns=names[::-1]))
    for form in (scipy.sparse.csr_array, scipy.sparse.csc_matrix, scipy.sparse.coo_array):
        sparse = make(**TIGHT).fit(form(X), y)
        assert_same(sparse, its)
        np.testing.assert_allclose(
            sparse.predict(form(X)), frame.predict(pd.DataFrame(X, columns=names))
        )


@pytest.mark.parametrize("class_weight", [None, "balanced", {0: 1, 1: 3, 2: 0.5}])
def test_several_classes(class_weight):
    X, y = load_iris(return_X_y=True)
    X, y = X[20:], y[20:]  # the classes are not equally many
    its = reference(FederatedLogisticRegression, class_weight=class_weight).fit(X, y)
    model = FederatedLogisticRegression(**TIGHT, class_weight=class_weight).fit(X, y)
    assert_same(model, its, atol=1e-5)
    for method in ("decision_function", "predict_proba", "predict_log_proba", "predict"):
        np.testing.assert_allclose(getattr(model, method)(X), getattr(its, method)(X), rtol=1e-4)
    assert model.score(X, y) == its.score(X, y)


def test_two_classes_by_name():
    X, y = data(FederatedLogisticRegression)
    y = np.where(y == 1, "yes", "no")
    its = reference(FederatedLogisticRegression, class_weight="balanced").fit(X, y)
    model = FederatedLogisticRegression(**TIGHT, class_weight="balanced").fit(X, y)
    assert_same(model, its)
    assert list(model.classes_) == ["no", "yes"]
    for method in ("decision_function", "predict_proba", "predict_log_proba"):
        np.testing.assert_allclose(getattr(model, method)(X), getattr(its, method)(X), rtol=1e-5)
    assert (model.predict(X) == its.predict(X)).all()


def unequal_sites(y):
    """Ten sites of 1 to 32 rows; with y sorted, most have one class only."""
    sizes = np.array([1, 1, 2, 4, 8, 16, 32, 32, 32, 32])
    assert sizes.sum() == len(y)
    return np.repeat([f"site {i}" for i in range(10)], sizes)


@pytest.mark.parametrize("make", ALL)
def test_unequal_sites_that_have_one_class_each(make):
    X, y = data(make)
    order = np.argsort(y, kind="stable")
    X, y = X[order], y[order]
    site = unequal_sites(y)
    assert len(np.unique(y[site == "site 9"])) < len(np.unique(y))
    model = make(**TIGHT).fit(X, y, groups=site)
    assert_same(model, reference(make).fit(X, y))


def test_columns_of_very_different_size():
    X, y = load_breast_cancer(return_X_y=True)
    X, y = X[:N_ROWS], y[:N_ROWS]
    model = FederatedLogisticRegression(**TIGHT).fit(X, y)
    assert model.certified_gap_ <= 1e-14
    assert_same(model, reference(FederatedLogisticRegression).fit(X, y), atol=1e-5)


def test_targets_of_any_size():
    X, y = data(FederatedRidge)
    model = FederatedRidge(random_state=0, tol=1.0).fit(X, 1e9 * y)
    assert_same(model, Ridge().fit(X, 1e9 * y))
    flat = FederatedRidge(random_state=0).fit(X, np.full(len(y), 3.0))
    np.testing.assert_allclose(flat.coef_, 0, atol=1e-12)
    assert flat.intercept_ == pytest.approx(3)


def sparse_problem():
    random = np.random.default_rng(0)
    X = scipy.sparse.random_array((200, 400), density=0.03, rng=random, format="csr")
    y = (X @ random.normal(size=400) + 0.3 * random.normal(size=200) > -0.2).astype(int)
    return X, y


@pytest.mark.chaos
def test_many_features_stay_sparse(monkeypatch):
    X, y = sparse_problem()
    dense = []
    toarray = scipy.sparse.csr_array.toarray
    watched = lambda A: dense.append(A.shape) or toarray(A)
    monkeypatch.setattr(scipy.sparse.csr_array, "toarray", watched)
    site = np.argsort(np.argsort(y, kind="stable")) // 20  # nearly all have one class only
    model = FederatedLogisticRegression(tol=1e-10, random_state=0).fit(X, y, groups=site)
    monkeypatch.undo()
    assert set(dense) <= {(20, 20)}  # a client's Gram matrix
    its = reference(FederatedLogisticRegression).fit(X.toarray(), y)
    assert model.history_["solver_steps"][-1] > model.n_rounds_  # not Newton's single step
    np.testing.assert_allclose(model.coef_, its.coef_, atol=1e-4)
    np.testing.assert_allclose(model.intercept_, its.intercept_, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "algorithm", "penalty"),
    [
        pytest.param(FederatedRidge, "feddcd", 1000.0, marks=pytest.mark.chaos),
        pytest.param(FederatedPoissonRegressor, "accfeddcd", 1.0, marks=pytest.mark.chaos),
        pytest.param(FederatedPoissonRegressor, "pointsaga", 30.0, marks=pytest.mark.chaos),
        (FederatedLogisticRegression, "fednewton", 1.0),
    ],
)
def test_some_take_part_at_a_time(make, algorithm, penalty):
    """A quarter of the clients in each round; the intercept stays free of any penalty."""
    X, y = data(make)
    model = make(penalty, algorithm=algorithm, tau=3, tol=1e-11, random_state=0).fit(X, y)
    assert_same(model, reference(make, penalty).fit(X, y), atol=2e-5)
    rounds = np.flatnonzero(~np.isnan(model.history_["certified_gap"]))
    between = np.setdiff1d(np.arange(1, model.n_rounds_), rounds)
    assert (np.diff(model.history_["uploads"])[between - 1] == 3).all()


@pytest.mark.parametrize("make", ALL)
def test_what_it_cost(make):
    X, y = data(make)
    model = make(**TIGHT).fit(X, y)
    p, history = X.shape[1] + 1, model.history_
    assert model.n_rounds_ == history.rounds == len(history["round"])
    assert model.n_uploads_ == history["uploads"][-1] == N_SITES * (model.n_rounds_ + 1)
    newton = p * (p + 1) // 2 + p + 3  # H, b and three numbers; three more for the certificate
    first = 1 + 2 * p  # the sums of weights, targets, features and squares
    assert model.bytes_up_ == 8 * N_SITES * (model.n_rounds_ * (newton + 3) + first)
    assert model.certified_gap_ == history["certified_gap"][-1]
    assert (np.diff(history["objective"]) <= 1e-12 * np.abs(history["objective"][0])).all()


@pytest.mark.parametrize("make", ALL)
def test_stops_at_the_certified_gap(make):
    X, y = data(make)
    best = make(**TIGHT).fit(X, y).history_["objective"][-1]
    rounds = []
    for tol in (1e9, 1e-2, 1e-6):
        model = make(tol=tol, random_state=0).fit(X, y)
        gaps = model.history_["certified_gap"]
        assert (gaps[:-1] > tol).all()
        assert gaps[-1] <= tol
        assert (model.history_["objective"] - best <= gaps * (1 + 1e-9) + 1e-12 * abs(best)).all()
        rounds.append(model.n_rounds_)
    assert rounds == sorted(rounds)
    assert rounds[0] == 1


LINKS = {"logistic": LOGISTIC, "softmax": SOFTMAX, "ridge": RIDGE, "poisson": POISSON}


def random_rows(name, seed):
    random = np.random.default_rng(seed)
    n, d = random.integers(5, 60), random.integers(1, 6)
    k = 1 if name != "softmax" else random.integers(3, 6)
    X = random.normal(size=(n, d)) * 10 ** random.uniform(-2, 0.5, d) + random.normal(size=d)
    X *= 1e-3 ** (seed % 2)  # then the intercept is all that matters
    if name == "softmax":
        Y = np.eye(k)[np.append(np.arange(k), random.integers(0, k, n - k))]
    elif name == "logistic":
        Y = np.append([0.0, 1.0], random.integers(0, 2, n - 2))[:, None]
    else:
        Y = random.poisson(3, (n, 1)) + 1.0 * (name == "poisson") * np.eye(n, 1)
    s = random.uniform(0.1, 1, n)
    l2, intercept = 10 ** random.uniform(-3, 1), bool(random.integers(0, 4))
    return EstimatorRows(X, Y, s / s.sum(), l2, LINKS[name], intercept, []), random


def optimum(rows):
    """F*, and where it is, by another method."""
    d, k = rows.X.shape[1], rows.Y.shape[1]

    def value_and_slope(flat):
        w, b = flat[: d * k].reshape(d, k), flat[d * k :] * rows.intercept
        z = rows.X @ w + b
        R = rows.s[:, None] * (rows.link.mean(z) - rows.Y)
        value = rows.s @ rows.link.value(z, rows.Y) + rows.l2 / 2 * np.sum(w**2)
        slope = rows.X.T @ R + rows.l2 * w
        return value, np.append(slope.ravel(), R.sum(0) * rows.intercept)

    options = {"maxiter": 3000, "ftol": 1e-16, "gtol": 1e-9, "maxcor": 30}
    start = np.zeros((d + 1) * k)
    found = minimize(value_and_slope, start, jac=True, method="L-BFGS-B", options=options)
    return found.fun, found.x[: d * k].reshape(d, k), found.x[d * k :] * rows.intercept


@pytest.mark.parametrize("name", LINKS)
def test_the_gap_is_never_below_the_true_one(name):
    """At points from near the optimum to far away; it is of use near it, and sometimes tight."""
    finite = useful = 0
    tightest = np.inf
    for seed in range(20):
        rows, random = random_rows(name, seed)
        best, w, b = optimum(rows)
        for distance in 10.0 ** np.arange(-6, 1):
            there = w + distance * random.normal(size=w.shape)
            beside = b + rows.intercept * distance * random.normal(size=b.shape)
            for point, refine in ((there, True), (there, False), (w, False)):
                proof = prove(rows, point, beside, refine=refine)
                true = proof.objective - best
                assert true <= proof.gap + 1e-12 * (1 + abs(best)), (seed, distance)
                finite += np.isfinite(proof.gap)
                useful += distance == 1e-6 and proof.gap < 1e-4
                tightest = min(tightest, proof.gap / true if true > 1e-6 else np.inf)
    assert finite > 20 * 3 * 4
    assert useful > 20 * 3 * 0.75
    assert tightest < 1.1  # so that a smaller gap would be false


def test_the_gap_counts_rounding():
    """At the optimum to rounding the gap is not zero, and far below any tol."""
    rows, _ = random_rows("logistic", 3)
    _, w, b = optimum(rows)
    assert 0 < prove(rows, w, b, refine=True).gap < 1e-15


@pytest.mark.parametrize("make", sliced(ALL, ALL[:1]))
def test_pipeline_search_and_clone(make):
    X, y = data(make)
    pipe = make_pipeline(StandardScaler(), make(**TIGHT))
    name, step = name_of(make), make.__name__.lower()
    site = np.arange(len(y)) % N_SITES
    pipe.fit(X, y, **{f"{step}__groups": site})
    its = make_pipeline(StandardScaler(), reference(make)).fit(X, y)
    assert_same(pipe[-1], its[-1])
    grid = {f"{step}__{name}": [0.1, 1.0, 10.0]}
    search = GridSearchCV(pipe, grid, cv=3).fit(X, y, **{f"{step}__groups": site})
    its = make_pipeline(StandardScaler(), reference(make))
    same = GridSearchCV(its, {f"{its.steps[-1][0]}__{name}": [0.1, 1.0, 10.0]}, cv=3).fit(X, y)
    np.testing.assert_allclose(
        search.cv_results_["mean_test_score"], same.cv_results_["mean_test_score"], rtol=1e-6
    )
    copy = clone(search.best_estimator_[-1])
    assert copy.get_params() == search.best_estimator_[-1].get_params()
    with pytest.raises(NotFittedError, match="not fitted yet"):
        copy.predict(X)


def test_groups_are_routed():
    X, y = data(FederatedRidge)
    site = np.arange(len(y)) % N_SITES
    with sklearn.config_context(enable_metadata_routing=True):
        model = FederatedRidge(**TIGHT, n_clients=2).set_fit_request(groups=True)
        search = GridSearchCV(model, {"alpha": [0.1, 1.0]}, cv=5)
        search.fit(X, y, groups=site)
    best = search.best_estimator_
    assert best.n_uploads_ == N_SITES * (best.n_rounds_ + 1)  # not of 2 clients
    assert_same(best, Ridge(best.alpha).fit(X, y))


def test_clients_are_clipped():
    random = np.random.RandomState(0)
    sizes = [len(part) for part in split(None, 7, 3, random)]
    assert sizes == [3, 2, 2]
    assert [len(part) for part in split(None, 4, 10, random)] == [1] * 4
    X, y = data(FederatedRidge, n=N_SITES)
    model = FederatedRidge(n_clients=50, **TIGHT).fit(X, y)
    assert model.n_uploads_ == N_SITES * (model.n_rounds_ + 1)
    assert_same(model, Ridge().fit(X, y))


def test_parts_are_those_of_the_random_state():
    a, b, c = (split(None, 30, 5, np.random.RandomState(seed)) for seed in (0, 0, 1))
    assert all((x == y).all() for x, y in zip(a, b, strict=True))
    assert any((x != y).any() for x, y in zip(a, c, strict=True))
    by_name = split(["b", "a", "b"], 3, 5, np.random.RandomState(0))
    assert [list(part) for part in by_name] == [[1], [0, 2]]


def test_says_when_it_is_not_there():
    X, y = data(FederatedPoissonRegressor)
    with pytest.warns(ConvergenceWarning, match=r"fednewton did not reach tol=1e-06 within"):
        model = FederatedPoissonRegressor(max_rounds=2, random_state=0).fit(X, y)
    assert model.n_rounds_ == 2
    assert model.certified_gap_ > 1e-6


REFUSED = [
    ({"C": 0}, {}, "C must be a finite number above 0, got C=0"),
    ({"C": np.inf}, {}, "C must be a finite number above 0, got C=inf"),
    ({"C": "1"}, {}, "C must be a finite number above 0, got C='1'"),
    ({"l2": -1.0}, {}, "l2 must be a finite number above 0, got l2=-1.0"),
    ({"C": 2.0, "l2": 0.1}, {}, "give either C or l2, not both; got C=2.0, l2=0.1"),
    ({"tol": 0}, {}, "tol must be a finite number above 0, got tol=0"),
    ({"n_clients": 1}, {}, "n_clients must be a whole number >= 2, got n_clients=1"),
    ({"max_rounds": 1.5}, {}, "max_rounds must be a whole number >= 1, got max_rounds=1.5"),
    ({"tau": 1}, {}, "tau must be a whole number >= 2, got tau=1"),
    (
        {"tau": 11},
        {},
        "must be from 2 to .*; got tau=11, N=10",
    ),
    ({"algorithm": "fedavg"}, {}, "reach the optimum; got 'fedavg'"),
    ({"algorithm": "newton"}, {}, "algorithm must be one of auto, fednewton, pointsaga, feddcd"),
    ({"class_weight": {0: 0.0}}, {}, "all rows of the class 0 have the weight 0; each class needs"),
    ({}, {"groups": [0, 1, 2]}, "'groups' has length 3, but X has 160 rows"),
    (
        {},
        {"groups": [3] * N_ROWS},
        "'groups' has the value 3 in every row, but a federation needs at least two",
    ),
    ({}, {"groups": [np.nan] * N_ROWS}, "'groups' contains NaN"),
    (
        {},
        {"groups": np.array([1, "a"] * (N_ROWS // 2), object)},
        "'groups' has labels that cannot be sorted",
    ),
    ({}, {"sample_weight": np.zeros(N_ROWS)}, "at least one non-zero number"),
    ({}, {"sample_weight": -np.ones(N_ROWS)}, "[Nn]egative"),
]


@pytest.mark.parametrize(("settings", "fit", "message"), REFUSED)
def test_bad_input_is_refused(settings, fit, message):
    X, y = data(FederatedLogisticRegression)
    with pytest.raises(ValueError, match=message):
        FederatedLogisticRegression(**settings).fit(X, y, **fit)


@pytest.mark.parametrize("make", ALL)
def test_bad_rows_are_refused(make):
    X, y = data(make)
    broken = X.copy()
    broken[3, 2] = np.nan
    with pytest.raises(ValueError, match="contains NaN"):
        make().fit(broken, y)
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        make().fit(X, y[:-1])
    if make is not FederatedLogisticRegression:
        with pytest.raises(ValueError, match="give either alpha or l2, not both"):
            make(2.0, l2=1.0).fit(X, y)


def test_bad_targets_are_refused():
    X, y = data(FederatedPoissonRegressor)
    with pytest.raises(
        ValueError, match=r"y must contain counts \(numbers >= 0\), but row 5 has -1"
    ):
        FederatedPoissonRegressor().fit(X, np.where(np.arange(len(y)) == 5, -1, y))
    with pytest.raises(ValueError, match="y is 0 in every row with a weight above 0"):
        FederatedPoissonRegressor().fit(X, np.zeros(len(y)))
    with pytest.raises(ValueError, match="it has only the class 1"):
        FederatedLogisticRegression().fit(X, np.ones(len(y)))
    wide = np.zeros((20, 2500))
    told = "works with at most 2000 parameters, but this model has .* 'fednewton' keeps a"
    with pytest.raises(ValueError, match=told):
        FederatedRidge(algorithm="fednewton").fit(wide, np.arange(20.0))
