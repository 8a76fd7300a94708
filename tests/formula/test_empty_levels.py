"""Levels that were declared and have no row: dropped and named, as R's lm and glm drop them."""

import json

import numpy as np
import pandas as pd
import pytest
from test_everywhere import federated

from feddcd import FederatedGLM
from feddcd._errors import DataError
from feddcd.analysis import export
from feddcd.analysis.plan import RegressionPlan
from feddcd.analysis.report._words import cautions

LEVELS = {"f": ["z", "a", "b", "y", "c"], "g": ["w", "u", "v"]}
EMPTY = {"f": ("z", "y"), "g": ("w",)}


def rows():
    i = np.arange(48)
    x = i * 7 % 11 / 10
    d = {"f": np.array(list("abc"))[i % 5 % 3], "g": np.array(list("uv"))[i % 7 % 2]}
    return pd.DataFrame({"y": i * 13 % 17 / 5 + x, "x": x, **d, "site": i % 4})


def in_one_process(formula):
    kinds = {c: pd.CategoricalDtype(levels) for c, levels in LEVELS.items()}
    model = FederatedGLM("gaussian", formula, tol=1e-9).fit(rows().astype(kinds), groups="site")
    return model.result_


def over_sites(formula):
    return federated(rows(), RegressionPlan(formula, "gaussian", tol=1e-9, levels=LEVELS))


# coef(summary(lm(formula, d)))[, 1:2], where f and g are factors with the levels above
R = {
    "y ~ x + f": {
        "Intercept": (1.6447365044203, 0.320332968544),
        "x": (1.0632191282775, 0.467893874784),
        "f[T.b]": (-0.0882033133649, 0.338078208606),
        "f[T.c]": (-0.1988748336902, 0.407357403828),
    },
    "y ~ x * f + f * g": {
        "Intercept": (2.0467675378267, 0.515222136796),
        "x": (0.5606722086000, 0.753401197732),
        "f[T.b]": (-1.1335268985836, 0.690563125300),
        "f[T.c]": (0.0706237665211, 0.844712219613),
        "g[T.v]": (-0.3266431433527, 0.477946487835),
        "x:f[T.b]": (1.4293468302277, 1.038595414629),
        "x:f[T.c]": (-1.1693678607739, 1.348363010349),
        "f[T.b]:g[T.v]": (0.7619630533509, 0.685723153069),
        "f[T.c]:g[T.v]": (0.9049040129179, 0.842534023505),
    },
    "y ~ 0 + f + g": {
        "f[a]": (2.043667912952, 0.302756540889),
        "f[b]": (2.048988591698, 0.277551228184),
        "f[c]": (1.953187613843, 0.369093973441),
        "g[T.v]": (0.167030965392, 0.321768666180),
    },
}


@pytest.mark.parametrize("fit", [in_one_process, over_sites])
@pytest.mark.parametrize("formula", R)
def test_the_next_level_is_the_reference_as_in_r(formula, fit):
    found = fit(formula)
    r = pd.DataFrame(R[formula], index=["coef", "std_err"]).T
    assert list(found.table.index) == list(r.index)
    np.testing.assert_allclose(found.table[["coef", "std_err"]], r, rtol=1e-9)
    expected = {c: level for c, level in {"f": "a", "g": "u"}.items() if c in formula[3:]}
    assert found.references == {c: v for c, v in expected.items() if f"0 + {c}" not in formula}


@pytest.mark.parametrize("fit", [in_one_process, over_sites])
def test_they_are_named_wherever_the_table_is(fit):
    found = fit("y ~ x * f + f * g")
    assert found.empty_levels == EMPTY
    assert found.left_out == ()
    several = "f: no row has the levels 'z', 'y', so the table has no coefficients for them"
    assert several in found.summary()
    one = "g: no row has the level 'w', so the table has no coefficient for it."
    assert one in cautions(found)
    told = json.loads(json.dumps(export.document(found)))
    assert told["empty_levels"] == {"f": ["z", "y"], "g": ["w"]}
    assert told["references"] == {"f": "a", "g": "u"}
    with pytest.raises(
        DataError,
        match=r"f has 'z' at row 0 \(counted from 0\), "
        r"but the fit knows only the levels 'a', 'b', 'c'",
    ):
        found.predict(rows().assign(f="z"))


def test_of_any_contrasts():
    """Of the levels that are there: as without a word on the others."""
    formula = "y ~ x + C(f, Sum) * g"
    plain = FederatedGLM("gaussian", formula, tol=1e-9).fit(rows(), groups="site")
    for fit in (in_one_process, over_sites):
        pd.testing.assert_frame_equal(fit(formula).table, plain.table_, rtol=1e-7)


@pytest.mark.parametrize(
    ("formula", "levels", "said"),
    [
        ("y ~ C(f, ref='z')", LEVELS, (
            r"no row of any site has the values 'z', 'y' of the column 'f'\. Without these "
            r"levels, feddcd cannot use the column: formula: C\(f, ref='z'\): 'z' is not one of "
            r"the levels 'a', 'b', 'c'"
        )),
        ("y ~ f + one", LEVELS | {"one": ["k", "l"]},
         (
             r"no row of any site has the value 'l' of the column 'one'\. Without this level, "
             "feddcd cannot use the column: one has only the level 'k', so this column cannot be a "
             "predictor; leave"
         )),
    ],
)  # fmt: skip
def test_where_no_other_can_be_taken_that_is_said(formula, levels, said):
    plan = RegressionPlan(formula, "gaussian", levels=levels)
    with pytest.raises(DataError, match=said):
        federated(rows().assign(one="k"), plan)
