"""A copy of a site's folder, or a thief: the coordinator notes it, and `serve` says it."""

from feddcd.cli._tables import show_event
from feddcd.federation.config import Config
from feddcd.federation.machine._rivals import Rivals
from feddcd.federation.machine.init import create
from feddcd.federation.machine.keys import public_pem


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
    assert "another program tries to connect with its key, too" in said
    assert "feddcd federation retire DIR north" in said
