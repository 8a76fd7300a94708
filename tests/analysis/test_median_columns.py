"""A median of words, dates or identifiers is refused by name, with what to do, where this is first
known: in Python, on the command line, in a job file, at a site."""

import numpy as np
import pandas as pd
import pytest

import feddcd
from feddcd._errors import DataError, FeddcdError, SpecError
from feddcd.analysis._describe import Describe
from feddcd.analysis._describe_plan import DescribePlan
from feddcd.analysis.protocol import Misfit
from feddcd.cli._tables import load_job
from feddcd.cli.app import main


def patients(n=60):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {"age": rng.integers(20, 90, n), "ward": rng.choice(["a", "b"], n),
         "flag": rng.random(n) < 0.5, "day": [f"2024-01-{1 + i % 28:02}" for i in range(n)],
         "mrn": np.arange(n) + 1000}
    )  # fmt: skip


@pytest.mark.parametrize("name", ["ward", "flag", "day"])
@pytest.mark.parametrize("site", [None, "ward2"])
def test_a_median_of_words_is_refused_by_name(name, site):
    d = patients().assign(ward2=["x", "y", "z"] * 20)
    told = rf"the column {name!r} \(median\) .* [Rr]emove {name!r} from median"
    with pytest.raises(DataError, match=told) as error:
        feddcd.describe(d, ["age", name], median=[name], site=site)
    assert error.value.column == name
    assert feddcd.describe(d, ["age", name], median=["age"], site=site).n_rows == 60


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("day", "is not in the table, because its values are dates"),
        ("mrn", "is not in the table, because its values identify a person"),
        ("agee", "there is no column 'agee'; did you mean 'age'"),
    ],
)
def test_a_column_that_nobody_named_is_no_riddle(name, reason, tmp_path, monkeypatch, capsys):
    with pytest.raises(FeddcdError, match=reason):
        feddcd.describe(patients(), median=[name])
    monkeypatch.chdir(tmp_path)
    patients().to_csv("p.csv", index=False)
    with pytest.raises(SystemExit) as stop:
        main(["describe", "p.csv", "--median", name, "--out", "out"])
    told = capsys.readouterr().err
    assert stop.value.code == 2
    assert reason in told
    assert not (tmp_path / "out").exists()


def test_the_command_says_which_option_and_what_to_do(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    patients().to_csv("p.csv", index=False)
    with pytest.raises(SystemExit) as stop:
        main(["describe", "p.csv", "--median", "ward", "--out", "out"])
    told = capsys.readouterr().err
    assert stop.value.code == 2
    assert "the column 'ward' (--median) are words" in told
    assert "Remove 'ward' from --median" in told
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        (
            'type = "category"\nlevels = ["a", "b"]',
            "the setting 'median' names 'ward', which is counted by level. Remove",
        ),
        ('type = "date"', "the column 'ward' is a date"),
        ('type = "identifier"', "for the column 'ward', because an identifier cannot have a role"),
        ('type = "number"', ""),
    ],
)
def test_a_job_file_is_refused_where_its_codebook_knows(kind, reason, tmp_path):
    (tmp_path / "book.toml").write_text(f"[columns.ward]\n{kind}\n")
    path = tmp_path / "job.toml"
    path.write_text('[describe]\ncolumns = ["ward"]\nmedian = ["ward"]\ncodebook = "book.toml"\n')
    if not reason:
        assert load_job(path).median == ["ward"]
        return
    with pytest.raises(SpecError, match=reason) as error:
        load_job(path)
    assert "job.toml" in str(error.value)


@pytest.mark.parametrize("given", [{"columns": "age"}, {"columns": ["age"], "median": "age"}])
def test_one_name_is_no_list_of_letters(given):
    with pytest.raises(SpecError, match=r"must be a list of .*got age"):
        feddcd.describe(patients(), **given)


def test_a_job_file_alone_is_refused_with_what_to_do():
    for values, what in (
        ({"columns": ["age"], "median": ["ward"]}, "Add it to columns, or remove it from median"),
        ({"columns": ["C(ward)"], "median": ["ward"]}, "Remove 'ward' from median"),
    ):
        with pytest.raises(SpecError, match=what):
            DescribePlan.from_dict(values)


def test_a_site_with_words_in_this_column_says_so_and_tells_no_value():
    analysis, plan = Describe(), DescribePlan(["age", "ward"], median=["ward"])
    with pytest.raises(Misfit, match="the column 'ward'") as error:
        analysis.offer(patients(), plan)
    assert "'a'" not in str(error.value)
    numbers = patients().assign(ward=1.5)
    offers = {"x": analysis.offer(numbers, plan).offer}
    cohort, gone = analysis.agree(offers, plan)
    assert (cohort.numbers, gone) == (["age", "ward"], {})
