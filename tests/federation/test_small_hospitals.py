"""How many hospitals of the tutorial refuse under which rules, as two pages say; and a small one
that a person may approve, although the trial of its own rows was refused."""

import json
import re
from collections import Counter

import pytest

from docs_blocks import DOCS, blocks
from feddcd.analysis.plan import RegressionPlan
from feddcd.federation.config import Config
from feddcd.federation.coordinator import _tables as tables
from feddcd.federation.coordinator.coordinator import coordinate
from feddcd.federation.coordinator.nodes import LocalExchange
from feddcd.federation.folder import load_places
from feddcd.federation.machine.init import create
from feddcd.federation.site import _foreseen, approval
from feddcd.federation.site._asker import VERDICT
from feddcd.federation.site.certain import certain_refusals
from feddcd.federation.site.log import read_log

RULES, TUTORIAL = (
    " ".join((DOCS / page).read_text().split()) for page in ("rules.md", "tutorial.md")
)
OF_ALL = "readmitted ~ age + C(sex) + C(stage) + bmi"
OF_LEVELS = "readmitted ~ C(sex) + C(stage)"
CAREFUL = "7 of 12: 4 because of rule 3, 3 because of rule 4"
WITHOUT_AGE = "8 of 12: the same 7, and one because of rule 19"
SUM = 'small_cells = "sum"\n'


@pytest.fixture(scope="module")
def hospitals(tmp_path_factory):
    invented = next(b for b in blocks(DOCS / "tutorial.md") if b.language == "python").code
    made = {}
    exec(re.sub(r"data\.to_csv.*", "", invented), made)
    return {name: d.drop(columns="hospital") for name, d in made["data"].groupby("hospital")}


@pytest.mark.parametrize(
    ("formula", "policy", "counted", "told"),
    [
        (OF_ALL, "", {"dominance": 4, "cells": 3}, CAREFUL),
        (OF_LEVELS, "", {"dominance": 4, "cells": 3, "joint_cells": 1}, WITHOUT_AGE),
        (OF_ALL, SUM, {"dominance": 1}, "the smallest: "),
        (OF_LEVELS, SUM, {"dominance": 1}, "the smallest: "),
        (OF_ALL, SUM + "max_share = 0.8\n", {}, "none"),
        (OF_LEVELS, SUM + "max_share = 0.8\n", {}, "none"),
    ],
)  # fmt: skip
def test_the_pages_say_how_many_hospitals_refuse(
    hospitals, tmp_path, formula, policy, counted, told
):
    plan = RegressionPlan(family="binomial", formula=formula)
    home = create(
        tmp_path / "fed", list(hospitals), Config("t", plan=plan), data=hospitals, careful=True
    )
    for name in hospitals if policy else ():
        (home.site(name) / "policy.toml").write_text(f"{policy}complete = true\n")
    refused = certain_refusals(load_places(home), plan)
    assert Counter(re.search(r"rule '(\w+)'", why)[1] for why in refused.values()) == counted
    assert f"| {told}" in RULES
    if policy == "" and formula == OF_ALL:
        assert "with the model of this page, 7 of 12 hospitals refuse" in TUTORIAL


def test_a_job_that_was_refused_in_the_trial_of_a_site_can_get_all_answers(
    hospitals, tmp_path, monkeypatch
):
    """From question 2 on, the real job asks at other coefficients than the trial. Only at the site
    of the tutorial that says so, somebody decides here."""
    monkeypatch.setattr(tables, "PAUSE_S", 0.01)
    monkeypatch.setattr(approval, "FIRST_S", 0.001)
    plan = RegressionPlan(family="binomial", formula=OF_ALL)
    config = Config("t", plan=plan)
    home = create(tmp_path / "fed", list(hospitals), config, data=hospitals, careful=True)
    for name in hospitals:
        who = "job" if name == "h05" else "none"
        text = f'{SUM}max_share = 0.8\napprove = "{who}"\ncomplete = true\n'
        (home.site(name) / "policy.toml").write_text(text)
    small, read = home.site("h05"), []

    def person(_):
        for id in approval.waiting(small):
            read.append("\n".join(approval.words_of(small, id)))
            approval.approve(small, id)

    coordinate(LocalExchange(load_places(home)), {"folder": str(home.path)}, person)
    names, job = read
    assert "asks for names and levels" in names
    assert VERDICT not in job
    assert "In this trial, the rules refused question 2. The reason is the rule 'steep'" in job
    assert job.endswith(_foreseen.RISK.replace("\n", "\n    "))
    table = json.loads((home.results / "glm" / "model.json").read_text())
    assert table["sites"] == len(hospitals) == 12
    assert not any("refused" in line for line in read_log(small))


class Read(Exception):
    """The person has read what waits."""


def test_the_tutorial_shows_what_waits_at_h02(hospitals, tmp_path, monkeypatch):
    """The name of the outcome is not among the names that leave."""
    monkeypatch.setattr(approval, "FIRST_S", 0.001)
    config = Config("t", plan=RegressionPlan(family="binomial", formula=OF_ALL))
    home = create(tmp_path / "fed", list(hospitals), config, data=hospitals)
    asks = home.site("h02")
    policy = asks / "policy.toml"
    policy.write_text(policy.read_text().replace('approve = "none"', 'approve = "answer"'))

    def person(_):
        for id in approval.waiting(asks):
            raise Read("\n".join(approval.words_of(asks, id)))

    with pytest.raises(Read) as read:
        coordinate(LocalExchange(load_places(home)), {"folder": str(home.path)}, person)
    shown = re.findall(r'^  "(.*)",$', (DOCS / "tutorial.md").read_text(), re.MULTILINE)
    assert any(line.startswith("  columns: ") for line in shown)
    assert [line for line in shown if line not in str(read.value).splitlines()] == []
