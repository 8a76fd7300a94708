"""The tables of the pages name every setting that a file may have, and no other."""

import ast
import dataclasses
import inspect
import re
from collections.abc import Iterable
from pathlib import Path

import pytest

import feddcd
from feddcd import solvers, tree
from feddcd.analysis import registry
from feddcd.analysis._describe_plan import DescribePlan
from feddcd.analysis.plan import RegressionPlan
from feddcd.data import codebook
from feddcd.federation import config, folder
from feddcd.federation.site.policy import Policy
from feddcd.race.problems import RaceProblem
from feddcd.runs import run

DOCS = Path(__file__).parent.parent / "docs"


def names(cls: type) -> set[str]:
    return {each.name for each in dataclasses.fields(cls)}


PARTS = {f"[{name}]" for name in registry.parts()}
OF_TRAINING = ({*config._OF_SPEC} - {"settings"}) | {"[settings]"}
OF_FEDERATION = names(config.Config) - {"spec", "plan"} | OF_TRAINING | PARTS
TABLES = {
    ("files.md", "## job.toml, part [glm]"): names(RegressionPlan),
    ("files.md", "## job.toml, part [describe]"): names(DescribePlan),
    ("files.md", "## site.toml"): {*folder.OF_SITE},
    ("files.md", "## federation.toml"): names(config.Config) - {"spec", "plan"}
    | OF_TRAINING
    | PARTS,
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


def _cells(heading: str) -> list[list[str]]:
    """The rows of the first table below a heading of the page on adding a method."""
    _, _, below = (DOCS / "adding.md").read_text().partition(f"\n{heading}\n")
    table = re.search(r"^\|[-|]+\n((?:\|.*\n)+)", below, re.MULTILINE)
    assert table, heading
    return [line.strip("| ").split(" | ") for line in table[1].splitlines()]


def _call(name: str, made: object) -> str:
    """As somebody writes it with all defaults."""
    given = inspect.signature(made).parameters.values()  # pyright: ignore
    word = lambda value: repr(value).replace("tol=None", "").replace("'", '"')
    return f"{name}({', '.join(f'{one.name}={word(one.default)}' for one in given)})"


def test_the_page_on_adding_has_the_defaults_of_every_solver():
    rows = [(name.strip("`"), call.strip("`")) for name, call in _cells("### Local solvers")]
    assert [name for name, _ in rows] == [*solvers.SOLVERS]
    for name, call in rows:
        made = solvers.SOLVERS[name].build
        assert call == _call(made.__name__, made)
        assert getattr(solvers, made.__name__) is made


def test_the_page_on_adding_has_functions_for_trees_as_they_are():
    calls = re.findall(r"`(\w+)\(([^`]*)\)`", str(_cells("### Functions for parameters")))
    assert len(calls) >= 11
    for name, arguments in calls:
        assert arguments == ", ".join(inspect.signature(getattr(tree, name)).parameters), name


def _strings(nodes: Iterable[ast.AST]) -> set[str]:
    words = {node.value for node in nodes if isinstance(node, ast.Constant)}
    return {word for word in words if isinstance(word, str)}


def _functions(path: Path, name: str) -> list[ast.FunctionDef]:
    nodes = ast.walk(ast.parse(path.read_text()))
    return [node for node in nodes if isinstance(node, ast.FunctionDef) and node.name == name]


def _chosen() -> set[str]:
    """The names of all numbers that a method of feddcd gives to the summary."""
    files = (DOCS.parent / "src" / "feddcd" / "algorithms").glob("*.py")
    found = [
        node for path in files for made in _functions(path, "chosen") for node in ast.walk(made)
    ]
    keys = [key for node in found if isinstance(node, ast.Dict) for key in node.keys if key]
    return _strings(keys)


def test_the_page_on_runs_has_every_field_of_a_summary():
    _, _, below = (DOCS / "runs.md").read_text().partition("\n### The fields of summary.json\n")
    text = below.partition("\n## ")[0]
    first = text.partition("\n\n|")[0]
    fields, chosen = re.findall(r"^\|[-|]+\n((?:\|.*\n)+)", text, re.MULTILINE)
    column = lambda table, k: " ".join(line.split(" | ")[k] for line in table.splitlines())
    named = lambda words: {*re.findall(r"`(\w+)`", words)}
    assert named(column(chosen, 1)) == _chosen() >= {"rho", "kappa", "far"}
    told = named(first) | named(column(fields, 0))
    (made,) = _functions(Path(run.__file__), "_summary")
    assert told <= _strings(ast.walk(made))
    summary = feddcd.run("wine", algorithm="mbsgd", clients=3, tau=2, rounds=1).summary
    assert {*summary} | {"why", "advice", "diverged", "unproven"} == told
