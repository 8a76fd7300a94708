"""Columns that nearly depend on others are taken in another basis: R has the numbers."""

import numpy as np
import pandas as pd
import pytest

from feddcd import FederatedGLM

# i <- 0:119; year <- 1995 + i %% 11; x <- sin(i), and the outcomes of `years` below
R = {  # coef(summary(lm or glm(... ~ year + I(year^2) + x, epsilon = 1e-15)))
    "gaussian": (
        [-195335.510110447, 194.934782805037, -0.0486327658045427, 0.695867662984138],
        [30323.7583366962, 30.324291889997, 0.00758119133358239, 0.0941870599560753],
    ),
    "binomial": (
        [-173199.13195805, 173.085815130831, -0.0432431273527054, 0.0802367310448401],
        [92274.4525167573, 92.266154394425, 0.0230644244139054, 0.271297900272234],
    ),
    "poisson": (
        [-9996.44376689074, 9.99728123118458, -0.00249925102131585, 0.020467629945568],
        [24333.4989639311, 24.3338926647835, 0.00608355983980725, 0.0750614119245653],
    ),
}
WITHOUT = (
    [-0.40411681746891, 0.000202685948032257, 0.69960325216736],
    [0.0245253392153738, 1.22628487822743e-05, 0.109275685493104],
)
OUTCOME = {"gaussian": "y", "binomial": "b", "poisson": "n"}


def years():
    i = np.arange(120)
    t, x = i % 11 - 5.0, np.sin(i)
    b = 1.5 * np.cos(5 * i) + 0.1 * t - 0.04 * t**2 + 0.5 * x > 0
    return pd.DataFrame({
        "year": 2000 + t, "x": x, "y": 3 + 0.4 * t - 0.05 * t**2 + 0.7 * x + np.cos(3 * i),
        "b": b.astype(float), "n": i % 7, "site": i % 4, "t": t,
    })  # fmt: skip


@pytest.mark.parametrize("family", R)
@pytest.mark.parametrize("effects", ["none", "fixed"])
def test_year_and_its_square(family, effects):
    """As R has it; with site effects as the same model of years counted from 2000."""
    frame, outcome = years(), OUTCOME[family]
    fit = lambda right: FederatedGLM(family, f"{outcome} ~ {right}", site_effects=effects).fit(
        frame, groups="site"
    )
    model, small = fit("year + I(year**2) + x"), fit("t + I(t**2) + x")
    assert model.converged_
    assert model.n_exchanges_ <= small.n_exchanges_ + 2  # another basis, another first guess
    if effects == "none":
        coef, std_err = R[family]
        np.testing.assert_allclose(model.table_["coef"], coef, rtol=1e-6)
        np.testing.assert_allclose(model.table_["std_err"], std_err, rtol=1e-6)
    square = ["coef", "std_err"]
    np.testing.assert_allclose(
        model.table_.loc["I(year^2)", square], small.table_.loc["I(t^2)", square], rtol=1e-6
    )
    np.testing.assert_allclose(model.deviance_, small.deviance_, rtol=1e-9)
    groups = "site" if effects == "fixed" else None
    expected = small.predict(frame, groups=groups)
    np.testing.assert_allclose(model.predict(frame, groups=groups), expected, rtol=1e-6, atol=1e-9)


def test_without_an_intercept():
    """lm(y ~ 0 + year + I(year^2) + x)"""
    model = FederatedGLM("gaussian", "y ~ 0 + year + I(year**2) + x").fit(years(), groups="site")
    coef, std_err = WITHOUT
    np.testing.assert_allclose(model.table_["coef"], coef, rtol=1e-6)
    np.testing.assert_allclose(model.table_["std_err"], std_err, rtol=1e-6)


@pytest.mark.parametrize("standardize", [False, True])
def test_penalised_and_standardised(standardize):
    """The same optimum as of columns about 0, the penalty being of slopes alone."""
    frame = years()
    frame["t2"], frame["year2"] = frame["t"] ** 2, frame["year"] ** 2
    options = {"l2": {"x": 3.0}, "standardize": standardize}
    fit = lambda right: FederatedGLM("binomial", f"b ~ {right} + x", **options).fit(
        frame, groups="site"
    )
    model, small = fit("year + year2"), fit("t + t2")
    np.testing.assert_allclose(model.table_.loc["x"], small.table_.loc["x"], rtol=1e-6)
    np.testing.assert_allclose(model.predict(frame), small.predict(frame), rtol=1e-6)
    if standardize:
        np.testing.assert_allclose(
            model.table_.loc["Intercept"], small.table_.loc["Intercept"], rtol=1e-6
        )


def test_each_site_does_so_with_its_own_rows():
    frame = years()
    model = FederatedGLM("gaussian", "y ~ year + I(year**2) + x").fit(frame, groups="site")
    small = FederatedGLM("gaussian", "y ~ t + I(t**2) + x").fit(frame, groups="site")
    own, expected = (m.site_table_.loc[name] for m, name in (
        (model, "I(year^2)"), (small, "I(t^2)")
    ))  # fmt: skip
    np.testing.assert_allclose(own, expected, rtol=1e-6)


DEPENDENT = {
    "y ~ year + I(year**2) + I(year**3)": r"'I\(year\^3\)' can be computed from",  # NA in R
    "y ~ year + I(2 * year + 3)": r"'I\(2 \* year \+ 3\)' can be computed from 'Intercept', 'year'",
    "y ~ year + I(year**2) + I((year - 2000)**2)": "can be computed from 'Intercept', 'year', 'I",
    "y ~ x + I(0 * x + 7)": r"'I\(0 \* x \+ 7\)' has the same value in every row",
    "y ~ x + I(0 * x)": r"'I\(0 \* x\)' is 0 in every row",
}


@pytest.mark.parametrize("formula", DEPENDENT)
def test_what_truly_depends_is_still_named(formula):
    with pytest.raises(ValueError, match=DEPENDENT[formula]):
        FederatedGLM("gaussian", formula).fit(years(), groups="site")
