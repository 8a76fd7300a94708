"""Columns that may number patients of whom some have several rows: rules count rows, so the people
who approve, or who write a formula or a codebook, read a warning."""

import json

import numpy as np
import pandas as pd
import pytest
import tomli_w
from typer.testing import CliRunner

from feddcd.cli.app import app
from feddcd.data.draft import draft, is_identifier, may_identify
from feddcd.data.frames import read_frame
from feddcd.federation.site import answer as site
from feddcd.federation.site.approval import waiting, words_of
from feddcd.federation.site.told import REFUSED
from feddcd.federation.wire import read_refusal, unpack_message
from site_world import asked as ask
from test_descriptions import describe

PATIENTS = np.repeat(100_000 + 7 * np.arange(240), [2] * 96 + [1] * 144)  # 40 % have a second row
ROWS = len(PATIENTS)


def numbers(x):
    return [float(v) for v in x]


def table():
    draw = np.random.default_rng(1)
    age = draw.normal(66, 11, ROWS).round().astype(int)
    return pd.DataFrame({
        "mrn": PATIENTS,
        "case": PATIENTS,  # a name that says nothing
        "age": age,
        "ferritin": draw.lognormal(1, 0.4, ROWS).round(3),
        "sex": draw.choice(["f", "m"], ROWS),
        "dead": (draw.random(ROWS) < 0.4).astype(int),
    })  # fmt: skip


def place(folder, codebook=None, **policy):
    folder.mkdir()
    table().to_csv(folder / "data.csv", index=False)
    written = {"answers": "each", "rare_values": "off", **policy, "complete": True}
    (folder / "policy.toml").write_text(tomli_w.dumps(written))
    return site.SitePlace("north", folder, folder / "data.csv")


def notes(own):
    """The first lines of all notes of the job that waits."""
    (id,) = waiting(own.folder)
    lines = words_of(own.folder, id)
    return [line.strip() for line in lines if "may identify persons" in line], "\n".join(lines)


@pytest.mark.parametrize("name", ["mrn", "case"])
def test_whoever_approves_reads_that_a_column_may_identify_persons(name, tmp_path):
    own = place(tmp_path / "north")
    said = unpack_message(site.answer(ask(own, f"dead ~ {name} + age"), own))
    assert "waits for approval" in read_refusal(said).reason
    assert "240" not in read_refusal(said).reason  # what was found stays at the site
    first, told = notes(own)
    assert first == [
        f"NOTE: the column {name!r} may identify persons: it has 240 different values in 336 rows."
    ]
    assert "the rules of this site count rows, not persons" in told
    assert "add the column to the list 'identifiers' in policy.toml" in told


def test_ordinary_columns_give_no_such_warning(tmp_path):
    own = place(tmp_path / "north")
    site.answer(ask(own, "dead ~ age + ferritin + sex"), own)
    assert notes(own)[0] == []


def test_also_as_outcome_offset_or_in_a_description(tmp_path):
    own = place(tmp_path / "outcome")
    site.answer(ask(own, "case ~ age"), own)
    assert len(notes(own)[0]) == 1
    own = place(tmp_path / "offset")
    site.answer(ask(own, "dead ~ age", family="poisson", offset="case"), own)
    assert len(notes(own)[0]) == 1
    own = place(tmp_path / "described")
    assert "waits for approval" in describe(own, ["case", "age"])
    assert len(notes(own)[0]) == 1


def test_not_where_it_only_has_a_value_or_says_which_rows_belong_together(tmp_path):
    own = place(tmp_path / "complete")
    site.answer(ask(own, "dead ~ age", complete=["case"]), own)
    assert notes(own)[0] == []
    own = place(tmp_path / "clusters")
    site.answer(ask(own, "dead ~ age", covariance="cluster", cluster="case"), own)
    assert notes(own)[0] == []


def test_with_one_row_for_each_patient_the_rule_refuses_and_with_a_list_too(tmp_path):
    own = place(tmp_path / "north", approve="none")
    table().drop_duplicates("mrn").to_csv(own.data, index=False)
    reason = read_refusal(unpack_message(site.answer(ask(own, "dead ~ mrn"), own))).reason
    assert reason == f"north: {REFUSED}"
    last = json.loads((own.folder / "outgoing.jsonl").read_text().splitlines()[-1])
    assert last["rule"] == "identifiers"
    own = place(tmp_path / "south", approve="none", identifiers=["mrn"])
    reason = read_refusal(unpack_message(site.answer(ask(own, "dead ~ mrn"), own))).reason
    assert "because this column is an identifier" in reason


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("mrn", numbers(PATIENTS)),
        ("case", numbers(PATIENTS)),
        ("case", [f"P{v}" for v in PATIENTS]),
        ("case", numbers(np.repeat(np.arange(1, 301), 2))),  # in order
        ("mrn", numbers(np.repeat(np.arange(1, 26), 16))),  # its name says what it is
        ("patient_id", [f"P{v}" for v in np.repeat(np.arange(1, 26), 16)]),
    ],
)
def test_what_may_identify(name, values):
    assert may_identify(name, values)
    assert not is_identifier(name, values)


@pytest.mark.parametrize("n", [40, 63, 100, 400, 1000])
def test_what_does_not(n):
    draw = np.random.default_rng(n)
    ordinary = {
        "age": draw.normal(66, 11, n).round(),
        "years": draw.integers(18, 95, n),
        "pressure": draw.normal(130, 25, n).round(),
        "platelets": draw.normal(250, 80, n).round(),
        "visits": draw.poisson(3, n),
        "days": draw.gamma(1, 8, n).round(),
        "crp": draw.lognormal(1, 1, n).round(1),
        "ward_nr": draw.integers(1, 12, n),
    }
    assert [name for name, x in ordinary.items() if may_identify(name, numbers(x))] == []
    assert not may_identify("ward", draw.choice(["a", "b", "c"], n).tolist())


def test_a_pilot_a_draft_and_a_check_say_so_too(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    table().to_csv("patients.csv", index=False)
    formula = ["--formula", "dead ~ case + age", "--group", "sex"]
    done = CliRunner().invoke(app, ["glm", "patients.csv", *formula])
    told = " ".join(done.output.split())
    note = "the values of the column 'case' may identify persons: "
    note += "there are 240 different values in 336"
    assert note in told
    assert "their rules count rows, not persons" in told
    assert "values of age" not in told

    text = draft([read_frame(tmp_path / "patients.csv")])
    lines = [line for line in text.splitlines() if "belongs to one person" in line]
    assert lines == ['type = "integer"  # if each value belongs to one person, '
                     'write type = "identifier"'] * 2  # fmt: skip

    kinds = {"mrn": {"type": "identifier"}, "case": {"type": "integer"}, "age": {"type": "integer"}}
    (tmp_path / "codebook.toml").write_text(tomli_w.dumps({"columns": kinds}))
    done = CliRunner().invoke(app, ["site", "check", "patients.csv"])
    told = " ".join(done.output.split())
    assert done.exit_code == 0
    assert told.count("may identify persons") == 1
    assert "the values of the column 'case' may identify persons" in told
    kinds["case"]["roles"] = ["group"]  # for clusters of rows
    (tmp_path / "codebook.toml").write_text(tomli_w.dumps({"columns": kinds}))
    done = CliRunner().invoke(app, ["site", "check", "patients.csv"])
    assert "may identify persons" not in done.output
