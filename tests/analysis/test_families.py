"""Families and links: R says what the numbers are, and its call stands beside each."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from feddcd import FederatedGLM
from feddcd.analysis._sums import DesignRows, PointQuestion, answer
from feddcd.analysis.families import family_of

NONE = np.zeros(0)


@pytest.mark.parametrize(
    ("family", "Y", "expected"),
    [
        ("gaussian", [[3.0], [5.0]], 3.0**2 + 2 * 5.0**2),
        ("binomial", [[1.0], [0.0]], 0.25 / 0.25 + 2 * 0.25 / 0.25),
        ("poisson", [[3.0], [0.0]], 2.0**2 / 1 + 2 * 1.0 / 1),
        # (1 - 1/3)² 3 + 2 (1/3)² 3 = 2 for every row, whichever its class
        ("multinomial", [[1.0, 0.0], [0.0, 0.0]], 2.0 + 2 * 2.0),
    ],
)
def test_pearsons_sum_of_squares(family, Y, expected):
    """At w = 0, where all means are 0, 1/2, 1 or 1/3; the second row has weight 2."""
    Y = np.array(Y)
    k = Y.shape[1]
    rows = DesignRows(np.ones((2, 1)), Y, np.array([1.0, 2.0]), np.zeros(2))
    zero = np.zeros((1, k))
    asked = PointQuestion(zero, zero, NONE, np.zeros(k), NONE, np.ones(()), False)
    np.testing.assert_allclose(answer(rows, family_of(family), asked).pearson, expected)


FACTS = json.loads((Path(__file__).parent / "r" / "families.json").read_text())
CASES = {
    f"{i}-{c['family']}-{c['link']}": c for i, c in enumerate(FACTS["cases"]) if not c["theta"]
}


def fitted(case, **settings):
    d = pd.DataFrame(FACTS["data"][case["data"]])
    d["site"] = np.arange(len(d)) % 3
    formula = case["formula"].replace("I(ftv + 1)", "ftv1")
    model = FederatedGLM(case["family"], formula, case["link"], tol=1e-9, **settings)
    if "negative.binomial(1.5)" in case["call"]:
        model.set_params(theta=1.5)
    weight = case["weight"] or None
    return model.fit(d.assign(ftv1=d.get("ftv", 0) + 1), groups="site", sample_weight=weight)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_table_that_r_prints(case):
    """The call is in families.json, made by families.R."""
    model = fitted(case)
    assert model.converged_
    table, std_err = model.table_, np.array(case["std_err"])
    # R stops where the deviance, 225 at most, changes by less than 1e-14 of itself
    np.testing.assert_allclose(table["std_err"], std_err, rtol=1.5e-6)
    np.testing.assert_array_less(abs(table["coef"] - case["coef"]), 1.5e-6 * std_err)
    for name in ("dispersion", "deviance"):
        np.testing.assert_allclose(getattr(model, f"{name}_"), case[name], rtol=1e-7, err_msg=name)
    for name in ("aic", "log_likelihood"):
        expected = np.nan if case[name] is None else case[name]
        np.testing.assert_allclose(getattr(model, f"{name}_"), expected, rtol=1e-7, err_msg=name)
