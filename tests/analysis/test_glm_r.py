"""The table and the numbers beneath it are R's; the R call stands beside its numbers."""

import json

import numpy as np
import pandas as pd
import pytest

from feddcd import FederatedGLM
from feddcd.analysis import export
from feddcd.analysis.report import _words
from r_data import insurance, mtcars

LM = {  # summary(lm(...)): sigma, R², adjusted, F; AIC, BIC
    "mpg ~ wt + hp": (2.593411777227, 0.826785451883, 0.814839620978, 69.211213391778,
                      156.6523388256, 162.5152824368),
    "mpg ~ 0 + wt + hp": (11.316082457966, 0.726425946595, 0.708187676368, 39.829761131670,
                          250.0252296254, 254.4224373338),
    "mpg ~ wt + offset(hp / 20)": (4.988772705330, 0.585336760409, 0.571514652422, 42.347864810899,
                                   197.606988884, 202.0041965924),
}  # fmt: skip


@pytest.mark.parametrize("formula", LM)
def test_numbers_beneath_a_linear_model(formula):
    model = FederatedGLM("gaussian", formula).fit(mtcars(), groups="site")
    fit = model.linear_
    found = (fit.sigma, fit.r_squared, fit.adjusted, fit.f, model.aic_, model.bic_)
    np.testing.assert_allclose(found, LM[formula], rtol=1e-10)


def test_linear_table_has_t():
    """m <- lm(mpg ~ wt + hp, mtcars); coef(summary(m)); confint(m, level = 0.9)"""
    model = FederatedGLM("gaussian", "mpg ~ wt + hp", level=0.9).fit(mtcars(), groups="site")
    expected = [
        [37.2272701164472, 1.59878753799939, 23.28468869793, 2.56545851198e-20, 34.5107270009475,
         39.9438132319469],
        [-3.8778307424047, 0.63273349437740, -6.12869521981, 1.11964713620e-06, -4.9529253232943,
         -2.8027361615151],
        [-0.0317729469822, 0.00902970967586, -3.51871191021, 1.45122853157e-03, -0.0471155707342,
         -0.0164303232302],
    ]  # fmt: skip
    assert list(model.table_) == ["coef", "std_err", "t", "p", "ci_low", "ci_high"]
    np.testing.assert_allclose(model.table_, expected, rtol=1e-9)
    assert model.linear_.f_df == (2, 29)
    np.testing.assert_allclose(model.linear_.f_p, 9.10905438522e-12, rtol=1e-9)
    text = model.summary()
    for words in ("P>|t|", "[0.05", "0.95]", "Residual standard error 2.593 on 29 degrees",
                  "R² 0.8268, adjusted 0.8148; F 69.21 on 2 and 29 df, p <0.001"):  # fmt: skip
        assert words in text


def test_weighted_linear_model():
    """m <- lm(mpg ~ wt + hp, mtcars, weights = qsec); glm(...)$null.deviance"""
    model = FederatedGLM("gaussian", "mpg ~ wt + hp")
    model.fit(mtcars(), groups="site", sample_weight="qsec")
    fit = model.linear_
    found = (fit.sigma, fit.r_squared, fit.adjusted, fit.f, model.aic_, model.bic_,
             model.log_likelihood_, model.deviance_, model.null_deviance_)  # fmt: skip
    expected = (11.102122845412, 0.824964112438, 0.812892671916, 68.340154678936, 157.6507377944,
                163.5136814056, -74.8253688972, 3574.456818564, 20421.279706413)  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    coef = [37.4141847930185, -3.8928905063047, -0.0325329692941]
    np.testing.assert_allclose(model.table_["coef"], coef, rtol=1e-10)
    low = [34.1207848760923, -5.2312616301294, -0.0522428530724]
    np.testing.assert_allclose(model.table_["ci_low"], low, rtol=1e-9)


def test_insurance():
    """m <- glm(Claims ~ District + Group + Age + offset(log(Holders)), poisson, Insurance), the
    factors of words; exp(cbind(coef(m), confint.default(m)))"""
    model = FederatedGLM(
        "poisson", "Claims ~ C(District) + C(Group) + C(Age) + offset(log(Holders))"
    )
    model.fit(insurance(), groups="site")
    found = (model.deviance_, model.null_deviance_, model.df_residual_, model.df_null_, model.aic_,
             model.bic_, model.log_likelihood_, model.pearson_)  # fmt: skip
    expected = (51.4200327491, 236.2589588789, 54, 63, 388.7415539985, 410.3303848321,
                -184.3707769992, 48.6293352733)  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-8)
    row = model.table_.loc["C(District)[T.4]"]
    expected = np.exp(0.2342053279773 + np.array([0, -1, 1]) * 1.959963984540 * 0.0616732758124)
    np.testing.assert_allclose(row[["ratio", "ratio_low", "ratio_high"]], expected, rtol=1e-7)
    text = model.summary()
    for words in ("District: reference 1", "Group: reference <1l", "rate ratio"):
        assert words in text
    assert "Over-dispersion" not in text


def test_over_dispersion_is_said(tmp_path):
    """Counts that vary by a factor among rows; sum(residuals(m, "pearson")^2) by hand."""
    rng = np.random.default_rng(2)
    x, site = rng.normal(size=400), np.arange(400) % 4
    y = rng.poisson(np.exp(1 + 0.3 * x) * rng.gamma(1, 1, 400))
    model = FederatedGLM("poisson").fit(x[:, None], y, groups=site)
    mean = model.predict(x[:, None])
    np.testing.assert_allclose(model.pearson_, np.sum((y - mean) ** 2 / mean), rtol=1e-9)
    assert "Over-dispersion: Pearson's X²" in model.summary()
    single = FederatedGLM().fit(x[:, None], (y > 2) * 1.0, groups=site)
    assert "Over-dispersion" not in single.summary()
    share = FederatedGLM().fit(x[:, None], np.minimum(y, 10) / 10, site, np.full(400, 10.0))
    assert "Over-dispersion" in share.summary()


CURES = {
    "poisson": "--covariance HC1 or --family quasipoisson or --family negative_binomial",
    "binomial": "--covariance HC1 or --family quasibinomial",
    "negative_binomial": "--covariance HC1",
}


@pytest.mark.parametrize("family", CURES)
@pytest.mark.parametrize("covariance", ["model", "HC0", "HC1", "cluster"])
def test_robust_standard_errors_allow_for_over_dispersion(family, covariance):
    """Those of the model are too small then, and the note names what helps."""
    rng = np.random.default_rng(2)
    x, site = rng.normal(size=400), np.arange(400) % 40
    y = rng.poisson(np.exp(1 + 0.3 * x) * rng.gamma(0.6, 1 / 0.6, 400)) * 1.0
    extra = {"theta": 5.0} if family == "negative_binomial" else {}
    weight = np.full(400, 10.0) if family == "binomial" else None
    y = np.minimum(y, 10) / 10 if family == "binomial" else y
    model = FederatedGLM(family, covariance=covariance, **extra)
    fit = model.fit(x[:, None], y, groups=site, sample_weight=weight).result_
    paper = " ".join(fit.printed().notes)
    for told in (fit.summary(), " ".join(_words.cautions(fit)), paper):
        assert "The outcomes vary more than the family allows" in told
        assert ("the standard errors are too small" in told) == (covariance == "model")
        allowed = "standard errors of this table take this larger variation into account." in told
        assert allowed == (covariance != "model")
        cure = f"the standard errors are too small. Use {CURES[family]}."
        assert (cure in told) == (covariance == "model" and told != paper)


def test_the_event_is_named():
    frame = mtcars().assign(size=lambda d: np.where(d.wt > 3.3, "heavy", "light"))
    for event in ("light", "heavy"):
        model = FederatedGLM("binomial", "size ~ hp", event=event).fit(frame, groups="site")
        assert f"size: the event is {event}" in model.summary()
        assert export.document(model.result_)["event"] == event
        assert (model.table_.loc["hp", "coef"] > 0) == (event == "heavy")


def test_rows_events_and_missing_by_site():
    frame = insurance().astype({"Claims": float})
    frame.loc[[0, 4, 5], "Claims"] = np.nan
    model = FederatedGLM("poisson", "Claims ~ C(District)").fit(frame, groups="site")
    counts, rest = model.site_counts_, frame.dropna()
    assert list(counts["rows"]) == list(rest.groupby("site").size())
    assert list(counts["events"]) == list(rest.groupby("site")["Claims"].sum())
    assert list(counts["missing"]) == [2, 1, 0, 0]


def test_files_hold_ratios_and_references(tmp_path):
    model = FederatedGLM("poisson", "Claims ~ C(District)", level=0.9)
    model.fit(insurance(), groups="site")
    export.write(model, tmp_path)
    table = pd.read_csv(tmp_path / "coefficients.csv", index_col="name")
    np.testing.assert_allclose(table["ratio"], np.exp(table["coef"]), rtol=1e-12)
    held = json.loads((tmp_path / "model.json").read_text())
    assert (held["ratio"], held["statistic"], held["level"]) == ("rate ratio", "z", 0.9)
    assert held["references"] == {"District": "1"}
    assert held["fit"]["df_residual"] == 60
    assert held["site_counts"]["0"]["rows"] == 16
    columns = table[["ratio", "ratio_low", "ratio_high"]]
    np.testing.assert_allclose(held["ratios"], columns, rtol=1e-12)


OWN = (
    [-2.281260803310, -8.00828349378, -5.657525942898, -6.031734011093],
    [0.891037285855, 1.57160456537, 0.788641351147, 0.938000871875],
)


def test_the_sites_own_fits():
    """lm(mpg ~ wt, mtcars, subset = (0:31) %% 4 == i): its coefficients and errors"""
    model = FederatedGLM("gaussian", "mpg ~ wt").fit(mtcars(), groups="site")
    found = model.site_table_.loc["wt"]
    np.testing.assert_allclose(found["coef"], OWN[0], rtol=1e-9)
    np.testing.assert_allclose(found["std_err"], OWN[1], rtol=1e-9)
