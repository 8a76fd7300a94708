"""What the README says is so; test_docs.py and test_smoke.py run its code and commands."""

import email
import re
import subprocess
import sys
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

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


SETUP = """
import io, sys
import setuptools
from distutils.core import run_setup
written = io.StringIO()
run_setup("setup.py", stop_after="config").metadata.write_pkg_file(written)
sys.stdout.buffer.write(written.getvalue().encode())
"""


@pytest.fixture(scope="module")
def on_the_index():
    """The metadata of a built package, as an index reads them; nothing is written."""
    done = subprocess.run([sys.executable, "-c", SETUP], cwd=ROOT, capture_output=True, check=True)
    return email.message_from_string(done.stdout.decode())


def test_a_package_index_shows_no_link_or_picture_that_it_lacks(on_the_index):
    assert on_the_index["Description-Content-Type"] == "text/markdown"
    text = on_the_index.get_payload()
    page = MarkdownIt("commonmark", {"html": True}).enable(["table"]).render(text)
    places = re.findall(r'(?:href|src|srcset)\s*=\s*["\']?([^"\'\s>]*)', page)
    assert all(place.startswith(("https://", "http://", "mailto:")) for place in places), places
    assert not re.search(r"<(picture|img|source)|\]\(", page)


def test_a_package_index_shows_the_rest_of_the_readme(on_the_index):
    text = on_the_index.get_payload()
    assert text.splitlines()[0] == README.splitlines()[0]
    code = r"^```.*?^```$|^ {4}\S.*?$"
    found = [re.findall(code, each, re.MULTILINE | re.DOTALL) for each in (README, text)]
    assert found[0] == found[1] != []
    assert "The security model says whom you have to trust" in text
    assert re.search(r"^Picture `docs/race.png`: The methods race .*\.$", text, re.MULTILINE)
    assert re.search(r"^ *Picture `docs/report-light.png`: The report .*\.$", text, re.MULTILINE)
    assert "Running a federation · where to install" in text
    assert "can reveal the\n  sums of this site" in text  # a link on two lines
