"""The table of a study goes to the sites that took part, also to one that was away at the end."""

import pandas as pd
import pytest

from feddcd import _files as files
from feddcd.cli import _tables as words
from feddcd.cli._status import lines_of, status_of
from feddcd.federation.config import Config
from feddcd.federation.coordinator import _tables as tables
from feddcd.federation.coordinator.coordinator import coordinate
from feddcd.federation.folder import load_place
from feddcd.federation.machine.init import create
from feddcd.federation.machine.studies import note_state, want
from feddcd.federation.unshared import unshared
from local_network import LocalNetwork

SITES = ("east", "north", "south")
JOB = '[glm]\nformula = "y ~ {x}"\nfamily = "gaussian"\n'
COLUMNS = (("age", 7, 40), ("crp", 5, 9), ("y", 3, 11))
MISSED = "south did not get the table; the coordinator sends this table together with the next one"


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "PAUSE_S", 0.01)
    monkeypatch.setattr(files, "_flush", lambda handle: None)
    rows = {name: [float((i * k) % n) for i in range(120)] for name, k, n in COLUMNS}
    data = dict.fromkeys(map(str, SITES), pd.DataFrame(rows))
    return create(tmp_path / "fed", list(SITES), Config("t", patience=5.0), data=data)


def study(home, name, x, away=(), top=""):
    """Runs to its table; results do not reach the sites that are away."""
    made = want(home, name, top + JOB.format(x=x))
    fault = lambda site, kind: "request" if site in away and kind == "result" else None
    network = LocalNetwork([load_place(home.site(site)) for site in home.invited()], fault)
    coordinate(network, {"folder": str(home.path), "study": name}, lambda event: None)
    note_state(made, "done")
    return made, [site for site, kind in network.messages if kind == "result"]


def results(home, site):
    return {path.name for path in (home.site(site) / "results").glob("*")}


def test_a_site_that_was_away_gets_the_table_with_the_next_one(home):
    first, _ = study(home, "first", "age", away=["south"])
    assert unshared(first) == ["south"]
    (line,) = [line for line in lines_of(status_of(home.path)) if "study first" in line]
    assert MISSED in line
    (ended,) = status_of(home.site("south"))["ended"]
    told = "This site did not get the table. Either the coordinator does not give tables to the"
    assert told in ended["how"]
    assert "did not get" not in status_of(home.site("north"))["ended"][0]["how"]
    _, sent = study(home, "second", "crp")
    assert sent == ["south", *SITES]
    assert results(home, "south") == {"first", "second"} == results(home, "north")
    names = [path.name for path in (home.site("north") / "results/first").iterdir()]
    for name in names:
        own, other = ((home.site(s) / "results/first" / name).read_bytes() for s in SITES[1:])
        assert own == other
    assert unshared(first) == []
    assert MISSED not in "\n".join(lines_of(status_of(home.path)))
    assert all("did not get" not in end["how"] for end in status_of(home.site("south"))["ended"])
    assert study(home, "third", "log(1 + crp)")[1] == [*SITES], "once is enough"


def test_who_left_gets_no_table_any_more(home):
    first, _ = study(home, "first", "age", away=["south"])
    home.key("south").unlink()
    assert unshared(first) == []


def test_a_table_that_is_gone_stops_no_later_study(home):
    first, _ = study(home, "first", "age", away=["south"])
    for path in (first.results / "glm").iterdir():
        path.unlink()
    assert study(home, "second", "crp")[1] == [*SITES]
    (first.results / "study.toml").write_text("[")
    assert study(home, "third", "log(1 + crp)")[1] == [*SITES]


def test_nobody_misses_a_table_that_only_the_coordinator_has(home):
    first, sent = study(home, "first", "age", top='share = "nobody"\n')
    assert (unshared(first), sent) == ([], [])


def test_who_looks_on_reads_that_a_site_did_not_get_the_table(monkeypatch):
    said = []
    monkeypatch.setattr(words, "say", said.append)
    words.show_event({"event": "not shared", "site": "south"})
    assert said == [MISSED]
