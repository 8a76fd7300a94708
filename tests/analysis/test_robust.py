"""Robust standard errors against those of R: sandwich's formulas, in r/inference.R."""

from functools import cache

import numpy as np
import pandas as pd
import pytest

from feddcd import FederatedGLM
from feddcd._errors import Refused
from feddcd.analysis._regression import RegressionTable
from feddcd.analysis._robust import site_meat
from feddcd.analysis._sums import DesignRows, PointQuestion, upper
from feddcd.analysis.families import family_of
from feddcd.analysis.plan import ModelSettings, RegressionPlan
from feddcd.analysis.protocol import SiteRows, arrays
from r_tables import FACTS, MODELS, fit, table
from slices import sliced, thinned

KINDS = ("HC0", "HC1", "HC2", "HC3")
PAIRS = [(name, kind) for name in MODELS for kind in KINDS]


@pytest.mark.parametrize(("name", "kind"), thinned(sliced(PAIRS, PAIRS[::3]), 2))
def test_standard_errors_that_do_not_trust_the_model(name, kind):
    found, model = fit(name, covariance=kind), fit(name)
    np.testing.assert_allclose(found.table_["std_err"], FACTS[name]["se"][kind], rtol=2e-7)
    np.testing.assert_allclose(found.table_["coef"], FACTS[name]["coef"], rtol=1e-7)
    assert found.converged_
    # one for the meat, and one where the model's own end at a point that nobody was asked at
    assert 1 <= found.n_exchanges_ - model.n_exchanges_ <= 2
    assert f"robust ({kind})" in found.summary()
    assert "The proof is about the coefficients" in found.summary()
    assert "The proof is about the coefficients" not in model.summary()


@pytest.mark.parametrize("name", MODELS)
def test_the_covariance_beside_the_diagonal(name):
    found = fit(name, covariance="HC3").covariance_.to_numpy()
    wanted = np.array(FACTS[name]["off_diagonal"])
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6, atol=1e-9 * abs(wanted).max())


@pytest.mark.parametrize("name", thinned(MODELS, 3))
@pytest.mark.parametrize("cluster", ["site", "block"])
def test_standard_errors_by_cluster(name, cluster):
    column = {} if cluster == "site" else {"cluster": cluster}
    found = fit(name, covariance="cluster", **column)
    np.testing.assert_allclose(found.table_["std_err"], FACTS[name]["se"][cluster], rtol=2e-7)
    count = table(name)[cluster].nunique()
    assert found.n_clusters_ == count
    assert f"by cluster ({count})" in found.summary()
    assert f"WARNING: there are only {count} clusters" in found.summary()


def underdispersed():
    """Counts without chance: robust standard errors are far smaller than the model's."""
    x = np.linspace(0, 2, 400)
    return pd.DataFrame({"x": x, "y": np.round(np.exp(3 + x)), "site": np.arange(400) % 40})


@cache
def of_counts(kind, tol=1e-9):
    data = underdispersed()
    return FederatedGLM("poisson", "y ~ x", tol=tol, covariance=kind).fit(data, groups="site")


TOLERANCES = sliced([3e-1, 1e-1, 1e-2, 1e-3, 1e-5], {3e-1})


@pytest.mark.parametrize("tol", TOLERANCES)
@pytest.mark.parametrize("kind", sliced(["HC3", "cluster"], {"cluster"}))
def test_the_certificate_counts_in_the_standard_errors_of_the_table(kind, tol):
    found, best = of_counts(kind, tol), of_counts(kind)
    assert found.converged_
    assert found.certified_error_ <= tol
    off = abs(found.table_["coef"] - best.table_["coef"]) / found.table_["std_err"]
    assert off.max() <= found.certified_error_ + 1e-8
    assert "few" not in best.summary()  # 40 clusters are not


def test_many_absences_change_nothing():
    plain, hard = fit("birthwt", covariance="HC3"), fit("birthwt", covariance="HC3", absent=0.4)
    np.testing.assert_allclose(hard.table_, plain.table_, rtol=1e-6)


@pytest.mark.parametrize("kind", ["HC0", "cluster"])
def test_several_classes(kind):
    sm = pytest.importorskip("statsmodels.api")
    data = table("birthwt")
    found = FederatedGLM("multinomial", "race ~ age", tol=1e-9, covariance=kind)
    found.fit(data, groups="site")
    codes = np.unique(data.site, return_inverse=True)[1]
    fitted = sm.MNLogit(np.unique(data.race, return_inverse=True)[1], sm.add_constant(data.age))
    how = {"cov_type": "cluster", "cov_kwds": {"groups": codes}}
    how = how if kind == "cluster" else {"cov_type": kind}
    wanted = fitted.fit(disp=False, tol=1e-12, method="newton", **how).bse.to_numpy().T.ravel()
    np.testing.assert_allclose(found.table_["std_err"], wanted, rtol=1e-6)


@pytest.mark.parametrize("kind", ["HC2", "HC3"])
def test_several_classes_have_no_single_leverage(kind):
    model = FederatedGLM("multinomial", "race ~ age", covariance=kind)
    with pytest.raises(ValueError, match="more than one leverage: use covariance='HC1'"):
        model.fit(table("birthwt"), groups="site")


def test_a_row_that_alone_decides_a_coefficient():
    data = table("mtcars").assign(alone=lambda d: (d.index == 3).astype(float))
    model = FederatedGLM("gaussian", "mpg ~ wt + alone", covariance="HC3")
    with pytest.raises(ValueError, match=r"because of 1 row with leverage 1\..*Use HC1"):
        model.fit(data, groups="site")
    model.set_params(covariance="HC1").fit(data, groups="site")


def test_a_site_gives_the_meat_only_where_the_plan_has_it():
    rows = DesignRows(np.ones((9, 1)), np.ones((9, 1)), np.ones(9), np.zeros(9))
    one = np.ones((1, 1))
    asked = PointQuestion(
        one, one, np.ones(1), np.zeros(1), np.zeros(0), np.ones(()), False, closing=True
    )
    read = lambda covariance, question: RegressionTable().question(
        arrays(question), SiteRows(ModelSettings(covariance=covariance), rows, 9)
    )
    assert read("HC0", asked).closing
    for covariance, other in {"model": asked, "HC0": asked._replace(V=np.zeros(0))}.items():
        with pytest.raises(Refused, match="but the plan does not"):
            read(covariance, other)


def test_a_site_answers_no_question_that_picks_out_a_row():
    """A V that is larger than the inverse of the site's own Hessian would let one row dominate."""
    rng = np.random.default_rng(0)
    X = np.hstack([np.ones((30, 1)), rng.normal(size=(30, 2))])
    rows = DesignRows(X, X @ np.ones((3, 1)) + rng.normal(size=(30, 1)), np.ones(30), np.zeros(30))
    V, w, none = np.linalg.inv(X.T @ X), np.ones((3, 1)), np.zeros(0)
    ask = lambda V: PointQuestion(w, w, V[upper(3)], none, none, np.ones(()), False, closing=True)
    site_meat(rows, family_of("gaussian"), ask(V), "HC3", None)
    site_meat(rows, family_of("gaussian"), ask(V / 7), "HC3", None)
    target = np.outer(X[4], X[4]) * (1 - 1e-6) / (X[4] @ X[4]) ** 2  # its leverage is 1 almost
    for other in (1.1 * V, -V, target, target + 1e-9 * np.eye(3), 0 * V, np.nan * V):
        with pytest.raises(Refused, match="'V' of the question is not the inverse"):
            site_meat(rows, family_of("gaussian"), ask(other), "HC3", None)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (
            {"covariance": "HC4"},
            "covariance must be one of model, HC0, HC1, HC2, HC3, cluster; got 'HC4'",
        ),
        ({"cluster": "block"}, "do not use clusters: set covariance='cluster'"),
        ({"covariance": "HC1", "cluster": "block"}, "set covariance='cluster'"),
        (
            {"covariance": "cluster", "cluster": "blok"},
            (
                r"cluster: there is no column 'blok'; did you mean 'block'\? the columns are low, "
                "age, lwt, race, smoke, site, block"
            ),
        ),
        (
            {"covariance": "HC1", "max_exchanges": 2},
            "max_exchanges=2 is too small: no step has made the loss smaller yet. Use a larger",
        ),
    ],
)
def test_what_cannot_be(options, words):
    with pytest.raises(ValueError, match=words):
        fit("birthwt", **options)


def test_a_row_without_cluster_is_named():
    data = table("birthwt")
    data.loc[7, "block"] = np.nan
    model = FederatedGLM("binomial", "low ~ age", covariance="cluster")
    with pytest.raises(ValueError, match="cluster has no value at row 7"):
        model.fit(data, groups="site", cluster="block")


def test_a_plan_names_the_column_of_clusters():
    plan = RegressionPlan("low ~ age", covariance="cluster", cluster="block")
    assert RegressionPlan.from_dict(plan.to_dict()) == plan
    with pytest.raises(ValueError, match="set covariance='cluster'"):
        RegressionPlan("low ~ age", cluster="block")
