"""One formula, one meaning: the plan in one process, sites of a federation and predict agree."""

import json
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_design import FORMS

from feddcd import FederatedGLM
from feddcd._errors import FeddcdError
from feddcd.analysis._regression import RegressionTable
from feddcd.analysis.plan import RegressionPlan
from feddcd.analysis.protocol import Again, Agreement, ColumnsOffer, converse, in_process
from feddcd.analysis.registry import read_plan
from slices import sliced, thinned

TABLE = RegressionTable()
WITHOUT_VALUES = {  # what a site says instead
    "the outcome 'h' has 4 different values, 'h1', 'h2', 'h3', 'h4', but family='binomial' needs "
    "two":
        "the site's outcome 'h' has more than two values, but family binomial needs exactly two",
}  # fmt: skip


def plain(value):
    """As it travels."""
    return json.loads(json.dumps(value))


def federated(frame, plan):
    """The same table from sites that know their own rows alone."""
    plan = read_plan(plain(plan.to_dict() | {"analysis": "regression"}))
    parts = {site: rows.drop(columns="site") for site, rows in frame.groupby("site")}
    offers = {
        s: ColumnsOffer(**plain(TABLE.offer(d, plan).offer._asdict())) for s, d in parts.items()
    }
    cohort, refused = TABLE.agree(offers, plan)
    assert not refused
    while True:
        agreed = Agreement(**plain(cohort.to_dict()))
        own = {site: TABLE.rows(d, plan, agreed, site) for site, d in parts.items()}
        try:
            return converse(TABLE.talk(plan, cohort), in_process(TABLE, own))
        except Again as again:
            cohort = again.cohort


def said(make):
    """What comes out, or the words of the refusal."""
    try:
        return make(), None
    except FeddcdError as error:
        return None, str(error)


def ragged(n=160, seed=3):
    """Sites differ in size and in the levels that they have; some values are missing."""
    rng = np.random.default_rng(seed)
    d = pd.DataFrame(
        {
            "y": rng.normal(size=n), "x": rng.normal(size=n), "z": rng.normal(size=n),
            "t": rng.uniform(0.2, 5, n), "n": rng.integers(1, 4, n),
            "f": rng.choice(["a", "b", "c"], n), "g": rng.choice(["u", "v"], n),
            "h": rng.choice(["h1", "h2", "h3", "h4"], n),
            "b": rng.random(n) < 0.4, "bp.1d": rng.integers(90, 160, n),
            "my var": rng.normal(size=n), "site": rng.choice(["one", "two", "three"], n),
            "b2": rng.random(n) < 0.5,
        }
    )  # fmt: skip
    d = d[~((d.site == "one") & (d.f == "a")) & ~((d.site == "two") & (d.h != "h3"))]
    d = d[~((d.site == "three") & (d.n == 2)) & ~((d.site == "one") & d.b)]
    d = d.astype({"bp.1d": float})
    d.loc[d.index % 17 == 3, "bp.1d"] = np.nan
    d.loc[d.index % 19 == 4, "f"] = None
    return d.reset_index(drop=True)


def agree_everywhere(right, frame, left="y", family="gaussian", tol=1e-9, **more):
    formula, more = f"{left} ~ {right}", more | {"tol": tol}
    fit = lambda: FederatedGLM(family, formula, **more).fit(frame, groups="site").result_
    one, why = said(fit)
    other, why_other = said(lambda: federated(frame, RegressionPlan(formula, family, **more)))
    assert why_other == WITHOUT_VALUES.get(why, why)
    if one is None:
        return why
    assert list(one.table.index) == list(other.table.index)
    away = (other.table["coef"] - one.table["coef"]) / one.table["std_err"]
    assert np.abs(away).max() < 1e-8
    np.testing.assert_allclose(other.table["std_err"], one.table["std_err"], rtol=1e-8)
    assert (one.n_rows, one.outcome) == (other.n_rows, other.outcome)
    assert one.left_out == other.left_out
    new = frame.dropna().drop(columns=["y", "site"])[::-1]
    np.testing.assert_allclose(other.predict(new), one.predict(new), rtol=1e-8, atol=1e-8)
    return one


@cache
def of_form(form):
    return agree_everywhere(form.removesuffix(" - y"), ragged())  # which R needs


USUAL = [*list(FORMS)[::6], *(form for form in FORMS if form.startswith(("log(", "ns(")))]


@pytest.mark.parametrize("form", sliced(FORMS, USUAL))
def test_plan_sites_and_predict_agree(form):
    of_form(form)


@pytest.mark.parametrize("forms", [USUAL, pytest.param(FORMS, marks=pytest.mark.chaos)])
def test_most_forms_are_fitted(forms):
    """The others make columns that depend on each other, and not of cells: that is a mistake."""
    refused = {form for form in forms if isinstance(of_form(form), str)}
    assert {form.split("(")[0] for form in refused} == {"log", "ns"}


def cells(*empty):
    """Three by two cells, some of them without rows."""
    rng = np.random.default_rng(1)
    d = pd.DataFrame({"f": rng.choice(list("abc"), 150), "g": rng.choice(["u", "v"], 150)})
    d = d.assign(x=rng.normal(size=150), y=rng.normal(size=150), site=np.arange(150) % 3)
    return d[~(d.f + d.g).isin(empty)].reset_index(drop=True)


@pytest.mark.parametrize(
    ("right", "empty", "left_out"),  # what R's coef shows as NA
    thinned([
        ("f:g", (), ["f[c]:g[v]"]),
        ("f * g", ("cv",), ["f[T.c]:g[T.v]"]),
        ("f * g", ("bv",), ["f[T.b]:g[T.v]"]),
        ("f * g", ("av",), ["f[T.c]:g[T.v]"]),
        ("f * g", ("bv", "cu"), ["f[T.b]:g[T.v]", "f[T.c]:g[T.v]"]),
        ("x * f * g", ("cv",), ["f[T.c]:g[T.v]", "x:f[T.c]:g[T.v]"]),
        ("g + C(f, levels=c('a', 'b', 'z', 'c'))", (),
         ["C(f, levels=c('a', 'b', 'z', 'c'))[T.z]"]),
        ("cut(x, c(-9, 0, 8, 9))", (), ["cut(x, c(-9, 0, 8, 9))[T.(8,9]]"]),
    ], 2),
)  # fmt: skip
def test_cells_without_rows_are_left_out_and_named(right, empty, left_out):
    found = agree_everywhere(right, cells(*empty))
    assert list(found.left_out) == left_out
    assert not set(left_out) & set(found.table.index)
    assert left_out[0] in found.summary()


NUMBERS = ("x", "z", "bp.1d", "`my var`", "log(t)", "I(x^2)", "poly(t, 2, raw=TRUE)",
           "ns(t, knots=2, Boundary.knots=c(0, 6))", "I((x > 0) * z)",
           "I((b != b2) * z)")  # fmt: skip
FACTORS = ("f", "g", "h", "b", "C(n)", "C(f, ref='b')", "C(h, Sum)", "cut(t, c(0, 2, Inf))",
           "I(f == 'b')", "I(x > 0)", "I(b)")  # fmt: skip
ATOMS = st.sampled_from([*NUMBERS, *FACTORS])


def joined(marks, inner):
    pair = st.tuples(inner, st.sampled_from(marks), inner)
    return pair.map(lambda p: f"{p[0]} {p[1]} {p[2]}")


def rights():
    products = st.one_of(ATOMS, joined([":", "*", "/"], ATOMS))
    sums = st.one_of(products, joined(["+"], products))
    bracket = joined(["+"], ATOMS).map(lambda s: f"({s})^2")
    whole = st.one_of(sums, bracket, joined(["+"], st.one_of(sums, bracket)))
    return st.tuples(st.sampled_from(["", "0 + ", "offset(z / 3) + "]), whole).map("".join)


RANDOM = {"right": rights(), "seed": st.integers(0, 50), "n": st.integers(60, 200)}


@settings(max_examples=6, derandomize=True)
@given(**RANDOM)
def test_random_formulas_over_random_sites(right, seed, n):
    agree_everywhere(right, ragged(n, seed), tol=0.01)


@pytest.mark.chaos
@settings(max_examples=400, derandomize=True)
@given(**RANDOM)
def test_many_random_formulas_over_random_sites(right, seed, n):
    agree_everywhere(right, ragged(n, seed), tol=0.01)


def test_a_level_of_incomplete_rows_alone_is_no_level():
    frame = ragged()
    frame.loc[frame.index[:3], ["f", "x"]] = ["only here", np.nan]
    found = agree_everywhere("x + f", frame)
    assert list(found.table.index) == ["Intercept", "x", "f[T.b]", "f[T.c]"]


def test_the_declared_order_of_words_says_which_is_the_event():
    frame = ragged().assign(word=lambda d: np.where(d.y > 0.3, "dead", "alive"))
    plan = RegressionPlan("word ~ x", levels={"word": ["dead", "alive"]})
    assert federated(frame, plan).outcome == ("dead", "alive")
    other = FederatedGLM("binomial", "word ~ x", event="alive").fit(frame, groups="site")
    np.testing.assert_allclose(federated(frame, plan).table, other.table_, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize(
    ("left", "right", "more"),
    thinned(
        [
            ("log(w)", "x", {}),
            ("I(w^2)", "x + f", {}),
            ("w > 1", "x", {"family": "binomial"}),
            ("cbind(died, left)", "x + g", {"family": "binomial"}),
            ("cbind(died, left)", "1", {"family": "binomial"}),
            ("cbind(died, left)", "x", {"family": "quasibinomial"}),
            ("word", "x", {"family": "binomial"}),
            ("word", "x", {"family": "binomial", "event": "alive"}),
            ("factor(word)", "f", {"family": "binomial"}),
            ("word == 'dead'", "x", {"family": "binomial"}),
            ("b", "x", {"family": "binomial"}),
            ("b", "x", {"family": "binomial", "event": "false"}),
            ("two", "x", {"family": "binomial", "event": "1"}),
            ("died", "x + offset(log(t))", {"family": "poisson"}),
            ("died", "x + offset(f)", {"family": "poisson"}),
            ("h", "x", {"family": "multinomial"}),
            ("h", "x", {"family": "binomial"}),
        ],
        2,
    ),
)
def test_responses_of_all_kinds(left, right, more):
    family = more.get("family")
    frame, rng = ragged(), np.random.default_rng(0)
    n = len(frame)
    frame = frame.assign(
        w=rng.uniform(0.5, 2, n), died=rng.integers(0, 5, n), left=rng.integers(0, 5, n),
        word=rng.choice(["alive", "dead"], n), two=rng.choice([1, 2], n),
    )  # fmt: skip
    found = agree_everywhere(right, frame, left, **more)
    assert isinstance(found, str) == (
        right == "x + offset(f)" or (left, family) == ("h", "binomial")
    ), found
