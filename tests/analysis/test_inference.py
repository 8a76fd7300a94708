"""Tests, contrasts, VIFs and intervals against those of R: r/inference.R has the calls."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from feddcd import FederatedGLM
from feddcd._errors import SpecError
from feddcd.analysis._contrast import parse
from feddcd.analysis._more import cells
from feddcd.analysis.table import Roles, read
from r_tables import FACTS, MODELS, fit, table
from slices import sliced, thinned

SMALLER = {  # as in r/inference.R
    "birthwt": "low ~ age + smoke",
    "mtcars": "mpg ~ wt",
    "weighted": "mpg ~ wt",
    "insurance": "Claims ~ District + Group + offset(log(Holders))",
    "warpbreaks": "breaks ~ wool",
    "probit": "low ~ age",
    "gamma": "mpg ~ wt",
    "quasi": "breaks ~ wool",
}
DISPERSED = ("mtcars", "weighted", "gamma", "reciprocal", "quasi")


def same(found: pd.DataFrame, wanted: dict, rtol: float = 1e-6) -> None:
    assert list(found.index) == list(wanted)
    np.testing.assert_allclose(found.to_numpy(float), list(wanted.values()), rtol=rtol, atol=1e-12)


@pytest.mark.parametrize("name", thinned(MODELS, 2))
def test_walds_test_of_each_term(name):
    found = fit(name).test()
    same(found, FACTS[name]["wald"])
    assert list(found) == ["df", "F" if name in DISPERSED else "chi2", "p"]
    same(fit(name, covariance="HC3").test(), FACTS[name]["robust_wald"])


@pytest.mark.parametrize("name", thinned(SMALLER, 2))
def test_nested_models(name):
    large, small = fit(name), fit(name, SMALLER[name])
    for found in (large.compare(small), small.compare(large), small.compare(large.result_)):
        assert list(found.index) == [SMALLER[name], MODELS[name][2]]
        np.testing.assert_allclose(found.iloc[1, 2:], FACTS[name]["compare"], rtol=1e-6)
        assert found["df_residual"].tolist() == [
            len(table(name)) - len(small.table_), len(table(name)) - len(large.table_)
        ]  # fmt: skip


@pytest.mark.parametrize("name", thinned(sliced(MODELS, list(MODELS)[::2]), 2))
def test_likelihood_ratio_of_each_term(name):
    """By fits of the same rows without its columns."""
    model, (_, _, formula, weight, *_) = fit(name), MODELS[name]
    rows = read(table(name), Roles(None, "site", weight), formula, "drop")
    same(model.test_rows(rows), FACTS[name]["lr"])


@pytest.mark.parametrize(
    ("formula", "options", "words"),
    thinned(
        [
            (
                "low ~ age + site",
                {},
                (
                    "not nested: the smaller model has 'site.T.b.', but the larger model does "
                    "not have it"
                ),
            ),
            (
                "low ~ smoke + race + lwt + age",
                {},
                "the two models have the same columns, but the larger model must have more columns",
            ),
            ("smoke ~ age", {}, "only models with the same outcome; got smoke and low"),
            ("low ~ age", {"l2": 1.0}, "without a penalty"),
            ("low ~ age", {"l2": {"age": 1.0}}, "without a penalty"),
            (
                "low ~ age",
                {"covariance": "HC1"},
                "fit with covariance='model', or take Wald's test",
            ),
        ],
        2,
    ),
)
def test_models_that_cannot_be_compared(formula, options, words):
    with pytest.raises(SpecError, match=words):
        fit("birthwt").compare(fit("birthwt", formula, **options))


def test_models_of_other_rows_cannot_be_compared():
    data, large = table("birthwt"), fit("birthwt")
    small = FederatedGLM("binomial", "low ~ age", tol=1e-9)
    cases = {
        "different numbers of rows, 188 and 189": (data[1:], {}),
        "not have the same outcomes, weights and offsets": (data.assign(low=1 - data.low), {}),
        "have the same outcomes, weights": (data, {"sample_weight": 1.0 + (data.index < 5)}),
        "weights and offsets": (data, {"offset": 0.1 * data.age}),
        "the same sites": (data.assign(site=data.site.replace("a", "b")), {}),
    }
    for words, (rows, options) in cases.items():
        other = small.fit(rows, groups="site", **options)
        with pytest.raises(SpecError, match=words):
            large.compare(other)
    poisson = FederatedGLM("poisson", "low ~ age").fit(data, groups="site")
    with pytest.raises(SpecError, match="only models with the same family; got poisson and bin"):
        large.compare(poisson)


def test_a_contrast_by_weights_and_as_text():
    model, wanted = fit("birthwt"), FACTS["birthwt"]["contrast"]
    weights = {"race[T.other]": 1, "race[T.white]": -1}
    for given in (weights, "race[T.other] - race[T.white] = 0", "race[T.other] = race[T.white]",
                  "-1*race[T.white] + `race[T.other]`"):  # fmt: skip
        found = model.contrast(given).iloc[0]
        assert list(found.index[:3]) == ["estimate", "against", "std_err"]
        own = found[["estimate", "std_err", "z", "p", "ci_low", "ci_high"]]
        np.testing.assert_allclose(own, wanted, rtol=1e-6)
        ratio = found[["ratio", "ratio_low", "ratio_high"]]
        np.testing.assert_allclose(ratio, np.exp(np.array(wanted)[[0, 4, 5]]), rtol=1e-6)
    both = model.contrast([weights, "age = 0.5"])
    assert list(both.index) == ["race[T.other] - race[T.white]", "age = 0.5"]
    np.testing.assert_allclose(both.iloc[1]["estimate"], model.table_["coef"]["age"])


def test_a_contrast_of_a_linear_model_has_t():
    found = fit("mtcars").contrast("2 * wt - 10 * hp = -5").iloc[0]
    own = found[["estimate", "std_err", "t", "p", "ci_low", "ci_high"]]
    np.testing.assert_allclose(own, FACTS["mtcars"]["contrast"], rtol=1e-6)
    assert "ratio" not in found
    narrow = fit("mtcars").contrast("wt", level=0.5).iloc[0]
    assert narrow["ci_high"] - narrow["ci_low"] < 2 * narrow["std_err"]


LABELS = ["Intercept", "age", "age2", "C(sex)[T.m]", "age:C(sex)[T.m]", "log(x - 1)", "a b", "é"]


@pytest.mark.parametrize(
    ("text", "weights", "against"),
    [
        ("age", {"age": 1}, 0),
        (" - age2+age ", {"age2": -1, "age": 1}, 0),
        ("1.5e1*age - 2 = 3 + age2 - .5", {"age": 15, "age2": -1}, 4.5),
        ("C(sex)[T.m] + 40 * age:C(sex)[T.m]", {"C(sex)[T.m]": 1, "age:C(sex)[T.m]": 40}, 0),
        ("log(x - 1) = `a b`", {"log(x - 1)": 1, "a b": -1}, 0),
        ("a b + é = 1", {"a b": 1, "é": 1}, 1),
        ("age + age - 3 * age2 + 3*age2", {"age": 2}, 0),
    ],
)
def test_what_a_contrast_says(text, weights, against):
    found = parse(text, LABELS)
    assert (found.weights, found.against) == (weights, pytest.approx(against))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "cannot be read at its end"),
        ("age +", "cannot be read at its end"),
        ("agee", "cannot be read at 'agee'; did you mean 'age'"),
        ("age - wrong", "cannot be read at 'wrong'"),
        ("age = 1 = 2", "cannot be read at '='"),
        ("age * 2", r"cannot be read at '\*'"),
        ("2 age", "cannot be read at 'age'"),
        ("2 * 3", "cannot be read at '3'"),
        ("age ++ age2", r"cannot be read at '\+'"),
        ("`age", "cannot be read at '`age'"),
        ("`agee`", "cannot be read at '`agee`'"),
        ("1 = 2", "names no coefficient"),
        ("age - age", "names no coefficient"),
        ("__import__('os').system('x')", "cannot be read at .__import__"),
        ("age.__class__", "cannot be read at 'age.__class__'"),
        ("age" + " + age" * 500, "at most 2000 characters"),
        ("1e999 * age", "a number that is too large"),
    ],
)
def test_what_a_contrast_cannot_say(text, words):
    with pytest.raises(SpecError, match=words):
        parse(text, LABELS)


def test_no_text_is_ever_evaluated():
    rng = np.random.default_rng(0)
    pieces = [*LABELS, *"+-*/=()[]`.,'\"", "1", "2e3", " ", "__import__('os')", "\x00", "lambda:0"]
    for _ in range(3000):
        text = "".join(rng.choice(pieces, rng.integers(1, 9)))
        try:
            found = parse(text, LABELS)
        except SpecError:
            continue
        assert set(found.weights) <= set(LABELS)


@pytest.mark.parametrize(
    ("given", "words"),
    thinned(
        [
            ({"agee": 1}, "no coefficient 'agee'; did you mean 'age'"),
            ({"age": "1"}, "weight of 'age' must be a finite number"),
            ({"age": np.inf}, "weight of 'age' must be a finite number"),
            ({"age": 0}, "names no coefficient"),
            (3, "a text such as 'a - b = 0', or a dict with a weight for each coefficient; got 3"),
        ],
        2,
    ),
)
def test_weights_that_cannot_be(given, words):
    with pytest.raises(SpecError, match=words):
        fit("birthwt").contrast(given)
    with pytest.raises(
        SpecError, match=r"level must be from 0\.5 to 0\.9999, for example 0\.95; got 95"
    ):
        fit("birthwt").contrast("age", level=95)


@pytest.mark.parametrize("name", thinned(SMALLER, 2))
def test_variance_inflation(name):
    same(fit(name).vif(), FACTS[name]["vif"])


def test_variance_inflation_that_cannot_be():
    with pytest.raises(SpecError, match="need a model with at least two terms"):
        fit("menarche").vif()
    with pytest.raises(SpecError, match="fit with covariance='model'"):
        fit("birthwt", covariance="HC1").vif()
    several = FederatedGLM("multinomial", "race ~ age + lwt").fit(table("birthwt"), groups="site")
    with pytest.raises(SpecError, match="several classes"):
        several.vif()
    with pytest.raises(SpecError, match="no intervals for them: leave out interval"):
        several.predict(table("birthwt"), interval=0.9)


@pytest.mark.parametrize("name", thinned(MODELS, 2))
def test_means_with_intervals(name):
    model, wanted = fit(name), FACTS[name]["predicted"]
    found = model.predict(table(name).iloc[[0, 4, 19]], interval=0.95)
    assert list(found) == list(wanted)
    np.testing.assert_allclose(found.to_numpy().T, list(wanted.values()), rtol=1e-6)
    plain = model.predict(table(name).iloc[[0, 4, 19]])
    np.testing.assert_array_equal(found["mean"], plain)


@pytest.mark.parametrize("interval", [0, 1, 95, "0.95", True])
def test_intervals_hold_a_share(interval):
    with pytest.raises(
        SpecError, match=r"interval must be from 0\.5 to 0\.9999, for example 0\.95; got"
    ):
        fit("mtcars").predict(table("mtcars"), interval=interval)


def test_what_stands_in_for_the_intercept_is_not_tested():
    assert list(fit("birthwt", "low ~ 0 + race + age").test().index) == ["age"]
    assert list(fit("birthwt", "low ~ 1").test().index) == []
    own = fit("birthwt", "low ~ age", site_effects="fixed").test()
    assert own["df"].to_dict() == {"age": 1, "site effects": 3}


def test_terms_of_several_classes_and_of_plain_columns():
    data = table("birthwt")
    several = FederatedGLM("multinomial", "race ~ age + lwt").fit(data, groups="site")
    assert several.test()["df"].tolist() == [2, 2]
    X = data[["age", "lwt", "site"]].rename(columns={"lwt": "x[1]"})
    plain = FederatedGLM("binomial", tol=1e-9).fit(X, data.low, groups="site")
    assert list(plain.test().index) == ["age", "x[1]"]


def test_few_clusters_cannot_test_a_large_term():
    """Four clusters span three directions at most, and a term of five levels has four."""
    data = table("birthwt").assign(five=lambda d: "l" + (d.age % 5).astype(str))
    model = FederatedGLM("binomial", "low ~ five", covariance="cluster").fit(data, groups="site")
    assert np.isnan(model.test()["p"]["five"])


def test_negative_binomials_are_compared_each_with_its_own_theta():
    """MASS: anova(glm.nb(Days ~ Eth + Sex + Lrn), glm.nb(Days ~ Eth + Sex + Age + Lrn)), quine."""
    rows = pd.read_csv(Path(__file__).parents[1] / "reference" / "data" / "quine.csv.gz")
    rows["site"] = np.arange(len(rows)) % 3
    made = lambda formula: FederatedGLM("negative_binomial", formula).fit(rows, groups="site")
    small, large = made("Days ~ Eth + Sex + Lrn"), made("Days ~ Eth + Sex + Age + Lrn")
    found = large.compare(small).iloc[1]
    assert found["df"] == 3
    assert found["chi2"] == pytest.approx(11.52379, abs=1e-4)
    assert found["p"] == pytest.approx(0.00920592, rel=1e-4)


def test_a_contrast_has_the_level_of_the_table_and_the_units_of_the_columns():
    """R: race other less race black, glm(low ~ lwt + race + smoke, binomial), 90 %."""
    formula, weights = "low ~ lwt + race + smoke", {"race[T.other]": 1}
    wide = fit("birthwt", formula, level=0.9).contrast(weights).iloc[0]
    assert wide["ci_low"] == pytest.approx(-1.1841159182, abs=1e-6)
    assert wide["ci_high"] == pytest.approx(0.5449567563, abs=1e-6)
    plain = fit("birthwt", formula).contrast(weights).iloc[0]
    standard = fit("birthwt", formula, standardize=True).contrast(weights).iloc[0]
    assert standard["estimate"] == pytest.approx(plain["estimate"], abs=1e-8)


def test_firths_penalty_has_no_likelihood_ratio():
    large, small = fit("birthwt", firth=True), fit("birthwt", "low ~ age", firth=True)
    with pytest.raises(SpecError, match="without a penalty"):
        large.compare(small)


def test_degrees_of_freedom_of_several_classes():
    """As many as rows for each class but the base: nnet's anova counts them so."""
    rows = table("birthwt")
    found = FederatedGLM("multinomial", "race ~ age + lwt").fit(rows, groups="site")
    assert (found.df_residual_, found.df_null_) == (2 * (len(rows) - 3), 2 * (len(rows) - 1))


def test_tables_of_tests_keep_zeros_at_the_end_and_one_form_of_numbers():
    table = pd.DataFrame({"df": [1, 2], "chi2": [57.0, 14.83]}, pd.Index(["a", "b"], name="term"))
    assert [row[2] for row in cells(table)] == ["chi2", "57.00", "14.83"]
    d = pd.DataFrame({"x": range(40), "y": [400.0 * (i * i % 7) for i in range(40)]})
    text = FederatedGLM("gaussian", "y ~ x").fit(d).summary()
    found = [re.search(rf"{name}: +(\S+)", text) for name in (r"Deviance \(38 df\)", "Pearson X²")]
    assert all(found)
    assert found[0][1] == found[1][1]
