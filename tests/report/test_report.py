"""The report: right counts, honest sentences, a page that is whole and harmless."""

import csv
import datetime
import functools
import io
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.text import Text
from rich.console import Console

import feddcd
from feddcd import report
from feddcd._text import count, number, tiny_bound, trim
from feddcd.algorithms import catalogue
from feddcd.history import COLUMNS, COUNTS, History
from feddcd.report import RunEntry, _curves, run
from feddcd.report.methods import look, looks
from feddcd.report.page import CSS, footer
from feddcd.report.page import text as words
from feddcd.report.tables import pairs, table
from slices import sliced, thinned

VOID = {"meta", "link", "br", "wbr", "hr", "img"}


class Page(HTMLParser):
    """Balanced tags, every id, every reference that a browser would follow."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.tags, self.text = [], [], [], set(), []
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "xlink:href", "src"):
                self.links.append(value)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def history(objective, bound=np.nan, **columns):
    T = len(objective)
    rounds = np.arange(1, T + 1)
    full = {name: rounds if name in COUNTS else np.full(T, np.nan) for name in COLUMNS}
    full |= {"objective": np.array(objective, float), "uploads": 10 * rounds}
    full["lower_bound"] = np.broadcast_to(np.asarray(bound, float), T)
    full["certified_gap"] = full["objective"] - full["lower_bound"]
    return History(full | columns)


def entry(label="feddcd", objective=None, bound=0.5, **columns):
    objective = 0.5 + 0.3 * 0.8 ** np.arange(80) if objective is None else objective
    config = {"algorithm": {"name": label}, "data": {"clients": 50}, "tau": 15}
    summary = {"rounds": len(objective), "objective": float(objective[-1])}
    return RunEntry(label, history(objective, bound, **columns), summary, config)


def full(label, rate, T=60):
    t = np.arange(T)
    more = {"accuracy": 0.9 - 0.3 * rate**t, "dual_residual": 1e-13 * (1.0 + t % 3)}
    return entry(label, 0.5 + 0.3 * rate**t, 0.5 - 0.1 * rate**t, **more)


CASES = {
    "run": [full("feddcd", 0.8)],
    "compare": [full("feddcd", 0.8), full("accfeddcd", 0.7), full("mbsgd", 0.999)],
    "early stop": [full("feddcd", 0.8), full("fednewton", 0.3, 9), full("a long label " * 9, 0.9)],
    "not convex": [entry(bound=np.nan), entry("fedavg", bound=np.nan)],
    "negative objective": [entry(objective=[-1.0, -2.0], bound=np.nan), entry("fedavg")],
    "one round": [entry(objective=[0.7])],
    "one round each": [entry(objective=[0.7]), entry("fedavg", [0.9])],
    "no round": [entry("new")._replace(history=History.empty())],
    "diverges": [full("feddcd", 0.8), entry("fedavg", [0.9, 1e30, np.inf, np.nan])],
    "at the optimum": [entry(objective=[0.5, 0.5])],
    "odd labels": [full("_a $x^ <b>", 0.8), full("联邦 & \\1", 0.7), full("_a $x^ <b>", 0.6)],
}


def page(tmp_path, entries, title="A title"):
    kind = "run" if len(entries) == 1 else "compare"
    report.write(entries, tmp_path / "a.html", title=title, kind=kind)
    return (tmp_path / "a.html").read_text(encoding="utf-8")


@functools.cache
def page_of(name):
    kind = "run" if len(CASES[name]) == 1 else "compare"
    return run.page(CASES[name], title="A title", kind=kind)


@pytest.mark.parametrize("name", thinned(CASES, 2))
def test_page_is_whole_and_asks_nothing_of_the_network(name):
    text = page_of(name)
    parsed = Page(text)
    assert len(set(parsed.ids)) == len(parsed.ids)
    assert {"svg", "figcaption", "table", "details"} <= parsed.tags
    assert "script" not in parsed.tags
    outside = re.sub(r'xmlns(:xlink)?="http://www\.w3\.org/\d+/\w+"', "", text)
    assert not re.search(r"https?://|@import|url\((?!#)", outside)
    for link in parsed.links:
        assert link == "data:," or link.removeprefix("#") in parsed.ids
    for target in re.findall(r"url\(#([^)]*)\)", text):
        assert target in parsed.ids
    for one in CASES[name]:
        assert one.label.strip() in "\n".join(parsed.text)


@pytest.mark.parametrize(
    "name", thinned(sliced(CASES, {"odd labels", "no round", "diverges", "one round"}), 2)
)
def test_every_figure_can_be_drawn(tmp_path, name):
    entries = CASES[name]
    drawn = [report.curves(entries, title="a $ b"), report.accuracy(entries)]
    for i, figure in enumerate([*drawn, report.single(entries[0])]):
        report.save_png(figure, tmp_path / f"{i}.png")
        assert (tmp_path / f"{i}.png").read_bytes().startswith(b"\x89PNG")


def test_writing_twice_gives_the_same_bytes(tmp_path):
    assert page(tmp_path, CASES["compare"]) == page_of("compare")


def test_the_page_says_when_and_by_what_it_was_made():
    day = datetime.date(2026, 3, 1)
    assert f"Made on 2026-03-01 by feddcd {feddcd.__version__}." in footer({}, day)


def test_user_text_is_escaped(tmp_path):
    evil = entry('<b>"x"</b>')._replace(config={"<i>key": {"a&b": "<script>1</script>"}})
    text = page(tmp_path, [evil, full("feddcd", 0.8)], title="<u>title</u>")
    assert not {"b", "i", "u", "script"} & Page(text).tags
    assert "&lt;u&gt;title&lt;/u&gt;" in text


def test_svg_ids_differ_between_figures_without_a_prefix():
    a, b = report.curves(CASES["compare"]), report.accuracy(CASES["compare"])
    first, second = report.svg(a), report.svg(b)
    assert not set(Page(first).ids) & set(Page(second).ids)
    assert first.startswith("<svg")
    assert report.svg(a) == first == report.svg(report.curves(CASES["compare"]))


# Gaps to the best bound, 0.5: feddcd 1e-2, 1e-3, 1e-5, 1e-7; fedavg 1e-2, 1e-4, 1e-4.
# fedavg's own bound, 0.4, proves only 0.1 + 1e-4, but feddcd's bound holds for it, too.
HAND = [
    entry("feddcd", 0.5 + np.array([1e-2, 0.99e-3, 1e-5, 1e-7]), [0.1, 0.5, 0.2, np.nan]),
    entry("fedavg", 0.5 + np.array([1e-2, 1e-4, 1e-4]), 0.4),
]
# Two rounds are enough, but each of their uploads is a matrix: a million bytes a round.
LARGE = [
    HAND[0],
    entry("fednewton", 0.5 + np.array([1e-2, 1e-7]), 0.5, bytes_up=10**6 * np.arange(1, 3)),
]


def test_table_counts_rounds_and_uploads_to_each_gap():
    feddcd, fedavg = report.rows(HAND)
    assert (feddcd["rounds to 1e-3"], feddcd["uploads to 1e-3"]) == ("2", "20")
    assert (feddcd["rounds to 1e-6"], feddcd["uploads to 1e-6"]) == ("4", "40")
    assert (fedavg["rounds to 1e-3"], fedavg["uploads to 1e-6"]) == ("2", "–")
    assert (feddcd["gap, at most"], fedavg["gap, at most"]) == ("1e-7", "1e-4")
    assert report.rows(HAND[1:])[0]["certified gap"] == "0.11"  # it is 0.1001
    assert feddcd["accuracy"] == "–"
    newton = report.rows(LARGE)[1]
    assert (newton["MB up"], newton["MB to 1e-3"], newton["MB to 1e-6"]) == ("2.00",) * 3


def test_a_proven_gap_is_never_rounded_down(tmp_path):
    runs = [
        entry("feddcd", np.array([0.6, 0.520331]), 0.5),
        entry("fedavg", np.array([0.7, 0.620331]), 0.5),
    ]
    assert [row["gap, at most"] for row in report.rows(runs)] == ["0.021", "0.13"]
    for made in (report.markdown_table, report.latex_table):
        assert " 0.13 " in made(runs)
    seen = Console(width=200, file=io.StringIO())
    seen.print(report.rich_table(runs))
    assert "0.13" in seen.file.getvalue()
    assert "0.12" not in seen.file.getvalue()
    alone = page(tmp_path, runs[1:])
    assert "proven to be within 0.13 of the best" in alone
    assert "0.12 " not in alone
    for value, said in ((0.0210475, "0.022"), (2e-5, "2e-5"), (2.01e-5, "2.1e-5"), (999, "1e3")):
        assert tiny_bound(value) == said
    assert [tiny_bound(x) for x in (0, 1e-16, np.nan)] == ["< 1e-15", "< 1e-15", "–"]


def test_costs_are_drawn_against_bytes_on_a_log_axis_where_they_differ_much():
    against_rounds, against_bytes = report.curves(LARGE).axes
    assert against_bytes.get_xlabel() == "MB sent by the clients"
    np.testing.assert_allclose(against_bytes.lines[1].get_xdata(), [1.0, 2.0])
    assert (against_rounds.get_xscale(), against_bytes.get_xscale()) == ("linear", "log")
    assert report.curves(HAND).axes[1].get_xscale() == "linear"


def test_csv_has_a_line_per_entry(tmp_path):
    report.write_csv(HAND, tmp_path / "compare.csv")
    with open(tmp_path / "compare.csv", newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["label"], first["rounds"], first["uploads_to_1e-06"]) == ("feddcd", "4", "40")
    assert (second["label"], second["rounds_to_1e-03"]) == ("fedavg", "2")
    assert second["rounds_to_1e-06"] == ""


def test_terminal_table_shows_each_entry_within_80_letters():
    console = Console(width=80, file=io.StringIO())
    console.print(report.rich_table(HAND))
    assert re.search("fedavg.*0.500100", console.file.getvalue())


def test_a_gap_to_a_bound_is_not_called_a_distance_to_the_optimum(tmp_path):
    """A gap is the distance to the optimum; what is proven of it is named as a limit."""
    console = Console(width=200, file=io.StringIO())
    console.print(report.rich_table(HAND))
    said = " ".join(console.file.getvalue().split())
    assert "The true gap can be smaller. Gaps are rounded up to two digits" in said
    assert tiny_bound(0.1433) == "0.15"  # as docs/runs.md has it
    assert "uploads to 1e-3: the uploads until the gap was at most 1e-3" in said
    report.write_csv(HAND, tmp_path / "compare.csv")
    report.write_medians(HAND, tmp_path / "medians.csv")
    for made in (report.latex_table(HAND), report.markdown_table(HAND)):
        assert "gap, at most: the objective of a run" in " ".join(made.split()).lower()
        assert "Gaps are rounded up to two digits." in " ".join(made.split())
    assert "gap, at most" in page(tmp_path, HAND)
    assert "rounded up to two digits" in page(tmp_path, HAND)
    for name in ("compare.csv", "medians.csv"):
        head = (tmp_path / name).read_text().splitlines()[0].split(",")
        assert "gap_at_most" in head
        assert "gap" not in head


def test_the_table_of_a_run_says_to_which_bound_it_counts():
    console = Console(width=200, file=io.StringIO())
    console.print(report.rich_table(HAND[:1]))
    said = " ".join(console.file.getvalue().split())
    assert "certified gap" in said
    assert "above the best lower bound of the whole run" in said
    console = Console(width=200, file=io.StringIO())
    console.print(report.rich_table([entry("a", [0.9, 0.7])]))  # it did not come so far
    assert "of the whole run" not in console.file.getvalue()


def test_names_stand_whole_within_80_letters_in_the_widest_table():
    names = ("accfeddcd", "fednewton", "pointsaga")
    runs = [entry(name, 0.5 + np.array([1e-2, 1.9e-14])) for name in names]
    runs = [
        run._replace(summary={"bits": bits}) for run, bits in zip(runs, (64, 8, 8), strict=True)
    ]
    console = Console(width=80, file=io.StringIO())
    console.print(report.rich_table(runs))
    lines = console.file.getvalue().splitlines()
    assert {"algorithm", *names} <= {line.split()[0] for line in lines if line.split()}
    assert max(map(len, lines)) <= 80


def test_bits_stand_in_tables_and_pictures_where_they_differ():
    few, wide = (HAND[k]._replace(summary={"bits": bits}) for k, bits in ((0, 8), (1, 64)))
    few = few._replace(label="fedqn")
    assert [row["bits"] for row in report.rows([few, wide])] == ["8", "64"]
    console = Console(width=80, file=io.StringIO())
    console.print(report.rich_table([few, wide]))
    assert re.search("fedqn +8 .*\n *fedavg +64 ", console.file.getvalue())
    for text in (report.latex_table([few, wide]), report.markdown_table([few, wide])):
        assert re.search("FedQN +[&|] +8 ", text)
        assert "the bytes that the clients sent until the gap was at most" in text
        assert "Bits: how many bits a method uses to send one number." in text
        assert "that uses fewer bits sends fewer bytes for the same numbers." in text
    printed = " ".join(console.file.getvalue().split())
    assert (
        "To compare the methods with the same number of bits, use --bits 8 or --bits 64." in printed
    )
    (drawn, _), *_ = _curves.panels([few, wide], "compare")
    assert {"fedqn (8 bits)", "fedavg"} <= {text.get_text() for text in drawn.findobj(Text)}
    assert "bits" not in report.rows([wide, wide])[0]
    assert "bits" not in report.markdown_table([wide, wide]).lower()


def test_a_table_for_a_paper_has_no_column_without_values():
    text = report.markdown_table([entry("a", [0.9, 0.5005]), entry("b", [0.9, 0.5009])])
    head = text.splitlines()[0]
    assert ("uploads to 1e-3" in head, "uploads to 1e-6" in head) == (True, False)
    assert "No method reached a proven gap of 1e-6." in text
    assert "–" not in text
    nothing = entry(bound=np.nan)
    assert "gap" not in report.markdown_table([nothing, nothing._replace(label="b")])


def test_a_table_says_what_its_bytes_leave_out():
    runs = [run._replace(summary={"certificate_bytes_up": 2_460_000}) for run in HAND]
    for made in (report.latex_table, report.markdown_table):
        assert "not include the certificates (at most 2.46 MB in a run)." in made(runs)
        assert "certificates" not in made(HAND)


def test_a_comparison_says_that_its_bound_is_far_away(tmp_path):
    """The gaps are 1.0 and 1.1: nearly all of it is the distance of the bound."""
    far = [entry(name, [3.0, end], bound=-0.6) for name, end in (("fedavg", 0.4), ("mine", 0.5))]
    said = "smallest gap is 1, but the objectives of the runs differ by at most 0.1. .*too large."
    todo = "use more rounds, or add the method fedqn or pointsaga."
    console = Console(width=500, file=io.StringIO())
    console.print(report.rich_table(far))
    written = page(tmp_path, far)
    for text in (console.file.getvalue(), report.markdown_table(far), written):
        assert re.search(said, " ".join(text.split())), text
        assert (todo in " ".join(text.split())) == (text != report.markdown_table(far))
    with_fedqn = page(tmp_path, [far[0], far[1]._replace(label="fedqn")])
    assert "or add the method pointsaga" in with_fedqn
    auto = far[1]._replace(label="auto (fedqn)", config={"algorithm": "fedqn"})
    assert "or add the method pointsaga" in page(tmp_path, [far[0], auto])
    near = [entry(name, [3.0, end], bound=0.35) for name, end in (("fedavg", 0.4), ("mine", 0.5))]
    for runs in (near, far[:1], HAND):
        assert "smallest gap" not in report.markdown_table(runs)


def test_a_median_of_rounds_may_be_a_half():
    assert [count(x) for x in (13.5, 266.5, 14.0, 1234.25, np.inf)] == [
        "13.5", "266.5", "14", "1,234", "–",
    ]  # fmt: skip


SAYS = {
    "run": (HAND[:1], "FedDCD ran 4 rounds with 15 of 50 clients. The model’s objective is 0.5000. "
            "This objective is proven to be within 1e-7 of the best possible objective."),
    "winner": (HAND, "Only FedDCD reached an objective that is proven to be within 1e-6 of the "
               "best possible objective: 4 bytes in 40 uploads and 4 rounds. It is not "
               "proven that FedAvg reached this."),
    "tie": ([HAND[0], HAND[0]._replace(label="b")], "FedDCD and b sent the fewest bytes"),
    "bytes and uploads differ": (LARGE, "FedDCD sent the fewest bytes to reach an objective that "
               "is proven to be within 1e-6 of the best possible objective: 4 bytes in 40 "
               "uploads and 4 rounds. Next is FedNewton, which sent 500,000 times as many bytes. "
               "FedNewton needed the fewest uploads: 20 uploads, 2 MB."),
    "another for less": ([LARGE[1], HAND[1]], "FedAvg sent the fewest bytes to reach an objective "
                         "that is proven to be within 1e-3 of the best possible objective: 2 bytes "
                         "in 20 uploads and 2 rounds."),
    "not reached": ([HAND[1], HAND[1]._replace(label="b")],
                    "No run has an objective that is proven to be within"),
    "not convex": (CASES["not convex"],
                   "There is no certificate, because the model is not convex."),
    "two problems": ([HAND[0], entry("other", [0.2, 0.1], 0.0)], "Do not compare the gaps"),
}  # fmt: skip


@pytest.mark.parametrize("name", SAYS)
def test_summary_claims_what_the_numbers_prove(tmp_path, monkeypatch, name):
    entries, sentence = SAYS[name]
    monkeypatch.setattr(run, "panels", lambda *a: [])  # the words alone
    assert sentence in "".join(Page(page(tmp_path, entries)).text)


def test_a_known_algorithm_keeps_its_colour_and_no_two_lines_look_alike():
    chosen = looks(["feddcd eta=0.5", "feddcd", "Point-SAGA", "mine", "yours"])
    assert chosen[1] == look("feddcd")
    assert chosen[2] == look("pointsaga")
    assert len(set(chosen)) == 5


def test_a_run_report_refuses_two_runs(tmp_path):
    with pytest.raises(ValueError, match="got 2"):
        report.write(HAND, tmp_path / "a.html", title="", kind="run")


def test_the_line_of_each_method_can_be_seen_on_a_dark_page():
    """About three to one, which guidelines on accessible pages ask of lines."""
    dark = re.search(r"dark\).*?--paper: (#\w{6}).*?brightness\(([\d.]+)\)", CSS, re.S)
    assert dark is not None
    for name in catalogue.methods():
        shown = light(look(name).colour, float(dark[2]))
        assert (shown + 0.05) / (light(dark[1]) + 0.05) > 2.9, name


def light(colour: str, brighter: float = 1.0) -> float:
    """The relative luminance, as these guidelines define it."""
    parts = [min(1.0, int(colour[i : i + 2], 16) / 255 * brighter) for i in (1, 3, 5)]
    linear = [v / 12.92 if v <= 0.03928 else ((v + 0.055) / 1.055) ** 2.4 for v in parts]
    return float(np.dot(linear, (0.2126, 0.7152, 0.0722)))


def test_a_run_that_does_not_come_to_a_gap_counts_as_the_most_expensive():
    """Uploads to 1e-3: 20, 20 and never; to 1e-6: 40, never and never."""
    never = entry("feddcd", 0.5 + np.array([1e-1, 1e-2]), 0.4)
    seeds = [HAND[0], HAND[1]._replace(label="feddcd"), never]
    (row,) = report.rows([report.median_entry(seeds)])
    assert (row["uploads to 1e-3"], row["uploads to 1e-6"]) == ("20", "–")
    assert row["gap, at most"] == "1e-4"


def test_a_method_without_a_number_has_no_empty_line_of_quartiles():
    nothing = [entry("mbsgd", np.full(3, np.nan), np.nan)] * 3
    known = [entry("fedavg")] * 3
    rows = report.latex_table([report.median_entry(runs) for runs in (nothing, known)])
    assert not [line for line in rows.splitlines() if line and not line.strip("& \\")]
    assert "[" in rows


def test_a_run_without_an_objective_names_none():
    said = " ".join(run.run_summary(entry(objective=[np.nan], bound=np.nan)))
    assert "round" in said
    assert "objective is" not in said


def test_a_score_of_ones_own_is_a_number():
    mine = entry(accuracy=np.full(80, 1.4935))._replace(summary={"accuracy_is": "score of Huber"})
    assert report.rows([mine])[0]["accuracy"] == "1.4935"
    assert "The score is 1.4935, the score of Huber" in " ".join(run.run_summary(mine))


def test_the_page_says_in_how_many_bits_and_what_is_not_counted():
    few = HAND[0]._replace(label="fedqn", summary={"bits": 8, "certificate_bytes_up": 2_000_000})
    wide = HAND[1]._replace(summary={"bits": 64})
    said = " ".join(run._counted([few, wide]))
    assert "FedQN sends each number with 8 bits. FedAvg sends each number with 64 bits." in said
    assert "The counts of bytes do not include the certificates (at most 2 MB in a run)." in said
    assert "The methods use different numbers of bits to send one number. A method" in said
    assert "To compare the methods with the same number of bits, use --bits 8 or --bits 64." in said
    assert "All methods send each number with 64 bits." in run._counted([wide, wide])
    assert "different" not in " ".join(run._counted([wide, wide]))
    assert run._counted(HAND) == []


def test_a_single_number_is_no_figure(tmp_path):
    """As of a federation that makes its certificate only at the end."""
    once = lambda last: np.array([np.nan, np.nan, last])
    history = {"accuracy": once(0.9), "dual_residual": np.array([1e-16, np.nan, 2e-16])}
    made = page(tmp_path, [entry(objective=once(0.7), **history)])
    assert made.count("<figure>") == 1
    assert "dual residual" in made
    assert "90.00 %" in made


def test_a_list_among_the_settings_has_no_signs_of_python(tmp_path):
    one = entry()
    made = page(tmp_path, [one._replace(config=one.config | {"sites": ["north", "south"]})])
    assert "<td>north, south</td>" in made


def test_words_in_backticks_are_code_and_a_date_is_whole():
    made = [words("`a_b` & <x> on 2026-01-31"), pairs("A", [("b", "`c` 2026-01-31")], "settings")]
    made += [table("A", ["", ""], ("", [("b", "`c` of 2026-01-31")]), style="words")]
    assert made[0] == '<code>a_b</code> &amp; &lt;x&gt; on <span class="n">2026-01-31</span>'
    for one in made[1:]:
        assert "<code>c</code>" in one
        assert '<span class="n">2026-01-31</span>' in one


def test_a_formula_of_the_reader_keeps_its_backticks():
    assert "<td>y ~ `a b`</td>" in pairs("The fit", [("Formula", "y ~ `a b`")])


def test_what_a_table_keeps_in_one_piece():
    made = table("By site", ["site", "a", "b " * 20], ("", [["f", "117 (48.5 %)", "<b> (1)"]]))
    assert '<td>117 <span class="n">(48.5 %)</span></td><td>&lt;b&gt; (1)</td>' in made
    assert '<th scope="col">a</th><th scope="col" class="long">b b' in made


@pytest.mark.parametrize(
    ("made", "shown"),
    [
        (number(-1.234e-6), "−1.234e-6"),
        (trim(1e-6, 2), "1e-6"),
        (trim(-1.5e-9, 4), "−1.5e-9"),
        (trim(2.50, 4), "2.5"),
        (number(1234.5, 5), "1,234.5"),
    ],
)
def test_an_exponent_is_written_as_it_is_typed(made, shown):
    assert made == shown
