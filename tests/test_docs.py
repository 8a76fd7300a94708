"""The documentation: its code runs, its links lead somewhere, and the site can be built."""

import importlib.util
import os
import re
import shlex
import subprocess
import sys

import click
import pytest
import typer

from docs_blocks import DOCS, LEFT_OUT, ROOT, alike, blocks, missing, run_page, runs
from feddcd.cli.app import app
from feddcd.federation.site.disclosure import REVEALS
from feddcd.federation.site.policy import RULES, methods

PAGES = sorted(DOCS.glob("*.md"))
READABLE = [*PAGES, ROOT / "README.md"]
SHOWN = [block for page in READABLE for block in blocks(page)]
RUNNABLE = [page for page in PAGES if any(map(runs, blocks(page)))]
PROCESSES = "starts a SuperLink and a SuperNode per site; tests/test_flower.py does that"
FILES = "needs files that have to be fetched, and minutes; tests/test_paper*.py run the like"
# pages with commands that are not run, and why
NOT_RUN = {
    "README.md": "tests/test_readme.py runs its Python; the commands need files or processes",
    "adding.md": "tests/test_plugin.py installs its package and runs its commands",
    "benchmarks.md": "measures speed, for minutes to hours",
    "choosing.md": "measures on files that have to be fetched",
    "deploy.md": "administrators' commands, with the names of their machines",
    "paper.md": FILES,
    "runs.md": "lists what may be written, with placeholders",
    "tutorial.md": PROCESSES,
}


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.stem)
def test_the_code_of_a_page_runs(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDDCD_CACHE", str(tmp_path / "cache"))
    if "statsmodels" in page.read_text():
        pytest.importorskip("statsmodels")
    run_page(page, tmp_path)


def test_only_known_pages_have_code_that_does_not_run():
    code = [b for b in SHOWN if b.language in ("python", "bash", "console", "sh", "shell", "")]
    assert {block.page.name for block in code if not runs(block)} == set(NOT_RUN)
    titled = [block for block in code if block.title.startswith(LEFT_OUT)]
    assert [block.page.name for block in titled] == ["choosing.md", "tutorial.md"]


def test_the_pages_to_begin_with_have_code_that_runs():
    names = {page.stem for page in RUNNABLE}
    assert {"quickstart", "tutorial", "choosing", "comparison", "glm", "estimators"} <= names


COMMANDS = [
    pytest.param(line.strip(), id=f"{block.page.stem}-{block.line}-{i}")
    for block in SHOWN
    if block.language in ("", "bash")
    for i, line in enumerate(block.code.replace("\\\n", " ").splitlines())
    if line.strip().startswith("feddcd ")
]


@pytest.mark.parametrize("line", COMMANDS)
def test_commands_that_are_shown_exist(line):
    words = shlex.split(re.split(r"\s{3,}|[|>]", line)[0], comments=True)[1:]
    command = typer.main.get_command(app)
    while isinstance(command, click.Group):
        assert words[0] in command.commands, line
        command = command.commands[words.pop(0)]
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    assert {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)} <= known


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    inside = re.findall(r"[\w-]+\.md", nav)
    assert sorted(inside) == [page.name for page in PAGES]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    text = re.sub(r"`[^`]*`", "", page.read_text())
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        name, _, heading = link.partition("#")
        target = DOCS / name if name else page
        assert target.exists(), link
        titles = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE) if heading else []
        assert not heading or heading in map(slug, titles), link


def slug(title: str) -> str:
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


@pytest.mark.parametrize("name", [*methods(), *REVEALS, *RULES, "ask_before_sending"])
def test_the_page_on_what_is_revealed_names(name):
    assert f"`{name}`" in (DOCS / "reveals.md").read_text()


def test_the_site_builds(tmp_path):
    for library in ("mkdocs", "material", "mkdocstrings"):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed: pip install 'feddcd[docs]'")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert {page.stem for page in PAGES} <= {path.stem for path in (tmp_path / "site").iterdir()}
    reference = (tmp_path / "site" / "api.html").read_text()
    for name in ("FederatedGLM", "FederatedLogisticRegression", "feddcd.run", "feddcd.compare"):
        assert name in reference
    assert "fonts.googleapis" not in reference


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("age  0.0451  8.66", "age 0.04512 8.663", True),
        ("age  0.0451  8.66", "age 0.0461 8.663", False),
        ("12 sites", "11 sites", False),
        ("age 0.1", "bmi 0.1", False),
        ("Proven: 7.1e-04", "Proven: 7.12e-04", True),
    ],
)
def test_output_is_compared_loosely_but_compared(one, other, same):
    assert alike(one, other) is same
    assert missing(one, f"first\n{other}\nlast") == ([] if same else [one])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("```bash\nfalse\ntrue\n```\n", "line 1: exit code 1"),
        ("```bash\necho\nfeddcd list nothing\n```\n", "line 1: exit code 2\nerror: "),
        ("```bash\nfeddcd list $(echo solvers)\n```\n\n```text\nlbfgss\n```\n", "shows\nlbfgss"),
        ("\n```bash\necho 12\n```\n\n```text\n13\n```\n", "line 2: shows\n13"),
        ("```python\nprint(0.5)\n```\n\n```text\n0.6\n```\n", "line 1: shows\n0.6"),
    ],
)
def test_a_page_that_is_wrong_is_found(text, reason, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(text)
    with pytest.raises(AssertionError, match=reason):
        run_page(page, tmp_path)
