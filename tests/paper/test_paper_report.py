"""The paper's tables and figures as files and as a page, from made-up rows and curves."""

import csv
import datetime
import io
import json
import math
import re
from typing import NamedTuple

import numpy as np
import pytest
from rich.console import Console

from feddcd._origin import with_origin
from feddcd.paper import cells as paper_cells
from feddcd.paper import report as paper
from feddcd.paper import reproduce
from feddcd.paper._figures import BAND, BELOW, CROSS, DOTTED, spread
from feddcd.paper._findings import findings
from feddcd.report.methods import look
from slices import sliced
from test_report import Page


class Curve(NamedTuple):
    objective: np.ndarray
    uploads: np.ndarray
    optimum: float


def row2(algorithm, rounds, problem="mnist-softmax", data="mnist", limit=100, **more):
    per = 60 if algorithm == "accfeddcd" else 30
    uploads = [None if k is None else per * k for k in rounds]
    middle = lambda v: sorted(math.inf if x is None else float(x) for x in v)[len(v) // 2]
    known = lambda x: None if x == math.inf else x
    return {
        "problem": problem, "data": data, "tau": 30, "eps": 1e-3, "algorithm": algorithm,
        "limit": limit, "rounds": rounds, "uploads": uploads, "median": known(middle(rounds)),
        "median_uploads": known(middle(uploads)), "paper": None, "authors": None, "optimum": 0.5,
    } | more  # fmt: skip


def row3(algorithm, best, **more):
    return {
        "problem": "mnist-softmax", "data": "mnist", "tau": 30, "algorithm": algorithm,
        "rounds": 100, "best": best, "last": best, "objective": [0.6] * len(best),
        "median": sorted(best)[len(best) // 2], "optimum": 0.5, "paper": None, "authors": None,
    } | more  # fmt: skip


SUBSET = {"problem": "rcv1-softmax", "data": "rcv1-subset"}
TABLE2 = [
    row2("fedavg", [51, 49, 60], paper=51, authors=50),
    row2("scaffold", [101, None, None], limit=500, paper=45, authors=45),
    row2("feddcd", [20, 22, 21], paper=28, authors=28),
    row2("accfeddcd", [15, 15, 15], paper=15, authors=">100"),
    row2("pointsaga", [None, None, None]),
    row2("feddcd", [4, 5, 6], eps=1e-2, paper=4),
    row2("fedavg", [9, 9, 9], paper=">100", authors=12, **SUBSET),
    row2("feddcd", [None, 7, 8], paper=24, authors=24, **SUBSET),
    row2("fedavg", [None, None, None], problem="mnist-mlp", paper=">100"),
]
TABLE3 = [
    row3("fedavg", [0.8812, 0.8830, 0.8851], paper=0.8830, authors=0.8830),
    row3("accfeddcd", [0.8911, 0.8911, 0.8911], paper=0.8924, authors=0.8925),
    row3("feddcd", [0.88, 0.87, 0.86]),
]


def series(algorithm, rate, seeds=3, n=40, overlay=None):
    gaps = 0.5 * rate ** np.arange(n) * (1 + 0.1 * np.arange(seeds)[:, None])
    return paper.Series(algorithm, algorithm, np.arange(1.0, n + 1), gaps, overlay)


def panel(*lines, **more):
    return paper.Panel("MNIST, softmax", "gap to the optimum", list(lines), True, "")._replace(
        **more
    )


def bent(one, value, rows=slice(None), start=20):
    curves = one.curves.copy()
    curves[rows, start:] = value
    return one._replace(curves=curves)


PLAIN = series("feddcd", 0.8, overlay=0.5 * 0.9 ** np.arange(100))
PANELS = {
    "plain": [panel(PLAIN, series("fedavg", 0.95))],
    "three": [panel(PLAIN), panel(series("accfeddcd", 0.7), note="A note. " * 20), panel(PLAIN)],
    "one seed": [panel(series("feddcd", 0.8, seeds=1))],
    "one value": [panel(series("feddcd", 0.8, n=1))],
    "padded": [panel(bent(PLAIN, np.nan, slice(0, 2)))],
    "diverges": [panel(PLAIN, bent(series("fedavg", 0.9), np.inf, 0))],
    "explodes": [panel(PLAIN, bent(series("fedavg", 0.9), 1e30))],
    "below": [panel(bent(PLAIN, -0.003))],
    "at the optimum": [panel(bent(PLAIN, 0.0, start=0))],
    "nothing": [panel(bent(PLAIN._replace(overlay=None), np.nan, start=0))],
    "empty": [panel()],
    "linear": [panel(bent(PLAIN, np.inf, 1), log=False)],
    "unknown": [panel(series("mine", 0.8))],
}


@pytest.mark.parametrize("name", sliced(PANELS, ("three", "explodes", "nothing", "linear")))
def test_every_figure_can_be_drawn(tmp_path, name):
    png, svg = paper.write_figures({"figure1": PANELS[name], "figure3": []}, tmp_path)
    assert (png, svg) == (tmp_path / "figure1.png", tmp_path / "figure1.svg")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert svg.read_text().startswith("<?xml")


def legend(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


@pytest.mark.parametrize(
    ("name", "marks"),
    [
        ("plain", [DOTTED, BAND]),
        ("one seed", []),
        ("below", [DOTTED, BAND, BELOW]),
        ("diverges", [DOTTED, BAND, CROSS]),
    ],
)
def test_legend_says_what_is_drawn_and_nothing_else(name, marks):
    methods = [one.label for one in PANELS[name][0].lines]
    assert legend(paper.paper_figure(PANELS[name])) == methods + marks


def test_line_is_the_median_in_the_colour_of_the_method():
    (ax,) = paper.paper_figure(PANELS["plain"]).axes
    overlay, line = ax.lines[:2]
    np.testing.assert_allclose(line.get_ydata(), np.median(PLAIN.curves, axis=0))
    np.testing.assert_allclose(overlay.get_ydata(), PLAIN.overlay[:40])
    assert line.get_color() == overlay.get_color() == look("feddcd").colour


def test_gaps_below_zero_are_clipped_at_the_bottom_and_marked():
    (ax,) = paper.paper_figure(PANELS["below"]).axes
    bottom = ax.get_ylim()[0]
    assert bottom == pytest.approx(1e-3)  # most gaps are 0.003 or more in size
    line, triangles = ax.lines[1], ax.lines[2]
    assert (line.get_ydata()[20:] == bottom).all()
    assert triangles.get_marker() == "v"
    assert min(triangles.get_xdata()) >= 20


def test_a_run_that_diverged_counts_as_the_worst_and_a_missing_one_does_not_count():
    worst = spread(np.array([[1.0, np.inf], [2.0, 2.0], [3.0, 3.0]]))
    assert [tuple(row) for row in worst] == [(1, 2), (2, 3), (3, 3)]
    missing = spread(np.array([[1.0, np.nan, np.nan], [2.0, 2.0, np.nan], [3.0, 4.0, 5.0]]))
    np.testing.assert_array_equal(missing[1], [2, 3, np.nan])


def test_panels_come_in_the_papers_order_and_never_mix_data():
    runs = [Curve(np.array([0.9, 0.7, np.nan]), np.array([60, 120, 120]), 0.5)] * 2
    runs += [Curve(np.array([0.8]), np.array([60]), 0.5)]
    curves = {name: {"accfeddcd": runs} for name in ("mnist-mlp", "rcv1-softmax", "mnist-softmax")}
    theirs = {name: {"accfeddcd": np.ones(5)} for name in curves}
    data = {"mnist-mlp": "mnist", "mnist-softmax": "mnist", "rcv1-softmax": "rcv1-subset"}
    made = paper.gap_panels(curves, data, theirs)
    assert [p.title for p in made] == ["RCV1 subset, softmax", "MNIST, softmax", "MNIST, MLP"]
    assert [p.lines[0].overlay is None for p in made] == [True, False, False]
    assert "not RCV1" in made[0].note
    assert "0.504563" in made[2].y_title
    one = made[1].lines[0]
    np.testing.assert_allclose(one.curves[0], [0.4, 0.2, np.inf])
    np.testing.assert_allclose(one.curves[2], [0.3, np.nan, np.nan])
    by_uploads = paper.gap_panels(curves, data, None, uploads=True)[1]
    np.testing.assert_array_equal(by_uploads.lines[0].x, [60, 120, 120])
    assert by_uploads.lines[0].overlay is None
    twice = paper.gap_panels({"mnist-softmax": {"scaffold": runs}}, data, None, uploads=True)[0]
    np.testing.assert_array_equal(twice.lines[0].x, [120, 240, 240])
    (real,) = paper.gap_panels(
        {"rcv1-softmax": curves["rcv1-softmax"]}, {"rcv1-softmax": "rcv1"}, theirs
    )
    assert real.lines[0].overlay is not None


def cells(text, method, block="MNIST, softmax"):
    part = next(p for p in text.split("## ") if p.startswith(block))
    line = next(x for x in part.splitlines() if re.search(rf"\| {method} +\|", x))
    return [cell.strip() for cell in line.split("|")[1:-1]]


def test_table2_files_hold_the_rows(tmp_path):
    paper.write_table2(TABLE2, tmp_path)
    assert json.loads((tmp_path / "table2.json").read_text()) == TABLE2
    with open(tmp_path / "table2.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) == len(TABLE2)
    pick = lambda k: [lines[k][f"rounds_{x}"] for x in ("min", "median", "max")]
    assert pick(0) == ["49", "51.0", "60"]
    assert pick(1) == ["101", "", ""]
    assert pick(4) == ["", "", ""]
    assert (lines[0]["uploads_median"], lines[3]["authors"]) == ("1530.0", ">100")
    assert (lines[1]["reached"], lines[1]["seeds"]) == ("1", "3")


def test_table2_for_people(tmp_path):
    paper.write_table2(TABLE2, tmp_path)
    text = (tmp_path / "table2.md").read_text(encoding="utf-8")
    setup = "τ = 30, ε = 1e-3"
    assert cells(text, "FedAvg") == [setup, "FedAvg", "51 (49–60)", "1,530", "51", "50"]
    assert cells(text, "SCAFFOLD")[2:] == [">500 (101–>500)", "–", "45†", "45†"]
    assert cells(text, "FedDCD")[2:] == ["21 (20–22)", "**630**", "28", "28"]
    assert cells(text, "AccFedDCD")[2:] == ["**15**", "900", "15", ">100"]
    assert cells(text, "Point-SAGA")[2:] == [">100", "–", "–", "–"]
    assert cells(text, "FedDCD", "RCV1")[2:] == ["**8 (7–>100)**", "**240**", r"24\*", r"24\*"]
    assert (
        r"\* The numbers of the paper and of the authors’ files are for RCV1. We used another data "
        "set" in text
    )
    assert "† This number belongs to FedAvg" in text
    assert "SCAFFOLD sends two vectors in each upload" in text
    assert "AccFedDCD asks two cohorts in each round" in text
    assert "do not compare the uploads" not in text
    assert "If the seeds gave different numbers, the smallest and the largest" in text
    for limit in {setup.iterations for setup in paper_cells.TABLE2}:
        assert f"“>{limit}” means" in text
    paper.write_table2([row for row in TABLE2 if row["algorithm"] != "scaffold"], tmp_path)
    assert "two vectors" not in (tmp_path / "table2.md").read_text(encoding="utf-8")
    assert "0.504563" in text


def test_methods_are_compared_by_vectors_as_an_upload_may_have_two(tmp_path):
    """SCAFFOLD needs the fewest uploads, 300, and sends more vectors than FedDCD."""
    rows = [row2("scaffold", [10] * 3), row2("feddcd", [15] * 3), row2("accfeddcd", [10] * 3)]
    paper.write_table2(rows, tmp_path)
    text = (tmp_path / "table2.md").read_text(encoding="utf-8")
    assert cells(text, "SCAFFOLD")[2:] == ["**10**", "600"]
    assert cells(text, "FedDCD")[2:] == ["15", "**450**"]
    with open(tmp_path / "table2.csv", newline="") as file:
        first = next(csv.DictReader(file))
    assert (first["uploads_median"], first["vectors_median"]) == ("300.0", "600.0")
    said = "".join(Page(page(tmp_path, rows, [], {})).text)
    assert "The clients sent the fewest vectors with FedDCD (in 1 of 1 setup)." in said
    console = Console(width=80, file=io.StringIO())
    console.print(paper.rich_table2(rows))
    assert "AccFedDCD asks two cohorts in each round" in " ".join(console.file.getvalue().split())


def test_table3_files(tmp_path):
    rows = [*TABLE3, row3("scaffold", [math.nan, 0.5, 0.5], last=[math.nan] * 3, median=0.5)]
    paper.write_table3(rows, tmp_path)
    kept = json.loads((tmp_path / "table3.json").read_text())
    assert kept[:3] == TABLE3
    assert kept[3]["best"] == [None, 0.5, 0.5]
    text = (tmp_path / "table3.md").read_text(encoding="utf-8")
    assert cells(text, "FedAvg")[2:] == ["88.30 % (88.12–88.51)", "88.30 %", "88.30 %", "88.30 %"]
    assert cells(text, "AccFedDCD")[2:] == ["**89.11 %**", "89.11 %", "89.24 %‡", "89.25 %‡"]
    assert cells(text, "SCAFFOLD")[2:] == ["50.00 %", "–", "–", "–"]
    assert "‡ This number is the accuracy on the training data." in text
    with open(tmp_path / "table3.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert (lines[0]["best_min"], lines[3]["best_min"], lines[3]["last_median"]) == (
        "0.8812", "0.5", "",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("table", "rows", "line"),
    [
        (paper.rich_table2, TABLE2, r"FedAvg +51 \(49–60\) +1,530 +51 +50"),
        (paper.rich_table2, TABLE2, r"RCV1 subset, softmax, τ=30 ε=1e-3 *\n"),
        (paper.rich_table3, TABLE3, r"AccFedDCD +89.11 % +89.11 % +89.24 %‡ +89.25 %‡"),
        (paper.rich_table3, [], ""),
    ],
)
def test_terminal_tables_fit_80_letters(table, rows, line):
    console = Console(width=80, file=io.StringIO())
    console.print(table(rows))
    assert re.search(line, console.file.getvalue())


def test_a_table_leaves_out_what_the_paper_does_not_have(tmp_path):
    rows = [row2("fedavg", [9, 9, 9], problem="digits-softmax", data="digits")]
    console = Console(width=80, file=io.StringIO())
    console.print(paper.rich_table2(rows))
    paper.write_table2(rows, tmp_path)
    for said in (console.file.getvalue(), (tmp_path / "table2.md").read_text()):
        words = " ".join(said.split())
        assert "The paper and the authors’ files have no numbers for Digits, softmax." in words
        assert "–" not in words
        assert "authors’ file " not in words


def test_a_problem_that_the_paper_does_not_have_is_said_at_the_top(tmp_path):
    digits = {"problem": "digits-softmax", "data": "digits"}
    rows = [row2("fedavg", [9, 9, 9], **digits, tau=t, eps=e) for t, e in ((12, 1e-2), (2, 1e-2))]
    said = "".join(Page(page(tmp_path, [*rows, *TABLE2], [], {})).text)
    assert "with 3 seeds. The paper does not have the problem “Digits, softmax”. In 4 of 6" in said
    told = "The paper has 100 clients, and this problem has 40. So τ = 12, 4 and 2 replace"
    assert said.count(f"{told} the paper’s τ = 30, 10 and 5.") == 1
    assert said.count("τ = 2, ε = 1e-2 (the paper does not have this setup)") == 1
    assert said.count("does not have this setup") == 1
    assert "does not have the problem" not in "".join(Page(page(tmp_path)).text)


def test_added_setups_are_those_without_a_number_of_the_paper():
    for problem in paper_cells.PAPER_PROBLEMS:
        for setup in paper_cells.TABLE2:
            for eps in setup.eps:
                printed = reproduce.printed_rounds(problem, setup.tau(problem), eps, "fedavg")
                assert (printed is None) == (eps in setup.added)


def page(tmp_path, table2=TABLE2, table3=TABLE3, figures=PANELS, notes=("A <note> & more.",)):
    path = paper.write_report(
        tmp_path, variant="paper", seeds=3, table2=table2, table3=table3, figures=figures,
        notes=list(notes),
    )  # fmt: skip
    return path.read_text(encoding="utf-8")


def test_page_is_whole_and_asks_nothing_of_the_network(tmp_path):
    text = page(tmp_path)
    parsed = Page(text)
    assert len(set(parsed.ids)) == len(parsed.ids)
    assert {"svg", "figcaption", "table", "caption", "h2"} <= parsed.tags
    assert not {"script", "note"} & parsed.tags
    outside = re.sub(r'xmlns(:xlink)?="http://www\.w3\.org/\d+/\w+"', "", text)
    assert not re.search(r"https?://|@import|url\((?!#)", outside)
    for link in parsed.links:
        assert link == "data:," or link.removeprefix("#") in parsed.ids
    for target in re.findall(r"url\(#([^)]*)\)", text):
        assert target in parsed.ids


def test_findings_say_that_equal_methods_all_count():
    row = {"problem": "digits-softmax", "data": "digits", "tau": 12, "eps": 1e-2}
    of = lambda name, rounds, uploads: {
        **row, "algorithm": name, "median": rounds, "median_uploads": uploads
    }  # fmt: skip
    (said,) = findings([of("fedavg", 5, 50), of("feddcd", 5, 60)], [])
    assert "FedAvg (in 1 of 1 setup) and FedDCD (in 1) needed the fewest rounds (if" in said
    assert "rounds (if methods are equal, each of them counts). " in said
    assert said.endswith("the fewest vectors with FedAvg (in 1 of 1 setup).")


def test_writing_twice_gives_the_same_bytes(tmp_path):
    figures = {name: PANELS[name] for name in ("plain", "three", "diverges")}
    assert page(tmp_path, figures=figures) == page(tmp_path, figures=figures)


SAYS = [
    "as the paper’s text describes them (for some methods with tuned step sizes), with 3 seeds",
    # within: fedavg 51 of 49..60, accfeddcd 15, feddcd 4 of 4..6, MLP >100; not 45, not 28
    "In 4 of 6 rows of Table 2, the paper’s number of rounds is between the smallest and the ",
    (
        "MNIST, softmax: AccFedDCD (in 1 of 2 setups) and FedDCD (in 1) needed the fewest rounds. "
        "The clients sent the fewest vectors with FedDCD (in 2 of 2 setups)."
    ),
    "MNIST, MLP: no method reached any gap of Table 2.",
    "two classes per client: AccFedDCD had the best test accuracy, 89.11 %.",
    "Where the paper, the authors’ code and this page differ",
    "authors’ results of SCAFFOLD are results of FedAvg",
    "The numbers of the paper and of the authors’ files are for RCV1, so the figures of",
    "A <note> & more.",
]


@pytest.mark.parametrize("sentence", SAYS)
def test_page_says_what_the_rows_show(tmp_path, sentence):
    assert sentence in "".join(Page(page(tmp_path, figures={})).text)


def test_page_without_authors_other_data_or_any_row(tmp_path):
    rows = [row | {"authors": None} for row in TABLE2 if row["data"] == "mnist"]
    text = "".join(Page(page(tmp_path, rows, [], {})).text)
    assert "authors’ own files" not in text
    assert "rcv1-subset" not in text
    assert "Table 3:" not in text
    assert "with 3 seeds" in "".join(Page(page(tmp_path, [], [], {}, [])).text)


def test_a_figure_needs_a_panel():
    with pytest.raises(ValueError, match="no results to draw"):
        paper.paper_figure([])


def test_the_page_ends_with_its_date_command_and_data(tmp_path):
    with with_origin(command="feddcd reproduce all"):
        made = page(tmp_path, figures={}).rpartition("<footer>")[2]
    assert f"Made on {datetime.date.today():%Y-%m-%d} by feddcd " in made
    assert "Command: <code>feddcd reproduce all</code>" in made
    assert "Data: <code>mnist, rcv1-subset</code>" in made
