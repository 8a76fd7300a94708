"""The page on the race has the numbers of the files beside it."""

import csv
import subprocess
import sys

import pytest

from docs_blocks import DOCS, ROOT
from feddcd.algorithms.catalogue import get_method
from feddcd.race.cells import CHUNK, METHODS

PAGE = (DOCS / "race.md").read_text(encoding="utf-8")


def rows(name: str) -> list[list[str]]:
    _, _, text = PAGE.partition(f"<!-- table {name} -->\n\n")
    lines = text.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_tables_are_those_of_the_files():
    tool = [sys.executable, str(ROOT / "tools" / "race_tables.py"), "--check"]
    done = subprocess.run(tool, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_only_randhie_is_in_both_tables_of_lost_cases():
    default, tuned = ({(row[0], row[1]): row[3] for row in rows(n)} for n in ("lost", "lost-tuned"))
    both = default.keys() & tuned.keys()
    assert both == {("randhie-3", "10 %"), ("randhie-3", "30 %")}
    assert all(default[case].split(":")[0] != tuned[case].split(":")[0] for case in both)
    assert (
        "The table above already has the two cases of randhie-3, with another best\nmethod" in PAGE
    )


def test_fedqn_reaches_its_aim_on_mnist_and_the_page_names_where_it_loses():
    lost = [(share, gap, best) for share, gap, own, best, *_ in rows("mnist") if "**" not in own]
    assert lost == [("all", "1e-3", "**AccFedDCD: 62.6**")]
    assert "reaches this aim. But if all clients take part, AccFedDCD needs fewer bytes" in PAGE


def test_the_page_lists_the_methods_that_run_by_default():
    _, _, rule = PAGE.partition("- **Methods.** By default, the race runs ")
    first, second, *_ = " ".join(rule.split()).split(". ")
    whole = second.removeprefix("If all clients take part, ").removesuffix(" run, too")
    listed = [part.replace(" and ", ", ").split(", ") for part in (first, whole)]
    rows = [get_method(name) for name in METHODS]
    for names, everyone in zip(listed, (False, True), strict=True):
        assert set(names) == {row.title for row in rows if row.needs_everyone == everyone}
    assert f"[{len(METHODS)} methods](#rules)" in PAGE


@pytest.mark.parametrize(
    ("name", "missing"),
    [
        ("8-bits", {"fednlpp"}),
        ("2-cores", set()),
        ("64-bits", set()),
    ],
)
def test_the_files_have_the_methods_that_the_page_says(name, missing):
    with (DOCS / f"race-{name}.csv").open(encoding="utf-8") as file:
        there = {row["method"] for row in csv.DictReader(file)}
    assert there == set(METHODS) - missing
    assert len(METHODS) - 1 == 16
    assert "24 problems with 16 methods" in PAGE


@pytest.mark.parametrize("path", [DOCS / "index.md", ROOT / "README.md"])
def test_the_pages_count_the_methods_beside_fedqn(path):
    others = {row["method"] for row in medians("1e-06")} - {"fedqn"}
    assert f"compares FedQN with {len(others)} other methods on 24 problems" in path.read_text()


def medians(gap: str) -> list[dict[str, str]]:
    """Of 8 bits and default settings."""
    with (DOCS / "race-8-bits.csv").open(encoding="utf-8") as file:
        return [r for r in csv.DictReader(file) if r["gap"] == gap and r["tuned"] == "False"]


def lost(what: str) -> dict[tuple[str, str], tuple[float, float]]:
    """Where FedQN needs more than the best method: its rounds and those of the best method."""
    found = {}
    for at in {(row["problem"], row["share"]) for row in medians("1e-06")}:
        here = [row for row in medians("1e-06") if (row["problem"], row["share"]) == at]
        best, own = min(here, key=lambda r: float(r[what])), get(here, "fedqn")
        if float(own[what]) > float(best[what]):
            found[at] = float(own["rounds"]), float(best["rounds"])
    return found


def get(rows: list[dict[str, str]], method: str) -> dict[str, str]:
    return next(row for row in rows if row["method"] == method)


def test_where_fedqn_loses_by_the_bytes_in_both_directions():
    flowing = " ".join(PAGE.split())
    assert (
        "FedQN loses eight of the 72 cases (gap of 1e-6). One case is covid-3 with 30 %. The seven "
        "others are all cases with 10 % or 30 % in the first table of this section. FedQN wins the "
        "cases with all clients in this table." in flowing
    )
    up, both = lost("up"), lost("both")
    assert both.keys() == {at for at in up if at[1] != "1.0"} | {("covid-3", "0.3")}
    assert len(both) == 8
    assert "FedQN needs at least as many rounds as the better method" in flowing
    assert all(own >= best for own, best in both.values())


def test_the_reasons_have_the_rounds_of_the_file():
    _, _, text = PAGE.partition("\n| case (8 bits) | better method |")
    shares = {"10 %": "0.1", "30 %": "0.3", "all": "1.0"}
    told = [line.strip("| ").split(" | ") for line in text.partition("\n\n")[0].splitlines()[2:]]
    assert len(told) == 7
    for case, method, its, own, *_ in told:
        problem, share = case.split(", ")
        at = (problem, shares[share])
        here = [row for row in medians("1e-06") if (row["problem"], row["share"]) == at]
        best = min(here, key=lambda r: float(r["up"]))
        assert get_method(best["method"]).title == method
        assert (best["rounds"], get(here, "fedqn")["rounds"]) == (its, own)


def test_the_page_says_when_the_limits_are_checked():
    assert PAGE.count(f"checked after every {CHUNK} rounds") == 2
    assert f"feddcd checks the sent bytes only after every {CHUNK} rounds" in PAGE
