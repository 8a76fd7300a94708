"""Numbers with which NumPy overflows: a table or one line on what is wrong, and no warning of NumPy
(pytest makes an error of each) and no traceback."""

import sys
import warnings

import numpy as np
import pandas as pd
import pytest

from feddcd.cli.app import main


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng, n = np.random.default_rng(0), 120
    d = pd.DataFrame({"x": rng.normal(size=n), "h": rng.choice(["n", "s", "w"], n)})
    d["b"], d["k"] = (rng.random(n) < 0.5) * 1, rng.poisson(2, n) * 10**9
    d["p"], d["g"] = rng.gamma(2, 1, n), d.x + rng.normal(size=n)
    d["big"], d["huge"] = rng.normal(size=n) * 1e150, rng.normal(size=n) * 1e300
    d["denormal"] = 5e-324 * rng.integers(1, 9, n)
    d["days"], d["off"] = rng.uniform(1, 1000, n), rng.normal(size=n) * 800
    d["zero"], d["side"] = 0.0, (d.x > 0) * 1
    path = tmp_path_factory.mktemp("a folder") / "d.csv"
    d.to_csv(path, index=False)
    return path.parent


LARGE = "because some of its sums are too large or not finite. What feddcd found: "
SPOILT = [
    ("g ~ huge", "gaussian", "the sum of squares of the column 'huge' is not finite"),
    ("huge ~ x", "gaussian", "the sum of squares of the outcome is not finite"),
    ("huge ~ big", "gaussian", LARGE),
    ("big ~ x + offset(big)", "gaussian", LARGE),
    ("k ~ big", "poisson", LARGE),
    ("k ~ x + offset(days)", "poisson", "the offset 'days' is too large"),
    ("b ~ x + offset(off)", "binomial --link cloglog", "the offset 'off' is too large"),
    ("g ~ log(zero)", "gaussian", "log(zero) is -inf on line 2"),
    ("side ~ x", "binomial", "separation: x predicts"),
    ("zero ~ x", "poisson", "'zero' is 0 in every row"),
    ("big ~ x", "gaussian --link log", "no step made the loss smaller"),
]
FITTED = [
    ("denormal ~ x", "gaussian"),
    ("b ~ x:big", "binomial"),
    ("b ~ x", "binomial --l2 1e300"),
    ("g ~ x + offset(off)", "gaussian --link inverse --group h"),
]


def glm(folder, monkeypatch, capsys, formula, options):
    monkeypatch.chdir(folder)
    words = ["glm", "d.csv", "--formula", formula, "--family", *options.split(), "--out", "out"]
    with pytest.raises(SystemExit) as stop:
        main([*words, "--force"])
    told = capsys.readouterr()
    assert "Warning" not in told.err
    return stop.value.code, told


@pytest.mark.parametrize("group", ["", " --group h"])
@pytest.mark.parametrize(("formula", "options", "reason"), SPOILT)
def test_what_cannot_be_computed_is_said_in_one_line(
    formula, options, reason, group, folder, monkeypatch, capsys
):
    code, told = glm(folder, monkeypatch, capsys, formula, options + group)
    assert code == 2, told
    last = told.err.splitlines()[-1]
    assert last.startswith("error: ")
    assert reason in last


@pytest.mark.parametrize(("formula", "options"), FITTED)
def test_what_overflows_on_the_way_is_fitted(formula, options, folder, monkeypatch, capsys):
    code, told = glm(folder, monkeypatch, capsys, formula, options)
    assert code == 0, told.err
    title = "Federated generalised" if "--group" in options else " Generalised"
    assert f"{title} linear model" in told.out


def test_columns_of_the_printed_table_do_not_touch(folder, monkeypatch, capsys):
    _, told = glm(folder, monkeypatch, capsys, "b ~ x:big", "binomial")
    (line,) = [x for x in told.out.splitlines() if x.startswith("x:big") and "e-1" in x]
    assert len(line.split()) == 7, line


def test_no_command_silences_numpy(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["feddcd", "--version"])
    monkeypatch.setattr(sys, "warnoptions", [])
    with warnings.catch_warnings():
        with pytest.raises(SystemExit):
            main()
        whole = [each for each in warnings.filters if each[0] == "ignore" and each[1] is None]
    assert not [each for each in whole if issubclass(RuntimeWarning, each[2])], whole
