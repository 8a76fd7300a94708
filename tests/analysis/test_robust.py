"""Robust standard errors against those of R: sandwich's formulas, in r/inference.R."""

import numpy as np
import pandas as pd
import pytest

from feddcd import FederatedGLM
from feddcd.analysis.plan import RegressionPlan
from r_tables import FACTS, MODELS, fit, table

KINDS = ("HC0", "HC1", "HC2", "HC3")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", MODELS)
def test_standard_errors_that_do_not_trust_the_model(name, kind):
    found, model = fit(name, covariance=kind), fit(name)
    np.testing.assert_allclose(found.table_["std_err"], FACTS[name]["se"][kind], rtol=2e-7)
    np.testing.assert_allclose(found.table_["coef"], FACTS[name]["coef"], rtol=1e-7)
    assert found.converged_
    assert found.n_exchanges_ == model.n_exchanges_ + 1
    assert f"robust ({kind})" in found.summary()


@pytest.mark.parametrize("name", MODELS)
def test_the_covariance_beside_the_diagonal(name):
    found = fit(name, covariance="HC3").covariance_.to_numpy()
    wanted = np.array(FACTS[name]["off_diagonal"])
    np.testing.assert_allclose(found[0], wanted, rtol=1e-6, atol=1e-9 * abs(wanted).max())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("cluster", ["site", "block"])
def test_standard_errors_by_cluster(name, cluster):
    column = {} if cluster == "site" else {"cluster": cluster}
    found = fit(name, covariance="cluster", **column)
    np.testing.assert_allclose(found.table_["std_err"], FACTS[name]["se"][cluster], rtol=2e-7)
    count = table(name)[cluster].nunique()
    assert found.n_clusters_ == count
    assert f"by cluster ({count})" in found.summary()
    assert f"WARNING: {count} clusters are few" in found.summary()


def underdispersed():
    """Counts without chance: robust standard errors are far smaller than the model's."""
    x = np.linspace(0, 2, 400)
    return pd.DataFrame({"x": x, "y": np.round(np.exp(3 + x)), "site": np.arange(400) % 40})


@pytest.mark.parametrize("tol", [3e-1, 1e-1, 1e-2, 1e-3, 1e-5])
@pytest.mark.parametrize("kind", ["HC3", "cluster"])
def test_the_certificate_counts_in_the_standard_errors_of_the_table(kind, tol):
    data = underdispersed()
    found = FederatedGLM("poisson", "y ~ x", tol=tol, covariance=kind).fit(data, groups="site")
    best = FederatedGLM("poisson", "y ~ x", tol=1e-9, covariance=kind).fit(data, groups="site")
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
    with pytest.raises(ValueError, match="no single leverage: take covariance='HC1'"):
        model.fit(table("birthwt"), groups="site")


def test_a_row_that_alone_decides_a_coefficient():
    data = table("mtcars").assign(alone=lambda d: (d.index == 3).astype(float))
    model = FederatedGLM("gaussian", "mpg ~ wt + alone", covariance="HC3")
    with pytest.raises(ValueError, match=r"the leverage of 1 row.* is 1.*take HC1"):
        model.fit(data, groups="site")
    model.set_params(covariance="HC1").fit(data, groups="site")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"covariance": "HC4"}, "need covariance in model, HC0, HC1, HC2, HC3, cluster"),
        ({"cluster": "block"}, "not by cluster: set covariance='cluster'"),
        ({"covariance": "HC1", "cluster": "block"}, "set covariance='cluster'"),
        ({"covariance": "cluster", "cluster": "blok"}, "cluster: no column 'blok'"),
        ({"covariance": "HC1", "max_exchanges": 2}, "max_exchanges=2 is too few"),
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
