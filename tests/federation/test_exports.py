"""A new export of a site's file: rows are known again, and a person hears that it changed."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

from feddcd.federation import wire
from feddcd.federation.folder import load_place
from feddcd.federation.site._identity import found_again
from feddcd.federation.site.answer import SitePlace, answer
from feddcd.federation.site.approval import approve, waiting, words_of
from feddcd.federation.site.memory import Export, Memory, difference
from feddcd.federation.site.told import LOOKING, REFUSED
from site_world import asked

POLICY = 'answers = "each"\napprove = "none"\ncomplete = true\n'


def patients(n=200):
    rng = np.random.default_rng(7)
    d = pd.DataFrame({"age": rng.integers(20, 95, n), "bmi": rng.normal(26, 4, n).round(1)})
    d["crp"], d["y"] = rng.gamma(4, 3, n).round(2), rng.normal(size=n).round(3)
    return d


@pytest.fixture
def place(tmp_path):
    (tmp_path / "policy.toml").write_text(POLICY)
    patients().to_csv(tmp_path / "data.csv", index=False)
    return SitePlace("north", tmp_path, tmp_path / "data.csv")


def says(place, formula="y ~ age + bmi", **plan):
    """The sums of one question, or the reason why there are none."""
    said = wire.unpack_message(answer(asked(place, formula, **plan), place))
    return wire.read_refusal(said).reason if said.kind == "refusal" else said.arrays


def last_line(place):
    return json.loads((place.folder / "outgoing.jsonl").read_text().splitlines()[-1])


def test_the_first_reply_in_a_study_and_waiting_for_a_file_are_not_in_the_log(place):
    """The page on security says so. The reply has the name of the site alone."""
    hello = wire.pack_message(wire.Hello("test", wire.REGRESSION))
    question = asked(place, "y ~ age + bmi")
    assert wire.unpack_message(answer(hello, place)).kind == "welcome"
    place.data.unlink()
    assert LOOKING in wire.read_refusal(wire.unpack_message(answer(question, place))).reason
    assert not (place.folder / "outgoing.jsonl").exists()


NEW = pd.DataFrame({"age": [44], "bmi": [31.2], "crp": [7.7], "y": [5.55]})
EXPORTS = {
    "one patient more": lambda d: d,
    "a new column": lambda d: d.assign(exported="2026-12"),
    "a column that changed in all rows": lambda d: d.assign(age=d.age + 1),
    "both": lambda d: d.assign(crp=d.crp + 0.5, exported="2026-12"),
    "in another order": lambda d: d.sample(frac=1, random_state=0).assign(visit=range(len(d))),
}


@pytest.mark.parametrize("name", EXPORTS)
def test_a_new_export_does_not_hide_that_one_patient_came(place, name):
    """The difference of the two sums would be this patient."""
    assert not isinstance(says(place), str)
    EXPORTS[name](pd.concat([patients(), NEW], ignore_index=True)).to_csv(place.data, index=False)
    assert says(place, latency=0.2) == f"north: {REFUSED}"
    assert last_line(place)["rule"] == "sets"


def test_a_changed_file_waits_for_a_person_once(place):
    """Although nobody is asked otherwise; many rows came, so that the rules allow it."""
    says(place)
    more = patients(260).assign(exported="2026-12")
    more[: len(patients())] = patients().assign(exported="2026-12")
    more.to_csv(place.data, index=False)
    assert "waits for approval" in says(place, latency=0.2)
    [id] = waiting(place.folder)
    told = "\n".join(words_of(place.folder, id))
    changed = "new rows: 60, removed rows: 0, rows as before: 200"
    assert f"the data file changed after the last job: {changed}" in told
    assert "new columns: 'exported'" in told
    approve(place.folder, id)
    assert not isinstance(says(place, latency=0.2), str)
    assert not isinstance(says(place, latency=0.3), str)  # of this file one job has run


def test_a_job_does_not_go_on_over_another_file(place):
    says(place)
    patients().assign(exported="2026-12").to_csv(place.data, index=False)
    says(place, w=(0.1, 0, 0))
    assert last_line(place)["rule"] == "frozen"


def export(frame, names=None):
    cells = frame.to_numpy().astype(np.uint64)
    ids = cells @ np.array([31**i for i in range(cells.shape[1])], np.uint64)
    return Export(str(hash(ids.tobytes())), tuple(names or frame.columns), ids, cells, "")


def table(n, columns="abcde"):
    draw = np.random.default_rng(3).integers(0, 2**40, (n, len(columns)))
    return pd.DataFrame(draw, columns=list(columns))


def test_rows_are_found_by_the_columns_that_stayed():
    old = table(50)
    before = export(old)
    new = old.assign(a=old.a + 1, c=old.c + 1, f=7).sample(frac=1, random_state=1)
    again = found_again(before, export(new))
    assert difference(before.ids, again.ids) == 0
    assert (again.ids == before.ids[new.index]).all()
    assert "columns that changed in most rows: 'a', 'c'" in again.story
    corrected = old.copy()
    corrected.loc[:2, "b"] += 1  # three rows: other rows, as what is told of them is
    assert difference(before.ids, found_again(before, export(corrected)).ids) == 6


@pytest.mark.parametrize(("stayed", "known"), [(60, 60), (40, 0)])
def test_rows_are_recognised_only_if_at_least_half_of_them_stayed(stayed, known):
    """The page on the rules says so: else all count as new, also those that stayed."""
    old, other = table(100), table(200)[100:]
    now = pd.concat([old[:stayed], other[stayed:]], ignore_index=True)
    assert f"rows as before: {known}" in found_again(export(old), export(now)).story


def test_strangers_are_not_taken_for_known_rows():
    """Columns that do not tell rows apart are no help."""
    old = table(60).assign(sex=np.arange(60) % 2)
    other = pd.DataFrame(table(200)[140:].to_numpy(), columns=list("abcde"))
    again = found_again(export(old), export(other.assign(sex=np.arange(60) % 2)))
    assert difference(export(old).ids, again.ids) == 120
    assert "rows as before: 0" in again.story


def test_the_memory_of_an_export_is_whole_or_none(tmp_path):
    memory = Memory(tmp_path, tmp_path / "data.csv")
    assert memory.export() is None
    kept = export(table(20))._replace(story="20 rows new")
    memory.keep_export(kept)
    found = memory.export()
    assert found is not None
    assert found[:2] == kept[:2]
    assert (found.cells == kept.cells).all()
    assert (found.ids == kept.ids).all()


def settings_text(place, data):
    (place.folder / "site.toml").write_text(f'client-id = "north"\n{data}\n')


def settings(place, data):
    settings_text(place, data)
    return load_place(place.folder)


def test_an_answer_is_made_of_the_file_that_the_settings_name_now(place):
    """The program still runs: else rows that somebody took out by naming a file would leave."""
    running = settings(place, 'data = "data.csv"')
    first = says(running)
    patients(260)[60:].to_csv(place.folder / "other.csv", index=False)
    for wrong in ('data = "other.csv', 'data = "gone.csv"', ""):
        settings_text(place, wrong)
        assert LOOKING in says(running, latency=0.2), wrong
    settings_text(place, 'data = "other.csv"')
    other = says(running, latency=0.2)
    assert not isinstance(other, str)
    assert any(np.any(first[name] != other[name]) for name in first)
    assert running.data.name == "data.csv"


def test_a_job_does_not_go_on_over_a_file_with_another_path(place):
    running = settings(place, 'data = "data.csv"')
    says(running)
    shutil.copy(place.data, place.folder / "moved.csv")
    settings_text(place, 'data = "moved.csv"')
    assert not isinstance(says(running), str)
    patients()[1:].to_csv(place.folder / "other.csv", index=False)
    settings_text(place, 'data = "other.csv"')
    assert says(running) == f"north: {REFUSED}"
    assert last_line(place)["rule"] == "frozen"


def test_an_approval_is_for_the_file_that_the_person_read(place):
    (place.folder / "policy.toml").write_text('answers = "each"\ncomplete = true\n')
    running = settings(place, 'data = "data.csv"')
    patients(260).to_csv(place.folder / "other.csv", index=False)
    for name in ("data.csv", "other.csv"):
        settings_text(place, f'data = "{name}"')
        assert "waits for approval" in says(running)
        [id] = waiting(place.folder)
        assert f"  data file: {place.folder / name}" in words_of(place.folder, id)
    approve(place.folder, id)
    settings_text(place, 'data = "data.csv"')
    assert "waits for approval" in says(running)
    approve(place.folder, id)
    assert not isinstance(says(running), str)
