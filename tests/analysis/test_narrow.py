"""Results on terminals of several widths: nothing is wider, no number is lost."""

import re

import numpy as np
import pandas as pd
import pytest
from rich.console import Console

import feddcd
from feddcd.cli import _terminal
from feddcd.cli.app import main

LONG = "the_time_between_the_first_and_the_last_visit_at_the_clinic"


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    n = 300
    frame = pd.DataFrame({"age": rng.normal(60, 9, n).round(1), "visits": rng.poisson(3, n)})
    frame[LONG] = rng.normal(1000, 70, n).round(2)
    frame["sex"], frame["ward"] = rng.choice(["f", "m"], n), rng.choice(list("abcde"), n)
    frame["hospital"] = [f"hospital {i % 5}" for i in range(n)]
    return frame.assign(y=(rng.random(n) < 0.4).astype(int))


@pytest.fixture(scope="module")
def fit(frame):
    model = feddcd.FederatedGLM("binomial", f"y ~ age + visits + {LONG} + C(sex)")
    model.fit(frame, groups="hospital")
    return model.result_


@pytest.fixture(scope="module")
def usual(frame):
    """A fit with names as most tables have them."""
    model = feddcd.FederatedGLM("binomial", "y ~ age + visits + C(sex)")
    return model.fit(frame, groups="hospital").result_


@pytest.fixture(scope="module")
def description(frame):
    return feddcd.describe(frame, by="ward", site="hospital")


def widest(text: str) -> int:
    return max(map(len, text.splitlines()))


def numbers(text: str) -> set[str]:
    return set(re.findall(r"-?\d[\d.,]*(?:e[+-]?\d+)?", text))


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_a_regression_table_is_as_wide_as_the_terminal(fit, width):
    text = fit.summary(width)
    assert widest(text) <= width
    assert numbers(fit.summary()) <= numbers(text)
    rows = [line.split() for line in text.splitlines() if line.startswith("age ")]
    shown = [cell for row in rows for cell in row[1:]]
    whole = [line.split()[1:] for line in fit.summary().splitlines() if line.startswith("age ")]
    assert shown == [cell for row in whole for cell in row]


def test_at_80_letters_the_table_is_in_one_piece(usual):
    heads = [line for line in usual.summary(80).splitlines() if "[0.025" in line]
    assert [head.split()[0] for head in heads] == ["coef", "odds"]
    assert usual.summary(200) == usual.summary()
    below = [line.split()[0] for line in usual.summary(60).splitlines() if "[0.025" in line]
    assert below == ["[0.025", "odds"]  # the ends of an interval stay together


@pytest.mark.parametrize("width", [40, 60, 80, 100])
def test_table_1_is_as_wide_as_the_terminal(description, width):
    text = description.summary(width)
    assert widest(text) <= width
    assert numbers(description.summary()) <= numbers(text)


def test_files_keep_their_width(fit, description, tmp_path):
    for result in (fit, description):
        list(result.write(tmp_path))
        assert (tmp_path / "summary.txt").read_text() == result.summary() + "\n"
        assert widest(result.summary()) > 80


@pytest.mark.parametrize("command", ["glm", "describe"])
def test_all_that_a_command_prints_fits_a_narrow_terminal(
    command, frame, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    frame.to_csv("p.csv", index=False)
    narrow = {"force_terminal": True, "no_color": True, "width": 60}
    monkeypatch.setattr(_terminal, "console", Console(**narrow))
    monkeypatch.setattr(_terminal, "errors", Console(stderr=True, **narrow))
    more = {"glm": ["--formula", "y ~ age + C(sex)"], "describe": ["--by", "ward"]}[command]
    with pytest.raises(SystemExit) as stop:
        main([command, "p.csv", "--group", "hospital", *more, "--out", "out"])
    assert stop.value.code == 0
    out, err = capsys.readouterr()
    assert "out/report.html" in out
    assert widest(re.sub(r"\x1b\[[\d;]*m", "", out + err)) <= 60


def test_a_path_and_a_command_stay_in_one_piece(monkeypatch, capsys):
    monkeypatch.setattr(_terminal, "console", Console(force_terminal=True, width=40))
    path, command = "/" + "a" * 60, f"feddcd run --resume {'b' * 40} --rounds 9"
    _terminal.say(f"the report of this run is in the file {path}")
    _terminal.say(f"to continue: {command}")
    first, second, third = capsys.readouterr().out.splitlines()
    assert (first, second) == ("the report of this run is in the file", path)
    assert third == f"to continue: {command}"
