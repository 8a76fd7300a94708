"""Table 1 beside R: summary(), table(), quantile() and sd() of five data sets, to the last digit
that R prints, from four sites that share the rows."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import feddcd
from feddcd.analysis._describe_text import groups
from feddcd.data.frames import read_frame

HERE = Path(__file__).parent
DATA = HERE.parent / "reference" / "data"
FACTS = pd.read_csv(HERE / "r" / "describe.csv", dtype=str, keep_default_na=False)
BY = {"airquality": "Month", "survey": "Sex", "Pima.tr2": "type", "pbc": "sex", "birthwt": "race"}
LEVELS = ("stage", "edema", "smoke", "ftv")


@pytest.mark.parametrize("name", BY)
def test_the_same_numbers_as_in_r(name):
    facts = FACTS[FACTS.set == name]
    frame = read_frame(DATA / f"{name}.csv.gz").frame
    frame = frame.assign(site=np.arange(len(frame)) % 4)
    columns = [c for c in facts.column.unique() if c]
    asked = [f"C({c})" if c in LEVELS else c for c in columns]
    result = feddcd.describe(frame, asked, by=BY[name], site="site")
    found = result.numbers().query("table == 'all'")
    key = ["column", "level", "cell", "statistic"]
    value = dict(zip(map(tuple, found[key].to_numpy()), found.value, strict=True))
    for fact in facts.itertuples():
        own = value.pop((fact.column, fact.level, fact.cell, fact.statistic))
        assert own == pytest.approx(float(fact.value), rel=1e-14), fact
        if fact.statistic in ("count", "rows", "missing") or "q" in fact.statistic:
            assert own == float(fact.value), fact
        assert as_printed(own, fact.printed) == fact.printed, fact
    # R's table() leaves rows without a group out, and levels that do not occur in one
    rest = {k: v for k, v in value.items() if k[2] != "(missing)" and k[3] != "present"}
    assert not any(rest.values())


@pytest.mark.parametrize("name", BY)
def test_the_printed_percentages_are_those_of_r(name):
    """table() and prop.table(), by group, as Table 1 shows them: a column of 0 and 1 is counted,
    be it a number or not."""
    facts = FACTS[(FACTS.set == name) & FACTS.statistic.isin(["count", "share"])]
    frame = read_frame(DATA / f"{name}.csv.gz").frame
    frame = frame.assign(site=np.arange(len(frame)) % 4)
    zero_one = [c for c in frame.columns if set(frame[c].dropna().unique()) == {0, 1}]
    columns = facts.column.unique()
    if not len(columns):
        return
    asked = [f"C({c})" if c in LEVELS and c not in zero_one else c for c in columns]
    result = feddcd.describe(frame, asked, by=BY[name], site="site")
    table = dict(groups(result, result.table))
    for (column, level, cell), told in facts.groupby(["column", "level", "cell"]):
        count, share = told.sort_values("statistic").printed
        row = next(row for row in table[column] if row[0] == level)
        at = row[1 + result.table.cells.index(cell)]
        assert at == f"{int(count):,} ({share})", (column, level, cell)


def test_columns_of_0_and_1_are_counted_with_gaps_by_group_and_site():
    """Against pandas, and not where a value is another one."""
    rng = np.random.default_rng(3)
    d = pd.DataFrame({"site": rng.choice(list("ab"), 300), "sex": rng.choice(["f", "m"], 300)})
    d["event"] = np.where(rng.random(300) < 0.1, np.nan, rng.integers(0, 2, 300))
    d["score"] = rng.integers(0, 3, 300)
    d["sign"] = rng.choice([-1, 1], 300)
    d["none"] = np.nan
    result = feddcd.describe(d, ["event", "score", "sign", "none"], by="sex", site="site")
    assert [each.name for each in result.table.numbers] == ["score", "sign", "none"]
    for section, by in ((result.table, "sex"), (result.sites, "site")):
        event = section.levels[0]
        counts = pd.crosstab(d.event, d[by], margins=True)
        for i, cell in enumerate(section.cells):
            own = counts["All" if cell == "all" else cell]
            assert event.counts[:, i].tolist() == [own[0.0], own[1.0]]
            assert event.missing[i] == d.event.isna()[(cell == "all") | (d[by] == cell)].sum()
    assert result.table.numbers[0].histogram is not None


def test_few_ones_are_not_shown():
    d = pd.DataFrame({"x": [1.0] * 3 + [0.0] * 60, "sex": ["f", "m", "m"] * 21})
    for by in (None, "sex"):
        table = feddcd.describe(d, ["x"], by=by, least=5).table
        assert np.isnan(table.levels[0].counts).all()
        assert np.isnan(table.levels[0].share).all()


def as_printed(value, printed):
    """With as many decimals as R shows."""
    if printed.endswith("%"):
        return f"{100 * value:.1f} %"
    return f"{value:.{len(printed.partition('.')[2])}f}"
