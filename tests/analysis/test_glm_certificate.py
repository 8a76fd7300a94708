"""The certified error is never below the true one; bounds on leverage hold; failures are named."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest

from feddcd import FederatedGLM
from feddcd.analysis._model import Model, model_of
from feddcd.analysis._points import bound, inverse, leverage, point, upper_inverse
from feddcd.analysis._sums import DesignRows, PointQuestion, answer, round_up, square
from feddcd.analysis.families import family_of
from slices import sliced

PROBLEMS, SITES, ROWS, COLUMNS = 1000, 2, 30, 4
SHARES = sliced([(0.1, 30), (0.2, 60), (1.0, PROBLEMS / 3)], {(0.1, 30)})
DRAWN = {"binomial": 410, "poisson": 420, "multinomial": 450, "gaussian": 60}
NONE, NAMES = np.zeros(0), ["Intercept", "a", "b", "c"]


class Problem(NamedTuple):
    model: Model
    sites: dict[str, DesignRows]
    rows: DesignRows  # of all sites


def random_problems(kind, count, seed):
    """Rare events, near-collinear columns, small and large effects, with and without penalty."""
    rng = np.random.default_rng(seed)
    k, n = 2 if kind == "multinomial" else 1, SITES * ROWS
    X = rng.normal(size=(count, n, COLUMNS))
    X[..., 0] = 1
    near = 10.0 ** rng.uniform(-4, 0, (count, 1))
    X[..., 3] = X[..., 2] + near * X[..., 3]  # as far as 1e-4 from collinear
    w = rng.normal(size=(count, COLUMNS, k)) * 10.0 ** rng.uniform(-1, 0, (count, 1, 1))
    w[:, 0] -= rng.choice([0, 0, 2, 3], (count, 1))  # rare events
    z = X @ w
    if kind == "poisson":
        Y = rng.poisson(np.exp(np.minimum(z, 3))).astype(float)
    elif kind == "gaussian":
        Y = z + rng.normal(size=z.shape)
    else:
        p = np.exp(np.concatenate([0 * z[..., :1], z], -1))
        p /= p.sum(-1, keepdims=True)
        drawn = (rng.random((count, n, 1)) > np.cumsum(p, -1)[..., :-1]).sum(-1)
        Y = np.eye(k + 1)[drawn][..., 1:]
    s, l2 = rng.choice([1.0, 2.0], (count, n)), rng.choice([0.0, 1e-3, 1.0], count)
    return [_problem(kind, *each) for each in zip(X, Y, s, l2, strict=True)]


def _problem(kind, X, Y, s, l2):
    rows, cut = DesignRows(X, Y, s, np.zeros(len(s))), np.split(np.arange(len(s)), SITES)
    sites = {str(i): DesignRows(*(x[part] for x in rows)) for i, part in enumerate(cut)}
    return Problem(
        model_of(family_of(kind), NAMES, Y.shape[1], l2, tuple(sites), 0, False), sites, rows
    )


def ask(model, sites, w, seen, V):
    """The sites' answers at w, each having been seen at another point."""
    asked = PointQuestion(w, w, V, np.zeros(model.k), NONE, np.ones(()), False)
    return {
        site: answer(rows, model.loss, asked._replace(seen=seen[site]))
        for site, rows in sites.items()
    }


def derivatives(kind, X, Y, s, P, w):
    """g and H with penalty, of many problems at once: written apart from the code under test."""
    (count, _, d), k = X.shape, Y.shape[2]
    z = X @ w
    e = np.exp(z) if kind != "gaussian" else z
    mean = e if kind in ("gaussian", "poisson") else e / (1 + e.sum(-1, keepdims=True))
    C = np.eye(k) * (np.ones_like(mean) if kind == "gaussian" else mean)[..., None]
    if kind in ("binomial", "multinomial"):
        C = C - mean[..., :, None] * mean[..., None, :]
    H = np.zeros((count, d, k, d, k))
    for a in range(k):
        for b in range(k):
            H[:, :, a, :, b] = np.swapaxes(X, 1, 2) @ ((s * C[..., a, b])[..., None] * X)
    g = np.swapaxes(X, 1, 2) @ (s[..., None] * (mean - Y)) + P[..., None] * w
    ridge = np.eye(d * k) * np.repeat(P, k, axis=1)[:, None]
    return g.reshape(count, -1), H.reshape(count, d * k, d * k) + ridge


class Place(NamedTuple):
    """One point for each problem."""

    w: np.ndarray
    H: np.ndarray
    size: np.ndarray  # the decrement; infinite where there is no optimum (separated rows)


def newton_path(kind, X, Y, s, P):
    """40 points of Newton's method from 0, a step being shortened to ln(1 + m)/m where it changes
    some x'w by m; the last is the optimum."""
    w, path, lost = np.zeros((*P.shape, Y.shape[2])), [], np.zeros(len(P), bool)
    for _ in range(40):
        g, H = derivatives(kind, X, Y, s, P, w)
        lost |= np.abs(w).max((1, 2)) > (np.inf if kind == "gaussian" else 30)
        g[lost], H[lost] = 0, np.eye(H.shape[1])
        step = -np.linalg.solve(H, g[..., None])
        size = np.sqrt(np.abs(g[:, None] @ step))[:, 0, 0]
        path.append(Place(w, H, np.where(lost, np.inf, size)))
        step = step.reshape(w.shape)
        m = np.abs(X @ step).max((1, 2))
        short = np.where(m > 1e-9, np.log1p(m) / np.maximum(m, 1e-9), 1.0)
        w = w + short[:, None, None] * step
    return path


def worst_places(kind, X, Y, s, P, best):
    """Off the optimum along H⁻¹x, x being the row of most leverage, whose z moves by 0.2 to 1.5:
    there the curvature changes as fast as it can, and a decrement alone says too little."""
    rng, k = np.random.default_rng(0), Y.shape[2]
    V, each = np.linalg.inv(best.H), np.arange(len(X))
    x = np.kron(X, np.eye(k)[0])
    leverages = np.sum((x @ V) * x, -1)
    row = np.argmax(leverages, 1)
    v = (V @ x[each, row][..., None])[..., 0] / leverages[each, row][:, None]
    for sign in (1, -1):
        w = best.w + (sign * rng.uniform(0.2, 1.5, (len(X), 1)) * v).reshape(best.w.shape)
        g, H = derivatives(kind, X, Y, s, P, w)
        yield Place(w, H, np.sqrt(np.sum(g * np.linalg.solve(H, g[..., None])[..., 0], 1)))


def judged(problem, visits, best, i):
    """Wherever a bound is near: certified, true / certified in standard errors at the point and
    at the optimum, and true / certified in the norm of H."""
    model, X, s = problem.model, problem.rows.X, problem.rows.s
    D, there = np.sqrt(s @ X**2 / s.sum()), np.sqrt(np.diag(inverse(best.H[i])))
    E, out = np.repeat(D, model.k), []
    for seen, now in visits:
        if now.size[i] > 5 or seen.size[i] < 1e-8:
            continue
        w, V = now.w[i], upper_inverse(seen.H[i] / np.outer(E, E), D, model.k)
        said = ask(model, problem.sites, w, dict.fromkeys(model.sites, seen.w[i]), V)
        claim, off = point(model, D, w * D[:, None], said).bound, np.ravel(w - best.w[i])
        if claim.r < np.inf:
            least = np.minimum(np.sqrt(np.diag(inverse(now.H[i]))), there)
            norm = np.sqrt(off @ now.H[i] @ off)
            out.append((claim.reach, np.max(np.abs(off) / least) / claim.reach, norm / claim.r))
    return out


@pytest.mark.parametrize(("share", "least"), SHARES)
@pytest.mark.parametrize("kind", DRAWN)
def test_never_below_the_true_error(kind, share, least):
    """At Newton's iterates and in the worst directions, for more than 1,000 problems, a third of
    each kind, a tenth of them here; those without an optimum (separated) drop out."""
    drawn = int(share * DRAWN[kind])
    problems = random_problems(kind, drawn, 7)
    X, Y, s = (np.stack([p.rows[i] for p in problems]) for i in range(3))
    P = np.stack([p.model.penalty for p in problems])
    path = newton_path(kind, X, Y, s, P)
    visits = list(pairwise(path[:14]))
    if kind != "gaussian":  # whose curvature does not change
        visits += [(at, at) for at in worst_places(kind, X, Y, s, P, path[-1])]
    sound = np.flatnonzero(path[-1].size <= 1e-10)
    found = [judged(problems[i], visits, path[-1], i) for i in sound]
    assert sum(map(bool, found)) >= min(least, drawn)
    claims = [claim for each in found for claim in each]
    assert len(claims) > 2 * drawn
    assert max(max(ratios) for _, *ratios in claims) <= 1 + 1e-9
    tight = [ratio for reach, ratio, _ in claims if 1e-6 < reach < 0.1]
    assert np.median(tight) > 0.5  # and not by far above


def test_the_bound_is_attained():
    """Counts of mean 1 and a constant c > 0: g = n(e^c - 1), H = ne^c, S² = 1/H, so that
    λS = 1 - e^-c and r is the distance c itself, in standard errors."""
    n, model = 64.0, model_of(family_of("poisson"), ["Intercept"], 1, 0.0, ("a",), 0, False)
    rows = DesignRows(np.ones((64, 1)), np.ones((64, 1)), np.ones(64), np.zeros(64))
    for c in np.log([2.0, 4.0, 16.0]):  # so that S² is a power of 2: M is rounded to itself
        w = np.array([[c]])
        said = ask(model, {"a": rows}, w, {"a": w}, np.array([np.exp(-c) / n]))
        found = point(model, np.ones(1), w, said).bound
        np.testing.assert_allclose(found.r, c * np.sqrt(n * np.exp(c)), rtol=1e-9)


def true_leverage(X, H, k):
    """max over rows and pairs of classes of |(e_k - e_l) (x) x|² in the metric of H⁻¹."""
    V, E, best = np.linalg.inv(H), np.vstack([np.zeros(k), np.eye(k)]), 0.0
    for x in X:
        for a in range(k + 1):
            for b in range(a):
                v = np.outer(x, E[a] - E[b]).reshape(-1)
                best = max(best, v @ V @ v)
    return best


@pytest.mark.parametrize("kind", ["binomial", "poisson", "multinomial"])
def test_leverage_is_bounded(kind):
    """From the Hessian at other points, one for each site; M and m are rounded up, to a power of
    2 and of 2^(1/8)."""
    rng = np.random.default_rng(0)
    for problem in random_problems(kind, 40, 3):
        model, sites, rows = problem.model, problem.sites, problem.rows
        model = model._replace(penalty=model.penalty + np.array([0, 1, 1, 1]))
        shape = (COLUMNS, model.k)
        w = 0.3 * rng.normal(size=shape)
        seen = {site: w + 0.2 * rng.normal(size=shape) for site in sites}
        old = [square(ask(model, {i: sites[i]}, seen[i], seen, NONE)[i].H, model.p) for i in sites]
        H = np.sum(old, 0) + np.diag(np.repeat(model.penalty, model.k))
        V = upper_inverse(H, np.ones(COLUMNS), model.k)
        each = ask(model, sites, w, seen, V)
        S = leverage(np.array([a.M for a in each.values()]), np.array([a.m for a in each.values()]))
        stacked = [x[None] for x in (*rows[:3], model.penalty, w)]
        now = derivatives(kind, *stacked)[1][0]
        assert true_leverage(rows.X, now, model.k) <= S**2
        for site, said in each.items():
            own = true_leverage(sites[site].X, H, model.k)
            z = np.hstack([np.zeros((ROWS, 1)), sites[site].X @ (w - seen[site])])
            assert_rounded_up(said.M, own, 1)
            assert_rounded_up(said.m, np.max(np.ptp(z, axis=1)), 8)


def assert_rounded_up(said, true, steps):
    assert true <= said <= true * 2 ** (1 / steps) * (1 + 1e-9)
    assert abs(np.log2(said) * steps - np.round(np.log2(said) * steps)) < 1e-9


def test_rounding_is_up_next_to_powers_of_two():
    """Where a logarithm may round down."""
    rng = np.random.default_rng(0)
    exact = 2.0 ** np.arange(-1000, 1000)
    tried = [*exact, *np.nextafter(exact, np.inf), *10.0 ** rng.uniform(-300, 300, 4000)]
    for steps in (1, 8):
        said = np.array([round_up(x, steps) for x in tried])
        assert np.all(said >= tried)
        assert np.all(said <= np.array(tried) * 2 ** (1 / steps) * (1 + 1e-9))


def test_bound_of_known_numbers():
    """S = 0 gives λ; λS = 1/2 gives 2 λ ln 2; λS >= 1 gives nothing."""
    assert bound(0.3, 0.0).r == 0.3
    np.testing.assert_allclose(bound(0.25, 2.0).r, 0.5 * np.log(2))
    assert bound(0.5, 2.0).r == np.inf
    assert bound(np.inf, 1.0).reach == np.inf


def rows(n=240):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(n, 3))
    y = (rng.random(n) < 1 / (1 + np.exp(-X[:, 0]))).astype(float)
    return X, y, np.repeat(np.arange(4), [150, 60, 29, 1])[rng.permutation(n)]


def test_separation_by_a_dummy_is_named():
    X, y, site = rows()
    X[:, 1] = (np.arange(240) < 30) * 1.0
    y[:30] = 1
    with pytest.raises(ValueError, match="separation: x1 predicts some outcomes perfectly"):
        FederatedGLM().fit(X, y, groups=site)
    assert FederatedGLM(l2={"x1": 0.1}).fit(X, y, groups=site).converged_


INDICATORS = {  # by family: an outcome that the second column alone predicts in part
    "binomial": lambda x, noise: np.where(x == 1, 1.0, noise),
    "poisson": lambda x, noise: np.where(x == 1, 0.0, 3 * noise + 1),
    "multinomial": lambda x, noise: np.where(x == 1, 2 * noise, 1 + noise),
}


@pytest.mark.parametrize("answers", ["each", "sum"])
@pytest.mark.parametrize("family", INDICATORS)
def test_separation_blames_no_innocent_column(family, answers):
    X, noise, site = rows()
    X[:, 1] = np.arange(240) % 3 == 0
    y = INDICATORS[family](X[:, 1], noise)
    what = "counts of 0" if family == "poisson" else "outcomes"
    told = rf"separation: x1 predicts some {what} perfectly, .* leave out this column"
    with pytest.raises(ValueError, match=told):
        FederatedGLM(family, answers=answers).fit(X, y, groups=site % 3)
    FederatedGLM(family).fit(X[:, [0, 2]], y, groups=site)


def test_two_columns_that_separate_are_both_named():
    X, y, site = rows()
    X[:, 0], X[:, 1] = np.arange(240) % 5 == 0, np.arange(240) % 7 == 0
    y = np.where(X[:, 0] == 1, 1.0, np.where(X[:, 1] == 1, 0.0, y))
    X[::35, 1] = 0
    told = "separation: each of the columns x. and x. predicts some outcomes .* leave out these"
    with pytest.raises(ValueError, match=told):
        FederatedGLM().fit(X, y, groups=site)


def test_separation_by_columns_together_does_not_say_by_which():
    X, _, site = rows()
    y = (X[:, 0] + X[:, 2] > 0).astype(float)
    told = (
        "separation: one or more of the columns x., x.(, x1)? predict some outcomes perfectly, "
        ".*; leave out the columns that do so, merge levels, or give"
    )
    with pytest.raises(ValueError, match=told):
        FederatedGLM().fit(X, y, groups=site)


def test_a_column_with_an_empty_cell_and_a_penalty_is_not_blamed():
    X, y, site = rows()
    X[:, 1] = (np.arange(240) < 30) * 1.0
    y[:30] = 1
    X[:, 2] = np.where(y == 1, 1.0, -1.0) * (1 + X[:, 2] ** 2)
    with pytest.raises(ValueError, match="separation: x2 predicts"):
        FederatedGLM(l2={"x1": 0.1}).fit(X, y, groups=site)


def test_separation_by_a_threshold_is_named():
    X, y, site = rows()
    y = (X[:, 2] > 0).astype(float)
    with pytest.raises(ValueError, match="separation: x2 predicts some outcomes"):
        FederatedGLM().fit(X, y, groups=site)


def test_counts_of_zero_are_named():
    X, y, site = rows()
    X[:, 0] = (np.arange(240) < 20) * 1.0
    y = np.random.default_rng(0).poisson(1.0, 240).astype(float)
    y[:20] = 0
    with pytest.raises(ValueError, match="separation: x0 predicts some counts of 0"):
        FederatedGLM("poisson").fit(X, y, groups=site)


def test_separation_among_classes_is_named():
    X, y, site = rows()
    y = np.where(X[:, 1] > 0.5, 2, y)
    with pytest.raises(ValueError, match="separation: x1"):
        FederatedGLM("multinomial").fit(X, y, groups=site)


def test_a_separated_site_effect_has_another_remedy():
    """A penalty would leave it as it is, so that it is not offered."""
    rng = np.random.default_rng(0)
    X, site = rng.normal(size=(200, 2)), np.arange(200) % 4
    y = np.where(site == 2, 0.0, rng.integers(0, 2, 200))
    for l2 in (0.0, 10.0):
        with pytest.raises(
            ValueError, match=r"separation: site\[2\] .* or give site_effects='none'"
        ):
            FederatedGLM(site_effects="fixed", l2=l2).fit(X, y, groups=site)
    assert FederatedGLM().fit(X, y, groups=site).converged_


def test_separation_with_sites_absent():
    X, y, _ = rows()
    X[:, 1] = (np.arange(240) < 30) * 1.0
    y[:30] = 1
    with pytest.raises(ValueError, match="separation: x1"):
        FederatedGLM(absent=0.3, max_exchanges=200).fit(X, y, groups=np.arange(240) % 8)


def test_rare_events_are_no_separation():
    X, y, site = rows()
    X[:, 1] = (np.arange(240) < 60) * 1.0
    y[:60] = 0
    y[0] = 1  # one event among 60
    model = FederatedGLM().fit(X, y, groups=site)
    assert model.converged_
    assert model.n_exchanges_ <= 8
