"""Programs in groups, ended by their ids, also by a process that did not start them."""

import json
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from disks import in_memory
from feddcd._errors import SpecError
from feddcd.analysis.plan import RegressionPlan
from feddcd.cli import _studies
from feddcd.cli._simulate import Trial, simulate_command
from feddcd.cli._status import lines_of
from feddcd.data import load
from feddcd.federation import answer_node
from feddcd.federation.config import Config
from feddcd.federation.coordinator import _training, nodes
from feddcd.federation.coordinator.inspect import verify
from feddcd.federation.machine import conduct, gate, serve
from feddcd.federation.machine.init import create
from feddcd.federation.machine.processes import Group, Program, processes
from feddcd.federation.machine.studies import note_state, state_of, want
from feddcd.federation.status import federation_status
from feddcd.federation.wire import read_refusal, unpack_message
from feddcd.runs.spec import Spec

SLEEP = "import time; time.sleep(99)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}])"


@pytest.fixture
def tmp_path():
    with in_memory() as folder:
        yield folder


def program(folder, name="one", code=PARENT):
    return Program(name, [sys.executable, "-c", code], folder / f"{name}.log", {"MARK": name})


def members(pid):
    return [one for one in processes() if one.group == pid and not one.state.startswith("Z")]


def wait(condition):
    until = time.monotonic() + 300  # the machine may be busy
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_log_does_not_grow_for_ever(tmp_path, monkeypatch):
    """Nor while its program has it open."""
    monkeypatch.setattr("feddcd.federation.machine.processes.LARGEST_LOG", 10)
    group, one = Group(tmp_path / "ids.json"), program(tmp_path)
    group.programs["one"] = one
    with open(one.log, "ab", buffering=0) as log:
        log.write(b"short\n")
        group.dead()
        assert one.log.read_bytes() == b"short\n"
        log.write(b"and then long\n")
        group.dead()
        log.write(b"new\n")
    assert one.log.read_bytes() == b"new\n"
    older = tmp_path / "one.log.1"
    assert older.read_bytes() == b"then long\n"
    assert stat.S_IMODE(older.stat().st_mode) == 0o600


def test_a_program_ends_with_what_it_started(tmp_path):
    group = Group(tmp_path / "ids.json")
    group.start(program(tmp_path))
    pid = group.running["one"].pid
    wait(lambda: len(members(pid)) == 2)
    assert group.dead() == []
    group.end()
    assert members(pid) == []
    assert not (tmp_path / "ids.json").exists()


def test_what_a_program_writes_only_its_owner_reads(tmp_path):
    code = f"print(1); open({str(tmp_path / 'made')!r}, 'w')"
    group = Group(tmp_path / "ids.json")
    group.start(program(tmp_path, code=code))
    group.running["one"].wait()
    for name in ("made", "one.log"):
        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o600, name
    group.stop("one")
    assert group.dead() == []
    group.end()


def test_a_program_that_died_is_started_again_without_its_orphans(tmp_path):
    group = Group(tmp_path / "ids.json")
    try:
        group.start(program(tmp_path))
        first = group.running["one"].pid
        wait(lambda: len(members(first)) == 2)
        os.kill(first, signal.SIGKILL)
        wait(lambda: group.dead() == ["one"])
        assert len(members(first)) == 1, "its child lives on"
        group.again("one")
        wait(lambda: members(first) == [])
        second = group.running["one"].pid
        assert second != first
        assert group.dead() == []
        assert json.loads((tmp_path / "ids.json").read_text())["one"][0] == second
    finally:
        group.end()


def test_the_next_process_ends_what_a_killed_one_left_behind(tmp_path):
    left = Group(tmp_path / "ids.json")
    left.start(program(tmp_path))
    process = left.running["one"]
    wait(lambda: len(members(process.pid)) == 2)
    Group(tmp_path / "ids.json")  # as after a crash: only the file is known
    assert members(process.pid) == []
    process.wait()


STARTER = """
import sys, time
from pathlib import Path
from feddcd.federation.machine.processes import Group, Program
folder, code = Path(sys.argv[1]), sys.argv[2]
Group(folder / "ids.json").start(Program("one", [sys.executable, "-c", code], folder / "log", {}))
time.sleep(99)
"""
HELD = f"from feddcd.federation.machine._lifeline import end_with_starter as e; e(); {PARENT}"


def test_programs_do_not_outlive_a_process_that_was_killed(tmp_path):
    """Nor what they started."""
    starter = subprocess.Popen([sys.executable, "-c", STARTER, str(tmp_path), HELD])
    ids = tmp_path / "ids.json"
    wait(ids.exists)
    pid, _ = json.loads(ids.read_text())["one"]
    wait(lambda: len(members(pid)) == 2)
    starter.kill()
    starter.wait()
    wait(lambda: members(pid) == [])
    assert Group(ids).after_crash
    assert not Group(ids).after_crash, "it is over"


class Called(Exception):
    pass


@pytest.mark.parametrize("module", [conduct, gate, serve])
def test_every_program_ends_with_who_started_it(module, tmp_path, monkeypatch):
    def called():
        raise Called

    monkeypatch.setattr(module, "end_with_starter", called)
    monkeypatch.setattr(serve, "load_place", lambda folder: None)
    monkeypatch.setattr(serve, "load_limits", lambda folder: (1.0, 1))
    monkeypatch.setattr("feddcd.flower.answering.start_answering", lambda *args: None)
    monkeypatch.setattr(sys, "argv", ["program", str(tmp_path)])
    with pytest.raises(Called):
        module.main()


def test_who_follows_a_study_hears_that_nobody_serves(tmp_path, monkeypatch):
    """And which command to give; a study that runs is not wanted once more."""
    config = Config("test", plan=RegressionPlan("y ~ age", "gaussian"))
    home = create(tmp_path / "a fed", ["north", "south", "west"], config)
    text = '[glm]\nformula = "y ~ age"\nfamily = "gaussian"\n'
    study, said = want(home, "first", text), []
    note_state(study, "running")
    assert state_of(want(home, "first", text))["state"] == "running"
    up = iter([True, False, False, True])

    def is_up(folder):
        if (now := next(up, None)) is None:
            note_state(study, "done")
        return now is not False

    monkeypatch.setattr(_studies, "is_up", is_up)
    monkeypatch.setattr(_studies, "POLL_S", 0.0)
    monkeypatch.setattr(_studies, "say", said.append)
    monkeypatch.chdir(tmp_path)
    _studies._follow(study)
    assert len(said) == 4
    why = "because the command `feddcd federation serve` was stopped or killed"
    assert said[0] == f"study 'first' does not continue, {why}"
    assert said[1].endswith("in another terminal: feddcd federation serve 'a fed'")
    assert said[3] == "the port is open again"
    note_state(study, "running")
    held = federation_status(home)
    assert [one["stands"] for one in held["studies"]] == ["stopped: nobody serves"]
    told = "open the port, so that study 'first' continues: feddcd federation serve 'a fed'"
    assert held["next"] == told
    told = "port: closed, because the command `feddcd federation serve` does not run"
    assert told in "\n".join(lines_of(held))


def test_a_stranger_with_an_old_id_is_left_alone(tmp_path):
    stranger = subprocess.Popen([sys.executable, "-c", SLEEP], start_new_session=True)
    try:
        (tmp_path / "ids.json").write_text(json.dumps({"one": [stranger.pid, "another time"]}))
        Group(tmp_path / "ids.json")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


@pytest.mark.parametrize(
    ("node", "run"),
    [
        ({}, {}),
        ({"partition-id": "one"}, {"folder": "/"}),
        ({"partition-id": 0}, {"folder": "/no/such/folder"}),
        ({"partition-id": 0}, {}),
    ],
)
def test_a_site_that_cannot_start_says_so_without_paths(node, run, capsys):
    said = read_refusal(unpack_message(answer_node(b"", node, run)))
    assert (
        said.reason
        == "feddcd cannot use the settings of one SuperNode; the log of that SuperNode says why"
    )
    assert "this site cannot start" in capsys.readouterr().err


@pytest.mark.chaos
def test_a_federation_in_one_process_whose_messages_get_lost(tmp_path, capsys, monkeypatch):
    for waiting in (_training, nodes):
        monkeypatch.setattr(waiting, "PAUSE_S", 0.01)
    spec = Spec(model="ridge", l2=20.0, weighting="samples", rounds=24)
    config = Config("test", spec, patience=60.0, deadline=5.0)
    names = ["north", "south", "west"]
    home = create(tmp_path / "fed", names, config, data=load("wine"))
    simulate_command(home.path, Trial(loss=0.2, seed=1))
    said = json.loads((home.server / "summary.json").read_text())
    assert said["rounds"] == 24
    assert said["uploads"] < 72, "some were lost"
    assert said["certified_gap"] <= 1e-8
    assert said["dual_residual"] <= 1e-10
    assert verify(home).records == 1 + 1 + 3 + 24  # founded, started, joined, summed
    shown = capsys.readouterr().out
    assert "does not answer; the coordinator asks again" in shown
    with pytest.raises(SpecError, match=r"--loss, .* must be at least 0 and below 1; got 1.5"):
        simulate_command(home.path, Trial(loss=1.5, seed=1))
