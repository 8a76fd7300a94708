"""A count of one takes a noun of one: 1 problem, not 1 problems."""

import pytest

from feddcd._errors import FeddcdError
from feddcd.analysis._robust import notes
from feddcd.cli import _race
from feddcd.cli._stopping import nothing_to_do
from feddcd.data.partition import partition
from feddcd.race.cells import RaceCell
from feddcd.race.problems import choose
from feddcd.runs.spec import Spec


class EnoughSaid(Exception):
    pass


@pytest.mark.parametrize(
    ("runs", "said"),
    [(1, "1 run: 1 problem, 1 method, "), (2, "2 runs: 1 problem, 1 method, ")],
)
def test_a_race_of_one_problem(tmp_path, monkeypatch, capsys, runs, said):
    def stop(folder):
        raise EnoughSaid

    settings = {"seeds": 1, "tune": False, "target": 1e-6, "limit": 1.0, "processes": 1}
    wish = _race.RaceWishes(["wine-iid-2"], [], ["fedqn"], [1.0], [8], **settings)
    cell = RaceCell(choose(["wine-iid-2"], [])[0], 1.0, "fedqn", 8)
    monkeypatch.setattr(_race, "cells", lambda *of: runs * [cell])
    monkeypatch.setattr(_race, "_done", lambda *of: 0)
    monkeypatch.setattr(_race, "keep_programs", stop)
    with pytest.raises(EnoughSaid):
        _race.race_command(wish, tmp_path, quiet=True)
    assert said in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda: partition([0, 1], "group", 2, groups=[5, 5]), "has 1 group, but N=2"),
    ],
)
def test_errors(act, said):
    with pytest.raises(FeddcdError) as error:
        act()
    assert said in str(error.value)


def test_notes():
    assert "there is only 1 cluster" in notes("cluster", 1)[1]
    assert "there are only 2 clusters" in notes("cluster", 2)[1]
    assert nothing_to_do(Spec(rounds=1), 1).startswith("The run already has 1 round.")
