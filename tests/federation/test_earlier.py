"""What the answers of several jobs on the same rows tell together: who has them all adds, subtracts
and solves. A site remembers the questions that it answered, and holds a new one against them."""

import numpy as np
import pandas as pd
import pytest

from feddcd.analysis import _binning
from feddcd.analysis._finished import contributions
from feddcd.analysis._sums import NONE, DesignRows, PointQuestion, answer
from feddcd.analysis.plan import RegressionPlan
from feddcd.analysis.protocol import SiteRows
from feddcd.analysis.registry import ANALYSES, AskedJob, read_plan
from feddcd.federation import wire
from feddcd.federation.site import _tables
from feddcd.federation.site import answer as site
from feddcd.federation.site._earlier import groups_before
from feddcd.federation.site.memory import Memory
from site_world import asked
from test_descriptions import POLICY, RULED, describe, last_line

K = 5


def patients(n=300):
    """One has 4 children, and no other has more than 2. One of those with g = 2 has a = b = 0."""
    rng = np.random.default_rng(1)
    d = pd.DataFrame({"age": rng.integers(20, 90, n), "crp": rng.gamma(4, 3, n).round(2)})
    d["children"] = rng.choice([0.0, 1, 2], n)
    d.loc[3, "children"] = 4
    d["g"], d["a"], d["b"] = rng.integers(1, 3, n), rng.integers(0, 2, n), rng.integers(0, 2, n)
    rare = np.flatnonzero((d.g == 2) & (d.a == 0) & (d.b == 0))
    d.loc[rare[1:], "a"] = 1
    d["y"] = (rng.random(n) < 0.4).astype(int)
    part = rng.choice(["one", "two", "none"], n)
    for name in ("one", "two"):  # two wards, and who is in one of them: but for one patient
        d[name] = np.where(part == name, "yes", "no")
    d["either"] = np.where(part == "none", "no", "yes")
    d.loc[np.flatnonzero(part == "none")[0], "either"] = "yes"
    return d


@pytest.fixture
def place(tmp_path):
    (tmp_path / "policy.toml").write_text(POLICY)
    patients().to_csv(tmp_path / "data.csv", index=False)
    return site.SitePlace("north", tmp_path, tmp_path / "data.csv")


def table(place, formula, **plan):
    said = wire.unpack_message(site.answer(asked(place, formula, **plan), place))
    return wire.read_refusal(said).reason if said.kind == "refusal" else said.arrays


def weighted_and_not(place):
    """The crp of the only one with g = 2 and a = b = 0: the difference of two tables."""
    of = lambda xy: xy[0, 0] - xy[1, 0] - xy[2, 0] + xy[3, 0]
    one, other = (table(place, "crp ~ a * b", **more) for more in ({"weight": "g"}, {}))
    return other if isinstance(other, str) else of(one["moments.xy"]) - of(other["moments.xy"])


def joined_and_not(place):
    """Table 1 has the one with 4 children among those with 2: twice one is missing there."""
    one, other = describe(place, ["children"]), table(place, "crp ~ children + age")
    return other if isinstance(other, str) else other["moments.x"][1] - one["s1"][0, 0]


def not_and_joined(place):
    one, other = table(place, "crp ~ children + age"), describe(place, ["children"])
    return other if isinstance(other, str) else one["moments.x"][1] - other["s1"][0, 0]


def median_and_not(place):
    """Without sums Table 1 still tells how many have each number of children, the one with 4 among
    those with 2: what the sum of a table has more is of this one."""
    one, other = describe_parts(place, ["children"]), table(place, "crp ~ children + age")
    return other if isinstance(other, str) else other["moments.x"][1] - one


def not_and_median(place):
    one, other = table(place, "crp ~ children + age"), describe_parts(place, ["children"])
    return other if isinstance(other, str) else one["moments.x"][1] - other


def describe_parts(place, columns):
    """The sum that follows from counts in ranges: of each value, as it is told."""
    said = describe(place, columns, median=columns, open=False)
    if isinstance(said, str):
        return said
    rows = ANALYSES["describe"].guarded(own_rows(place, columns), K)
    return float(np.nansum(rows.data.placed))


def own_rows(place, columns):
    plan = read_plan({"analysis": "describe", "columns": columns, "median": columns})
    analysis, frame = ANALYSES["describe"], pd.read_csv(place.data)
    agreed, _ = analysis.agree({"north": analysis.offer(frame, plan).offer}, plan)
    return analysis.rows(frame, plan, agreed, "north")


def three_descriptions(place):
    """The age of the one who is in either of two wards, and in none of them."""
    each = [describe(place, ["age"], by) for by in ("one", "two", "either")]
    if isinstance(each[-1], str):
        return each[-1]
    one, two, either = (said["s1"][0, 1] for said in each)
    return either - one - two


d = patients()
RARE = (d.g == 2) & (d.a == 0) & (d.b == 0)
LONE = (d.either == "yes") & (d.one == "no") & (d.two == "no")
ATTACKS = {
    weighted_and_not: d.crp[RARE].sum(),
    joined_and_not: 2.0,
    not_and_joined: 2.0,
    median_and_not: 2.0,
    not_and_median: 2.0,
    three_descriptions: d.age[LONE].sum(),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_patient_that_several_jobs_tell_of(place, attack, monkeypatch):
    assert RARE.sum() == LONE.sum() == 1
    with monkeypatch.context() as patch:
        patch.setattr(_tables, "earlier_jobs", lambda *_: [])
        assert attack(place) == pytest.approx(ATTACKS[attack])  # so it was
    (place.folder / "rules").rename(place.folder / "forgotten")
    assert attack(place) == RULED
    assert last_line(place)["rule"] == "joint_cells"
    assert "of this job and earlier jobs" in str(last_line(place))


def test_a_job_that_was_refused_has_told_nothing(place):
    """Else nothing like it could be asked ever after."""
    assert not isinstance(table(place, "crp ~ a * b", weight="g"), str)
    assert table(place, "crp ~ a * b") == RULED
    assert not isinstance(table(place, "crp ~ age + a"), str)
    jobs = Memory(place.folder, place.data).jobs()
    told = [bool(Memory(place.folder, place.data).questions_of(id)) for id in jobs]
    assert told == [True, False, True]


EDGES = np.linspace(0, 1, 101)[1:-1]


def binomial(link, n=1000):
    rng = np.random.default_rng(0)
    age = rng.uniform(20, 90, n).round(2)
    Y = (rng.random(n) < 1 / (1 + np.exp(3 - 0.05 * age))).astype(float)[:, None]
    data = DesignRows(np.column_stack([np.ones(n), age]), Y, np.ones(n), np.zeros(n))
    return SiteRows(RegressionPlan("y ~ age", "binomial", link), data, n, k=K)


def at(*w):
    w = np.reshape(w, (-1, 1)).astype(float)
    return PointQuestion(w, 0 * w, NONE, np.zeros(1), EDGES, np.ones(()), False)


def test_bins_of_two_jobs_tell_no_few_rows_apart():
    """Two links, two lists of ages at which a bin ends: between two of them was one patient."""
    one, other = binomial("logit"), binomial("probit")
    first, second = at(-3, 0.05), at(-1.8, 0.03)
    groups = groups_before(other, second, K, [AskedJob(one, [first])])
    assert groups is not None
    said = answer(other.data, other.plan.loss(), second, K, K, (), groups).bins
    plain = answer(one.data, one.plan.loss(), first, K, K).bins
    np.testing.assert_array_equal(np.sort(said[0][said[0] > 0]), np.sort(plain[0][plain[0] > 0]))
    assert groups_before(one, first, K, [AskedJob(one, [first])]) is None  # the same again
    assert groups_before(other, second, K, []) is None
    assert groups_before(other, second, 0, [AskedJob(one, [first])]) is None
    far = other._replace(data=other.data._replace(X=other.data.X[::-1]))  # of other predictions
    assert groups_before(far, second, K, [AskedJob(one, [first])]) is None


def test_bins_of_a_careful_site_are_groups_of_many_rows():
    """Of 2,000 patients the bins of y ~ age had the rows of each age, and the other sums told that
    one alone was 95 and had the outcome."""
    own, question = binomial("logit"), at(-3, 0.05)
    said, plain = (answer(own.data, own.plan.loss(), question, k, k).bins for k in (K, 0))
    assert np.sum(plain[0] > 0) > 50
    assert _binning.GROUPS / 2 < np.sum(said[0] > 0) <= _binning.GROUPS
    assert said[0][said[0] > 0].min() >= 1000 / _binning.GROUPS
    np.testing.assert_allclose(said.sum(1), plain.sum(1), rtol=1e-12)  # nothing is lost
    low, high = np.append(0, EDGES) * said[0], np.append(EDGES, 1) * said[0]
    assert np.all((low - 1e-9 <= said[2]) & (said[2] <= high + 1e-9))


def test_the_first_guess_is_held_against_the_rule_on_few_rows():
    """Six patients have a and b; the guess leaves five of them no curvature, as their outcome is
    all but certain: the sum over the six is the one's."""
    rng = np.random.default_rng(0)
    a, b = np.repeat([1.0, 0.0], [40, 160]), np.repeat([0.0, 1, 0], [34, 40, 126])
    age = rng.normal(size=200)
    age[34:39], age[39] = 9.0, 0.1
    X = np.column_stack([np.ones(200), a, b, age])
    Y = (rng.random(200) < 1 / (1 + np.exp(-2 * age))).astype(float)[:, None]
    plan = RegressionPlan("y ~ a + b + age", "binomial")
    rows = SiteRows(plan, DesignRows(X, Y, np.ones(200), np.zeros(200)), 200)
    pilot = PointQuestion(np.zeros((4, 1)), np.zeros((4, 1)), NONE, *3 * [np.zeros(1)], True)
    both = (a * b)[:, None] > 0
    for what, parts in contributions(rows, pilot):
        if what == (
            "an entry of the matrix for the first guess of the coefficients, from the product of "
            "two categories"
        ):
            alone = [x.max() / x.sum() for x in parts.T if np.all((x > 0) <= both[:, 0])]
            assert not alone or max(alone) > 0.8
            if alone:
                return
    raise AssertionError("no such sum was looked at")
