"""Tables of real data sets, each equal to R's in every printed digit: R is the referee, and its
numbers are facts with the code that made them beside them (README.md)."""

import json
import re
import shutil
import subprocess
import zlib

import numpy as np
import pandas as pd
import pytest

from feddcd._errors import DataError
from feddcd.analysis.plan import RegressionPlan
from feddcd.federation.config import Config
from feddcd.federation.coordinator import _tables as regress
from feddcd.federation.coordinator.coordinator import coordinate
from feddcd.federation.coordinator.nodes import LocalExchange
from feddcd.federation.folder import load_place
from feddcd.federation.machine.init import create
from r_facts import (
    HERE,
    NUMBERS,
    as_r,
    asked,
    facts,
    fitted,
    frame,
    in_order,
    misprints,
    numbers,
    ragged,
)
from slices import sliced, thinned

TABLES = facts().tables
LATER = facts().later
TIGHT = 1e-8
UNUSED = "InsectSprays-unused-levels"
CHOSEN = ("Titanic", "esoph", "Insurance-sum", "barley-nested", "survey-smoke", UNUSED)
# rounding may not allow a proof to tol (cubes of height), and the table says so
UNPROVEN = pytest.mark.filterwarnings("ignore:the certificate does not reach")


REST = pytest.mark.chaos
by_chance = sorted(TABLES, key=lambda id: zlib.crc32(id.encode()))
FEW = [id for id in by_chance if id not in CHOSEN][::16]
SLICE = [*CHOSEN, *FEW[:2], *(pytest.param(id, marks=REST) for id in FEW[2:])]
THIRD = sliced(by_chance, by_chance[::3])
OTHERS = sliced(by_chance, {*by_chance[1::3], *CHOSEN})  # than the third


NOT_ORDINAL = [id for id in LATER if LATER[id]["family"] != "ordinal"]


def seed(id):
    return zlib.crc32(id.encode())


@pytest.mark.parametrize("id", thinned(OTHERS, 3))
@UNPROVEN
def test_every_printed_digit_is_that_of_r(id):
    table = TABLES[id]
    rows = frame(table["data"])
    model = fitted(table, rows, ragged(len(rows), seed(id)))
    assert model.certified_error_ < 1e-5
    r = numbers(table, [str(label) for label in model.table_.index])
    off = np.abs(model.table_["coef"] - r[:, 0]) / r[:, 1]
    assert off.max() <= model.certified_error_ + 1e-9
    assert misprints(model.result_, table) == []


@pytest.mark.parametrize("id", thinned(THIRD, 3))
@UNPROVEN
def test_all_digits_from_sites_that_lack_levels(id):
    table = TABLES[id]
    rows = frame(table["data"])
    model = fitted(table, rows, in_order(rows, table["formula"], seed(id)), tol=TIGHT)
    assert model.certified_error_ < 1e-5
    close(model.table_, table, model.certified_error_)
    for ours, theirs in NUMBERS.items():
        slack = 1e-9 * abs(table["null_deviance"]) if "deviance" in theirs else 0
        found, rtol = getattr(model, f"{ours}_"), 1e-7 if ours == "pearson" else 1e-9
        np.testing.assert_allclose(found, table[theirs], rtol=rtol, atol=slack, err_msg=ours)


def close(found, table, error):
    """As the certificate has it, in standard errors and shares of them; and no worse than R is."""
    r = numbers(table, [str(label) for label in found.index])
    ours, std_err = found.iloc[:, :6].to_numpy(float), r[:, [1]]
    assert (np.abs(ours - r) / std_err)[:, [0, 4, 5]].max() <= 4 * error + 1e-9
    np.testing.assert_allclose(ours[:, 1], r[:, 1], rtol=error + 1e-9)
    np.testing.assert_allclose(ours[:, 2], r[:, 2], rtol=error + 1e-9, atol=error + 1e-9)
    np.testing.assert_allclose(ours[:, 3], r[:, 3], rtol=1e-5, atol=1e-300)


@pytest.mark.parametrize("id", thinned(SLICE, 3))
def test_a_federation_of_sites_that_lack_levels_prints_it_too(id, tmp_path, monkeypatch):
    monkeypatch.setattr(regress, "PAUSE_S", 0.01)
    monkeypatch.chdir(tmp_path)
    table = TABLES[id]
    rows, levels = frame(table["data"]), as_files_have(facts().datasets[table["data"]]["levels"])
    site = in_order(rows, table["formula"], seed(id))
    names = {"weight": table["weights"], "offset": table["offset"], **asked(table)}
    names["answers"] = "each"  # a level that one site alone has is not summed
    plan = RegressionPlan(table["formula"], table["family"], tol=TIGHT, levels=levels, **names)
    data = {each.replace(" ", "-"): rows[site == each] for each in np.unique(site)}
    home = create(tmp_path / "fed", list(data), Config("test", plan=plan, patience=5.0), data=data)
    events = []
    exchange = LocalExchange([load_place(home.site(each)) for each in home.invited()])
    coordinate(exchange, {"folder": str(home.path)}, events.append)
    assert [event for event in events if event["event"] == "refused"] == []
    made = home.server / "glm"
    proven = json.loads((made / "model.json").read_text())["certified_error"]
    close(pd.read_csv(made / "coefficients.csv", index_col="name"), table, proven)


# by chance one of three sites alone has rows of these columns, and all sites refuse to add them up
ALONE = {
    "survey-pulse": "Exer[T.None]:Smoke[T.Regul]",
    "genotype-crossed": "Litter[I]:Mother[T.J]",
    "lung-loss": "factor(ph.ecog)[T.3]",
    "poisons-cells-only": "poison[3]:treat[A]",
    "Machines": "Machine[T.C]:Worker[T.2]",
    "car-test": "Type[T.Large]",
    "plantTraits": "begflow[T.8]",
    "UCBAdmissions-cells": "Gender[T.Female]:Dept[T.D]",
    "HairEyeColor": "Hair[T.Blond]:Eye[T.Green]",
    "HairEyeColor-all-pairs": "Hair[T.Brown]:Eye[T.Blue]",
    "UCB-loglinear": "Dept[T.C]",
    "breslow": "factor(age)[T.50]",
    "breslow-argument": "smoke",
    "cane": "var[T.10]",
    "eagles-weights": "A[T.I]",
}
ONE_ROW = ("survey-pulse", "lung-loss", "plantTraits")  # has it: no way to share rows helps
SUITE = ("birthwt", "warpbreaks", "Machines")


def mostly_chaos(ids):
    return [id if id in SUITE else pytest.param(id, marks=REST) for id in ids]


def masked_job(id, site, path):
    """Three sites, of which nobody can read a single one's answers."""
    table = TABLES[id]
    rows, levels = frame(table["data"]), as_files_have(facts().datasets[table["data"]]["levels"])
    names = {"weight": table["weights"], "offset": table["offset"], **asked(table)}
    plan = RegressionPlan(
        table["formula"], table["family"], tol=TIGHT, levels=levels, answers="sum", **names
    )
    data = {name: rows[site == i] for i, name in enumerate(("east", "north", "south"))}
    home = create(path / "fed", list(data), Config("test", plan=plan, patience=5.0), data=data)
    exchange = LocalExchange([load_place(home.site(each)) for each in home.invited()])
    coordinate(exchange, {"folder": str(home.path)}, lambda event: None)
    made = home.server / "glm"
    assert (home.server / "proof").exists()
    proven = json.loads((made / "model.json").read_text())["certified_error"]
    close(pd.read_csv(made / "coefficients.csv", index_col="name"), table, proven)


def by_lot(id):
    n = len(frame(TABLES[id]["data"]))
    return np.random.default_rng(seed(id)).permutation(np.arange(n) % 3)


def dealt(id):
    """Rows that are alike go to different sites."""
    rows, right = frame(TABLES[id]["data"]), TABLES[id]["formula"].split("~")[1]
    used = [c for c in rows.columns if re.search(rf"(?<![\w.]){re.escape(c)}(?![\w.])", right)]
    keys = [c for c in reversed(used) if rows[c].nunique() < 50]
    site, i = np.empty(len(rows), int), np.arange(len(rows))
    site[rows.sort_values(keys, kind="stable").index] = (i + i // 45) % 3
    return site


@pytest.fixture
def quick(tmp_path, monkeypatch):
    monkeypatch.setattr(regress, "PAUSE_S", 0.01)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("id", mostly_chaos(id for id in TABLES if id not in ALONE))
@UNPROVEN
def test_masked_sums_print_it_too(id, quick):
    masked_job(id, by_lot(id), quick)


@pytest.mark.parametrize("id", mostly_chaos(ALONE))
def test_what_one_site_alone_has_is_refused_by_name(id, quick):
    name = re.escape(repr(ALONE[id]))
    told = rf"column {name}, because its values differ at only 1 site \(min_sites = 2 in policy"
    with pytest.raises(DataError, match=told) as found:
        masked_job(id, by_lot(id), quick)
    assert "Refused: east, north and south (each: its policy" in str(found.value)


@pytest.mark.parametrize("id", mostly_chaos(id for id in ALONE if id not in ONE_ROW))
@UNPROVEN
def test_and_is_summed_where_two_sites_have_it(id, quick):
    masked_job(id, dealt(id), quick)


@REST
@pytest.mark.parametrize("id", ONE_ROW)
def test_a_column_of_one_row_is_summed_nowhere(id, quick):
    with pytest.raises(DataError, match="its values differ at only 1 site \\("):
        masked_job(id, dealt(id), quick)


@pytest.mark.parametrize("id", sliced(NOT_ORDINAL, NOT_ORDINAL[::2]))
@UNPROVEN
def test_other_families_links_and_covariances(id):
    table = LATER[id]
    rows = frame(table["data"])
    settings = {"link": table["link"], "covariance": table["covariance"]}
    model = fitted(table, rows, ragged(len(rows), seed(id)), **settings)
    r = numbers(table, [str(label) for label in model.table_.index])
    off = np.abs(model.table_["coef"] - r[:, 0]) / r[:, 1]
    assert not off.max() > model.certified_error_ + 1e-9  # which may be nan: nothing is proven
    assert misprints(model.result_, table) == []


def as_files_have(levels):
    """Words that are numbers are read as numbers."""
    digits = {c: all(word.isdigit() for word in words) for c, words in levels.items()}
    return {c: [int(w) for w in words] if digits[c] else words for c, words in levels.items()}


def test_a_wrong_number_would_be_seen():
    table = TABLES["birthwt"]
    model = fitted(table, frame("birthwt"), ragged(189, 1))
    assert misprints(as_r(model.result_, table), table) == []
    for name in ("coef", "std_err", "statistic", "low", "high"):
        wrong = table | {name: [1.002 * x for x in table[name]]}
        assert len(misprints(model.result_, wrong)) >= 5, name
    for name in ("deviance", "null_deviance", "log_likelihood", "aic"):
        wrong = table | {name: 1.002 * table[name]}
        assert misprints(model.result_, wrong), name


def test_there_are_enough_of_them():
    used = {table["data"] for table in TABLES.values()}
    assert len(TABLES) >= 60
    assert len(used) >= 30
    readme = (HERE / "README.md").read_text(encoding="utf-8")
    assert f"{len(TABLES)} regression tables over {len(used)} real data sets" in readme
    assert [name for name in facts().datasets if f"| `{name}` |" not in readme] == []
    assert sum(path.stat().st_size for path in (HERE / "data").iterdir()) < 400_000


@pytest.mark.chaos  # the facts and R are as they were: it matters where one of them is new
def test_r_says_the_same_today(tmp_path):
    rscript = shutil.which("Rscript")
    if rscript is None:
        pytest.skip("no Rscript on this machine: R's numbers are those of tables.json")
    done = subprocess.run(
        [rscript, str(HERE / "tables.R"), str(tmp_path)], capture_output=True, text=True
    )
    if "there is no package called" in done.stderr:
        pytest.skip(f"R lacks a package: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    stored, fresh = facts(), facts(tmp_path)
    assert fresh.datasets == stored.datasets
    for old, new in ((stored.tables, fresh.tables), (stored.later, fresh.later)):
        assert list(old) == list(new)
        for id, table in old.items():
            same(id, table, new[id])


def same(id, old, new):
    assert list(old) == list(new)
    rtol = 1e-3 if old["family"] == "ordinal" else 1e-7
    for name, value in old.items():
        if isinstance(value, float) or (
            isinstance(value, list) and value and isinstance(value[0], float)
        ):
            np.testing.assert_allclose(
                new[name], value, rtol=rtol, atol=1e-12, err_msg=f"{id} {name}"
            )
        elif name != "r_default_digits_off":
            assert new[name] == value, (id, name)
