"""What is printed is proven: an optimum anywhere within the bounds prints the same digits."""

import math
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from feddcd import FederatedGLM
from feddcd.analysis import _digits as digits
from feddcd.analysis._digits import UNKNOWN, Range, decimals, probability, significant
from feddcd.analysis._places import proven_ratios, ratios
from feddcd.analysis.report import _journal
from slices import thinned

CASES = [
    (significant, Range(1.23449, 1.23451), "1.23"),
    (significant, Range(1.23451, 1.23452), "1.235"),
    (significant, Range(0.1200000, 0.1200001), "0.1200"),
    (significant, Range(12345.6, 12345.7), "1.235e+04"),
    (significant, Range(-0.00012341, -0.00012339), "-0.0001234"),
    (significant, Range(1.08, 1.38), "1"),
    (significant, Range(0.9, 2.1), UNKNOWN),
    (significant, Range(-1e-9, 1e-9), UNKNOWN),
    (significant, Range(-math.inf, math.inf), UNKNOWN),
    (significant, Range(math.nan, math.nan), UNKNOWN),
    (decimals, Range(2.3454, 2.3456), "2.35"),
    (decimals, Range(-0.0001, 0.0001), "0.000"),
    (decimals, Range(0.4, 0.6), UNKNOWN),
    (probability, Range(0, 0.00099), "<0.001"),
    (probability, Range(0.0494, 0.0506), "0.05"),
    (probability, Range(0.0, 1.0), UNKNOWN),
]  # fmt: skip


@pytest.mark.parametrize(("form", "given", "text"), CASES)
def test_digits_that_both_ends_have(form, given, text):
    assert form(given) == text


def test_a_number_far_below_its_standard_error_is_0_to_its_places():
    assert significant(Range(-1e-9, 1e-9), unit=0.2) == "0.00"
    assert significant(Range(-3.0, 4.0), unit=0.2) == UNKNOWN


@settings(max_examples=300, deadline=None)
@given(
    z=st.floats(-40, 40), log_se=st.floats(-9, 9), log_e=st.floats(-9, 0),
    log_q=st.floats(-9, 0), move=st.floats(-1, 1), grow=st.floats(-1, 1),
)  # fmt: skip
def test_an_optimum_within_the_bounds_prints_the_same(z, log_se, log_e, log_q, move, grow):
    """Each bound holds what the optimum has, wherever that is."""
    se, e, q, t = np.exp(log_se), 10**log_e, 10**log_q, 1.96
    w = z * se
    best, error = w + move * e * se, se * np.exp(grow * q)
    tail = lambda x: float(2 * ndtr(-abs(x)))
    value = digits.statistic(w, se, e, q)
    held = [
        (digits.coefficient(w, se, e), best),
        (digits.standard_error(se, q), error),
        (value, best / error),
        (digits.p_value(value, tail), tail(best / error)),
        (digits.limit(w, se, -t, e, q), best - t * error),
        (digits.limit(w, se, t, e, q), best + t * error),
    ]
    for bound, true in held:
        slack = 1e-12 * max(abs(bound.low), abs(bound.high), se)
        assert bound.low - slack <= true <= bound.high + slack
        if (text := significant(bound)) != UNKNOWN:
            last = 10.0 ** Decimal(text).as_tuple().exponent
            assert abs(float(text) - true) <= last / 2 + slack


def rows():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(240, 3))
    y = (rng.random(240) < 1 / (1 + np.exp(-X @ [1.2, -0.8, 0.1]))).astype(float)
    return X, y, np.arange(240) % 4


def printed(model):
    """The cells of the table's rows, by name; ratios behind."""
    lines = model.summary().splitlines()
    cells = {}
    for line in lines:
        name, *rest = line.split() or [""]
        if name in ("Intercept", "x0", "x1", "x2"):
            cells.setdefault(name, []).extend(rest)
    return cells


@pytest.mark.filterwarnings("ignore:the certificate does not reach")
@pytest.mark.parametrize("covariance", thinned(["model", "cluster", "HC0", "HC3"], 2))
def test_what_few_exchanges_print_is_true(covariance):
    """Every digit of an early table is one of the exact table's."""
    X, y, site = rows()
    fit = lambda **more: FederatedGLM(covariance=covariance, **more).fit(X, y, groups=site)
    exact = fit(tol=1e-11).table_
    names = ["coef", "std_err", "z", "p", "ci_low", "ci_high", "ratio", "ratio_low", "ratio_high"]
    counts = []
    for exchanges in (2, 3, 4, 5):
        last = int(covariance != "model")  # robust standard errors take one more
        model = fit(tol=1e-11, max_exchanges=exchanges + last)
        told = [
            (text, exact.loc[label, name])
            for label, line in printed(model).items()
            for name, text in zip(names[: 6 if label == "Intercept" else 9], line, strict=True)
            if text not in (UNKNOWN, "<0.001")
        ]
        counts.append(sum(len(text.strip("-0.")) for text, _ in told))
        for text, true in told:
            last = 10.0 ** Decimal(text).as_tuple().exponent
            assert abs(float(text) - true) <= last / 2 * (1 + 1e-9)
    assert counts == sorted(counts)
    assert counts[0] < counts[-1]


def test_an_optimum_without_bound_prints_no_digit():
    X, y, site = rows()
    with pytest.warns(UserWarning, match="the certificate does not reach"):
        model = FederatedGLM(max_exchanges=2, tol=1e-11).fit(10 * X, y, groups=site)
    if math.isinf(model.certified_error_):
        assert set(printed(model)["x0"]) == {UNKNOWN}
    assert "NOT proven" in model.summary()


def test_where_rounding_allows_no_more_that_is_said():
    """Incomes of a million that differ by a few: more exchanges would not help."""
    rng = np.random.default_rng(0)
    x = 2000 + rng.integers(0, 9, 300)
    y = 1e9 + x + rng.normal(size=300)
    with pytest.warns(UserWarning, match="the certificate does not reach"):
        model = FederatedGLM("gaussian").fit(x[:, None], y, groups=np.arange(300) % 3)
    assert "rounding errors allow no smaller bound" in model.summary()
    assert "allow more exchanges" not in model.summary()


def test_the_terminal_and_the_report_have_the_same_ratios_and_none_hides_that_it_is_not_1():
    rng = np.random.default_rng(2)
    age = rng.uniform(20, 100, 400)
    rows = pd.DataFrame({"age": age, "sex": rng.choice(["f", "m"], 400)})
    rows["death"] = (rng.random(400) < 1 / (1 + np.exp(3 - 0.04 * age))).astype(int)
    fit = FederatedGLM("binomial", "death ~ age + I(age^2) + sex").fit(rows).result_
    told = [line.split()[1:] for line in fit.summary().split("odds ratio")[1].splitlines()[2:5]]
    cells = [each for each in _journal.cells(fit) if each.ratio]
    assert told == [[each.ratio, *each.ratio_ends] for each in cells]
    for line, row in zip(told, fit.table.iloc[1:].itertuples(), strict=True):
        for text, true in zip(line, (row.ratio, row.ratio_low, row.ratio_high), strict=True):
            assert float(text) == pytest.approx(true, abs=0.05 * row.std_err * true)
            assert float(text) != 1


@pytest.mark.parametrize("low", [1e-3, -1e-3, 4e-5, 1e-8])
def test_an_end_of_an_interval_that_is_not_1_is_not_printed_as_1(low):
    exact = [Range(x, x) for x in (low + 0.4, low, low + 0.8)]
    texts = [proven_ratios(*exact, 0.2)[1], ratios(low + 0.4, low, low + 0.8)[1]]
    assert [np.sign(float(text) - 1) for text in texts] == [np.sign(low)] * 2
