"""A slice of the reproduction on the paper's data: needs the files that FEDDCD_DATA names, and
for the authors' curves those that FEDDCD_REFERENCE names."""

import os
from functools import cache

import jax
import numpy as np
import pytest

from feddcd.data import DataError, load
from feddcd.data.authors import load_authors
from feddcd.experiments import bench, grid, paper
from feddcd.experiments._authors import AUTHORS_OPTIMUM, authors_run
from feddcd.experiments._printed import ORDER, printed, printed_accuracy
from feddcd.experiments._problems import PAPER_PROBLEMS, PROBLEMS
from feddcd.experiments.bench import optimum

ROUNDS = 6


@cache
def data(name: str):
    if not os.environ.get("FEDDCD_DATA"):
        pytest.skip("FEDDCD_DATA is not set: the published data sets are not at hand")
    try:
        return load(name)
    except DataError as error:
        pytest.skip(f"FEDDCD_DATA lacks {name}: {error}")


@cache
def authors():
    runs = load_authors()
    if runs is None:
        pytest.skip("FEDDCD_REFERENCE is not set: the authors' per-round results are not at hand")
    return runs


def test_the_optimum_of_the_rcv1_subset():
    """0.4087224754 is of all rows together; with 100 clients that count equally, of which the
    last has 244 rows and the others 202, it is another."""
    rows, kind = data("rcv1-subset"), PROBLEMS["rcv1-softmax"]
    with jax.enable_x64(True):
        everyone = [np.arange(len(rows.y))]
        assert optimum(rows, everyone, kind) == pytest.approx(0.4087224754, abs=1e-7)


def test_the_dual_methods_begin_as_the_authors_did(tmp_path, monkeypatch):
    """Their first rounds on MNIST, one seed: the optimum, the count to a hundredth, the curves."""
    data("mnist")
    monkeypatch.setattr(bench, "OPTIMUM_TOLERANCE", 1e-6)  # at most 1e-10 above the optimum
    cells = [
        paper.cell("mnist-softmax", "contiguous", 30, algorithm, "authors", ROUNDS, 1)
        for algorithm in ("feddcd", "accfeddcd")
    ]
    found = grid.run_grid(cells, tmp_path)
    ours = {cell.algorithm: found[cell.id][0] for cell in cells}
    assert ours["feddcd"].optimum == pytest.approx(0.558481693, abs=1e-7)
    assert 3 <= ours["feddcd"].reached(1e-2) <= 5
    assert 2 <= ours["accfeddcd"].reached(1e-2) <= 4
    mean = lambda gaps: np.exp(np.mean(np.log(gaps[:ROUNDS])))
    for algorithm, curve in ours.items():
        run = authors_run("mnist-softmax", "contiguous", 30, algorithm, authors())
        assert run is not None
        theirs = mean(run.objective - AUTHORS_OPTIMUM["mnist-softmax"])
        assert 0.5 <= mean(curve.objective - curve.optimum) / theirs <= 2


@pytest.mark.parametrize("problem", ["mnist-softmax", "mnist-mlp"])
@pytest.mark.parametrize("algorithm", ORDER)
def test_table_3_shows_the_best_accuracy_not_the_last(problem, algorithm):
    run = authors_run(problem, "two-class", 30, algorithm, authors())
    assert run is not None
    best, last = max(run.accuracy[:100]), run.accuracy[99]
    shown = printed_accuracy(problem, algorithm)
    assert shown == pytest.approx(best, abs=1.01e-4)
    if (problem, algorithm) == ("mnist-softmax", "fedavg"):
        assert last < shown - 0.02


# where Table 2 and the authors' own files disagree
ODD = {
    ("mnist-softmax", 10, 1e-2, "feddcd"): 21,
    ("mnist-mlp", 30, 1e-2, "fedprox"): None,
    ("mnist-mlp", 30, 1e-2, "scaffold"): None,
    ("mnist-mlp", 10, 1e-2, "scaffold"): None,
}


@pytest.mark.parametrize("problem", PAPER_PROBLEMS)
@pytest.mark.parametrize(("tau", "eps"), [(30, 1e-3), (30, 1e-2), (10, 1e-2)])
@pytest.mark.parametrize("algorithm", ORDER)
def test_table_2_is_what_the_authors_files_say_but_for_four_cells(problem, tau, eps, algorithm):
    run = authors_run(problem, "iid", tau, algorithm, authors())
    assert run is not None
    hits = np.flatnonzero(run.objective - AUTHORS_OPTIMUM[problem] <= eps)
    counted = int(hits[0]) + 1 if len(hits) else None
    shown = printed(problem, tau, eps, algorithm)
    key = (problem, tau, eps, algorithm)
    if key in ODD:
        assert counted == ODD[key] != shown
    else:
        assert counted == (None if isinstance(shown, str) else shown)


def test_the_authors_first_mlp_round_is_that_of_twenty_epochs(tmp_path):
    """The text says 20 steps of Adam, which are 4 epochs of 5 batches."""
    data("mnist")
    run = authors_run("mnist-mlp", "iid", 30, "feddcd", authors())
    assert run is not None
    cells = {
        variant: paper.cell("mnist-mlp", "contiguous", 30, "feddcd", variant, 1, 1)
        for variant in ("paper", "authors")
    }
    found = grid.run_grid(list(cells.values()), tmp_path)
    steps = {variant: found[cell.id][0].objective[0] for variant, cell in cells.items()}
    assert abs(steps["authors"] - run.objective[0]) < 0.1 < steps["paper"] - run.objective[0]
