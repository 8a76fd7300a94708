"""What is proven of a point that nobody was asked at, from answers at points near by."""

import numpy as np
import pytest
from test_glm_certificate import ask, derivatives, newton_path, random_problems

from feddcd import FederatedGLM
from feddcd.analysis import _together
from feddcd.analysis._latest import Latest
from feddcd.analysis._points import inverse, penalties, upper_inverse
from feddcd.analysis._sums import PointQuestion
from feddcd.analysis._together import chi, expected, psi, together
from slices import sliced

NONE = np.zeros(0)


def remembered(problem, best, i, scale, rng):
    """Each site's answer at a point of its own, `scale` from the optimum in the norm of H, asked
    with the Hessian of another; and the columns' root mean squares."""
    model, (X, _, s, _) = problem.model, problem.rows
    D, H = np.sqrt(s @ X**2 / s.sum()), best.H[i]
    E, L = np.repeat(D, model.k), np.linalg.cholesky(inverse(H))
    off = lambda: (scale * L @ rng.normal(size=len(L))).reshape(best.w[i].shape)
    stacked = [x[None] for x in (*problem.rows[:3], model.penalty, best.w[i] + off())]
    other = derivatives(model.family, *stacked)[1][0]
    V, past = upper_inverse(other / np.outer(E, E), D, model.k), {}
    for site in model.sites:
        w = best.w[i] + off()
        said = ask(model, {site: problem.sites[site]}, w, {site: w}, V)[site]
        asked = PointQuestion(w, w, V, np.zeros(model.k), NONE, np.ones(()), False)
        past[site] = (Latest(w * D[:, None], said, asked, other / np.outer(E, E)),)
    return D, past


@pytest.mark.parametrize(
    "kind", sliced(["binomial", "poisson", "multinomial"], {"binomial", "multinomial"})
)
def test_never_below_the_true_error(kind):
    """Nor are the value, the standard errors and the gradient further off than is said."""
    problems, rng = random_problems(kind, 80, 11), np.random.default_rng(1)
    X, Y, s = (np.stack([p.rows[i] for p in problems]) for i in range(3))
    P = np.stack([p.model.penalty for p in problems])
    best, found, tight = newton_path(kind, X, Y, s, P)[-1], 0, []
    for i in np.flatnonzero(best.size <= 1e-10):
        for scale in 10.0 ** rng.uniform(-3, 0, 3):
            model = problems[i].model
            D, past = remembered(problems[i], best, i, scale, rng)
            near = past[model.sites[0]][0].w
            ended = together(model, D, past, near)
            if ended is None or not ended[0].bound.r < np.inf:
                continue
            now, answers = ended
            E = np.repeat(D, model.k)
            off, H = now.w.reshape(-1) - best.w[i].reshape(-1) * E, best.H[i] / np.outer(E, E)
            here, there = (np.sqrt(np.diag(inverse(A))) for A in (now.H, H))
            true = np.max(np.abs(off) / np.minimum(here, there))
            assert true <= now.bound.reach * (1 + 1e-9) + 1e-9
            assert np.sqrt(off @ now.H @ off) <= now.bound.r * (1 + 1e-9) + 1e-9
            ends = np.log(np.linalg.eigvals(np.linalg.solve(now.H, H)).real)
            assert np.max(np.abs(ends)) <= now.bound.turn + 1e-7
            lowest = objective(problems[i], best.w[i])
            assert -1e-7 <= now.objective - lowest <= now.slack + now.bound.r**2 + 1e-7
            g = sum(a.g for a in answers.values()) / E + penalties(model, D) * now.w.reshape(-1)
            assert np.max(np.abs(g)) < 1e-6  # of the sum of the models
            found += 1
            tight.append(true / now.bound.reach)
    assert found > 60
    assert np.median(tight) > 0.02


def objective(problem, w):
    asked = ask(problem.model, problem.sites, w, dict.fromkeys(problem.model.sites, w), NONE)
    own = np.sum(problem.model.penalty[:, None] * w**2) / 2
    return sum(float(a.value) for a in asked.values()) + own


def test_functions_of_known_numbers():
    """(e - 2)/1 and (e - 2.5)/1; of small numbers never below their series."""
    np.testing.assert_allclose([psi(1.0), chi(1.0)], [np.e - 2, np.e - 2.5])
    for rho in (1e-8, 9e-5, 2e-4, 9e-4, 2e-3):
        assert rho / 2 + rho**2 / 6 <= psi(rho) * (1 + 1e-9) <= rho / 2 * (1 + rho)
        assert rho / 6 + rho**2 / 24 <= chi(rho) * (1 + 1e-9) <= rho / 6 * (1 + rho)


def test_what_is_expected_of_one_point_is_about_half_of_its_square():
    np.testing.assert_allclose(expected(1e-3, 2.0).r, 1e-6, rtol=0.01)
    assert expected(1.0, 2.0).r == np.inf


def made(seed=3, n=1500):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    y = rng.random(n) < 1 / (1 + np.exp(-(X @ [0.9, -0.6, 0.4] + 0.2)))
    return X, y.astype(float), np.arange(n) % 25


@pytest.mark.chaos
def test_it_saves_exchanges_when_sites_are_absent(monkeypatch):
    monkeypatch.setattr("feddcd.analysis._regression.own_block", lambda *given: np.zeros(1))
    X, y, site = made()
    whole = FederatedGLM(tol=1e-8).fit(X, y, site)
    fit = lambda seed: FederatedGLM(tol=0.01, absent=0.3, max_exchanges=100, random_state=seed).fit(
        X, y, site
    )
    quick = [fit(seed) for seed in range(5)]
    monkeypatch.setattr(_together, "MOST", 0.0)
    slow = [fit(seed) for seed in range(5)]
    assert sum(m.n_exchanges_ for m in quick) <= sum(m.n_exchanges_ for m in slow) - 5
    for each in quick:
        apart = abs(each.table_["coef"] - whole.table_["coef"]) / whole.table_["std_err"]
        assert apart.max() <= each.certified_error_ <= 0.01
        ratio = np.log(each.table_["std_err"] / whole.table_["std_err"])
        assert ratio.abs().max() <= each.result_.doubts["std_err"] <= 0.1
        doubt = each.result_.doubts["deviance"]
        assert abs(each.result_.deviance - whole.result_.deviance) <= doubt + 1e-6
        assert each.bins_["weight"].sum() == len(y)


@pytest.mark.parametrize("tol", [1e-2, 1e-6])
def test_standard_errors_are_exact_to_ten_times_the_tolerance(tol):
    X, y, site = made()
    fit = FederatedGLM(tol=tol).fit(X, y, site)
    assert fit.result_.doubts["std_err"] <= _together.SHARP * tol
