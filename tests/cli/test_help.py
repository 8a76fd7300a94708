"""The help texts: they flow at every width, have examples, and say the defaults of the code."""

import inspect
import itertools
import shlex

import click
import pytest
import typer

from feddcd import FederatedGLM
from feddcd.algorithms.catalogue import ALGORITHMS
from feddcd.analysis.describing import describe
from feddcd.analysis.families import CHOICES
from feddcd.cli import _federation_options
from feddcd.cli.app import app, main
from feddcd.data.known import KNOWN
from feddcd.federation.config import PEOPLE_S
from feddcd.federation.enrolment.invitation import DAYS
from feddcd.paper.cells import PAPER_PROBLEMS
from feddcd.race.cells import BITS, CHUNK, METHODS, SHARES
from feddcd.runs.api import usual
from feddcd.runs.spec import PART, Spec


def _below(command: click.Command, name: str) -> dict[str, click.Command]:
    found = {name: command}
    if isinstance(command, click.Group):
        for part, child in command.commands.items():
            found |= _below(child, f"{name} {part}".strip())
    return found


COMMANDS = _below(typer.main.get_command(app), "")


def parameter(command: str, name: str) -> click.Parameter:
    (found,) = (p for p in COMMANDS[command].params if p.name == name)
    return found


def said(command: str, name: str) -> str:
    return getattr(parameter(command, name), "help", "")


@pytest.mark.parametrize("command", COMMANDS)
def test_a_help_text_flows_and_ends_with_an_example(command):
    *about, example = (COMMANDS[command].help or "").split("\n\n")
    assert about
    assert not any("\n" in part or "Example:" in part for part in about)
    assert example.startswith(f"Example: {f'feddcd {command}'.strip()}")
    assert "\n" not in example


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("glm p.csv --formula death /root age", "Put the formula into quotes, for example"),
        ("glm p.csv --formula 'death ~ age' sex", "Put the formula into quotes, for example"),
        ("glm p.csv 'death ~ age'", "Give the formula after --formula, for example: --formula"),
        ("glm p.csv --formula 'death ~ age' --firth true", "takes no value: remove 'true'"),
        ("glm --data p.csv", "Write no option before the data file, for example: feddcd glm"),
        ("describe --data p.csv", "Write no option before the data file"),
    ],
)
def test_a_mistake_in_the_shell_is_told_with_what_to_do(line, told, capsys):
    with pytest.raises(SystemExit) as end:
        main(shlex.split(line))
    assert end.value.code == 2
    assert told in " ".join(capsys.readouterr().err.replace("│", " ").split())


def test_the_help_of_glm_names_all_families():
    assert set(CHOICES) == {word.rstrip(",.") for word in said("glm", "family").split()[2:]} - {
        "or"
    }


@pytest.mark.parametrize("command", COMMANDS)
def test_every_argument_and_option_is_explained(command):
    for each in COMMANDS[command].params:
        assert getattr(each, "help", None), each.name


@pytest.mark.parametrize("command", ["", "data", "site", "federation"])
def test_no_line_of_a_list_of_commands_breaks_before_its_end(command, capsys, monkeypatch):
    """A line is as long as the width allows: the first word of the next one has no place in it."""
    monkeypatch.setenv("COLUMNS", "80")
    with pytest.raises(SystemExit):
        main([*command.split(), "--help"])
    lines = [line[1:-1] for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    pairs = [(a, b) for a, b in itertools.pairwise(lines) if b.startswith("      ")]
    assert len(pairs) >= (command != "data")
    for line, after in pairs:
        room = len(line) - 1 - len(line.rstrip())
        assert len(after.split()[0]) >= room, f"{line.strip()} | {after.strip()}"


def test_defaults_that_a_help_text_writes_out_are_those_of_the_code():
    listed = lambda names: f"{', '.join(names[:-1])} and {names[-1]}"
    people = f"{PEOPLE_S / 86400:g} days, or the setting patience if you changed it."
    slow = sorted(ALGORITHMS.keys() - set(METHODS))
    texts = {
        ("race", "algorithm"): f"Default: all methods of feddcd except {listed(slow)}.",
        ("race", "limit"): f"After every {CHUNK} rounds, stop each run",
        ("race", "behind"): f"After every {CHUNK} rounds, stop each run",
        ("compare", "algorithm"): f"Default: {listed(usual())}.",
        ("run", "tau"): f"Default: N/{PART}.",
        ("race", "bits"): f"Default: {listed([str(b) for b in BITS])}.",
        ("race", "share"): f"Default: {listed([f'{share:g}' for share in SHARES])}.",
        ("federation init", "sites"): f"Default: {_federation_options.TRIAL_SITES} with --data.",
        ("federation study", "wait"): f"Without this setting: {people}",
        ("describe", "least"): f"Default: {default(describe, 'least')} (show all counts).",
        ("describe", "quantiles"): f"Default: {default(describe, 'quantiles')}.",
    }
    for (command, name), text in texts.items():
        assert text in said(command, name)
    (without,) = (name for name, known in KNOWN.items() if not known.fetch_test)
    assert f"Default: yes, except for the data set {without}." in said("data fetch", "test")
    assert len(PAPER_PROBLEMS) == 3
    for name in ("reproduce", "tune"):
        assert "Default: the three problems of the paper." in said(name, "problem")


def default(function, name: str):
    return inspect.signature(function).parameters[name].default


def test_defaults_of_options_are_those_of_the_code():
    assert parameter("federation invite", "days").default == DAYS
    fields = ("partition", "model", "l2", "algorithm")
    spec = {name: parameter("federation init", name).default for name in fields}
    assert spec == {name: getattr(Spec, name) for name in fields}
    own = {"level": lambda percent: percent / 100}
    shared = inspect.signature(FederatedGLM).parameters.keys() - {"formula", "answers", "verbose"}
    for name in shared & {p.name for p in COMMANDS["glm"].params}:
        of_command = parameter("glm", name).default
        assert own.get(name, lambda x: x)(of_command) == default(FederatedGLM, name), name
    assert parameter("glm", "seed").default == default(FederatedGLM, "random_state")
