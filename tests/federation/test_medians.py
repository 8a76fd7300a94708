"""A skewed column in a description: a careful site refuses its sums, and answers its quantiles."""

import dataclasses
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import feddcd
from feddcd._errors import DataError, Refused, SpecError
from feddcd.analysis._describe import Describe
from feddcd.analysis._describe_few import _drawn_in, _joined
from feddcd.analysis._describe_plan import DescribePlan
from feddcd.analysis.protocol import ColumnsOffer, arrays
from feddcd.federation.coordinator._ending import broken_off
from feddcd.federation.coordinator._offers import check_spellings, lone_levels
from feddcd.federation.site._words import describe_job
from feddcd.federation.site.policy import Policy, Ruled
from feddcd.federation.site.rules import check_answer, check_columns
from feddcd.federation.site.told import REFUSED
from test_describe_few import PLAN, K, attack, patients

MEDIAN = dataclasses.replace(PLAN, median=["crp"])


def skewed(far=4000.0):
    d = patients()
    d["crp"] = np.random.default_rng(1).lognormal(1, 1.0, len(d)).round(1)
    d.loc[3, "crp"] = far
    return d


def rows_of(d, plan):
    analysis = Describe()
    cohort, _ = analysis.agree({"a": analysis.offer(d, plan).offer}, plan)
    return analysis, analysis.rows(d, plan, cohort, "a")


def test_a_level_that_one_site_alone_has_is_named_where_all_refuse_its_column():
    """Each hospital has its own words: the reason was printed four times, and the cause never."""
    offer = lambda *levels: ColumnsOffer({"sex": list(levels)}, [], None, ["sex"])
    offers = {"East": offer("F", "M"), "North": offer("f", "m"), "West": offer("f", "m")}
    lone = lone_levels({**offers, "North": offer("male", "f")})
    assert lone == (
        "The levels 'F' and 'M' of the column 'sex' exist only at the site 'East'. The level "
        "'male' of the column 'sex' exists only at the site 'North'. The level 'm' of the column "
        "'sex' exists only at the site 'West'."
    )
    lone = lone_levels({"East": offer("F", "x"), "West": offer("x")})
    assert lone == "The level 'F' of the column 'sex' exists only at the site 'East'."
    rule = "its policy does not allow the column 'C(sex)[T.M]', because its values differ at only 1"
    told = broken_off([], {site: f"{site}: {rule}" for site in offers}, lone=lone).lines
    assert told[2] == lone
    same = "if other sites have other words for the same level, ask all sites to use the"
    assert told[3].startswith(f"Next: {same}")
    assert not any("for the reason" in line for line in told)


def test_sites_with_two_spellings_are_told_to_use_one():
    """The message said that a codebook would help, and one with both levels was refused as well."""
    offer = lambda *levels: ColumnsOffer({"sex": list(levels)}, [], None, ["sex"])
    with pytest.raises(DataError, match=r"'M' at .* Write the level in one way at all sites$"):
        check_spellings({"a": offer("f", "m"), "b": offer("f", "M")})


def test_a_refusal_names_the_column_and_the_way_out():
    analysis, rows = rows_of(skewed(), PLAN)
    with pytest.raises(Ruled) as refusal:
        check_columns(analysis.columns_of(rows), {}, rows.n, Policy(), "sum", PLAN)
    assert "in the column 'crp', a few rows (fewer than 5) are far from" in refusal.value.story
    assert "feddcd describe ... --median crp" in refusal.value.story
    assert refusal.value.story.endswith("change max_share in policy.toml")
    own = SimpleNamespace(
        contributions=lambda *_: [("the sum and the sum of squares of crp", np.eye(20)[:, :1])],
        definite=lambda question: True,
    )
    with pytest.raises(Ruled) as later:  # the column is known here
        check_answer(Policy(), rows, own, None)  # pyright: ignore
    line = '--median crp. In a job file, the line under [describe] is: median = ["crp"]'
    assert line in later.value.story
    assert "(max_share = 0.5)" in later.value.story
    analysis, rows = rows_of(skewed(200.0), PLAN)
    with pytest.raises(Ruled) as refusal:  # one row is not half of the sum, but far
        check_columns(analysis.columns_of(rows), {}, rows.n, Policy(max_share=0.9), "sum", PLAN)
    assert refusal.value.rule == "combinations"
    assert "In the column 'crp', this row is far from the others" in refusal.value.story
    assert "--median crp" in refusal.value.story
    analysis, rows = rows_of(skewed(), MEDIAN)
    assert list(analysis.columns_of(rows)) == ["age", "bmi"]
    check_columns(analysis.columns_of(rows), {}, rows.n, Policy(), "sum", MEDIAN)
    for asked, _ in attack(skewed(), MEDIAN):
        check_answer(Policy(), analysis.guarded(rows, K), analysis, asked)


def test_a_value_far_from_all_others_is_in_no_number():
    one, other = attack(skewed(4000.0), MEDIAN), attack(skewed(9e6), MEDIAN)
    assert len(one) == len(other)
    for (asked, blocks), (again, its) in zip(one, other, strict=True):
        assert Describe().matches(asked, again) == ""
        for name, block in blocks.items():
            np.testing.assert_array_equal(block.value, its[name].value)
    present = np.reshape(one[0][1]["present"].value, (3, 3))
    assert present[1].sum() > 100  # so the column is there


@pytest.mark.parametrize(("share", "least"), [(0.5, 8), (0.6, 7)])
def test_of_two_values_the_rare_one_is_named_and_its_rows_are_not_far(share, least):
    """It was said of an outcome that its rows are far from all others."""
    column = np.repeat([0.0, 1.0], [100, least - 1])
    columns = {"(outcome)": column}
    with pytest.raises(Ruled) as refusal:
        check_columns(columns, {}, len(column), Policy(max_share=share), "sum", None)
    told = f"column '(outcome)', fewer than {least} rows have the value 1 (max_share = {share}"
    assert f"in the {told}" in refusal.value.story
    column = np.repeat([0.0, 1.0], [100, least])
    check_columns({"(outcome)": column}, {}, len(column), Policy(max_share=share), "sum", None)


def test_the_mean_of_neighbours_does_not_tell_one_of_them():
    """Six rows are far from all others: the ends get the mean of the next k rows, in which there is
    one of the six. Five times this mean, less four times that of the rows before, was its value."""
    x = np.sort(np.random.default_rng(1).lognormal(1, 1, 115).round(1))
    told = []
    for far in (4000.0, 8000.0):
        own = np.append(x, [far, 9000, 9100, 9200, 9300, 9400, *[9500.0] * 4])[:-4]
        near = np.sort(_joined(own, K, 1, inward=True))
        told.append(near)
        assert near.max() < 2 * x.max()
    np.testing.assert_array_equal(*told)
    plain = own[-10:-5]  # the block of this row, as it was told before
    assert 5 * plain.mean() - 4 * own[-14:-10].mean() == pytest.approx(far, rel=0.01)


def test_a_large_block_at_an_end_keeps_its_value():
    """Of 0, 1, 2 and one 4 those with 2 were told as 1: a third of the rows."""
    x = np.repeat([0.0, 1, 2, 4, 7], [9, 30, 40, 2, 1])
    assert _joined(x, K, 0, inward=True).tolist() == np.repeat([0.0, 1, 2], [9, 30, 43]).tolist()
    x = np.repeat([0.0, 1, 2, 3, 4, 7], [9, 30, 40, 3, 2, 1])  # no k rows have 3
    assert np.unique(_joined(x, K, 0, inward=True)).tolist() == [0, 1, 2]


def test_values_are_drawn_in_at_both_ends_and_means_of_two_stay():
    ordered = np.array([1.0, 50, 51, 52, 53, 60, 61, 62, 63, 90])
    drawn = _drawn_in(ordered, np.array([0, 5]), np.array([4, 9]))
    assert drawn.tolist() == [50, 50, 51, 52, 53, 60, 61, 62, 63, 63]
    even = np.array([1.0, 2, 3, 4, 5])
    assert _drawn_in(even, np.array([0]), np.array([4])).tolist() == even.tolist()
    assert _joined(np.array([1.0, 9]), 2, 1).tolist() == [5, 5]


def test_no_sum_of_such_a_column_is_answered():
    analysis, rows = rows_of(skewed(), MEDIAN)
    asked = attack(skewed(), MEDIAN)[2][0]
    assert asked.open[[0, 2]].all()
    assert not asked.open[1].any()
    assert asked.breaks[1] == 0
    for name in ("open", "breaks"):
        more = np.array(getattr(asked, name))
        more[1] = 1
        with pytest.raises(Refused, match="the coordinator's question contradicts the plan"):
            analysis.question(arrays(asked._replace(**{name: more})), rows)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (
            {"median": ["bmi"]},
            "the setting 'median' names 'bmi', which is not in the list of columns",
        ),
        ({"median": ["grade"]}, "the setting 'median' names 'grade', which is counted by level"),
        ({"median": "crp"}, "median must be a list of columns"),
        ({"median": ["crp"], "quantiles": "none"}, "asks for no quantiles"),
    ],
)
def test_a_median_that_cannot_be_had(given, reason):
    with pytest.raises(SpecError, match=reason):
        DescribePlan.from_dict({"columns": ["crp", "C(grade)"], **given})


def test_a_table_without_this_mean():
    d = skewed().assign(site=["a", "b", "c"] * 40)
    result = feddcd.describe(d, ["age", "crp"], site="site", median=["crp"])
    told = result.numbers().query("table == 'all' and column == 'crp'")
    assert told.statistic.tolist() == ["present", "missing", "q0.25", "q0.5", "q0.75"]
    assert told.value.tolist()[3] == d.crp.median()
    lines = result.summary().splitlines()
    at = lines.index(" crp")
    assert lines[at + 1].startswith("   median [quartiles]")
    assert sum("mean (SD)" in line for line in lines) == 2  # of age: in all rows, and by site
    again = DescribePlan.from_dict(result.plan.to_dict())
    assert again.median == ["crp"]
    assert "median" not in PLAN.to_dict()  # older plans stay the same


def test_the_coordinator_reads_of_the_way_out_whatever_the_reason_is():
    """It does not hear the column: that would tell of rows."""
    refused = {"north": f"north: {REFUSED}"}
    told = str(broken_off(["east"], refused, plan=PLAN))
    assert 'write median = ["COLUMN"] under [describe] in the job file' in told
    assert "--median COLUMN" in told
    assert "--median" not in str(broken_off(["east"], refused))


def test_the_person_who_decides_reads_true_numbers():
    plan = dataclasses.replace(PLAN, complete=["bmi"])
    analysis, rows = rows_of(patients(), plan)
    assert (rows.n, rows.dropped) == (106, 14)  # 14 rows have no bmi
    told = describe_job(rows, analysis.columns_of(rows), "sum", plan.max_exchanges, ["a", "b"])
    assert "  rows: 106; 14 more rows are left out, because a value is missing" in told
    assert "  exchanges: at most 9" in told
    assert dataclasses.replace(PLAN, quantiles="none").max_exchanges == 3
    _, whole = rows_of(patients(), PLAN)
    told = describe_job(whole, {}, "sum", 9, ["a", "b"])
    assert "  rows: 120; no row is left out because of a missing value" in told


@pytest.mark.parametrize("scale", [1.0, 1e-300, 1e100])
def test_no_description_takes_more_exchanges(scale):
    x = np.random.default_rng(0).normal(size=60) * scale
    plan = DescribePlan(["x"], quantiles="exact")
    result = feddcd.describe(pd.DataFrame({"x": x}), ["x"])
    assert result.n_exchanges <= plan.max_exchanges


def test_a_table_says_how_many_rows_lack_a_value():
    result = feddcd.describe(patients(), ["age"])
    told = dataclasses.replace(result, plan=dataclasses.replace(result.plan, complete=["bmi"]))
    told = told.with_sites({"a": 14}, {})
    assert "The table leaves out 14 rows without a value in bmi." in told.summary()
    assert "leaves out" not in result.with_sites({"a": 0}, {}).summary()
