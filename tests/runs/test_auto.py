"""The method of a run where none is named."""

import json

import numpy as np
import pytest

import feddcd
from feddcd._errors import SpecError
from feddcd.cli.app import main
from feddcd.federation.config import Config
from feddcd.runs.auto import choose_method
from feddcd.runs.spec import Spec


def test_rules_by_the_model():
    """Also without a penalty: with a part of the clients FedNewton ran away on separable rows."""
    some = {"convex": True, "l2": 1e-3, "size": 50, "everyone": False}
    assert choose_method(**some).algorithm == "fedqn"
    assert choose_method(**some | {"l2": 0.0}).algorithm == "fedqn"
    assert choose_method(**some | {"convex": False}).algorithm == "feddcd"
    assert "fewest bytes" in choose_method(**some).why


def test_a_large_model_without_a_penalty_takes_l_bfgs_where_nobody_is_away():
    """As measured on rcv1-subset by benchmarks/unpenalised.py."""
    large = {"convex": True, "l2": 0.0, "size": 47_236, "everyone": True}
    assert choose_method(**large).algorithm == "fedlbfgs"
    for other in ({"l2": 1e-4}, {"everyone": False}, {"size": 7_800}):
        assert choose_method(**large | other).algorithm == "fedqn"


@pytest.mark.parametrize("l2", [0.0, pytest.param(0.1, marks=pytest.mark.chaos)])
def test_a_run_says_which_method_it_took_and_why(l2, tmp_path):
    sites = {"clients": 6, "tau": 3, "l2": l2, "model": "ridge"}
    result = feddcd.run("synthetic:n=60,d=5,groups=6", rounds=5, out=tmp_path / "run", **sites)
    assert result.spec.algorithm == "fedqn"
    said = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert said["algorithm"] == "fedqn"
    assert "fewest bytes" in said["why"]
    assert feddcd.Result.load(tmp_path / "run").spec.algorithm == "fedqn"


@pytest.mark.chaos
def test_without_a_penalty_a_part_of_the_clients_is_enough():
    """digits are separable: the objective has no least value. It rises for some rounds, but never
    to that of the first model, and then falls; FedNewton's is in the thousands here."""
    result = feddcd.run("digits", l2=0.0, rounds=60, certify_every=60)
    objective = result.history["objective"]
    assert objective.max() < np.log(10)
    assert objective[-1] < 0.1


def test_the_command_says_it_before_the_first_round(tmp_path, capsys):
    options = "--data synthetic:n=60,d=5,groups=6 --clients 6 --tau 3 --model ridge --rounds 5"
    with pytest.raises(SystemExit, match="0"):
        main(["run", *options.split(), "--out", str(tmp_path / "run")])
    first, *rest = capsys.readouterr().out.splitlines()
    assert first.startswith("method: fedqn, because the model is convex")
    assert not any(line.startswith("method:") for line in rest)


def test_a_comparison_names_the_method_that_auto_is(tmp_path, capsys):
    options = "--data synthetic:n=60,d=5,groups=6 --clients 6 --tau 3 --model ridge --rounds 5"
    both = "--algorithm auto --algorithm pointsaga"
    folder = tmp_path / "race"
    with pytest.raises(SystemExit, match="0"):
        main(["compare", *options.split(), *both.split(), "--out", str(folder)])
    said = capsys.readouterr().out
    assert "auto (fedqn)" in said
    assert "method: fedqn, because the model is convex" in " ".join(said.split())
    for name in ("compare.csv", "compare.md", "compare.tex", "report.html"):
        assert "auto (fedqn)" in (folder / name).read_text("utf-8")
    again = feddcd.Comparison.load(folder)
    assert list(again) == ["auto", "pointsaga"]
    assert list(again.to_pandas()["algorithm"]) == ["auto (fedqn)", "pointsaga"]


def test_sites_agree_on_a_method_by_name():
    with pytest.raises(SpecError, match="needs the name of a method"):
        Config("test", Spec(algorithm="auto"))
