"""Tables for a paper: each number to the third digit of its standard error, whatever its size; the
decimal points of a column in line; no word that only a user of feddcd knows."""

import re
from math import floor, log10

import numpy as np
import pandas as pd
import pytest

import feddcd
from feddcd import FederatedGLM
from feddcd.analysis.report import _journal

SIZES = {f"x{k + 5}": 10.0**k for k in range(-5, 5)}  # of the coefficients, about
OPTION = re.compile(r"--\w|-\{\}-\w")  # as Markdown and as LaTeX have it
NUMBER = re.compile(r"([−-]?\d[\d,]*(?:\.\d+)?)(?:e([−-]?\d+))?")


def fitted(noise=0.3, family="gaussian", n=300):
    rng = np.random.default_rng(0)
    d = pd.DataFrame({name: rng.normal(size=n) / size for name, size in SIZES.items()})
    score = sum(d[name] * size for name, size in SIZES.items()) + noise * rng.normal(size=n)
    d["y"] = score if family == "gaussian" else (rng.random(n) < 1 / (1 + np.exp(-score))) * 1
    formula = f"y ~ {' + '.join(SIZES)}"
    return FederatedGLM(family, formula).fit(d)


def numbers(text):
    """Value and whole text of each number."""
    sign = lambda word: word.replace("−", "-").replace(",", "")
    found = NUMBER.finditer(re.sub(r"[\u2007\u2008]", "", text))
    return [(float(f"{sign(m[1])}e{sign(m[2] or '0')}"), m[0]) for m in found]


def in_markdown(fit):
    lines = fit.to_markdown().split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]


def in_latex(fit):
    """The same cells of one or more blocks of columns, with numbers as Markdown has them."""
    text = fit.to_latex().split(r"\par\smallskip")[0]
    text = re.sub(r"\\cdot 10\^\{(-?\d+)\}", r"e\1", text).replace("$", "")
    text = re.sub(r"\\phantom\{.\}|\\parbox\[t\]\{[^}]*\}|\\strut|\\raggedright|[{}]", "", text)
    rows = {}
    for block in re.findall(r"\\midrule(.*?)\\bottomrule", text, re.DOTALL):
        for line in filter(None, map(str.strip, block.split("\\\\"))):
            name, *cells = (cell.strip() for cell in line.split(" & "))
            rows.setdefault(name, [name]).extend(cells)
    return list(rows.values())


@pytest.mark.parametrize("noise", [0.003, 0.3, 20.0])
@pytest.mark.parametrize("read", [in_markdown, in_latex])
def test_every_size_keeps_the_third_digit_of_its_standard_error(noise, read):
    fit = fitted(noise)
    rows = read(fit)
    assert len(rows) == len(fit.table_) == 11
    for (_, whole, std_err, _), own in zip(rows, fit.table_.itertuples(), strict=True):
        unit = 10.0 ** (floor(log10(own.std_err)) - 2)
        told = [*numbers(whole), *numbers(std_err)]
        true = [own.coef, own.ci_low, own.ci_high, own.std_err]
        for (value, text), x in zip(told, true, strict=True):
            assert abs(value - x) <= 0.5001 * unit, (own.Index, text, x)
        lengths = {len(text.partition("e")[0].partition(".")[2]) for _, text in told}
        assert len(lengths) == 1, f"the numbers of one row have unlike decimals: {told}"


def test_ratios_keep_two_digits_of_their_standard_error():
    fit = fitted(family="binomial")
    each = list(zip(in_markdown(fit), fit.table_.itertuples(), strict=True))
    for (_, _, _, whole, _), own in each[1:]:  # behind the intercept
        told = numbers(whole.replace("more than", ""))
        for (value, text), log in zip(told, (own.coef, own.ci_low, own.ci_high), strict=True):
            if abs(log) < 9:  # beyond it a ratio keeps three digits of its own
                scale = np.exp(log) * own.std_err
                assert abs(value - np.exp(log)) <= 0.05 * scale + 1e-9, (own.Index, text)


def test_a_wide_interval_of_ratios_has_three_digits_of_each_end():
    """One place for both ends would print 0.00002 to 30.20959."""
    d = pd.DataFrame({"x": np.random.default_rng(0).normal(4, 1, 60)})
    d["y"] = (d.x + np.random.default_rng(1).normal(0, 2, 60) > 4) * 1
    d["u"] = np.random.default_rng(2).normal(0, 0.2, 60)
    fit = FederatedGLM("binomial", "y ~ u + x").fit(d)
    _, (_, _, _, wide, _), (_, _, _, usual, _) = in_markdown(fit)
    own = fit.table_.loc["u"]
    for (value, _), log in zip(numbers(wide), (own.coef, own.ci_low, own.ci_high), strict=True):
        assert value == pytest.approx(np.exp(log), rel=5.1e-3)
    digits = [text.replace(".", "").lstrip("0") for _, text in numbers(wide)]
    assert [len(text.partition("e")[0]) for text in digits] == [3, 3, 3]
    assert len({len(text.partition(".")[2]) for _, text in numbers(usual)}) == 1


def test_decimal_points_of_a_column_are_in_line():
    cells = _journal.at_point(["5.94", "0.0252", "153", "−1,234.5", "8.60e-6", "?"])
    ends = [cell.replace("\u2008", ".").partition(".")[2] for cell in cells[:4]]
    assert {len(end) for end in ends} == {4}
    assert cells[4:] == ["8.60e-6", "?"]
    text = fitted(20.0).to_latex()
    assert r"\phantom{0}" in text
    assert "\u2007" not in text


def test_a_negative_power_of_ten_is_a_number_in_latex():
    d = pd.DataFrame({"big": np.random.default_rng(1).normal(size=90) * 1e6})
    d["y"] = -3e-6 * d.big + np.random.default_rng(2).normal(size=90)
    text = FederatedGLM("gaussian", "y ~ big").fit(d).to_latex()
    assert re.search(r"\$-\d\.\d+\\cdot 10\^\{-6\}\$", text)
    assert "e$-$" not in text


@pytest.mark.parametrize("size", [1e-9, 1e-5, 1e-3, 1.0, 1e3, 1e9])
def test_table_1_keeps_the_digits_of_small_numbers(size):
    x = np.random.default_rng(0).lognormal(1, 1, 200) * size
    x[7] = 4000 * size  # a standard deviation far above the quartiles
    result = feddcd.describe(pd.DataFrame({"x": x}))
    mean, median = (
        line for line in result.to_markdown().splitlines() if "[" in line or "SD" in line
    )
    (m, _), (sd, _) = numbers(mean.split("|")[2])
    assert sd == pytest.approx(x.std(ddof=1), rel=6e-3)
    assert abs(m - x.mean()) <= 6e-3 * x.std(ddof=1)
    low, middle, high = np.quantile(x, [0.25, 0.5, 0.75])
    for (value, _), true in zip(numbers(median.split("|")[2]), (middle, low, high), strict=True):
        assert abs(value - true) <= 6e-3 * (high - low)


def paper(result):
    return result.to_latex() + result.to_markdown()


def test_notes_in_a_paper_have_no_options():
    """They stay where somebody can give them: in the terminal and in the report."""
    rng = np.random.default_rng(0)
    d = pd.DataFrame({"age": rng.integers(20, 90, 80), "mrn": range(1000, 1080)})
    d["day"], d["mixed"] = "2024-02-01", [*map(str, range(79)), "unknown"]
    d["name"] = [f"patient {i}" for i in range(80)]
    result = feddcd.describe(d)
    assert len(result.left_out) == 4
    assert "--column" in result.summary()
    assert (
        "The column 'day' is not in the table, because its values are dates."
        in result.to_markdown()
    )
    assert not OPTION.search(paper(result)), paper(result)


def test_a_caution_on_an_offset_has_no_option_in_a_paper():
    rng = np.random.default_rng(0)
    d = pd.DataFrame({"x": rng.normal(size=200), "days": rng.uniform(0, 20, 200)})
    d["y"] = rng.poisson(1.0, 200)
    fit = FederatedGLM("poisson", "y ~ x + offset(days)").fit(d)
    assert "--offset" in fit.summary()
    assert "The offset differs much between rows" in fit.to_markdown()
    assert not OPTION.search(paper(fit)), paper(fit)


@pytest.mark.parametrize(
    ("kind", "named", "note"),
    [
        ("Sum", "stage = I (against the mean of the levels)", "mean of all levels (sum contrasts)"),
        ("Helmert", "stage = II (Helmert contrast)", "(Helmert contrasts, scaled as in R)"),
    ],
)
def test_contrasts_do_not_look_like_dummies(kind, named, note):
    rng = np.random.default_rng(0)
    d = pd.DataFrame({"stage": ["I", "II", "III"] * 30, "x": rng.normal(size=90)})
    d["y"] = rng.normal(size=90)
    fit = FederatedGLM("gaussian", f"y ~ C(stage, {kind}) * x").fit(d)
    for text in (fit.to_markdown(), fit.to_latex(), fit.summary()):
        assert note in " ".join(text.split())
    assert f"| {named} " in fit.to_markdown()
    assert f"{named} × x" in fit.to_markdown()
    assert "contrast" not in FederatedGLM("gaussian", "y ~ C(stage)").fit(d).to_markdown()
