"""A slice of the reproduction on the paper's data: needs the files that FEDDCD_DATA names, and
for the authors' curves those that FEDDCD_REFERENCE names."""

import math
import os
from functools import cache

import equinox as eqx
import jax
import numpy as np
import pytest

from feddcd.data import load
from feddcd.data.known import KNOWN, find
from feddcd.paper import cells as paper
from feddcd.paper import grid
from feddcd.paper._bench import Bench, optimum
from feddcd.paper.authors import AUTHORS_OPTIMUM, authors_run, load_authors
from feddcd.paper.cells import PAPER_PROBLEMS, PROBLEMS
from feddcd.paper.reproduce import ORDER, printed_accuracy, printed_rounds
from feddcd.simulator.simulate import start
from feddcd.simulator.threads import alone

ROUNDS = 6


def at_hand(name: str) -> None:
    if not os.environ.get("FEDDCD_DATA"):
        pytest.skip("FEDDCD_DATA is not set: the published data sets are not at hand")
    if find(KNOWN[name].train) is None:
        pytest.skip(f"FEDDCD_DATA lacks {name}")


@cache
def authors():
    runs = load_authors()
    if runs is None:
        pytest.skip("FEDDCD_REFERENCE is not set: the authors' per-round results are not at hand")
    return runs


@pytest.mark.chaos  # test_paper.py has that of a small set
def test_the_optimum_of_the_rcv1_subset():
    """0.4087224754 is of all rows together; with 100 clients that count equally, of which the
    last has 244 rows and the others 202, it is another."""
    at_hand("rcv1-subset")
    rows, kind = load("rcv1-subset"), PROBLEMS["rcv1-softmax"]
    with jax.enable_x64(True):
        everyone = [np.arange(len(rows.y))]
        assert optimum(rows, everyone, kind) == pytest.approx(0.4087224754, abs=1e-7)


def gaps(made: Bench, cell: paper.Cell, seed: int, until: float = 0.0) -> np.ndarray:
    """After each exchange, to the end of the cell or until one is small enough."""
    fed = made.federation(cell)
    fed = eqx.tree_at(lambda fed: fed.key, fed, jax.random.key(seed))
    state, per = start(fed, made.start(cell, seed)), fed.algorithm.rounds_per_iteration
    advance, found = alone(fed, state, per), np.zeros(0)
    while len(found) < per * cell.iterations and not np.any(found <= until):
        state, record, _ = advance(fed, state, per)
        found = np.append(found, np.asarray(record.objective) - made.optimum)
    return found


def first(gaps: np.ndarray, eps: float) -> int:
    """The first exchange (or iteration) with at most this gap, counted from 1."""
    hits = np.flatnonzero(gaps <= eps)
    assert len(hits), gaps
    return int(hits[0]) + 1


MNIST = ("mnist-softmax", "mnist", "contiguous")
MNIST_OPTIMUM = 0.558481693


@pytest.mark.chaos
def test_the_optimum_of_mnist(tmp_path, monkeypatch):
    at_hand("mnist")
    # at most 5e-9 above the optimum
    monkeypatch.setattr("feddcd.paper._bench.OPTIMUM_TOLERANCE", 1e-5)
    assert Bench.build(*MNIST, tmp_path).optimum == pytest.approx(MNIST_OPTIMUM, abs=1e-7)


@pytest.fixture
def mnist(tmp_path, monkeypatch):
    """Reading MNIST and the Gram matrices take longest; its optimum has a test of its own."""
    at_hand("mnist")
    monkeypatch.setattr("feddcd.paper._bench.optimum", lambda *_: MNIST_OPTIMUM)
    made = Bench.build(*MNIST, tmp_path)
    with jax.enable_x64(True):
        yield made


@pytest.mark.chaos
def test_feddcd_on_mnist_is_where_the_authors_were(mnist):
    as_the_authors_began(mnist, {"feddcd": (3, 5)})


@pytest.mark.chaos
def test_feddcd_on_mnist_is_at_a_thousandth_with_the_authors(mnist):
    assert 24 <= to_a_thousandth(mnist, "feddcd", 34) <= 34


@pytest.mark.chaos
def test_the_other_dual_methods_on_mnist(mnist):
    found = to_a_thousandth(mnist, "accfeddcd", 18, kappa=1e-2, r=0.3)
    assert 12 <= math.ceil(found / 2) <= 18
    assert 30 * to_a_thousandth(mnist, "pointsaga", 24) <= 660  # uploads
    as_the_authors_began(mnist, {"accfeddcd": (2, 4)})


def to_a_thousandth(made: Bench, algorithm: str, iterations: int, **settings) -> int:
    """The exchanges that it takes."""
    known = tuple({"tol": 1e-5, **settings}.items())
    cell = paper.Cell("mnist-softmax", "mnist", "contiguous", 30, algorithm, known, iterations, 1)
    return first(gaps(made, cell, seed=0, until=1e-3), 1e-3)


def as_the_authors_began(made: Bench, expected: dict[str, tuple[int, int]]) -> None:
    """With their settings, their first rounds: the count to a hundredth, the curves."""
    mean = lambda gaps: np.exp(np.mean(np.log(gaps[:ROUNDS])))
    for algorithm, (low, high) in expected.items():
        cell = paper.cell("mnist-softmax", "contiguous", 30, algorithm, "authors", ROUNDS, 1)
        found = gaps(made, cell, seed=1)
        ours = found[1::2] if algorithm == "accfeddcd" else found  # after whole iterations
        assert low <= first(ours, 1e-2) <= high
        run = authors_run("mnist-softmax", "contiguous", 30, algorithm, authors())
        assert run is not None
        theirs = mean(run.objective - AUTHORS_OPTIMUM["mnist-softmax"])
        assert 0.5 <= mean(ours) / theirs <= 2


@pytest.mark.parametrize("problem", ["mnist-softmax", "mnist-mlp"])
@pytest.mark.parametrize("algorithm", ORDER)
def test_table_3_shows_the_best_accuracy_not_the_last(problem, algorithm):
    run = authors_run(problem, "two-class", 30, algorithm, authors())
    assert run is not None
    best, last = max(run.accuracy[:100]), run.accuracy[99]
    shown = printed_accuracy(problem, algorithm)
    assert shown is not None
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
    shown = printed_rounds(problem, tau, eps, algorithm)
    key = (problem, tau, eps, algorithm)
    if key in ODD:
        assert counted == ODD[key] != shown
    else:
        assert counted == (None if isinstance(shown, str) else shown)


@pytest.mark.chaos
def test_the_authors_first_mlp_round_is_that_of_twenty_epochs(tmp_path):
    """The text says 20 steps of Adam, which are 4 epochs of 5 batches."""
    at_hand("mnist")
    run = authors_run("mnist-mlp", "iid", 30, "feddcd", authors())
    assert run is not None
    cells = {
        variant: paper.cell("mnist-mlp", "contiguous", 30, "feddcd", variant, 1, 1)
        for variant in ("paper", "authors")
    }
    found = grid.run_grid(list(cells.values()), tmp_path)
    steps = {variant: found[cell.id][0].objective[0] for variant, cell in cells.items()}
    assert abs(steps["authors"] - run.objective[0]) < 0.1 < steps["paper"] - run.objective[0]
