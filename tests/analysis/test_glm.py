"""The federated table is that of the pooled rows: statsmodels and scikit-learn say what it is."""

import dataclasses
import os
import warnings
from functools import cache

import jax
import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression, PoissonRegressor, Ridge

import feddcd
from feddcd import FederatedGLM
from slices import sliced

sm = pytest.importorskip("statsmodels.api")

FAMILY = {"binomial": "Binomial", "poisson": "Poisson", "gaussian": "Gaussian"}
EXACT = 1e-9
needs_files = pytest.mark.skipif(
    not os.environ.get("FEDDCD_DATA"), reason="FEDDCD_DATA is not set: no files to read"
)


def pooled(family, X, y, fit=None, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = sm.GLM(y, X, family=getattr(sm.families, FAMILY[family])(), **options)
        return model.fit(tol=1e-13, tol_criterion="params", maxiter=200, **fit or {})


def assert_same_table(model, result):
    params, bse = np.asarray(result.params), np.asarray(result.bse)
    np.testing.assert_allclose(model.table_["std_err"], bse, rtol=1e-6)
    # a coefficient near 0 is compared on the scale of its standard error
    np.testing.assert_array_less(
        np.abs(model.table_["coef"] - params), 1e-6 * np.maximum(np.abs(params), 1e-3 * bse)
    )
    by = model.result_.statistic
    np.testing.assert_allclose(model.table_[by.name], params / bse, rtol=2e-6, atol=1e-8)
    tail = stats.norm if by.name == "z" else stats.t(result.df_resid)
    np.testing.assert_allclose(model.table_["p"], 2 * tail.sf(abs(params / bse)), rtol=1e-4)
    low, high = params - tail.ppf(0.975) * bse, params + tail.ppf(0.975) * bse
    np.testing.assert_allclose(model.table_["ci_low"], low, rtol=1e-5, atol=1e-6 * bse.max())
    np.testing.assert_allclose(model.table_["ci_high"], high, rtol=1e-5, atol=1e-6 * bse.max())


def assert_same_fit(model, result):
    np.testing.assert_allclose(model.deviance_, result.deviance, rtol=1e-8)
    np.testing.assert_allclose(model.null_deviance_, result.null_deviance, rtol=1e-8)
    np.testing.assert_allclose(model.log_likelihood_, result.llf, rtol=1e-8)
    dispersion = 2 * isinstance(result.family, sm.families.Gaussian)  # R counts it, too
    np.testing.assert_allclose(model.aic_, result.aic + dispersion, rtol=1e-8)
    np.testing.assert_allclose(model.dispersion_, result.scale, rtol=1e-8)


def dirichlet(y, N, seed=0):
    label = np.asarray(y) > np.median(y) if len(np.unique(y)) > 20 else np.asarray(y)
    site = np.empty(len(label), int)
    for i, part in enumerate(feddcd.partition(label.astype(int), "dirichlet:0.3", N, seed=seed)):
        site[part] = i
    return site


@cache
def synthetic():
    """240 rows of 3 columns at 4 sites of 150, 60, 29 and 1 rows; all families fit."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(240, 3)) * [1, 20, 0.01] + [0, 5, 1]
    eta = (X - [0, 5, 1]) @ [0.8, -0.03, 40] - 0.4
    y = {
        "binomial": (rng.random(240) < 1 / (1 + np.exp(-eta))).astype(float),
        "poisson": rng.poisson(np.exp(eta)).astype(float),
        "gaussian": 1e4 * (eta + rng.normal(size=240)),
    }
    site = np.repeat(["a", "b", "c", "d"], [150, 60, 29, 1])
    extra = {
        "offset": rng.normal(size=240) / 3,
        "weight": rng.integers(1, 5, 240).astype(float),
    }
    return X, y, site, extra


@pytest.mark.parametrize("family", FAMILY)
@pytest.mark.parametrize("what", ["plain", "offset", "weight", "both", "cluster"])
def test_table_of_the_pooled_rows(family, what):
    X, ys, site, extra = synthetic()
    y = ys[family]
    o = extra["offset"] * (1e4 if family == "gaussian" else 1) * (what in ("offset", "both"))
    s = extra["weight"] if what in ("weight", "both") else None
    covariance = "cluster" if what == "cluster" else "model"
    model = FederatedGLM(family, tol=EXACT, covariance=covariance)
    model.fit(X, y, groups=site, offset=o, sample_weight=s)
    fit = {"cov_type": "cluster", "cov_kwds": {"groups": np.unique(site, return_inverse=True)[1]}}
    options = {} if s is None else {"var_weights": s}
    result = pooled(
        family, sm.add_constant(X), y, fit if what == "cluster" else None, offset=o, **options
    )
    assert_same_table(model, result)
    assert_same_fit(model, result)
    assert model.converged_
    assert model.certified_error_ <= EXACT
    np.testing.assert_allclose(model.predict(X, offset=o), result.fittedvalues, rtol=1e-8)
    assert list(model.table_.index) == ["Intercept", "x0", "x1", "x2"]


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_integer_weights_count_rows(family):
    """Families without dispersion do not care whether a weight is a frequency."""
    X, ys, site, extra = synthetic()
    s = extra["weight"]
    model = FederatedGLM(family, tol=EXACT).fit(X, ys[family], groups=site, sample_weight=s)
    assert_same_table(model, pooled(family, sm.add_constant(X), ys[family], freq_weights=s))
    twice = np.repeat(np.arange(len(s)), s.astype(int))
    assert_same_table(model, pooled(family, sm.add_constant(X[twice]), ys[family][twice]))


def test_site_effects_are_dummies():
    X, ys, site, _ = synthetic()
    site = np.where(site == "d", "c", site)
    model = FederatedGLM("binomial", tol=EXACT, site_effects="fixed")
    model.fit(X, ys["binomial"], groups=site)
    dummies = np.column_stack([site == "b", site == "c"]).astype(float)
    Z = np.hstack([sm.add_constant(X), dummies])
    result = pooled("binomial", Z, ys["binomial"])
    assert_same_table(model, result)
    assert_same_fit(model, result)
    assert list(model.table_.index[-2:]) == ["site[b]", "site[c]"]
    np.testing.assert_allclose(model.predict(X, groups=site), result.fittedvalues, rtol=1e-8)
    with pytest.raises(ValueError, match="the argument 'groups' must name the site of each row"):
        model.predict(X)
    with pytest.raises(
        ValueError,
        match="the site 'z' was not part of the fit, so the model cannot predict its rows",
    ):
        model.predict(X, groups=["z"] * len(X))


@pytest.mark.parametrize("family", ["binomial", "gaussian"])
def test_some_sites_absent(family):
    X, ys, _, _ = synthetic()
    site = np.arange(240) % 8
    settings = {"tol": 0.01, "max_exchanges": 100}
    model = FederatedGLM(family, absent=0.3, **settings).fit(X, ys[family], groups=site)
    result = pooled(family, sm.add_constant(X), ys[family])
    off = np.abs(model.table_["coef"] - result.params) / result.bse
    assert model.converged_
    assert off.max() <= model.certified_error_ <= 0.01
    assert model.n_uploads_ < 8 * model.n_exchanges_


def test_penalties_as_scikit_learn():
    """LogisticRegression: C = 1/l2 on the sum; Ridge: alpha = l2; Poisson: alpha = l2 / weight."""
    X, ys, site, extra = synthetic()
    Z, s = (X - X.mean(0)) / X.std(0), extra["weight"]
    fits = {f: FederatedGLM(f, l2=3.0, tol=EXACT).fit(Z, ys[f], site, s) for f in FAMILY}
    peers = {
        "binomial": LogisticRegression(
            C=1 / 3, tol=1e-10, max_iter=10_000, solver="newton-cholesky"
        ),
        "gaussian": Ridge(alpha=3.0, tol=1e-12),
        "poisson": PoissonRegressor(alpha=3 / s.sum(), tol=1e-10, solver="newton-cholesky"),
    }
    for family, peer in peers.items():
        peer.fit(Z, ys[family], sample_weight=s)
        np.testing.assert_allclose(fits[family].coef_, peer.coef_.ravel(), rtol=1e-6)
        np.testing.assert_allclose(fits[family].intercept_, np.ravel(peer.intercept_), rtol=1e-6)


def test_penalty_by_name_or_position():
    X, ys, site, _ = synthetic()
    fit = lambda l2: FederatedGLM("gaussian", l2=l2).fit(X, ys["gaussian"], groups=site)
    named, listed = fit({"x1": 7.0}), fit([0.0, 7.0, 0.0])
    np.testing.assert_array_equal(named.coef_, listed.coef_)
    A = np.diag([0, 0, 7.0, 0])
    Z = sm.add_constant(X)
    exact = np.linalg.solve(Z.T @ Z + A, Z.T @ ys["gaussian"])
    np.testing.assert_allclose(named.table_["coef"], exact, rtol=1e-8)


def test_multinomial():
    data = sm.datasets.anes96.load_pandas().data
    X, y = data[["logpopul", "selfLR", "age"]], (data["PID"] // 2.5).astype(int)
    model = FederatedGLM("multinomial", tol=EXACT).fit(X, y, groups=dirichlet(y, 5))
    result = sm.MNLogit(y, sm.add_constant(X)).fit(disp=0, method="newton", maxiter=100, tol=1e-14)
    k = len(np.unique(y)) - 1
    coef, bse = np.asarray(result.params).T.ravel(), np.asarray(result.bse).T.ravel()
    np.testing.assert_allclose(model.table_["coef"], coef, rtol=1e-6)
    np.testing.assert_allclose(model.table_["std_err"], bse, rtol=1e-6)
    np.testing.assert_allclose(model.log_likelihood_, result.llf, rtol=1e-9)
    np.testing.assert_allclose(model.aic_, result.aic, rtol=1e-9)
    np.testing.assert_allclose(model.null_deviance_, -2 * result.llnull, rtol=1e-7)
    assert model.coef_.shape == (k, 3)
    assert list(model.table_.index[:2]) == ["1: Intercept", "1: logpopul"]
    np.testing.assert_allclose(model.predict(X), result.predict(), rtol=1e-6)


def breast_cancer():
    frame = load_breast_cancer(as_frame=True).frame
    return "binomial", frame[["mean texture", "mean smoothness", "mean symmetry"]], frame["target"]


def fair():
    data = sm.datasets.fair.load_pandas().data
    return "binomial", data.drop(columns="affairs"), (data["affairs"] > 0).astype(float)


def randhie():
    data = sm.datasets.randhie.load_pandas()
    return "poisson", data.exog, data.endog


REAL = {f.__name__: f for f in (breast_cancer, fair, randhie)}


@pytest.mark.parametrize("name", sliced(REAL, {"breast_cancer", "fair"}))
def test_real_data_at_unequal_sites(name):
    family, X, y = REAL[name]()
    site = dirichlet(y, 12)
    model = FederatedGLM(family, tol=1e-8).fit(X, y, groups=site)
    result = pooled(family, sm.add_constant(X), np.asarray(y, float))
    assert_same_table(model, result)
    assert_same_fit(model, result)
    for tol, exchanges in {0.01: 6, 1e-6: 7}.items():  # the latter is the default
        loose = FederatedGLM(family, tol=tol).fit(X, y, groups=site)
        assert loose.n_exchanges_ <= exchanges
        off = np.abs(loose.table_["coef"] - np.asarray(result.params)) / np.asarray(result.bse)
        assert off.max() <= loose.certified_error_ + 1e-9  # statsmodels' own rounding
        assert loose.certified_error_ <= tol


def test_star98_shares_of_trials():
    data = sm.datasets.star98.load_pandas()
    trials = data.endog.sum(axis=1)
    share = data.endog["NABOVE"] / trials
    site = dirichlet((share > share.median()).astype(int), 8)
    model = FederatedGLM(tol=1e-6).fit(data.exog, share, groups=site, sample_weight=trials)
    result = pooled("binomial", sm.add_constant(data.exog), data.endog)
    assert_same_table(model, result)
    assert_same_fit(model, result)


def file_data(name):
    """Rows and columns such that an unpenalised model exists: no level with one outcome only."""
    data = feddcd.load(name)
    X = data.X.toarray() if hasattr(data.X, "toarray") else data.X
    y = (data.y == data.y.max()).astype(float)
    rows = np.ones(len(y), bool)
    for x in X.T:
        for v in (0, 1):
            rows &= (x != v) | (np.ptp(y[x == v]) > 0 if (x == v).any() else True)
    X, y = X[rows], y[rows]
    G = np.column_stack([np.ones(len(X)), X])
    G = G.T @ G / len(X)
    chosen = [0]
    for k in range(1, len(G)):
        known = np.linalg.solve(G[np.ix_(chosen, chosen)], G[chosen, k])
        if G[k, k] - G[chosen, k] @ known > 1e-9:
            chosen.append(k)
    return X[:, np.array(chosen[1:]) - 1], y, dirichlet(y, 50)


def drawn():
    rng = np.random.default_rng(8)
    X = rng.normal(size=(3000, 4))
    y = (rng.random(3000) < 1 / (1 + np.exp(-X @ [1.0, -0.5, 0.3, 0.0]))).astype(float)
    return X, y, dirichlet(y, 50)


files = [pytest.mark.chaos, needs_files]


@pytest.mark.parametrize(
    "name", ["drawn", pytest.param("a9a", marks=files), pytest.param("phishing", marks=files)]
)
def test_few_exchanges_with_fifty_sites(name):
    """Four are enough for a hundredth of a standard error."""
    X, y, site = drawn() if name == "drawn" else file_data(name)
    assert FederatedGLM().fit(X, y, groups=site).n_exchanges_ <= 6
    model = FederatedGLM(tol=0.01).fit(X, y, groups=site)
    assert model.n_exchanges_ <= 4
    assert model.certified_error_ <= 0.01
    result = pooled("binomial", sm.add_constant(X), y)
    off = np.abs(model.table_["coef"] - result.params) / result.bse
    assert off.max() <= model.certified_error_
    assert_same_table(FederatedGLM(tol=1e-8).fit(X, y, groups=site), result)


def frame_of(n=240):
    X, ys, site, extra = synthetic()
    return pd.DataFrame(
        {
            "age": X[:, 0], "dose": X[:, 1], "death": ys["poisson"], "hospital": site,
            "sex": np.where(np.arange(n) % 3 == 0, "m", "f"), "time": np.exp(extra["offset"]),
        }
    )  # fmt: skip


def test_formula_with_offset_and_categories():
    frame = frame_of()
    model = FederatedGLM("poisson", "death ~ age + C(sex) + offset(log(time)) + dose", tol=EXACT)
    model.fit(frame, groups="hospital")
    assert list(model.table_.index) == ["Intercept", "age", "C(sex)[T.m]", "dose"]
    m = (frame["sex"] == "m").astype(float)
    Z = pd.DataFrame({"const": 1.0, "age": frame["age"], "m": m, "dose": frame["dose"]})
    result = pooled("poisson", Z, frame["death"], offset=np.log(frame["time"]))
    assert_same_table(model, result)
    np.testing.assert_allclose(model.predict(frame), result.fittedvalues, rtol=1e-8)
    with pytest.raises(
        ValueError,
        match=r"sex has 'x' at row 2 \(counted from 0\), "
        r"but the fit knows only the levels 'f', 'm'",
    ):
        model.predict(frame.assign(sex=["m", "f", "x"] + ["f"] * 237))
    with pytest.raises(ValueError, match="no column 'age'"):
        model.predict(frame.drop(columns="age"))


def test_missing_rows_are_dropped_and_counted():
    frame = frame_of()
    frame.loc[[153, 154], "age"] = np.nan
    frame.loc[157, "death"] = np.nan
    frame["weight"] = 1.0
    frame.loc[170:199, "weight"] = 0.0
    frame["again"] = frame["dose"] ** 2
    settings = {"family": "poisson", "formula": "death ~ age + dose + again", "tol": EXACT}
    model = FederatedGLM(**settings).fit(frame, groups="hospital", sample_weight="weight")
    assert (model.n_rows_, model.n_dropped_) == (207, 3)
    rest = frame[frame["weight"] > 0].dropna()
    Z = sm.add_constant(rest[["age", "dose", "again"]])
    assert_same_table(model, pooled("poisson", Z, rest["death"]))


def test_summary_says_what_was_done():
    X, ys, site, _ = synthetic()
    model = FederatedGLM().fit(X, ys["binomial"], groups=site)
    text = model.summary()
    assert (
        dataclasses.replace(model.result_, answers="sum", n_dropped=0).rows_dropped == "none or few"
    )
    assert (
        dataclasses.replace(model.result_, answers="sum", n_dropped=7).rows_dropped == "at least 7"
    )
    for words in ("std err", "P>|z|", "Intercept", "Rows dropped", "Null deviance", "AIC"):
        assert words in text
    cost = f"{model.n_exchanges_} exchanges with 4 sites, {model.n_uploads_} uploads"
    assert cost in text
    assert f"{model.bytes_up_:,} bytes" in text
    assert "no coefficient is further than" in text
    assert model.n_uploads_ == 4 * model.n_exchanges_


def test_too_few_exchanges_is_said():
    X, ys, site, _ = synthetic()
    with pytest.warns(UserWarning, match="does not reach tol=1e-09 within 3 exchanges"):
        model = FederatedGLM(tol=EXACT, max_exchanges=3).fit(X, ys["binomial"], groups=site)
    assert not model.converged_
    assert "NOT proven" in model.summary()


def test_estimator_conventions():
    model = FederatedGLM("poisson", l2=2.0)
    assert clone(model).get_params() == model.get_params()
    assert model.set_params(tol=0.1).tol == 0.1
    X, ys, site, _ = synthetic()
    before = jax.config.jax_enable_x64
    assert model.fit(X, ys["poisson"], groups=site) is model
    assert jax.config.jax_enable_x64 == before
    assert model.coef_.dtype == np.float64


@pytest.mark.parametrize(
    "dose",
    [
        lambda y, rng: y + 0.5,
        lambda y, rng: 4 * y + rng.normal(size=len(y)) / 10,
        lambda y, rng: y * (rng.random(len(y)) < 0.3),
    ],
)
def test_what_separates_is_named(dose):
    """Wholly, with a gap, and in one of the outcomes only."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 200).astype(float)
    data = pd.DataFrame({"age": rng.normal(60, 9, 200), "y": y, "dose": dose(y, rng)})
    with pytest.raises(ValueError, match="separation: dose predicts some outcomes perfectly"):
        FederatedGLM("binomial", "y ~ age + dose").fit(data, groups=np.arange(200) % 4)
