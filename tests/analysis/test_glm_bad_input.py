"""Bad input is refused at the door, by name, row and value.

A site with one row is fine: test_glm has one."""

import re
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from feddcd import FederatedGLM
from feddcd._errors import DataError
from feddcd.analysis._targets import code
from feddcd.analysis.protocol import Agreement

N = 24


def frame():
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "age": rng.normal(50, 9, N), "dose": rng.normal(size=N), "sex": ["f", "m", "m"] * 8,
            "death": [0, 1] * (N // 2), "count": [0, 1, 4] * (N // 3),
            "site": ["a", "b", "c", "d"] * 6,
        }
    )  # fmt: skip


def put(column, row, value):
    """The frame with one value replaced."""
    data = frame().astype({column: object})
    data.loc[row, column] = value
    numeric = not isinstance(value, str) and column in ("age", "dose")
    return data.astype({column: float}) if numeric else data


def array(row=None, value=np.nan):
    X = frame()[["age", "dose"]].to_numpy(copy=True)
    if row is not None:
        X[row, 1] = value
    return X


def ones(row=None, value=1.0):
    x = np.ones(N)
    if row is not None:
        x[row] = value
    return x


Y, SITE = np.array([0.0, 1.0] * (N // 2)), np.array(["a", "b", "c", "d"] * 6)
F = "death ~ age + dose"


def case(message, settings=None, data=None, **fit):
    return pytest.param(settings or {}, data, fit, message, id=message[:40])


def by_formula(message, formula=F, data=None, groups="site", family="binomial", **settings):
    data = frame() if data is None else data
    fit = {k: settings.pop(k) for k in ("y", "sample_weight", "offset") if k in settings}
    return case(
        message, {"formula": formula, "family": family} | settings, data, groups=groups, **fit
    )


def by_array(message, X=None, y=Y, groups=SITE, **settings):
    fit = {k: settings.pop(k) for k in ("sample_weight", "offset") if k in settings}
    return case(message, settings, array() if X is None else X, y=y, groups=groups, **fit)


CASES = [
    # settings
    by_array((
        "family must be one of gaussian, binomial, poisson, multinomial, quasibinomial, "
        "quasipoisson, gamma, inverse_gaussian, negative_binomial, ordinal; got 'weibull'"
    ), family="weibull"),
    by_array("got 'logistic'; did you mean 'binomial'?", family="logistic"),
    by_array("got 'linear-regression'; did you mean 'gaussian'?", family="linear-regression"),
    by_array((
        "the family comes before the formula; got the formula 'y ~ C(sex)' as the family. Write "
        "FederatedGLM('binomial', 'y ~ C(sex)')"
    ), family="y ~ C(sex)"),
    by_array("link must be one of inverse, log, identity; got 'logit'", family="Gamma",
             link="logit"),
    by_array("must be above 0 for gamma, got 0", family="Gamma"),
    by_array("'pointsaga' works only with gaussian", family="Gamma", algorithm="pointsaga"),
    by_array("algorithm must be one of auto, newton, pointsaga; got 'fedavg'", algorithm="fedavg"),
    by_array("site_effects must be one of none, fixed; got 'random'", site_effects="random"),
    by_array("must be one of model, HC0, HC1, HC2, HC3, cluster; got 'HC5'", covariance="HC5"),
    by_array("missing must be one of drop, error; got 'mean'", missing="mean"),
    by_array("tol, in standard errors, must be a finite number > 0; got tol=0", tol=0),
    by_array("tol, in standard errors, must be a finite number > 0; got tol=-0.1", tol=-0.1),
    by_array("tol, in standard errors, must be a finite number > 0; got tol='small'", tol="small"),
    by_array("must be at least 0 and below 1, got absent=1", absent=1),
    by_array("need a whole number max_exchanges >= 2, got 1", max_exchanges=1),
    by_array("need a whole number max_exchanges >= 2, got 7.5", max_exchanges=7.5),
    by_array("need a whole number random_state >= 0, got None", random_state=None),
    # penalties
    by_array("l2 of the coefficient 'x0' must be finite and >= 0, got -1", l2=-1.0),
    by_array("l2 of the coefficient 'x0' must be finite and >= 0, got nan", l2=float("nan")),
    by_array("l2: there is no coefficient 'x7'; the coefficients are Intercept, x0, x1",
             l2={"x7": 1.0}),
    by_array("l2 of the coefficient 'x1' must be finite and >= 0, got -2", l2={"x1": -2.0}),
    by_array("l2 of the coefficient 'x1' must be a number, got 'a'", l2={"x1": "a"}),
    by_array("the intercept is never penalised; leave it out of l2", l2={"Intercept": 1.0}),
    by_array("l2 has shape (3,), but it must have one value for each of the 2", l2=[1.0, 2.0, 3.0]),
    by_array("l2 must be a number, a dict or an array, got 'lots'", l2="lots"),
    # formulas
    by_formula("there is no column 'agee'; did you mean 'age'? the columns are", "death ~ agee"),
    by_formula("formula: there is no column 'dead'; did you mean 'death'?", "dead ~ age"),
    by_formula("a formula must have the form 'y ~ x1 + x2', got 'age + dose'", "age + dose"),
    by_formula("got 'death = age + dose'. Write ~ in place of =", "death = age + dose"),
    by_formula("there is nothing on the left of ~ in the formula '~ age'", "~ age"),
    by_formula("there is nothing on the right of ~ in the formula 'death ~ '", "death ~ "),
    by_formula("C( has no closing bracket in the formula 'death ~ C(sex'", "death ~ C(sex"),
    by_formula("offset( has no closing bracket in the formula", "death ~ age + offset(log(dose)"),
    by_formula("must be a term of its own, as in y ~ x + offset", "death ~ age * offset(dose)"),
    by_formula("offset() is empty", "death ~ age + offset()"),
    by_formula("formula: log(sex): sex contains words, not numbers", "death ~ log(sex)"),
    by_formula("log(dose) is nan at row", "death ~ age + log(dose)"),
    by_formula("offset(log(time)) is -inf at row 5 (counted from 0), where time is 0, "
               "but it must be",
               "count ~ age + offset(log(time))",
               frame().assign(time=ones(5, 0.0)), family="poisson"),
    by_formula("offset(sex) must be one column of numbers, but the column 'sex'",
               "death ~ age + offset(sex)"),
    by_formula("the formula already has the outcome 'death', so leave out y", y=Y),
    by_formula("a formula needs a DataFrame, got ndarray", data=array(), groups=SITE),
    by_formula("an offset has no meaning for family='multinomial'", "sex ~ age + offset(dose)",
               family="multinomial"),
    # columns and values
    by_formula("age must be numbers, got 'old' at row 3 (counted from 0)",
               data=put("age", 3, "old")),
    by_formula("age must be numbers, got '<0.5' at row 3 (counted from 0), which is a limit and "
               "not a number. Replace such values by numbers.", data=put("age", 3, "<0.5")),
    by_formula("age must be numbers, got '<0.5' at row 3 (counted from 0), which is a limit",
               "death ~ log(age)", put("age", 3, "<0.5")),
    by_formula("age must be numbers, got '71,5' at row 3 (counted from 0). Write 71.5, or read the "
               "file with decimal=','", data=put("age", 3, "71,5")),
    by_array("sex must be numbers, got 'f' at row 0", frame()[["age", "sex"]]),
    by_array("age must be numbers, got 'old' at row 3 (counted from 0)",
             put("age", 3, "old")[["age"]]),
    by_array("age must be a column of numbers, but has the", frame()[["age"]].astype("category")),
    by_formula("7 (counted from 0); to leave out such rows, give missing='drop'",
               data=put("dose", 7, np.nan), missing="error"),
    by_array("'x1' has no value at row 4", array(4), missing="error"),
    by_array("'y' has no value at row 2",
             y=np.where(np.arange(N) == 2, np.nan, Y), missing="error"),
    by_array("'offset' has no value at row 6", offset=ones(6, np.nan), missing="error"),
    by_array("x1 is inf at row 4 (counted from 0), but it must be a finite",
             array(4, np.inf), missing="error"),
    by_array("x1 is -inf at row 9 (counted from 0), but it must be a finite number",
             array(9, -np.inf)),
    by_array("no row has values in all columns; 'x1' has no value in 24 rows", array(slice(None))),
    by_array("X has no rows (its shape is (0, 2))", np.zeros((0, 2)), [], []),
    by_formula("the data frame has no rows", data=frame()[:0]),
    by_array("X must have two dimensions, rows and columns; got shape (24,)", np.ones(N)),
    by_array("the column 'a' occurs twice", pd.DataFrame(array(), columns=["a", "a"])),
    by_array("y has 23 values, but the table has 24 rows", y=Y[:-1]),
    by_array("y is missing: give y, or a formula with the outcome", y=None),
    by_array("sample_weight has 3 values, but the table has 24 rows", sample_weight=[1, 2, 3]),
    by_array("offset must have shape (24,), got (24, 1)", offset=np.ones((N, 1))),
    by_array("must be finite and >= 0, got -1.0 at row 3", sample_weight=ones(3, -1.0)),
    by_array("must be finite and >= 0, got nan at row 3", sample_weight=ones(3, np.nan)),
    by_array("sample_weight is zero in every row", sample_weight=0 * ones()),
    by_array("sample_weight must be numbers, got 'much'", sample_weight=["much"] * N),
    by_array(
        "no column is left for X; already in use: '", frame()[["site", "death"]], y="death",
        groups="site",
    ),
    # sites
    by_array("the argument 'groups' is missing: give the site of each row", groups=None),
    by_array("groups has 2 values, but the table has 24 rows", groups=["a", "b"]),
    by_formula((
        "groups: there is no column 'sit'; did you mean 'site'? the columns are age, dose, sex, "
        "death, count, site"
    ), groups="sit"),
    by_formula("'groups' has no value at row 8 (counted from 0), but each row",
               data=put("site", 8, None)),
    by_array("'groups' contains both numbers and words",
             groups=np.array([1, "a"] * (N // 2), dtype=object)),
    # responses
    by_array("the outcome 'y' has the value 2 at row 5 (counted from 0), but nearly all other "
             "values are 0 or 1. If this value is a mistake, correct it. "
             "family='binomial' needs 0 and 1",
             y=np.where(np.arange(N) == 5, 2, Y)),
    by_array("the outcome 'y' has the two values 1 and 2, but family='binomial' needs 0 and 1. If "
             "2 means the event, add event=2", y=Y + 1),
    by_array("'y' must be 0 or 1, or a share of successes if sample_weight has the number of "
             "trials, got 0.5 at row 5", y=np.where(np.arange(N) == 5, 0.5, Y)),
    by_array("y must be numbers, got 'yes' at row 0", y=["yes", "no"] * (N // 2),
             family="gaussian"),
    by_array("the outcome 'y' has 3 different values, 'a', 'b', 'c', but family='binomial' needs "
             "two",
             y=["a", "b", "c"] * (N // 3)),
    by_array("the outcome 'y' is 'a' in every row, but family binomial needs two values",
             y=["a"] * N),
    by_array("event='dead' is not possible, because 'y' has only the values 'no' and 'yes'.",
             y=["yes", "no"] * (N // 2), event="dead"),
    by_array("event='yes' works only with family='binomial' or family='quasibinomial'",
             family="poisson", event="yes"),
    by_array("'y' is 1 in every row, but binomial needs both 0 and 1", y=ones()),
    by_array("'y' must be a count (a number >= 0), got -1 at row 1", y=-Y, family="poisson"),
    by_array("'y' is 0 in every row, so no finite model fits the data", y=0 * Y, family="poisson"),
    by_array("'y' must be finite, got inf at row 2", y=ones(2, np.inf), family="gaussian"),
    by_array("'y' is 1 in every row", y=ones(), family="gaussian"),
    by_array("'y' is 1.0 in every row, but multinomial needs two", y=ones(), family="multinomial"),
    by_array("'y': the class 2.0 occurs only once, at row 5 (counted from 0), but must "
             "occur at least twice",
             y=np.where(np.arange(N) == 5, 2, Y), family="multinomial"),
    # models without one answer
    by_array("the column 'x1' has the same value in every row", np.c_[array()[:, :1], 3 * ones()]),
    by_array("the column 'x1' is 0 in every row", np.c_[array()[:, :1], 0 * ones()]),
    by_array("the column 'x2' can be computed from 'x0', 'x1'", np.c_[array(), array() @ [2, -1]]),
    by_formula("'C(sex2)[T.m]' can be computed from", "death ~ C(sex) + C(sex2)",
               frame().assign(sex2=frame()["sex"])),
    by_formula("'site[b]' can be computed from", "death ~ age + C(site)", site_effects="fixed"),
    by_array("a model with 4 coefficients needs more than 4 rows, got 3", np.eye(3),
             [1, 2, 3.0], [1, 1, 2], family="gaussian"),
]  # fmt: skip


@pytest.mark.parametrize(("settings", "data", "fit", "message"), CASES)
def test_refused_by_name(settings, data, fit, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        FederatedGLM(**settings).fit(data, **fit)


@cache
def fitted():
    return FederatedGLM("gaussian", "age ~ dose + C(sex)").fit(frame(), groups="site")


@cache
def fitted_array():
    return FederatedGLM("gaussian").fit(array(), frame()["age"] + Y, groups=SITE)


def test_there_are_many():
    assert len(CASES) >= 40


@pytest.mark.parametrize(
    ("X", "options", "message"),
    [
        (
            frame().assign(sex="x"),
            {},
            "sex has 'x' at row 0 (counted from 0), but the fit knows only the levels",
        ),
        (frame().drop(columns="dose"), {}, "X has no column 'dose', which the formula needs"),
        (array(), {}, "a formula needs a DataFrame, got ndarray"),
        ("p.csv", {}, "needs a DataFrame, got str. Read the file with pandas.read_csv first"),
        (frame(), {"offset": [1.0]}, "offset has 1 value, but the table has 24 rows"),
        (
            put("dose", 3, np.inf),
            {},
            "dose is inf at row 3 (counted from 0), but it must be a finite number",
        ),
    ],
)
def test_refused_at_predict(X, options, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        fitted().predict(X, **options)


def test_refused_at_predict_from_arrays():
    with pytest.raises(
        ValueError, match="X has the column 'x2', but the model was fitted without it"
    ):
        fitted_array().predict(np.ones((2, 3)))
    with pytest.raises(ValueError, match="x1 is inf at row 4"):
        fitted_array().predict(np.where(np.isnan(array(4)), np.inf, array(4)))
    assert np.flatnonzero(np.isnan(fitted_array().predict(array(4)))).tolist() == [4]


@pytest.mark.parametrize(("name", "value"), [("dose", np.nan), ("sex", None), ("sex", np.nan)])
def test_a_row_without_a_value_has_no_prediction(name, value):
    """As in R, and as `glm --predict` has it: the other rows keep theirs, and their places."""
    rows, broken = frame(), put(name, 3, value)
    wanted = fitted().predict(rows)
    wanted[3] = np.nan
    np.testing.assert_array_equal(fitted().predict(broken), wanted)
    named = broken.set_axis([f"p{i}" for i in range(len(broken))])
    found = fitted().predict(named, interval=0.9)
    np.testing.assert_array_equal(found["mean"], wanted)
    assert found.index.tolist() == named.index.tolist()
    assert found.loc["p3"].isna().all()
    wanted[4] = np.nan
    offset = np.where(np.arange(len(rows)) == 4, np.nan, 0)
    np.testing.assert_array_equal(fitted().predict(broken, offset=offset), wanted)
    assert np.isnan(fitted().predict(broken.iloc[[3]])).all()
    with pytest.raises(ValueError, match="sex has 'x' at row 5"):
        fitted().predict(broken.assign(sex=[*broken["sex"][:5], *["x"] * (len(rows) - 5)]))


def test_a_row_without_a_site_has_no_prediction_beside_effects_of_sites():
    fit = FederatedGLM("gaussian", "age ~ dose", site_effects="fixed").fit(frame(), groups="site")
    assert np.flatnonzero(np.isnan(fit.predict(put("site", 2, None)))).tolist() == [2]


@pytest.mark.parametrize("call", [lambda m: m.predict(array()), lambda m: m.summary()])
def test_not_fitted(call):
    with pytest.raises(ValueError, match="not fitted yet"):
        call(FederatedGLM())


def test_a_site_with_another_outcome_is_told_the_value_before_the_advice():
    rows: Any = SimpleNamespace(y=pd.Series([0, 2, 1], name="death"), weight=None)
    told = "'death' must be 0 or 1, got 2 at row 1 (counted from 0). For two other values, give "
    with pytest.raises(DataError, match=re.escape(f"{told}event=... for the one that counts as 1")):
        code("binomial", rows, Agreement({}, None, [], []))
