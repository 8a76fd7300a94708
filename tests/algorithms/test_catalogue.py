"""The catalogue of methods, and that the tables of the pages say what it says."""

import dataclasses
import re
from typing import ClassVar

import jax.numpy as jnp
import pytest
import typer

import feddcd
from docs_blocks import DOCS
from feddcd._errors import SpecError
from feddcd.algorithms import ALGORITHMS, AbstractAlgorithm, AbstractStateless, FedDCD, Given
from feddcd.cli._run import DEMO
from feddcd.cli.app import app
from feddcd.federation.config import Config
from feddcd.runs.build import build
from feddcd.runs.spec import Spec
from feddcd.solvers import SOLVERS
from federations import ALGORITHMS as ROWS
from federations import FIELD, TAU, D, N


def tables(path) -> list[list[list[str]]]:
    """The cells of each table, without its head."""
    found = re.findall(r"(?:^\|.*\n)+", path.read_text(), re.MULTILINE)
    cells = lambda line: [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
    return [[cells(line) for line in table.splitlines()[2:]] for table in found]


def code(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def table(path, first: str) -> list[list[str]]:
    """The table that has this in the first cell of a row."""
    (found,) = [rows for rows in tables(path) if any(first in row[0] for row in rows)]
    return found


def test_the_page_of_methods_has_a_row_for_each():
    methods = next(rows for rows in tables(DOCS / "methods.md") if rows[0][0] == "`feddcd`")
    rows = {code(row[0])[0]: row for row in methods}
    assert set(rows) == set(ALGORITHMS)
    for name, row in ALGORITHMS.items():
        assert rows[name][4].startswith("yes" if row.exact else "no"), name
        assert (rows[name][2] == "nothing") == issubclass(row.algorithm, AbstractStateless), name


def test_what_is_revealed_has_a_row_for_each():
    rows = {code(row[0])[0]: row for row in table(DOCS / "methods.md", "`newton`")}
    assert set(rows) == {*ALGORITHMS, "newton", "describe"}
    assert {name: code(rows[name][2]) for name in ALGORITHMS} == {
        name: [row.sends] for name, row in ALGORITHMS.items()
    }


def test_the_settings_have_a_row_for_each():
    """An empty first cell goes on with the one above."""
    without = [name for name, row in ALGORITHMS.items() if row.solver is None]
    shown: dict[str, set[str]] = {}
    names: list[str] = []
    for first, setting, *_ in table(DOCS / "methods.md", "all but fednewton"):
        if first.startswith("all but "):
            assert first == f"all but {', '.join(without)}"
            assert code(setting) == ["solver"]
            continue
        names = first.split(", ") if first else names
        for name in names:
            shown.setdefault(name, set()).update(code(setting))
    for name, row in ALGORITHMS.items():
        assert shown.pop(name, set()) == set(row.settings), name
    assert set(shown) == set(SOLVERS)
    for name in shown:
        assert shown[name] <= {key for row in SOLVERS.values() for key in row.settings}, name


def test_the_page_on_methods_names_the_solvers():
    text = (DOCS / "methods.md").read_text()
    assert f"| `solver` | {', '.join(SOLVERS)} |" in text


def test_every_method_is_tried():
    """By `tests/worlds/federations.py`, under its name or the name and a variant."""
    for name, row in ALGORITHMS.items():
        tried = [r for key, r in (ROWS | FIELD).items() if key.split("-")[0] == name]
        assert tried, name
        made = [r.make(N, TAU, jnp.zeros(D)) for r in tried]
        assert {type(algorithm) for algorithm in made} == {row.algorithm}, name


def test_names_and_looks_are_told_apart():
    rows = ALGORITHMS.values()
    assert [row.name for row in rows] == list(ALGORITHMS)
    for what in ("title", "look"):
        assert len({getattr(row, what) for row in rows}) == len(rows), what
    assert set(DEMO) <= set(ALGORITHMS)


def test_help_says_what_compare_takes():
    options = typer.main.get_command(app).commands["compare"].params
    (shown,) = [option.help for option in options if option.name == "algorithm"]
    usual = [name for name, row in ALGORITHMS.items() if row.usual]
    assert f"{', '.join(usual[:-1])} and {usual[-1]}" in shown


def test_what_a_method_sends_is_stated_not_guessed():
    class Silent(FedDCD):
        sends: ClassVar = None

    with pytest.raises(SpecError, match=r"Silent\.sends must be one of model, gradient, "):
        dataclasses.replace(ALGORITHMS["feddcd"], algorithm=Silent)
    assert AbstractAlgorithm.__abstractclassvars__ == {"sends"}


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"name": "My-Method"}, "got 'My-Method'"),
        (
            {"algorithm": AbstractAlgorithm},
            "AbstractAlgorithm.sends must be one of model, gradient",
        ),
        (
            {"solver": "newtn"},
            "has the unknown solver 'newtn'; did you mean 'newton'?",
        ),
        (
            {"settings": {"lr": lambda *_: 1.0}},
            (
                "the method feddcd cannot have the setting 'lr', because local solvers "
                "have a setting with this name: choose another name"
            ),
        ),
    ],
)
def test_rows_that_are_refused(change, reason):
    with pytest.raises(SpecError, match=re.escape(reason)):
        dataclasses.replace(ALGORITHMS["feddcd"], **change)


class TestEveryone:
    """A method that needs everyone is refused where somebody may be away."""

    @pytest.fixture(autouse=True)
    def _method(self, monkeypatch):
        row = dataclasses.replace(ALGORITHMS["mbsgd"], name="crowd", needs_everyone=True)
        monkeypatch.setitem(ALGORITHMS, "crowd", row)

    @pytest.mark.parametrize(
        "options", [{"tau": 3}, {"loss": 0.1, "tau": 4}, {"participation": "available:0.9"}]
    )
    def test_in_a_run(self, options):
        with pytest.raises(
            SpecError, match=r"crowd needs all clients in every round, but .*: set "
        ):
            feddcd.run("wine", algorithm="crowd", clients=4, rounds=1, **options)

    def test_with_everyone_it_runs(self):
        run = lambda **options: feddcd.run(
            "wine", algorithm="crowd", clients=4, rounds=1, **options
        )
        assert run(participation="everyone").summary["uploads"] == 4
        assert build(Spec(data="wine", algorithm="crowd", clients=4, tau=4)).tau == 4

    def test_in_a_federation(self):
        with pytest.raises(SpecError, match="crowd needs all sites in every round, but"):
            Config("f", Spec(algorithm="crowd"))


def test_a_method_is_made_from_what_is_given():
    w = jnp.zeros(3)
    for name, row in ALGORITHMS.items():
        solver = None if row.solver is None else SOLVERS[row.solver].make({})
        assert isinstance(row.make(Given({}, solver, 2, 4, w, False)), row.algorithm), name
