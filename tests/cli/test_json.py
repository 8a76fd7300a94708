"""Every command has --json, -v and an example, and its JSON is JSON."""

import json
import shlex
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
import typer

from feddcd.cli import _terminal
from feddcd.cli._habits import SERVING, as_json, plain
from feddcd.cli.app import app, main

HERE = {  # by command: what is typed, in this order, and what its result has
    "list": ("list partitions", "partitions"),
    "theory": ("theory --N 20 --tau 5", "predictions"),
    "data list": ("data list", "mnist"),
    "codebook": ("codebook rows.csv --out codebook.toml", "file"),
    "site check": ("site check rows.csv --codebook codebook.toml", "fits"),
    "describe": ("describe rows.csv --group site --out table1", "numbers"),
    "glm": ("glm rows.csv --formula 'y ~ x' --group site --family gaussian --out plan", "model"),
    "federation init": (
        "federation init fed --job plan/job.toml --data rows.csv --group site",
        "federation",
    ),
    "federation simulate": ("federation simulate fed", "model"),
    "federation inspect": ("federation inspect fed", "model"),
    "federation verify": ("federation verify fed", "exchanges"),
    "federation roster": ("federation roster fed", "words"),
    "federation outgoing": ("federation outgoing fed/sites/a --verify", "left"),
    "federation approve": ("federation approve fed/sites/a", "waits"),
    "federation deny": ("federation deny fed/sites/a", "waits"),
    "federation pause": ("federation pause fed/sites/a", "paused"),
    "federation withdraw": ("federation withdraw fed/sites/a --why consent --early", "closed"),
    "federation status": ("federation status fed", "sites"),
    "federation study": ("federation study fed two --job plan/job.toml", "state"),
    "federation invite": ("federation invite fed north", "authority"),
    "federation certify": ("federation certify fed", "host"),
    "federation join": ("federation join fed west", "folder"),
    "federation retire": ("federation retire fed west", "sites"),
    "federation expel": ("federation expel fed c", "expelled"),
}
ELSEWHERE = {  # as they take long, ask somebody, or need Flower
    "run": "tests/runs/test_repeats.py",
    "compare": "tests/runs/test_repeats.py",
    "report": "tests/runs/test_repeats.py",
    **dict.fromkeys(("demo", "race", "reproduce", "tune"), "takes minutes"),
    **dict.fromkeys(("data fetch", "data check"), "needs files"),
    **dict.fromkeys(("federation up", "federation enrol", "federation confirm"), "test_docs.py"),
}


def commands() -> dict[str, click.Command]:
    def below(command: click.Command, path: tuple[str, ...]):
        if isinstance(command, click.Group):
            for name, child in command.commands.items():
                yield from below(child, (*path, name))
        else:
            yield " ".join(path), command

    return dict(below(typer.main.get_command(app), ()))


@pytest.mark.parametrize("name", commands())
def test_every_command_has_its_habits(name):
    command = commands()[name]
    options = {word for option in command.params for word in option.opts}
    assert "-v" in options
    assert ("--json" in options) == (name.rpartition(" ")[2] not in SERVING)
    assert f"feddcd {name}" in " ".join((command.help or "").split())


def test_every_command_with_a_result_is_tried_or_has_a_reason():
    serving = {name for name in commands() if name.rpartition(" ")[2] in SERVING}
    assert set(commands()) == serving | set(HERE) | set(ELSEWHERE)


def typed(line: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(line))
    assert isinstance(stop.value.code, int)
    return stop.value.code


def test_every_result_is_one_json_document(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDDCD_CACHE", str(tmp_path / "cache"))
    draw = np.random.default_rng(3)
    rows = pd.DataFrame({"x": draw.normal(size=90), "site": list("abc") * 30})
    rows.assign(y=rows.x + draw.normal(size=90)).to_csv("rows.csv", index=False)
    for line, key in HERE.values():
        if "withdraw" in line:  # which a file that has not changed stops
            own = Path("fed/sites/a/data.csv")
            own.write_text("".join(own.read_text().splitlines(keepends=True)[:-1]))
        assert typed(f"{line} --json") == 0, line
        found = json.loads(capsys.readouterr().out)
        assert key in found, line
        if line.startswith("codebook"):  # a draft is completed by people
            text = (tmp_path / "codebook.toml").read_text()
            (tmp_path / "codebook.toml").write_text(text.replace("?", ""))


def test_a_result_that_does_not_fit_is_json_and_exit_code_1(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "codebook.toml").write_text('[columns.age]\ntype = "number"\nrange = [0, 9]\n')
    (tmp_path / "rows.csv").write_text("age\n3\n12\n")
    assert typed("site check rows.csv --json") == 1
    found = json.loads(capsys.readouterr().out)
    assert found["fits"] is False
    assert len(found["findings"]) == 1


def test_an_error_has_no_document_and_v_says_where(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for line in ("glm no.csv --formula 'y ~ x' --json", "-v glm no.csv --formula 'y ~ x'"):
        assert typed(line) == 2
        said = capsys.readouterr()
        assert said.out == ""
        assert said.err.splitlines()[-1] == "error: no.csv: no such file"
        assert ("Traceback" in said.err) == line.startswith("-v")


def test_a_command_in_json_changes_nothing_for_the_next_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["glm", "missing.csv", "--formula", "y ~ x", "--json"])
    assert not as_json()


def test_what_json_has_no_word_for_is_null():
    assert plain({"a": float("nan"), "b": [np.float64(1), np.arange(2)]}) == {
        "a": None,
        "b": [1.0, [0, 1]],
    }


def test_progress_off_a_terminal_is_lines_on_stderr(capsys, monkeypatch):
    monkeypatch.setattr(_terminal, "LINE_S", float("inf"))
    with _terminal.bars("{task.description}", "{task.completed:.0f}/{task.total:.0f}") as shown:
        task = shown.add_task("feddcd", total=3)
        for done in (1, 2, 3):
            shown.update(task, completed=done)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.split("\n") == ["feddcd  3/3", ""]
    monkeypatch.setattr(_terminal, "LINE_S", 0.0)
    with _terminal.bars("{task.description}") as shown:
        task = shown.add_task("one", total=None)
        shown.update(task, description="two")
        shown.update(task, description="two")
    assert capsys.readouterr().err == "two\n"
