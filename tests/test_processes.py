"""Programs in groups, ended by their ids, also by a process that did not start them."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

from feddcd.federation import answer_node
from feddcd.federation.parcels import opened, refusal
from feddcd.federation.processes import Group, Program, listed

SLEEP = "import time; time.sleep(99)"
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {SLEEP!r}])"


def program(folder, name="one", code=PARENT):
    return Program(name, [sys.executable, "-c", code], folder / f"{name}.log", {"MARK": name})


def members(pid):
    return [one for one in listed() if one.group == pid and not one.state.startswith("Z")]


def wait(condition):
    until = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_program_ends_with_what_it_started(tmp_path):
    group = Group(tmp_path / "ids.json")
    group.start(program(tmp_path))
    pid = group.running["one"].pid
    wait(lambda: len(members(pid)) == 2)
    assert group.dead() == []
    group.end()
    assert members(pid) == []
    assert not (tmp_path / "ids.json").exists()


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
        ({"client-id": "a"}, {}),
        ({"partition-id": 0}, {"folder": "/no/such/folder"}),
        ({"partition-id": 0}, {}),
    ],
)
def test_a_site_that_cannot_start_says_so_without_paths(node, run, capsys):
    said = refusal(opened(answer_node(b"", node, run)))
    assert said.reason == "a site's node config cannot be used; its SuperNode's log says why"
    assert "this site cannot start" in capsys.readouterr().err
