"""The tables of the pages name every setting that a file may have, and no other."""

import dataclasses
import re
from pathlib import Path

import pytest

from feddcd.analysis import registry
from feddcd.analysis._describe_plan import DescribePlan
from feddcd.analysis.plan import RegressionPlan
from feddcd.data import codebook
from feddcd.federation import config, folder
from feddcd.federation.site.policy import Policy
from feddcd.race.problems import RaceProblem

DOCS = Path(__file__).parent.parent / "docs"


def names(cls: type) -> set[str]:
    return {each.name for each in dataclasses.fields(cls)}


PARTS = {f"[{name}]" for name in registry.parts()}
OF_TRAINING = ({*config._OF_SPEC} - {"settings"}) | {"[settings]"}
TABLES = {
    ("files.md", "## job.toml, part [glm]"): names(RegressionPlan),
    ("files.md", "## job.toml, part [describe]"): names(DescribePlan),
    ("files.md", "## site.toml"): {*folder.OF_SITE},
    ("deploy.md", "## The folder"): names(config.Config) - {"spec", "plan"} | OF_TRAINING | PARTS,
    ("rules.md", "## Careful unless written otherwise"): names(Policy) | {"complete"},
    ("data.md", "## The codebook"): {*codebook.SETTINGS},
    ("race.md", "## Add a problem"): names(RaceProblem),
}


def told(page: str, heading: str) -> set[str]:
    """The names in the first column of the first table of settings below a heading."""
    _, found, below = (DOCS / page).read_text().partition(f"\n{heading}\n")
    assert found, f"{page} has no heading {heading!r}"
    table = re.search(r"^\| (?:setting|`federation\.toml`).*\n\|[-|]+\n((?:\|.*\n)+)", below, re.M)
    assert table
    first = [line.split(" | ")[0] for line in table[1].splitlines()]
    return {name for cell in first for name in re.findall(r"`([^`]+)`", cell)}


@pytest.mark.parametrize(("page", "heading"), TABLES)
def test_a_page_names_every_setting_of_a_file(page, heading):
    assert told(page, heading) == TABLES[page, heading]


def test_the_page_of_files_names_every_file():
    listed = re.findall(r"^\| `([a-z]+\.toml)` \|", (DOCS / "files.md").read_text(), re.M)
    source = "".join(path.read_text() for path in (DOCS.parent / "src").rglob("*.py"))
    assert {*listed} == {*re.findall(r'"([a-z]+\.toml)"', source)} - {"pyproject.toml"}
