"""The race: which runs, what is kept, who is compared with whom, and the page."""

import csv
import dataclasses
import json
import os
import re
import shlex
import signal
from concurrent.futures import Future
from html import unescape

import numpy as np
import pytest

from docs_blocks import DOCS, blocks, printed
from feddcd._errors import DataError, SpecError
from feddcd._origin import with_origin
from feddcd.algorithms import catalogue
from feddcd.cli._race import RaceWishes, race_command
from feddcd.cli.app import main
from feddcd.race import _play as play
from feddcd.race import grid, methods, page
from feddcd.race._findings import findings
from feddcd.race.cells import (
    CHUNK,
    SHARES,
    TUNING_SEED,
    RaceCell,
    RaceOutcome,
    cells,
    read_outcome,
    trials,
)
from feddcd.race.page import FILES, write_race
from feddcd.race.problems import PROBLEMS, RaceProblem, choose
from feddcd.race.profile import Place, RaceEntry, costs, gather, profile, ratios
from feddcd.race.sizes import SIZES, size_of, source_of
from feddcd.race.standing import Standing, standings
from feddcd.report.methods import title
from feddcd.runs.interrupt import Interrupted

WINE, CANCER = (
    next(p for p in PROBLEMS if p.name == name) for name in ("wine-iid-2", "cancer-dirichlet-2")
)
TWO = ["wine-iid-2", "cancer-dirichlet-2"]


def outcome(up, **more) -> RaceOutcome:
    levels = [1e-3, 1e-6, 1e-9]
    given = {"chosen": {}, "seconds": 0.0, "size": 10, "ended": "reached"} | more
    counts = [1, 2, 3]
    given = {"down": up} | given
    return RaceOutcome(gap=levels, rounds=counts, up=up, uploads=counts, steps=counts, **given)


def test_the_sizes_of_problems_are_those_of_their_data():
    """Of all whose data are at hand; `feddcd list problems` and docs/race.md have them."""
    seen = 0
    for problem in PROBLEMS:
        size = size_of(problem)
        try:
            data = problem.load()
        except DataError:
            continue
        classes = len(np.unique(data.y)) if problem.model == "softmax" else 1
        clients = len(play._parts(data, problem))
        assert size == (len(data.y), data.X.shape[1] * classes, clients), problem.name
        seen += 1
    assert seen >= 7
    assert {problem.data for problem in PROBLEMS} == {*SIZES}


def test_a_problem_says_where_its_data_come_from():
    found = {problem.name: source_of(problem) for problem in PROBLEMS}
    assert found["indo-3"] == found["randhie-3"] == "feddcd[race]"
    assert found["wine-iid-2"] == "feddcd[train]"
    assert found["a9a-iid-3"] == "feddcd data fetch a9a"
    assert found["rcv1-iid-3"] == "rcv1-subset (no download)"
    for problem in PROBLEMS:
        natural = problem.data.startswith("natural:")
        assert (found[problem.name] == "feddcd[race]") == natural


def test_there_are_problems_enough_and_rules_are_scored_on_others():
    assert len(PROBLEMS) >= 20
    assert len({p.name for p in PROBLEMS}) == len(PROBLEMS)
    assert len(SHARES) == 3
    halves = [p.half for p in PROBLEMS]
    assert halves.count("scored") >= 10
    assert halves.count("made") >= 10


def test_a_file_adds_a_problem(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('data = "wine"\nmodel = "softmax"\nl2 = 0.1\nclients = 4\n')
    (found,) = choose([], [file])
    assert found == RaceProblem("mine", "wine", "softmax", 0.1, clients=4, half="own")
    file.write_text('data = "wine"\nmodel = "softmax"\nl2 = 0.1\nclient = 4\n')
    with pytest.raises(SpecError, match="client"):
        choose([], [file])
    with pytest.raises(SpecError, match="phishing-iid-3"):
        choose(["phishing-iid-4"], [])


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("l2 = 0", "a problem of the race needs a penalty l2 above 0, got l2 = 0"),
        (
            'l2 = "0.1"',
            "the setting 'l2' should be a number, got '0.1'; write the number without quotes",
        ),
        ('l2 = 1\nclients = "many"', "the setting 'clients' should be a whole number, got 'many'"),
        (
            'l2 = 1\nhalf = "third"',
            "the setting 'half' must be 'made', 'scored' or 'own', got 'third'",
        ),
    ],
)
def test_a_wrong_value_in_the_file_of_a_problem_is_said_with_the_file(tmp_path, wrong, message):
    file = tmp_path / "mine.toml"
    file.write_text(f'data = "wine"\nmodel = "softmax"\n{wrong}\n')
    with pytest.raises(SpecError) as refused:
        choose([], [file])
    assert str(refused.value) == f"{file}: {message}"


def test_an_unknown_model_is_said_before_the_race(tmp_path):
    file = tmp_path / "mine.toml"
    file.write_text('data = "wine"\nmodel = "softmx"\nl2 = 1\n')
    with pytest.raises(SpecError, match=r"mine.toml: unknown model 'softmx'; did you mean 'softm"):
        choose([], [file])


def test_clients_that_no_rows_can_have_are_said_with_the_problem(tmp_path):
    many = dataclasses.replace(WINE, name="many", clients=4000)
    found = grid.jobs(tmp_path, cells([many], ["pointsaga"], (0.3,), (64,), 1), False)
    (said,) = grid.run_race(found, 1, lambda *_: None)
    assert re.search(r"^the problem 'many': N, the number of clients, must be .* N=4000", said)


def test_data_beside_the_file_of_a_problem_are_found(tmp_path, monkeypatch):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "mine.csv").write_text("y,x\n0,1\n1,2\n")
    file = tmp_path / "sub" / "mine.toml"
    file.write_text('data = "mine.csv"\nmodel = "logistic"\nl2 = 0.1\nclients = 2\nlabel = "y"\n')
    monkeypatch.chdir(tmp_path)
    assert len(choose([], [file])[0].load().y) == 2
    monkeypatch.chdir(tmp_path / "sub")
    assert choose([], [file.relative_to(tmp_path / "sub")])[0].data == "mine.csv"


def test_no_two_problems_have_one_name(tmp_path):
    """Their runs would be one row, with the median of both."""
    text = 'data = "wine"\nmodel = "softmax"\nl2 = 0.1\nclients = 4\n'
    files = [tmp_path / "a" / "mine.toml", tmp_path / "b" / "mine.toml"]
    for file in files:
        file.parent.mkdir()
        file.write_text(text)
    with pytest.raises(SpecError, match=r"b/mine.toml: the file .*a/mine.toml already has a prob"):
        choose([], files)
    files[0].write_text(f'name = "wine-iid-2"\n{text}')
    for names in (["wine-iid-2"], []):
        with pytest.raises(SpecError, match="feddcd already has a problem called 'wine-iid-2'; wr"):
            choose(names, files)
    assert choose(["wine-iid-2"] * 2, files[1:]) == [WINE, *choose([], files[1:])]


@pytest.fixture
def fedsplit(tmp_path, monkeypatch):
    """The file of the page on adding an algorithm."""
    monkeypatch.setattr(catalogue, "_added", {})
    monkeypatch.setattr(methods, "_digests", {})
    monkeypatch.setattr(methods, "_files", {})
    (code,) = [b.code for b in blocks(DOCS / "adding.md") if b.title == "fedsplit.py"]
    file = tmp_path / "fedsplit.py"
    file.write_text(code)
    return file


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.chaos)])
def test_a_file_adds_a_method(processes, fedsplit, tmp_path, monkeypatch):
    """The file alone, in each process; another file is another method. It reaches the optimum."""
    monkeypatch.chdir(tmp_path)
    (line,) = [line for line in printed(DOCS / "adding.md") if line.startswith("feddcd race ")]
    with pytest.raises(SystemExit) as stop:
        main([*shlex.split(line)[1:], "--jobs", str(processes), "--quiet"])
    assert not stop.value.code
    (cell,) = (tmp_path / "race" / "cells").glob("*-fedsplit-*")
    found = read_outcome(cell)
    assert found is not None
    assert found.ended == "reached"
    assert found.gap[-1] <= 1e-9
    text = (tmp_path / "race" / "report.html").read_text()
    assert "FedSplit" in text
    where = "wine</td><td>softmax</td><td>0.01</td><td>iid</td>"
    assert f"{where}<td>8</td><td>142</td><td>39</td>" in text
    assert "&quot;own&quot;: the file of a problem of your own that does not name a half" in text
    assert not re.search(r"\b([Ww]e|[Oo]ur)\b", FILES)
    same = RaceCell(WINE, 1.0, "fedsplit", seed=1)
    assert cell.stem == same.id
    told = "another file already has a method with the name 'fedsplit'; give yours another name"
    with pytest.raises(SpecError, match=told):
        methods.add_methods([_copy(fedsplit, "# changed\n")])
    methods._digests.clear()
    methods.add_methods([_copy(fedsplit, "# changed\n")])
    assert cell.stem != same.id


def _copy(file, more):
    other = file.with_name("other.py")
    other.write_text(file.read_text() + more)
    return other


def test_a_file_that_adds_no_method_is_told(fedsplit, tmp_path):
    own = fedsplit.read_text()
    for text, reason in (
        ("import nowhere", "cannot run this file: ModuleNotFoundError: No module named 'nowhere'"),
        ("def f(:", "cannot run this file: SyntaxError"),
        ("from feddcd.algorithms.feddcd import FEDDCD", "this file has no method"),
        (
            own.replace('name="fedsplit"', 'name="feddcd"'),
            "feddcd already has a method with the name 'feddcd'; give yours another name",
        ),
    ):
        file = tmp_path / "own.py"
        file.write_text(text)
        with pytest.raises(SpecError, match=reason) as told:
            methods.add_methods([file])
        assert str(told.value).startswith(f"{file}: ")
    with pytest.raises(SpecError, match=r"nofile\.py: no such file"):
        methods.add_methods([tmp_path / "nofile.py"])
    assert not {"fedsplit", "nofile"} & set(catalogue.methods())


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (
            "w), Upload(move",
            "w), (move",
            r"own\.py: FedSplit.client_step must return \(client, Upl",
        ),
        (
            "client, down, key):",
            "client, down):",
            r"own\.py: TypeError: FedSplit.client_step\(\) t",
        ),
        (
            "client.z, move",
            "client.q, move",
            r"own\.py, line \d+, in client_step: AttributeError: ",
        ),
        ("self, server, clients, weights", "self, server", r"own\.py: TypeError: .*residuals\(\)"),
        (
            '{"a": number()}',
            '{"betta": number()}',
            r"own\.py: .*, but its class FedSplit has no field 'betta'",
        ),
    ],
)
def test_a_mistake_in_a_method_is_said_before_the_race(old, new, reason, fedsplit, tmp_path):
    """In one line with its file, and not by a traceback in the middle."""
    file = tmp_path / "own.py"
    file.write_text(text := fedsplit.read_text().replace(old, new))
    assert text != fedsplit.read_text()
    wish = RaceWishes(["wine-iid-2"], [], [], [1.0], [8], 1, False, 1e-6, 10, 1, None, [file])
    with pytest.raises(SpecError, match=reason):
        race_command(wish, tmp_path / "race", quiet=True)
    assert not (tmp_path / "race").exists()


def test_later_errors_of_a_method_name_its_file_too(fedsplit, monkeypatch):
    def fail(*_):
        raise TypeError("no such shape\nmore")

    monkeypatch.setattr(play, "_play", fail)
    cell = RaceCell(WINE, 1.0, "fedsplit")
    with pytest.raises(TypeError):
        play.play(cell)
    methods.add_methods([fedsplit])
    with pytest.raises(SpecError, match=r"fedsplit\.py: TypeError: no such shape$"):
        play.play(cell)


def test_everyone_is_asked_only_where_everyone_is_there():
    found = list(cells([WINE], ["giant", "pointsaga"], SHARES, (64,), 1))
    assert [(c.method, c.share) for c in found] == [
        ("pointsaga", 0.1), ("pointsaga", 0.3), ("giant", 1.0), ("pointsaga", 1.0),
    ]  # fmt: skip


def test_a_cell_is_named_by_what_determines_its_numbers():
    cell = RaceCell(WINE, 0.3, "pointsaga")
    assert cell.id == dataclasses.replace(cell, tuned=True).id
    half = dataclasses.replace(WINE, half="made")
    assert cell.id == dataclasses.replace(cell, problem=half).id
    others = [
        dataclasses.replace(cell, seed=2),
        dataclasses.replace(cell, bits=8),
        dataclasses.replace(cell, settings=(("rho", 1.0),)),
        dataclasses.replace(cell, problem=dataclasses.replace(WINE, l2=1.0)),
    ]
    assert len({cell.id, *(c.id for c in others)}) == 5


@pytest.mark.parametrize(
    ("shares", "bits", "seeds", "reason"),
    [
        ((2.0,), (64,), 1, "at most 1, got 2"),
        ((0.0,), (64,), 1, "above 0"),
        ((float("nan"),), (64,), 1, "got nan"),
        ((0.3,), (7,), 1, "the number of bits must be one of 8, 16, 32, 64, got 7"),
        ((0.3,), (64,), 0, "at least one seed, got 0"),
    ],
)
def test_a_race_that_cannot_be_run_is_refused(shares, bits, seeds, reason):
    with pytest.raises(SpecError, match=reason):
        list(cells([WINE], ["pointsaga"], shares, bits, seeds))


@pytest.mark.parametrize(
    ("share", "hint"), [(30.0, "; for 30 %, give 0.3"), (0.0, ""), (2000.0, "")]
)
def test_a_share_in_percent_is_said_as_the_number_to_give(tmp_path, share, hint):
    wish = RaceWishes(["wine-iid-2"], [], ["pointsaga"], [share], [64], 1, False, 1e-6, 8000, 1)
    with pytest.raises(SpecError) as refused:
        race_command(wish, tmp_path, True)
    told = f"--share must be above 0 and at most 1, got {share:g}{hint}"
    assert str(refused.value) == told


def test_a_wrong_folder_or_number_of_processes_is_said_first(tmp_path, capsys):
    wish = RaceWishes(["wine-iid-2"], [], ["pointsaga"], [0.3], [64], 1, False, 1e-6, 8000, 0)
    with pytest.raises(SpecError, match="--jobs must be at least 1, got 0"):
        race_command(wish, tmp_path, False)
    (tmp_path / "file").write_text("")
    with pytest.raises(
        SpecError, match=r"--out must name a folder, but .*file is a file; give another"
    ):
        race_command(wish._replace(processes=1), tmp_path / "file", False)
    assert capsys.readouterr().out == ""


def test_progress_counts_the_runs_and_says_what_an_earlier_command_did(
    tmp_path, monkeypatch, capsys
):
    run = lambda cell, stop: outcome([10.0, 20.0, 30.0])
    monkeypatch.setattr(play, "play", run)
    wish = RaceWishes(
        ["wine-iid-2"], [], ["fedqn", "pointsaga"], [0.3], [64], 3, False, 1e-6, 8000, 1
    )
    race_command(wish._replace(methods=["fedqn"]), tmp_path, False)
    first = capsys.readouterr()
    assert "already" not in first.out
    assert "3 of 3 runs are finished; the last: wine-iid-2, 30 %, fedqn" in first.err
    race_command(wish._replace(behind=3.0), tmp_path / "behind", False)
    assert "6 of 6 runs are finished; the last: wine-iid-2, 30 %, po" in capsys.readouterr().err
    race_command(wish, tmp_path, False)
    assert (
        "3 of 6 runs are finished already; feddcd does not run finished runs again"
        in capsys.readouterr().out
    )


def test_a_problem_that_could_not_run_is_not_counted(tmp_path, monkeypatch, capsys):
    def run(cell, stop):
        if cell.problem != WINE:
            raise DataError("to load the data, feddcd needs a package")
        return outcome([10.0, 20.0, 30.0])

    monkeypatch.setattr(play, "play", run)
    names = ["wine-iid-2", "cancer-dirichlet-2"]
    wish = RaceWishes(names, [], ["pointsaga"], [0.3], [64], 1, False, 1e-6, 8000, 1)
    monkeypatch.setattr("feddcd.cli._terminal.LINE_S", 0.0)  # every line is shown
    race_command(wish, tmp_path, False)
    said = capsys.readouterr().err
    assert "1 of 2 runs is finished; the last: wine-iid-2, 30 %, pointsaga" in said
    assert "2 of 2" not in said
    assert (
        "note: left out: the problem 'cancer-dirichlet-2': to load the data, feddcd needs a" in said
    )
    for folder in (tmp_path, tmp_path / "empty"):  # whether or not others have run there
        with pytest.raises(SpecError, match=r"^no problem could be run$"):
            race_command(wish._replace(problems=names[1:]), folder, False)


def test_a_race_says_whose_results_it_writes_over(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(play, "play", lambda cell, stop: outcome([10.0, 20.0, 30.0]))
    wish = RaceWishes(["wine-iid-2"], [], ["pointsaga"], [0.3], [64], 1, False, 1e-6, 8000, 1)
    race_command(wish, tmp_path, True)
    race_command(wish._replace(methods=["pointsaga", "fedqn"]), tmp_path, True)  # with all of them
    assert "note:" not in capsys.readouterr().err
    race_command(wish._replace(problems=["cancer-dirichlet-2"]), tmp_path, False)
    said = capsys.readouterr().err
    assert (
        "also contain runs of: wine-iid-2 (fedqn, pointsaga). This command writes these files again"
        in said
    )
    assert f"stay in the folder {tmp_path / 'cells'}" in said
    race_command(wish, tmp_path, False)
    told = capsys.readouterr()
    assert "also contain runs of: cancer-dirichlet-2 (pointsaga)." in told.err
    assert "1 of 1 run is finished already" in told.out


def test_a_race_needs_a_process(tmp_path):
    with pytest.raises(
        SpecError, match="the setting 'processes' of the race must be at least 1; got 0"
    ):
        grid.run_race([], 0, lambda *_: None)


def test_what_is_finished_is_not_run_again(tmp_path, monkeypatch):
    played = []

    def run(cell, stop):
        played.append(cell.seed)
        return outcome([10.0, 20.0, 30.0])

    monkeypatch.setattr(play, "play", run)
    found = grid.jobs(tmp_path, cells([WINE], ["pointsaga"], (0.3,), (64,), 3), False)
    assert grid.run_race(found, 1, lambda *_: None) == []
    assert played == [1, 2, 3]
    broken = found[0].cells[1].file(tmp_path)
    broken.write_text(broken.read_text()[:-20])  # as a full disk leaves it
    grid.run_race(found, 1, lambda *_: None)
    assert played == [1, 2, 3, 2]
    assert read_outcome(broken) is not None


def test_ctrl_c_keeps_finished_runs_and_the_same_command_continues(tmp_path, monkeypatch, capsys):
    played = []

    def run(cell, stop):
        played.append(cell.seed)
        if played == [1, 2]:
            os.kill(os.getpid(), signal.SIGINT)
            assert stop()
            raise Interrupted
        return outcome([10.0, 20.0, 30.0])

    monkeypatch.setattr(play, "play", run)
    wish = RaceWishes(["wine-iid-2"], [], ["pointsaga"], [0.3], [64], 3, False, 1e-6, 8000, 1)
    typed = with_origin(command="feddcd race --out 'my race'")
    with typed, pytest.raises(SystemExit) as end:
        race_command(wish, tmp_path, True)
    assert end.value.code == 130
    said = capsys.readouterr().out
    assert f"1 of 3 runs is finished and saved in the folder {tmp_path / 'cells'}" in said
    assert "use the same command again: feddcd race --out 'my race'" in said
    assert f"the finished runs are also in {tmp_path / 'race.csv'}" in said
    with open(tmp_path / "race.csv", newline="") as file:
        assert {row["seeds"] for row in csv.DictReader(file)} == {"1"}
    race_command(wish, tmp_path, True)
    assert played == [1, 2, 2, 3]


def test_ctrl_c_does_not_wait_for_the_runs_of_other_processes():
    with pytest.raises(Interrupted):
        list(grid._as_completed({Future()}, lambda: True))


def test_a_race_without_a_run_says_why(tmp_path):
    wish = RaceWishes(["wine-iid-2"], [], ["scaffnew"], [0.3], [64], 1, False, 1e-6, 8000, 1)
    with pytest.raises(SpecError, match=r"no runs: the method 'scaffnew' needs all .*--share 1"):
        race_command(wish, tmp_path, True)


def test_the_race_names_a_method_that_has_no_run(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(play, "play", lambda cell, stop: outcome([1.0] * 3))
    runners = ["pointsaga", "scaffnew"]
    wish = RaceWishes(["wine-iid-2"], [], runners, [0.3], [64], 1, False, 1e-6, 8000, 1)
    race_command(wish, tmp_path, True)
    assert "left out: the method 'scaffnew' needs all clients" in capsys.readouterr().err
    report = unescape((tmp_path / "report.html").read_text("utf-8"))
    assert "Left out: the method 'scaffnew' needs all clients" in report


def test_a_higher_limit_runs_only_what_the_lower_one_cut_off(tmp_path, monkeypatch):
    played = []

    def run(cell, stop):
        played.append((cell.method, cell.limit))
        ended = "limit" if cell.method == "fedavg" else "reached"
        return outcome([10.0, 20.0, 30.0], ended=ended, limit=cell.limit)

    monkeypatch.setattr(play, "play", run)
    for limit in (100, 1000, 500):
        todo = cells([WINE], ["pointsaga", "fedavg"], (0.3,), (64,), 1, limit)
        grid.run_race(grid.jobs(tmp_path, todo, False), 1, lambda *_: None)
    assert played == [("pointsaga", 100), ("fedavg", 100), ("fedavg", 1000)]


def test_a_race_stops_who_is_far_behind_the_first_method(tmp_path, monkeypatch):
    """The leader sent 20 bytes of 8 x 10 to 1e-6, so a quarter of a model."""
    played = {}

    def run(cell, stop):
        played[cell.method, cell.bits, cell.seed] = cell.limit
        reached = cell.bits == 64
        return outcome([10.0, 20.0, 30.0] if reached else [1.0, np.inf, np.inf], chosen={"rho": 1})

    monkeypatch.setattr(play, "play", run)
    wish = RaceWishes(
        ["wine-iid-2"], [], ["fedqn", "pointsaga"], [0.3], [64, 8], 1, True, 1e-6, 500, 1, 3.0
    )
    race_command(wish, tmp_path, True)
    assert played["fedqn", 64, 1] == played["fedqn", 8, 1] == 500
    assert played["pointsaga", 64, 1] == pytest.approx(0.75)
    assert played["pointsaga", 8, 1] == 500  # the leader did not come there
    assert played["pointsaga", 64, TUNING_SEED] == pytest.approx(0.75)
    page = re.sub("<.*?>", "", (tmp_path / "report.html").read_text())
    assert (
        "feddcd counted the bytes that FedQN needed to reach the gap 1e-6. "
        f"After every {CHUNK} rounds, feddcd stopped each run of any other method whose clients "
        "had sent at least 3 times these bytes.\n" in page
    )
    with pytest.raises(SpecError, match="above 1"):
        race_command(wish._replace(behind=1.0), tmp_path, True)


def test_trials_of_few_bits_may_send_as_many_uploads_in_doubles(tmp_path):
    cell = RaceCell(WINE, 0.3, "pointsaga", bits=8, seed=1, limit=10)
    outcome([1.0, 2.0, 3.0], chosen={"rho": 1.0}).save(cell.file(tmp_path))
    limits = set()
    grid.tuned_settings(tmp_path, cell, lambda one: limits.add(one.limit))
    assert limits == {80}


def test_standings_by_hand():
    """Three places at 30 %: the third is reached by nobody. FedAvg is first at one of two."""
    a, b = RaceEntry("pointsaga", 64, False), RaceEntry("fedavg", 64, False)
    costs_of = {("x", a): 10.0, ("x", b): 30.0, ("y", a): 20.0, ("y", b): 10.0, ("z", a): np.inf}
    results = {
        (Place(name, 0.3, "made"), entry): [outcome([1.0, cost, cost])]
        for (name, entry), cost in costs_of.items()
    }
    (found,) = standings(results, 1e-6)
    assert found.share == 0.3
    assert found.rows == [Standing(a, 2, 0.5, 1.0, 0.5), Standing(b, 2, 0.5, 0.5, 0.5)]


def test_of_equal_methods_the_one_nearer_to_the_best_comes_first():
    """By name, FedAvg would come before Point-SAGA."""
    costs_of = {"fedqn": 10.0, "fedavg": 19.0, "pointsaga": 15.0}
    place = Place("x", 0.3, "made")
    results = {
        (place, RaceEntry(name, 64, False)): [outcome([1.0, cost, cost])]
        for name, cost in costs_of.items()
    }
    (found,) = standings(results, 1e-6)
    assert [row.entry.method for row in found.rows] == ["fedqn", "pointsaga", "fedavg"]
    assert found.rows[1][1:4] == found.rows[2][1:4] == (1, 0.0, 1.0)


@pytest.mark.parametrize(
    ("end", "unit", "title"),
    [(99_999.0, 1e3, "kB sent by the clients"), (100_000.0, 1e6, "MB sent by the clients")],
)
def test_a_small_race_is_drawn_in_kilobytes(end, unit, title):
    assert page._axis("up", [80.0, end]) == (unit, title)
    assert page._axis("rounds", [80.0, end]) == (1.0, "rounds")


def test_the_terminal_says_who_sent_the_fewest_bytes(tmp_path, monkeypatch, capsys):
    cost = {"pointsaga": 80.0, "fedavg": 800.0}
    monkeypatch.setattr(play, "play", lambda cell, stop: outcome([cost[cell.method]] * 3))
    wish = RaceWishes(TWO, [], ["fedavg", "pointsaga"], [0.3], [64], 1, False, 1e-6, 8000, 1)
    race_command(wish, tmp_path, False)
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    rows = [line for line in lines if line[:1] in (["Point-SAGA"], ["FedAvg"])]
    first, last = (["2", *3 * [share, "%"]] for share in ("100", "0"))
    assert rows[:2] == [["Point-SAGA", *first], ["FedAvg", *last]]
    for row, name, cost in zip(rows[2:], 2 * ("Point-SAGA", "FedAvg"), 2 * (80, 800), strict=True):
        assert row == [name, "64", str(cost), str(cost), f"{2 * cost:,}", "2"]


def test_the_server_is_counted_beside_the_clients(tmp_path, monkeypatch, capsys):
    """FedAvg's clients send less; with the server's bytes Point-SAGA needs less."""
    runs = {"pointsaga": outcome([100.0] * 3), "fedavg": outcome([80.0] * 3, down=[900.0] * 3)}
    monkeypatch.setattr(play, "play", lambda cell, stop: runs[cell.method])
    wish = RaceWishes(TWO, [], ["fedavg", "pointsaga"], [0.3], [64], 1, False, 1e-6, 8000, 1)
    race_command(wish, tmp_path, False)
    said = capsys.readouterr().out
    rows = [line.split() for line in said.splitlines()]
    assert ["FedAvg", "2", "100", "%", "100", "%", "0", "%"] in rows
    assert ["Point-SAGA", "2", "0", "%", "100", "%", "100", "%"] in rows
    assert ["FedAvg", "64", "80", "900", "980", "2"] in rows
    top, bottom = (" ".join(line.split()) for line in said.splitlines()[2:4])
    assert (top, bottom) == ("fewest at most fewest", "gap 1e-6 cases bytes up twice up + down")
    size = f"{8 * runs['fedavg'].size} bytes"
    sizes = f"{size} ({TWO[1]}) and {size} ({TWO[0]})"
    note = f"the tables in report.html count in models; one model has {sizes}"
    assert note in " ".join(said.split())
    page = (tmp_path / "report.html").read_text()
    assert "Who is first" in page
    assert "in 2 of 2 cases, the clients send the fewest bytes with FedAvg." in page
    both = "In 2 of 2 cases, clients and server together send the fewest bytes with Point-SAGA."
    assert both in page
    assert "Bytes that the server sent to reach a gap of 1e-6" in page
    with (tmp_path / "race.csv").open() as file:
        assert {row["both"] for row in csv.DictReader(file)} == {"200", "980"}


def test_one_problem_has_no_table_of_shares_of_the_cases(tmp_path, monkeypatch, capsys):
    """It would say 100 % and 0 % beside the bytes themselves."""
    raced(tmp_path, monkeypatch, {"fedqn": outcome([1.0, 2.0, 3.0])}, (0.1, 0.3))
    said = capsys.readouterr().out
    assert "at most" not in " ".join(said.split())
    assert "wine-iid-2, 30 % of the clients" in " ".join(said.split())
    assert "Who is first" not in (tmp_path / "report.html").read_text()


def test_the_head_counts_the_methods_that_run_and_names_those_that_need_all_clients(
    tmp_path, monkeypatch, capsys
):
    found = {name: outcome([1.0, 2.0, 3.0]) for name in ("fedqn", "fedlbfgs", "giant")}
    raced(tmp_path / "all", monkeypatch, found, (0.3, 1.0))
    said = " ".join(capsys.readouterr().out.split())
    assert "8 runs: 1 problem, 3 methods, 2 shares of the clients" in said.split(";")[0]
    assert "with less than 100 % of the clients, L-BFGS and GIANT cannot run" in said
    raced(tmp_path / "some", monkeypatch, found, (0.3,))
    said = " ".join(capsys.readouterr().out.split())
    assert "2 runs: 1 problem, 1 method, " in said
    assert "cannot run" not in said


def test_tuning_has_a_seed_of_its_own_and_takes_the_best(tmp_path, monkeypatch):
    def run(cell, stop):
        rho = dict(cell.settings).get("rho", 1.0)
        return outcome([1.0, 100 * rho, 1000.0], chosen={"rho": 1.0})

    monkeypatch.setattr(play, "play", run)
    todo = list(cells([WINE], ["pointsaga"], (0.3,), (64, 8), 2))
    grid.run_race(grid.jobs(tmp_path, todo, True), 1, lambda *_: None)
    tried = trials(todo[0], {"rho": 1.0})
    assert len(tried) <= 20
    assert {c.seed for c in tried} == {TUNING_SEED}
    results = gather(tmp_path, todo, tuned=True)
    best = costs(results, 1e-6, "up")
    (row,) = best.values()
    assert row[RaceEntry("pointsaga", 64, False)] == 100
    assert row[RaceEntry("pointsaga", 64, True)] == pytest.approx(1.0)
    assert row[RaceEntry("pointsaga", 8, True)] == pytest.approx(1.0)


def test_scaffold_races_with_full_gradients_and_is_tuned_around_them(tmp_path, monkeypatch):
    """With mini-batches it ends above every small gap."""
    (cell,) = cells([CANCER], ["scaffold"], (1.0,), (64,), 1)
    found = play.play(cell)
    assert found.ended == "reached"
    tried = trials(cell, {})
    assert tried[0].settings == cell.settings == (("solver", "gd"),)
    assert all(dict(one.settings)["solver"] == "gd" for one in tried)
    monkeypatch.setattr(play, "play", lambda cell, stop: outcome([1.0, 2.0, 3.0]))
    grid.run_race(grid.jobs(tmp_path, [cell], True), 1, lambda *_: None)
    assert len(list((tmp_path / "cells").iterdir())) == 1 + len(tried)  # its own are the best
    _, (tuned,) = gather(tmp_path, [cell], tuned=True).values()
    assert tuned.up == [1.0, 2.0, 3.0]


def test_data_that_are_not_at_hand_are_named_and_the_race_goes_on(tmp_path, monkeypatch):
    def run(cell, stop):
        raise DataError("mnist is not here")

    monkeypatch.setattr(play, "play", run)
    for problems, who in (
        ([WINE], "the problem 'wine-iid-2'"),
        ([WINE, CANCER], "the problems 'cancer-dirichlet-2' and 'wine-iid-2'"),
    ):
        found = grid.jobs(tmp_path, cells(problems, ["pointsaga"], (0.3, 1.0), (64,), 1), False)
        assert grid.run_race(found, 1, lambda *_: None) == [f"{who}: mnist is not here"]


def test_profiles_by_hand():
    a, b = RaceEntry("pointsaga", 64, False), RaceEntry("fedavg", 64, False)
    table = {1: {a: 10.0, b: 20.0}, 2: {a: 30.0, b: 10.0}, 3: {a: 5.0, b: np.inf}, 4: {a: np.inf}}
    found = ratios(table, [a, b])
    np.testing.assert_allclose(found[a], [1, 3, 1])
    np.testing.assert_allclose(found[b], [2, 1, np.inf])
    np.testing.assert_allclose(profile(found[a], np.array([1, 2, 3])), [2 / 3, 2 / 3, 1])
    np.testing.assert_allclose(profile(found[b], np.array([1, 2, 100])), [1 / 3, 2 / 3, 2 / 3])


def test_the_page_says_who_sent_the_fewest_bytes(tmp_path):
    todo = list(cells([WINE], ["pointsaga", "fedavg"], (0.3, 1.0), (64,), 1))
    for cell in todo:
        cost = 80.0 if cell.method == "pointsaga" else 800.0
        outcome([cost, cost, cost]).save(cell.file(tmp_path))
    results = gather(tmp_path, todo, tuned=False)
    *_, written = write_race(tmp_path, results, target=1e-6, notes=["<b>left out</b>"])
    text = written.read_text()
    assert "in 2 of 2 cases, the clients send the fewest bytes with Point-SAGA." in text
    assert text.count("the clients send the fewest bytes with") == 1
    assert "means one of two things: at least half of the runs did not reach the gap" in text
    assert "with this problem, the developers of feddcd found the rules" in text
    assert "&lt;b&gt;left out" in text
    with (tmp_path / "race.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 2 * 2 * 3
    assert {(row["up"], row["up_models"]) for row in rows} == {("80", "1"), ("800", "10")}
    assert "2 methods on 1 problem. A case is one problem" in text
    assert json.loads(todo[0].file(tmp_path).read_text())["ended"] == "reached"


def test_the_page_names_all_methods_that_are_first(tmp_path):
    """FedQN is first with 30 % of the clients, Point-SAGA with all of them."""
    todo = list(cells([WINE], ["pointsaga", "fedqn"], (0.3, 1.0), (64,), 1))
    for cell in todo:
        cost = 80.0 if (cell.method == "fedqn") == (cell.share == 0.3) else 120.0
        outcome([cost] * 3, down=[cost] * 3).save(cell.file(tmp_path))
    results = gather(tmp_path, todo, tuned=False)
    (said,) = findings(results, 1e-6)
    few = "the clients send the fewest bytes with FedQN (in 1 of 2 cases) and with Point-SAGA (in 1"
    assert f": {few} of 2 cases). " in said
    twice = "The clients send at most twice the smallest number of bytes with FedQN (in 2 of 2"
    assert f"{twice} cases) and with Point-SAGA (in 2 of 2 cases)." in said
    assert "together send the fewest bytes with FedQN (in 1 of 2 cases) and with Point" in said


def test_the_page_names_all_methods_that_are_as_often_near_the_best(tmp_path):
    """Point-SAGA is never first, but always at most twice the fewest, as FedQN."""
    todo = list(cells([WINE], ["pointsaga", "fedqn", "fedavg"], (0.3, 1.0), (64,), 1))
    for cell in todo:
        cost = {"fedqn": 80.0, "pointsaga": 120.0, "fedavg": 200.0}[cell.method]
        outcome([cost] * 3).save(cell.file(tmp_path))
    (said,) = findings(gather(tmp_path, todo, tuned=False), 1e-6)
    assert "in 2 of 2 cases, the clients send the fewest bytes with FedQN. " in said
    both = "FedQN (in 2 of 2 cases) and with Point-SAGA (in 2 of 2 cases). "
    assert f"The clients send at most twice the smallest number of bytes with {both}" in said


def test_the_page_of_the_race_explains_each_column_of_the_file(tmp_path):
    todo = list(cells([WINE], ["pointsaga"], (0.3,), (64,), 1))
    outcome([80.0] * 3).save(todo[0].file(tmp_path))
    head = page.write_csv(tmp_path / "race.csv", gather(tmp_path, todo, tuned=False)).read_text()
    _, _, table = (DOCS / "race.md").read_text().partition("| column of `race.csv` | meaning |")
    first = [line.split("|")[1] for line in table.partition("\n\n")[0].splitlines()[2:]]
    assert set(re.findall("`(.*?)`", " ".join(first))) == set(head.splitlines()[0].split(","))


def test_the_file_has_the_quartiles_of_the_bytes(tmp_path):
    """Of 80, 160 and 240 bytes; a run that did not come to the gap counts as infinite."""
    todo = list(cells([WINE], ["pointsaga"], (0.3,), (64,), 3))
    for cell, cost in zip(todo, (240.0, 80.0, 160.0), strict=True):
        far = np.inf if cost == 240 else cost
        outcome([cost, cost, far]).save(cell.file(tmp_path))
    write_race(tmp_path, gather(tmp_path, todo, tuned=False), target=1e-6, notes=[])
    with (tmp_path / "race.csv").open() as file:
        _, reached, missed = csv.DictReader(file)
    names = ("up_models_quartile1", "up_models", "up_models_quartile3")
    assert [reached[name] for name in names] == ["1.5", "2", "2.5"]
    assert [missed[name] for name in names] == ["1.5", "2", "inf"]


def test_a_long_race_forgets_programs_before_memory_maps_run_out(tmp_path, monkeypatch):
    """Linux allows a process 65,530 of them; one line of the file is one of them."""
    cleared = []
    monkeypatch.setattr("jax.clear_caches", lambda: cleared.append(True))
    monkeypatch.setattr(play, "MAPS", tmp_path / "maps")
    play.forget_programs()  # a system that does not say how many there are
    for lines in (1_000, 60_000):
        (tmp_path / "maps").write_text("7f00-7f01 r-xp\n" * lines)
        play.forget_programs()
        assert bool(cleared) == (lines > 1_000)


def test_uploads_are_counted_in_models_also_where_a_method_was_refused(tmp_path):
    """80 bytes are one model of ten doubles."""
    todo = list(cells([WINE], ["pointsaga", "fednewton"], (0.3,), (64,), 1))
    refused = RaceOutcome("refused: no", {}, [], [], [], [], [], [], 0.0, 0)
    for cell, found in zip(todo, (outcome([80.0, 80.0, 80.0]), refused), strict=True):
        found.save(cell.file(tmp_path))
    *_, written = write_race(tmp_path, gather(tmp_path, todo, tuned=False), target=1e-6, notes=[])
    _, _, tables = written.read_text().partition("Bytes that clients sent to reach")
    assert "<b>1</b>" in tables
    assert ">80<" not in tables


def refused(reason: str) -> RaceOutcome:
    return RaceOutcome(f"refused: {reason}", {}, [], [], [], [], [], [], 0.0, 0)


def raced(tmp_path, monkeypatch, found: dict[str, RaceOutcome], share=(0.3,)) -> None:
    monkeypatch.setattr(play, "play", lambda cell, stop: found[cell.method])
    wish = RaceWishes(["wine-iid-2"], [], [*found], [*share], [8], 2, False, 1e-6, 100, 1)
    race_command(wish, tmp_path, False)


def test_the_race_says_why_a_method_did_not_reach_the_gap(tmp_path, monkeypatch, capsys):
    never = [np.inf] * 3
    found = {
        "fedqn": outcome([1.0, 2.0, 3.0], clients=15, tau=4),
        "fednlpp": refused("no bits"),
        "fedavg": RaceOutcome("limit", {}, [1e-2, 1e-3], *[[1, 2]] * 5, 0.0, 10, 100),
        "mbsgd": RaceOutcome("limit", {}, [], [], [], [], [], [], 0.0, 10, 50),
        "scaffold": outcome(never, ended="diverged"),
        "feddcd": RaceOutcome("rounds", {}, [1e-2], *[[1]] * 5, 0.0, 10, 100),
    }
    raced(tmp_path, monkeypatch, found)
    said = capsys.readouterr().out
    assert "FedNL-PP, 8 bits: refused: no bits\n" in said
    assert (
        "FedAvg, 8 bits: stopped at the limit of bytes or rounds, with a gap of at most 1e-3. "
        "With this method, the gap may stay above the target, even in a longer run\n" in said
    )
    assert "FedDCD, 8 bits: stopped after 4,000 rounds, with a gap of at most 0.01\n" in said
    behind = f"{title('mbsgd')}, 8 bits: stopped at the limit of bytes that --behind sets"
    assert f"{behind}, with a gap above 1" in said
    assert "SCAFFOLD, 8 bits: the objective became infinite or NaN\n" in said
    assert "--limit" not in said  # of these runs it would help none
    assert "To compare methods at a larger gap, use --gap 1e-3." in said
    assert "30 % of the clients (4 of 15 in a round)" in " ".join(said.split())
    assert "FedNL-PP, 8 bits: refused: no bits" in (tmp_path / "report.html").read_text()


def test_a_larger_limit_is_named_where_it_can_help(tmp_path, monkeypatch, capsys):
    found = {"pointsaga": RaceOutcome("limit", {}, [1e-2], *[[1]] * 5, 0.0, 10, 100)}
    raced(tmp_path, monkeypatch, found)
    assert "use a larger --limit. To compare methods at a larger gap" in capsys.readouterr().out


def test_a_table_with_words_is_refused_before_the_first_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.csv").write_text("y,smoker,age\n0,no,30\n1,yes,40\n")
    lines = 'data = "p.csv"\nmodel = "logistic"\nl2 = 0.1\nclients = 2\nlabel = "y"\n'
    (tmp_path / "p.toml").write_text(lines)
    wish = RaceWishes([], [tmp_path / "p.toml"], ["fedqn"], [1], [8], 1, False, 1e-6, 100, 1)
    told = r"'smoker' must contain .*: turn the column into columns of 0 and"
    with pytest.raises(DataError, match=told):
        race_command(wish, tmp_path, False)
    assert capsys.readouterr().out == ""


def test_a_race_in_which_every_method_is_refused_is_an_error(tmp_path, monkeypatch):
    with pytest.raises(SpecError, match=r"no results. FedNL-PP, 8 bits: refused: no bits"):
        raced(tmp_path, monkeypatch, {"fednlpp": refused("no bits")})


def test_a_table_without_rows_is_not_printed(tmp_path, monkeypatch, capsys):
    found = {"fedavg": RaceOutcome("limit", {}, [], [], [], [], [], [], 0.0, 10, 100)}
    raced(tmp_path, monkeypatch, found)
    said = capsys.readouterr().out
    assert "FedAvg, 8 bits: stopped at the limit" in said
    assert "fewest" not in said


def test_one_problem_is_drawn_as_curves_of_the_gap(tmp_path):
    todo = list(cells([WINE], ["pointsaga", "fedavg"], (0.3, 1.0), (64,), 2))
    for cell, k in zip(todo, range(8), strict=True):
        outcome([1e6 * (1 + k), 2e6 * (1 + k), np.inf]).save(cell.file(tmp_path))
    results = gather(tmp_path, todo, tuned=False)
    entries = sorted({entry for _, entry in results})
    drawn = page._gaps(results, entries, 1e-6, "up", page._ends(results, "up"))
    assert [ax.get_title("left") for ax in drawn.axes] == [
        "gap, 30 % of the clients", "gap, 100 % of the clients",
    ]  # fmt: skip
    saga = next(line for line in drawn.axes[0].get_lines() if len(line.get_xdata()) == 2)
    assert saga.get_xdata().tolist() in ([1.5, 3.0], [3.5, 7.0])  # MB, between two seeds
    assert saga.get_ydata().tolist() == [1e-3, 1e-6]
    *_, text = write_race(tmp_path, results, target=1e-6, notes=[])
    assert "A line ends at the smallest gap that the method reached" in text.read_text()
    assert text.read_text().count("<figure>") == 2 * 2  # a panel each, so that it can be read
    assert ("<h2>Curves" in text.read_text(), "share of the cases" in text.read_text()) == (
        True, False,
    )  # fmt: skip


def test_all_pictures_of_bytes_have_the_same_kind_of_axis(tmp_path):
    """At 30 % of the clients, the lines end at 1 and 100 MB, with all clients at 2 and 4 MB."""
    costs = {0.3: (1e6, 1e8), 1.0: (2e6, 4e6)}
    todo = list(cells([WINE], ["pointsaga", "fedavg"], (0.3, 1.0), (64,), 1))
    for cell in todo:
        cost = costs[cell.share][cell.method == "fedavg"]
        outcome([cost / 2, cost, np.inf]).save(cell.file(tmp_path))
    results = gather(tmp_path, todo, tuned=False)
    entries, ends = sorted({entry for _, entry in results}), page._ends(results, "up")
    assert [end / 1e6 for end in sorted(ends)] == [1, 2, 4, 100]
    for part in page._parts(results):
        (ax,) = page._gaps(part, entries, 1e-6, "up", ends).axes
        low, high = ax.get_xlim()
        assert ax.get_xscale() == "log"
        assert sum(low <= tick <= high for tick in ax.get_xticks()) >= 2
        assert not len(ax.get_xticks(minor=True))  # matplotlib writes them in another way


@pytest.mark.chaos
def test_a_race_comes_to_an_optimum_that_another_solver_finds():
    found = play.play(RaceCell(WINE, 1.0, "giant", seed=1))
    other = play.play(RaceCell(WINE, 1.0, "pointsaga", seed=1))
    assert found.ended == other.ended == "reached"
    assert found.to(1e-9) < np.inf
