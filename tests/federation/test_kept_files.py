"""docs/security.md names every file that a study leaves, at the site and at the coordinator."""

import re
import shutil
from contextlib import suppress
from pathlib import Path

import pytest

from feddcd.cli.app import main
from feddcd.data.codebook import FILE as CODEBOOK
from feddcd.federation.coordinator._ending import FILE as UNHEARD
from feddcd.federation.enrolment.site import LEFT
from feddcd.federation.folder import FederationFolder
from feddcd.federation.machine import link_state, rivals
from feddcd.federation.machine._keeper import CONNECTED
from feddcd.federation.machine._served import RECORD
from feddcd.federation.machine.programs import node
from feddcd.federation.sign_up import MEMBER
from feddcd.federation.site.approval import WAITING
from feddcd.federation.status import site_status
from feddcd.federation.trial import FILE as TRIAL

PAGE = Path(__file__).parents[2] / "docs" / "security.md"
JOBS = {
    "model": '[glm]\nformula = "y ~ age"\nfamily = "gaussian"\n',
    "table": '[describe]\ncolumns = ["age"]\n',
}


def documented(what):
    """The names in the first column of the table with this head."""
    section = (
        PAGE.read_text("utf-8").partition("## What is logged and kept")[2].partition("\n### ")[0]
    )
    rows = section.partition(f"| {what} |")[2].partition("\n\n")[0].splitlines()[2:]
    return {name for row in rows for name in re.findall(r"`([^`]+)`", row.split("|")[1])}


def left_in(folder):
    """Names as the page writes them."""
    names = (f"{path.name}/" if path.is_dir() else path.name for path in folder.iterdir())
    return {name for name in names if not name.endswith((".lock", ".service"))}


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Three sites on one machine, and a study of each kind of table."""
    at = tmp_path_factory.mktemp("kept")
    rows = "".join(f"{50 + i % 23},{i % 7},{'abc'[i % 3]}\n" for i in range(150))
    (at / "rows.csv").write_text(f"age,y,site\n{rows}")
    for name, text in JOBS.items():
        (at / f"{name}.toml").write_text(text)
    fed = str(at / "fed")
    jobs = [str(at / f"{name}.toml") for name in JOBS]
    trial = ["--job", jobs[0], "--data", str(at / "rows.csv"), "--group", "site"]
    commands = [["init", fed, *trial], *(["simulate", fed, "--job", job] for job in jobs)]
    for command in commands:
        with suppress(SystemExit):
            main(["federation", *command])
    return FederationFolder(at / "fed")


def test_the_page_names_all_files_of_a_site(home):
    site = home.site("a")
    left = left_in(site) - {"data.csv"}
    assert {"jobs/", "results/", "rules/", "ended/", "outgoing.jsonl"} <= left
    assert left <= documented("file of the site")
    more = {link_state.FILE, node(site).log.name, CODEBOOK, MEMBER, LEFT, f"{WAITING}/"}
    assert more <= documented("file of the site")


def test_the_page_names_all_files_of_a_study(home):
    left = set().union(*(left_in(home.of_study(name).results) for name in home.studies()))
    assert {"glm/", "describe/", "proof", "jobs/", "study.toml"} <= left
    assert left | {home.ledger.name} <= documented("file of a study")


def test_the_page_names_all_files_of_the_server(home):
    left = left_in(home.server) - {TRIAL}
    assert {"keys/", "server.key", "roster.json"} <= left
    assert left <= documented("file in `fed/server/`")
    assert {CONNECTED, RECORD, UNHEARD, rivals.FILE} <= documented("file in `fed/server/`")


def backed_up(answer):
    """The files of a site in the rows of the table on backups with this answer."""
    table = (PAGE.parent / "deploy.md").read_text("utf-8").partition("| file | back it up? |")[2]
    rows = [row.split(" | ") for row in table.partition("\n\n")[0].splitlines()[2:]]
    cells = [row[0] for row in rows if "of a site" in row[0] and answer in row[1]]
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_a_site_can_be_restored_by_the_table_on_backups(home, tmp_path):
    site, restored = home.site("a"), tmp_path / "restored"
    restored.mkdir(mode=0o700)
    kept = backed_up("yes")
    assert {"site.toml", "rules/", "outgoing.jsonl"} <= kept
    for name in sorted({*kept, *backed_up("not necessary")}):  # a site without keys enrols again
        if (path := site / name).is_dir():
            shutil.copytree(path, restored / name)
        elif path.exists():
            shutil.copy2(path, restored / name)
    shutil.copy2(site / "data.csv", restored / "data.csv")
    held = site_status(restored)
    assert held["problems"] == []
    assert held["left"] == site_status(site)["left"] > 0
    known = {*kept, *backed_up(""), "jobs/"}
    assert left_in(site) - {"data.csv"} <= known
