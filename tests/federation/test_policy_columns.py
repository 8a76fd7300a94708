"""The columns that a policy names: who reads which one was refused, and names that no file has."""

import pandas as pd
import pytest
import tomli_w

from feddcd import _files as files
from feddcd._errors import DataError
from feddcd.algorithms import catalogue
from feddcd.analysis.plan import RegressionPlan
from feddcd.analysis.registry import ANALYSES
from feddcd.cli import _serving, _simulate
from feddcd.cli._simulate import Trial, simulate_command
from feddcd.cli._site import entries_of
from feddcd.cli._status import status_of
from feddcd.federation.config import Config
from feddcd.federation.coordinator import _tables as tables
from feddcd.federation.machine.init import create
from feddcd.federation.site import _methods
from feddcd.federation.site._roles import check_named
from feddcd.federation.site.log import read_log
from feddcd.federation.site.log_words import reason_of
from feddcd.federation.site.policy import Policy

SITES = ("east", "north", "south")
ROWS = {"age": [float(20 + i % 40) for i in range(120)], "crp": [i % 9 + 0.5 for i in range(120)]}
PLAN = RegressionPlan("y ~ age + crp", "gaussian")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "PAUSE_S", 0.01)
    monkeypatch.setattr(files, "_flush", lambda handle: None)
    monkeypatch.setattr(_simulate, "say", lambda *args, **how: None)
    d = pd.DataFrame(ROWS | {"y": [float(i % 7) for i in range(120)]})
    config = Config("t", plan=PLAN, patience=0.05)
    return create(tmp_path / "fed", list(SITES), config, data=dict.fromkeys(SITES, d))


def policy(home, site, **settings):
    path = home.site(site) / "policy.toml"
    loose = {"approve": "none", "min_support": 0, "constants": "any", "max_exchanges": 0}
    path.write_text(tomli_w.dumps(loose | settings | {"complete": True}))


def refused(home):
    with pytest.raises(DataError) as found:
        simulate_command(home.path, Trial())
    return str(found.value)


def test_all_who_know_the_column_read_which_one_a_policy_does_not_allow(home):
    policy(home, "east", columns=["age", "y"])
    told = refused(home)
    assert "east: its policy does not allow the column 'crp' (columns in policy.toml)" in told
    assert "--mode each" not in told, "the people at east decide"
    (line,) = [entry for entry in read_log(home.site("east")) if "refused" in entry]
    assert "'crp'" in reason_of(line)
    assert entries_of(read_log(home.site("east")), line["of_question"]) == [line]
    held = status_of(home.site("east"))
    assert "the column 'crp'" in held["last_refusal"]


def test_a_policy_is_a_decision_and_nothing_that_is_broken(home):
    from feddcd.federation._next_step import next_step
    from feddcd.federation.status import study_status

    policy(home, "east", columns=["age", "y"])
    refused(home)
    home.note("failed", reason="there is no table")
    study = study_status(home)
    held = {"sites": [{"site": "east", "state": "x"}], "studies": [study], "open": 0}
    told = next_step(home, held)
    assert study["broken"] == {}
    assert "Nothing is broken at east: the people there decide which columns may be used" in told
    assert "to mend" not in told
    assert "approve SITE_DIR" not in told, "an approval changes no policy"


def test_a_column_that_only_the_dot_of_a_formula_means_stays_at_the_site():
    analysis, names = ANALYSES["regression"], ["age", "crp", "y", "zip"]
    rules = Policy(columns=("age", "y"))
    check_named(rules, RegressionPlan("y ~ age", "gaussian"), analysis, names)
    for formula, told, own in (
        ("y ~ .", "a column (columns", "the columns 'crp', 'zip'"),
        ("y ~ . + crp", "the column 'crp' (columns", "the columns 'crp', 'zip'"),
    ):
        with pytest.raises(Exception, match="its policy does not allow") as found:
            check_named(rules, RegressionPlan(formula, "gaussian"), analysis, names)
        assert told in str(found.value)
        assert "zip" not in str(found.value)
        assert own in str(found.value.__cause__)


def test_a_name_that_no_column_has_is_warned_of(home, monkeypatch):
    """A ban of CRP does not hold for crp."""
    policy(home, "east", identifiers=["CRP", "mrn"], columns=["age", "Y", "crp"])
    at = home.site("east")
    data = next(at.glob("data.*"))
    the, no = "the setting", "has no such column"
    names = "in policy.toml names the column"
    expected = [
        f"{the} 'identifiers' {names} 'CRP', but {data} {no}; did you mean 'crp'?",
        f"{the} 'identifiers' {names} 'mrn', but {data} {no}",
        f"{the} 'columns' {names} 'Y', but {data} {no}; did you mean 'y'?",
    ]
    shown = lambda: [w["what"] for w in status_of(at)["warnings"] if "names" in w["what"]]
    assert shown() == expected
    said = []
    monkeypatch.setattr(_serving, "say", said.append)
    _serving.show_troubles(at, _serving.Watched())
    assert [line for line in said if expected[0] in line]
    (at / "codebook.toml").write_text('[columns.mrn]\ntype = "identifier"\n')
    assert [told for told in shown() if "mrn" in told] == []


def test_a_typo_in_a_policy_is_told_with_the_nearest_name_alone(home):
    policy(home, "east", identifer=["crp"])
    told = status_of(home.site("east"))["problems"][0]["what"]
    assert told.endswith("unknown setting 'identifer'; did you mean 'identifiers'?")


def test_a_method_that_nobody_knows_is_warned_of_where_nothing_can_be_trained(home, monkeypatch):
    """There, a package may be missing that has this method. Elsewhere the policy is refused."""
    policy(home, "east", methods=["newtn", "describe", "feddcd", "fedavgg", "ours"])
    at = home.site("east")
    told = status_of(at)["problems"][0]["what"]
    assert "methods has the unknown name 'newtn'; did you mean 'newton'?" in told
    monkeypatch.setattr(_methods, "_catalogue", lambda: None)  # without JAX
    held = status_of(at)
    no = "but feddcd has no such method"
    assert held["problems"] == []
    assert [w["what"] for w in held["warnings"] if "the setting 'methods'" in w["what"]] == [
        f"the setting 'methods' in policy.toml has 'newtn', {no}; did you mean 'newton'?",
        f"the setting 'methods' in policy.toml has 'fedavgg', {no}; did you mean 'fedavg'?",
        f"the setting 'methods' in policy.toml has 'ours', {no}",
    ]
    policy(home, "east", methods=["newton"])
    assert not [w for w in status_of(at)["warnings"] if "methods" in w["what"]]


def test_a_site_without_jax_knows_the_names_of_all_methods():
    assert sorted(_methods.TRAININGS) == sorted(catalogue.ALGORITHMS)
    assert catalogue.GROUP == _methods.GROUP
