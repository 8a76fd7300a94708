"""Tables from sums over all sites alone: those of site by site, their certificate, the replay."""

import numpy as np
import pandas as pd
import pytest

from feddcd import FederatedGLM
from feddcd._errors import DataError, SpecError
from feddcd.analysis._regression import RegressionTable
from feddcd.analysis._sums import KINDS
from feddcd.analysis.adding import add_up, layout_of, template
from feddcd.analysis.plan import RegressionPlan
from feddcd.analysis.replay import Replay
from feddcd.sums import ring
from r_data import insurance, mtcars
from slices import sliced, thinned

REGRESSION = RegressionTable()


def patients(n=300, seed=0):
    rng = np.random.default_rng(seed)
    d = pd.DataFrame({
        "x": rng.normal(size=n), "z": 1e5 + 1e4 * rng.normal(size=n), "site": np.arange(n) % 4,
        "g": rng.choice(list("abc"), n), "h": rng.choice(list("uv"), n),
        "c": rng.choice(["p", "q", "r"], n), "k": rng.negative_binomial(2, 0.3, n),
    })  # fmt: skip
    return d.assign(y=(rng.random(n) < 1 / (1 + np.exp(-d.x))).astype(float))


def empty_cell():
    d = patients()
    return d[~((d.g == "c") & (d.h == "v"))]


TABLES = {
    "gaussian": (mtcars, "gaussian", "mpg ~ hp + wt", {}),
    **{kind: (mtcars, "gaussian", "mpg ~ hp + wt", {"covariance": kind})
       for kind in ("HC0", "HC1", "HC2", "HC3", "cluster")},
    "poisson": (insurance, "poisson", "Claims ~ Group + Age + offset(log(Holders))", {}),
    "gamma": (mtcars, "gamma", "mpg ~ hp + wt", {}),  # at the pilot no row has a mean
    "binomial": (patients, "binomial", "y ~ x + z + g", {}),
    "basis": (patients, "binomial", "y ~ x + z + I(z**2)", {}),
    "penalty": (patients, "binomial", "y ~ x + z + g", {"l2": 0.1, "standardize": True}),
    "firth": (patients, "binomial", "y ~ x + g", {"firth": True}),
    "probit": (patients, "binomial", "y ~ x + g", {"link": "probit"}),
    "multinomial": (patients, "multinomial", "c ~ x + z", {}),
    "ordinal": (patients, "ordinal", "c ~ x + z", {"classes": ["p", "q", "r"]}),
    "theta": (patients, "negative_binomial", "k ~ x", {}),
    "again": (empty_cell, "binomial", "y ~ x + g * h", {}),
}  # fmt: skip
USUAL = {"gaussian", "HC3", "cluster", "basis", "firth", "multinomial", "ordinal", "again"}


@pytest.mark.parametrize("name", thinned(sliced(TABLES, USUAL), 2))
def test_sums_alone_make_the_table_of_site_by_site(name):
    made, family, formula, options = TABLES[name]
    d = made()
    each, sums = (
        FederatedGLM(family, formula, answers=answers, **options).fit(d, groups="site")
        for answers in ("each", "sum")
    )
    assert sums.n_exchanges_ == each.n_exchanges_
    se = each.table_["std_err"]
    np.testing.assert_array_less(abs(each.table_["coef"] - sums.table_["coef"]) / se, 1e-8)
    np.testing.assert_allclose(sums.table_["std_err"], se, rtol=1e-8)
    for number in ("deviance_", "null_deviance_", "aic_", "pearson_"):
        np.testing.assert_allclose(getattr(sums, number), getattr(each, number), rtol=1e-9)
    assert sums.left_out_ == each.left_out_
    assert (sums.answers_, each.answers_) == ("sum", "each")
    assert sums.n_sites_ == each.n_sites_ == 4
    assert sums.n_uploads_ == each.n_uploads_


def test_nothing_is_said_of_a_site():
    model = FederatedGLM("binomial", "y ~ x", answers="sum").fit(patients(), groups="site")
    assert model.site_table_ is None
    counts = model.site_counts_
    assert (counts[["rows", "events", "missing"]] == -1).all(axis=None)
    assert set(counts["estimate"]) == {"not told"}
    assert list(counts.index) == ["0", "1", "2", "3"]


def test_what_needs_single_sites_is_refused_by_name():
    model = FederatedGLM("binomial", "y ~ x", site_effects="fixed", answers="sum")
    with pytest.raises(SpecError, match="site_effects='fixed' needs the sums of each single site"):
        model.fit(patients(), groups="site")
    with pytest.raises(SpecError, match="answers='sum' needs the answer of every site"):
        FederatedGLM("binomial", "y ~ x", answers="sum", absent=0.2).fit(patients(), groups="site")
    with pytest.raises(SpecError, match="'answers' must be 'sum' or 'each'; got 'all'"):
        FederatedGLM("binomial", "y ~ x", answers="all").fit(patients(), groups="site")


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_columns_over_eight_decades(family):
    rng = np.random.default_rng(3)
    n, scale = 600, np.logspace(-4, 4, 9)
    X = rng.normal(size=(n, 9)) * scale
    z = 0.3 * (X / scale) @ rng.normal(size=9)
    draw = {"gaussian": z + rng.normal(size=n), "poisson": rng.poisson(np.exp(z)),
            "binomial": rng.random(n) < 1 / (1 + np.exp(-z))}  # fmt: skip
    y, site = draw[family].astype(float), np.arange(n) % 5
    each = FederatedGLM(family).fit(X, y, groups=site)
    sums = FederatedGLM(family, answers="sum").fit(X, y, groups=site)
    off = abs(each.table_["coef"] - sums.table_["coef"]) / each.table_["std_err"]
    assert off.max() < 1e-6
    assert sums.n_exchanges_ == each.n_exchanges_
    assert sums.certified_error_ < 1e-6


def true_optimum(family, X, y):
    """Newton's method in long double, from the certified point on."""
    A = np.column_stack([np.ones(len(X)), X]).astype(np.longdouble)
    D = np.sqrt((A**2).mean(0))
    A, w = A / D, np.zeros(A.shape[1], np.longdouble)
    for _ in range(60):
        z = A @ w
        mean = {"gaussian": z, "poisson": np.exp(np.minimum(z, 50)),
                "binomial": 1 / (1 + np.exp(-z))}[family]  # fmt: skip
        weight = {"gaussian": 1 + 0 * z, "poisson": mean, "binomial": mean * (1 - mean)}[family]
        H = (A.T * weight) @ A
        step = np.linalg.solve(H.astype(float), (A.T @ (y - mean)).astype(float))
        size = float(np.sqrt(step @ H.astype(float) @ step))
        w = w + step * min(1.0, 2 / max(size, 1e-300)) if size > 2 else w + step
        if size < 1e-13:
            break
    return (w / D).astype(float)


def certified(seed):
    """(certified error, true error) of a random problem, over sums."""
    rng = np.random.default_rng(seed)
    family = ("gaussian", "binomial", "poisson")[seed % 3]
    n, d, sites = int(rng.integers(60, 200)), int(rng.integers(1, 5)), int(rng.integers(2, 9))
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-4, 4, d)
    z = (X / X.std(0)) @ rng.normal(size=d) * 0.5
    draw = {"gaussian": z + rng.normal(size=n), "poisson": rng.poisson(np.exp(np.clip(z, -5, 3))),
            "binomial": rng.random(n) < 1 / (1 + np.exp(-z))}  # fmt: skip
    y, tol = draw[family].astype(float), 10.0 ** rng.uniform(-8, 0)
    model = FederatedGLM(family, tol=tol, answers="sum").fit(X, y, groups=np.arange(n) % sites)
    best = true_optimum(family, X, y)
    off = abs(model.table_["coef"].to_numpy() - best) / model.table_["std_err"].to_numpy()
    return model.certified_error_, float(off.max())


@pytest.mark.parametrize(
    "seeds",
    [range(15), pytest.param(range(1000), marks=pytest.mark.chaos)],
    ids=["few", "thousand"],
)
def test_the_certified_error_is_never_below_the_true_one(seeds):
    for seed in seeds:
        bound, true = certified(seed)
        assert true <= bound + 1e-12, seed


def test_the_rounding_of_sums_is_in_the_certificate(monkeypatch):
    fit = lambda: FederatedGLM("gaussian", "mpg ~ hp + wt", tol=1e-3, answers="sum").fit(
        mtcars(), groups="site"
    )
    before = fit().certified_error_
    monkeypatch.setattr(ring, "rounding", lambda sites: sites * 1e-6)
    assert fit().certified_error_ > before + 1e-8


def prepared(name):
    """Plan, agreement, and what the sites answer."""
    made, family, formula, options = TABLES[name]
    plan = RegressionPlan(formula, family, **options)
    rows = {str(site): part.drop(columns="site") for site, part in made().groupby("site")}
    offers = {site: REGRESSION.offer(part, plan).offer for site, part in rows.items()}
    cohort, refused = REGRESSION.agree(offers, plan)
    assert not refused
    own = lambda at: [REGRESSION.rows(part, plan, at, site) for site, part in rows.items()]
    return plan, cohort, lambda at, asked: [REGRESSION.answer(each, asked) for each in own(at)]


@pytest.mark.parametrize("name", thinned(sliced(TABLES, USUAL), 2))
def test_everybody_knows_the_next_question_and_the_shape_of_its_answer(name):
    """From the plan, the agreement as it travels, and the sums: no row is needed."""
    plan, cohort, ask = prepared(name)
    told = REGRESSION.agreement(cohort.to_dict(), plan)
    assert told.cells == cohort.cells
    one, other = Replay(REGRESSION, plan, cohort), Replay(REGRESSION, plan, told)
    while one.result is None:
        assert REGRESSION.matches(one.expected, other.expected) == ""
        said = ask(one.agreement, one.expected)
        like = template(REGRESSION, plan, one.agreement, one.expected)
        assert all(layout_of(blocks) == layout_of(like) for blocks in said)
        assert list(like) == [name for name in KINDS if name in like]
        sums = add_up(said)
        assert not sums["own"].value.size
        one.step(sums)
        other.step(sums)
    assert one.exchanges == other.exchanges
    assert (len(one.agreement.left_out) > 0) == (name == "again")
    pd.testing.assert_frame_equal(one.result.table, other.result.table)


def test_a_question_that_the_sums_do_not_imply_is_told():
    plan, cohort, ask = prepared("poisson")
    replay = Replay(REGRESSION, plan, cohort)
    replay.step(add_up(ask(cohort, replay.expected)))
    own = replay.expected
    se = np.sqrt(own.V[0])
    near, far = own.w.copy(), own.w.copy()
    near[0] += 0.9e-6 * se
    far[0] += 1.1e-6 * se
    assert REGRESSION.matches(own, own._replace(w=near)) == ""
    assert REGRESSION.matches(own, own._replace(w=far)) == (
        "the part 'w' of the question disagrees with the sums"
    )
    for name, value in own._asdict().items():
        array = np.asarray(value)
        if array.dtype == bool:
            assert REGRESSION.matches(own, own._replace(**{name: ~array}))
        elif array.size:
            assert REGRESSION.matches(own, own._replace(**{name: array * 1.001 + 1e-3})), name
            assert REGRESSION.matches(own, own._replace(**{name: array * np.nan})), name
            assert REGRESSION.matches(own, own._replace(**{name: array[..., None]})), name
        else:
            assert REGRESSION.matches(own, own._replace(**{name: np.ones(3)})), name


@pytest.mark.parametrize("field", ["levels", "names", "sites", "columns", "left_out", "numbers"])
def test_an_agreement_is_not_believed(field):
    plan, cohort, _ = prepared("binomial")
    told = cohort.to_dict()
    for odd in (None, 3, "x", [3], [["x"]], {"x": 3}, ["x"] * 2):
        with pytest.raises((DataError, SpecError)):
            REGRESSION.agreement(told | {field: odd}, plan)
    with pytest.raises(DataError):
        REGRESSION.agreement({k: v for k, v in told.items() if k != field}, plan)
    with pytest.raises(DataError):
        REGRESSION.agreement(told | {"more": 1}, plan)
