"""How many hospitals of the tutorial refuse under which rules, as two pages say."""

import re
from collections import Counter

import pytest

from docs_blocks import DOCS, blocks
from feddcd.analysis.plan import RegressionPlan
from feddcd.federation.config import Config
from feddcd.federation.folder import load_places
from feddcd.federation.machine.init import create
from feddcd.federation.site.certain import certain_refusals

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
