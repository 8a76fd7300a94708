"""The documentation: its code runs, its links lead somewhere, and the site can be built."""

import importlib.util
import os
import pkgutil
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from dataclasses import fields

import click
import pytest
import typer

import apart
import feddcd
from docs_blocks import (
    DOCS,
    ROOT,
    alike,
    blocks,
    missing,
    printed,
    run_line,
    run_page,
    run_python,
    runs,
    write_patients,
)
from feddcd.cli.app import app
from feddcd.federation.enrolment import site
from feddcd.federation.enrolment.desk import Desk
from feddcd.federation.folder import FederationFolder
from feddcd.federation.site._disclosure import REVEALS
from feddcd.federation.site._one_answer import OF_VALUES
from feddcd.federation.site.policy import Policy, methods
from slices import sliced

PAGES = sorted(DOCS.glob("*.md"))
MADE = ("cli.md", "changelog.md")  # by tools/site_pages.py, when the site is built
READABLE = [*PAGES, ROOT / "README.md"]
SHOWN = [block for page in READABLE for block in blocks(page)]
RUNNABLE = [page for page in PAGES if any(map(runs, blocks(page)))]
PRINTED = {page.name: printed(page) for page in READABLE}
HERE = {  # the commands of a page that run below, in this order
    "README.md": ("feddcd run ", "feddcd compare ", "feddcd race ", "feddcd reproduce "),
    "deploy.md": (
        "feddcd federation init fed --host ",
        "feddcd federation invite ",
        "feddcd federation enrol ",
        "feddcd federation confirm ",
        "feddcd federation status ",
        "feddcd federation study ",
        "feddcd federation certify ",
        "feddcd federation retire ",
        "feddcd federation expel ",
        "feddcd federation init fed --site north",
        "feddcd federation join ",
    ),
    "paper.md": ("feddcd theory",),
    "install.md": ("feddcd --",),
    "rules.md": (
        "feddcd federation approve SITE_DIR",
        "feddcd federation pause ",
        "feddcd federation outgoing ",
        "feddcd federation withdraw ",
        "feddcd federation deny ",
    ),
}
ELSEWHERE = {  # and those that other tests run, as they stand
    "README.md": {
        "test_smoke.py": (
            "feddcd describe ",
            "feddcd glm ",
            "feddcd federation init fed --job ",
            "feddcd federation simulate ",
            "feddcd federation verify ",
        ),
        "test_flower.py": ("feddcd federation init fed --sites 4", "feddcd federation up fed"),
    },
    "index.md": {"test_smoke.py": ("feddcd ",)},  # these are lines of the README
    "adding.md": {
        "test_plugin.py": ("pip install .", "feddcd list", "feddcd run", "feddcd compare"),
        "test_race.py": ("feddcd race --problem wine-iid-2 ",),
    },
    "deploy.md": {
        "test_flower.py": (
            "feddcd federation init fed --sites 4",
            "feddcd federation up fed",
            "feddcd federation inspect ",
            "feddcd federation verify ",
        ),
    },
    **{page: {"test_pages.py": starts} for page, starts in apart.COMMANDS.items()},
}
INDEX = "asks the package index"
HOURS = "takes hours; tests/test_paper*.py run the like"
HOURS_RACE = "races for hours; tests/race run the like"
NETWORK = "asks the publishers of data; tests/data/test_fetch.py asks a server of its own"
SERVES = "serves until it is stopped; benchmarks/enrol.py, which make chaos plays, starts it"
FILES = "needs files that have to be fetched, and measures for minutes"
MANY = "starts programs for 11 sites; the page simulates it, and test_flower.py runs some sites"
PERSONS = "waits for people at 12 sites; test_small_hospitals.py approves the same job"
NOT_RUN = {  # what is printed and not run, and why
    "index.md": {"pip install feddcd": INDEX},
    "README.md": {
        "make demo": f"takes a minute and {INDEX}",
        "make test": "runs this",
        "pip install feddcd": INDEX,
        "pip install 'feddcd[flower,train]'": INDEX,
        "pip install 'feddcd[train]'": INDEX,
    },
    "benchmarks.md": {
        "python benchmarks/paper.py --variant authors --seeds 10 --out DIR": HOURS,
        "feddcd reproduce all --variant authors --seeds 10 --out DIR": HOURS,
    },
    "choosing.md": {"FEDDCD_DATA=folder-of-a9a-and-phishing python benchmarks/choosing.py": FILES},
    "deploy.md": {
        "pip install 'feddcd[flower]'": INDEX,
        "pip install 'feddcd[flower,train]'": INDEX,
        "feddcd federation serve fed": SERVES,
        "feddcd federation site north": SERVES,
    },
    "install.md": {
        "pip install 'feddcd[flower]'": INDEX,
        "pip install --no-deps --require-hashes -r requirements-site.lock": INDEX,
        "pip install --no-deps --no-build-isolation .": INDEX,
        "pip download 'feddcd[flower]' -d wheelhouse": INDEX,
        "pip install --no-index --find-links wheelhouse 'feddcd[flower]'": INDEX,
    },
    "paper.md": {
        "feddcd theory --out theory": "takes a minute; test_theory.py draws smaller figures",
        "feddcd data fetch mnist": NETWORK,
        "feddcd data fetch rcv1": NETWORK,
        "feddcd reproduce all": HOURS,
        "feddcd reproduce table2 --problem digits-softmax --seeds 10": "takes minutes",
        "feddcd reproduce all --variant authors --seeds 10": HOURS,
        "feddcd reproduce all --variant authors --seeds 10 --out DIR": HOURS,
    },
    "race.md": {
        "feddcd race --bits 8 --seeds 3 --behind 2.5 --tune --jobs 15": HOURS_RACE,
        "feddcd race --bits 8 --seeds 3 --behind 2.5 --jobs 2": HOURS_RACE,
        "feddcd race --bits 64 --seeds 3 --behind 2.5 --jobs 14": HOURS_RACE,
        "python benchmarks/fresh.py": "races for half an hour; tests/race run the like",
        "python benchmarks/unpenalised.py": "measures for twenty minutes",
    },
    "relatives.md": {"python benchmarks/relatives.py": "measures for minutes"},
    "tutorial.md": {
        "feddcd federation up fed": MANY,
        "feddcd federation init fed2 --careful --job plan/job.toml --data patients.csv "
        "--group hospital": PERSONS,
        "feddcd federation simulate fed2": PERSONS,
        "feddcd federation approve ${file%/outgoing/*} $(basename $file .json)": PERSONS,
    },
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Its name has a space, as many have."""
    made = tmp_path / "a folder"
    made.mkdir()
    monkeypatch.chdir(made)
    return made


def test_every_printed_command_is_run_or_has_a_reason():
    for page, lines in PRINTED.items():
        left_out = set(NOT_RUN.get(page, {}))
        assert left_out <= set(lines), page
        starts = HERE.get(page, ()) + sum(ELSEWHERE.get(page, {}).values(), ())
        run = {line for line in lines if line.startswith(starts)} - left_out
        assert set(lines) == run | left_out, page
        assert all(any(line.startswith(start) for line in lines) for start in starts), page


def test_the_home_page_has_the_code_of_the_readme():
    readme, home = ROOT / "README.md", DOCS / "index.md"
    assert set(printed(home)) < set(printed(readme))
    first = lambda page: next(b.code for b in blocks(page) if b.language == "python")
    assert first(home) == first(readme)


def commands(page: str) -> list[str]:
    lines = [line for line in PRINTED[page] if line.startswith(HERE[page])]
    return [line for line in lines if line not in NOT_RUN.get(page, ())]


FEW = " --rounds 2"


@pytest.mark.parametrize("more", sliced([FEW, ""], {FEW}))
def test_the_commands_of_the_readme_run(more, folder, request):
    """With few rounds here, and without the race and the reproduction, which take a minute."""
    if more:
        request.getfixturevalue("words_only")
    lines = commands("README.md")
    assert len(lines) == 5
    for line in lines[:3] if more else lines:
        run_line(ROOT / "README.md", line + more, folder)
    for made in ("digits", "race"):
        assert (folder / "runs" / made / "report.html").exists()


def test_the_commands_on_members_run(folder):
    """`retire` and `expel` need a federation that has begun: one with the sites of the page."""
    run = lambda line: run_line(DOCS / "deploy.md", line, folder)
    *leave, init, join = commands("deploy.md")[-4:]
    run(init)
    run(join)
    sites = [path.name for path in (folder / "fed" / "sites").iterdir()]
    assert sorted(sites) == ["east", "north", "south", "west"]
    write_patients(folder, sites)
    shutil.rmtree(folder / "fed")
    begin = ELSEWHERE["README.md"]["test_smoke.py"]
    for line in [line for line in PRINTED["README.md"] if line.startswith(begin)]:
        run(line)
    shutil.copytree(folder / "fed", folder / "begun")
    for line in leave:  # either of them
        run(line)
        shutil.rmtree(folder / "fed")
        shutil.copytree(folder / "begun", folder / "fed")


def test_the_commands_of_a_person_at_a_site_run(folder):
    """A careful site asks for names and levels first; one person approves, and one denies."""
    write_patients(folder)
    (folder / "job.toml").write_text('[glm]\nformula = "death ~ age + C(sex)"\n')
    begin = "feddcd federation init fed --careful --job job.toml --data patients.csv"
    run_line(DOCS / "rules.md", f"{begin} --group hospital", folder)
    plan = folder / "fed" / "federation.toml"
    short = "patience = 0.01\napproval_patience = 0.01"
    plan.write_text(re.sub("^patience = .*$", short, plan.read_text(), flags=re.MULTILINE))
    away = r"waited 0\.01 s, .* no answer from these sites: h0, h1, h2, h3"
    with pytest.raises(AssertionError, match=away):
        run_line(DOCS / "rules.md", "feddcd federation simulate fed", folder)
    sites = folder / "fed" / "sites"
    (waits,) = {path.stem[:8] for path in sites.glob("*/outgoing/*.json")}
    said = []
    for line in commands("rules.md"):
        site = "fed/sites/h1" if " deny " in line else "fed/sites/h0"
        filled = line.replace("SITE_DIR", site).replace(" ID", f" {waits}")
        said.append(run_line(DOCS / "rules.md", filled, folder))
    read, approved, denied, paused, log, withdrawn = said
    assert "this site would send these levels of 'sex': 'f', 'm'" in read
    assert f"{waits} (a request for names and levels of columns" in approved
    assert "is approved" in approved
    assert "is denied" in denied
    assert "this site is paused" in paused
    assert re.findall("WAITS|APPROVED|DENIED|PAUSED", log) == ["WAITS", "APPROVED", "PAUSED"]
    assert "closed 0 sets of rows" in withdrawn


def test_the_commands_that_check_an_installation_run(folder):
    version, help = (run_line(DOCS / "install.md", line, folder) for line in commands("install.md"))
    assert version.startswith("feddcd ")
    assert "describe" in help


def _source() -> str:
    """All texts of the package in one line: strings that were broken are joined."""
    text = " ".join(path.read_text() for path in sorted((ROOT / "src").rglob("*.py")))
    return re.sub(r"""["']\s+f?["']""", "", text)


def test_messages_that_are_explained_are_messages():
    text = (DOCS / "troubleshooting.md").read_text()
    source, cells = _source(), re.findall(r"^\| (`.*?) \| ", text, re.MULTILINE)
    assert len(set(cells)) == len(cells), "a message has one advice"
    for cell in cells:
        for message in re.findall(r"`([^`]+)`", cell):
            for part in message.split("…"):
                assert len(part.strip()) < 5 or part.strip() in source, message


def test_the_commands_on_enrolment_run(folder, monkeypatch):
    """As two people type them; what the site sends comes to the coordinator without a network, and
    the words are read by phone."""
    lines = commands("deploy.md")[:-4]
    home = FederationFolder(folder / "fed")
    monkeypatch.setattr(site, "over_tls", lambda _, sent: Desk(home)(sent, "192.0.2.1"))
    first = lambda _: " ".join(site.enrolment_words(folder / "north").split()[:3])
    monkeypatch.setattr("builtins.input", first)
    write_patients(folder)
    (folder / "plan").mkdir()
    plan = '[glm]\nformula = "death ~ age + C(sex)"\nfamily = "binomial"\n'
    (folder / "plan" / "job.toml").write_text(plan)
    at = lambda line: line.replace("/media/stick", "stick")
    said = {line: run_line(DOCS / "deploy.md", at(line), folder) for line in lines}
    begins = [line.split()[2] for line in lines]
    order = ["init", "invite", "enrol", "confirm", "status", "status", "study", "certify"]
    assert begins == order
    assert list(home.invited()) == ["north"]
    assert "connected: 0 of 1 site" in said["feddcd federation status fed"]
    assert "link: down" in said["feddcd federation status north"]
    assert (folder / "fed" / "studies" / "readmission" / "study.toml").exists()


def test_the_commands_on_theory_run(folder):
    (line,) = commands("paper.md")
    assert "FedDCD" in run_line(DOCS / "paper.md", line, folder)


@pytest.fixture
def words_only(monkeypatch):
    """Reports without their pictures: tests/report draws those."""
    monkeypatch.setattr("feddcd.report.run.panels", lambda *a: [])


@pytest.mark.parametrize("rounds", sliced([2, 40], {2}))
@pytest.mark.usefixtures("words_only")
def test_the_quickstart_runs(rounds, folder, capsys, monkeypatch):
    compare = feddcd.compare
    monkeypatch.setattr(feddcd, "compare", lambda *a, **k: compare(*a, **k | {"rounds": rounds}))
    runpy.run_path(str(ROOT / "examples" / "quickstart.py"))
    between = re.search(r"between (\S+) (\S+)", capsys.readouterr().out)
    assert between
    assert float(between[1]) <= float(between[2])
    assert rounds < 40 or float(between[1]) > 0


@pytest.mark.parametrize("rounds", sliced([2, None], {2}))
def test_the_examples_of_the_readme(rounds, folder, monkeypatch):
    """With fewer rounds here: programs are compiled that are like the README's."""
    if rounds:
        run, compare = feddcd.run, feddcd.compare
        monkeypatch.setattr(feddcd, "run", lambda *a, **k: run(*a, **k | {"rounds": rounds}))
        few = lambda *a, **k: compare(*a, **k | {"rounds": rounds})
        monkeypatch.setattr(feddcd, "compare", few)
    write_patients(folder)
    table, race = (b for b in blocks(ROOT / "README.md") if b.language == "python")
    assert "Proven: no coefficient" in run_python(table, {})
    shown = run_python(race, {})
    assert "lower_bound=" in shown
    assert "accuracy" in shown


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
    while isinstance(command, click.Group) and not words[0].startswith("--"):
        assert words[0] in command.commands, line
        command = command.commands[words.pop(0)]
    known = {"--help"} | {
        name for option in command.params for name in (*option.opts, *option.secondary_opts)
    }
    assert {word.split("=")[0] for word in words if re.match(r"--?[a-z]", word)} <= known


def test_every_page_is_in_the_navigation():
    nav = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    inside = re.findall(r"[\w-]+\.md", nav)
    assert sorted(inside) == sorted([*MADE, *(page.name for page in PAGES)])


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    text = re.sub(r"`[^`]*`", "", page.read_text())
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        if "://" in link:
            continue
        name, _, heading = link.partition("#")
        target = DOCS / name if name else page
        assert target.exists(), link
        if target.suffix == ".png":  # the heading says whether it is for dark pages
            continue
        titles = re.findall(r"^#+ (.*)$", target.read_text(), re.MULTILINE) if heading else []
        assert not heading or heading in map(slug, titles), link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_pictures_written_in_html_are_there(page):
    for link in re.findall(r'\b(?:src|srcset)="([^"#]+)', page.read_text()):
        assert (DOCS / link).exists(), link


def slug(title: str) -> str:
    return re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", title).strip().lower())


@pytest.mark.parametrize("name", [*methods(), *REVEALS])
def test_the_pages_on_what_is_revealed_name(name):
    page, section = (
        ("security.md", "### By kind")
        if name in REVEALS
        else ("methods.md", "## What a site sends")
    )
    assert f"`{name}`" in (DOCS / page).read_text().partition(section)[2].partition("\n## ")[0]


@pytest.mark.parametrize("name", [field.name for field in fields(Policy)])
def test_the_page_on_rules_names_every_setting(name):
    assert f"`{name}`" in (DOCS / "rules.md").read_text()


def rules_in_the_log() -> set[str]:
    """Every name with which the source refuses: `Ruled("name", ...)`, RULE, and checks by name."""
    found, site = {*OF_VALUES}, ROOT / "src" / "feddcd" / "federation" / "site"
    for path in site.glob("*.py"):
        found |= {*re.findall(r'(?:\bRuled\(|^RULE = )\s*"(\w+)"', path.read_text(), re.M)}
    return found


def test_the_page_on_rules_names_every_rule_as_the_log_does():
    known = rules_in_the_log()
    assert {"joint_cells", "values", "denied", "rare_values", "min_support"} <= known
    page = (DOCS / "rules.md").read_text()
    assert [name for name in sorted(known) if f"`{name}`" not in page] == []


def test_the_page_on_rules_has_every_rule_that_a_message_names():
    page = (DOCS / "rules.md").read_text().partition("\n## The rules\n")[2].partition("\n### ")[0]
    known = [int(number) for number in re.findall(r"^(\d+)\. \*\*", page, re.MULTILINE)]
    assert known == list(range(1, len(known) + 1))
    source = "".join(path.read_text() for path in (ROOT / "src").rglob("*.py"))
    assert {22} <= {int(number) for number in re.findall(r"\brule (\d+)\b", source)} <= {*known}


def needs_mkdocs() -> None:
    for library in ("mkdocs", "material", "mkdocstrings", "latex2mathml"):
        if importlib.util.find_spec(library) is None:
            pytest.skip(f"{library} is not installed: pip install 'feddcd[docs]'")


OBJECTS = re.findall(r"^::: (\S+)$", (DOCS / "api.md").read_text(), re.MULTILINE)


def test_the_parts_of_the_site_are_there():
    """What it is built from; `make docs` and `make chaos` build it."""
    needs_mkdocs()
    config = importlib.import_module("mkdocs.config").load_config(str(ROOT / "mkdocs.yml"))
    assert config.theme["font"] is False  # nothing is fetched from elsewhere
    assert {"offline", "mkdocstrings"} <= {name.rpartition("/")[2] for name in config.plugins}
    assert "--formula" in config.hooks["tools/site_pages.py"].page()
    headings = re.findall(r"heading: (\S+)", (DOCS / "api.md").read_text())
    for name in ("FederatedGLM", "FederatedLogisticRegression", "run", "compare"):
        assert f"feddcd.{name}" in headings
    for name in OBJECTS:
        assert pkgutil.resolve_name(name)


@pytest.mark.chaos
def test_the_site_builds(tmp_path):
    needs_mkdocs()
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    made = {path.stem for path in (tmp_path / "site").iterdir()}
    assert {page.stem for page in PAGES} | {"cli", "changelog"} <= made
    assert "--formula" in (tmp_path / "site" / "cli.html").read_text()
    reference = (tmp_path / "site" / "api.html").read_text()
    for name in ("FederatedGLM", "FederatedLogisticRegression", "feddcd.run", "feddcd.compare"):
        assert name in reference
    assert "fonts.googleapis" not in reference
    assert (tmp_path / "site" / "certificate.html").read_text().count("</math></div>") == 3


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
