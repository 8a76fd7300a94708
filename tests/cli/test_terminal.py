"""What a command says: lines in place of bars, errors, and names that were meant."""

import numpy as np
import pandas as pd
import pytest

from feddcd._text import nearest
from feddcd.cli import _terminal
from feddcd.cli._ending import told
from feddcd.cli._terminal import bars
from feddcd.cli.app import main


@pytest.fixture
def patients(tmp_path, monkeypatch):
    """A small file in the current folder, with a value that is missing."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(60, 9, 40).round(1), "y": np.arange(40) % 2})
    frame["hospital"] = [f"h{i % 3}" for i in range(40)]
    frame.loc[3, "age"] = np.nan
    frame.to_csv("p.csv", index=False)


def feddcd(line: str, code: int = 0) -> None:
    with pytest.raises(SystemExit) as stop:
        main(line.split())
    assert stop.value.code == code


QUICK = "--data wine --clients 4 --rounds 2 --algorithm mbsgd"
RACE = "--problem wine-iid-2 --algorithm mbsgd --share 1 --bits 64 --seeds 1 --limit 5"


@pytest.mark.parametrize(
    "line",
    [
        "glm p.csv --formula y~age --group hospital",
        "describe p.csv --group hospital",
        f"run {QUICK}",
        f"compare {QUICK}",
        f"race {RACE}",
    ],
    ids=lambda line: line.split()[0],
)
def test_quiet_is_silent_and_holds_for_one_command(line, patients, capfd):
    feddcd(f"{line} --out a --quiet")
    assert capfd.readouterr() == ("", "")
    feddcd(f"{line} --out b")
    assert "report" in capfd.readouterr().out


def test_a_comparison_tells_the_gap_to_the_own_bound_of_a_run(patients, capfd):
    """Its table has another gap, to the best bound of all runs."""
    feddcd(f"compare {QUICK} --out a")
    assert "gap to its own bound" in capfd.readouterr().err
    feddcd(f"run {QUICK} --out b")
    err = capfd.readouterr().err
    assert "certified gap" in err
    assert "own bound" not in err


def test_a_quiet_command_says_errors_and_what_is_not_proven(patients, capfd):
    feddcd("glm p.csv --formula y~none -q", code=2)
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    feddcd("glm p.csv --formula y~age --group hospital --max-exchanges 2 --out a -q", code=1)
    out, err = capfd.readouterr()
    assert out == ""
    assert "feddcd cannot prove that the errors of the coefficients are below --tol" in err
    assert len(err.splitlines()) == 1


def test_a_quiet_command_prints_the_result_that_it_is_asked_for(patients, capfd):
    feddcd("glm p.csv --formula y~age --group hospital --out a -q --json")
    out, err = capfd.readouterr()
    assert out.startswith("{")
    assert err == ""


def test_a_task_that_is_used_again_says_one_line_for_each_piece_of_work(capsys):
    with bars("{task.description}", "{task.completed:.0f}") as shown:
        task = shown.add_task("", total=None)
        for name in ("first", "second"):
            for done in (1, 2, 3):
                shown.update(task, description=name, total=3, completed=done)
    assert capsys.readouterr().err.splitlines() == ["first  3", "second  3"]


class Clock:
    """Goes on by some seconds whenever it is read."""

    def __init__(self, step: float):
        self.now, self.step = 0.0, step

    def monotonic(self) -> float:
        self.now += self.step
        return self.now


def exchanges(step: float, monkeypatch, capfd, more: str = "") -> list[str]:
    """What `glm` says on standard error if the clock goes on by `step` with each exchange."""
    monkeypatch.setattr(_terminal, "time", Clock(step))
    feddcd(f"glm p.csv --formula y~age --group hospital --out out --force {more}")
    lines = capfd.readouterr().err.splitlines()
    return [line for line in lines if line.startswith(("feddcd fits", "exchange"))]


def test_off_a_terminal_a_slow_table_says_its_start_its_steps_and_its_end(
    patients, monkeypatch, capfd
):
    first, *steps = exchanges(_terminal.LINE_S, monkeypatch, capfd)
    assert first == "feddcd fits the model to 40 rows"
    assert len(steps) >= 3
    assert [int(line.split(":")[0].removeprefix("exchange ")) for line in steps] == sorted(
        {int(line.split(":")[0].removeprefix("exchange ")) for line in steps}
    )
    rarer = exchanges(_terminal.LINE_S / 2, monkeypatch, capfd)
    assert [rarer[0], rarer[-1]] == [first, steps[-1]]
    assert len(rarer) < 1 + len(steps)


@pytest.mark.parametrize("more", ["", "--quiet", "--json"])
def test_a_quick_table_and_one_that_is_to_be_silent_say_no_progress(
    more, patients, monkeypatch, capfd
):
    step = 100.0 if more else 0.01
    assert exchanges(step, monkeypatch, capfd, more) == []


def test_a_file_that_cannot_be_written_is_named_without_a_number():
    error = FileNotFoundError(2, "No such file or directory", "/proc/nope")
    assert told(error) == "cannot read or write /proc/nope: No such file or directory"
    assert told(OSError("odd")) == "odd"


def test_the_beginning_of_a_long_name_is_enough_to_guess_it():
    assert "did you mean 'wine-iid-2'?" in nearest("winee", ["wine-iid-2", "digits-iid-2"])
    assert "did you mean" not in nearest("wi", ["wine-iid-2"])
