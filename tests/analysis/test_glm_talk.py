"""What sites say, added up, is what the pooled rows say; a server that loses answers gets there."""

from functools import cache
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.special import gammaln
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.preprocessing import StandardScaler

from feddcd import FederatedGLM
from feddcd.analysis._binning import RESIDUALS
from feddcd.analysis._regression import RegressionTable
from feddcd.analysis._sums import (
    DesignRows,
    Moments,
    PointQuestion,
    answer,
    square,
)
from feddcd.analysis.families import family_of
from feddcd.analysis.plan import ModelSettings
from feddcd.analysis.protocol import Agreement, SiteRows, converse, in_process
from feddcd.losses import LOSSES
from slices import sliced, thinned

sm = pytest.importorskip("statsmodels.api")

ROWS, SITES = 120, tuple("abcdef")
NAMES = ["Intercept", "x0", "x1"]
GLM = {"binomial": sm.families.Binomial, "poisson": sm.families.Poisson}


@cache
def pooled_rows(family):
    """Weights and offsets wherever the family has them."""
    rng = np.random.default_rng(11)
    X = np.column_stack([np.ones(ROWS), rng.normal(size=ROWS), 2 + 3 * rng.normal(size=ROWS)])
    W = np.array([[-0.4, 0.3], [0.8, -0.5], [-0.2, 0.3]])
    s, o = rng.integers(1, 4, ROWS).astype(float), rng.normal(size=ROWS) / 3
    if family == "multinomial":
        p = np.exp(np.column_stack([np.zeros(ROWS), X @ W]))
        drawn = (rng.random((ROWS, 1)) > np.cumsum(p / p.sum(1, keepdims=True), 1)).sum(1)
        return DesignRows(X, np.eye(3)[drawn][:, 1:], s, 0 * o)
    z = X @ W[:, 0] + o
    y = {
        "gaussian": z + rng.normal(size=ROWS),
        "binomial": (rng.random(ROWS) < 1 / (1 + np.exp(-z))).astype(float),
        "poisson": rng.poisson(np.exp(z)).astype(float),
    }
    return DesignRows(X, y[family][:, None], s, o)


def question(family, **changes):
    rng, k = np.random.default_rng(3), pooled_rows(family).Y.shape[1]
    w, A = rng.normal(size=(3, k)) / 3, rng.normal(size=(3 * k, 3 * k))
    edges = np.linspace(-1, 2, 9) if family == "gaussian" else np.linspace(0.1, 0.9, 9)
    seen, V = w + rng.normal(size=w.shape) / 9, (A @ A.T)[np.triu_indices(3 * k)]
    asked = PointQuestion(w, seen, V, rng.normal(size=k), edges, np.asarray(1.3), pilot=True)
    return asked._replace(**changes)


def minus_log_likelihood(family, z, rows):
    """Up to the constants that the loss leaves out."""
    y = rows.Y[:, 0]
    if family == "multinomial":
        whole = np.column_stack([1 - rows.Y.sum(1), rows.Y])
        p = np.exp(np.column_stack([np.zeros(len(z)), z]))
        return -rows.s @ np.log(np.sum(whole * p, 1) / p.sum(1))
    each = {
        "gaussian": lambda: stats.norm.logpdf(y, z[:, 0]) + np.log(2 * np.pi) / 2,
        "binomial": lambda: stats.bernoulli.logpmf(y, 1 / (1 + np.exp(-z[:, 0]))),
        "poisson": lambda: stats.poisson.logpmf(y, np.exp(z[:, 0])) + gammaln(y + 1),
    }
    return -rows.s @ each[family]()


def differences(f, x, h=1e-5):
    """Central, one column for each coordinate of x."""
    moved = [(f(x + h * e), f(x - h * e)) for e in np.eye(len(x))]
    return np.stack([(up - down) / (2 * h) for up, down in moved], -1)


@pytest.mark.parametrize("family", LOSSES)
def test_answers_are_derivatives(family):
    rows, asked = pooled_rows(family), question(family)
    shape, said = asked.w.shape, answer(rows, family_of(family), asked)
    f = lambda w: minus_log_likelihood(
        family, rows.X @ w.reshape(shape) + rows.offset[:, None], rows
    )
    g = lambda w: answer(rows, family_of(family), asked._replace(w=w.reshape(shape))).g
    w, p = asked.w.reshape(-1), asked.w.size
    np.testing.assert_allclose(said.value, f(w), rtol=1e-12)
    np.testing.assert_allclose(said.g, differences(f, w), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(square(said.H, p), differences(g, w), rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("family", LOSSES)
def test_constant_model(family):
    rows, asked = pooled_rows(family), question(family)
    k, said = len(asked.null), answer(rows, family_of(family), asked).null
    f = lambda c: minus_log_likelihood(family, c + rows.offset[:, None] + 0 * rows.Y, rows)
    g = lambda c: answer(rows, family_of(family), asked._replace(null=c)).null[1 : 1 + k]
    np.testing.assert_allclose(said[0], f(asked.null), rtol=1e-12)
    np.testing.assert_allclose(said[1 : 1 + k], differences(f, asked.null), rtol=1e-6, atol=1e-6)
    H = differences(g, asked.null)
    np.testing.assert_allclose(said[1 + k :].reshape(k, k), H, rtol=1e-7, atol=1e-7)


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
def test_bins_hold_every_row_once(family):
    rows, asked = pooled_rows(family), question(family)
    said, z = answer(rows, family_of(family), asked), rows.X @ asked.w[:, 0] + rows.offset
    mean = {"gaussian": lambda z: z, "poisson": np.exp, "binomial": lambda z: 1 / (1 + np.exp(-z))}
    mu, y, s = mean[family](z), rows.Y[:, 0], rows.s
    cut = np.array([-np.inf, *asked.edges, np.inf])
    for held, each in zip(said.bins, (s, s * y, s * mu), strict=True):
        by_hand = [each[(low < mu) & (mu <= high)].sum() for low, high in pairwise(cut)]
        np.testing.assert_allclose(held, by_hand, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(held.sum(), each.sum(), rtol=1e-12)
    variance = {"gaussian": 1 + 0 * mu, "poisson": mu, "binomial": mu * (1 - mu)}[family]
    r = np.sqrt(s / variance) * (y - mu) / 1.3
    counts = np.histogram(r, np.array([-1e9, *RESIDUALS, 1e9]), weights=s)[0]
    np.testing.assert_array_equal(said.residuals, counts)


def split(rows, code):
    parts = {SITES[i]: np.flatnonzero(code == i) for i in np.unique(code)}
    return {site: DesignRows(*(x[part] for x in rows)) for site, part in parts.items()}


@st.composite
def splits(draw):
    """A site for every row; sites of one row are common."""
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    sizes = draw(st.lists(st.sampled_from([1, 1, 2, 30]), min_size=1, max_size=5))
    code = np.repeat(np.arange(len(sizes) + 1), [*sizes, ROWS])[:ROWS]
    return code[rng.permutation(ROWS)]


@settings(max_examples=25, deadline=None)
@given(code=splits(), family=st.sampled_from(list(LOSSES)))
def test_sums_do_not_depend_on_the_split(code, family):
    rows, asked = pooled_rows(family), question(family)
    whole = answer(rows, family_of(family), asked)
    each = [answer(part, family_of(family), asked) for part in split(rows, code).values()]
    for name in ("value", "g", "H", "size", "null", "bins", "residuals"):
        added = np.sum([getattr(a, name) for a in each], 0)
        np.testing.assert_allclose(added, getattr(whole, name), rtol=1e-9, atol=1e-9)
    for name in set(Moments._fields) - {"start"}:  # each site guesses its own
        added = np.sum([getattr(a.moments, name) for a in each], 0)
        np.testing.assert_allclose(added, getattr(whole.moments, name), rtol=1e-9, atol=1e-9)
    assert max(a.M for a in each) == whole.M
    assert max(a.m for a in each) == whole.m


REGRESSION = RegressionTable()


def plan_of(family, **options):
    return ModelSettings(None, family, **{"tol": 1e-8, "max_exchanges": 400} | options)


def cohort_of(family, sites, names=tuple(NAMES)):
    classes = (0, 1, 2) if family == "multinomial" else None
    return Agreement({}, classes, list(names), tuple(sites))


def table_of(family, sites):
    """Everyone answers, in this process. The first guess of some families depends on the split, so
    that tables are alike to the tolerance."""
    plan = plan_of(family, tol=1e-10)
    own = {site: SiteRows(plan, rows, len(rows.s)) for site, rows in sites.items()}
    talk = REGRESSION.talk(plan, cohort_of(family, sites))
    return converse(talk, in_process(REGRESSION, own))


@cache
def alone(family):
    """All rows at one site."""
    return table_of(family, {"a": pooled_rows(family)})


@settings(max_examples=12, deadline=None)
@given(code=splits(), family=st.sampled_from(list(LOSSES)))
def test_the_table_does_not_depend_on_the_split(code, family):
    sites, whole = split(pooled_rows(family), code), alone(family)
    found = table_of(family, sites)
    off = np.abs(found.table["coef"] - whole.table["coef"]) / whole.table["std_err"]
    assert off.max() < 1e-9
    np.testing.assert_allclose(found.table, whole.table, rtol=1e-9, atol=1e-9)
    for name in ("deviance", "null_deviance", "dispersion", "log_likelihood", "aic"):
        np.testing.assert_allclose(getattr(found, name), getattr(whole, name), rtol=1e-9)


@cache
def statsmodels_table(family):
    """(coefficients, standard errors), class by class."""
    X, Y, s, o = pooled_rows(family)
    if family == "multinomial":
        twice = np.repeat(np.arange(ROWS), s.astype(int))
        model = sm.MNLogit((Y @ [1, 2])[twice], X[twice])
        found = model.fit(disp=0, method="newton", maxiter=100, tol=1e-14)
        return np.asarray(found.params).T.ravel(), np.asarray(found.bse).T.ravel()
    if family == "gaussian":
        found = sm.WLS(Y[:, 0] - o, X, weights=s).fit()
    else:
        model = sm.GLM(Y[:, 0], X, family=GLM[family](), offset=o, var_weights=s)
        found = model.fit(tol=1e-13, tol_criterion="params", maxiter=200)
    return np.asarray(found.params), np.asarray(found.bse)


def drive(plan, cohort, sites, there, **options):
    """The server by hand; there(exchange, site) says whose answers arrive. (result, exchanges,
    bytes up)"""
    talk, exchange, moved = REGRESSION.talk(plan, cohort, **options), 0, 0
    asked = next(talk)
    while True:
        exchange += 1
        assert exchange <= plan.max_exchanges
        said = {
            site: REGRESSION.answer(SiteRows(plan, sites[site], 0), q)
            for site, q in asked.items()
            if there(exchange, site)
        }
        moved += sum(8 * block.value.size for a in said.values() for block in a.values())
        try:
            asked = talk.send(said)
        except StopIteration as end:
            return end.value, exchange, moved


def six_sites(family):
    code = np.repeat(np.arange(6), [1, 9, 20, 25, 30, 35])
    return split(pooled_rows(family), np.random.default_rng(1).permutation(code))


def at_random(p, seed):
    draw = lambda exchange, site: np.random.default_rng([seed, exchange, SITES.index(site)])
    return lambda exchange, site: draw(exchange, site).random() < p


LOSSES_OF_ANSWERS = {
    "half of them": at_random(0.5, 0),
    "nine of ten": at_random(0.1, 1),
    "one site for long": lambda exchange, site: site != "f" or not 1 < exchange < 40,
    "one site at first": lambda exchange, site: site != "f" or exchange > 30,
    "one at a time": lambda exchange, site: SITES[exchange % 6] == site,
    "by halves": lambda exchange, site: (site in "abc") == (exchange % 2 == 0),
    "nobody at first": lambda exchange, site: exchange > 2,
    "nobody for a while": lambda exchange, site: not 3 <= exchange < 20,
}
LOST = [(family, lost) for family in LOSSES for lost in LOSSES_OF_ANSWERS]


@pytest.mark.parametrize(("family", "lost"), thinned(sliced(LOST, LOST[::3]), 2))
def test_lost_answers_do_not_matter(family, lost):
    sites = six_sites(family)
    found, exchanges, moved = drive(
        plan_of(family), cohort_of(family, sites), sites, LOSSES_OF_ANSWERS[lost]
    )
    coef, std_err = statsmodels_table(family)
    assert found.converged
    assert found.certified_error <= 1e-8
    np.testing.assert_array_less(np.abs(found.table["coef"] - coef), 1e-6 * std_err)
    np.testing.assert_allclose(found.table["std_err"], std_err, rtol=1e-6)
    assert len(found.history) == exchanges
    assert found.history["bytes_up"].iloc[-1] == moved


@pytest.mark.parametrize("seed", sliced([6, 8, 27, 31], {6, 27}))
def test_large_effects_where_seven_of_ten_are_lost(seed):
    """Counts from 0 to hundreds: a site's curvature at w = 0 says little of that elsewhere."""
    rng = np.random.default_rng(seed)
    X = np.column_stack([np.ones(60), rng.normal(size=(60, 4))])
    z = np.minimum(X @ (2 * rng.normal(size=(5, 1))), 6)
    rows = DesignRows(X, rng.poisson(np.exp(z)).astype(float), np.ones(60), np.zeros(60))
    sites, some = split(rows, np.arange(60) % 6), at_random(0.3, seed)
    cohort = cohort_of("poisson", sites, ["Intercept", *"wxyz"])
    job = plan_of("poisson", l2=0.1), cohort, sites
    most = lambda exchange, site: exchange == 1 or some(exchange, site)
    found, *_ = drive(*job, most, absent=0.7)
    assert found.converged
    whole, *_ = drive(*job, lambda exchange, site: True, absent=0.7)
    off = np.abs(found.table["coef"] - whole.table["coef"]) / whole.table["std_err"]
    assert off.max() <= found.certified_error + whole.certified_error


TOO_FEW = "is too small:"


LIMITED = {
    "limit": st.integers(2, 14),
    "p": st.sampled_from([0.3, 0.7, 1.0]),
    "seed": st.integers(0, 10**6),
    "family": st.sampled_from(["binomial", "poisson"]),
}


@settings(max_examples=12, deadline=None)
@given(**LIMITED)
def test_never_more_exchanges_than_allowed(limit, p, seed, family):
    within_the_limit(limit, p, seed, family)


@pytest.mark.chaos
@settings(max_examples=40, deadline=None)
@given(**LIMITED)
def test_never_more_exchanges_than_allowed_many_times(limit, p, seed, family):
    within_the_limit(limit, p, seed, family)


def within_the_limit(limit, p, seed, family):
    """There is an estimate with its error, or an error that says why not."""
    sites, (coef, std_err) = six_sites(family), statsmodels_table(family)
    plan = plan_of(family, max_exchanges=limit)
    try:
        found, exchanges, _ = drive(plan, cohort_of(family, sites), sites, at_random(p, seed))
    except ValueError as refused:
        if p == 1 or f"max_exchanges={limit} {TOO_FEW}" not in str(refused):
            raise
        return
    off = np.abs(found.table["coef"] - coef) / std_err
    assert off.max() <= found.certified_error + 1e-9
    assert found.converged == (found.certified_error <= 1e-8)
    assert found.converged or exchanges == limit


@pytest.mark.parametrize(
    ("site_c", "why"),
    [
        ((), "only 5 of 6 sites have answered"),
        ((1,), "no step has made the loss smaller yet"),
    ],
)
def test_the_pilot_alone_is_too_few(site_c, why):
    """One site never answers, or in the first exchange only."""
    sites = six_sites("binomial")
    there = lambda exchange, site: site != "c" or exchange in site_c
    plan = plan_of("binomial", max_exchanges=5)
    with pytest.raises(ValueError, match=f"max_exchanges=5 {TOO_FEW} {why}"):
        drive(plan, cohort_of("binomial", sites), sites, there)


def frame_of(family):
    """X without intercept, y, sites, weights."""
    X, Y, s, _ = pooled_rows(family)
    y = Y @ [1, 2] if family == "multinomial" else Y[:, 0]
    return X[:, 1:], y, np.array(list("abc"))[np.arange(ROWS) % 3], s


@pytest.mark.parametrize("family", thinned(LOSSES, 2))
@pytest.mark.parametrize("absent", [0.0, 0.4])
def test_history(family, absent):
    X, y, site, s = frame_of(family)
    model = FederatedGLM(family, l2=0.5, absent=absent, max_exchanges=200, latency=0.3)
    model.set_params(bandwidth=1e4).fit(X, y, site, s)
    h, last = model.history_, model.history_.iloc[-1]
    assert list(h["exchange"]) == list(range(1, len(h) + 1))
    assert (last["exchange"], last["uploads"]) == (model.n_exchanges_, model.n_uploads_)
    assert (last["bytes_up"], last["bytes_down"]) == (model.bytes_up_, model.bytes_down_)
    assert last["certified_error"] == model.certified_error_ <= 0.01
    np.testing.assert_array_equal(h["uploads"], h["answered"].cumsum())
    assert np.all(h["answered"] <= h["asked"])
    assert np.all(np.diff(h["bytes_down"], prepend=0) > 0)
    np.testing.assert_array_equal(np.diff(h["bytes_up"], prepend=0) > 0, h["answered"] > 0)
    seconds = 0.3 * h["exchange"] + (h["bytes_up"] + h["bytes_down"]) / 1e4
    np.testing.assert_allclose(h["seconds"], seconds)
    partial = h["answered"] < h["asked"]
    assert partial.any() == (absent > 0)
    between = partial & (h["exchange"] < last["exchange"])  # the last may be proven without some
    assert h.loc[between, "objective"].isna().all()
    assert np.isinf(h.loc[between, "certified_error"]).all()
    w = np.column_stack([np.atleast_1d(model.intercept_), np.atleast_2d(model.coef_)]).T
    rows = pooled_rows(family)._replace(offset=np.zeros(ROWS))
    value = minus_log_likelihood(family, rows.X @ w, rows) + np.sum(w[1:] ** 2) / 4
    np.testing.assert_allclose(last["objective"], value, rtol=1e-10)


@pytest.mark.parametrize("family", ["gaussian", "binomial", "poisson"])
@pytest.mark.parametrize("l2", [0.0, 200.0])
def test_bins_of_the_fit(family, l2):
    X, y, site, _ = frame_of(family)
    model = FederatedGLM(family, l2=l2, tol=1e-9).fit(X, y, site)
    bins, mean = model.bins_, model.predict(X)
    assert bins is not None
    for name, each in {"weight": 1 + 0 * y, "observed": y, "predicted": mean}.items():
        by_hand = [each[(low < mean) & (mean <= high)].sum() for low, high in bins_of(bins)]
        np.testing.assert_allclose(bins[name], by_hand, rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(bins[name].sum(), each.sum(), rtol=1e-9)
    if family == "binomial":
        assert (len(bins), model.residual_bins_) == (100, None)
        return
    variance = mean if family == "poisson" else 1.0
    r, rest = (y - mean) / np.sqrt(variance * model.dispersion_), model.residual_bins_
    assert rest is not None
    by_hand = [np.sum((low < r) & (r <= high)) for low, high in bins_of(rest)]
    np.testing.assert_array_equal(rest["weight"], by_hand)


def bins_of(frame):
    np.testing.assert_array_equal(frame["high"][:-1], frame["low"][1:])
    return zip(frame["low"], frame["high"], strict=True)


@pytest.mark.parametrize("classes", [2, 3])
def test_classes_have_no_bins(classes):
    X, y, site, _ = frame_of("multinomial")
    model = FederatedGLM("multinomial").fit(X, np.minimum(y, classes - 1), site)
    assert model.bins_ is None
    assert model.residual_bins_ is None


def standardised(X, site, s, effects):
    mean = s @ X / s.sum()
    Z = (X - mean) / np.sqrt(s @ (X - mean) ** 2 / s.sum())
    dummies = [site == name for name in "bc"] if effects else []
    return np.column_stack([np.ones(ROWS), Z, *dummies]).astype(float)


@pytest.mark.parametrize("family", thinned(["binomial", "gaussian", "multinomial"], 2))
@pytest.mark.parametrize("effects", [False, True])
@pytest.mark.parametrize("l2", [0.0, 4.0])
def test_standardised(family, effects, l2):
    """The optimum on standardised columns: its gradient is 0, its Hessian gives the errors."""
    X, y, site, s = frame_of(family)
    options = {"site_effects": "fixed" if effects else "none", "standardize": True}
    model = FederatedGLM(family, l2=l2, tol=1e-9, **options).fit(X, y, site, s)
    Z, Y = standardised(X, site, s, effects), pooled_rows(family).Y
    d, k = Z.shape[1], Y.shape[1]
    P = l2 * np.isin(np.arange(d), [1, 2])
    w = model.table_["coef"].to_numpy().reshape(k, d).T
    rows = DesignRows(Z, Y, s, np.zeros(ROWS))
    said = answer(rows, family_of(family), question(family, w=w, seen=w, V=np.zeros(0)))
    H = square(said.H, d * k) + np.diag(np.repeat(P, k))
    step = np.linalg.solve(H, said.g + (P[:, None] * w).ravel())
    scale = model.dispersion_ if family == "gaussian" else 1.0
    std_err = np.sqrt(scale * np.diag(np.linalg.inv(H)))
    assert np.max(np.abs(step) / std_err) < 1e-8
    np.testing.assert_allclose(model.table_["std_err"], std_err.reshape(d, k).T.ravel(), rtol=1e-8)
    np.testing.assert_allclose(
        model.predict(X, groups=site if effects else None).reshape(ROWS, -1)[:, -k:],
        LOSSES[family].mean(Z @ w), rtol=1e-8,
    )  # fmt: skip


@pytest.mark.parametrize("effects", [False, True])
def test_standardised_as_statsmodels(effects):
    X, y, site, s = frame_of("binomial")
    options = {"site_effects": "fixed" if effects else "none", "standardize": True}
    model = FederatedGLM(tol=1e-9, **options).fit(X, y, site, s)
    glm = sm.GLM(y, standardised(X, site, s, effects), family=sm.families.Binomial(), var_weights=s)
    found = glm.fit(tol=1e-13, tol_criterion="params", maxiter=200)
    np.testing.assert_allclose(model.table_["coef"], found.params, rtol=1e-7)
    np.testing.assert_allclose(model.table_["std_err"], found.bse, rtol=1e-7)


def test_standardised_penalty_as_scikit_learn():
    """After StandardScaler, which knows the weights."""
    peers = {
        "binomial": LogisticRegression(C=1 / 4, tol=1e-12, solver="newton-cholesky"),
        "gaussian": Ridge(alpha=4.0),
    }
    for family, peer in peers.items():
        X, y, site, s = frame_of(family)
        model = FederatedGLM(family, l2=4.0, tol=1e-9, standardize=True).fit(X, y, site, s)
        Z = StandardScaler().fit(X, sample_weight=s).transform(X)
        peer.fit(Z, y, sample_weight=s)
        expected = [*np.ravel(peer.intercept_), *np.ravel(peer.coef_)]
        np.testing.assert_allclose(model.table_["coef"], expected, rtol=1e-7)


@pytest.mark.parametrize("family", LOSSES)
def test_sites_own_estimates(family):
    """Each site's fit of its rows alone; where it has none, that is said."""
    X, y, site, s = frame_of(family)
    site = site.astype(object)
    site[:2] = "few"  # rows, fewer than the three columns
    model = FederatedGLM(family).fit(X, y, site, s)
    own, told = model.site_table_, model.site_counts_["estimate"]
    assert dict(told) == dict.fromkeys("abc", "own fit") | {"few": "no finite estimate"}
    assert set(own.index.get_level_values("site")) == {"a", "b", "c"}
    for name in "abc":
        rows = DesignRows(*(x[site == name] for x in pooled_rows(family)))
        rows = rows._replace(offset=0 * rows.s)
        coef, std_err = table_of(family, {"a": rows}).table[["coef", "std_err"]].to_numpy().T
        here = own.xs(name, level="site").loc[model.table_.index]
        np.testing.assert_array_less(abs(here["coef"] - coef), 1e-6 * std_err)
        np.testing.assert_allclose(here["std_err"], std_err, rtol=1e-6)


def test_own_estimates_beside_site_effects_and_per_standard_deviation():
    """Without the constants, and in the table's units."""
    X, y, site, s = frame_of("gaussian")
    options = {"site_effects": "fixed", "standardize": True}
    model = FederatedGLM("gaussian", **options).fit(X, y, site, s)
    own = model.site_table_
    assert set(own.index.get_level_values("name")) == {"x0", "x1"}
    sd = np.sqrt(s @ (X - s @ X / s.sum()) ** 2 / s.sum())
    for name in "abc":
        at = site == name
        alone = sm.WLS(y[at], sm.add_constant(X[at]), weights=s[at]).fit()
        here = own.xs(name, level="site")
        np.testing.assert_allclose(here["coef"], alone.params[1:] * sd, rtol=1e-8)
        np.testing.assert_allclose(here["std_err"], alone.bse[1:] * sd, rtol=1e-8)


def test_a_separated_site_has_no_estimate():
    X, y, site, _ = frame_of("binomial")
    y = np.where(site == "a", X[:, 0] > 0, y).astype(float)
    model = FederatedGLM().fit(X, y, site)
    assert model.site_counts_.loc["a", "estimate"] == "no finite estimate"
    assert set(model.site_table_.index.get_level_values("site")) == {"b", "c"}


@pytest.mark.parametrize("absent", [0.0, 0.3])
def test_slower_links_take_longer(absent):
    X, y, site, s = frame_of("binomial")
    model = FederatedGLM(absent=absent, max_exchanges=200)
    links = {"slow": (1.0, 1e4), "late": (1.0, 1e6), "narrow": (0.01, 1e4), "quick": (0.01, 1e6)}
    choices = {}
    for name, (latency, bandwidth) in links.items():
        model.set_params(latency=latency, bandwidth=bandwidth).fit(X, y, site, s)
        choices[name] = model.choice_
        table = model.choice_.predictions
        seconds = table["exchanges"] * latency + table["bytes"] / bandwidth
        np.testing.assert_allclose(table["seconds"], seconds)
        assert model.choice_.method in table.index
        assert "exchanges" in model.choice_.reason
    seconds = {name: choice.predictions["seconds"] for name, choice in choices.items()}
    for slower, quicker in (("slow", "late"), ("slow", "narrow"), ("late", "quick")):
        assert (seconds[slower] > seconds[quicker]).all()
        assert seconds[slower].min() > seconds[quicker].min()
    assert (seconds["narrow"] > seconds["quick"]).all()
