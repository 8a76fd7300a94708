"""Sentences and numbers of docs/paper.md that a run or the paper's own numbers must bear out."""

import math
import re

import pytest

from docs_blocks import DOCS
from feddcd.paper._tables import TWO_COHORTS, TWO_VECTORS, VECTORS
from feddcd.paper.cells import (
    PAPER_CLIENTS,
    PAPER_PROBLEMS,
    PROBLEMS,
    TABLE2,
    VARIANTS,
    hyperparameters,
)
from feddcd.paper.reproduce import printed_rounds

PAGE = (DOCS / "paper.md").read_text(encoding="utf-8")
FLOWING = " ".join(PAGE.split())
TABLES = {  # of Table 2 with the authors' settings: how the first cell begins
    "mnist-softmax": "MNIST, softmax", "rcv1-softmax": "RCV1 subset, softmax",
    "mnist-mlp": "MNIST, MLP",
}  # fmt: skip


def lines_of(text: str) -> list[list[str]]:
    """The cells of the table with which a text begins: its head, then its rows."""
    lines = text.split("\n\n")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [rows[0], *rows[2:]]


def table(heading: str) -> dict[str, list[str]]:
    """The first table of a section: by first cell, the others."""
    _, _, text = PAGE.partition(f"\n### {heading}\n")
    rows = lines_of("| " + text.split("\n\n| ", 1)[1])[1:]
    return {row[0].removesuffix(" †"): row[1:] for row in rows}


def columns(problem: str) -> dict[str, dict[str, str]]:
    """By head and by method; a column of vectors by the head to its left."""
    head, *rows = lines_of(PAGE[PAGE.index(f"\n| {TABLES[problem]}") + 1 :])
    names = [k if k != "vectors" else f"{head[i - 1]}: vectors" for i, k in enumerate(head)]
    methods = [row[0].removesuffix(" †") for row in rows]
    cells = zip(*(row[1:] for row in rows), strict=True)
    found = zip(names[1:], cells, strict=True)
    return {name.removesuffix(" ‡"): dict(zip(methods, k, strict=True)) for name, k in found}


def middle(entry: str) -> float:
    word = entry.split()[0]
    return math.inf if word.startswith(">") else float(word)


def inside(entry: str) -> bool:
    ours, theirs = entry.split(" / ")
    low, _, high = ours.partition(" (")[2].rstrip(")").partition("–") if "(" in ours else [ours] * 3
    return middle(low) <= middle(theirs) <= middle(high)


def entries() -> dict[tuple[str, str, str], str]:
    """Ours and the paper's of Table 2, by title, column and method."""
    return {
        (title, column, method): entry
        for problem, title in TABLES.items()
        for column, by_method in columns(problem).items()
        for method, entry in by_method.items()
        if "/" in entry
    }


def test_each_entry_has_the_number_of_the_paper():
    found = entries()
    assert len(found) == 3 * 4 * 5
    for (title, column, method), entry in found.items():
        problem = next(name for name, start in TABLES.items() if start == title)
        tau, eps = re.fullmatch(r"τ=(\d+), ε=(1e-\d)", column).groups()
        printed = printed_rounds(problem, int(tau), float(eps), method.lower())
        assert entry.endswith(f" / {printed}")


def test_what_does_not_agree_is_every_number_outside_the_range():
    outside = {key for key, entry in entries().items() if not inside(entry)}
    told = []
    _, _, text = PAGE.partition("\n### What does not agree\n")
    for title, setups, names, _reason in lines_of("| " + text.split("\n\n| ", 1)[1])[1:]:
        starts = tuple(f"{setup}," for setup in setups.split(" and "))
        told += [
            key
            for key in entries()
            if key[0] == title
            and f"{key[1]},".startswith(starts)
            and (names == "all" or key[2] in names.split(", "))
        ]
    assert len(told) == len(set(told))
    assert set(told) == outside


def test_how_many_numbers_of_mnist_agree():
    mnist = {key: inside(entry) for key, entry in entries().items() if key[0].startswith("MNIST")}
    assert f"In {sum(mnist.values())} of the {len(mnist)} entries for MNIST, the paper" in FLOWING
    assert "With τ = 30, this is true for all entries of FedDCD and AccFedDCD." in FLOWING
    for (_, column, method), agrees in mnist.items():
        assert agrees or not (column.startswith("τ=30") and method in ("FedDCD", "AccFedDCD"))


@pytest.mark.parametrize("problem", PAPER_PROBLEMS)
def test_the_columns_of_vectors_count_as_the_program(problem):
    assert TWO_VECTORS in FLOWING
    assert TWO_COHORTS.replace("this table", "these tables") in FLOWING
    found = columns(problem)
    (column,) = [name for name in found if name.endswith(": vectors")]
    for method, vectors in found[column].items():
        rounds = middle(found[column.removesuffix(": vectors")][method])
        cohorts = 2 if method == "AccFedDCD" else 1
        sent = rounds * 30 * cohorts * VECTORS.get(method.lower(), 1)
        assert vectors == ("–" if math.isinf(sent) else f"{sent:,.0f}")


def test_fedprox_needs_as_many_rounds_as_fedavg():
    assert "For Table 2, both variants have m = 1e-4" in FLOWING
    cases = [(p, s.tau(p), v) for p in PROBLEMS for s in TABLE2 for v in VARIANTS]
    assert {hyperparameters(p, "iid", tau, "fedprox", v)["m"] for p, tau, v in cases} == {1e-4}
    found = [*(columns(problem) for problem in PAPER_PROBLEMS)]
    tuned, digits = table("With every step tuned"), table("The digits")
    pairs = [(k["FedAvg"], k["FedProx"]) for one in found for k in one.values()]
    pairs += [*zip(tuned["FedAvg"], tuned["FedProx"], strict=True)]
    pairs += [*zip(digits["FedAvg"], digits["FedProx"], strict=True)]
    for ours, theirs in pairs:
        assert ours.split(" / ")[0] == theirs.split(" / ")[0]


def test_the_tuned_steps_need_fewer_rounds_on_mnist_softmax():
    assert "tuned step lengths, and needs fewer rounds on MNIST softmax" in FLOWING
    theirs = columns("mnist-softmax")
    for method, row in table("With every step tuned").items():
        for tuned, column in zip(row, ("τ=30, ε=1e-3", "τ=10, ε=1e-2"), strict=False):
            assert middle(tuned) < middle(theirs[column][method])


def test_scaffold_on_the_digits_by_rounds_and_by_vectors():
    assert "SCAFFOLD needs the fewest rounds in five of the six columns." in FLOWING
    found = table("The digits")
    best = [min(map(middle, column)) for column in zip(*found.values(), strict=True)]
    assert sum(map(float.__eq__, map(middle, found["SCAFFOLD"]), best)) == 5
    _, *rows = lines_of(PAGE[PAGE.index("\n| vectors | τ=12") + 1 :])
    sent = [[middle(k.replace("*", "").replace("–", ">")) for k in row[1:]] for row in rows]
    assert all(scaffold > min(others) for scaffold, *others in zip(*sent, strict=True))


@pytest.mark.parametrize(
    ("column", "problem", "tau", "eps"),
    [
        (0, "mnist-softmax", 30, 1e-3), (1, "mnist-softmax", 10, 1e-2),
        (2, "rcv1-softmax", 30, 1e-3), (3, "rcv1-softmax", 10, 1e-2),
    ],
)  # fmt: skip
def test_tuned_steps_stand_beside_the_numbers_of_the_paper(column, problem, tau, eps):
    found = table("With every step tuned")
    for name in ("FedAvg", "FedProx", "SCAFFOLD", "FedDCD", "AccFedDCD"):
        printed = printed_rounds(problem, tau, eps, name.lower())
        assert found[name][column].endswith(f" / {printed}")
    assert "/" not in found["Point-SAGA"][column]


def test_the_columns_of_the_digits_are_those_of_the_paper_and_two_more():
    assert "The paper has 100 clients, so we use τ = 12, 4 and 2 in place of the paper's" in PAGE
    assert [s.tau("digits-softmax") for s in TABLE2] == [12, 4, 2]
    assert [s.tau_of(PAPER_CLIENTS) for s in TABLE2] == [30, 10, 5]
    assert "does not have: τ = 2 with ε = 1e-3 and with ε = 1e-2" in PAGE
    assert [s.added for s in TABLE2] == [(), (), (1e-2, 1e-3)]
    assert PROBLEMS["digits-softmax"].clients == 40


def test_what_the_digits_say_about_the_dual_methods():
    found = {name: [*map(middle, row)] for name, row in table("The digits").items()}
    for words in (
        "never need more rounds than FedAvg on MNIST softmax. On the digits, FedDCD and AccFedDCD",
        "FedDCD and AccFedDCD need fewer rounds than FedAvg with τ = 12, and with τ = 2 and ε =",
        "and with τ = 2 and ε = 1e-2. They need more rounds than FedAvg with τ = 4, and with",
        "with τ = 4, and with τ = 2 and ε = 1e-1. They need fewer rounds than SCAFFOLD only",
    ):
        assert words in FLOWING
    for dual in ("FedDCD", "AccFedDCD"):
        less = [a < b for a, b in zip(found[dual], found["FedAvg"], strict=True)]
        assert less == [True, True, False, False, True, False]
        more = [a > b for a, b in zip(found[dual], found["FedAvg"], strict=True)]
        assert more == [False, False, True, False, False, True]
        less = [a < b for a, b in zip(found[dual], found["SCAFFOLD"], strict=True)]
        assert less == [False, True, False, False, False, False]
        for tau, eps in ((30, 1e-3), (30, 1e-2), (10, 1e-2), (5, 1e-1)):
            ours, theirs = (printed_rounds("mnist-softmax", tau, eps, m.lower()) for m in
                            (dual, "FedAvg"))  # fmt: skip
            assert ours <= theirs


def test_the_paper_on_mnist_stands_beside_the_digits():
    head, *rows = lines_of(PAGE[PAGE.index("\n| digits here / MNIST in the paper") + 1 :])
    digits = table("The digits")
    whole = lines_of(PAGE[PAGE.index("\n| | τ=12, ε=1e-3") + 1 :])[0][1:]
    for name, *entries in rows:
        for title, entry in zip(head[1:], entries, strict=True):
            here, tau, eps = re.fullmatch(r"τ=(\d+) / (\d+), ε=(1e-\d)", title).groups()
            printed = printed_rounds("mnist-softmax", int(tau), float(eps), name.lower())
            ours = digits[name][whole.index(f"τ={here}, ε={eps}")].split()[0]
            assert entry == f"{ours} / {printed}"
    assert [row[0] for row in rows] == ["FedAvg", "FedDCD", "AccFedDCD"]


def test_the_authors_settings_come_nearer_to_the_printed_numbers_on_mnist_softmax():
    assert "On MNIST softmax, `authors` comes nearer to the numbers that the paper" in FLOWING
    theirs, tuned = columns("mnist-softmax"), table("With every step tuned")
    for column, title in enumerate(("τ=30, ε=1e-3", "τ=10, ε=1e-2")):
        for method, entry in theirs[title].items():
            if "/" in entry:
                printed = float(entry.split(" / ")[1])
                near, far = (abs(middle(e) - printed) for e in (entry, tuned[method][column]))
                assert near < far
