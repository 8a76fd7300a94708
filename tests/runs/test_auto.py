"""The method of a run where none is named."""

import json

import pytest

import feddcd
from feddcd._errors import SpecError
from feddcd.federation.config import Config
from feddcd.runs.auto import choose_method
from feddcd.runs.spec import Spec

ANY = {"convex": True, "l2": 1e-3, "size": 50, "N": 20, "tau": 6}


def test_rules_by_the_problem():
    assert choose_method(**ANY).algorithm == "fedqn"
    assert choose_method(**ANY | {"convex": False}).algorithm == "feddcd"
    assert choose_method(**ANY | {"l2": 0.0}).algorithm == "fednewton"
    assert choose_method(**ANY | {"l2": 0.0, "size": 10**6, "tau": 20}).algorithm == "fedlbfgs"
    assert "fewest bytes" in choose_method(**ANY).why
    assert "50 parameters, 6 of 20 clients" in choose_method(**ANY).why


@pytest.mark.parametrize(
    ("l2", "name", "why"),
    [
        (0.0, "fednewton", choose_method(convex=True, l2=0.0, size=5, N=6, tau=3).why),
        pytest.param(0.1, "fedqn", "fewest bytes", marks=pytest.mark.chaos),
    ],
)
def test_a_run_says_which_method_it_took_and_why(l2, name, why, tmp_path):
    sites = {"clients": 6, "tau": 3, "l2": l2, "model": "ridge"}
    result = feddcd.run("synthetic:n=60,d=5,groups=6", rounds=5, out=tmp_path / "run", **sites)
    assert result.spec.algorithm == name
    said = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert said["algorithm"] == name
    assert why in said["why"]
    assert feddcd.Result.load(tmp_path / "run").spec.algorithm == name


def test_sites_agree_on_a_method_by_name():
    with pytest.raises(SpecError, match="needs the name of a method"):
        Config("test", Spec(algorithm="auto"))
