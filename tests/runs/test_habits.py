"""A researcher's habits: seeds apart, fewer looks, a folder read back, a table for a paper."""

import re

import numpy as np
import pytest

import feddcd
from feddcd._errors import Diverged, FolderError
from feddcd.report.methods import title
from feddcd.runs._inputs import collect
from feddcd.runs.build import build
from feddcd.runs.comparison import Repeats
from feddcd.runs.spec import Spec

SMALL = {"clients": 4, "tau": 2, "algorithm": "mbsgd", "rounds": 7, "certify_every": 5}


@pytest.fixture(scope="module")
def rows():
    random = np.random.default_rng(0)
    X = random.normal(size=(40, 3))
    return X, (X[:, 0] + random.normal(size=40) > 0).astype(int)


@pytest.fixture(scope="module")
def runs(rows, tmp_path_factory):
    """The same run twice: the objective looked at in each round, and in every third."""
    folder = tmp_path_factory.mktemp("habits")
    return folder, [
        feddcd.run(rows, out=folder / str(every), eval_every=every, **SMALL) for every in (1, 3)
    ]


@pytest.mark.chaos
def test_fewer_looks_change_nothing_else(runs):
    all_, some = (result.history for result in runs[1])
    looked = np.isfinite(some["objective"])
    # rounds 3 and 6, and 5 and 7 where a certificate was made
    assert looked.tolist() == [r in (3, 5, 6, 7) for r in range(1, 8)]
    np.testing.assert_allclose(some["objective"][looked], all_["objective"][looked], rtol=1e-6)
    np.testing.assert_array_equal(runs[1][0].model, runs[1][1].model)
    assert runs[1][1].certificate.gap == pytest.approx(runs[1][0].certificate.gap, rel=1e-5)


def test_a_logger_gets_every_round_once(rows):
    """Also where a run goes on: what was shown before is not shown again."""
    calls, log = [], []

    def watch(progress):
        calls.append(progress.round)
        log.extend((row["round"], row) for row in progress.rows)

    result = feddcd.run(rows, **SMALL, eval_every=3, watch=watch)
    assert calls == [5, 7]
    assert [step for step, _ in log] == list(range(1, 8))
    assert [("objective" in row, "certified_gap" in row) for _, row in log] == [
        (r in (3, 5, 6, 7), r in (5, 7)) for r in range(1, 8)
    ]
    assert log[-1][1]["objective"] == result.certificate.objective
    assert all(type(x) in (int, float) for _, row in log for x in row.values())


def test_a_run_that_diverges_is_still_noticed_with_few_looks(rows):
    with pytest.raises(Diverged, match="not finite"):
        feddcd.run(rows, **SMALL | {"rounds": 600}, eval_every=3, settings={"lr": 1e30})


def test_the_split_has_a_seed_of_its_own(rows):
    parts = lambda **seeds: np.asarray(build(*_spec(rows, **seeds)).federated.problem.Y)
    same = parts(seed=0)
    np.testing.assert_array_equal(parts(seed=5, split_seed=0), same)
    assert not np.array_equal(parts(seed=0, split_seed=5), same)
    key = lambda **seeds: build(*_spec(rows, **seeds)).federation.key
    assert key(seed=5) == key(seed=5, split_seed=0)


def _spec(rows, **seeds):
    return collect(
        rows, problem=None, model="softmax", loss=None, score=None, parts=None, w=None, names=None,
        options={"clients": 4, "tau": 2} | seeds,
    )  # fmt: skip


def test_a_folder_read_back_is_the_result(runs):
    folder, (result, _) = runs
    again = feddcd.Result.load(folder / "1")
    np.testing.assert_array_equal(again.model, result.model)
    np.testing.assert_array_equal(again.classes, result.classes)
    assert again.spec == result.spec
    assert again.certificate == result.certificate
    assert "reason" not in repr(result.certificate)
    assert repr(result.certificate._replace(reason="no bound")).endswith("reason='no bound')")
    assert again.summary == result.summary
    for name in result.history:
        np.testing.assert_array_equal(again.history[name], result.history[name])
    again.plot()


def test_a_folder_without_a_model_is_refused_by_name(runs, tmp_path):
    with pytest.raises(FolderError, match="no such run folder"):
        feddcd.Result.load(tmp_path / "none")
    with pytest.raises(FolderError, match="contains no comparison"):
        feddcd.Comparison.load(tmp_path)
    (tmp_path / "run").mkdir()
    for name in ("config.toml", "history.csv", "summary.json"):
        (tmp_path / "run" / name).write_bytes((runs[0] / "1" / name).read_bytes())
    (tmp_path / "run" / "model.npz").write_bytes(b"PK damaged")
    with pytest.raises(FolderError, match=r"cannot read .*model\.npz"):
        feddcd.Result.load(tmp_path / "run")


def test_a_comparison_read_back_has_its_table_in_latex_and_markdown(runs):
    folder, results = runs
    comparison = feddcd.Comparison.load(folder)
    assert list(comparison.results) == ["1", "3"]
    text = comparison.to_latex()
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(body) == 1 + len(results)
    assert all(line.count("&") == 2 for line in body)  # no run reached 1e-3
    assert not re.search(r"(?<!\\)[%_#]", "".join(body))
    name = title(results[0].summary["algorithm"])
    assert body[1].startswith(name)
    head, rule, first, *_ = comparison.to_markdown().splitlines()
    assert rule.count("-:") == 2
    assert first.startswith(f"| {name} ")
    assert len({len(line) for line in (head, rule, first)}) == 1


def test_what_is_refused():
    for name in ("eval_every", "certify_every"):
        with pytest.raises(ValueError, match=f"{name} must be at least 1"):
            Spec(**{name: 0})
    with pytest.raises(ValueError, match="need 0 <= split_seed"):
        Spec(split_seed=-1)


def test_a_watcher_can_stop_a_run_that_then_goes_on(tmp_path):
    few = {"algorithm": "mbsgd", "clients": 4, "certify_every": 2, "rounds": 6}
    seen = []
    found = feddcd.run("wine", **few, out=tmp_path / "a", watch=lambda step: step.round == 2)
    assert (found.summary["status"], found.history.rounds) == ("stopped", 2)
    assert feddcd.resume(tmp_path / "a", watch=seen.append).history.rounds == 6
    assert [step.round for step in seen] == [4, 6]

    def broken(step):
        raise RuntimeError("mine")

    with pytest.raises(RuntimeError, match="mine"):
        feddcd.run("wine", **few, out=tmp_path / "b", watch=broken)
    assert feddcd.resume(tmp_path / "b").history.rounds == 6


def test_results_are_short_where_they_are_printed(tmp_path):
    few = {"algorithms": ["mbsgd", "fedavg"], "clients": 4, "rounds": 2, "certify_every": 2}
    made = feddcd.compare("wine", **few, l2=0.0)
    assert list(made) == ["mbsgd", "fedavg"]
    assert (len(made), repr(made)) == (2, "Comparison(mbsgd, fedavg)")
    one = made["mbsgd"]
    assert repr(one).startswith("Result(mbsgd on wine: 2 rounds, objective ")
    assert one.certificate.reason == "feddcd can prove a bound only with a penalty (l2 above 0)"
    assert one.certificate.reason in repr(one)
    assert repr(one.history).startswith("History(2 rounds; columns round, iteration")
    assert repr(Repeats({0: made, 1: made})) == "Repeats(seeds 0, 1 of mbsgd, fedavg)"
