"""A site that is broken, and a coordinator that hangs, say so themselves, and name the reason."""

import json
import os
import shutil
import subprocess
import threading
import time
from contextlib import nullcontext

import pytest

from disks import in_memory
from feddcd._errors import FeddcdError
from feddcd._files import Disk
from feddcd.analysis.plan import RegressionPlan
from feddcd.cli import _serving, _studies
from feddcd.cli._status import lines_of, status_of
from feddcd.cli._tables import show_event
from feddcd.federation import health
from feddcd.federation._next_step import start_again
from feddcd.federation.config import Config
from feddcd.federation.coordinator import _rosters, _silence, _tables
from feddcd.federation.coordinator import nodes as _nodes
from feddcd.federation.coordinator._silence import Silences
from feddcd.federation.coordinator.coordinator import coordinate
from feddcd.federation.coordinator.nodes import LocalExchange
from feddcd.federation.folder import FederationFolder, load_place
from feddcd.federation.health import troubles
from feddcd.federation.machine import _served, studies
from feddcd.federation.machine.init import create
from feddcd.federation.machine.link_state import LinkState
from feddcd.federation.machine.processes import processes
from feddcd.federation.machine.studies import note_state, state_of, want
from feddcd.federation.site import missing
from feddcd.federation.site import told as told_of
from feddcd.federation.site.answer import answer, refusal
from feddcd.federation.site.approval import Waits
from feddcd.federation.site.log import append, read_log, verify_log
from feddcd.federation.site.log_words import told
from feddcd.federation.site.memory import MONTH, Memory
from feddcd.federation.status import study_status, waits_in_words
from feddcd.federation.wire import Envelope, pack_message, unpack_message

SITES = ("east", "north", "south")
JOB = '[glm]\nformula = "y ~ age"\nfamily = "gaussian"\n'
SENTINEL = "sentinel-4711"


@pytest.fixture(scope="module")
def made():
    """A federation of three sites on one machine, made once."""
    with in_memory() as folder:
        home = create(folder / "fed", list(SITES), Config("demo", host="127.0.0.1"))
        rows = "".join(f"{50 + i % 23},{i % 7}\n" for i in range(120))
        for name in SITES:
            (home.site(name) / "data.csv").write_text(f"age,y\n{rows}")
            (home.site(name) / "data.csv").chmod(0o640)
            path = home.site(name) / "site.toml"
            lines = [line for line in path.read_text().splitlines() if "data" not in line]
            path.write_text("\n".join([*lines, 'data = "data.csv"', ""]))
        yield home.path


@pytest.fixture
def home(made, tmp_path):
    shutil.copytree(made, tmp_path / "fed")
    return FederationFolder(tmp_path / "fed")


def no_data(site):
    (site / "data.csv").unlink()


def no_rows(site):
    (site / "data.csv").write_text("")


def bad_policy(site):
    path = site / "policy.toml"
    path.write_text(f"{SENTINEL} = 1\n{path.read_text()}")


def open_keys(site):
    (site / "sum.keys").chmod(0o644)


def no_keys(site):
    (site / "sum.keys").unlink()


def bad_key(site):
    (site / "key").write_text("")


def key_of_another(site):
    shutil.copy(site.parent / "north" / "key", site / "key")


def bad_codebook(site):
    (site / "codebook.toml").write_text("x = [")


def bad_log(site):
    (site / "outgoing.jsonl").write_text("{}\n")


def other_key(site):
    shutil.copy(site.parent / "north" / "key", site / "key")


def other_sum_keys(site):
    shutil.copy(site.parent / "north" / "sum.keys", site / "sum.keys")


def a_folder(site):
    path = site / "site.toml"
    path.write_text(path.read_text().replace("data.csv", ".."))


def no_such_file(site):
    """As after a slip of the pen; the rules remember a job on the right file."""
    Memory(site, site / "data.csv").begin("a" * 32)
    path = site / "site.toml"
    path.write_text(path.read_text().replace("data.csv", "dta.csv"))


def changed_log(site):
    for i in range(4):
        append(site, {"kind": "hessian", "rows": i})
    path = site / "outgoing.jsonl"
    path.write_bytes(path.read_bytes().replace(b'"rows": 1', b'"rows": 2'))


def open_key(site):
    (site / "key").chmod(0o666)


def open_folder(site):
    site.chmod(0o755)


def open_policy(site):
    (site / "policy.toml").chmod(0o666)


def open_rows(site):
    (site / "data.csv").chmod(0o644)


STOP = {
    no_data: ("data.csv cannot be read: No such file", "or correct the path in site.toml"),
    a_folder: (" is a folder", "write the path of a data file into site.toml"),
    no_rows: ("data.csv cannot be read: the file is empty", "put the data file back"),
    bad_policy: (SENTINEL, "correct policy.toml"),
    open_keys: ("sum.keys has the mode 0644, so other users", "chmod 600 "),
    no_keys: ("sum.keys: the keys cannot be read", "from a backup"),
    bad_key: ("key is not a private key", "from a backup"),
    key_of_another: ("key is not the private key that belongs to key.pub", "from a backup"),
    bad_codebook: ("codebook.toml", "correct codebook.toml"),
    other_key: ("key is not the private key that belongs to key.pub", "from a backup"),
    other_sum_keys: ("sum.keys has the keys of site 'north', not of 'south'", "from a backup"),
    changed_log: ("was changed or damaged: line 2 was changed", "from a backup"),
    bad_log: ("outgoing.jsonl was changed or damaged", "move both files away, and keep them"),
}
WARN = {
    open_key: ("key has the mode 0666", "chmod 600 "),
    open_folder: ("has the mode 0755, so other users of this machine may read", "chmod 700 "),
    open_policy: ("policy.toml has the mode 0666", "chmod 600 "),
    open_rows: (
        "data.csv has the mode 0644, so other users of this machine may read",
        "chmod 600 ",
    ),
}


@pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs root")
def test_a_file_of_another_user_is_named(home):
    site = home.site("south")
    another = lambda: [trouble for trouble in troubles(site) if "to the user" in trouble.what]
    assert not another()
    os.chown(site / "policy.toml", 65534, -1)
    (found,) = another()
    assert "policy.toml belongs to the user" in found.what
    assert found.todo.startswith("chown root ")
    assert not found.stops
    for path in [site, *site.iterdir()]:
        os.chown(path, 65534, -1)
    os.chown(site / "key", 0, -1)
    assert not another(), "root can do all anyway"


@pytest.mark.parametrize("harm", [*STOP, *WARN])
def test_a_broken_site_says_so_before_it_is_asked(home, harm, monkeypatch):
    site, said = home.site("south"), []
    monkeypatch.setattr(_serving, "say", said.append)
    LinkState(site, "h:1").tell("connected", "")
    assert troubles(site) == []
    assert status_of(site)["next"].startswith("you have nothing to do")
    watched = _serving.show_troubles(site, _serving.Watched())
    harm(site)
    (trouble,) = troubles(site)
    what, todo = (STOP | WARN)[harm]
    assert what in trouble.what
    assert todo in trouble.todo
    assert trouble.stops == (harm in STOP)
    held = status_of(site)
    assert held["next"] == trouble.todo
    kind = "problem" if trouble.stops else "warning"
    assert f"{kind}: {trouble.what}" in "\n".join(lines_of(held))
    assert _serving.show_troubles(site, watched) == watched, "it looks now and then"
    assert said == []
    for _ in range(2):
        watched = _serving.show_troubles(site, watched._replace(time=0.0))
    assert said == [f"{kind.upper()}: {trouble.words()}"]
    assert said[0].count("What to do: ") == 1


def test_a_wrong_path_of_the_data_names_the_old_one(home):
    site = home.site("south")
    no_such_file(site)
    held = status_of(site)
    assert "dta.csv cannot be read: No such file" in held["problems"][0]["what"]
    assert held["next"] == f"write the old path into site.toml again: data = '{site / 'data.csv'}'"
    Memory(site, site / "dta.csv").begin("b" * 32)
    assert "Do not name another file" in status_of(site)["next"]


def test_a_file_of_another_user_is_told(home, monkeypatch):
    site = home.site("south")
    owners = lambda path: "nobody" if path.name == "policy.toml" else "north"
    monkeypatch.setattr(health, "owner_of", owners)
    (told,) = status_of(site)["warnings"]
    assert "policy.toml belongs to the user nobody, who may change this file" in told["what"]
    assert told["todo"] == f"chown north {site / 'policy.toml'}"


def test_a_problem_whose_words_change_is_not_solved(home, monkeypatch):
    site, said = home.site("south"), []
    monkeypatch.setattr(_serving, "say", said.append)
    no_such_file(site)
    path = site / "site.toml"
    shutil.copy(site / "data.csv", site / "dta.csv")
    watched = _serving.show_troubles(site, _serving.Watched())
    assert len(said) == 1
    Memory(site, site / "data.csv").begin("c" * 32)
    watched = _serving.show_troubles(site, watched._replace(time=0.0))
    assert len(said) == 1, "2 jobs instead of 1"
    path.write_text(path.read_text().replace("dta.csv", "data.csv"))
    _serving.show_troubles(site, watched._replace(time=0.0))
    assert said[1].startswith("this warning has ended: site.toml names the data")


def test_a_missing_data_file_hides_no_warning_and_makes_none(home, monkeypatch):
    """Of a file that is not there nobody knows the mode, and only that it is missing matters."""
    site, said = home.site("south"), []
    monkeypatch.setattr(_serving, "say", said.append)
    open_rows(site)
    Memory(site, site / "old.csv").begin("a" * 32)
    watched, before = _serving.show_troubles(site, _serving.Watched()), troubles(site)
    assert [trouble.stops for trouble in before] == [False, False]
    rows = (site / "data.csv").rename(site / "away.csv")
    (only,) = troubles(site)
    assert only.stops
    for there in (False, True):
        if there:
            rows.rename(site / "data.csv")
        watched = _serving.show_troubles(site, watched._replace(time=0.0))
    assert [line.partition(":")[0] for line in said] == ["WARNING"] * 2 + [
        "PROBLEM",
        "this problem is solved",
    ]
    (site / "data.csv").chmod(0o600)
    _serving.show_troubles(site, watched._replace(time=0.0))
    assert said[4].startswith("this warning has ended: ")
    assert "data.csv has the mode 0644" in said[4]
    assert len(said) == 5


def test_a_new_path_of_the_data_tells_what_the_rules_forget(home):
    """A person follows an advice to name another file; or takes a link to the newest export."""
    site = home.site("south")
    Memory(site, site / "data.csv").begin("a" * 32)
    assert not any("budgets" in trouble.what for trouble in troubles(site))
    shutil.copy(site / "data.csv", site / "new.csv")
    path = site / "site.toml"
    path.write_text(path.read_text().replace("data.csv", "new.csv"))
    (told,) = (each for each in status_of(site)["warnings"] if "budgets" in each["what"])
    assert told["what"].startswith(f"site.toml names the data file {site / 'new.csv'}, but ")
    assert f"remember 1 job of {site / 'data.csv'}. With the new path, all budgets" in told["what"]
    assert "move the new file to the old path, and write the old path into" in told["todo"]
    Memory(site, site / "new.csv").begin("b" * 32)
    assert any("budgets" in trouble.what for trouble in troubles(site)), "for a month"
    later = time.time() + MONTH + 1
    assert not Memory(site, site / "new.csv", clock=lambda: later).forgotten()


def test_who_serves_may_begin_a_study_at_once(home, monkeypatch):
    """Before the command that wants it has ended; both write its state."""
    real = FederationFolder.config

    def config(folder):
        if folder.study and (folder.results / "study.toml").exists():
            note_state(folder, "running")
        return real(folder)

    monkeypatch.setattr(FederationFolder, "config", config)
    writes = []
    monkeypatch.setattr(studies, "note_state", lambda study, state: writes.append(state))
    want(home, "first", JOB)
    assert writes == ["wanted"]
    assert state_of(home.of_study("first"))["state"] == "running"


def study_of(home, monkeypatch, study, look=0.0, limits="patience = 0.01"):
    """Runs it once, as far as it comes without waiting; the reason why it ended."""
    for module in (_nodes, _rosters, _tables):
        monkeypatch.setattr(module, "PAUSE_S", 0.0)
    monkeypatch.setattr(missing, "LOOK_S", look)
    want(home, study, f"{limits}\n{JOB}")
    exchange = LocalExchange([load_place(home.site(name)) for name in SITES])
    with pytest.raises(FeddcdError) as reason:
        coordinate(exchange, {"folder": str(home.path), "study": study}, lambda event: None)
    return str(reason.value)


@pytest.mark.parametrize("harm", [no_data, bad_policy, open_keys, no_keys])
def test_a_site_knows_why_it_refused_and_nobody_else_does(home, harm, monkeypatch):
    site, private = home.site("south"), str(home.path)
    harm(site)
    heard = study_of(home, monkeypatch, "first")
    again = start_again(home.of_study("first"))  # with the path of the coordinator's own folder
    assert heard.count(again) == 1
    assert "Refused: south: " in heard
    assert private not in heard.replace(again, "")
    assert SENTINEL not in heard
    refused = [entry for entry in read_log(site) if "refused" in entry]
    why = refused[-1]["why"]
    assert {no_data: "data.csv", bad_policy: SENTINEL}.get(harm, "sum.keys") in why
    assert told(refused[-1]).startswith("REFUSED  a question: ")
    assert f". The coordinator reads only this: {refused[-1]['refused']}." in told(refused[-1])
    assert f"Refused: south: {refused[-1]['refused']}" in heard, "which is true"
    verify_log(site)
    held = status_of(site)
    assert why in held["last_refusal"]
    assert f"last refusal: {held['last_refusal']}" in "\n".join(lines_of(held))
    how = held["ended"][-1]["how"]
    assert how.startswith("ended without a result, because this site refused: ")
    assert why in how
    others = status_of(home.site("north"))["ended"][-1]["how"]
    words = "the site 'south' could not answer; the log at the site 'south' has the exact reason"
    assert words in others
    (news,) = _serving.known_news(site)
    assert news.startswith(f"study 'first' {how} (")


@pytest.mark.parametrize("harm", [no_data, no_rows])
def test_a_file_that_is_missing_for_a_few_seconds_ends_no_study(home, harm, monkeypatch):
    """Somebody replaces it while the coordinator asks."""
    site, said = home.site("south"), []
    monkeypatch.setattr(_serving, "say", said.append)
    kept, real = (site / "data.csv").read_bytes(), LocalExchange.ask

    def ask(exchange, requests, *rest):
        yield from real(exchange, requests, *rest)
        if status_of(site)["looks"]:
            lines = "\n".join(lines_of(status_of(site)))
            assert "waits for the data: the coordinator asked a question, but" in lines
            _serving.show_news(site, set())
            (site / "data.csv").write_bytes(kept)

    monkeypatch.setattr(LocalExchange, "ask", ask)
    harm(site)
    limits = "patience = 60.0\napproval_patience = 0.01"
    heard = study_of(home, monkeypatch, "first", 60.0, limits)
    assert "Refused" not in heard, "it waits for people now"
    assert said[0].startswith("the coordinator asked a question, but the data file of this site")
    assert not status_of(site)["looks"]
    assert not [entry for entry in read_log(site) if "refused" in entry]
    log = (site / "site.log").read_text()
    assert "is missing or empty: " in log
    assert "is there again: " in log
    events = [event for _, event in home.of_study("first").read_events()]
    (waits,) = [e for e in events if e["event"] == "waiting" and told_of.LOOKING in e["reason"]]
    assert waits["site"] == "south"
    study = home.of_study("first")
    held = {"time": time.time(), "until": 9e9, "people": {}, "silent": [], "looking": ["south"]}
    study.save(study.results / "waiting.json", held)
    note_state(study, "running")
    words = waits_in_words(study_status(study)["waits"])
    assert words.startswith("the data file is missing at south; the coordinator waits until ")
    assert {"event": "looked", "site": "south"}.items() <= events[events.index(waits) + 1].items()


def test_a_mistake_in_a_policy_for_a_few_seconds_ends_no_study(home, monkeypatch):
    """Somebody edits it while the coordinator asks."""
    site, real = home.site("south"), LocalExchange.ask
    kept, waits = (site / "policy.toml").read_bytes(), []

    def ask(exchange, requests, *rest):
        yield from real(exchange, requests, *rest)
        if (site / "mistaken.json").exists():
            waits.append((site / "mistaken.json").read_bytes())
            (site / "policy.toml").write_bytes(kept)

    monkeypatch.setattr(LocalExchange, "ask", ask)
    bad_policy(site)
    limits = "patience = 60.0\napproval_patience = 0.01"
    heard = study_of(home, monkeypatch, "first", 60.0, limits)
    assert waits
    assert "Refused" not in heard, "it waits for people now"
    assert not (site / "mistaken.json").exists()
    entries = read_log(site)
    assert not [entry for entry in entries if "refused" in entry]
    assert not [e for e in entries if "kind" in e and e["kind"] != "columns"]
    log = (site / "site.log").read_text()
    assert "the policy of this site has a mistake: " in log
    assert SENTINEL in log, "the reason stays at the site"
    assert "the policy of this site has no mistake any more: " in log
    events = [event for _, event in home.of_study("first").read_events()]
    (told,) = [e for e in events if e["event"] == "waiting" and told_of.READING in e["reason"]]
    assert SENTINEL not in told["reason"]
    assert {"event": "read", "site": "south"}.items() <= events[events.index(told) + 1].items()
    study = home.of_study("first")
    held = {"time": time.time(), "until": 9e9, "people": {}, "silent": [], "reading": ["south"]}
    study.save(study.results / "waiting.json", held)
    note_state(study, "running")
    words = waits_in_words(study_status(study)["waits"])
    assert words.startswith("policy.toml has a mistake at south; the coordinator waits until ")


def test_a_site_reads_its_policy_for_a_minute_and_then_refuses(home, monkeypatch):
    """While it has a mistake no question is answered, as before."""
    place, now, noted = load_place(home.site("south")), [1e9], []
    monkeypatch.setattr(missing.time, "time", lambda: now[0])
    bad_policy(place.folder)
    for second, waits in ((0, True), (59, True), (61, False), (90, False), (200, True)):
        now[0] = 1e9 + second
        with pytest.raises(Waits, match=told_of.READING) if waits else nullcontext():
            missing.check_policy(place, lambda what, story: noted.append(what))
    assert noted == ["the policy of this site has a mistake"] * 2
    now[0] = 1e9 + 255
    with pytest.raises(Waits):
        missing.check_policy(place, lambda what, story: None)
    now[0] = 1e9 + 261
    plan = RegressionPlan("y ~ age", "gaussian").to_dict()
    request = pack_message(Envelope("columns", {"plan": plan}, {}))
    said = unpack_message(answer(request, place)).meta["reason"]
    assert "cannot use its policy, so it sends nothing" in said


def test_a_site_looks_for_its_file_for_a_minute_and_then_refuses(home, monkeypatch):
    """Between two questions the clock goes on; after a long pause it begins anew."""
    place, now, noted = load_place(home.site("south")), [1e9], []
    monkeypatch.setattr(missing.time, "time", lambda: now[0])
    no_data(place.folder)
    for second, waits in ((0, True), (30, True), (59, True), (61, False), (90, False), (200, True)):
        now[0] = 1e9 + second
        with pytest.raises(Waits, match=told_of.LOOKING) if waits else nullcontext():
            missing.check_there(place, lambda what, story: noted.append(what))
    assert noted == ["the data file of this site is missing or empty"] * 2


def test_a_question_that_takes_too_long_is_in_the_log(home):
    place = load_place(home.site("south"))
    assert b"longer than 600 s" in refusal(place, "the answer would take longer than 600 s")
    (entry,) = read_log(place.folder)
    assert told(entry) == (
        "REFUSED  a question: this site did not answer: the answer would take longer than 600 s"
    )


def test_an_older_refusal_is_not_the_reason_of_a_study(home, monkeypatch):
    site = home.site("south")
    bad_policy(site)
    study_of(home, monkeypatch, "first")
    text = (site / "policy.toml").read_text().replace(f"{SENTINEL} = 1\n", "")
    (site / "policy.toml").write_text(text)
    study_of(home, monkeypatch, "second")  # waits for people, too long
    assert SENTINEL not in status_of(site)["ended"][-1]["how"]


def test_the_status_of_a_site_names_with_whom_it_is_summed(home):
    held = status_of(home.site("south"))
    line = (
        "masked sums with: east and north (the roster words of this list of sites: "
        f"{held['roster']})"
    )
    assert line in lines_of(held)


def test_a_retired_site_does_not_say_that_it_connects_again(home):
    site = home.site("south")
    LinkState(site, "h:1").tell("connecting", "the coordinator has probably restarted")
    assert "why: the coordinator has probably restarted" in lines_of(status_of(site))
    (site / "left.json").write_text('{"time": 1795000000.0, "barred": false}')
    lines = "\n".join(lines_of(status_of(site)))
    assert "probably restarted" not in lines
    assert "link: not in the federation" in lines
    assert "retired: this site was retired by the coordinator" in lines
    assert "\nearlier masked sums with: east and north (the roster words of this list" in lines
    assert "\nmasked sums with" not in lines


@pytest.fixture
def frozen(home):
    """A process serves, and has said nothing for a minute."""
    lock, then = Disk().lock(home.server / _served.UP), time.time() - 62
    os.utime(home.server / _served.UP, (then, then))
    home.save(home.server / "connected.json", {"time": then, "sites": {}})
    with lock:
        yield home


def test_a_coordinator_that_hangs_does_not_blame_the_sites(frozen):
    held = status_of(frozen.path)
    lines = "\n".join(lines_of(held))
    assert f"serve` (process {os.getpid()}) has not responded for 62 s" in lines
    assert held["missing"] == []
    assert "not connected" not in lines
    assert "start their site" not in held["next"]
    assert f"kill -CONT {os.getpid()}. Otherwise" in held["next"]
    with subprocess.Popen(["sleep", "60"]) as child:  # of the same one, and perhaps suspended, too
        began = next(p.began for p in processes() if p.pid == child.pid)
        held_ids = {"superlink": [child.pid, began], "coordinator": [child.pid, "another"]}
        frozen.save(frozen.server / "processes.json", held_ids)
        asked = status_of(frozen.path)["next"]
        child.kill()
    assert f"kill -CONT {os.getpid()} {child.pid}. Otherwise" in asked
    fresh = {"time": time.time(), "sites": {"east": {"online": True, "since": ""}}}
    frozen.save(frozen.server / "connected.json", fresh)
    held = status_of(frozen.path)
    assert held["silent"] is None
    assert held["missing"] == ["north", "south"]


def test_a_coordinator_that_has_just_started_does_not_hang(frozen):
    """What the last one said is old. And sites connect again by themselves."""
    os.utime(frozen.server / _served.UP)
    assert status_of(frozen.path)["silent"] is None
    frozen.save(frozen.server / "connected.json", {"time": time.time(), "sites": {}})
    told = status_of(frozen.path)["next"]
    assert told.startswith("wait a minute, because `serve` has just ")
    assert told.endswith("run, they connect by themselves"), "perhaps for the first time"
    then = time.time() - 62
    os.utime(frozen.server / _served.UP, (then, then))
    assert status_of(frozen.path)["next"].startswith(
        "ask the people at east, north, south to start"
    )


def test_who_follows_a_study_hears_that_serve_hangs(frozen, monkeypatch):
    study, said = want(frozen, "first", JOB), []
    note_state(study, "running")

    def sleep(seconds):
        if len(said) == 3:  # it goes on
            frozen.save(frozen.server / "connected.json", {"time": time.time(), "sites": {}})
        elif len(said) == 4:
            note_state(study, "done")

    monkeypatch.setattr(_studies, "say", said.append)
    monkeypatch.setattr(_studies.time, "sleep", sleep)
    _studies._follow(study)
    assert said[0].startswith(
        "the study 'first' has perhaps stopped: the program `feddcd federation serve"
    )
    assert "to see what to do: feddcd federation status" in said[1]
    assert said[3] == "`serve` responds again"


def test_silence_is_said_after_growing_waits(home, monkeypatch, capsys):
    """46 questions in a minute without an answer were 46 lines."""
    now, study = [0.0], want(home, "first", JOB)
    note_state(study, "running")
    monkeypatch.setattr(_silence.time, "monotonic", lambda: now[0])
    silences = Silences(study)
    for second in range(0, 241):
        now[0] = float(second)
        silences.note("south")
    silences.ended("south")
    silences.note("south")
    events = [event for _, event in study.read_events()]
    assert [event["seconds"] for event in events] == [0, 30, 60, 120, 240, 0]
    for event in events[:2]:
        show_event(event)
    first, second = capsys.readouterr().out.splitlines()
    assert first == "south does not answer; the coordinator asks again"
    assert second == "south has not answered for 30 s; the coordinator asks again and again"
    assert json.dumps(status_of(home.path)["studies"][0]["heard"]) == '["south does not answer"]'


def test_programs_that_look_who_serves_do_not_take_one_another_for_it(home):
    """After `serve` was killed, a study and a `status` look at the same time."""
    path, seen, ends = home.server / _served.UP, [], threading.Event()
    path.touch()

    def look():
        while not ends.is_set():
            seen.append(_served.is_up(home))

    other = threading.Thread(target=look)
    other.start()
    try:
        own = [_served.is_up(home) for _ in range(5000)]
    finally:
        ends.set()
        other.join()
    assert not any([*own, *seen])
    with Disk().lock(path):
        assert _served.is_up(home)
