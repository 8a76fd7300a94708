"""A table that was made before the list of sites changed is proven as before; a list of sites that
the federation never had proves nothing."""

import json
import os
import shutil
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

from disks import in_memory
from feddcd import _files as files
from feddcd.analysis.plan import RegressionPlan
from feddcd.cli._members import join_command
from feddcd.cli.app import main
from feddcd.federation import sign_up
from feddcd.federation.config import Config
from feddcd.federation.coordinator import _tables as tables
from feddcd.federation.coordinator.coordinator import coordinate
from feddcd.federation.folder import load_place
from feddcd.federation.machine.init import create
from feddcd.federation.machine.studies import note_state, want
from feddcd.federation.roster import earlier_roster, keep_earlier, load_roster
from local_network import LocalNetwork

SITES = ("east", "north", "south")
PLAN = RegressionPlan("y ~ age", "gaussian")
CHANGED = 1_700_000_000  # when all had signed the first list: 2023-11-14 22:13 UTC


def rows_of(site):
    rng = np.random.default_rng(SITES.index(site))
    d = pd.DataFrame({"age": rng.normal(60, 10, 40).round(1)})
    return d.assign(y=(0.1 * d.age + rng.normal(size=40)).round(2))


def finished(folder):
    """With one study that has a table and a proof."""
    config = Config("test", plan=PLAN, patience=0.05, fewest=3)
    home = create(folder, list(SITES), config, data={site: rows_of(site) for site in SITES})
    text = home.config().to_toml()
    study = want(home, "first", f"patience = 0.05\nfewest = 3\n{text[text.index('[glm]') :]}")
    network = LocalNetwork([load_place(home.site(site)) for site in home.invited()])
    coordinate(network, {"folder": str(home.path), "study": "first"}, lambda event: None)
    note_state(study, "done")
    return home


@pytest.fixture(scope="module")
def made():
    with in_memory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables, "PAUSE_S", 0.01)
        patch.setattr(files, "_flush", lambda handle: None)
        yield finished(folder / "fed"), finished(folder / "other")


@pytest.fixture
def home(made, tmp_path):
    folder = type(made[0])(shutil.copytree(made[0].path, tmp_path / "fed"))
    os.utime(folder.server / "roster.json", (CHANGED, CHANGED))
    return folder


def verified(home, capsys, study="first"):
    """The exit status of the command, and what it says."""
    capsys.readouterr()
    code = 0
    try:
        main(["federation", "verify", str(home.path), study])
    except SystemExit as end:
        code = end.code
    said = capsys.readouterr()
    return code or 0, " ".join(f"{said.out} {said.err}".split())


def test_a_table_from_before_the_list_of_sites_changed_stays_verified(home, capsys):
    assert verified(home, capsys)[0] == 0
    first = load_roster(home.server)
    join_command(home.path, "west")
    assert load_roster(home.server).names == (*SITES, "west")
    told = "made with an earlier list of sites (of 2023-11-14 22:13 UTC): east, north, south"
    code, said = verified(home, capsys)
    assert code == 0
    assert said.startswith(
        f"VERIFIED: signatures, sums, questions, table and certificate are right {told}"
    )
    assert "CAREFUL" not in said
    assert first.words() in said
    join_command(home.path, "middle")
    code, said = verified(home, capsys)
    assert (code, told in said) == (0, True), "two lists ago"


def test_programs_read_which_list_it_was(home, capsys):
    join_command(home.path, "west")
    capsys.readouterr()
    with suppress(SystemExit):
        main(["federation", "verify", str(home.path), "first", "--json"])
    held = json.loads(capsys.readouterr().out)
    assert held["earlier_roster"] == {"sites": list(SITES), "time": CHANGED}


def test_new_keys_of_a_site_are_told(home, capsys):
    """Who stole the old ones can sign with them, today as well."""
    sign_up.new_member(home.site("north"), "north")
    member = sign_up.read_member(home.site("north") / sign_up.MEMBER)
    sign_up.propose(home.server, [member])
    told = "made with an earlier list of sites"
    assert told in verified(home, capsys)[1], "also while not all have signed the new one"
    for site in SITES:
        sign_up.sign(home.site(site), home.server / "roster.json")
    code, said = verified(home, capsys)
    assert (code, told in said) == (0, True)
    north = "the site 'north'"
    careful = f"CAREFUL: {north} has other keys now. Somebody who has the old keys of {north} could"
    assert careful in said


def forge(home, other):
    """A whole study of a federation with sites of the same names, and its roster beside it."""
    study = home.path / "studies" / "first"
    shutil.rmtree(study)
    shutil.copytree(other.path / "studies" / "first", study)
    shutil.copy(other.server / "roster.json", study)
    (study / "rosters").mkdir()
    return load_roster(other.server)


@pytest.mark.parametrize("changed", [False, True], ids=["now", "after a change"])
def test_a_roster_that_was_never_here_proves_nothing(made, home, capsys, changed):
    roster = forge(home, made[1])
    if changed:
        join_command(home.path, "west")
    code, said = verified(home, capsys)
    assert code == 1
    assert said.startswith("NOT VERIFIED: ")
    assert f"The roster words in the proof are: {roster.words()}" in said
    assert "made with an earlier list" not in said


def test_only_what_all_have_signed_is_kept(made, home, capsys):
    """A proposal with the keys of a stranger is no list that held here."""
    roster = forge(home, made[1])
    stranger = roster["east"]
    sign_up.propose(home.server, [stranger])
    proposed = sign_up.read_roster(home.server / "roster.json")
    keep_earlier(home.server)
    assert earlier_roster(home.server, proposed.digest) is None
    held = {"time": 1.0, "roster": proposed.to_json().decode()}
    for name in (proposed.digest.hex(), roster.digest.hex()):  # of one without signatures
        (home.server / "rosters" / f"{name}.json").write_text(json.dumps(held))
    assert earlier_roster(home.server, proposed.digest) is None
    assert earlier_roster(home.server, roster.digest) is None
    assert verified(home, capsys)[0] == 1


@pytest.mark.parametrize("damage", ["", "{}", "[]", '{"time": "x", "roster": 1}', "\x00"])
def test_a_damaged_file_of_an_earlier_list_is_none(home, capsys, damage):
    join_command(home.path, "west")
    (path,) = (home.server / "rosters").iterdir()
    path.write_text(damage)
    code, said = verified(home, capsys)
    assert code == 1
    assert "the proof was made with a roster (a list of sites) that is not in this folder" in said
