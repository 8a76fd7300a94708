"""What the README and the examples show works as it stands."""

import re
import runpy
from pathlib import Path

import pytest

from feddcd.algorithms import ALGORITHMS
from feddcd.data.federate import MODELS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


@pytest.fixture(autouse=True)
def _folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDDCD_CACHE", str(tmp_path / "cache"))


def test_the_first_example_runs_and_is_short(capsys):
    found = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert found
    code = found[1]
    assert len([line for line in code.splitlines() if line.strip()]) <= 12
    exec(compile(code, "README.md", "exec"), {"__name__": "readme"})
    shown = capsys.readouterr().out
    assert "lower_bound=" in shown
    assert "objective" in shown


@pytest.mark.parametrize("words", ["make demo", "make test", *ALGORITHMS])
def test_the_readme_names(words):
    assert words in README


@pytest.mark.parametrize("model", ["softmax", "logistic", "ridge", "poisson", "multilayer"])
def test_the_readme_names_the_models(model):
    assert model in README.lower()
    assert model == "multilayer" or model in MODELS


def test_links_in_the_readme_lead_somewhere():
    links = re.findall(r"\]\(([^)#]+)\)", README)
    missing = [link for link in links if "://" not in link and not (ROOT / link).exists()]
    assert missing == []


def test_targets_of_make_are_there():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^ +make ([a-z]+)\b", README, re.MULTILINE))
    assert targets >= {"demo", "test"}
    for target in targets:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("example", sorted((ROOT / "examples").glob("*.py")), ids=lambda p: p.name)
def test_examples_run(example, capsys):
    runpy.run_path(str(example), run_name="__main__")
    assert capsys.readouterr().out.strip()
