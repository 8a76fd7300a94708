"""Families and links: R says what the numbers are, and its call stands beside each."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from feddcd import FederatedGLM
from feddcd.analysis._sums import DesignRows, PointQuestion, answer
from feddcd.analysis.families import family_of
from slices import thinned

NONE = np.zeros(0)


@pytest.mark.parametrize(
    ("family", "Y", "expected"),
    [
        ("gaussian", [[3.0], [5.0]], 3.0**2 + 2 * 5.0**2),
        ("binomial", [[1.0], [0.0]], 0.25 / 0.25 + 2 * 0.25 / 0.25),
        ("poisson", [[3.0], [0.0]], 2.0**2 / 1 + 2 * 1.0 / 1),
        # (1 - 1/3)² 3 + 2 (1/3)² 3 = 2 for every row, whichever its class
        ("multinomial", [[1.0, 0.0], [0.0, 0.0]], 2.0 + 2 * 2.0),
    ],
)
def test_pearsons_sum_of_squares(family, Y, expected):
    """At w = 0, where all means are 0, 1/2, 1 or 1/3; the second row has weight 2."""
    Y = np.array(Y)
    k = Y.shape[1]
    rows = DesignRows(np.ones((2, 1)), Y, np.array([1.0, 2.0]), np.zeros(2))
    zero = np.zeros((1, k))
    asked = PointQuestion(zero, zero, NONE, np.zeros(k), NONE, np.ones(()), False)
    np.testing.assert_allclose(answer(rows, family_of(family), asked).pearson, expected)


FACTS = json.loads((Path(__file__).parent / "r" / "families.json").read_text())
CASES = {f"{i}-{c['family']}-{c['link']}": c for i, c in enumerate(FACTS["cases"])}


def fitted(case, **settings):
    d = pd.DataFrame(FACTS["data"][case["data"]])
    d["site"] = np.arange(len(d)) % 3
    formula = case["formula"].replace("I(ftv + 1)", "ftv1")
    model = FederatedGLM(case["family"], formula, case["link"], tol=1e-9, **settings)
    if "negative.binomial(1.5)" in case["call"]:
        model.set_params(theta=1.5)
    weight = case["weight"] or None
    return model.fit(d.assign(ftv1=d.get("ftv", 0) + 1), groups="site", sample_weight=weight)


@pytest.mark.parametrize("case", thinned(CASES.values(), 3), ids=CASES)
def test_the_table_that_r_prints(case):
    """The call is in families.json, made by families.R."""
    model = fitted(case)
    assert model.converged_
    table, std_err = model.table_, np.array(case["std_err"])
    # R stops where the deviance, 225 at most, changes by less than 1e-14 of itself
    np.testing.assert_allclose(table["std_err"], std_err, rtol=1.5e-6)
    np.testing.assert_array_less(abs(table["coef"] - case["coef"]), 1.5e-6 * std_err)
    for name in ("dispersion", "deviance"):
        np.testing.assert_allclose(getattr(model, f"{name}_"), case[name], rtol=1e-7, err_msg=name)
    if case["theta"]:
        d = pd.DataFrame(FACTS["data"][case["data"]])
        z = d[list(model.table_.index[1:])].to_numpy() @ case["coef"][1:] + case["coef"][0]
        np.testing.assert_allclose(model.predict(d), np.exp(z), rtol=1e-6)
        assert (
            f"Theta {case['theta']:.4g} (standard error {case['theta_se']:.4g})" in model.summary()
        )
        assert "theta is estimated" in model.summary()
        np.testing.assert_allclose(
            [model.theta_, model.theta_se_], [case["theta"], case["theta_se"]], rtol=1e-6
        )
    for name in ("aic", "log_likelihood"):
        expected = np.nan if case[name] is None else case[name]
        np.testing.assert_allclose(getattr(model, f"{name}_"), expected, rtol=1e-7, err_msg=name)


@pytest.mark.parametrize(
    ("right", "df"), [("Sex", 145), ("0 + Sex", 146), ("Sex + offset(log(1 + Lrn))", 145)]
)
def test_theta_is_no_degree_of_freedom_of_the_null_model(right, df):
    """glm.nb(Days ~ ..., quine)$df.null"""
    d = pd.DataFrame(FACTS["data"]["days"])
    model = FederatedGLM("negative_binomial", f"Days ~ {right}").fit(d)
    assert model.df_null_ == df
    assert f"Null deviance ({df} df)" in model.summary()


@pytest.mark.parametrize("y", [[1.5, 2, 3, 0, 1, 4], [1.5, 2.5, 3, 0, 1, 4]])
def test_a_poisson_outcome_that_is_no_count_has_no_likelihood(y):
    """R's glm warns and gives an AIC of Inf; its coefficients for the first y are these."""
    d = pd.DataFrame({"y": y, "x": range(1, 7)})
    model = FederatedGLM("poisson", "y ~ x").fit(d)
    if sum(y) % 1:
        np.testing.assert_allclose(model.table_["coef"], [0.29566, 0.09746], atol=6e-6)
    assert np.isnan([model.aic_, model.bic_, model.log_likelihood_]).all()
    told = "y has values that are not whole numbers"
    for text in (model.summary(), model.to_markdown()):
        assert told in text.replace("\n", " ")
    assert "quasipoisson" not in model.to_markdown()
    whole = FederatedGLM("poisson", "y ~ x").fit(d.round())
    assert np.isfinite(whole.aic_)
    assert told not in whole.summary()
    assert told not in FederatedGLM("quasipoisson", "y ~ x").fit(d).summary()


def test_the_sum_of_the_sites_shows_that_an_outcome_is_no_count(monkeypatch):
    """A coordinator has no rows, but sums over them."""
    monkeypatch.setattr("feddcd.analysis.estimator.counted", lambda result, y: result)
    d = pd.DataFrame({"y": [1.5, 2, 3, 0, 1, 4], "x": range(1, 7)})
    found = FederatedGLM("poisson", "y ~ x").fit(d).result_
    assert found.uncounted
    assert np.isnan(found.aic)
    assert not FederatedGLM("poisson", "y ~ x").fit(d.round()).result_.uncounted
    weighted = FederatedGLM("poisson", "y ~ x").fit(d.round(), sample_weight=d.x / 4).result_
    assert not weighted.uncounted


def test_counts_without_over_dispersion_have_no_theta():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    y = rng.binomial(6, 0.5, 300).astype(float)  # less varied than poisson's
    with pytest.raises(ValueError, match="theta has no finite estimate; give family='poisson'"):
        FederatedGLM("negbin").fit(X, y, groups=np.arange(300) % 3)


def test_a_theta_that_is_hardly_known_is_told():
    rng = np.random.default_rng(2)
    d = pd.DataFrame({"x": rng.normal(size=300)})
    d["y"] = rng.poisson(np.exp(1 + 0.3 * d["x"]))
    model = FederatedGLM("negative_binomial", "y ~ x").fit(d)
    assert model.theta_se_ > model.theta_
    told = "The outcomes hardly vary more than in a Poisson model, so theta is not well known"
    assert f"{told}: its standard error is larger than theta. --family poisson" in model.summary()
    assert told in model.result_.to_markdown()
    assert "--family" not in model.result_.to_markdown()
    d["y"] = rng.poisson(np.exp(1 + 0.3 * d["x"]) * rng.gamma(2, 0.5, 300))
    assert told not in FederatedGLM("negative_binomial", "y ~ x").fit(d).summary()


@pytest.mark.parametrize("theta", [0.05, 1.0, 50.0])
def test_theta_is_found_from_far_away(theta):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2))
    y = rng.poisson(np.exp(1 + X @ [0.5, -1.0]) * rng.gamma(theta, 1 / theta, 300)).astype(float)
    model = FederatedGLM("negative.binomial", tol=1e-6).fit(X, y, groups=np.arange(300) % 3)
    assert model.converged_
    assert abs(np.log(model.theta_ / theta)) < 4 * model.theta_se_ / model.theta_
    assert np.isnan(model.certified_error_)


ORDINAL = {case["data"]: case for case in FACTS["ordinal"]}


@pytest.mark.parametrize("case", ORDINAL.values(), ids=ORDINAL)
def test_proportional_odds_as_polr(case):
    """polr's optimiser stops at the rounding of the deviance, and its Hessian is of differences."""
    d = pd.DataFrame(FACTS["data"][case["data"]])
    d["site"] = np.arange(len(d)) % 3
    formula = case["call"].split("(", 1)[1].split(",")[0].replace("factor(", "").replace(")", "", 1)
    weight = "Freq" if "Freq" in case["call"] else None
    model = FederatedGLM("ordinal", formula, tol=1e-9)
    model.fit(d, groups="site", sample_weight=weight)
    assert model.converged_
    assert model.certified_error_ < 1e-9
    assert list(model.table_.index) == case["names"]
    std_err = np.array(case["std_err"])
    np.testing.assert_allclose(model.table_["std_err"], std_err, rtol=1e-5)
    np.testing.assert_array_less(abs(model.table_["coef"] - case["coef"]), 1e-5 * std_err)
    np.testing.assert_allclose([model.deviance_, model.aic_], [case["deviance"], case["aic"]])
    shown = np.reshape(case["fitted"], (-1, 3)).T
    np.testing.assert_allclose(model.predict(d.head(3)), shown, rtol=1e-4)


def test_words_have_no_order_unless_it_is_given():
    d = pd.DataFrame(FACTS["data"]["visits"])
    d["site"], words = np.arange(len(d)) % 3, np.array(["none", "one", "many"])
    d["visits"] = words[d.ftv.astype(int)]
    with pytest.raises(ValueError, match="needs the order of 'many', 'none', 'one'"):
        FederatedGLM("ordinal", "visits ~ age + lwt").fit(d, groups="site")
    model = lambda y, **more: FederatedGLM("ordinal", f"{y} ~ age + lwt", **more)
    fit = lambda d, y, **more: model(y, **more).fit(d, groups="site")
    numbers, given = fit(d, "ftv"), fit(d, "visits", classes=list(words))
    typed = fit(d.assign(visits=pd.Categorical(d.visits, words, ordered=True)), "visits")
    for model in (given, typed):
        np.testing.assert_allclose(model.table_, numbers.table_)
        assert list(model.table_.index[-2:]) == ["none|one", "one|many"]
        assert list(model.classes_) == list(words)


@pytest.mark.parametrize("case", FACTS["firth"], ids=range(3))
def test_firths_penalty(case):
    d = pd.DataFrame(FACTS["data"]["birth"])
    d["site"], d["trials"] = np.arange(len(d)) % 3, d.ftv + 1
    names = case["call"].split("cbind(1, ")[1].split(")")[0].replace(", ", " + ")
    model = FederatedGLM("binomial", f"low ~ {names}", firth=True, tol=1e-9)
    model.fit(d, groups="site", sample_weight="trials" if "ftv + 1" in case["call"] else None)
    assert model.converged_
    std_err = np.array(case["std_err"])
    np.testing.assert_allclose(model.table_["std_err"], std_err, rtol=1e-7)
    np.testing.assert_array_less(abs(model.table_["coef"] - case["coef"]), 1e-7 * std_err)
    np.testing.assert_array_less(np.exp(abs(model.table_["coef"])), 1e3)  # finite, separated or not
    if "ftv + 1" not in case["call"]:
        np.testing.assert_allclose(model.log_likelihood_, case["log_likelihood"], rtol=1e-9)
    assert "Not proven: no bound is known for Firth's penalty" in model.summary()


def test_firth_converges_where_a_row_is_alone_in_its_cell():
    """The leverage of this row is 1. Steps by the Hessian alone went to and fro for ever."""
    y, x = np.append(np.arange(12) % 3 == 0, True).astype(float), np.append(np.zeros(12), 1.0)
    model = FederatedGLM(firth=True, tol=1e-8).fit(x[:, None], y, groups=np.arange(13) % 2)
    expected = [np.log(4.5 / 8.5), np.log(1.5 / 0.5) - np.log(4.5 / 8.5)]
    np.testing.assert_allclose(model.table_["coef"], expected, rtol=1e-6)
    assert model.result_.converged


def test_firth_adds_a_half_to_each_cell_of_a_table():
    """7 of 10 and 0 of 12: log(0.5/12.5), and log(7.5/3.5) with the column."""
    y, x = np.repeat([1.0, 0, 0], [7, 3, 12]), np.repeat([1.0, 1, 0], [7, 3, 12])
    site = np.arange(22) % 2
    with pytest.raises(ValueError, match="merge levels, or give firth=True or l2 > 0"):
        FederatedGLM().fit(x[:, None], y, groups=site)
    model = FederatedGLM(firth=True, tol=1e-9).fit(x[:, None], y, groups=site)
    expected = [np.log(0.5 / 12.5), np.log(7.5 / 3.5) - np.log(0.5 / 12.5)]
    np.testing.assert_allclose(model.table_["coef"], expected, rtol=1e-9)
