"""A description under careful policies: nothing that leaves a site speaks of fewer than k of its
rows, whatever other sites add to the sums."""

import dataclasses
from contextlib import suppress

import numpy as np
import pandas as pd
import pytest

import feddcd
from disks import in_memory
from feddcd import _files as files
from feddcd._errors import Refused, Stalled
from feddcd.analysis._bins import Quantile
from feddcd.analysis._describe import Describe
from feddcd.analysis._describe_plan import DescribePlan
from feddcd.analysis._describe_text import _quantile, groups
from feddcd.analysis.protocol import ALL, Count, Max, Sum, arrays
from feddcd.federation.config import Config
from feddcd.federation.coordinator import _tables as tables
from feddcd.federation.coordinator.coordinator import coordinate
from feddcd.federation.coordinator.nodes import LocalExchange
from feddcd.federation.folder import load_place
from feddcd.federation.machine.init import create
from feddcd.federation.site._job_rules import JobRules
from feddcd.federation.site.approval import approve, waiting
from feddcd.federation.site.policy import Outgoing, Policy

K, SITES = 5, ("east", "north", "south")
PLAN = DescribePlan(["age", "crp", "bmi", "ward"], by="sex", shares=[0.1, 0.5, 0.9])
COUNTS = ("n", "present", "levels", "parts", "bins", "patterns")


@pytest.fixture
def tmp_path(monkeypatch):
    monkeypatch.setattr(tables, "PAUSE_S", 0.01)
    monkeypatch.setattr(files, "_flush", lambda handle: None)
    with in_memory() as folder:
        yield folder


def patients(n=120, seed=0):
    """One row has no sex; few lack a crp or are in ward c; two columns lack values together."""
    rng = np.random.default_rng(seed)
    d = pd.DataFrame({"age": rng.integers(30, 90, n).astype(float)})
    d["crp"], d["bmi"] = rng.uniform(1, 40, n).round(1), rng.normal(27, 4, n)
    d["sex"], d["ward"] = rng.choice(["f", "m"], n), rng.choice(["a", "b"], n)
    d.loc[rng.choice(n, 14, replace=False), "bmi"] = np.nan
    d.loc[rng.choice(n, int(rng.integers(1, 4)), replace=False), "crp"] = np.nan
    d.loc[rng.choice(n, 7, replace=False), "ward"] = "c"
    d.loc[17, "sex"] = None
    return d


def small(x):
    return (np.asarray(x) > 0) & (np.asarray(x) < K)


def check(blocks, parted=3):
    """Counts, and differences of counts."""
    held = arrays(blocks)
    for name in COUNTS:
        assert name not in held or not small(held[name]).any(), name
    if "n" in held:
        lacking = held["n"] - np.reshape(held["present"], (-1, parted))
        assert not small(lacking).any()
        assert not small(lacking.sum(1)).any()
        levels = np.reshape(held["levels"], (-1, parted))  # of one column, missing last
        assert (levels.sum(0) == held["n"]).all()
        assert not small(levels.sum(1)).any()


def attack(d, plan=PLAN, k=K, liar=500):
    """All answers of an honest site, while another one says that there are many rows everywhere."""
    analysis = Describe()
    cohort, _ = analysis.agree({"a": analysis.offer(patients(), plan).offer}, plan)
    rows = analysis.guarded(analysis.rows(d, plan, cohort, "a"), k)
    talk, found = analysis.talk(plan, cohort, summed=True), []
    asked = next(talk)[ALL]
    with suppress(StopIteration):
        while True:
            blocks = analysis.answer(rows, analysis.question(arrays(asked), rows))
            found.append((asked, blocks))
            more = {k: b for k, b in blocks.items() if k != "own"}
            lie = lambda b: b if isinstance(b, Max) else type(b)(b.value + liar)
            told = {k: lie(b) if isinstance(b, Count | Sum) else b for k, b in more.items()}
            asked = talk.send({ALL: told})[ALL]
    return found


@pytest.mark.parametrize("seed", range(4))
def test_no_count_of_a_site_is_small(seed):
    found = attack(patients(seed=seed))
    assert len(found) >= 4
    assert any(asked.open.size and asked.open.all() for asked, _ in found)
    here = np.reshape(found[0][1]["present"].value, (-1, 3))
    here = np.hstack([here, here.sum(1, keepdims=True)])
    for asked, blocks in found:
        check(blocks)
        if asked.open.size:
            for name in ("s1", "s2"):
                assert (blocks[name].value[here == 0] == 0).all()
            s1 = blocks["s1"].value + asked.centre * here  # about 0 again
            np.testing.assert_allclose(s1[:, :3].sum(1), s1[:, 3])  # all are the groups, no more
    start = found[1][0]  # where all cells have the same first range
    for j in range(3):
        at = [np.flatnonzero((start.column == j) & (start.cell == c)) for c in range(4)]
        *groups, whole = (found[1][1]["parts"].value[i].sum(0) for i in at)
        np.testing.assert_array_equal(sum(groups), whole)
    loose = attack(patients(seed=seed), k=0)
    with pytest.raises(AssertionError):
        check(loose[0][1])  # so this can fail
    assert loose[0][1]["few"].value.tolist() == [0, 0]


def test_what_few_rows_have_changes_nothing():
    """The row without a group may be anything; so may be which of the few is in the rare ward."""
    d = patients()
    other = d.copy()
    other.loc[17, ["age", "crp", "bmi", "ward"]] = [31.0, 0.1, 60.123, "b"]
    rare = np.flatnonzero((d.ward == "c") & (d.sex == "f"))
    assert 0 < len(rare) < K
    other.loc[rare[0], "ward"] = None
    for (asked, one), (again, two) in zip(attack(d), attack(other), strict=True):
        assert Describe().matches(asked, again) == ""
        for name, block in one.items():
            np.testing.assert_array_equal(block.value, two[name].value)


def test_sums_of_zeros_and_ones_are_counts():
    """Of two women with 1 among zeros the sum would say 2; a value above all others, its size."""
    d = patients().assign(sex=["f", "m"] * 60, age=0.0, crp=np.arange(120.0))
    d.loc[[0, 2, *range(1, 21, 2)], "age"] = 1.0
    d.loc[4, "crp"] = 1e5
    (_, first), (_, second), *_ = attack(d)
    present = np.reshape(first["present"].value, (3, 3))
    assert present[:2].tolist() == [[0, 60, 0], [0, 60, 0]]
    assert second["s1"].value[:2, :3].tolist() == [[0, 10, 0], [0, d.crp[1::2].sum(), 0]]


def test_sums_that_say_how_many_rows_have_a_value_are_those_of_many_rows():
    """Of 0, 1 and 2 the rows, the sum and the sum of squares are three equations for three counts.
    Beside a histogram of values that were joined, they would tell the one who has 4."""
    d = patients().assign(sex=["f", "m"] * 60)
    copies, children = (
        np.repeat([0.0, 1, 2], [40, 19, 1]),
        np.repeat([0.0, 1, 2, 4], [30, 20, 9, 1]),
    )
    assert (copies @ copies - copies.sum()) / 2 == 1  # the one with two copies
    d.loc[d.sex == "f", "age"], d.loc[d.sex == "m", "age"] = copies, children
    sums = attack(d)[1][1]
    assert sums["s1"].value[0, :2].tolist() == [20, 40]  # 20 rows of 1; 20 of 1 and 10 of 2
    assert sums["s2"].value[0, :2].tolist() == [20, 60]
    plain = attack(d, k=0)[1][1]
    assert plain["s1"].value[0, :2].tolist() == [21, 42]
    d.loc[5:, "sex"], d.loc[:4, "sex"] = "f", "m"
    d["age"] = np.r_[[0.0, 0, 1, 1, 2], np.arange(115) % 40]
    assert attack(d)[1][1]["s1"].value[0, 1] == 5  # all five count as 1
    d["age"] = np.r_[[20.0, 35, 41, 56, 62], np.arange(115) % 40]
    assert attack(d)[1][1]["s1"].value[0, 1] == 214  # many other ages have the same sums


def test_the_largest_value_and_its_decimals_are_those_of_k_rows():
    d = patients().assign(sex="f")
    d.loc[3, "age"] = 70.125
    first = attack(d)[0][1]
    assert first["digits"].value[0] == 1.0  # no decimals: one row alone has some
    plain = attack(d, k=0)[0][1]
    assert plain["digits"].value[0] == 8.0
    flat = patients().assign(sex="f", age=np.r_[[50.0, 60, 61, 62, 70], np.full(115, 40.0)])
    assert attack(flat, k=0)[0][1]["top"].value[0] == pytest.approx(128.0)
    assert attack(flat)[0][1]["top"].value[0] == pytest.approx(64.0)  # their mean is below


def drawn_in(block):
    """The sum of neighbours; one that is further from the middle than all others counts as the one
    next to it."""
    away = abs(block - block[K // 2])
    first, *inner, last = block
    first = inner[0] if 2 * away[0] > away.sum() else first
    last = inner[-1] if 2 * away[-1] > away.sum() else last
    return first + sum(inner) + last


def test_quantiles_are_off_by_few_rows():
    x = np.random.default_rng(1).normal(50, 10, 300)
    analysis, plan = Describe(), DescribePlan(["x"], least=K)
    d = pd.DataFrame({"x": x})
    cohort, _ = analysis.agree({"a": analysis.offer(d, plan).offer}, plan)
    near = np.sort(analysis.guarded(analysis.rows(d, plan, cohort, "a"), K).data.near[:, 0])
    ordered = np.sort(x)
    assert np.unique(near, return_counts=True)[1].min() >= K
    assert (near[2 * K :] >= ordered[: -2 * K]).all()
    assert (near[: -2 * K] <= ordered[2 * K :]).all()
    assert near.sum() == pytest.approx(sum(map(drawn_in, ordered.reshape(-1, K))))


def careful(folder, plan, data):
    """Nothing is written in any policy."""
    home = create(folder / "fed", list(data), Config("t", plan=plan, patience=0.05), data=data)
    for site in SITES:
        (home.site(site) / "policy.toml").unlink()
    return home


def test_a_federation_of_careful_sites(tmp_path, monkeypatch):
    """A person at each site agrees to names, and to the job. What leaves is seen unmasked."""
    data = {site: patients(seed=i) for i, site in enumerate(SITES)}
    for d in data.values():
        d["ward"] = d.ward.replace("c", "a")
        d.loc[:1, "ward"] = None
    home, left, own, agreed = careful(tmp_path, PLAN, data), [], JobRules.answer, 0

    def answer(self, rows, asked):
        left.append(own(self, rows, asked))
        return left[-1]

    monkeypatch.setattr(JobRules, "answer", answer)
    events = []
    while not (home.server / "describe" / "numbers.csv").exists():
        with suppress(Stalled):
            places = [load_place(home.site(site)) for site in SITES]
            coordinate(LocalExchange(places), {"folder": str(home.path)}, events.append)
        for site in SITES:
            for id in waiting(home.site(site)):
                approve(home.site(site), id)
                agreed += 1
    assert agreed == 6  # three sites: to names and levels, and to the job
    for site in SITES:  # later jobs are held against it
        assert list((home.site(site) / "rules" / "asked").glob("*/0000-*"))
    assert len(left) >= 9
    for blocks in left:
        check(blocks)
    told = pd.read_csv(home.server / "describe" / "numbers.csv", keep_default_na=False)
    kept = pd.concat([d[d.sex.notna()] for d in data.values()])
    value = lambda **at: float(
        told[np.logical_and.reduce([told[k] == v for k, v in at.items()])].value.iloc[0]
    )
    assert value(cell="all", statistic="rows") == len(kept) == 3 * 119
    assert value(column="age", cell="f", statistic="mean") == pytest.approx(
        kept.age[kept.sex == "f"].mean()
    )
    middle = value(column="age", cell="all", statistic="q0.5")
    share = np.mean(kept.age <= middle)
    assert 0.5 - 6 * K / len(kept) < share < 0.5 + 6 * K / len(kept)
    summary = (home.server / "describe" / "summary.txt").read_text()
    changed = "3 sites changed some rows before counting them, so each count of such a site is 0,"
    assert changed in " ".join(summary.split())
    assert "left out the rows of a group with fewer than k rows" in " ".join(summary.split())
    assert "each site joins similar values" in summary
    trial = feddcd.describe(kept, PLAN.columns, by="sex", least=5, quantiles="rounded")
    assert trial.careful == (0, 0)
    assert "joined" not in trial.summary()


def test_exact_quantiles_have_to_be_named():
    out = Outgoing("values", "describe", ("age",), 100, 3, {}, {}, 3, {}, mode="sum")
    with pytest.raises(
        Refused,
        match=(
            r"answers of the kind 'values', because the policy does not list this kind "
            r"\(kinds in policy\.toml\)"
        ),
    ):
        Policy().check(out)
    Policy(kinds=("columns", "counts", "means", "parts", "values")).check(out)
    Policy(min_support=1).check(out)


def test_counts_that_sites_may_have_changed_carry_a_sign_in_all_files(tmp_path):
    """Three missing values became five, and the table called them exact."""
    d = patients(seed=1)
    d["town"] = d.ward.where(np.arange(len(d)) % 9 > 0, None)
    exact = feddcd.describe(d, ["ward", "town", "bmi"], least=5, quantiles="rounded")
    assert "≈ before a count" not in exact.summary()
    made = dataclasses.replace(exact, careful=(3, 1))
    rows = {(of, name): cell for of, lines in groups(made, made.table) for name, cell in lines}
    signed = {key for key, cell in rows.items() if cell.startswith("≈") and "median" not in key[1]}
    assert signed == {("town", "a"), ("town", "b"), ("town", "c"), ("town", "missing")} | {
        ("bmi", "missing")
    }, "a column without a missing value is exact, and so are the rows of a table without groups"
    list(made.write(tmp_path))
    note = (
        "≈ before a count means that sites may have changed this count. 1 site changed some rows "
        "before counting them, so each count of such a site is 0, or at least k. Here k is"
    )
    for name in ("summary.txt", "table1.md", "report.html"):
        told = " ".join((tmp_path / name).read_text("utf-8").split())
        assert note in told, name
        assert (
            "counted a level with fewer than k rows as missing. It may have counted some present "
            "values" in told
        )
        assert "left out the rows" not in told, "a table without groups has all rows"
    exact, near = (_quantile(Quantile(4.5, 4.5, 4.5), about, 3) for about in (False, True))
    assert (exact, near) == ("4.500", "≈ 4.5"), "no further digits where a number is not exact"
    for name in ("summary.txt", "table1.csv", "table1.md", "report.html"):
        assert "≈ 14" in (tmp_path / name).read_text("utf-8"), name
    by = dataclasses.replace(feddcd.describe(d, ["bmi"], by="sex", least=5), careful=(3, 1))
    _, ((_, *cells), *_) = groups(by, by.table)[0]
    assert all(cell.startswith("≈ ") for cell in cells), "rows of small groups are left out"
