"""Only the account that owns a folder writes in it: files of root would stop the program there."""

import os
import shutil
import subprocess
import sys

import pytest

from disks import in_memory
from feddcd.cli.app import main
from feddcd.federation.config import Config
from feddcd.federation.machine.init import create
from feddcd.federation.site.log import LOG, append

OTHER = 65534
HEAD = f".{LOG}.head"
AS_OTHER = """
import os
from pathlib import Path
from feddcd._files import Disk
from feddcd._owners import to_own
from feddcd.cli.app import main
from feddcd.federation.health import troubles

def status():
    try:
        main(["federation", "status", "fed/sites/north"])
    except SystemExit:
        pass

status()  # imports what the other account perhaps may not read
os.setegid({other})
os.seteuid({other})
status()
site = Path("fed/sites/north")
told = [trouble.words() for trouble in troubles(site) if trouble.stops]
mend = f"As root, run: chown {{site.owner()}} fed/sites/north/{name}"
try:
    Disk().read(site / "{name}", 10_000)
except PermissionError as error:
    if any(mend in line for line in told) and mend in to_own(error):
        print("found", flush=True)
"""


@pytest.fixture
def home(monkeypatch):
    with in_memory() as folder:  # into which another account may go
        yield made(folder, monkeypatch)


def made(folder, monkeypatch):
    home = create(folder / "fed", ["north", "south", "west"], Config("demo"))
    (home.site("north") / "data.csv").write_text("age,y\n1,2\n")
    path = home.site("north") / "site.toml"
    lines = [line for line in path.read_text().splitlines() if "data" not in line]
    path.write_text("\n".join([*lines, 'data = "data.csv"', ""]))
    monkeypatch.chdir(folder)
    return home


def give_away(folder, monkeypatch):
    """This process works as root in a folder of another account; who is not root pretends it."""
    if os.geteuid() == 0:
        for path in (folder, *folder.rglob("*")):
            os.chown(path, OTHER, OTHER)
    monkeypatch.setattr("os.geteuid", lambda: 0)


def contents(folder):
    return {p: p.read_bytes() if p.is_file() else b"" for p in sorted(folder.rglob("*"))}


COMMANDS = [
    ("pause", "fed/sites/north"),
    ("pause", "fed/sites/north", "--end"),
    ("approve", "fed/sites/north"),
    ("outgoing", "fed/sites/north"),
    ("withdraw", "fed/sites/north", "--why", "x"),
    ("roster", "fed/sites/north", "--key"),
    ("site", "fed/sites/north"),
    ("invite", "fed", "east"),
    ("retire", "fed", "north"),
    ("study", "fed", "first", "--job", "job.toml"),
    ("serve", "fed"),
    ("certify", "fed"),
    ("init", "fed"),
]


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_root_writes_nothing_in_a_folder_of_another_account(home, monkeypatch, capsys, words):
    before = contents(home.path)
    give_away(home.path, monkeypatch)
    with pytest.raises(SystemExit) as end:
        main(["federation", *words])
    said, owner = capsys.readouterr().err, home.path.owner()
    assert end.value.code == 2
    assert f"the folder {words[1]} belongs to the account {owner!r}, and" in said
    assert f"sudo -u {owner} " in said
    # the program, perhaps in a folder with a space
    assert f"feddcd federation {' '.join(words[:2])}" in said.replace("'", "")
    assert contents(home.path) == before


def test_root_may_look_at_a_folder_of_another_account(home, monkeypatch, capsys):
    append(home.site("north"), {"paused": True})
    before = contents(home.path)
    give_away(home.path, monkeypatch)
    for folder in ("fed", "fed/sites/north"):
        with pytest.raises(SystemExit) as end:
            main(["federation", "status", folder])
        assert end.value.code in (0, None), capsys.readouterr()
    assert "left this site: 0 answers" in capsys.readouterr().out
    assert contents(home.path) == before


def test_the_owner_and_who_makes_a_folder_go_on(home, capsys):
    with pytest.raises(SystemExit) as end:
        main(["federation", "pause", "fed/sites/north"])
    assert end.value.code in (0, None)
    with pytest.raises(SystemExit) as end:
        main(["federation", "init", "fed2"])
    assert end.value.code in (0, None)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes files of other accounts")
@pytest.mark.parametrize("name", [LOG, HEAD])
def test_a_file_of_root_is_named_with_the_command_that_mends_it(home, name):
    site = home.site("north")
    append(site, {"paused": True})
    shutil.chown(site / name, 0, 0)
    for path in (home.path, *home.path.rglob("*")):
        if path != site / name:
            os.chown(path, OTHER, OTHER)
    os.chown(home.path.parent, OTHER, OTHER)
    done = subprocess.run(
        [sys.executable, "-c", AS_OTHER.format(other=OTHER, name=name)],
        capture_output=True, text=True, cwd=home.path.parent,
    )  # fmt: skip
    assert done.stdout.endswith("found\n"), done.stdout + done.stderr
    said = done.stdout
    owner = site.owner()
    assert f"problem: fed/sites/north/{name} cannot be read: Permission denied" in said
    assert f"next: this file belongs to the account 'root'. As root, run: chown {owner} " in said
