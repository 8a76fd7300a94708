"""Several seeds: medians and quartiles over runs on one split."""

import json
import shlex

import numpy as np
import pandas
import pytest

import feddcd
from feddcd.cli.app import main
from feddcd.report import median_entry
from feddcd.report.methods import title
from feddcd.runs import _comparing, api
from feddcd.runs.comparison import Comparison

SMALL = {"clients": 4, "tau": 2, "rounds": 4, "certify_every": 2, "algorithms": ("mbsgd", "fedavg")}
SMALL |= {"settings": {"mbsgd": {"lr": 0.1}}}  # as the command below: one program


@pytest.fixture(scope="module", autouse=True)
def _no_pictures_of_single_runs():
    """They take most of the time, and tests/report/test_report.py looks at them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("feddcd.report.run.panels", lambda *a: [])
        yield


@pytest.fixture(scope="module")
def repeats(tmp_path_factory):
    folder = tmp_path_factory.mktemp("repeats") / "race"
    return folder, feddcd.repeat("wine", seeds=3, seed=7, out=folder, **SMALL)


def test_medians_and_quartiles_are_those_of_the_runs(repeats):
    _, found = repeats
    for name, entry in zip(("mbsgd", "fedavg"), found.entries(), strict=True):
        each = np.stack([found[seed][name].history["objective"] for seed in (7, 8, 9)])
        assert entry.runs == 3
        np.testing.assert_allclose(entry.history["objective"], np.median(each, 0), rtol=1e-12)
        low, high = entry.bands["objective"]
        np.testing.assert_allclose(low, np.quantile(each, 0.25, axis=0), rtol=1e-12)
        np.testing.assert_allclose(high, np.quantile(each, 0.75, axis=0), rtol=1e-12)


def test_all_seeds_share_one_split_and_draw_other_cohorts(repeats):
    _, found = repeats
    specs = [found[seed]["mbsgd"].spec for seed in (7, 8, 9)]
    assert {spec.split_seed for spec in specs} == {7}
    models = [found[seed]["mbsgd"].model for seed in (7, 8, 9)]
    assert not np.array_equal(models[0], models[1])


def test_the_report_names_all_seeds(repeats):
    folder, found = repeats
    assert {entry.config["seed"] for entry in found.entries()} == {"7, 8, 9"}
    assert "7, 8, 9" in (folder / "report.html").read_text()


def test_columns_of_numbers_have_their_types(repeats):
    table = repeats[1].to_pandas()
    counts = ["rounds", "uploads", "bytes_up"]
    assert {str(table[name].dtype) for name in counts} == {"int64"}
    measured = ["objective", "certified_gap", "gap", "accuracy", "dual_residual"]
    assert {str(table[name].dtype) for name in measured} == {"float64"}


def test_each_gap_has_one_meaning_and_all_files_have_it(repeats):
    """`certified_gap` is to the run's own bound, `gap_at_most` to the best bound of all runs."""
    folder, _ = repeats
    table = pandas.read_csv(folder / "repeats.csv")
    own = np.maximum(table["objective"] - table["lower_bound"], 0)
    np.testing.assert_allclose(table["certified_gap"], own, atol=1e-12)
    assert set(table["best_bound"]) == {table["lower_bound"].max()}
    np.testing.assert_allclose(table["gap_at_most"], table["objective"] - table["best_bound"])
    one = pandas.read_csv(folder / "seed-7" / "compare.csv", index_col="label")
    np.testing.assert_allclose(one["gap_at_most"], one["objective"] - one["lower_bound"].max())
    assert {"uploads_to_1e-03", "bytes_up_to_1e-06"} <= {*one} & {*table}
    medians = pandas.read_csv(folder / "medians.csv", index_col="method")
    grouped = table.groupby("method")["gap_at_most"]
    for end, q in (("", 0.5), ("_quartile1", 0.25), ("_quartile3", 0.75)):
        np.testing.assert_allclose(medians[f"gap_at_most{end}"], grouped.quantile(q)[medians.index])
    assert set(medians["seeds"]) == {3}
    assert dict(medians["bits"]) == dict(table.groupby("method")["bits"].first())


def test_the_table_for_a_paper_says_that_its_numbers_are_medians(repeats):
    text = repeats[1].to_latex()
    assert "Medians over 3 seeds. The numbers in brackets are the quartiles." in text
    assert r"No method reached a proven gap of $10^{-3}$." in text
    lines = [line for line in text.splitlines() if line.startswith((title("mbsgd"), " & "))]
    assert lines[1].count("[") == lines[1].count("]") >= 2


def test_seeds_are_an_argument_of_run_and_compare(repeats, monkeypatch):
    """They pass on what they get; `repeat` itself is tried above."""
    asked = []
    for module in (api, _comparing):
        monkeypatch.setattr(module, "repeat", lambda data, **given: asked.append(given))
    feddcd.compare("wine", seeds=3)
    feddcd.run("wine", seeds=3, algorithm="fedavg", settings={"lr": 0.1}, tau=2)
    assert [given["seeds"] for given in asked] == [3, 3]
    assert asked[0]["algorithms"] == api.usual()
    assert asked[1]["algorithms"] == ["fedavg"]
    assert asked[1]["settings"] == {"fedavg": {"lr": 0.1}}
    assert asked[1]["tau"] == 2


def test_a_run_that_ended_early_keeps_its_last_values(repeats):
    entry = repeats[1][7]["mbsgd"].entry()
    short = entry._replace(
        history=type(entry.history)({k: v[:2] for k, v in entry.history.items()})
    )
    both = median_entry([entry, short])
    assert both.history.rounds == 4
    last = (entry.history["objective"][3] + short.history["objective"][1]) / 2
    assert both.history["objective"][3] == pytest.approx(last, rel=1e-12)


def test_the_files_hold_every_run_and_the_medians(repeats):
    folder, found = repeats
    table = found.to_pandas()
    assert len(table) == 6
    assert len((folder / "repeats.csv").read_text().splitlines()) == 7
    assert (folder / "compare.png").stat().st_size > 5000
    assert (folder / "compare.pdf").read_bytes().startswith(b"%PDF")
    assert "3 seeds" in (folder / "report.html").read_text()
    assert {path.name for path in folder.iterdir() if path.is_file()} == set(found.files)
    assert (folder / "compare.tex").read_text() == found.to_latex()
    assert (folder / "compare.md").read_text("utf-8") == found.to_markdown()
    with pytest.raises(ValueError, match=r"feddcd\.Repeats\.load"):
        Comparison.load(folder)
    again = feddcd.Repeats.load(folder)
    assert again.to_latex() == found.to_latex()
    assert isinstance(again[8], Comparison)


def test_the_command_goes_on_where_it_was(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("feddcd.report.curves", lambda entries: None)  # the fixture draws them
    monkeypatch.setattr("feddcd.report.save_png", lambda figure, path: path.write_bytes(b""))
    monkeypatch.setattr("feddcd.report.save_pdf", lambda figure, path: path.write_bytes(b""))
    quick = "--data wine --clients 4 --tau 2 --rounds 4 --certify-every 2"
    feddcd_cli(f"run {quick} --algorithm mbsgd --set lr=0.1 --seeds 2 --out runs/a")
    told = capsys.readouterr().out
    assert "medians over 2 seeds" in told
    files = "repeats.csv, medians.csv, compare.tex, compare.md, compare.png, compare.pdf"
    assert f"in runs/a: {files}, report.html" in told
    made = (tmp_path / "runs/a/seed-1/mbsgd/checkpoint.npz").stat().st_mtime_ns
    assert "lr = 0.1" in (tmp_path / "runs/a/seed-0/mbsgd/config.toml").read_text()
    feddcd_cli("run --resume runs/a --json")
    again = json.loads(capsys.readouterr().out)
    assert [run["seed"] for run in again["runs"]] == [0, 1]
    feddcd_cli("report runs/a/seed-0/mbsgd --json")
    assert json.loads(capsys.readouterr().out)["runs"] == ["mbsgd"]
    assert (tmp_path / "runs/a/seed-1/mbsgd/checkpoint.npz").stat().st_mtime_ns >= made
    feddcd_cli(f"compare {quick} --algorithm mbsgd --out runs/a", code=2)
    assert "already contains" in capsys.readouterr().err


def feddcd_cli(command, code=0):
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(command))
    assert stop.value.code == code


def test_one_seed_is_enough(tmp_path):
    small = {"clients": 4, "rounds": 1, "algorithms": ["mbsgd"]}
    found = feddcd.compare("wine", seeds=1, out=tmp_path / "one", **small)
    assert list(found) == [0]
    assert "Medians" not in found.to_latex()


@pytest.mark.parametrize("seeds", [0, -3, True, 2.5, 10**9])
def test_odd_numbers_of_seeds_are_refused(seeds):
    with pytest.raises(ValueError, match="seeds must be a whole number from 1 to 1000; got"):
        feddcd.repeat("wine", seeds=seeds)
