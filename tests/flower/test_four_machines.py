"""Enrolment on four machines with homes of their own, from a wheel, without the source tree."""

import sys
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("flwr")
sys.path.append(str(Path(__file__).parents[2] / "benchmarks"))

import enrol
from enrol import listens, play

from feddcd.cli._serving import serve_command
from feddcd.federation.config import Config
from feddcd.federation.machine import serving
from feddcd.federation.machine.init import create


def test_it_waits_for_what_serve_prints(tmp_path, monkeypatch, capsys):
    """The log of a `serve` whose port is open, and of one whose port is not open yet."""
    seen, log = [], tmp_path / "serve.log"

    def written() -> None:
        log.write_text(capsys.readouterr().out)
        seen.append(listens(log))

    class Keeper:
        stale = False

        def __init__(self, *given):
            written()

        def look(self):
            raise KeyboardInterrupt

    group = SimpleNamespace(after_crash=False, dead=list)
    monkeypatch.setattr(serving, "opened", lambda *a, **b: nullcontext(group))
    monkeypatch.setattr(serving, "Keeper", Keeper)
    serve_command(create(tmp_path / "fed", [], Config("fed")).path)
    written()
    assert seen == [False, True]


def test_it_does_not_wait_for_a_program_that_ended(tmp_path, monkeypatch):
    machine = object.__new__(enrol.Machine)
    machine.folder = machine.home = tmp_path
    machine.python, machine.running = Path(sys.executable), {}
    monkeypatch.setattr(enrol, "LIMIT_S", 60.0)
    log = machine.start("serve", "no-such-folder")
    with pytest.raises(SystemExit, match="ended with exit code"):
        enrol.wait("the port", lambda: listens(log), [machine], pause=0.1)


@pytest.mark.chaos
@pytest.mark.processes
def test_from_zero_to_a_table(tmp_path):
    """Fifteen minutes for people; programs need far less."""
    minutes = play(tmp_path)
    assert 0 < minutes["connected"] < minutes["table"]
