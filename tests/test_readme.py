"""What the README says is so; test_docs.py and test_smoke.py run its code and commands."""

import re
from pathlib import Path

import pytest

from feddcd.algorithms import ALGORITHMS
from feddcd.data.federate import MODELS

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def test_the_first_example_is_short():
    found = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert found
    assert len([line for line in found[1].splitlines() if line.strip()]) <= 12


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


def test_every_example_is_run():
    """By tests/test_docs.py."""
    assert [path.name for path in (ROOT / "examples").glob("*.py")] == ["quickstart.py"]
