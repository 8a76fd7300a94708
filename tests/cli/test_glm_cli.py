"""`feddcd glm`: a table in, a regression table, a model and a report out; bad input in one line."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import joblib
import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from rich.console import Console

from feddcd import FederatedGLM
from feddcd.analysis import export, report
from feddcd.cli import _terminal
from feddcd.cli.app import main
from slices import thinned

N = 240
WRITTEN = {
    "coefficients.csv", "model.json", "model.joblib", "summary.txt", "history.csv", "report.html",
    "job.toml", "coefficients.tex", "coefficients.md",
}  # fmt: skip
F = ["--formula", "death ~ age + dose + C(sex)"]
GLM = ["glm", "p.csv", "--group", "hospital"]


def patients() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    age, dose = rng.normal(60, 9, N).round(1), rng.normal(size=N).round(3)
    p = 1 / (1 + np.exp(-(0.05 * (age - 60) - 0.5 * dose)))
    return pd.DataFrame(
        {
            "age": age, "dose": dose, "sex": np.where(rng.random(N) < 0.5, "f", "m"),
            "death": (rng.random(N) < p).astype(int), "visits": rng.poisson(2, N),
            "time": rng.uniform(1, 3, N).round(2), "trials": 1 + np.arange(N) % 3,
            "stage": rng.choice(["I", "II", "III"], N),
            "hospital": [f"0{1 + i % 4}" for i in range(N)],
        }
    )  # fmt: skip


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    patients().to_csv("p.csv", index=False)


def feddcd(*arguments: str, code: int = 0) -> None:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    assert stop.value.code == code


def test_words_for_missing_values_are_for_each_site_to_write(capsys):
    """The plan does not have them, and a site that does not know them refuses."""
    line = "each site with these words in its data needs this line in its site.toml: na = "
    for command in (["glm", "p.csv", *F], ["describe", "p.csv"]):
        feddcd(*command, "--na", "haem", "--out", command[0])
        assert f'{line}["haem"]' in " ".join(capsys.readouterr().err.split())
        assert "haem" not in Path(command[0], "job.toml").read_text()
    feddcd("describe", "p.csv", "--out", "plain")
    assert line not in " ".join(capsys.readouterr().err.split())


def test_a_plan_with_an_identifier_is_warned_of(capsys):
    """Careful sites refuse it, and that was said only after all approvals."""
    patients().assign(patient_id=np.arange(1000, 1000 + N)).to_csv("p.csv", index=False)
    line = (
        "the values of the column 'patient_id' identify a person, because each row has a different "
        "value. Careful sites refuse a job with this column; leave it out of the formula"
    )
    feddcd(*GLM, "--formula", "death ~ age + patient_id", "--out", "with")
    assert line in " ".join(capsys.readouterr().err.split())
    feddcd(*GLM, *F, "--out", "without")
    assert "Careful sites refuse" not in " ".join(capsys.readouterr().err.split())


def test_a_plan_with_the_column_of_the_sites_is_warned_of(capsys):
    feddcd(*GLM, "--formula", "death ~ age + hospital", "--out", "with")
    told = " ".join(capsys.readouterr().err.split())
    assert "a federation cannot use this job, because no site has the column 'hospital'" in told
    assert "If each site needs its own intercept, add --site-effects fixed" in told
    feddcd(*GLM, *F, "--out", "without")
    assert "a federation cannot use" not in " ".join(capsys.readouterr().err.split())


def coefficients(folder: str = "out") -> pd.DataFrame:
    return pd.read_csv(Path(folder, "coefficients.csv"), index_col="name")


def changed(row: int | slice, column: str, value) -> pd.DataFrame:
    data = patients().astype({column: object})
    data.loc[row, column] = value
    return data


def test_the_table_is_that_of_the_pooled_rows(capsys):
    feddcd(*GLM, *F, "--out", "out")
    out, err = capsys.readouterr()
    pooled = smf.glm("death ~ age + dose + C(sex)", patients(), family=sm.families.Binomial()).fit()
    table = coefficients()
    assert list(table.index) == ["Intercept", "age", "dose", "C(sex)[T.m]"]
    pooled_se = pooled.bse[table.index]
    assert (abs(table["coef"] - pooled.params[table.index]) <= 0.01 * pooled_se).all()
    np.testing.assert_allclose(table["std_err"], pooled_se, rtol=1e-3)
    assert err == ""
    assert {path.name for path in Path("out").iterdir()} == WRITTEN
    assert out.startswith("method: newton (")
    assert Path("out/summary.txt").read_text().strip() in out
    told = out.splitlines()[-len(WRITTEN) :]
    assert {Path(line) for line in told} == {Path("out", name) for name in WRITTEN}
    assert "hospital" not in Path("out/coefficients.csv").read_text()


def test_the_other_files_hold_the_same_model():
    feddcd(*GLM, *F, "--out", "out", "--latency", "3", "--bandwidth", "500")
    table, document = coefficients(), json.loads(Path("out/model.json").read_text())
    assert document["coefficients"] == table["coef"].tolist()
    assert (document["rows"], document["sites"], document["converged"]) == (N, 4, True)
    data = patients()
    X = pd.DataFrame({"age": data.age, "dose": data.dose, "C(sex)[T.m]": data.sex == "m"})
    mean = joblib.load("out/model.joblib").predict_proba(X.astype(float))[:, 1]
    eta = table["coef"].iloc[0] + X.astype(float).to_numpy() @ table["coef"].to_numpy()[1:]
    np.testing.assert_allclose(mean, 1 / (1 + np.exp(-eta)))
    history = pd.read_csv("out/history.csv")
    moved = history["bytes_up"] + history["bytes_down"]
    np.testing.assert_allclose(history["seconds"], 3 * history["exchange"] + moved / 500)
    assert "<html" in Path("out/report.html").read_text()


def test_every_kind_of_file():
    data = patients()
    data.to_csv("p.csv.gz", index=False)
    data.to_csv("p.csv.xz", index=False)
    data.to_csv("p.tsv", index=False, sep="\t")
    data.to_csv("p.tsv.bz2", index=False, sep="\t")
    data.to_parquet("p.parquet")
    found = set()
    for name in ("p.csv", "p.csv.gz", "p.csv.xz", "p.tsv", "p.tsv.bz2", "p.parquet"):
        feddcd("glm", name, "--group", "hospital", *F, "--out", name + "-out", "-q")
        found.add(Path(name + "-out", "coefficients.csv").read_bytes())
    assert len(found) == 1


@pytest.mark.parametrize("offset", ["+ offset(crp)", "* sex + offset(crp)", "--offset crp"])
def test_an_offset_that_hides_all_rows_but_a_few_is_named(offset, capsys):
    """Weights of e^390 made a column of 240 values look like a constant."""
    crp = np.random.default_rng(0).uniform(1, 60, len(patients()))
    crp[7] = 390.0
    patients().assign(crp=crp).to_csv("p.csv", index=False)
    text, _, option = f"visits ~ age {offset}".partition("--offset")
    more = ["--offset", option.strip()] if option else []
    feddcd("glm", "p.csv", "--family", "poisson", "--formula", text.strip(), *more, code=2)
    said = capsys.readouterr().err
    name = "" if option else " 'crp'"
    assert f"the offset{name} differs too much between rows: its standard deviation is" in said
    assert "offset(log(" in said
    assert "same value" not in said


def test_a_single_high_offset_is_named_and_a_constant_column_beside_it_too(capsys):
    rows = patients().assign(far=0.0, one=2.5)
    rows.loc[7, "far"] = 40.0
    rows.to_csv("p.csv", index=False)
    options = ["glm", "p.csv", "--family", "poisson", "--formula"]
    feddcd(*options, "visits ~ age + offset(far)", code=2)
    assert "the offset 'far' differs too much between rows" in capsys.readouterr().err
    feddcd(*options, "visits ~ one + offset(far)", code=2)
    assert "the column 'one' has the same value in every row" in capsys.readouterr().err


def test_the_method_line_says_that_its_cost_is_an_estimate(capsys):
    feddcd("glm", "p.csv", "--group", "hospital", *F, "--out", "out")
    assert "estimate before the fit: about 6 exchanges, 0.6 s" in capsys.readouterr().out


def test_without_formula_and_label_the_outcome_is_asked_for_first(capsys):
    feddcd("glm", "p.csv", code=2)
    said = capsys.readouterr().err
    assert "the outcome is missing: give --formula 'y ~ a + b'" in said
    assert "The table has the columns 'age'" in said
    assert "--group" not in said


def test_an_offset_that_is_no_logarithm_is_named(capsys):
    """It was a warning of NumPy, and then a separation that there was not."""
    long = patients().assign(time=lambda d: d.time * 300)
    long.to_csv("p.csv", index=False)
    counts = ["glm", "p.csv", "--group", "hospital", "--family", "poisson", "--out", "out"]
    feddcd(*counts, "--formula", "visits ~ age + offset(time)", code=2)
    said = capsys.readouterr().err
    assert "the offset 'time' is too large: it is 607 on average" in said
    assert "write offset(log(time)) in the formula" in said
    feddcd(*counts, "--formula", "visits ~ age", "--offset", "time", code=2)
    assert "the offset is too large" in capsys.readouterr().err
    feddcd(*counts, "--formula", "visits ~ age", "--offset", "log(time)")
    assert "The offset differs much" not in capsys.readouterr().out
    direct = FederatedGLM("poisson", "visits ~ age + offset(log(time))").fit(long)
    np.testing.assert_allclose(coefficients()["coef"], direct.table_["coef"], rtol=1e-6)
    feddcd(*counts, "--force", "--formula", "visits ~ age", "--offset", "I(time / 30)")
    said = capsys.readouterr().out
    assert "The offset differs much between rows (its standard deviation is 6" in said


def test_new_rows_with_a_missing_value_have_an_empty_prediction(capsys):
    """As in R; before, the first of them was an error."""
    new = patients().head(5).astype({"age": object, "sex": object})
    new.loc[1, "age"] = new.loc[3, "sex"] = None
    new.to_csv("new.csv", index=False)
    feddcd(*GLM, *F, "--out", "out", "--predict", "new.csv")
    found = pd.read_csv("out/predictions.csv")
    assert found["row"].tolist() == [1, 2, 3, 4, 5]
    assert found["mean"].isna().tolist() == [False, True, False, True, False]
    said = "predictions.csv has no prediction for 2 rows with missing values"
    assert said in capsys.readouterr().err
    new.assign(sex=[*"ffff", "x"]).to_csv("new.csv", index=False)
    feddcd(*GLM, *F, "--force", "--out", "out", "--predict", "new.csv", code=2)
    assert "sex has 'x' on line 6" in capsys.readouterr().err


def test_one_class_is_no_order(capsys):
    ordinal = ["--formula", "stage ~ age", "--family", "ordinal", "--out", "out"]
    feddcd(*GLM, *ordinal, "--classes", "I", code=2)
    assert (
        "--classes needs at least two classes, for example low,mid,high" in capsys.readouterr().err
    )
    feddcd(*GLM, *ordinal, "--classes", "I,II", code=2)
    told = "'stage' must be one of the classes 'I', 'II', got 'III' on line"
    assert told in capsys.readouterr().err


def test_a_model_for_scikit_learn_that_is_not_written_is_named(capsys, monkeypatch):
    monkeypatch.setattr(export, "find_spec", lambda name: None)
    feddcd(*GLM, *F, "--out", "quiet")
    assert "joblib" not in "".join(capsys.readouterr()), "nobody asked for this file"
    feddcd(*GLM, *F, "--out", "out", "--verbose")
    assert "model.joblib is not written, because scikit-learn is not" in capsys.readouterr().err
    assert not Path("out/model.joblib").exists()
    assert export.without_joblib(Path("out")) == export.NO_JOBLIB
    feddcd("glm", "p.csv", "--formula", "time ~ age", "--family", "gamma", "--out", "other")
    assert "joblib" not in capsys.readouterr().err, "scikit-learn has no such model"
    assert export.without_joblib(Path("other")) == ""


def test_without_formula_all_numbers_explain_the_label(capsys):
    patients()[["age", "dose", "sex", "death", "hospital"]].to_csv("p.csv", index=False)
    feddcd(*GLM, "--label", "death", "--out", "a")
    assert (
        "the column 'sex' is left out, because the values are not numbers"
        in capsys.readouterr().err
    )
    feddcd(*GLM, "--formula", "death ~ age + dose", "--out", "b")
    pd.testing.assert_frame_equal(coefficients("a"), coefficients("b"), rtol=1e-9)


def test_of_two_words_the_second_counts_as_one(capsys):
    data = patients()
    data.assign(death=np.where(data.death == 1, "yes", "no")).to_csv("words.csv", index=False)
    feddcd("glm", "words.csv", "--group", "hospital", *F, "--out", "a")
    told = "in the outcome 'death', 'yes' counts as 1, and 'no' counts as 0"
    assert told in capsys.readouterr().err
    feddcd(*GLM, *F, "--out", "b")
    assert Path("a/coefficients.csv").read_bytes() == Path("b/coefficients.csv").read_bytes()


def test_the_event_is_chosen_and_named(capsys):
    data = patients()
    words = data.assign(death=np.where(data.death == 1, "died", "lives"))
    words.to_csv("words.csv", index=False)
    feddcd("glm", "words.csv", "--group", "hospital", *F, "--event", "died", "--out", "a")
    told = "in the outcome 'death', 'died' counts as 1, and 'lives' counts as 0"
    assert told in capsys.readouterr().err
    feddcd(*GLM, *F, "--out", "b")
    assert Path("a/coefficients.csv").read_bytes() == Path("b/coefficients.csv").read_bytes()
    model = json.loads(Path("a/model.json").read_text())
    assert (model["event"], model["classes"]) == ("died", ["lives", "died"])
    assert "the odds of died" in Path("a/report.html").read_text()
    assert tomllib.loads(Path("a/job.toml").read_text())["glm"]["event"] == "died"
    feddcd("glm", "words.csv", "--group", "hospital", *F, "--event", "dead", code=2)
    told = "--event dead is not possible, because 'death' has only the values 'died' and 'lives'."
    assert told in capsys.readouterr().err


def test_names_as_people_have_them(capsys):
    data = patients().rename(columns={"age": "age.at entry", "dose": "dose.1d", "sex": "Gruppe ß"})
    data.to_csv("p.csv", index=False)
    formula = "death ~ `age.at entry` + dose.1d + C(`Gruppe ß`)"
    feddcd(*GLM, "--formula", formula, "--out", "a")
    names = ["Intercept", "age.at entry", "dose.1d", "C(`Gruppe ß`)[T.m]"]
    assert list(coefficients("a").index) == names
    assert tomllib.loads(Path("a/job.toml").read_text())["glm"]["formula"] == formula


def test_a_dot_is_all_other_columns():
    data = patients()[["age", "sex", "dose", "death", "hospital"]]
    data.to_csv("p.csv", index=False)
    feddcd(*GLM, "--formula", "death ~ . - dose", "--out", "a", "-q")
    feddcd(*GLM, "--formula", "death ~ age + sex", "--out", "b", "-q")
    assert Path("a/coefficients.csv").read_bytes() == Path("b/coefficients.csv").read_bytes()
    plan = tomllib.loads(Path("a/job.toml").read_text())["glm"]
    assert plan["formula"] == "death ~ (age + sex + dose) - dose"


def test_an_intercept_alone():
    feddcd(*GLM, "--formula", "death ~ 1", "--tol", "1e-6", "--out", "a", "-q")
    share = patients().death.mean()
    np.testing.assert_allclose(
        coefficients("a").loc["Intercept", "coef"], np.log(share / (1 - share)), rtol=1e-6
    )
    assert not Path("a/model.joblib").exists()


def test_without_a_group_all_rows_are_one_site(capsys):
    """The table does not depend on how rows are divided, and the command says what it did."""
    feddcd(*GLM, *F, "--out", "four")
    feddcd("glm", "p.csv", *F, "--out", "one")
    out, err = capsys.readouterr()
    assert "note: --group is not given, so all rows count as one site" in err
    assert "Nothing was sent: one table has all rows.\n" in out
    assert "method: newton (the Hessian is small)" in out
    titles = [line.strip() for line in out.splitlines() if "linear model" in line]
    assert titles == ["Federated generalised linear model", "Generalised linear model"]
    summary = Path("one/summary.txt").read_text()
    assert "Sites:" not in summary
    assert "Exchanges:" not in summary
    assert "All exchanges that a federation would need:" in Path("one/report.html").read_text()
    four, one = coefficients("four"), coefficients("one")
    pd.testing.assert_frame_equal(four, one, rtol=1e-9)
    fit = FederatedGLM("binomial", F[1]).fit(patients())
    np.testing.assert_allclose(fit.table_["coef"], one["coef"], rtol=1e-9)


def test_complete_leaves_out_rows_and_is_a_part_of_the_plan(capsys):
    changed(slice(0, 9), "visits", np.nan).to_csv("p.csv", index=False)
    feddcd(*GLM, *F, "--complete", "visits", "--complete", "age", "--out", "out")
    assert (
        "note: --complete left out 10 rows without a value in 'visits', 'age'"
        in capsys.readouterr().err
    )
    assert tomllib.loads(Path("out/job.toml").read_text())["glm"]["complete"] == ["visits", "age"]
    model = json.loads(Path("out/model.json").read_text())
    assert (model["rows"], model["rows_dropped"]) == (N - 10, 10)
    feddcd("describe", "p.csv", "--complete", "visits", "--column", "age", "--out", "table1")
    assert "230 rows" in capsys.readouterr().out
    job = tomllib.loads(Path("table1/job.toml").read_text())
    assert job["describe"]["complete"] == ["visits"]


@pytest.mark.parametrize("sites", [("--group", "hospital"), ()])
def test_rows_that_complete_leaves_out_are_counted_with_the_others(capsys, sites):
    """As in a federation: the table, the message and the counts by site have all of them."""
    data = changed(slice(0, 7), "visits", np.nan)
    data.loc[8:11, "age"] = np.nan
    data.to_csv("p.csv", index=False)
    feddcd("glm", "p.csv", *sites, *F, "--complete", "visits", "--out", "out")
    out = " ".join(capsys.readouterr().out.split())
    assert "Rows dropped: 12" in out
    told = f"feddcd leaves out 12 of {N} rows, because values are missing in these columns:"
    assert f"{told} age (4), visits (8)" in out
    by_site = json.loads(Path("out/model.json").read_text())["site_counts"].values()
    assert [site["missing"] for site in by_site] == ([3, 3, 3, 3] if sites else [12])


def test_missing_values_are_counted(capsys):
    data = patients()
    data.loc[:4, "age"] = np.nan
    data.loc[3:6, "dose"] = np.nan
    data.loc[9, "death"] = np.nan
    data.loc[20, "visits"] = np.nan
    data.to_csv("p.csv", index=False)
    feddcd(*GLM, *F, "--out", "out")
    assert (
        "feddcd leaves out 8 of 240 rows, because values are missing in these columns: age (5), "
        "dose (4), death (1)"
    ) in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "settings", "fit"),
    thinned([
        ("--family poisson --formula visits~age+offset(log(time)) --l2 2",
         {"family": "poisson", "formula": "visits~age+offset(log(time))", "l2": 2.0}, {}),
        ("--family gaussian --formula dose~age --weight trials --site-effects fixed --standardize",
         {"family": "gaussian", "formula": "dose~age", "site_effects": "fixed",
          "standardize": True}, {"sample_weight": "trials"}),
        ("--family multinomial --formula stage~dose --covariance cluster",
         {"family": "multinomial", "formula": "stage~dose", "covariance": "cluster"}, {}),
        ("--formula death~age --covariance HC3", {"formula": "death~age", "covariance": "HC3"}, {}),
        ("--formula death~age --covariance cluster --cluster stage",
         {"formula": "death~age", "covariance": "cluster"}, {"cluster": "stage"}),
        ("--link probit --formula death~age", {"link": "probit", "formula": "death~age"}, {}),
        ("--family quasipoisson --formula visits~age",
         {"family": "quasipoisson", "formula": "visits~age"}, {}),
        ("--family ordinal --classes I,II,III --formula stage~dose",
         {"family": "ordinal", "classes": ["I", "II", "III"], "formula": "stage~dose"}, {}),
        ("--formula death~age --offset dose --absent 0.4 --seed 5 --tol 0.5 --level 90",
         {"level": 0.9, "formula": "death~age", "absent": 0.4, "random_state": 5, "tol": 0.5},
         {"offset": "dose"}),
    ], 2),
)  # fmt: skip
def test_options_reach_the_model(options, settings, fit):
    feddcd(*GLM, *options.split(), "--out", "out", "-q")
    model = FederatedGLM(**settings).fit(patients(), groups="hospital", **fit)
    own = model.original_table_
    pd.testing.assert_frame_equal(coefficients(), own, rtol=1e-9, check_names=False)
    assert Path("out/summary.txt").read_text().strip() == model.summary().strip()
    assert len(pd.read_csv("out/history.csv")) == model.n_exchanges_


def test_tests_contrasts_and_inflation_are_shown_and_written(capsys):
    wishes = ["--contrast", "age - 2 * dose = 1", "--contrast", "age", "--vif"]
    feddcd(*GLM, *F, "--test", "wald", *wishes, "--out", "out")
    shown = capsys.readouterr().out
    model = FederatedGLM("binomial", F[1]).fit(patients(), groups="hospital")
    made = {
        "wald_tests": model.test(), "vif": model.vif(),
        "contrasts": model.contrast(["age - 2 * dose = 1", "age"]),
    }  # fmt: skip
    told, page = json.loads(Path("out/model.json").read_text()), Path("out/report.html").read_text()
    for name, table in made.items():
        found = pd.read_csv(f"out/{name}.csv", index_col=0)
        pd.testing.assert_frame_equal(found, table, rtol=1e-9)
        assert [row[table.index.name] for row in told[name]] == list(table.index)
    for words in ("Wald test of each term", "Variance inflation", "age - 2 * dose = 1"):
        assert words in shown
        assert words in Path("out/summary.txt").read_text()
        assert words in page


def test_both_tests_of_terms_can_be_asked_for(capsys):
    feddcd(*GLM, *F, "--test", "wald", "--test", "lr", "--out", "out")
    shown = capsys.readouterr().out
    for name, title in (("wald", "Wald test of each"), ("lr", "Likelihood-ratio test of each")):
        assert title in shown
        assert Path(f"out/{name}_tests.csv").exists()


@pytest.mark.parametrize("effects", thinned(["none", "fixed"], 2))
def test_likelihood_ratios_are_those_of_refits(effects):
    options = ["--site-effects", effects, "--tol", "1e-7"]
    feddcd(*GLM, *F, *options, "--test", "lr", "--out", "out", "-q")
    found = pd.read_csv("out/lr_tests.csv", index_col="term")
    data = patients()
    settings = {"site_effects": effects, "tol": 1e-7}
    fit = lambda formula, **other: FederatedGLM("binomial", formula, **settings | other).fit(
        data, groups="hospital"
    )
    whole = fit(F[1])
    small = {
        "age": fit("death ~ dose + C(sex)"), "dose": fit("death ~ age + C(sex)"),
        "C(sex)": fit("death ~ age + dose"),
    }  # fmt: skip
    if effects == "fixed":
        small["site effects"] = fit(F[1], site_effects="none")
    assert list(found.index) == list(small)
    for term, without in small.items():
        np.testing.assert_allclose(found.loc[term], whole.compare(without).iloc[1, 2:], rtol=1e-6)


@pytest.mark.parametrize("family", ["binomial", "gaussian", "multinomial"])
def test_predictions_of_new_rows(family):
    formula = {"binomial": F[1], "gaussian": "dose ~ age", "multinomial": "stage ~ age + dose"}
    new = patients()[:7].drop(columns=["death", "stage", "hospital"])
    new.to_csv("new.csv", index=False)
    options = ["--family", family, "--formula", formula[family], "--predict", "new.csv"]
    feddcd(*GLM, *options, "--out", "out", "-q")
    found = pd.read_csv("out/predictions.csv", index_col="row")
    model = FederatedGLM(family, formula[family]).fit(patients(), groups="hospital")
    several = family == "multinomial"
    wanted = model.predict(new, interval=None if several else 0.95)
    np.testing.assert_allclose(found, wanted, rtol=1e-9)
    assert list(found.index) == list(range(1, 8))
    assert list(found) == (["I", "II", "III"] if several else list(wanted))


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--test", "score"], "--test must be one of wald, lr; got 'score'"),
        (["--test", "lr", "--covariance", "HC3"], "--test lr needs the usual standard errors"),
        (["--vif", "--covariance", "cluster"], "of the model: give --covariance"),
        (["--contrast", "agee = 0"], "cannot be read at 'agee'; did you mean 'age'"),
        (["--predict", "nothing.csv"], "nothing.csv"),
        (["--cluster", "stage"], "set --covariance cluster"),
        (["--covariance", "cluster", "--cluster", "stge"], "stage"),
    ],
)
def test_wishes_that_cannot_be(options, words, capsys):
    feddcd(*GLM, *F, *options, "--out", "out", code=2)
    assert words in capsys.readouterr().err


def test_clusters_without_a_formula():
    options = ["--family", "gaussian", "--label", "dose", "--covariance", "cluster"]
    feddcd(*GLM, *options, "--cluster", "stage", "--out", "out", "-q")
    assert "by cluster (12)" in Path("out/summary.txt").read_text()
    assert set(coefficients().index) == {"Intercept", "age", "death", "visits", "time", "trials"}


@pytest.mark.parametrize("level", ["0.95", "100.0", "-5.0", "99.99999999999999", "nan"])
def test_a_level_is_in_per_cent(capsys, level):
    feddcd(*GLM, *F, "--level", level, "--out", "out", code=2)
    told = f"--level must be from 50 to 99.99 (per cent), for example --level 95; got {level}"
    assert told in capsys.readouterr().err


def test_one_line_for_each_exchange_on_a_terminal(capsys, monkeypatch):
    monkeypatch.setattr(_terminal, "console", Console(force_terminal=True))
    feddcd(*GLM, *F, "--out", "out")
    shown = re.findall(r"^exchange (\d+): 4 of 4 sites answered", capsys.readouterr().out, re.M)
    assert shown == [str(i + 1) for i in range(len(pd.read_csv("out/history.csv")))]


def test_what_is_not_proven_is_written_and_said(capsys):
    feddcd(*GLM, *F, "--max-exchanges", "2", "--tol", "1e-6", "--out", "out", code=1)
    out, err = capsys.readouterr()
    assert "NOT proven: the requested error (tol) is 1e-06 standard errors" in " ".join(out.split())
    told = (
        "after 2 exchanges, feddcd cannot prove that the errors of the coefficients are below "
        "--tol 1e-06"
    )
    assert err == f"note: {told}; summary.txt says why\n"
    assert {path.name for path in Path("out").iterdir()} == WRITTEN


def test_a_folder_with_files_is_left_alone_without_force(capsys):
    Path("out").mkdir()
    Path("out/notes.txt").write_text("mine")
    feddcd(*GLM, *F, "--out", "out", code=2)
    assert "out is not empty; choose another --out, or use --force" in capsys.readouterr().err
    assert [path.name for path in Path("out").iterdir()] == ["notes.txt"]
    feddcd(*GLM, *F, "--out", "out", "--force", "-q")
    assert {path.name for path in Path("out").iterdir()} == WRITTEN | {"notes.txt"}
    assert Path("out/notes.txt").read_text() == "mine"


def test_without_out_a_new_folder():
    for _ in range(2):
        feddcd(*GLM, *F, "-q")
    assert {path.name for path in Path("runs").iterdir()} == {"glm-p", "glm-p-2"}


def test_what_is_written_stays_when_the_report_fails(capsys, monkeypatch):
    feddcd(*GLM, *F, "--out", "out", "-q")
    before = Path("out/report.html").read_bytes()

    def fail(fit, path):
        Path(path).write_text("half")
        raise OSError("no space left")

    monkeypatch.setattr(report, "write", fail)
    feddcd(*GLM, "--formula", "death ~ dose", "--out", "out", "--force", "-q", code=2)
    assert capsys.readouterr().err == "error: no space left\n"
    assert Path("out/report.html").read_bytes() == before
    assert list(coefficients().index) == ["Intercept", "dose"]
    assert {path.name for path in Path("out").iterdir()} == WRITTEN


def test_sites_are_named_as_in_the_file(capsys):
    """A site `1` and a site `01` are two, which is said; in a formula they are numbers again."""
    data = patients()
    data.loc[::8, "hospital"] = "1"
    data.to_csv("p.csv", index=False)
    feddcd(*GLM, "--formula", "death ~ age + hospital", "--out", "out")
    told = "the column 'hospital' has '1' and '01', which feddcd reads as two different sites"
    assert told in capsys.readouterr().err
    assert json.loads(Path("out/model.json").read_text())["sites"] == 5
    assert list(coefficients().index) == ["Intercept", "age", "hospital"]


def test_a_site_of_one_row_is_a_site():
    changed(0, "hospital", "07").to_csv("p.csv", index=False)
    feddcd(*GLM, *F, "--out", "out", "-q")
    assert json.loads(Path("out/model.json").read_text())["sites"] == 5


def test_help_imports_nothing_heavy():
    code = (
        "import sys\nfrom feddcd.cli.app import main\n"
        "try: main(['glm', '--help'])\nexcept SystemExit: pass\n"
        "heavy = {'jax', 'numpy', 'pandas', 'sklearn'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or None)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "--bandwidth" in done.stdout


def case(message: str, options: str | list[str] = "", data: pd.DataFrame | str | None = None):
    given = options if isinstance(options, list) else options.split()
    return pytest.param(given, data, message, id=message[:50])


def formula(message: str, text: str, options: str = "", data: pd.DataFrame | None = None):
    return case(message, ["--formula", text, *options.split()], data)


GROUP = "--group hospital"
BAD = [
    # the file
    case("nothing.csv: no such file", "FILE nothing.csv"),
    case("p.svm: feddcd must know the site of each row. Give --group COLUMN", "FILE p.svm"),
    case("p.csv: this file is empty; its first line must contain the names", data=""),
    case("p.csv: no rows", f"{GROUP} --label a", "a,hospital\n"),
    case("p.csv:3: this line has 3 fields, but the header has 2", data="a,hospital\n1,2\n1,2,3\n"),
    case("p.csv:1: two columns have the name 'a'", data="a,a\n1,2\n"),
    case("p.csv:1: column 2 of 2 has no name", data="a,\n1,2\n"),
    case("no column 'a' for --label; columns: 'a:hospital'",
         f"{GROUP} --label a", "a:hospital\n1:2\n"),
    # which column is what
    case("row. Give --group COLUMN, where COLUMN has the site (the hospital, bank, ...)",
         "--label death"),
    formula("no column 'agee' for --complete; did you mean 'age'", F[1],
            f"{GROUP} --complete agee"),
    formula("algorithm='pointsaga' needs at least two sites", F[1],
            "--algorithm pointsaga --l2 0.1"),
    case("no column 'hospitl' for --group; did you mean 'hospital'?",
         "--group hospitl --label death"),
    case("no column 'deaths' for --label; did you mean 'death'?", f"{GROUP} --label deaths"),
    case("no column 'wieght' for --weight; columns:", f"{GROUP} --label death --weight wieght"),
    case("no column 'doze' for --offset; did you mean 'dose'?",
         f"{GROUP} --label death --offset doze"),
    case((
        "p.csv: the outcome is missing: give --formula 'y ~ a + b', or give --label y to use all "
        "other columns of numbers as predictors"
    ), GROUP),
    formula("p.csv: give --formula or --label, but not both", "death ~ age",
            f"{GROUP} --label death"),
    case("the column 'death' is given twice; it can be only one of --label, --group, --weight",
         f"{GROUP} --label death --weight death"),
    case("the other columns are used for --label, --group", f"{GROUP} --label death",
         patients()[["sex", "death", "hospital"]]),
    # formulas
    formula("no column 'agee' for the formula; did you mean 'age' or 'stage'?", "death ~ agee",
            GROUP),
    formula("no column 'dead' for the formula; did you mean 'death'?", "dead ~ age", GROUP),
    formula("A formula has no random effects and no 'or'. With --site-effects fixed, each site",
            "death ~ age | dose", GROUP),
    formula("the formula has 'death' on both sides of ~", "death ~ age + death", GROUP),
    formula("a formula must have the form 'y ~ x1 + x2', got 'age'", "age", GROUP),
    formula("C( has no closing bracket in the formula", "death ~ C(sex", GROUP),
    formula("p.csv: log(dose) is nan on line", "death ~ log(dose)", GROUP),
    # values
    formula((
        "p.csv: column 'age' has 'old' on line 5, but other values of this column are "
        "numbers: correct this value. If 'old' means a missing value, give --na old."
    ), F[1], GROUP,
            changed(3, "age", "old")),
    case((
        "p.csv: column 'age' has 'old' on line 5, but other values of this column are "
        "numbers: correct this value. If 'old' means a missing value, give --na old."
    ), f"{GROUP} --label death",
         changed(3, "age", "old")),
    formula("p.csv: 'dose' has no value on line 9; to leave out such rows, give --missing drop",
            F[1], f"{GROUP} --missing error", changed(7, "dose", np.nan)),
    formula("p.csv: age is inf on line 12, but it must be a finite number", F[1], GROUP,
            patients().replace({"age": {patients().age[10]: np.inf}}).assign(dose=1.0)),
    formula("no row has values in all columns; 'dose' has no value in 240 rows", F[1], GROUP,
            changed(slice(None), "dose", np.nan)),
    formula("the column 'dose' has the same value in every row, up to rounding, so", F[1], GROUP,
            patients().assign(dose=2.5)),
    formula("in every row, so this column cannot be a predictor; leave", F[1], GROUP,
            patients().assign(sex="f")),
    formula("p.csv: one level of 'sex' is written in two ways, 'm' and 'm ' (first", F[1], GROUP,
            changed(int(patients().index[patients().sex == "m"][-1]), "sex", "m ")),
    formula("p.csv: one level of 'sex' is written in two ways, 'm ' (first on line "
            f"{2 + int(patients().index[patients().sex == 'm'][0])}) and 'm'", F[1], GROUP,
            changed(int(patients().index[patients().sex == "m"][0]), "sex", "m ")),
    formula("there is no column 'DOSE' for the formula; did you mean 'dose'?", "death ~ DOSE",
            GROUP),
    formula("p.csv: the column 'key' has 1,001 different words, but a category can have at most "
            "1,000", "death ~ key", GROUP,
            pd.concat([patients()] * 5)[:1001].assign(key=[f"k{i}" for i in range(1001)])),
    formula("separation: dose predicts some outcomes perfectly", "death ~ age + dose",
            GROUP, patients().assign(dose=lambda d: d.death * (d.index % 12 == 0))),
    formula("p.csv: --weight must be finite and >= 0, got -1.0 on line 6", F[1],
            f"{GROUP} --weight trials", changed(4, "trials", -1)),
    formula("p.csv: offset must be numbers, got", F[1], f"{GROUP} --offset stage"),
    # sites
    formula((
        "p.csv: the column 'hospital' is empty on line 4, but each row must have a site; rows "
        "without a site: 1. Fill in the site, or remove these rows"
    ), F[1], GROUP,
            changed(2, "hospital", np.nan)),
    formula((
        "p.csv: one site of 'hospital' is written in two ways, '01' and '01 ' (first on line 6). "
        "The two words differ only by spaces, or by small and capital letters. Write the site in "
        "one way in all rows"
    ), F[1],
            GROUP, changed(4, "hospital", "01 ")),
    # outcomes
    formula((
        "p.csv: the column 'stage' has 3 different words, 'I', 'II', 'III', but --family binomial "
        "needs two. Use ordinal for words that have an order, multinomial for other words"
    ),
            "stage ~ age", GROUP),
    formula((
        "p.csv: the outcome 'visits' has values from 0 to 8, but --family binomial needs 0 and 1. "
        "Use gaussian for an outcome of any numbers, poisson for counts, multinomial for classes"
    ),
            "visits ~ age", GROUP),
    formula((
        "p.csv: the outcome 'death' has the value 2 on line 6, but nearly all other values are 0 "
        "or 1. If this value is a mistake, correct it. --family binomial needs 0 and 1"
    ),
            F[1], GROUP, changed(4, "death", 2)),
    formula((
        "p.csv: the outcome 'death' has shares such as 0.5: give the column with the number "
        "of trials as --weight, or use --family gaussian"
    ), "death ~ age", GROUP,
            changed(4, "death", 0.5)),
    formula((
        "p.csv: the outcome 'sex' contains words such as 'f', but --family poisson needs numbers. "
        "Use binomial for two words, ordinal for words that have an order, multinomial for other "
        "words"
    ),
            "sex ~ age", f"{GROUP} --family poisson"),
    formula("'death' is 1 in every row, but binomial needs both 0 and 1", "death ~ age", GROUP,
            patients().assign(death=1)),
    formula("the outcome 'sex' is 'f' in every row, but family binomial needs two values",
            "sex ~ age", GROUP,
            patients().assign(sex="f")),
    formula("p.csv: 'dose': the class -", "dose ~ age", f"{GROUP} --family multinomial"),
    # settings, before the file is read
    case((
        "family must be one of gaussian, binomial, poisson, multinomial, quasibinomial, "
        "quasipoisson, gamma, inverse_gaussian, negative_binomial, ordinal; got 'weibull'"
    ),
         "FILE nothing.csv --family weibull"),
    formula((
        "family='ordinal' needs the order of 'I', 'II', 'III': give the classes, the lowest "
        "first, in --classes"
    ),
            "stage ~ age", f"{GROUP} --family ordinal"),
    case((
        "for family binomial, --link must be one of logit, probit, cloglog, log, cauchit; "
        "got 'sqrt'"
    ),
         "FILE nothing.csv --link sqrt"),
    case("tol, in standard errors, must be a finite number > 0; got tol=0.0", "--tol 0"),
    case("must be at least 0 and below 1, got absent=1.0", "--absent 1"),
    case("need a whole number --max-exchanges >= 2, got 1", "--max-exchanges 1"),
    case("need a whole number --seed >= 0, got -1", "--seed -1"),
    case("missing must be one of drop, error; got 'mean'", "--missing mean"),
    case("algorithm must be one of auto, newton, pointsaga; got 'sgd'", "--algorithm sgd"),
    case("latency must be a finite number above 0, got latency=-1.0", "--latency -1"),
    case("bandwidth must be a finite number above 0, got bandwidth=0.0", "--bandwidth 0"),
    formula("l2 of the coefficient 'age' must be finite and >= 0, got -1", F[1],
            f"{GROUP} --l2 -1"),
    # nearly right, or as in R
    formula("got 'binominal'; did you mean 'binomial'?", F[1], "--family binominal"),
    formula("got 'hc3'; did you mean 'HC3'?", F[1], "--covariance hc3"),
    formula("Give both separately: the family 'quasibinomial' and --link probit", F[1],
            "--family quasibinomial(link=probit)"),
    formula("formula: relevel(factor(sex), ref='m') is not known", "death ~ "
            "relevel(factor(sex), ref='m')"),
    formula("age)'. Write + offset(log(age)) instead", "death ~ dose, offset=log(age)"),
    formula("weights=age'. Give settings, such as weights, outside of the formula",
            "death ~ dose, weights=age"),
    formula("or write only the name of the column and set --standardize", "death ~ scale(age)"),
    formula("With --site-effects fixed, each site has its own", "death ~ strata(sex)"),
    formula("offset(log(age)) is -inf on line 7, where age is 0, but it must be a finite number. "
            "Correct the value, or leave out the row\n", "death ~ dose + offset(log(age))",
            data=patients().assign(age=lambda d: d.age.where(d.index != 5, 0))),
    formula("log(age) is -inf on line 7, where age is 0, but it must be a finite number. Correct "
            "the value, leave out the row, or write for example log(age + 0.5) or log1p(age) in "
            "the formula", "death ~ log(age)",
            data=patients().assign(age=lambda d: d.age.where(d.index != 5, 0))),
    formula("'f' and 'F' differ only by spaces, or by small and capital letters", "sex ~ age",
            data=patients().assign(sex=lambda d: d.sex.where(d.index != 5, "F"))),
]  # fmt: skip


@pytest.mark.parametrize(("options", "data", "message"), BAD)
def test_bad_input(options, data, message, capsys):
    """One line, exit code 2, and no folder."""
    if isinstance(data, str):
        Path("p.csv").write_text(data)
    elif data is not None:
        data.to_csv("p.csv", index=False)
    Path("p.svm").write_text("1 1:2\n")
    file = options[1] if options[:1] == ["FILE"] else "p.csv"
    rest = options[2:] if options[:1] == ["FILE"] else options
    feddcd("glm", file, *rest, "--out", "out", code=2)
    out, err = capsys.readouterr()
    assert out == ""
    assert re.fullmatch(r"error: [^\n]+\n", err), err
    assert message in err
    assert not Path("out").exists()


def test_out_that_is_a_file(capsys):
    feddcd(*GLM, *F, "--out", "p.csv", code=2)
    assert capsys.readouterr().err == "error: p.csv is a file, not a folder\n"


def test_parquet_holds_more_than_numbers_and_words(capsys):
    data = patients()
    data.assign(day=pd.Timestamp("2020-02-01"), many=[[1, 2]] * N).to_parquet("p.parquet")
    for text, shown in (("death ~ day", "2020-02-01"), ("many ~ age", "[1 2]")):
        feddcd("glm", "p.parquet", "--group", "hospital", "--formula", text, code=2)
        assert f"contains values such as {shown}" in capsys.readouterr().err
    data.loc[3, "dose"] = np.inf
    data.to_parquet("p.parquet")
    feddcd("glm", "p.parquet", "--group", "hospital", *F, code=2)
    assert (
        "p.parquet: dose is inf in row 4, but it must be a finite number" in capsys.readouterr().err
    )


def test_a_libsvm_file_among_pretended_sites(capsys):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(120, 3)).round(3), rng.choice([-1, 1], 120)
    numbers = [" ".join(f"{j + 1}:{v}" for j, v in enumerate(x)) for x in X]
    Path("p.svm").write_text("\n".join(f"{a:+d} {b}" for a, b in zip(y, numbers, strict=True)))
    feddcd("glm", "p.svm", "--clients", "4", "--tol", "1e-7", "--out", "out", "-q")
    result = sm.GLM((y + 1) / 2, sm.add_constant(X), family=sm.families.Binomial()).fit()
    np.testing.assert_allclose(coefficients()["coef"], result.params, rtol=1e-3)
    assert list(coefficients().index) == ["Intercept", "x1", "x2", "x3"]
    feddcd("glm", "p.svm", "--clients", "1", "--out", "other", code=2)
    assert "--clients must be from 2 to 120, the number of rows; got 1" in capsys.readouterr().err
    feddcd(*GLM, *F, "--clients", "3", "--out", "other", code=2)
    assert "give --group, or --clients" in capsys.readouterr().err
