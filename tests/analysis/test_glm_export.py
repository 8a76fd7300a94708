"""The exported model: the same numbers in every file, and the same predictions without feddcd."""

import csv
import dataclasses
import json
import re

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, PoissonRegressor

from feddcd import FederatedGLM
from feddcd.analysis import export
from glm_stand_ins import Lazy, several, stand_in

FITS = Lazy(
    {
        "gaussian": lambda: stand_in("gaussian"),
        "binomial": lambda: stand_in("binomial", formula="y ~ age + dose + C(sex)"),
        "poisson": lambda: stand_in("poisson", names=[f"x{k}" for k in range(40)]),
        "three classes": lambda: several(),
        "two classes": lambda: several(classes=("no", "yes")),
        "classes of numbers": lambda: several(classes=(3, 5, 9, 10)),
    }
)
KINDS = {
    "gaussian": LinearRegression,
    "binomial": LogisticRegression,
    "poisson": PoissonRegressor,
    "multinomial": LogisticRegression,
}


def columns(fit):
    names = [str(n) for n in fit.table_.index if "Intercept" not in n]
    if fit.family == "multinomial":
        names = [n.partition(": ")[2] for n in names[: fit.X.shape[1]]]
    return pd.DataFrame(fit.X, columns=names)


def predictions(model, family, X):
    if family == "binomial":
        return model.predict_proba(X)[:, 1]
    return model.predict_proba(X) if family == "multinomial" else model.predict(X)


@pytest.fixture(params=FITS)
def exported(request, tmp_path):
    fit = FITS[request.param]
    return fit, tmp_path / "out", export.write(fit, tmp_path / "out")


PRINTED = ["coefficients.tex", "coefficients.md"]


def test_six_files_are_written(exported):
    _, folder, paths = exported
    names = ["coefficients.csv", "model.json", "model.joblib", "summary.txt", *PRINTED]
    assert [path.name for path in paths] == names
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    assert (folder / "summary.txt").read_text().startswith("Federated generalised linear model")


def test_joblib_is_a_plain_model_with_the_same_predictions(exported):
    fit, folder, _ = exported
    assert b"feddcd" not in (folder / "model.joblib").read_bytes()
    model, X = joblib.load(folder / "model.joblib"), columns(fit)
    assert type(model) is KINDS[fit.family]
    assert list(model.feature_names_in_) == list(X.columns)
    found = predictions(model, fit.family, X)
    np.testing.assert_allclose(found, fit.predict(fit.X), rtol=1e-10, atol=1e-12)
    if fit.family == "multinomial":
        assert list(model.classes_) == list(fit.classes_)


def test_csv_and_json_hold_the_numbers_in_full(exported):
    fit, folder, _ = exported
    with open(folder / "coefficients.csv", newline="", encoding="utf-8") as file:
        lines = {line.pop("name"): line for line in csv.DictReader(file)}
    assert list(lines) == list(fit.table_.index)
    for name, line in lines.items():
        assert {c: float(x) for c, x in line.items()} == dict(fit.table_.loc[name])
    model = json.loads((folder / "model.json").read_text())
    assert model["names"] == list(fit.table_.index)
    assert model["coefficients"] == list(fit.table_["coef"])
    assert model["standard_errors"] == list(fit.table_["std_err"])
    np.testing.assert_array_equal(model["covariance"], fit.covariance_)
    assert (model["family"], model["formula"]) == (fit.family, fit.formula)
    assert (model["rows"], model["sites"]) == (fit.n_rows_, fit.n_sites_)
    assert model["certified_error"] == fit.certified_error_
    assert [c["name"] for c in model["design"]["columns"]] == list(columns(fit).columns)


def test_json_says_how_a_row_becomes_columns():
    formula = "y ~ 0 + job + age + C(sex) + age:C(a, Treatment) + C(b, Sum)"
    design = export.document(stand_in("binomial", formula=formula).result_)["design"]
    assert {c["name"]: c["value"] for c in design["columns"]} == {
        "job[b]": "1 where 'job' is 'b', else 0",
        "job[x:y]": "1 where 'job' is 'x:y', else 0",
        "age": "age, a number",
        "C(sex)[T.m]": "1 where 'sex' is 'm', else 0 (also for 'f')",
        "C(b, Sum)[S.b]": "the contrast [S.b] of b (sum)",
        "age:C(a, Treatment)[T.x:y]":
            "the product of (age, a number) and (1 where 'a' is 'x:y', else 0 (also for 'b'))",
    }  # fmt: skip
    plain = export.document(stand_in("binomial", names=["age[years]", "site[b]"]).result_)["design"]
    assert [c["value"] for c in plain["columns"]] == ["age[years], a number", "site[b], a number"]


def test_json_says_what_is_left_out():
    fit = stand_in("poisson", formula="deaths ~ age + dose + C(sex) + offset(log(years))")
    (told,) = export.document(fit.result_)["left_out_of_joblib"]
    assert "offset log(years)" in told
    assert "exp(offset)" in told
    assert export.document(several().result_)["left_out_of_joblib"] == []
    other = dataclasses.replace(stand_in("poisson").result_, link="identity")
    assert export.document(other)["left_out_of_joblib"] == [], "scikit-learn has no such model"


def test_json_stays_json_where_nothing_is_proven(tmp_path):
    fit = stand_in("gaussian", converged_=False, certified_error_=np.inf, l2={"age": 2})
    export.write(fit, tmp_path)
    refuse = lambda word: pytest.fail(f"{word} is not JSON")
    model = json.loads((tmp_path / "model.json").read_text(), parse_constant=refuse)
    assert (model["certified_error"], model["converged"]) == (None, False)
    assert model["penalty"] == {"age": 2.0}


def test_what_cannot_be_exported_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        export.write(FederatedGLM(), tmp_path)


def test_of_an_intercept_alone_scikit_learn_has_no_model(tmp_path):
    paths = export.write(stand_in("gaussian", names=[]), tmp_path)
    names = ["coefficients.csv", "model.json", "summary.txt", *PRINTED]
    assert [path.name for path in paths] == names


# One shape of X and one number of sites: jax compiles twice.
REAL = {
    "binomial": {"formula": "y ~ age + C(sex)"},
    "poisson": {"formula": "count ~ age + C(sex) + offset(log(years))", "site_effects": "fixed"},
}


@pytest.mark.parametrize("family", REAL)
def test_a_real_fit_is_exported(tmp_path, family):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40, 9, 300), "sex": rng.choice(["f", "m"], 300)})
    frame["hospital"] = np.arange(300) % 3
    frame["years"] = rng.uniform(1, 5, 300)
    frame["y"] = rng.binomial(1, 0.4, 300)
    frame["count"] = rng.poisson(frame["years"])
    fit = FederatedGLM(family, **REAL[family]).fit(frame, groups="hospital")
    export.write(fit, tmp_path)
    model = joblib.load(tmp_path / "model.joblib")
    X = pd.DataFrame({"age": frame["age"], "C(sex)[T.m]": 1.0 * (frame["sex"] == "m")})
    if family == "poisson":
        X = X.assign(**{f"site[{i}]": 1.0 * (frame["hospital"] == i) for i in (1, 2)})
    assert list(X.columns) == list(model.feature_names_in_)
    found = predictions(model, family, X)
    expected = fit.predict(frame) / (frame["years"] if family == "poisson" else 1.0)
    np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_standardised_fits_are_exported_in_the_columns_own_units(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal([5, -3], [2, 0.1], (200, 2))
    y = X @ [1.0, 4.0] + rng.normal(size=200)
    fits = [
        FederatedGLM("gaussian", standardize=on).fit(X, y, groups=np.arange(200) % 4)
        for on in (True, False)
    ]
    for fit, folder in zip(fits, ("a", "b"), strict=True):
        export.write(fit, tmp_path / folder)
    read = lambda folder: pd.read_csv(tmp_path / folder / "coefficients.csv", index_col="name")
    np.testing.assert_allclose(read("a"), read("b"), rtol=1e-9)
    assert abs(fits[0].table_.loc["x1", "coef"]) < abs(fits[1].table_.loc["x1", "coef"])


def test_the_table_for_a_paper_has_ratios_names_and_notes():
    frame = pd.DataFrame({"crp_1 & 2": np.arange(90) % 7, "sex": ["f", "m|x", "m|x"] * 30})
    frame["y"] = (np.arange(90) * 7 % 11 < 5).astype(int)
    fit = FederatedGLM(formula="y ~ C(sex) + `crp_1 & 2`").fit(frame)
    head, rule, *rows = fit.to_markdown().split("\n\n")[0].splitlines()
    cells = lambda line: [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
    assert cells(head) == ["", "coefficient", "standard error", "odds ratio (95 % CI)", "p"]
    assert [cell[-1] for cell in cells(rule)] == ["-", ":", ":", ":", ":"]
    names = ["Intercept", r"sex = m\|x (against f)", r"crp\_1 & 2"]
    assert [cells(row)[0] for row in rows] == names
    for row, (_, own) in zip(rows, fit.table_.iterrows(), strict=True):
        _, coef, std_err, ratio, p = cells(row)
        near = lambda text, x: float(text.replace("−", "-")) == pytest.approx(x, abs=5e-3)
        assert near(coef, own["coef"])
        assert near(std_err, own["std_err"])
        assert float(p) == pytest.approx(own["p"], abs=5e-4)
        found = re.findall(r"[\d.]+", ratio)
        for text, name in zip(found, RATIOS if found else (), strict=True):
            assert near(text, own[name])
    assert "Logistic regression of y. " in fit.to_markdown()
    assert r"crp\_1 \& 2 & " in fit.to_latex()
    assert r"sex = m$|$x (against f) & " in fit.to_latex()
    assert re.search(r"\n.* The event is y = 1, and it occurred 41 times\.\n", fit.to_latex())
    decimals = [[len(x.partition(".")[2]) for x in re.findall(r"[\d.]+", row)] for row in rows]
    assert cells(rows[0])[3] == "–", "e^intercept is no ratio"
    for *_, coef, std_err, ratio, low, high, _ in decimals[1:]:
        assert coef == std_err, "a row has one number of decimals"
        assert ratio == low == high


RATIOS = ("ratio", "ratio_low", "ratio_high")


def test_without_a_ratio_the_interval_is_of_the_coefficient():
    fit = stand_in("gaussian")
    table = fit.result_.to_markdown()
    assert "coefficient (95 % CI)" in table
    assert "ratio" not in table.splitlines()[0]
    assert re.search(r"\| age +\| +−?[\d.]+ \(−?[\d.]+ to −?[\d.]+\) \|", table)
