"""A copy of a site's folder, or a thief: the coordinator notes it, and `serve` says it."""

import os
import time

from feddcd.cli._status import lines_of, page_of, status_of
from feddcd.cli._tables import show_event
from feddcd.federation.config import Config
from feddcd.federation.machine import rivals as rivals_of
from feddcd.federation.machine.init import create
from feddcd.federation.machine.keys import public_pem
from feddcd.federation.machine.rivals import Rivals


def test_another_program_with_the_key_of_a_site_is_noted_once(tmp_path, capsys):
    home, now = create(tmp_path / "fed", ["east", "north"], Config("t")), [0.0]
    rivals, key = Rivals(home, lambda: now[0]), public_pem(home.key("north").read_bytes())

    def tries(seconds, key=key):
        for _ in range(seconds // 10):
            now[0] += 10.0
            rivals.held_off(key)
        return [e["site"] for _, e in home.read_events() if e["event"] == "two programs"]

    assert tries(60) == [], "perhaps it was killed and started again"
    now[0] += 600.0
    assert tries(60) == [], "and once more"
    assert tries(60) == ["north"]
    assert tries(600) == ["north"]
    now[0] += 600.0
    assert tries(200) == ["north", "north"]
    assert tries(200, b"no key of a site") == ["north", "north"]
    for _, event in home.read_events():
        show_event(event)
    said = capsys.readouterr().out.replace("\n", " ")
    assert "another program tries to connect with the key of north, too" in said
    assert "feddcd federation retire DIR north" in said


def test_the_status_and_its_page_name_a_key_that_two_programs_use(tmp_path, monkeypatch):
    """For a day after the last try; and what to do first, while it tries."""
    home, clock = create(tmp_path / "fed", ["east", "north"], Config("t")), [1.8e9]
    os.utime(home.key("north"), (1.8e9, 1.8e9))
    monkeypatch.setattr(time, "time", lambda: clock[0])
    rivals, key = Rivals(home, lambda: clock[0]), public_pem(home.key("north").read_bytes())

    def told():
        held = status_of(home.path)
        said = "but another program tries to connect with the key of north, too"
        said = f"north is connected, {said}"
        assert (said in page_of(held)) == (said in "\n".join(lines_of(held)))
        return said in "\n".join(lines_of(held)), "call the person at north" in held["next"]

    for _ in range(11):
        assert told() == (False, False)
        rivals.held_off(key)
        clock[0] += 10.0
    for _ in range(12):
        assert told() == (True, True)
        rivals.held_off(key)
        clock[0] += 10.0
    clock[0] += 3600.0
    assert told() == (True, False)
    os.utime(home.key("north"), (clock[0], clock[0]))
    assert told() == (False, False), "it enrolled again, with another key"
    os.utime(home.key("north"), (1.8e9, 1.8e9))
    assert told() == (True, False)
    clock[0] += rivals_of.SHOWN_S
    assert told() == (False, False)
