"""A finished training leaves what `feddcd run` leaves."""

import json

import numpy as np
import pytest

from feddcd._errors import Refused
from feddcd.federation.coordinator._written import check_summary
from feddcd.federation.folder import FederationFolder
from feddcd.federation.run_folder import write_run
from feddcd.history import COLUMNS
from feddcd.runs.result import Result

SITES = ["east", "north", "south"]
EVENTS = [
    {"event": "greeting"},
    {"event": "round", "round": 1, "summed": SITES, "seconds": 0.5, "bytes": 240},
    {"event": "round", "round": 2, "summed": [], "seconds": 0.5, "bytes": 0},  # too few answered
    {"event": "certified", "objective": 0.9, "lower_bound": 0.2, "certified_gap": 0.7},
    {"event": "round", "round": 3, "summed": SITES[:2], "seconds": 0.25, "bytes": 160},
    {"event": "certified", "objective": 0.5, "lower_bound": 0.4, "certified_gap": 0.1},
]
SUMMARY = {
    "federation": "fed", "algorithm": "feddcd", "rounds": 2, "uploads": 5, "bytes_up": 400,
    "members": dict.fromkeys(SITES, 20), "objective": 0.5, "lower_bound": 0.4,
    "certified_gap": 0.1,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr("feddcd.report.run.panels", lambda *a: [])
    text = 'name = "fed"\nmodel = "logistic"\nrounds = 2\nl2 = 0.01\n'
    (tmp_path / "federation.toml").write_text(text)
    results = tmp_path / "server"
    results.mkdir()
    lines = [json.dumps({"time": 0.0, **event}) + "\n" for event in EVENTS]
    (results / "events.jsonl").write_text("".join(lines))
    (results / "summary.json").write_text(json.dumps(SUMMARY))
    np.savez(results / "model.npz", w=np.zeros((4, 1)), features=np.array(list("abcd")))
    return FederationFolder(tmp_path)


def test_a_training_leaves_the_folder_of_a_run(folder):
    report = write_run(folder)
    assert report is not None
    assert "fed" in report.read_text()
    result = Result.load(folder.results)
    assert result.certificate[:3] == (0.5, 0.4, 0.1)
    assert result.history["uploads"].tolist() == [3, 5]
    assert result.history["bytes_up"].tolist() == [240, 400]
    assert result.history["certified_gap"].tolist() == [0.7, 0.1]
    assert result.history["seconds"].tolist() == [0.5, 0.75]
    assert (result.model.shape, result.summary["clients"]) == ((4, 1), 3)
    assert result.spec.algorithm == "feddcd"
    assert result.summary["status"] == "finished", "as a run says it"
    rows = (folder.results / "history.csv").read_text().splitlines()
    for name in ("bytes_down", "solver_steps"):  # nobody counted them, so they are not 0
        assert np.isnan(result.history[name]).all()
        assert [row.split(",")[COLUMNS.index(name)] for row in rows] == [name, "", ""]
    assert result.history["uploads"].dtype == np.int64
    file = folder.results / "summary.json"
    before = json.loads(file.read_text())
    file.write_text(json.dumps(before | {"status": "done"}))  # as version 0.2.0 wrote it
    assert before["members"] == SUMMARY["members"]
    write_run(folder)  # and once more, the same
    assert json.loads((folder.results / "summary.json").read_text()) == before


def test_the_word_for_the_state_is_one_of_ours():
    for word in ("finished", "done"):  # the second is of version 0.2.0
        check_summary({"status": word}, {})
    with pytest.raises(Refused, match=r"the value of 'status' in summary.json disagrees with"):
        check_summary({"status": "proven"}, {})


def test_the_ledger_has_the_last_word_on_what_was_sent(folder):
    """A crash may take a line of the events, and not one of the ledger."""
    lines = folder.events.read_text().splitlines()
    folder.events.write_text("\n".join(lines[:-2]) + "\n")
    write_run(folder)
    history = Result.load(folder.results).history
    assert (history.last("round"), history.last("uploads"), history.last("bytes_up")) == (2, 5, 400)


@pytest.mark.parametrize("lost", [1, 2])
def test_the_certificate_of_an_earlier_round_is_not_that_of_the_last(folder, lost):
    """The last model was not certified: sites were away, or their certificates contradict."""
    bare = {k: v for k, v in SUMMARY.items() if k not in ("objective", "lower_bound")}
    del bare["certified_gap"]
    (folder.results / "summary.json").write_text(json.dumps(bare))
    lines = folder.events.read_text().splitlines()
    folder.events.write_text("\n".join(lines[:-lost]) + "\n")
    for _ in range(2):
        write_run(folder)
        summary = json.loads((folder.results / "summary.json").read_text())
        assert summary["certified_gap"] is summary["objective"] is None
    assert np.isnan(Result.load(folder.results).history["certified_gap"][-1])


def test_before_the_first_round_there_is_nothing_to_write(folder):
    (folder.results / "summary.json").unlink()
    assert write_run(folder) is None
