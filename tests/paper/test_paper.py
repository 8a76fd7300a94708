"""The paper's grid as data, its runs, and what is written of them, on small data."""

import dataclasses
import json
import os
import re
import shlex
import tomllib
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from sklearn.linear_model import LogisticRegression

from docs_blocks import DOCS
from feddcd._errors import FeddcdError, FolderError, SpecError
from feddcd.algorithms import AccFedDCD, FedAvg, FedDCD
from feddcd.cli._cells import cells_shown
from feddcd.cli.app import main
from feddcd.data import load
from feddcd.data.federate import federate
from feddcd.paper import _bench as players
from feddcd.paper import _processes, grid, reproduce, tune
from feddcd.paper import cells as paper
from feddcd.paper._bench import Bench, RunCurve
from feddcd.paper._differences import differences
from feddcd.paper.authors import authors_run
from feddcd.paper.cells import (
    PAPER_PROBLEMS,
    PARTS,
    PROBLEMS,
    VARIANTS,
    hyperparameters,
    methods,
    tuned_settings,
)
from feddcd.paper.reproduce import ORDER, median, printed_accuracy, printed_rounds, table2_rows
from feddcd.participation import UniformSubset
from feddcd.simulator.simulate import federation, start
from feddcd.solvers import SGD, NewtonCG, _epochs
from federations import FEW_STEPS, TAU, D, N, quadratics
from slices import sliced

SHORT = (paper.Setup(0.3, (0.5, 0.1), 6), paper.Setup(0.1, (0.5,), 6))


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("FEDDCD_CACHE", str(tmp_path / "cache"))
    monkeypatch.delenv("FEDDCD_REFERENCE", raising=False)


def small(algorithm: str, problem: str = "digits-softmax", **changes) -> paper.Cell:
    made = paper.cell(problem, "contiguous", 12, algorithm, "authors", 4, 2)
    return dataclasses.replace(made, **changes)


def read_cell(text: str) -> paper.Cell:
    values = tomllib.loads(text)
    return paper.Cell(**values | {"settings": tuple(values["settings"].items())})


def test_a_cell_in_toml_says_all_of_it():
    for cell in paper.grid(["figure1", "table2"], ["digits-softmax"], "authors", 3):
        assert read_cell(cell.to_toml()) == cell
    with pytest.raises(SpecError, match="unknown problem 'digits'; did you mean"):
        dataclasses.replace(small("feddcd"), problem="digits")


def test_an_id_says_what_determines_the_numbers():
    one = small("feddcd")
    assert one.id == small("feddcd", iterations=9, seeds=5, until=1e-3).id
    others = [
        small("feddcd", tau=13), small("feddcd", split="two-class"), small("accfeddcd"),
        small("feddcd", settings=(("eta", 0.5),)), small("feddcd", data="wine"),
    ]  # fmt: skip
    assert len({one.id, *(cell.id for cell in others)}) == 6
    assert one.id.startswith("digits-softmax-contiguous-tau12-feddcd-")


def test_the_grid_has_every_cell_once():
    cells = paper.grid(
        ["figure1", "table2", "figure3", "table3"], list(PAPER_PROBLEMS), "authors", 3
    )
    # 6 methods x 3 cohort sizes for both softmax problems, 5 x 3 for the MLP, and figure 3
    assert len(cells) == len({c.id for c in cells}) == 2 * 18 + 15 + 6 + 5
    # a cell that figure 1 draws runs all rounds, although table 2 would let it stop
    assert {c.until for c in cells if c.tau == 30} == {None}
    assert {c.until for c in cells if c.tau == 10} == {1e-2}
    alone = paper.grid(["table2"], ["mnist-softmax"], "authors", 3)
    assert {c.until for c in alone if c.tau == 30} == {1e-3}
    groups = [(c.problem, c.split) for c in cells]
    assert len(set(groups)) == sum(a != b for a, b in zip(groups, [None, *groups], strict=False))


def test_what_the_paper_printed():
    assert printed_rounds("mnist-softmax", 30, 1e-3, "feddcd") == 28
    assert printed_rounds("rcv1-softmax", 30, 1e-3, "fedavg") == ">100"
    assert printed_rounds("mnist-softmax", 30, 1e-3, "pointsaga") is None
    assert printed_accuracy("mnist-mlp", "scaffold") == 0.9023
    for problem in PAPER_PROBLEMS:
        for setup in paper.TABLE2:
            for eps in setup.eps:
                row = [printed_rounds(problem, setup.tau(problem), eps, a) for a in ORDER]
                ours = (setup.share, eps) in ((0.05, 1e-2), (0.05, 1e-3))  # asked for beyond it
                assert row == [None] * len(ORDER) if ours else None not in row


def test_gaps_beyond_the_papers_with_few_clients():
    """τ = 5 goes on to 1e-3, and the table has a row for each gap."""
    cells = list(paper.table2("mnist-softmax", "paper", 1))
    few = [cell for cell in cells if cell.tau == 5]
    assert len(few) == len(methods("mnist-softmax"))
    assert {cell.until for cell in few} == {1e-3}
    results = {
        cell.id: [RunCurve(np.array([0.5, 0.05, 2e-3, 5e-4]), np.zeros(4), np.arange(4), 0.0)]
        for cell in cells
    }
    rows = table2_rows(results, ["mnist-softmax"], "paper", 1, None)
    found = {
        row["eps"]: row["rounds"] for row in rows if (row["tau"], row["algorithm"]) == (5, "feddcd")
    }
    assert found == {1e-1: [2], 1e-2: [3], 1e-3: [4]}
    setups = list(dict.fromkeys((row["tau"], row["eps"]) for row in rows))
    assert setups == sorted(setups, key=lambda s: (-s[0], s[1]))  # as in the table that is shown


def test_the_variants_differ_as_documented():
    authors = hyperparameters("mnist-softmax", "contiguous", 30, "accfeddcd", "authors")
    assert authors == {"eta": 0.99, "kappa": 1e-2, "r": 0.3, "tol": 1e-6}
    assert hyperparameters("mnist-softmax", "iid", 30, "accfeddcd", "paper") == {"max_steps": 10}
    dual = hyperparameters("rcv1-softmax", "iid", 30, "feddcd", "paper")
    assert dual == {"max_steps": 10, "eta": tuned_settings("rcv1-softmax", "iid")["feddcd"]["eta"]}
    sgd = hyperparameters("rcv1-softmax", "contiguous", 10, "fedprox", "authors")
    assert sgd == {"lr": 0.1, "epochs": 5, "m": 1e-4, "batch_size": 1}
    mlp = hyperparameters("mnist-mlp", "two-class", 30, "feddcd", "authors")
    assert (mlp["step"], mlp["start"], mlp["solver"]) == (0.1, "model", "sgd")
    assert {paper.iid("paper"), paper.iid("authors")} == {"iid", "contiguous"}


def test_the_page_has_all_that_is_tuned():
    """Of FedAvg and FedProx, whose settings are the same; of SCAFFOLD; and FedDCD's eta."""
    _, _, below = (DOCS / "paper.md").read_text().partition("\n| rate, epochs; η |")
    rows = [line.strip("| ").split(" | ") for line in below.partition("\n\n")[0].splitlines()[2:]]
    told = {name.lower(): [cell.strip(" |") for cell in cells] for name, *cells in rows}
    name = lambda problem: problem.replace("-", " ").replace("rcv1", "rcv1 subset")
    known = {"iid": "", "two-class": ", two classes each"}
    tuned = {
        name(problem) + known[split]: found
        for problem, splits in paper._tuned_file().items()
        if problem != "grid"
        for split, found in splits.items()
    }
    assert set(told) == set(tuned)
    for row, found in tuned.items():
        rates = [[found[one]["lr"], found[one]["epochs"]] for one in paper.PRIMAL]
        avg, prox, scaffold = rates
        assert avg == prox
        assert [[*map(float, cell.split(", "))] for cell in told[row][:2]] == [avg, scaffold]
        eta = [found["feddcd"]["eta"]] if "feddcd" in found else []
        assert [float(cell) for cell in told[row][2:] if cell] == eta


@pytest.mark.parametrize("problem", PROBLEMS)
@pytest.mark.parametrize("split", ["iid", "two-class"])
def test_what_is_tuned_lies_on_the_stated_grid(problem, split):
    if split == "two-class" and problem in paper.NOT_IN_FIGURE3:
        pytest.skip("the paper does not run it")
    found = tuned_settings(problem, split)
    mlp = PROBLEMS[problem].model.startswith("mlp")
    assert set(found) == set(tune.TUNED) - ({"feddcd"} if mlp else set())
    for algorithm, row in found.items():
        if algorithm == "feddcd":
            assert row == {"eta": row["eta"]}
            assert row["eta"] in tune.ETAS
        else:
            assert row["lr"] in tune.RATES
            assert row["epochs"] in tune.EPOCHS
    with pytest.raises(SpecError, match="run feddcd tune"):
        tuned_settings("nothing", split)


@pytest.mark.chaos
def test_a_grid_keeps_what_it_ran(tmp_path, monkeypatch):
    cell = small("feddcd")
    steps = []
    first = grid.run_grid([cell], tmp_path, steps.append)
    assert [len(c.objective) for c in first[cell.id]] == [4, 4]
    assert list(first[cell.id][0].uploads) == [12, 24, 36, 48]
    assert steps[-1].done == steps[-1].cells == 1
    assert read_cell((tmp_path / "cells" / cell.id / "cell.toml").read_text()) == cell

    monkeypatch.setattr(Bench, "build", lambda *a: pytest.fail("nothing is missing"))
    again = grid.run_grid([cell, dataclasses.replace(cell, iterations=3)], tmp_path)
    assert np.array_equal(again[cell.id][1].objective, first[cell.id][1].objective)
    monkeypatch.undo()

    ran = []
    monkeypatch.setattr(grid, "save", lambda c, seed, *rest: ran.append(seed))
    with pytest.raises(FolderError, match=r"seed3.csv.* delete this file"):
        grid.run_grid([dataclasses.replace(cell, seeds=3)], tmp_path)
    assert ran == [3]


def test_a_damaged_result_is_named(tmp_path):
    cell = small("feddcd")
    file = grid.path(cell, 1, tmp_path)
    file.parent.mkdir(parents=True)
    file.write_text("iteration,uploads\n1,2\n")
    with pytest.raises(FolderError, match=r"seed1.csv is damaged: .*delete this file"):
        grid.run_grid([cell], tmp_path)


def test_a_cell_stops_right_after_it_got_there(tmp_path):
    cell = small("feddcd", iterations=50, until=0.05, seeds=1)
    curve = grid.run_grid([cell], tmp_path)[cell.id][0]
    gaps = curve.objective - curve.optimum
    assert curve.reached(0.05) == len(gaps) < 50
    assert gaps[-1] <= 0.05 < min(gaps[:-1])
    # 0.01 asks for more than was run, 0.1 does not
    assert grid._missing(dataclasses.replace(cell, until=0.01), tmp_path) == [1]
    assert grid._missing(dataclasses.replace(cell, until=0.1), tmp_path) == []


def test_interrupted_work_is_kept(tmp_path, monkeypatch):
    cells = [small("feddcd", seeds=1), small("accfeddcd", seeds=1)]
    done = []

    class Pressed:
        def __enter__(self):
            return lambda: bool(done)

        def __exit__(self, *error):
            return False

    monkeypatch.setattr(grid, "patient_interrupt", Pressed)
    keep = grid.save
    monkeypatch.setattr(grid, "save", lambda *a: (keep(*a), done.append(a)))
    with pytest.raises(grid.Interrupted):
        grid.run_grid(cells, tmp_path)
    assert [bool(grid._missing(c, tmp_path)) for c in cells] == [False, True]


@pytest.mark.parametrize(
    ("problem", "algorithm"),
    [
        ("digits-softmax", "fedavg"),
        ("digits-softmax", "accfeddcd"),
        ("digits-mlp", "feddcd"),
    ],
)
@pytest.mark.chaos
def test_lanes_run_what_threads_run(tmp_path, problem, algorithm):
    """Side by side under vmap, as on an accelerator, and one by one: the same up to the local
    solver's tolerance, and each seed's numbers are its own."""
    cell = small(algorithm, problem)
    bench = Bench.build(problem, "digits", "contiguous", tmp_path)
    with jax.enable_x64(bench.double):
        starts = [bench.start(cell, s) for s in range(3)]
        same_in_lanes(bench.federation(cell), starts, bench.optimum, 1e-6 if bench.double else 1e-5)


@pytest.mark.chaos
def test_lanes_run_what_threads_run_on_quadratics():
    with jax.enable_x64(True):
        base = federation(FedAvg(FEW_STEPS), quadratics("equal"), UniformSubset(N, TAU), seed=0)
        same_in_lanes(base, [jnp.zeros(D)] * 3, 0.0, 1e-12)


def same_in_lanes(base, starts, optimum, tolerance):
    feds = [eqx.tree_at(lambda f: f.key, base, jax.random.key(s)) for s in range(3)]
    found = []
    for kind in (players.Threads, players.Lanes):
        made = kind(feds, [start(base, w) for w in starts], lambda: optimum)
        found.append(dict(made.play(4, None, lambda i, F: None, lambda: False)))
    for k in range(3):
        np.testing.assert_allclose(found[0][k].objective, found[1][k].objective, atol=tolerance)
        assert np.array_equal(found[0][k].uploads, found[1][k].uploads)
    assert len({curve.objective[-1] for curve in found[0].values()}) == 3


def test_as_many_threads_as_the_variable_says_and_the_same_numbers(tmp_path, monkeypatch):
    cell = small("feddcd", iterations=2, seeds=3)
    asked, pool = [], players.ThreadPoolExecutor
    monkeypatch.setattr(players, "ThreadPoolExecutor", lambda n: asked.append(n) or pool(n))
    found = []
    for threads in ("1", "3"):
        monkeypatch.setenv("FEDDCD_THREADS", threads)
        found.append(grid.run_grid([cell], tmp_path / threads)[cell.id])
    assert asked == [1, 3]
    for one, three in zip(*found, strict=True):
        assert np.array_equal(one.objective, three.objective)


def test_several_compilers_change_no_number(tmp_path, monkeypatch):
    """As on an accelerator: the data of all problems are read ahead, small ones first."""
    cells = [small("fedavg", iterations=2, seeds=2, split=split) for split in ("iid", "sorted")]
    found = []
    for compilers in (1, 3):
        monkeypatch.setattr(grid, "_compilers", lambda n=compilers: n)
        found.append(grid.run_grid(cells, tmp_path / str(compilers)))
    for cell in cells:
        for one, three in zip(*(results[cell.id] for results in found), strict=True):
            assert np.array_equal(one.objective, three.objective)


def test_while_a_large_file_is_read_cells_of_a_small_one_run(monkeypatch):
    """Of three processes the first reads the large file; the others have a cell of the small one
    before their own, and no cell is begun twice."""
    size = {"large": 9, "small": 1}
    monkeypatch.setattr(_processes, "size_of", size.__getitem__)
    cells = [dataclasses.replace(small("fedavg"), data=d) for d in ("large",) * 4 + ("small",) * 3]
    assert _processes.openings(cells, 3) == [[0], [4, 1], [5, 2]]
    assert _processes.openings(cells[:4], 3) == [[0], [1], [2]]
    assert _processes.openings(cells[:1], 1) == [[0]]


def test_a_finished_grid_is_not_told_cell_by_cell(tmp_path):
    cells = [small(name, iterations=2, seeds=1) for name in ("fedavg", "scaffold")]
    grid.run_grid(cells, tmp_path)
    steps = []
    grid.run_grid(cells, tmp_path, steps.append)
    assert [(step.done, step.cells) for step in steps] == [(2, 2)]


def test_a_grid_that_goes_on_begins_at_what_is_done(tmp_path, capsys):
    cells = [small(name, iterations=2, seeds=1) for name in ("fedavg", "scaffold")]
    grid.run_grid(cells[1:], tmp_path)
    with cells_shown(False) as watch:
        grid.run_grid(cells, tmp_path, watch)
    shown = capsys.readouterr().err
    earlier, *lines = shown.splitlines()
    assert earlier == "1 of 2 experiments were finished by an earlier command"
    assert re.findall(r"(\d of \d) experiments are", "\n".join(lines)) == ["1 of 2", "2 of 2"]


def test_several_processes_change_no_number(tmp_path, monkeypatch):
    """As on an accelerator, where processes share it; a finished grid starts none."""
    cells = [small("fedavg", iterations=2, seeds=2, split=split) for split in ("iid", "sorted")]
    steps, before = [], dict(os.environ)
    one = grid.run_grid(cells, tmp_path / "one", processes=1)
    two = grid.run_grid(cells, tmp_path / "two", steps.append, processes=2)
    for cell in cells:
        for a, b in zip(one[cell.id], two[cell.id], strict=True):
            assert np.array_equal(a.objective, b.objective)
    assert {step.done for step in steps} >= {1, 2}
    assert dict(os.environ) == before
    monkeypatch.setattr(grid, "run_in_processes", lambda *a: pytest.fail("nothing is missing"))
    grid.run_grid(cells, tmp_path / "two", processes=2)


def test_what_fails_in_a_process_reaches_the_person(tmp_path):
    lost = small("fedavg", iterations=1, seeds=1, data=str(tmp_path / "lost.svm"))
    with pytest.raises(FeddcdError, match=r"lost\.svm"):
        grid.run_grid([lost], tmp_path / "out", processes=2)
    assert not list(tmp_path.glob("out/cells/*/seed*.csv"))


def test_an_interrupt_stops_all_processes_and_keeps_what_is_done(tmp_path, monkeypatch):
    short = small("fedavg", iterations=1, seeds=1)
    cells = [short, dataclasses.replace(short, split="iid", iterations=9999)]
    done = []

    class Pressed:
        def __enter__(self):
            return lambda: any(step.done for step in done)

        def __exit__(self, *error):
            return False

    monkeypatch.setattr(grid, "patient_interrupt", Pressed)
    with pytest.raises(grid.Interrupted):
        grid.run_grid(cells, tmp_path, done.append, processes=2)
    assert [bool(grid._missing(c, tmp_path)) for c in cells] == [False, True]


def test_runs_with_other_shapes_are_not_put_side_by_side(tmp_path):
    from feddcd.simulator.lanes import lanes

    only = "runs can run at the same time only if they have the same method, the same settings, and"
    with pytest.raises(ValueError, match=only):
        lanes([{"a": jnp.zeros(2)}, {"b": jnp.zeros(2)}])
    shared = jnp.ones(3)
    differ, same = lanes([(shared, jnp.zeros(2)), (shared, jnp.ones(2))])
    assert same[0] is shared
    assert differ[0] is None
    assert differ[1].shape == (2, 2)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize(
    ("lr", "batch_size"),
    sliced([(1e-3, 1), (0.05, 7), (100.0, 1)], [(100.0, 1)]),
)
def test_sgd_in_step_is_sgd(monkeypatch, lr, batch_size, at_once):
    """Clients of different sizes, tilted; lr = 100 makes the decay 1 - lr*l2 exactly 0. With the
    rows' products (`prepare`) many steps are taken at once."""
    with jax.enable_x64(True):
        data = load("digits")
        f = federate(data, [np.arange(100), np.arange(100, 137)], l2=1e-2).problem
        q = 0.1 * jax.random.normal(jax.random.key(5), (2, 64, 10))
        f = eqx.tree_at(lambda f: f.q, f, q, is_leaf=lambda x: x is None)
        w = 0.1 * jax.random.normal(jax.random.key(1), (64, 10))
        found = []
        for side_by_side in (False, True):
            monkeypatch.setattr(_epochs, "in_step", lambda flag=side_by_side: flag)
            solver = SGD(lr=lr, epochs=2, batch_size=batch_size)
            ready = solver.prepare(f) if at_once else f
            assert (ready.gram is not None) == (at_once and side_by_side)
            solve = jax.vmap(lambda f, s=solver: s(f, w, jax.random.key(0)).w)
            found.append(eqx.filter_jit(solve)(ready))
        np.testing.assert_allclose(found[0], found[1], rtol=1e-12, atol=1e-12)


def test_the_optimum_is_scikit_learns():
    """Of clients that count equally, whatever their size."""
    data, kind = load("wine"), PROBLEMS["digits-softmax"]
    parts = np.split(np.arange(len(data.y)), [20, 90])
    each = np.concatenate([np.full(len(part), 1 / (3 * len(part))) for part in parts])
    with jax.enable_x64(True):
        found = players.optimum(data, parts, kind)
    peer = LogisticRegression(C=1 / kind.l2, fit_intercept=False, tol=1e-9, max_iter=9999)
    W = peer.fit(data.X, data.y, sample_weight=each).coef_.T
    Z = data.X @ W
    losses = logsumexp(Z, axis=1) - Z[np.arange(len(Z)), data.y.astype(int)]
    assert found == pytest.approx(each @ losses + kind.l2 / 2 * np.sum(W**2), abs=1e-7)


def test_the_median_counts_those_that_never_got_there():
    assert median([3, 5, None]) == 5
    assert median([3, None, None]) is None
    assert median([4, 7]) == 5.5


def test_a_curve_counts_from_one():
    curve = RunCurve(np.array([3.0, 1.5, np.nan]), np.zeros(3), np.arange(3), 1.0)
    assert (curve.reached(2.0), curve.reached(0.5), curve.reached(0.1)) == (1, 2, None)


def test_without_the_authors_files_there_is_no_run_of_theirs():
    assert authors_run("mnist-softmax", "iid", 30, "feddcd", None) is None
    assert authors_run("mnist-softmax", "iid", 30, "pointsaga", {}) is None
    assert authors_run("mnist-softmax", "iid", 5, "feddcd", {}) is None


def shortened(monkeypatch, setups, names) -> None:
    for module in (paper, reproduce):
        monkeypatch.setattr(module, "methods", lambda p: names, raising=False)
    for name in ("feddcd.paper.cells.TABLE2", "feddcd.paper.reproduce.TABLE2"):
        monkeypatch.setattr(name, setups)
    monkeypatch.setattr(paper, "FIGURE_ITERATIONS", 5)


@pytest.mark.parametrize(
    ("setups", "names"),
    [
        (SHORT[:1], ("feddcd",)),
        pytest.param(SHORT, ("fedavg", "feddcd"), marks=pytest.mark.chaos),
    ],
)
def test_reproduce_writes_tables_figures_and_a_report(setups, names, monkeypatch, capsys):
    shortened(monkeypatch, setups, names)
    command = "reproduce all --problem digits-softmax --variant authors --seeds 2 --out a"
    feddcd(command)
    shown, progress = capsys.readouterr()
    assert "wrote a/report.html" in shown
    lines = re.findall(r"(\d:\d\d:\d\d)  (\d+) of (\d+) experiments are finished", progress)
    done = [int(k) for _, k, _ in lines]
    assert done == list(range(int(lines[0][2]) + 1))  # one for each, off a terminal
    assert [time for time, *_ in lines] == sorted(time for time, *_ in lines)
    files = {path.name for path in Path("a").iterdir()}
    kinds = [f"table{k}.{kind}" for k in (2, 3) for kind in ("json", "md", "csv")]
    pictures = [f"figure{k}.{kind}" for k in (1, 3) for kind in ("png", "svg")]
    assert files >= {"report.html", "cells", *kinds, *pictures}
    rows = json.loads(Path("a/table2.json").read_text())
    assert len(rows) == len(names) * sum(len(setup.eps) for setup in setups)  # methods x gaps
    for row in rows:
        assert row.keys() >= {"problem", "tau", "eps", "algorithm", "rounds", "uploads"}
        assert row.keys() >= {"paper", "authors"}
        assert len(row["rounds"]) == len(row["uploads"]) == 2
        for rounds, uploads in zip(row["rounds"], row["uploads"], strict=True):
            assert (rounds is None) == (uploads is None)
            assert rounds is None or uploads == rounds * row["tau"]
    reached = {(r["algorithm"], r["eps"]): r["rounds"] for r in rows if r["tau"] == 12}
    assert None not in reached["feddcd", 0.5]
    assert json.loads(Path("a/table3.json").read_text())[0]["best"][0] > 0.2
    before = Path("a/table2.json").read_bytes()
    monkeypatch.setattr(Bench, "build", lambda *a: pytest.fail("nothing is missing"))
    monkeypatch.setattr(reproduce, "_figures", lambda *a: {})  # drawn once is enough
    feddcd(command)
    assert Path("a/table2.json").read_bytes() == before


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("reproduce figure2", "part 'figure2' of the paper is unknown; did you mean"),
        (
            "reproduce all --problem mnist",
            "unknown problem 'mnist'; did you mean 'mnist-softmax' or 'mnist-mlp'?",
        ),
        ("reproduce all --variant author", "unknown variant 'author'; did you mean 'authors'"),
        ("reproduce all --seeds 0", "seeds must be at least 1, got seeds=0"),
        ("reproduce table3 --problem rcv1-softmax", "the paper has no table3 for 'rcv1-softmax'"),
        ("tune --problem mnist", "unknown problem 'mnist'"),
        ("tune --split sorted", "unknown split 'sorted'"),
        ("tune --rounds 0", "rounds must be at least 1, got rounds=0"),
        ("tune --algorithm feddc", "'feddc' has no setting to tune; did you mean 'feddcd'?"),
    ],
)
def test_bad_requests_are_named(command, message, capsys):
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(command))
    assert stop.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("asked", sliced(["feddcd", "fedavg feddcd"], ["feddcd"]))
def test_tune_finds_the_best_of_its_grid(asked, monkeypatch, capsys):
    monkeypatch.setattr(tune, "RATES", (1e-9, 1e-2))
    monkeypatch.setattr(tune, "EPOCHS", (1,))
    monkeypatch.setattr(tune, "ETAS", (1e-9, 1.5))
    Path("t").mkdir()
    Path("t/tuned.toml").write_text("[other.iid.fedavg]\nlr = 0.5\n")
    methods = " ".join(f"--algorithm {name}" for name in asked.split())
    feddcd(f"tune --problem digits-softmax --split iid --rounds 2 {methods} --out t/tuned.toml")
    said = capsys.readouterr().out
    assert ("fedavg lr=1e-09 epochs=1: " in said) == ("fedavg" in asked)
    assert "feddcd eta=1e-09: " in said
    found = tomllib.loads(Path("t/tuned.toml").read_text())
    if "fedavg" in asked:
        assert found["digits-softmax"]["iid"]["fedavg"]["lr"] == 1e-2
    assert found["digits-softmax"]["iid"]["feddcd"]["eta"] == 1.5
    assert found["other"]["iid"]["fedavg"]["lr"] == 0.5
    assert found["grid"]["iterations"] == 2


def test_a_setting_that_diverges_is_never_best():
    tried = [
        tune.Tried("p", "iid", "fedavg", {"lr": 1.0, "epochs": 5}, float("nan")),
        tune.Tried("p", "iid", "fedavg", {"lr": 0.1, "epochs": 5}, 2.0),
        tune.Tried("p", "iid", "fedavg", {"lr": 0.1, "epochs": 20}, 1.0),
    ]
    assert tune.best(tried)["p"]["iid"]["fedavg"]["epochs"] == 20


def test_results_are_of_other_seeds_than_the_tuning():
    assert list(small("feddcd", seeds=3).draws) == [1, 2, 3]


def feddcd(command: str) -> None:
    with pytest.raises(SystemExit) as stop:
        main(shlex.split(command))
    assert stop.value.code == 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_report_has_the_differences_of_its_problems_and_parts_alone(variant):
    every = differences(list(PARTS), PAPER_PROBLEMS, variant)
    assert len(every) == 11
    small = differences(["table2"], ["digits-softmax"], variant)
    assert {*small} < {*every}
    for word in ("MLP:", "Two-class", "Table 3", "MNIST", "figures"):
        assert word in " ".join(every).replace("(MLP: 30 l2)", "")
        assert word not in " ".join(small).replace("(MLP: 30 l2)", "")
    mlp = " ".join(differences(["table3"], ["digits-mlp"], variant))
    assert ("Newton" in mlp, "20 steps of Adam" in mlp, "Two-class" in mlp) == (False, True, True)


def test_a_report_says_which_of_the_two_it_has():
    """Where the settings of the variants differ."""
    told = {v: " ".join(differences(list(PARTS), PAPER_PROBLEMS, v)) for v in VARIANTS}
    softmax = lambda name, v: hyperparameters("mnist-softmax", "iid", 30, name, v)
    mlp = lambda split, v: hyperparameters("mnist-mlp", split, 30, "feddcd", v)
    assert softmax("feddcd", "authors")["eta"] == softmax("accfeddcd", "authors")["eta"] == 0.99
    assert [mlp(split, "authors")["step"] for split in ("iid", "two-class")] == [0.01, 0.1]
    assert "0.99 for softmax, and 0.01 for the dual step of the MLP (0.1 if" in told["authors"]
    assert [paper.iid(v) for v in VARIANTS] == ["iid", "contiguous"]
    assert "On this page, the rows are divided at random." in told["paper"]
    assert "the rows are divided as in the authors' code." in told["authors"]
    assert {"kappa", "r"} <= softmax("accfeddcd", "authors").keys()
    assert not {"kappa", "r"} & softmax("accfeddcd", "paper").keys()
    assert "the ratio and the setting r are as in the authors' code" in told["authors"]
    assert "The setting r is as in the paper's text" in told["paper"]
    assert softmax("feddcd", "paper")["max_steps"] == 10
    assert "Newton's method takes at most 10 steps" in told["paper"]
    assert (softmax("feddcd", "authors")["tol"], NewtonCG.max_steps) == (1e-6, 50)
    assert "Newton's method stops as in the authors' code" in told["authors"]
    assert [softmax("fedavg", v)["batch_size"] for v in VARIANTS] == [1, 1]
    assert softmax("fedavg", "authors")["epochs"] == 5
    for variant, epochs in (("paper", 4), ("authors", 20)):
        assert mlp("iid", variant)["epochs"] == epochs
        assert (mlp("two-class", variant)["solver"], mlp("two-class", variant)["epochs"]) == (
            "sgd", 5,
        )  # fmt: skip
        assert f"{epochs} epochs of Adam" in told[variant]


def test_the_variant_of_the_paper_reads_its_tuned_settings_and_searches_for_none():
    """Those of the primal methods for every model, and FedDCD's η for softmax alone."""
    told = " ".join(differences(list(PARTS), PAPER_PROBLEMS, "paper"))
    assert "uses tuned step sizes" in told
    assert "searches" not in told
    for problem in ("mnist-softmax", "mnist-mlp"):
        kept = paper.tuned_settings(problem, "iid")
        for method in ("fedavg", "fedprox", "scaffold"):
            assert (
                kept[method].items() <= hyperparameters(problem, "iid", 30, method, "paper").items()
            )
    softmax, mlp = (
        hyperparameters(f"mnist-{m}", "iid", 30, "feddcd", "paper") for m in ("softmax", "mlp")
    )
    assert softmax["eta"] == paper.tuned_settings("mnist-softmax", "iid")["feddcd"]["eta"]
    assert "eta" not in mlp
    assert FedDCD.eta == 1
    assert "eta" not in hyperparameters("mnist-softmax", "iid", 30, "accfeddcd", "paper")
    assert AccFedDCD.eta == 1
