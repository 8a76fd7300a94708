"""Of every family and link that claims a proof: the certified error is never below the true one."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from scipy.special import ndtr

from feddcd.analysis._model import Model, model_of
from feddcd.analysis._points import inverse, point, upper_inverse
from feddcd.analysis._sums import DesignRows, PointQuestion, answer
from feddcd.analysis.families import CHOICES, QUASI, family_of
from slices import sliced, thinned

NONE, NAMES, SITES, ROWS = np.zeros(0), ["Intercept", "a", "b", "c"], 2, 30
THETA = 1.5
SETTINGS = [
    (family, link, THETA if family == "negative_binomial" else None)
    for family, links in CHOICES.items()
    if family not in ("multinomial", "ordinal", *QUASI)
    for link in links
]
FAMILIES = {f"{s[0]}-{s[1]}": family_of(*s) for s in SETTINGS}
PROVEN = {name: f for name, f in FAMILIES.items() if not f.unproven and not f.quadratic}
# the loss of a row, written apart from the code under test
LOSSES = {
    "binomial-logit": lambda z, y: np.log1p(np.exp(z)) - y * z,
    "binomial-probit": lambda z, y: -y * np.log(ndtr(z)) - (1 - y) * np.log(ndtr(-z)),
    "binomial-cloglog": lambda z, y: -y * np.log1p(-np.exp(-np.exp(z))) + (1 - y) * np.exp(z),
    "binomial-log": lambda z, y: -y * z - (1 - y) * np.log1p(-np.exp(z)),
    "poisson-log": lambda z, y: np.exp(z) - y * z,
    "poisson-identity": lambda z, y: z - y * np.log(z),
    "poisson-sqrt": lambda z, y: z**2 - 2 * y * np.log(z),
    "gamma-inverse": lambda z, y: y * z - np.log(z),
    "gamma-log": lambda z, y: y * np.exp(-z) + z,
    "inverse_gaussian-1/mu^2": lambda z, y: y * z / 2 - np.sqrt(z),
    "inverse_gaussian-inverse": lambda z, y: y * z**2 / 2 - z,
    "negative_binomial-log": lambda z, y: (y + THETA) * np.log(THETA + np.exp(z)) - y * z,
}
POSITIVE = ("identity", "sqrt", "inverse", "1/mu^2")


def draw_z(rng, link, shape):
    if link in POSITIVE:
        return rng.uniform(0.05, 3, shape)
    return -rng.uniform(0.02, 4, shape) if link == "log of a share" else rng.normal(0, 2, shape)


def kind_of(family):
    return "log of a share" if (family.like, family.link) == ("binomial", "log") else family.link


def draw_y(rng, family, mean):
    draw = {
        "binomial": lambda m: rng.binomial(1, m).astype(float),
        "poisson": lambda m: rng.poisson(m).astype(float),
        "negative_binomial": lambda m: rng.poisson(m * rng.gamma(THETA, 1 / THETA, m.shape)) * 1.0,
        "gamma": lambda m: m * rng.gamma(2.0, 0.5, m.shape) + 1e-6,
        "inverse_gaussian": lambda m: rng.wald(m, 4.0),
        "gaussian": lambda m: m + rng.normal(size=m.shape),
    }
    return draw[family.like](mean)


@pytest.mark.parametrize("name", FAMILIES)
def test_value_slope_and_curvature_belong_together(name):
    """By differences; the expected curvature is the mean of the observed one."""
    family, rng = FAMILIES[name], np.random.default_rng(0)
    z = draw_z(rng, kind_of(family), (400, 1))
    Y, h = draw_y(rng, family, family.mean(z)), 1e-5 * np.minimum(abs(z), 1)
    at, up, down = (family.terms(x, Y) for x in (z, z + h, z - h))
    scale = 1 + abs(at.curvature[:, 0, 0])
    slope = (up.value - down.value) / (2 * h[:, 0])
    np.testing.assert_array_less(abs(slope - at.slope[:, 0]), 1e-4 * (scale + at.size[:, 0]))
    curvature = (up.slope - down.slope)[:, 0] / (2 * h[:, 0])
    np.testing.assert_array_less(abs(curvature - at.curvature[:, 0, 0]) / scale, 1e-4)
    if name in LOSSES:
        own, zero = LOSSES[name], np.full_like(z, z[0, 0])
        there, here = own(z, Y)[:, 0] - at.value, own(zero, Y)[:, 0] - family.terms(zero, Y).value
        np.testing.assert_allclose(there, here, rtol=0, atol=1e-8 * np.max(1 + abs(at.value)))


@pytest.mark.parametrize("name", FAMILIES)
def test_the_expected_curvature_is_the_mean_of_the_observed(name):
    family, rng = FAMILIES[name], np.random.default_rng(1)
    if family.expected is None:
        return
    z = np.repeat({"log of a share": -0.7}.get(kind_of(family), 0.6), 200_000)[:, None]
    observed = family.terms(z, draw_y(rng, family, family.mean(z))).curvature[:, 0, 0]
    error = observed.std() / np.sqrt(len(observed))
    assert abs(observed.mean() - family.expected(z[:1])[0, 0, 0]) < 4 * error + 1e-12


@pytest.mark.parametrize("name", PROVEN)
def test_how_fast_the_curvature_changes(name):
    """ln f'' changes by no more than c|t| for |t| <= 1/c, which is what the proof says of f'''."""
    family, rng = PROVEN[name], np.random.default_rng(2)
    z = np.concatenate(
        [draw_z(rng, kind_of(family), (20_000, 1)), -(10.0 ** rng.uniform(-2, 1, (99, 1)))]
    )
    z = z if kind_of(family) not in POSITIVE else abs(z)
    Y = draw_y(rng, family, family.mean(z))
    c = np.ones_like(z) if family.bend is None else family.bend(z, Y)
    reach = 3.0 if family.bend is None else 1.0
    f2 = lambda z: family.terms(z, Y).curvature[:, 0]
    with np.errstate(divide="ignore", invalid="ignore"):
        for share in (-1, -0.7, -0.2, 0.01, 0.5, 1):
            t = share * reach * (1 - 1e-9) / c
            change = abs(np.log(f2(z + t) / f2(z)))
            flat = (f2(z) < 1e-250) | (f2(z + t) < 1e-250)
            assert np.all(flat | (change <= c * abs(t) * (1 + 1e-6) + 1e-7))


class Problem(NamedTuple):
    model: Model
    sites: dict[str, DesignRows]
    rows: DesignRows


def problems(family, count, seed=0):
    rng = np.random.default_rng(seed)
    for _ in range(count):
        X = rng.uniform(-1, 1, (SITES * ROWS, 4))
        X[:, 0] = 1
        X[:, 3] = X[:, 2] + 10.0 ** rng.uniform(-3, 0) * X[:, 3]
        w = rng.normal(size=4) * 10.0 ** rng.uniform(-1, 0)
        w[0] = {"log of a share": -1.0, **dict.fromkeys(POSITIVE, 1.0)}.get(kind_of(family), w[0])
        z = X @ w
        if kind_of(family) in (*POSITIVE, "log of a share"):  # well within what is allowed
            w[1:] *= 0.8 / max(abs(z - w[0]).max(), 0.8)
            z = X @ w
        Y, s = draw_y(rng, family, family.mean(z[:, None])), rng.choice([1.0, 2.0], len(X))
        rows, cut = DesignRows(X, Y, s, 0 * s), np.split(np.arange(len(s)), SITES)
        sites = {str(i): DesignRows(*(x[part] for x in rows)) for i, part in enumerate(cut)}
        l2 = float(rng.choice([0.0, 1e-3, 1.0]))
        yield Problem(model_of(family, NAMES, 1, l2, tuple(sites), 0, False), sites, rows), w


def derivatives(problem, w):
    """g, H and value with penalty; slopes and curvatures are checked by differences above."""
    family, s, P = problem.model.loss, problem.rows.s, problem.model.penalty
    geometry = family.geometry(problem.rows, len(w) - len(family.extras))
    at = family.terms(geometry.z(w[:, None]), problem.rows.Y)
    H = geometry.hessian(s[:, None, None] * at.curvature) + np.diag(P)
    return geometry.gradient(s[:, None] * at.slope) + P * w, H, s @ at.value + P @ w**2 / 2


def optimum(problem, w):
    """Newton's method with halving; None where it does not get there."""
    path = [w]
    for _ in range(60):
        g, H, value = derivatives(problem, w)
        step = -np.linalg.solve(H, g)
        if np.sqrt(abs(g @ step)) < 1e-11:
            return path, w
        t = 1.0
        while t > 1e-9 and not derivatives(problem, w + t * step)[2] < value + 1e-12 * abs(value):
            t /= 2
        w = w + t * step
        path.append(w)
    return path, None


def claimed(problem, w, seen):
    model, X, s = problem.model, problem.rows.X, problem.rows.s
    D = np.sqrt(s @ X**2 / s.sum())
    D[D == 0] = 1
    V = upper_inverse(derivatives(problem, seen)[1] / np.outer(D, D), D, 1)
    asked = PointQuestion(w[:, None], seen[:, None], V, np.zeros(1), NONE, np.ones(()), False)
    said = {site: answer(rows, model.loss, asked) for site, rows in problem.sites.items()}
    return point(model, D, (w * D)[:, None], said).bound


def ordinal_problems(count, seed=0):
    """Four classes, one of them rare now and then, and three columns without an intercept."""
    rng, family = np.random.default_rng(seed), family_of("ordinal", classes=("a", "b", "c", "d"))
    while count:
        X = np.hstack([rng.normal(size=(SITES * ROWS, 3)), np.zeros((SITES * ROWS, 3))])
        cuts = np.cumsum(10.0 ** rng.uniform(-1.5, 0.5, 3)) - 1.5
        z = X[:, :3] @ rng.normal(size=3) * 10.0 ** rng.uniform(-1, 0)
        below = 1 / (1 + np.exp(z[:, None] - cuts))
        Y = (rng.random((len(X), 1)) > below).sum(1)[:, None].astype(float)
        if len(np.unique(Y)) < 4:
            continue
        count -= 1
        s = rng.choice([1.0, 2.0], len(X))
        rows, cut = DesignRows(X, Y, s, 0 * s), np.split(np.arange(len(s)), SITES)
        sites = {str(i): DesignRows(*(x[part] for x in rows)) for i, part in enumerate(cut)}
        l2 = float(rng.choice([0.0, 1e-3, 1.0]))
        model = model_of(family, NAMES[1:], 1, l2, tuple(sites), 0, False)
        yield Problem(model, sites, rows), np.concatenate([np.zeros(3), family.origin])


def ordinal_value(rows, w):
    below = 1 / (1 + np.exp((rows.X[:, :3] @ w[:3])[:, None] - w[3:]))
    edge, y = np.ones((len(below), 1)), rows.Y[:, 0].astype(int)
    p = np.diff(np.hstack([0 * edge, below, edge]), axis=1)
    return -rows.s @ np.log(p[np.arange(len(y)), y])


def test_the_ordinal_loss_is_that_of_its_probabilities():
    """-ln(F(a) - F(b)), and gradient and Hessian by differences."""
    for problem, start in ordinal_problems(5, seed=1):
        w, rows = start + np.linspace(-0.1, 0.2, 6), problem.rows
        plain = problem._replace(model=problem.model._replace(penalty=np.zeros(6)))
        g, H, own = derivatives(plain, w)
        np.testing.assert_allclose(own, ordinal_value(rows, w))
        for j, e in enumerate(np.eye(6) * 1e-5):
            slope = (ordinal_value(rows, w + e) - ordinal_value(rows, w - e)) / 2e-5
            np.testing.assert_allclose(g[j], slope, rtol=1e-5, atol=1e-5)
            bend = (derivatives(plain, w + e)[0] - derivatives(plain, w - e)[0]) / 2e-5
            np.testing.assert_allclose(H[j], bend, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("count", sliced([9, 18, 60], {9}))
@pytest.mark.parametrize("name", thinned([*PROVEN, "ordinal"], 2))
def test_never_below_the_true_error(name, count):
    """At Newton's points and off the optimum, along the row of most leverage and at random."""
    rng, ratios, solved = np.random.default_rng(3), [], 0
    drawn = ordinal_problems(count) if name == "ordinal" else problems(PROVEN[name], count)
    for problem, w in drawn:
        path, best = optimum(problem, w)
        if best is None or abs(problem.rows.X @ best).max() > 30:
            continue
        solved += 1
        there = derivatives(problem, best)[1]
        V, family = inverse(there), problem.model.loss
        arms = family.geometry(problem.rows, len(w) - len(family.extras)).X
        X = arms[-1] if family.extras else arms
        lever = V @ X[np.argmax(np.sum((X @ V) * X, 1))]
        away = [
            lever / np.sqrt(lever @ there @ lever),
            np.linalg.cholesky(V) @ rng.normal(size=len(w)),
        ]
        off = [
            best + a * v
            for v in away
            for a in 10.0 ** rng.uniform(-4, 0.5, 4) * rng.choice([-1, 1], 4)
        ]
        visits = [
            *pairwise(path),
            *((x, x) for x in off),
            *((path[0], x) for x in off),
        ]
        for seen, now in visits:
            H, value = derivatives(problem, now)[1:]
            if not value < 1e200:
                continue
            claim, miss = claimed(problem, now, seen), now - best
            if claim.r < np.inf and np.sqrt(miss @ H @ miss) > 1e-9:
                ratios.append(np.sqrt(miss @ H @ miss) / claim.r)
                least = np.sqrt(np.diag(inverse(H)))
                assert np.max(abs(miss) / least) <= claim.reach * (1 + 1e-9)
    assert solved >= 2 * count / 3
    assert len(ratios) > 2.5 * count
    assert max(ratios) <= 1 + 1e-9
    assert np.median(ratios) > 0.3  # and not by far above
