"""Table 1 over sites: the same in one process, over a federation and from sums alone; small counts
cannot be worked out; quantiles are exact, or rounded to ranges of enough rows."""

import dataclasses
import json
import re

import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from test_regress import policy
from typer.testing import CliRunner

import feddcd
from feddcd._errors import DataError, Refused, SpecError
from feddcd.analysis import _bins as bins
from feddcd.analysis import adding
from feddcd.analysis._cells import Grouped, hide_groups, hide_levels
from feddcd.analysis._describe import Describe
from feddcd.analysis._describe_plan import DescribePlan
from feddcd.analysis.protocol import Count, Max, Sum, arrays, converse
from feddcd.analysis.registry import read_plan
from feddcd.analysis.replay import Replay
from feddcd.cli._ending import told as told_in_shell
from feddcd.cli.app import app
from feddcd.federation.config import Config, load_config
from feddcd.federation.coordinator import _tables as tables
from feddcd.federation.coordinator.coordinator import coordinate
from feddcd.federation.coordinator.nodes import LocalExchange
from feddcd.federation.folder import load_place
from feddcd.federation.machine.init import create
from slices import thinned

NAMES = ["age", "crp", "ward", "C(grade)"]


def patients(n=400, seed=0):
    """Whole numbers, decimals, words and grades; missing values, and a ward of three rows."""
    rng = np.random.default_rng(seed)
    d = pd.DataFrame({"age": rng.integers(20, 90, n), "crp": rng.lognormal(1, 1, n).round(2)})
    d["ward"] = rng.choice(["a", "b", "c"], n)
    d.loc[[3, 50, 200], "ward"] = "rare"
    d["grade"] = rng.integers(1, 4, n)
    d["sex"] = rng.choice(["f", "m"], n)
    d["site"] = rng.choice(["east", "north", "south"], n)
    d.loc[rng.random(n) < 0.1, "crp"] = np.nan
    d.loc[rng.random(n) < 0.1, "ward"] = None
    return d


def parts(d):
    return {str(site): rows.drop(columns="site") for site, rows in d.groupby("site")}


def same(one, other):
    pd.testing.assert_frame_equal(
        one.numbers().query("table == 'all'"), other.numbers().query("table == 'all'"), rtol=1e-12
    )
    pd.testing.assert_frame_equal(one.patterns, other.patterns)


def test_the_numbers_of_pandas():
    d = patients()
    result = feddcd.describe(d, NAMES, by="sex", site="site")
    crp = result.table.numbers[1]
    groups = [d.crp, d.crp[d.sex == "f"], d.crp[d.sex == "m"]]
    np.testing.assert_allclose(crp.mean, [x.mean() for x in groups], rtol=1e-13)
    np.testing.assert_allclose(crp.sd, [x.std() for x in groups], rtol=1e-13)
    own = [[q.value for q in each] for each in crp.quantiles]
    assert own == [x.quantile([0.25, 0.5, 0.75]).tolist() for x in groups]
    ward = result.table.levels[0]
    assert (ward.levels, ward.missing[0]) == (("a", "b", "c", "rare"), d.ward.isna().sum())
    assert ward.counts[:, 0].tolist() == d.ward.value_counts().sort_index().tolist()
    counts = pd.crosstab(d.grade, d.site).to_numpy()
    assert (result.sites.levels[1].counts[:, 1:] == counts).all()
    np.testing.assert_allclose(result.sites.numbers[0].mean[1:], d.groupby("site").age.mean())
    lacking = result.patterns.set_index("missing")["rows"]
    assert lacking["crp, ward"] == (d.crp.isna() & d.ward.isna()).sum()
    assert lacking["(none)"] == d[["crp", "ward"]].notna().all(axis=1).sum()
    assert crp.histogram.rows.sum() == d.crp.notna().sum()


@pytest.mark.parametrize("options", [{}, {"least": 5, "quantiles": "rounded"}])
def test_one_site_or_several(options):
    d = patients()
    same(
        feddcd.describe(d, NAMES, by="sex", **options),
        feddcd.describe(d, NAMES, by="sex", site="site", **options),
    )


def test_sums_are_enough():
    """Every site can follow the talk over the sums, as masks let them through."""
    d = patients()
    d["raw"] = np.random.default_rng(1).normal(size=len(d)) * 1e6
    names, analysis = [*NAMES, "raw"], Describe()
    plan = DescribePlan(names, "sex", quantiles="exact")
    offers = {site: analysis.offer(own, plan).offer for site, own in parts(d).items()}
    cohort, _ = analysis.agree(offers, plan)
    rows = [analysis.rows(own, plan, cohort, site) for site, own in parts(d).items()]
    replay, kinds = Replay(analysis, plan, analysis.agreement(cohort.to_dict(), plan)), set()
    while replay.expected is not None:
        asked = analysis.question(arrays(replay.expected), rows[0])
        assert analysis.matches(replay.expected, asked) == ""
        each = [analysis.answer(own, asked) for own in rows]
        kinds |= {type(block) for block in each[0].values()}
        like = adding.template(analysis, plan, cohort, asked)
        assert adding.layout_of(like).digest == adding.layout_of(each[0]).digest
        sums = adding.add_up(each)
        analysis.blocks({k: v for k, v in arrays(sums).items() if k != "own"}, plan, cohort)
        replay.step(sums)
    assert kinds == {Sum, Count, Max}
    assert replay.result.sites is None
    same(replay.result, feddcd.describe(d, names, by="sex", least=5, quantiles="exact"))


def made(folder, plan, data):
    return create(folder / "fed", list(data), Config("test", plan=plan, patience=5.0), data=data)


def simulated(home, **options):
    places = [load_place(home.site(site)) for site in home.invited()]
    events = []
    coordinate(LocalExchange(places, **options), {"folder": str(home.path)}, events.append)
    return pd.read_csv(home.server / "describe" / "numbers.csv", keep_default_na=False), events


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr(tables, "PAUSE_S", 0.01)


def test_over_a_federation(tmp_path, quick):
    """Masked, with lost messages, the settings of its file; and each, with a site that refuses."""
    d = patients()
    home = made(tmp_path, DescribePlan(NAMES, "sex"), parts(d))
    assert "[describe]" in (home.path / "federation.toml").read_text()
    told, events = simulated(home, loss=0.2)
    own = feddcd.describe(d, NAMES, by="sex", least=5, quantiles="rounded").numbers()
    value = pd.to_numeric(told.value, errors="coerce")
    np.testing.assert_allclose(value, own.value, rtol=1e-12)
    assert events[-1]["event"] == "finished"
    assert (home.server / "describe" / "report.html").exists()
    home = made(tmp_path / "each", DescribePlan(NAMES, "sex", answers="each"), parts(d))
    policy(home, "south", 'columns = ["age"]')
    less, events = simulated(home)
    assert events[-1]["refused"] == ["south"]
    rows = less.query("cell == 'all' and statistic == 'rows'").value.astype(float)
    assert rows.tolist() == [(d.site != "south").sum()]


@pytest.mark.parametrize(
    ("plan", "lines", "reason"),
    thinned(
        [
            ({"least": 3}, "min_per_level = 5", "shows cells with only 3 rows (least = 3)"),
            (
                {"quantiles": "exact"},
                'kinds = ["columns", "counts", "means", "parts"]',
                "the kind 'values'",
            ),
            ({}, 'methods = ["newton"]', "the method 'describe'"),
        ],
        2,
    ),
)
def test_a_site_refuses_what_its_policy_does_not_allow(tmp_path, quick, plan, lines, reason):
    d = patients().assign(ward="a")
    d.loc[::2, "ward"] = "b"
    home = made(tmp_path, DescribePlan(NAMES, answers="each", **plan), parts(d))
    policy(home, "south", lines)
    _, events = simulated(home)
    assert events[-1]["refused"] == ["south"]
    assert any(reason in str(event.get("reason")) for event in events)


def test_the_numbers_of_sites_need_every_site(tmp_path, quick):
    home = made(tmp_path, DescribePlan(["age"], by_site=True), parts(patients()))
    told, _ = simulated(home)
    assert set(told[told.table == "sites"].cell) == {"all", "east", "north", "south"}
    policy(home, "south", 'kinds = ["columns", "counts", "means", "parts"]')
    told, _ = simulated(home)
    assert set(told.table) == {"all"}


@given(st.integers(0, 10**6))
@settings(max_examples=20, deadline=None)
def test_no_small_count_can_be_worked_out(seed):
    """From all that is shown of two tables over the same levels: levels by group and by site."""
    rng, least = np.random.default_rng(seed), 5
    levels, width = int(rng.integers(2, 6)), int(rng.integers(1, 4))
    rows = rng.multinomial(int(rng.integers(20, 120)), rng.dirichlet(np.full(levels, 0.7)))
    each = [
        np.array([rng.multinomial(n, rng.dirichlet(np.ones(k))) for n in rows]) for k in (width, 3)
    ]
    hidden = [hide_groups(counts.sum(0), least) for counts in each]
    found = hide_levels([Grouped(*pair) for pair in zip(each, hidden, strict=True)], least)
    # unknown: all cells of both tables; what is shown are equations
    size = sum(counts.size for counts in each)
    A, b, start = [], [], 0
    for counts, gone, own in zip(each, hidden, found, strict=True):
        at = np.arange(counts.size).reshape(counts.shape) + start
        start += counts.size
        known = [(at[i, j], counts[i, j]) for i, j in np.argwhere(~own.cells)]
        known += [(at[i], rows[i]) for i in np.flatnonzero(~own.totals)]
        known += [(at[:, j], counts[:, j].sum()) for j in np.flatnonzero(~gone)]
        known.append((at.ravel(), counts.sum()))
        for places, value in known:
            A.append(np.isin(np.arange(size), places).astype(float))
            b.append(value)
    first, second = (np.arange(c.size).reshape(c.shape) for c in each)
    for i in range(levels):  # both tables are of the same rows
        line = np.zeros(size)
        line[first[i]] = 1
        line[second[i] + first.size] = -1
        A.append(line)
        b.append(0)
    sensitive = [
        k for k, n in enumerate(np.concatenate([c.ravel() for c in each])) if 0 < n < least
    ]
    for k in sensitive[:4]:
        aim = np.eye(size)[k]
        ends = [s * linprog(s * aim, A_eq=A, b_eq=b, bounds=(0, None)).fun for s in (1, -1)]
        assert ends[1] - ends[0] > 0.5, (each, found, k)


def test_the_next_smallest_goes_with_a_small_count():
    """By hand: c has 2 rows of 100, so b with 8 is hidden, too; with groups, in both of them."""
    alone = hide_levels([Grouped(np.array([[90], [8], [2]]), np.array([False]))], 5)[0]
    assert alone.totals.tolist() == [False, True, True]
    both = hide_levels([Grouped(np.array([[40, 50], [6, 2], [20, 30]]), np.zeros(2, bool))], 5)[0]
    assert both.cells.tolist() == [[False, False], [True, True], [True, True]]
    assert both.totals.tolist() == [False, False, False]
    assert hide_groups(np.array([50, 3, 9]), 5).tolist() == [False, True, True]


def test_what_is_small_is_not_shown():
    d = patients()
    result = feddcd.describe(d, NAMES, by="sex", site="site", least=5, quantiles="rounded")
    ward = result.table.levels[0]
    assert np.isnan(ward.counts[3, 0])
    assert not ((ward.counts > 0) & (ward.counts < 5)).any()
    assert np.isnan([*ward.counts[:, 0], ward.missing[0]]).sum() == 2  # the next smallest, too
    told = result.summary()
    assert "rare" in told
    assert "fewer than 5 rows" in told
    few = d.assign(sex=np.where(d.index < 3, "x", d.sex))
    table = feddcd.describe(few, ["age"], by="sex", least=5).table
    assert len(table.cells) == 2  # all, and the larger group: the smaller one goes with x


@given(st.lists(st.floats(-1e6, 1e6) | st.integers(-20, 20).map(float), min_size=1, max_size=60))
@settings(max_examples=60, deadline=None)
def test_quantiles_are_those_of_the_sorted_rows(values):
    assume(set(values) != {0.0, 1.0})  # which is counted, not ordered
    x = np.array(values)
    table = feddcd.describe(pd.DataFrame({"x": x}), ["x"], shares=[0.1, 0.5, 0.9]).table
    own = [q.value for q in table.numbers[0].quantiles[0]]
    rounding = 1e-14 * np.abs(x).max() + 1e-300  # between two values of opposite signs
    np.testing.assert_allclose(own, np.quantile(x, [0.1, 0.5, 0.9]), rtol=1e-14, atol=rounding)


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e6, 1e300])
def test_many_decimals_at_one_site_and_large_numbers_at_another(size):
    """Together they are no whole numbers of 64 bits."""
    x = np.r_[np.arange(1, 60) / 1e15, size * (1 + np.arange(60.0))]
    sites = np.repeat(["small", "large"], [59, 60])
    result = feddcd.describe(pd.DataFrame({"x": x, "site": sites}), ["x"], site="site")
    own = [q.value for q in result.table.numbers[0].quantiles[0]]
    np.testing.assert_allclose(own, np.quantile(x, [0.25, 0.5, 0.75]), rtol=1e-14)


def test_a_site_counts_what_a_question_makes_too_large():
    keys = bins.keys_of(np.array([-1e300, -1e6, 0.0, 1e6, 1e300]), 15)
    assert (np.diff(keys) >= 0).all()
    assert bins.count_parts(keys, -10, 1).sum() == 5


@pytest.mark.parametrize("decimals", [0, 2, bins.AS_BITS])
def test_keys_keep_the_order_and_come_back(decimals):
    x = np.sort(
        np.random.default_rng(0)
        .normal(0, 100, 200)
        .round(max(decimals, 0) if decimals >= 0 else 12)
    )
    keys = bins.keys_of(x, decimals)
    assert (np.diff(keys) >= 0).all()
    assert [bins.value_of(int(k), decimals) for k in keys] == x.tolist()


def test_a_rounded_quantile_is_the_middle_of_a_range_with_enough_rows():
    x = np.random.default_rng(1).normal(50, 10, 300)
    d = pd.DataFrame({"x": x})
    for share, q in zip(
        [0.1, 0.5, 0.9],
        feddcd.describe(d, ["x"], shares=[0.1, 0.5, 0.9], least=7, quantiles="rounded")
        .table.numbers[0]
        .quantiles[0],
        strict=True,
    ):
        assert np.sum((x >= q.low) & (x <= q.high)) >= 7
        assert q.low <= np.quantile(x, share) <= q.high
        assert q.value == (q.low + q.high) / 2
    shares = {"shares": [0.01, 0.5], "least": 7, "quantiles": "rounded"}
    low, _ = feddcd.describe(d, ["x"], **shares).table.numbers[0].quantiles[0]
    assert low is None  # three rows lie below


def test_no_range_of_few_rows_is_opened():
    """Over all questions of a talk: each range that is asked for holds none or enough rows."""
    d, analysis, plan = patients(), Describe(), DescribePlan(["age", "crp"], "sex")
    cohort, _ = analysis.agree({"a": analysis.offer(d, plan).offer}, plan)
    rows, seen = analysis.rows(d, plan, cohort, "a"), []

    def exchange(questions):
        asked = questions["a"]
        assert analysis.question(arrays(asked), rows)._asdict().keys() == asked._asdict().keys()
        if asked.first.size:
            blocks = analysis.answer(rows, asked)
            seen.extend(np.asarray(blocks["parts"].value).reshape(-1, 256).sum(1))
        return {"a": analysis.answer(rows, asked)}

    converse(analysis.talk(plan, cohort), exchange)
    assert len(seen) > 10
    assert min(seen) >= 5


def test_questions_that_the_plan_does_not_have():
    d, analysis, plan = patients(), Describe(), DescribePlan(["age", "crp"], "sex")
    cohort, _ = analysis.agree({"a": analysis.offer(d, plan).offer}, plan)
    rows = analysis.rows(d, plan, cohort, "a")
    talk = analysis.talk(plan, cohort)
    talk_first = next(talk)["a"]
    second = talk.send({"a": analysis.answer(rows, talk_first)})["a"]
    assert analysis.matches(second, second) == ""
    wrong = {
        "exact": True, "open": np.ones((9, 9), bool), "column": second.column + 9,
        "width": second.width * 0, "pattern": np.array([99]), "edges": np.ones(3),
    }  # fmt: skip
    for name, value in wrong.items():
        with pytest.raises(Refused):
            analysis.question(arrays(second._replace(**{name: np.asarray(value)})), rows)
        assert name in analysis.matches(second, second._replace(**{name: value}))
    assert "first" in analysis.matches(second, second._replace(first=second.first + 1))
    told = json.loads(json.dumps(cohort.to_dict()))
    assert analysis.agreement(told, plan).to_dict() == cohort.to_dict()
    for name, value in {"levels": {}, "numbers": ["age"], "sites": [1], "sites ": None}.items():
        lie = {k: v for k, v in told.items() if k != name.strip()} | {name: value}
        with pytest.raises(DataError, match="the coordinator's list of sites, columns and levels"):
            analysis.agreement(lie, plan)
    for what in analysis.contributions(rows, second):
        assert len(what[1]) in (400, d.crp.notna().sum())
    assert {len(x) for x in analysis.columns_of(rows).values()} == {400}
    blocks = analysis.answer(analysis.stand_in(plan, cohort), second)
    own = analysis.answer(rows, second)
    assert {k: b.value.shape for k, b in blocks.items()} == {
        k: b.value.shape for k, b in own.items()
    }


@pytest.mark.parametrize(
    ("part", "value", "reason"),
    [
        ("n", -1.0, "must be whole"),
        ("present", 0.5, "must be whole"),
        ("n", np.nan, "not finite"),
    ],
)
def test_counts_are_whole(part, value, reason):
    d, analysis, plan = patients(), Describe(), DescribePlan(["age"], "sex")
    cohort, _ = analysis.agree({"a": analysis.offer(d, plan).offer}, plan)
    first = next(analysis.talk(plan, cohort))["a"]
    given = arrays(analysis.answer(analysis.rows(d, plan, cohort, "a"), first))
    bad = given | {part: np.full(given[part].shape, value)}
    with pytest.raises(DataError, match=reason):
        analysis.blocks(bad, plan, cohort)
    with pytest.raises(DataError, match="unknown part 'more'"):
        analysis.blocks(given | {"more": np.zeros(1)}, plan, cohort)


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({}, "the columns are missing"),
        ({"columns": []}, "the setting 'columns' must be a list of names"),
        ({"columns": ["age", "C(age)"]}, "has 'age' twice"),
        ({"columns": ["age"], "by": "age"}, "is the column of the groups"),
        ({"columns": ["age"], "least": -1}, "whole number least >= 0"),
        (
            {"columns": ["age"], "quantiles": "some"},
            "the setting 'quantiles' must be one of 'rounded', 'exact', 'none'; got 'some'",
        ),
        (
            {"columns": ["age"], "shares": [0.5, 0.1]},
            "shares of the quantiles must be in increasing order",
        ),
        ({"columns": ["age"], "shares": [1.5]}, "shares of the quantiles must be between 0 and 1"),
        ({"columns": ["age"], "colums": 1}, "did you mean 'columns'"),
        ({"columns": ["age"], "levels": {"age": []}}, "levels must have a list"),
        (
            {"columns": ["age"], "by_site": True, "answers": "sum"},
            "by_site = true asks for the numbers",
        ),
    ],
)
def test_a_plan_that_cannot_be_used(values, reason, tmp_path):
    with pytest.raises(SpecError, match=reason):
        read_plan({"analysis": "describe", **values})


def test_a_federation_has_one_analysis(tmp_path):
    path = tmp_path / "federation.toml"
    path.write_text("name = 'a'\n[describe]\ncolumns = ['age']\n")
    assert load_config(path).plan == DescribePlan(["age"])
    path.write_text("name = 'a'\n[describe]\ncolumns = ['age']\n[glm]\nformula = 'y ~ x'\n")
    with pytest.raises(SpecError, match="a file can have only one analysis"):
        load_config(path)
    path.write_text("name = 'a'\n[descrbe]\ncolumns = ['age']\n")
    with pytest.raises(SpecError, match="did you mean 'describe'"):
        load_config(path)


def cli(*words):
    return CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=True)


def test_identifiers_are_left_out_by_name(tmp_path, monkeypatch):
    """A mean of record numbers tells nothing, and nobody asked for it."""
    monkeypatch.chdir(tmp_path)
    d = patients().assign(mrn=range(1000, 1400), nights=range(400))
    d.to_csv("p.csv", index=False)
    made = feddcd.describe(d)
    assert "mrn" not in made.plan.names
    assert "The column 'mrn' is not in the table, because its values identify" in made.summary()
    assert "nights" in feddcd.describe(d).summary(), "whole numbers of another name are described"
    done = cli("describe", "p.csv", "--out", "out")
    assert "because its values identify a person. To keep" in " ".join(done.output.split())
    assert "mrn" not in (tmp_path / "out" / "job.toml").read_text()
    asked = cli("describe", "p.csv", "--column", "mrn", "--out", "asked")
    assert "mrn" in (tmp_path / "asked" / "summary.txt").read_text(), asked.output
    book = '[columns.age]\ntype = "number"\n[columns.nights]\ntype = "identifier"\n'
    (tmp_path / "codebook.toml").write_text(book)
    done = cli("describe", "p.csv", "--codebook", "codebook.toml", "--out", "agreed")
    said = " ".join(done.output.split())
    told = "The column 'nights' is not in the table, because the codebook says that its type is"
    assert f"{told} 'identifier'." in said, said
    assert "are not in the table, because the codebook has no entry for them." in said
    assert "nights" not in (tmp_path / "agreed" / "job.toml").read_text()


def test_the_table_names_what_is_left_out_and_how_to_keep_it(tmp_path, monkeypatch):
    """A word in a column of numbers took the column out of all files, without a word in them."""
    monkeypatch.chdir(tmp_path)
    d = patients().head(60).astype({"crp": object}).assign(day="2024-02-01", rate="5 %")
    d.loc[7, "crp"] = "n/a?"
    d.to_csv("p.csv", index=False)
    done = cli("describe", "p.csv", "--out", "out")
    assert (
        "the column 'crp' is not in the table. p.csv: column 'crp' has 'n/a?' on line 9"
        in done.output
    )
    for name in ("summary.txt", "table1.md", "table1.tex", "report.html", "table1.csv"):
        text = " ".join((tmp_path / "out" / name).read_text().split())
        for why in ("some of its values are numbers and others are words", "its values are dates"):
            assert f"not in the table, because {why}" in text, name
        assert "cannot read its values as numbers" in text
        assert "n/a?" not in text, "one row has this word"
    assert "missing = ['WORD']" in (tmp_path / "out" / "summary.txt").read_text()
    (tmp_path / "book.toml").write_text(
        '[columns.crp]\ntype = "number"\nmissing = ["n/a?", ""]\n'
        '[columns.sex]\ntype = "category"\nlevels = ["f", "m"]\nroles = ["group"]\n'
    )
    done = cli("describe", "p.csv", "--codebook", "book.toml", "--out", "kept")
    assert done.exit_code == 0, done.output
    assert "because the codebook allows it neither as a predictor" in done.output
    assert "crp" in (tmp_path / "kept" / "job.toml").read_text()
    same = feddcd.describe(d)
    assert [each.names for each in same.left_out] == [("crp",), ("day",)]


def test_the_table_of_the_sites_is_written_as_printed(tmp_path):
    result = feddcd.describe(patients(), ["age", "sex"], site="site")
    printed = result.summary().partition("By site")[2]
    shown = pd.read_csv({path.name: path for path in result.write(tmp_path)}["by_site.csv"])
    assert list(shown)[2:] == list(result.sites.cells)
    texts = [(tmp_path / f"by_site.{end}").read_text() for end in ("md", "tex")]
    for name in result.sites.cells:
        assert all(name in text for text in (*texts, printed.splitlines()[2]))
    rows = shown.iloc[0].astype(str).tolist()
    assert all(number in printed for number in rows[2:])
    assert "400 rows at 3 sites." in texts[0]
    alone = feddcd.describe(patients(), ["age", "sex"])
    assert not any("by_site" in path.name for path in alone.write(tmp_path / "alone"))


def test_a_result_is_printed_as_its_table():
    result = feddcd.describe(patients(), ["age", "sex"])
    assert str(result) == result.summary()
    assert repr(result) == "<DescribeResult of 400 rows, 2 columns: print() shows the table>"


@pytest.mark.parametrize("least", [0, 1, 5])
def test_a_page_explains_what_it_hides_only_where_it_may(tmp_path, least):
    """A count of 1 stood in the table whose page said that small counts are left out."""
    *_, page = feddcd.describe(patients(), ["age", "sex"], least=least).write(tmp_path)
    assert ("The table leaves out small counts" in page.read_text()) == (least > 1)


def test_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    d = patients().assign(name=[f"patient {i}" for i in range(400)])
    d.to_csv("p.csv", index=False)
    done = cli("describe", "p.csv", "--by", "sex", "--site", "site", "--out", "out")
    assert done.exit_code == 0, done.output
    assert "400 rows at 3 sites" in done.output
    assert "because it has more than 50 different words." in done.output
    files = [f"by_site.{end}" for end in ("csv", "md", "tex")]
    files += ["job.toml", "numbers.csv", "patterns.csv", "report.html", "summary.txt"]
    files += ["table1.csv", "table1.md", "table1.tex"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == files
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Table 1, by sex" in page
    assert page.count('class="chart"') == 3
    done = cli(
        "federation", "init", "fed", "--job", "out/job.toml", "--data", "p.csv", "--group", "site"
    )
    assert done.exit_code == 0, done.output
    plan = load_config(tmp_path / "fed" / "federation.toml").plan
    assert (plan.least, plan.quantiles, plan.by) == (5, "rounded", "sex")  # careful ones
    for words, reason in (
        (["--by", "sx"], "no column 'sx'"),
        (["--column", "agee"], "did you mean 'age'"),
        (["--column", "site", "--site", "site"], "has the site of each row"),
        (["--least", "-1"], "least"),
    ):
        done = cli("describe", "p.csv", *words, "--out", "other")
        assert type(done.exception).__name__ in ("DataError", "SpecError"), done.output
        assert reason in str(done.exception)


def test_ranges_and_levels_of_a_codebook(tmp_path, monkeypatch):
    """Then nobody tells how large its largest value is, nor which levels occur."""
    monkeypatch.chdir(tmp_path)
    patients().to_csv("p.csv", index=False)
    (tmp_path / "codebook.toml").write_text(
        '[columns.age]\ntype = "integer"\nrange = [0, 120]\n[columns.ward]\ntype = "category"\n'
        'levels = ["c", "b", "a", "rare", "none"]\n[columns.site]\ntype = "category"\n'
        'levels = ["east", "north", "south"]\nroles = ["group"]\n'
    )
    done = cli(
        "describe",
        "p.csv",
        "--column",
        "age",
        "--column",
        "ward",
        "--codebook",
        "codebook.toml",
        "--out",
        "out",
    )
    assert done.exit_code == 0, done.output
    plan = DescribePlan.from_dict(
        {"columns": ["age", "ward"], "levels": {"ward": ["c", "b", "a", "rare", "none"]},
         "codebook": {"columns": {"age": {"type": "integer", "range": [0, 120]}}}}
    )  # fmt: skip
    analysis, d = Describe(), patients()
    offered = analysis.offer(d, plan)
    assert offered.levels == {}
    cohort, _ = analysis.agree({"a": offered.offer}, plan)
    first = next(analysis.talk(plan, cohort))["a"]
    blocks = analysis.answer(analysis.rows(d, plan, cohort, "a"), first)
    assert blocks["top"].value.tolist() == [0.0]
    told = json.loads(
        pd.read_csv("out/numbers.csv", keep_default_na=False).level.to_json(orient="values")
    )
    assert [level for level in dict.fromkeys(told) if level] == ["c", "b", "a", "rare", "none"]


def test_odd_columns():
    """None with a value, one value only, TRUE and FALSE, no numbers at all, inf."""
    d = pd.DataFrame({"gone": [np.nan] * 4, "one": [2.5] * 4, "flag": [True, False, True, True]})
    table = feddcd.describe(d).table
    assert np.isnan(table.numbers[0].mean[0])
    assert (table.numbers[1].mean[0], table.numbers[1].sd[0]) == (2.5, 0.0)
    assert [q.value for q in table.numbers[1].quantiles[0]] == [2.5] * 3
    assert table.levels[0].levels == ("False", "True")
    assert feddcd.describe(d, ["flag"]).n_exchanges == 1
    with pytest.raises(
        DataError,
        match=r"the value of 'x' is inf at row 1 \(counted from 0\), but must be finite or missing",
    ):
        feddcd.describe(pd.DataFrame({"x": [1.0, np.inf]}))
    huge = pd.DataFrame({"x": [1e300, -1e-300, 5e-324, 3.0, 1e22 + 0.1]})
    assert feddcd.describe(huge).table.numbers[0].quantiles[0][1].value == 3.0


@pytest.mark.parametrize("option", ["--group", "--site"])
def test_whose_a_row_is_is_said_as_for_a_table(option, tmp_path, monkeypatch, capsys):
    """`feddcd glm` calls it --group."""
    from feddcd.cli.app import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "d.csv").write_text(
        "x,h\n" + "".join(f"{i % 7},{'ab'[i % 2]}\n" for i in range(40))
    )
    with pytest.raises(SystemExit) as stop:
        main(["describe", "d.csv", option, "h", "--out", "out"])
    assert stop.value.code == 0
    assert "mean (SD)" in capsys.readouterr().out


def test_groups_and_quantiles_say_what_they_are(tmp_path):
    """A group's column names the column of the groups; what is not exact has a sign."""
    result = feddcd.describe(patients(), ["age"], by="sex", quantiles="exact")
    names = [f"sex: {name}" for name in result.table.cells[1:]]
    assert result.summary().count("sex:") == len(names) == 2
    assert "≈" not in result.summary()
    list(result.write(tmp_path))
    head = (tmp_path / "table1.csv").read_text("utf-8").splitlines()[0].split(",")
    assert head[3:] == names
    lines = (tmp_path / "table1.md").read_text("utf-8").splitlines()
    assert (tmp_path / "table1.tex").read_text("utf-8") == result.to_latex()
    assert [cell.strip() for cell in lines[0].split("|")[3:-1]] == names
    assert lines[3].startswith("| **age** ")
    assert r"\multicolumn{4}{@{}l}{age} \\" in result.to_latex()
    careful = dataclasses.replace(result, careful=(2, 0)).summary()
    (line,) = [line for line in careful.splitlines() if "median" in line]
    assert line.count("≈") == 9  # each median, and both its quartiles
    assert "≈ marks such quantiles" in careful


def test_who_names_a_group_reads_how_table_1_gets_its_columns(tmp_path, monkeypatch):
    """--group makes a second table, and --by the columns of Table 1 and of its files."""
    monkeypatch.chdir(tmp_path)
    patients().to_csv("p.csv", index=False)
    done = cli("describe", "p.csv", "--column", "age", "--group", "site", "--out", "out")
    told = " ".join(done.output.split())
    assert (
        "If you want one column of Table 1 for each value of 'site', give --by site in place of"
        in told
    )
    assert "--by" not in (tmp_path / "out" / "table1.md").read_text("utf-8")
    done = cli("describe", "p.csv", "--column", "age", "--by", "site", "--out", "by")
    assert "give --by" not in done.output
    head = (tmp_path / "by" / "table1.csv").read_text("utf-8").splitlines()[0]
    assert head == "column,statistic,all,site: east,site: north,site: south"
    done = cli("describe", "p.csv", "--by", "site", "--group", "site", "--out", "both")
    assert "--by site and --group site name the same column." in str(done.exception)
    assert "give only --by site. If" in str(done.exception)
    assert "--by site and --group site" in told_in_shell(done.exception)
    done = cli("describe", "p.csv", "--median", "age", "--group", "site", "--out", "bare")
    told = "The table by site has no line for 'age': this column has only quantiles, and the sites"
    assert told in " ".join(done.output.split())
    done = cli("describe", "p.csv", "--median", "age", "--by", "site", "--out", "one")
    assert "has no line" not in done.output
    with pytest.raises(SpecError, match=r"give only by='site'\. If"):
        feddcd.describe(patients(), by="site", site="site")
    told = " ".join(cli("describe", "--help").output.replace("│", " ").split())
    assert "If you want one column for each site in Table 1, use --by in place of --group." in told


@pytest.mark.parametrize(
    ("job", "reason"),
    [
        (
            '[describe]\ncolumns = ["age", "site"]\n',
            "there is no column 'site'. With --group site, feddcd divides the rows by this column, "
            "so the sites do not have it. Make the job again without this column: `feddcd "
            "describe` leaves it out if you add the option --group site",
        ),
        (
            '[describe]\ncolumns = ["age"]\nby = "site"\n',
            "give `feddcd describe` the option --group site in place of --by site. To get",
        ),
        ('[describe]\ncolumns = ["agee"]\n', "there is no column 'agee'"),
        (
            '[glm]\nformula = "age ~ sex + site"\n',
            "'site'.* leave 'site' out of the formula of `feddcd glm`. .* add --site-effects fixed",
        ),
    ],
)
def test_a_trial_in_which_no_site_can_take_part_is_not_made(job, reason, tmp_path, monkeypatch):
    """`describe` without --group also describes the column of the sites, which no site has."""
    monkeypatch.chdir(tmp_path)
    patients().to_csv("p.csv", index=False)
    (tmp_path / "job.toml").write_text(job)
    words = ("federation", "init", "fed", "--job", "job.toml", "--data", "p.csv", "--group")
    done = cli(*words, "site")
    assert isinstance(done.exception, DataError), done.output
    assert re.search(f"no site can take part in this job: .*{reason}", str(done.exception))
    assert not (tmp_path / "fed").exists()
    (tmp_path / "job.toml").write_text('[describe]\ncolumns = ["age", "crp"]\nby = "sex"\n')
    for option in ("--sites", "3"), ("--site", "north"):
        told = str(cli(*words, "site", *option).exception)
        assert told.endswith(
            f"makes a site for each value of the column 'site', so leave out {option[0]}"
        )
    assert cli(*words, "site").exit_code == 0


def test_a_level_in_two_ways_in_one_file_is_told_without_sites():
    d = patients()
    d.loc[0, "sex"] = str(d.sex[0]).upper()
    with pytest.raises(DataError, match="one level of 'sex' is written in two ways"):
        feddcd.describe(d, ["sex"])


def test_what_a_person_gives_by_mistake(tmp_path, monkeypatch):
    """A table without rows; a group for each age; quantiles in any order."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty.csv").write_text("age,sex\n")
    told = str(cli("describe", "empty.csv", "--out", "out").exception)
    assert told.startswith("empty.csv: no rows; the file must have")
    patients().to_csv("p.csv", index=False)
    told = str(cli("describe", "p.csv", "--by", "age", "--out", "out").exception)
    assert "the column 'age' (--by) has 70 different values" in told
    assert "Combine the values into fewer groups" in told
    with pytest.raises(DataError, match=r"the column 'age' \(by\) has"):
        feddcd.describe(patients(), by="age")
    done = cli("describe", "p.csv", "--column", "age", "--share", "0.9", "--share", "0.1")
    assert done.exit_code == 0, done.output
    assert done.output.index(" 10 %") < done.output.index(" 90 %")


def test_the_report_of_one_table_says_that_nothing_was_sent(tmp_path):
    list(feddcd.describe(pd.DataFrame({"x": np.arange(60.0)})).write(tmp_path))
    page = (tmp_path / "report.html").read_text()
    assert "nothing: one table" in page
    assert "bytes</td>" not in page
