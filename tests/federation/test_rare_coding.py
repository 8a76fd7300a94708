"""A rare disease at one site, under each coding of the table in docs/security.md."""

import re

import numpy as np
import pandas as pd
import pytest

from docs_blocks import DOCS
from feddcd.analysis._describe_plan import DescribePlan
from feddcd.analysis.plan import RegressionPlan
from feddcd.federation.config import Config
from feddcd.federation.folder import load_places
from feddcd.federation.machine.init import create
from feddcd.federation.site.certain import certain_refusals

SITES = ("east", "north", "south")
WORD, TWO, THREE, MANY = [["a", "b"], "rare"], [[0], 1], [[0, 1], 2], [range(30), 30]


def patients(coding, few, dead, seed):
    """`few` patients have the rare value, and `dead` of them died."""
    draw, n, (common, rare) = np.random.default_rng(seed), 400, coding
    d = pd.DataFrame({"age": draw.normal(60, 9, n).round(1), "death": draw.random(n) < 0.4})
    d["x"] = [rare] * few + [common[i % len(common)] for i in range(n - few)]
    d.loc[: few - 1, "death"] = np.arange(few) < dead
    return d.astype({"death": int})


def refused(folder, coding, few, dead, plan):
    """The rule with which each site refuses, and why; only north has few rows of the rare value."""
    data = {name: patients(coding, 60, 30, i) for i, name in enumerate(SITES)}
    data["north"] = patients(coding, few, dead, 9)
    home = create(folder / "fed", list(SITES), Config("t", plan=plan), data=data, careful=True)
    found = certain_refusals(load_places(home), plan)
    return {site: (re.search(r"rule '(\w+)'", why)[1], why) for site, why in found.items()}


@pytest.mark.parametrize(
    ("coding", "few", "dead", "rule"),
    [
        (WORD, 3, 1, "min_per_level"),
        (WORD, 7, 7, "dominance"),
        (WORD, 60, 3, "cells"),
        (WORD, 60, 7, "dominance"),
        (WORD, 60, 30, ""),
        (TWO, 3, 1, "support"),
        (TWO, 7, 7, "dominance"),
        (TWO, 60, 3, "cells"),
        (THREE, 3, 1, "joint_cells"),
        (MANY, 3, 1, ""),
    ],
)
def test_whether_a_site_refuses_depends_on_the_coding(tmp_path, coding, few, dead, rule):
    plan = RegressionPlan("death ~ age + x", "binomial")
    found = refused(tmp_path, coding, few, dead, plan)
    assert {site: each[0] for site, each in found.items()} == ({"north": rule} if rule else {})


@pytest.mark.parametrize(
    ("coding", "few", "rule"),
    [(WORD, 3, "min_per_level"), (WORD, 5, ""), (TWO, 3, "support"), (TWO, 7, "dominance"),
     (TWO, 12, ""), (THREE, 3, ""), (MANY, 3, "")],
)  # fmt: skip
def test_whether_a_site_refuses_table_1_depends_on_the_coding(tmp_path, coding, few, rule):
    found = refused(tmp_path, coding, few, 1, DescribePlan(["age", "x"]))
    assert {site: each[0] for site, each in found.items()} == ({"north": rule} if rule else {})


@pytest.mark.parametrize(("levels", "rule"), [(2, "dominance"), (3, "alike"), (4, "")])
def test_a_reference_level_of_few_rows_is_refused_in_a_category_of_few_levels(
    tmp_path, levels, rule
):
    plan = RegressionPlan("age ~ C(x, Treatment(reference='rare'))", "gaussian")
    found = refused(tmp_path, (list("abc")[: levels - 1], "rare"), 7, 3, plan)
    assert {site: each[0] for site, each in found.items()} == ({"north": rule} if rule else {})
    if rule == "alike":  # two columns that differ in 7 rows
        assert "fewer than 5 rows cause most of the difference between" in found["north"][1]


def test_the_page_says_so():
    section = (DOCS / "security.md").read_text().partition("## Small groups and rare values")[2]
    lines = section.partition("\n\n## ")[0].splitlines()
    category, few_values, many_values = [line for line in lines if line.startswith("|")][2:5]
    assert "a number with two values" in category
    assert "1 to 4 patients have a level, alone or together with an outcome or another" in category
    assert "another level: **refused**. 5 to 7 patients: alone **refused**" in category
    assert "alone **refused** (but not the reference level of four" in category
    assert "patients of the site have a level (a number: 1 to 7): **refused**" in category
    assert "3 to 16 different values" in few_values
    assert "**only a warning**" in many_values
