"""The null deviance is that of the best constant beside the offset: R says what it is."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import expit, xlogy

from feddcd import FederatedGLM
from r_data import insurance, mtcars
from slices import thinned

FORMULAS = ["C(District) + C(Group) + C(Age)", "C(District)", "C(Age)"]


@pytest.mark.parametrize("right", FORMULAS)
def test_insurance_whatever_the_columns(right):
    """glm(Claims ~ ... + offset(log(Holders)), poisson, Insurance)$null.deviance"""
    model = FederatedGLM("poisson", f"Claims ~ {right} + offset(log(Holders))")
    model.fit(insurance(), groups="site")
    np.testing.assert_allclose(model.null_deviance_, 236.2589588789, rtol=1e-11)
    assert model.n_exchanges_ <= 5


def test_without_intercept_it_is_the_offset_alone():
    """glm(mpg ~ 0 + wt + hp)$null.deviance, and glm(mpg ~ 0 + wt + offset(hp/20))"""
    plain = FederatedGLM("gaussian", "mpg ~ 0 + wt + hp").fit(mtcars(), groups="site")
    np.testing.assert_allclose(plain.null_deviance_, 14042.31, rtol=1e-11)
    beside = FederatedGLM("gaussian", "mpg ~ 0 + wt + offset(hp/20)").fit(mtcars(), groups="site")
    np.testing.assert_allclose(beside.null_deviance_, 7691.735, rtol=1e-11)


def test_least_squares_beside_an_offset():
    """glm(mpg ~ wt + offset(hp/20))$null.deviance"""
    model = FederatedGLM("gaussian", "mpg ~ wt + offset(hp/20)").fit(mtcars(), groups="site")
    np.testing.assert_allclose(model.null_deviance_, 2484.63375, rtol=1e-11)


def best(family, y, o):
    """Where the derivative is 0, by bisection; the deviance there."""
    mean = np.exp if family == "poisson" else expit
    c = brentq(lambda c: np.sum(mean(np.minimum(o + c, 700)) - y), -400, 400, xtol=1e-13)
    z = o + c
    if family == "poisson":
        return 2 * np.sum(xlogy(y, y) - y * z - y + np.exp(z))
    return 2 * np.sum(np.logaddexp(0, z) - y * z)


@pytest.mark.parametrize("family", thinned(["poisson", "binomial"], 2))
@pytest.mark.parametrize("spread", [0.5, 3, 10, 30])
@pytest.mark.parametrize("seed", [0, 1])
def test_wild_offsets(family, spread, seed):
    rng = np.random.default_rng(seed)
    x, o = rng.normal(size=(2, 400)) * [[1], [spread]]
    z = 0.3 * x + o * min(1, 1 / spread)
    y = rng.poisson(np.exp(z)) if family == "poisson" else (rng.random(400) < expit(z)) * 1.0
    model = FederatedGLM(family).fit(x[:, None], y, groups=np.arange(400) % 4, offset=o)
    np.testing.assert_allclose(model.null_deviance_, best(family, y, o), rtol=1e-9)
    if spread <= 3:
        assert model.n_exchanges_ <= 7
