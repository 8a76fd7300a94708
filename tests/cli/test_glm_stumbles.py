"""Mistakes with which a person begins: the message names what is wrong in the table, and what to
type."""

import re
import tomllib
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from feddcd import DataError, FederatedGLM
from feddcd.cli.app import main


def patients(n=200) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    rows = pd.DataFrame({
        "hospital": [f"h{i % 4}" for i in range(n)],
        "person": [f"p{i:03}" for i in range(n)],
        "age": rng.normal(60, 8, n).round(1),
        "severity": rng.choice(["mild", "moderate", "severe"], n),
        "asa": rng.integers(1, 5, n),
        "sex": rng.choice(["Male", "male", "female"], n),
        "death": rng.integers(0, 2, n),
    })  # fmt: skip
    rows["lab"] = np.where(rows.hospital == "h2", rows.age + rng.normal(size=n), np.nan)
    rows["coded"] = rows.death + 1
    return rows


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    patients().to_csv("p.csv", index=False)


def said(capsys, *arguments: str, code: int = 0) -> str:
    with pytest.raises(SystemExit) as stop:
        main(list(arguments))
    out, err = capsys.readouterr()
    assert stop.value.code == code, err
    return " ".join((err + out).split())


def glm(capsys, formula: str, *more: str, code: int = 0) -> str:
    given = ("glm", "p.csv", "--group", "hospital", "--formula", formula, "--out", "out")
    return said(capsys, *given, *more, code=code)


def test_classes_of_a_column_of_numbers_are_numbers(capsys):
    ordinal = ("--family", "ordinal", "--classes", "1,2,3,4")
    glm(capsys, "asa ~ age", *ordinal)
    assert tomllib.loads(Path("out/job.toml").read_text())["glm"]["classes"] == [1, 2, 3, 4]
    text = glm(capsys, "asa ~ age", *ordinal[:3], "1,2,3,4,x", "--force", code=2)
    assert "no row has the class 'x'" in text
    glm(capsys, "severity ~ age", *ordinal[:3], "mild,moderate,severe", "--force")


@pytest.mark.parametrize("formula", ["death ~ person + age", "death ~ ."])
def test_a_word_for_each_row_is_no_category(capsys, formula):
    text = glm(capsys, formula, code=2)
    assert "the column 'person' has 200 different words, and no word twice" in text
    assert ". - person" in text


def test_two_numbers_as_outcome_can_name_the_event(capsys):
    text = glm(capsys, "coded ~ age", code=2)
    assert "the outcome 'coded' has the two values 1 and 2" in text
    assert text.endswith("If 2 means the event, add --event 2")
    told = glm(capsys, "coded ~ age", "--event", "2")
    assert glm(capsys, "death ~ age", "--force").partition("Intercept")[2][:60] in told


def test_a_site_without_a_complete_row_is_named(capsys):
    text = glm(capsys, "age ~ lab", "--family", "gaussian")
    for site in ("h0", "h1", "h3"):
        why = f"{site}: no row has values in all columns of the model"
        assert f"Not part of this table: {why}" in text
    assert "Not part of this table: 'h0', 'h1', 'h3'." in Path("out/coefficients.md").read_text()


def test_one_level_in_two_ways_is_said_of_the_column(capsys):
    text = glm(capsys, "death ~ sex", code=2)
    assert re.search(r"one level of 'sex' is written in two ways, .* \(first on line \d+\)", text)
    assert text.rstrip().endswith("Write the level in one way in all rows")
    text = said(capsys, "describe", "p.csv", "--column", "sex", "--out", "d", code=2)
    assert "one level of 'sex' is written in two ways, 'male' and 'Male'" in text


def test_a_level_in_two_ways_is_refused_where_its_codebook_lists_both(capsys):
    """The message said that a list of levels would help, and a list was refused as well."""
    levels = "levels=c('male', 'Male', 'female', 'Female')"
    told = glm(capsys, f"death ~ C(sex, {levels})", code=2)
    assert "one level of 'sex' is written in two ways" in told
    assert "list" not in told


def test_one_level_in_three_ways_is_told_in_all_of_them(capsys):
    rows = patients()
    rows.loc[rows.index[2], "sex"] = "MALE "
    rows.to_csv("p.csv", index=False)
    text = glm(capsys, "death ~ sex", code=2)
    told = r"one level of 'sex' is written in 3 ways, ('\w+ ?'|, | and | \(first on line \d+\))+\. "
    assert re.search(f"{told}These words differ only by", text)
    for way in ("'Male'", "'male'", "'MALE '"):
        assert way in text


def test_an_outcome_in_two_ways_is_told_with_what_to_do(capsys):
    rows = patients().assign(death=lambda d: d.death.map({0: "alive", 1: "dead"}))
    rows.loc[0, "death"] = "Dead"
    rows.to_csv("p.csv", index=False)
    assert glm(capsys, "death ~ age", code=2).endswith(
        "differ only by spaces, or by small and capital letters: write each word in one way in all "
        "rows"
    )


def test_a_number_with_words_in_all_rows_is_told_as_such(capsys):
    """It would be a category with a level for each number."""
    rows = patients().assign(age=lambda d: d.age.round().astype(int).astype(str) + " y")
    rows.to_csv("p.csv", index=False)
    text = glm(capsys, "death ~ age", code=2)
    assert "each value of this column is a number with 'y' behind it" in text
    assert "write them without 'y'" in text


def test_words_with_many_levels_are_told_as_a_category(capsys):
    rows = patients().assign(person=[f"nr. {i % 40}" for i in range(200)])
    rows.to_csv("p.csv", index=False)
    told = "'person' has words, so it is a category with 40 levels. If 'person' should be a column"
    assert told in glm(capsys, "age ~ person", "--family", "gaussian")
    rows.assign(death=[int(i % 40 == 7) for i in range(200)]).to_csv("p.csv", index=False)
    text = glm(capsys, "death ~ person", "--force", code=2)
    assert "separation: " in text
    assert told in text


def test_three_words_may_have_an_order(capsys):
    text = glm(capsys, "severity ~ age", code=2)
    assert "Use ordinal for words that have an order, multinomial for other words" in text


@pytest.mark.parametrize("other", ["Female", "Female ", " female"])
def test_one_level_in_two_ways_is_refused_in_python_and_in_words_of_an_outcome(other):
    """The fit was called proven, and the federation of the same plan died."""
    rows = patients().assign(sex=lambda d: d.sex.str.lower())
    rows.loc[2, "sex"] = other
    told = "one level of 'sex' is written in two ways"
    with pytest.raises(DataError, match=told):
        FederatedGLM("binomial", "death ~ sex").fit(rows, groups="hospital")
    with pytest.raises(DataError, match=told):
        FederatedGLM("multinomial", "sex ~ age").fit(rows, groups="hospital")


@pytest.mark.parametrize("other", ["H0", "h0 "])
def test_one_site_in_two_ways_is_refused_everywhere(capsys, other):
    rows = patients().assign(sex="m")
    rows.loc[4, "hospital"] = other
    rows.to_csv("p.csv", index=False)
    told = f"one site of 'hospital' is written in two ways, 'h0' and {other!r} (first on line 6)"
    assert told in glm(capsys, "death ~ age", code=2)
    where = ("--group", "hospital", "--out", "d")
    assert told in said(capsys, "describe", "p.csv", "--column", "age", *where, code=2)
    Path("job.toml").write_text('[glm]\nformula = "death ~ age"\n')
    data = ("--data", "p.csv", "--group", "hospital", "--job", "job.toml")
    assert told in said(capsys, "federation", "init", "fed", *data, code=2)
    with pytest.raises(DataError, match="one site of 'hospital' is written in two ways"):
        FederatedGLM("binomial", "death ~ age").fit(rows, groups="hospital")


def test_levels_of_one_site_alone_are_noted(capsys):
    rows = patients().assign(sex=lambda d: d.sex.str.lower())
    own = rows.hospital == "h1"
    rows.loc[own, "sex"] = rows.sex[own].map({"male": "M", "female": "F"})
    rows.to_csv("p.csv", index=False)
    told = "the levels 'F' and 'M' of the column 'sex' exist only at h1. If other sites"
    assert told in glm(capsys, "death ~ sex")
    assert "only at" not in glm(capsys, "death ~ severity", "--force")


def test_two_codings_of_an_outcome_are_told_by_site(capsys):
    """The advice was another family, and so a wrong model."""
    rows = patients()
    own = rows.hospital == "h1"
    rows["late"] = np.where(own, rows.coded, rows.death)
    rows["end"] = np.where(own, rows.death.map({0: "alive", 1: "dead"}), rows.death.astype(str))
    rows["end"] = rows.end.replace({"0": "no", "1": "yes"})
    rows.to_csv("p.csv", index=False)
    told = "the outcome 'late' does not have the same two values at all sites: "
    told += "0 and 1 at h0, h2 and h3; 1 and 2 at h1"
    assert told in (text := glm(capsys, "late ~ age", code=2))
    assert "multinomial" not in text
    told = "'no' and 'yes' at h0, h2 and h3; 'alive' and 'dead' at h1. Use the same two values"
    assert told in glm(capsys, "end ~ age", code=2)


def test_an_empty_column_of_sites_tells_if_it_has_no_sites(capsys):
    patients().assign(sex="m", age=lambda d: d.age.where(d.index != 3)).to_csv("p.csv", index=False)
    text = said(capsys, "glm", "p.csv", "--group", "age", "--formula", "death ~ asa", code=2)
    assert re.search(
        r"'age' is empty on line 5, .* without a site: 1\. \d+ of \d+ sites in the column 'age'",
        text,
    )
    assert text.endswith(
        "--group must name the column with the hospital (or bank, ...) of each row"
    )


@pytest.mark.parametrize("sites", [2, 4])
def test_two_sites_are_told_early_that_masks_cannot_hide_their_sums(capsys, sites):
    rows = patients()
    rows["hospital"] = [f"h{i % sites}" for i in range(len(rows))]
    rows.to_csv("p.csv", index=False)
    told = "with only two sites, masks cannot hide the sums of a site"
    assert (told in glm(capsys, "death ~ age")) == (sites == 2)
    init = ("--job", "out/job.toml", "--data", "p.csv", "--group", "hospital")
    assert (told in said(capsys, "federation", "init", "fed", *init)) == (sites == 2)


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (
            -999,
            "the column 'age' is -999 in 3 rows, and no other value of this column is below 0. If "
            "-999 means a missing",
        ),
        (-9, "If -9 means a missing value, give --na -9"),
        (9999, "If 9999 means a missing value, give --na 9999"),
        (99, None),  # an age
        (-5, None),
    ],
)
def test_a_number_that_may_mean_a_missing_value_is_named(capsys, code, told):
    rows = patients()
    rows.loc[4:6, "age"] = code
    rows.to_csv("p.csv", index=False)
    describe = ("describe", "p.csv", "--column", "age", "--out", f"d{code}")
    for text in (glm(capsys, "death ~ age"), said(capsys, *describe)):
        assert "means a missing value" in text if told else "missing value, give" not in text
        assert told is None or told in text
    if told:
        assert "missing value, give" not in glm(capsys, "death ~ age", "--na", str(code), "--force")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--firth"], "no bound is known for Firth's penalty"),
        (["--link", "cauchit"], "with this link the likelihood can have more than one maximum"),
    ],
)
def test_a_model_that_nobody_can_prove_is_done_and_says_so(capsys, options, why):
    """--quiet prints notes that a result is not proven."""
    told = f"note: not proven: {why}. Newton's method"
    text = glm(capsys, "death ~ age", *options, "-q")
    assert text.startswith(told)
    assert re.search(r"method converged after \d+ exchanges$", text)
    text = glm(capsys, "death ~ age", *options, "--force")
    assert "Not proven: " in text
    assert told not in text  # the table says it
    text = glm(capsys, "death ~ age", *options, "-q", "--force", "--max-exchanges", "3", code=1)
    assert text.startswith(told)
    assert "did NOT converge after 3 exchanges" in text
