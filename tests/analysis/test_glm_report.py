"""The report of a regression: right numbers, honest sentences, a page that is whole and quiet."""

import dataclasses
import itertools
import math
import re
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from feddcd import FederatedGLM, _text
from feddcd.analysis import report
from feddcd.analysis._fitting import told
from feddcd.analysis.report import _alone, _quality, _words
from feddcd.analysis.report._names import unit_of
from feddcd.cli._tables import show_event
from feddcd.report import charts
from glm_stand_ins import Lazy, history, several, stand_in

VOID = {"meta", "link", "br", "wbr", "hr", "img"}
MANY = [f"a_rather_long_name_of_column_{k}" for k in range(120)]
ODD = ("<b>x", "C(sex)[T.m]", "a & $b$", '</script><script>alert("x")</script>')
UNPROVEN = {"converged_": False, "certified_error_": np.inf,
            "history_": history(5, [np.inf] * 4)}  # fmt: skip
FITS = Lazy({
    "binomial": lambda: stand_in("binomial", formula="y ~ age + dose + C(sex)", n=3000),
    "gaussian": lambda: stand_in("gaussian"),
    "poisson": lambda: stand_in("poisson"),
    "multinomial": lambda: several(),
    "many columns": lambda: stand_in("poisson", names=MANY, n=2000),
    "odd names": lambda: stand_in("binomial", names=ODD),
    "no columns": lambda: stand_in("gaussian", names=[]),
    "nine rows": lambda: stand_in("gaussian", names=["age"], n=9),
    "nothing proven": lambda: stand_in("binomial", site_table_=None, **UNPROVEN),
    "proven to rounding": lambda: stand_in("gaussian", certified_error_=0.0,
                                   history_=history(5, [1e-3, 0.0])),
    "one exchange": lambda: stand_in("gaussian", history_=history(5, [1e-9])),
    "site effects": lambda: stand_in("binomial", names=["age", "site[b]"], site_effects="fixed"),
})  # fmt: skip


class Page(HTMLParser):
    """Balanced tags, ids, links, words, and the cells of every table by its caption."""

    def __init__(self, text):
        super().__init__()
        self.open, self.ids, self.links, self.tags = [], [], [], []
        self.text, self.hover, self.tables = "", [], {}
        self.feed(text)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        self.links += [value for name, value in attrs if name in ("href", "src", "srcset")]
        if tag not in VOID:
            self.open.append(tag)
        if tag == "caption":
            self.caption = ""
        if tag == "tr":
            self.tables.setdefault(self.caption, []).append([])
        if tag in ("td", "th"):
            self.tables[self.caption][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "title" in self.open and "svg" in self.open:
            self.hover.append(data)
            return
        if "caption" in self.open:
            self.caption += data
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[self.caption][-1][-1] += data
        self.text += data if "style" not in self.open else ""

    def table(self, start):
        return next(rows for caption, rows in self.tables.items() if caption.startswith(start))

    @property
    def figures(self):
        """By the first word of what they say to those who do not see them."""
        spoken = [a["aria-label"] for tag, a in self.tags if (tag, a.get("role")) == ("svg", "img")]
        return {words.split()[0]: words for words in spoken}


def page(tmp_path, fit, title=None):
    path = report.write(fit, tmp_path / "a" / "report.html", title)
    return Page(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", FITS)
def test_page_is_whole_and_asks_nothing_of_the_network(tmp_path, name):
    found = page(tmp_path, FITS[name])
    assert found.links == ["data:,"]
    assert len(set(found.ids)) == len(found.ids)
    assert not {"img", "iframe", "object", "b"} & {tag for tag, _ in found.tags}
    policy = next(a["content"] for _, a in found.tags if a.get("http-equiv"))
    assert policy.startswith("default-src 'none';")
    assert "http" not in policy
    assert "script" not in policy + str(found.tags)
    assert [tag for tag, _ in found.tags if tag in ("h1", "h2")][:2] == ["h1", "h2"]
    for label in FITS[name].table_.index:
        assert label in found.text


@pytest.mark.parametrize("name", FITS)
def test_every_figure_has_words_and_no_number_that_is_none(tmp_path, name):
    found = page(tmp_path, FITS[name])
    assert all(len(words) > 20 for words in found.figures.values())
    shapes = [a for tag, a in found.tags if tag in ("path", "circle", "rect", "text")]
    assert not any("nan" in str(a) or "inf" in str(a) for a in shapes)


EXPECTED = {
    "binomial": {"Calibration", "ROC"},
    "gaussian": {"Calibration", "Histogram"},
    "multinomial": set(),
    "no columns": {"Calibration", "Histogram"},
    "nine rows": set(),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_figures_are_there_where_they_have_a_meaning(tmp_path, name):
    found = page(tmp_path, FITS[name])
    assert set(found.figures) == EXPECTED[name] | {"Certified"}
    assert any(a.get("class") == "forest" for _, a in found.tags) == (name != "no columns")


def number(cell):
    return float(cell.replace("−", "-").replace(",", ""))


@pytest.mark.parametrize("name", ["binomial", "gaussian", "many columns"])
def test_tables_hold_the_numbers(tmp_path, name):
    fit = FITS[name]
    head, *rows = page(tmp_path, fit).table("The regression table")
    assert [row[0] for row in rows] == list(fit.table_.index)
    ratio = {"binomial": "odds ratio", "poisson": "rate ratio"}.get(fit.family)
    assert (ratio in head) == (fit.family != "gaussian")
    for row, (_, true) in zip(rows, fit.table_.iterrows(), strict=True):
        for cell, column in ((1, "coef"), (2, "std_err"), (5, "ci_low"), (6, "ci_high")):
            assert math.isclose(number(row[cell]), true[column], rel_tol=5.1e-4)
        if ratio and row[0] == "Intercept":
            assert row[7:] == ["–"] * 3
        elif ratio:
            assert math.isclose(number(row[7]), math.exp(true["coef"]), rel_tol=6e-3)


def test_the_course_and_the_choice_are_told(tmp_path):
    found = page(tmp_path, FITS["binomial"])
    _, *rows = found.table("All exchanges")
    assert [row[3] for row in rows] == ["5", "10", "15", "20"]
    assert [row[-1] for row in rows] == ["–", "3.2", "0.041", "0.0001"]
    assert "With 4 columns a Hessian is small" in found.text
    fit = FITS["binomial"].result_
    moved = _text.size(fit.history[["bytes_up", "bytes_down"]].iloc[-1].sum())
    needed = f"{fit.n_exchanges} exchanges and {moved} for this table, with the gradients, the "
    needed += "Hessians and all other sums"
    up, down = (_text.size(fit.history[name].iloc[-1]) for name in ("bytes_up", "bytes_down"))
    assert f"{needed}: {up} from the sites and {down} to the sites." in found.text
    assert "The objective is the number that the fit makes as small as possible" in found.text
    assert ("coefficients, plus the penalty" in found.text) == (fit.l2 != 0)
    assert found.table("Expected cost")[0][2] == "bytes of gradients and Hessians"
    assert found.table("Expected cost")[1:] == [
        ["newton (chosen)", "4", "4.8 kB", "0.4 s"], ["feddcd", "61", "30 kB", "6.1 s"],
    ]  # fmt: skip


def test_names_are_escaped_in_the_page_and_in_the_figures(tmp_path):
    found = page(tmp_path, FITS["odd names"], title="<u>title</u>")
    assert "<u>title</u>" in found.text
    assert "u" not in {tag for tag, _ in found.tags}
    assert not {"b", "script"} & {tag for tag, _ in found.tags}
    assert "<b>x" in [row[0] for row in found.table("Effects")]


SAYS = {
    "binomial": ["on 3,000 rows at 5 sites in 4 exchanges. The fit used only sums over the rows",
                 "Proven: no coefficient is further than 0.0001 standard errors from the "
                 "coefficient of the pooled rows.", "3 rows with missing values were left out",
                 "If a site joins groups of its rows to protect these rows, both limits and the "
                 "light blue area",
                 "sex = m, against f, is associated with", "times the odds of y = 1"],
    "nothing proven": ["The fit stopped too early", "NOT proven: the requested error is",
                       "no bound at all is proven", "The sites’ own estimates are not shown.",
                       "so there is no curve"],
    "many columns": ["times the expected count",
                     "only 24 of the 120 effects: those with the smallest p-values"],
    "multinomial": ["the odds of 'mid' against 'low'", "sites do not send groups of predictions"],
    "nine rows": ["too few rows to show groups"],
    "proven to rounding": ["no coefficient is further than 1e-15 standard errors"],
    "site effects": ["so the effects compare only rows of the same site"],
}  # fmt: skip


@pytest.mark.parametrize("name", SAYS)
def test_the_words_say_what_the_numbers_prove(tmp_path, name):
    found = page(tmp_path, FITS[name])
    for sentence in SAYS[name]:
        assert sentence in found.text
    assert ("NOT proven" in found.text) != ("Proven:" in found.text)


def test_a_report_of_sums_says_why_it_has_no_estimates_of_single_sites():
    sums = dataclasses.replace(FITS["binomial"].result_, answers="sum", site_table=None)
    told = "Only sums over all sites are known, so the figure does not show the estimates of single"
    assert told in report.html(sums, "title")


def test_effects_are_ordered_by_z_and_in_the_right_direction():
    table = pd.DataFrame(
        [[1.0, 1.0, 1.0, 0.3, -0.96, 2.96], [-2.0, 0.1, -20.0, 0.0, -2.2, -1.8],
         [0.5, 0.1, 5.0, 0.0, 0.3, 0.7], [math.log(2), 0.1, 7.0, 0.0, math.log(1.5), math.log(3)]],
        index=["Intercept", "a", "b", "c"],
        columns=["coef", "std_err", "z", "p", "ci_low", "ci_high"],
    )  # fmt: skip
    both = {"table_": table, "original_table_": table}
    linear = stand_in("gaussian", formula="y ~ c", **both)
    assert _words.effects(linear.result_)[0] == (
        "One more unit of a is associated with a mean of y that is 2.00 lower "
        "(95 % interval 1.80 to 2.20)."
    )
    odds = _words.effects(stand_in("binomial", **both).result_)
    assert odds[1] == (
        "One more unit of c is associated with 2.00 times the odds of the outcome "
        "(95 % interval 1.50 to 3.00)."
    )
    assert len(odds) == 3
    assert not any("Intercept" in line for line in odds)


def test_lines_of_progress_round_what_is_proven_up(capsys):
    row = {"exchange": 3, "answered": 4, "asked": 4, "certified_error": 0.000611048}
    assert told(row | {"objective": 1.0}).endswith("certified error 0.00062 standard errors")
    assert told(row | {"objective": 1.0, "certified_error": np.inf}).endswith(
        " inf standard errors"
    )
    show_event(row | {"event": "exchange"})
    assert capsys.readouterr().out.endswith("certified error 0.00062 standard errors\n")


def test_what_is_proven_is_never_rounded_down():
    assert _text.upper(0.0001) == "0.0001"
    assert _text.upper(0.00010001) == "0.00011"
    assert _text.upper(3.21e-9) == "3.3e-9"
    assert _text.upper(12.1) == "13"
    for value in np.random.default_rng(0).lognormal(-6, 5, 200):
        assert value <= float(_text.upper(value)) <= 1.1001 * max(value, 1e-15)


def auc(score, y):
    pairs = [(a > b) + (a == b) / 2 for a, b in itertools.product(score[y == 1], score[y == 0])]
    return np.mean(pairs)


@pytest.mark.parametrize("n", [30, 200, 800])
def test_area_under_the_curve_is_bracketed(n):
    fit = stand_in("binomial", n=n, seed=n)
    found = _quality.roc(_quality.columns(fit.bins_))
    assert found.low <= auc(fit.mean, fit.y) <= found.high
    assert found.high - found.low < 0.5 * (n < 100) + 0.1
    assert (found.false[-1], found.true[-1]) == (1.0, 1.0)


@pytest.mark.parametrize("name", ["binomial", "gaussian", "poisson", "many columns"])
def test_no_small_group_is_shown_and_no_row_is_lost(name):
    fit = FITS[name]
    for bins in (fit.bins_, fit.residual_bins_):
        if bins is None:
            continue
        whole = _quality.columns(bins)
        for groups in (_quality.join(whole), _quality.groups(whole)):
            assert groups["weight"].min() >= _quality.SMALL
            for column in set(whole) - {"low", "high"}:
                np.testing.assert_allclose(groups[column].sum(), whole[column].sum())
            np.testing.assert_array_equal(groups["low"][1:], groups["high"][:-1])
        assert len(_quality.groups(whole)["weight"]) <= 10
    assert len(_quality.groups(_quality.columns(FITS["binomial"].bins_))["weight"]) == 10


def test_too_few_rows_make_no_group():
    bins = {"low": np.arange(3.0), "high": np.arange(1.0, 4), "weight": np.full(3, 3.0)}
    assert _quality.join(bins) is None
    assert _quality.groups(bins) is None


@pytest.mark.parametrize("family", ["binomial", "poisson"])
def test_bars_of_the_calibration_end_within_the_figure(tmp_path, family):
    """A share is between 0 and 1, and a count is at least 0."""
    found = page(tmp_path, stand_in(family, n=120))
    (d,) = (a["d"] for tag, a in found.tags if tag == "path" and "d" in a and _upright(a["d"]))
    ends = [float(v) for pair in UPRIGHT.findall(d) for v in pair]
    assert min(ends) > 0
    assert max(ends) < 300 - charts.TOP - charts.BOTTOM


UPRIGHT = re.compile(r"M[\d.-]+ ([\d.-]+)V([\d.-]+)")


def _upright(d):
    return len(UPRIGHT.findall(d)) > 2


def test_bars_of_the_calibration_grow_with_over_dispersion(tmp_path):
    fit = stand_in("poisson").result_
    wide = dataclasses.replace(fit, pearson=4.0 * fit.df_residual)
    plain = dataclasses.replace(fit, pearson=1.0 * fit.df_residual)
    half, usual = (_quality.calibration_table(each)["half"] for each in (wide, plain))
    np.testing.assert_allclose(half, 2 * usual)
    text = page(tmp_path, wide).text
    assert "which allow for the over-dispersion of the outcomes" in text
    assert "√(m / rows) × √(Pearson’s X² / df), with" in text


def test_a_family_without_groups_is_not_said_to_have_classes(tmp_path):
    text = page(tmp_path, stand_in("gaussian", bins_=None, residual_bins_=None)).text
    assert "No figure here: for a model of this family, the sites do not send groups" in text


def test_a_site_far_away_does_not_stretch_the_figure(tmp_path):
    fit = stand_in("binomial")
    fit.site_table_.iloc[5, 0] = 1e6
    found = page(tmp_path, fit)
    assert "1 estimate of a single site is beyond the ends of the figure" in found.text
    diamonds = sum(a.get("class") == "dot pale" for _, a in found.tags)
    assert diamonds == 3 * 5 - 1


def test_columns_of_unlike_units_have_a_scale_each(tmp_path):
    fit = stand_in("gaussian")
    for table in (fit.table_, fit.original_table_):
        table.loc["age", ["coef", "std_err", "ci_low", "ci_high"]] *= 1e-5
    found = page(tmp_path, fit)
    assert "each effect has its own scale" in found.text
    row = next(row for row in found.table("Effects") if row[0] == "age")
    assert math.isclose(number(row[2].split()[0]), fit.table_.loc["age", "coef"], rel_tol=1e-3)
    html = (tmp_path / "a" / "report.html").read_text(encoding="utf-8")
    ends = re.findall(r'anchor="start">([^<]+)</text><text[^>]+anchor="end">([^<]+)</text>', html)
    rows = found.table("Effects")[1:]
    for (name, _, interval, _), shown in zip(rows, ends, strict=True):
        low, high = map(number, re.search(r"\((.*) to (.*)\)", interval).groups())
        least, most = map(number, shown)
        assert least <= min(low, 0) <= max(high, 0) <= most, name


def test_the_forest_has_the_order_of_the_table_and_its_numbers(tmp_path):
    fit = FITS["binomial"]
    _, *rows, _ = page(tmp_path, fit).table("Effects")  # the last holds the axis
    assert [row[0] for row in rows] == ["age", "dose", "sex = m (against f)"]
    for row, (_, true) in zip(rows, fit.table_.iloc[1:].iterrows(), strict=True):
        assert math.isclose(number(row[2].split()[0]), math.exp(true["coef"]), rel_tol=6e-3)


BOOK = {
    "columns": {
        "age": {"type": "number", "label": "Age at admission", "unit": "years"},
        "ward": {"type": "category", "labels": {"b": "Ward B", "a": "Ward A"}},
        "died": {"type": "category", "label": "Death", "labels": {"yes": "death in hospital"}},
    }
}


def test_a_clinician_reads_labels_units_events_sites_and_who_refused(tmp_path):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(60, 11, 400), "ward": rng.choice(["a", "b"], 400)})
    frame["died"] = np.where(rng.random(400) < 1 / (1 + np.exp(-(frame.age - 60) / 9)), "yes", "no")
    frame["site"] = np.array(["north", "south"])[np.arange(400) % 2]
    fit = FederatedGLM("binomial", "died ~ age + ward").fit(frame, groups="site").result_
    refused = {"west": "west: its policy <b>does not</b> allow it"}
    fit = dataclasses.replace(fit, codebook=BOOK, refused=refused)
    found = page(tmp_path, fit)
    rows = {row[0]: row[2] for row in found.table("Effects")[1:3]}
    assert list(rows) == ["Age at admission, per 10 years", "ward = Ward B (against Ward A)"]
    shown = number(rows["Age at admission, per 10 years"].split()[0])
    assert math.isclose(shown, math.exp(10 * fit.table.loc["age", "coef"]), rel_tol=6e-3)
    assert "An increase of Age at admission by 10 years is associated with" in found.text
    step = "near the standard deviation of the column: 1, 2 or 5 times a power of ten."
    assert f"do not change. The size of an increase is {step}" in found.text
    assert f"The amount after “per” is {step}" in found.text
    assert "times the odds of death in hospital" in found.text
    events = int((frame.died == "yes").sum())
    assert f"The event is death in hospital, and it occurred {events} times." in found.text
    assert "west: its policy <b>does not</b> allow it" in found.text
    sites = found.table("What each site holds")
    assert sites[0][:3] == ["site", "rows", "events"]
    assert [row[:2] for row in sites[1:]] == [["north", "200"], ["south", "200"]]
    at = sites[0].index("the rows of this site alone give a finite estimate")
    assert [row[at] for row in sites[1:]] == ["yes", "yes"]


def test_a_sum_of_counts_is_not_called_events(tmp_path):
    frame = pd.DataFrame({"days": np.arange(60) % 7, "site": ["a", "b"] * 30})
    frame["x"] = np.random.default_rng(0).normal(size=60)
    fit = FederatedGLM("poisson", "days ~ x").fit(frame, groups="site")
    found = page(tmp_path, fit)
    sites = found.table("What each site holds")
    assert sites[0][2] == "sum of days"
    assert number(sites[1][2]) == frame.days[frame.site == "a"].sum()
    assert "times a power of ten" not in found.text  # one unit of x is shown


@pytest.mark.parametrize(("sd", "step"), [(0.03, 0.02), (0.3, 1), (2, 1), (9, 10), (29, 20)])
def test_effects_are_shown_for_a_round_number_near_a_standard_deviation(sd, step):
    fit = stand_in("gaussian", names=["x"]).result_
    fit = dataclasses.replace(fit, spread=pd.Series([np.nan, sd], index=["Intercept", "x"]))
    (c,) = [c for c in fit.coefficients if c.column == "x"]
    assert unit_of(fit, c).size == pytest.approx(step)


def rows_of(n=300):
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"age": rng.normal(50, 9, n), "dose": rng.normal(size=n)})
    frame["arm"], frame["site"] = rng.choice(["a", "b"], n), np.arange(n) % 3
    return frame.assign(y=rng.normal(size=n) + frame.age / 20 + frame.dose)


def test_no_sentence_on_a_column_that_stands_in_two_terms():
    """Its coefficient is its effect where the other term is zero, and nowhere else."""
    fit = FederatedGLM("gaussian", "y ~ age + I(age^2) + dose*arm").fit(rows_of(), groups="site")
    assert _words.effects(fit.result_) == []
    fit = FederatedGLM("gaussian", "y ~ age + dose + arm").fit(rows_of(), groups="site")
    assert len(_words.effects(fit.result_)) == 3


def of_two_terms():
    rng = np.random.default_rng(2)
    return rows_of().assign(bmi=rng.normal(26, 9, 300), smoke=rng.integers(0, 2, 300))


CURVE = (
    "No effect is {} for {}: in a power, a polynomial or a spline, several coefficients belong to "
    "the same column and change together. One of them alone is not an effect."
)
CROSS = (
    "No effect is listed for {}: the effect of a column in an interaction depends on the other "
    "columns of the interaction."
)
DRAWN = (
    "If a column is in an interaction, the figure shows its effect at one value of the other "
    "column."
)
CODED = (
    "No effect is listed for {}: its coefficients do not compare a level with a reference level."
)
curves = lambda terms: [CURVE.format(how, terms) for how in ("listed", "drawn")]
SPLINE = "bs(age, knots=c(50), Boundary.knots=c(0, 99), degree=1)"
SHARED = {  # by formula: sentences of the list and of the figure, and the lines of both
    "y ~ age + I(age^2) + bmi": (
        curves("age and I(age^2)"), ["bmi"], ["bmi, per 10"]),
    "y ~ poly(age, 2, raw = TRUE) + bmi": (
        curves("poly(age, 2, raw=TRUE)"), ["bmi"], ["bmi, per 10"]),
    f"y ~ {SPLINE}*smoke + bmi": (
        [*curves(f"{SPLINE} and {SPLINE}:smoke"), CROSS.format("smoke"), DRAWN],
        ["bmi"], [f"smoke = 1 (against 0), at {SPLINE} = 0", "bmi, per 10"]),
    "y ~ bmi*smoke + age": (
        [CROSS.format("bmi, smoke and bmi:smoke"), DRAWN, "A label with × shows"],
        ["age"], ["bmi, at smoke = 0", "smoke = 1 (against 0), at bmi = 0", "age, per 10",
                  "bmi × smoke"]),
    "y ~ C(arm, Sum) + smoke": (
        [CODED.format("C(arm, Sum)")], ["smoke"],
        ["arm = a (against the mean of the levels)", "smoke = 1 (against 0)"]),
    "y ~ age + log(bmi + 50) + arm": ([], ["age", "log", "arm"],
        ["age, per 10", "log(bmi + 50)", "arm = b (against a)"]),
}  # fmt: skip


@pytest.mark.parametrize("formula", SHARED)
def test_terms_without_an_effect_of_their_own_are_named(tmp_path, formula):
    """Nobody has one more year of age, and the same square of it."""
    fit = FederatedGLM("gaussian", formula).fit(of_two_terms(), groups="site").result_
    found, (said, listed, drawn) = page(tmp_path, fit), SHARED[formula]
    for sentence in said:
        assert sentence in found.text
    assert ("label with ×" in found.text) == any("×" in line for line in drawn)
    assert found.text.count("No effect is") == sum("No effect is" in s for s in said)
    sentences = _words.effects(fit)
    assert len(sentences) == len(listed)
    assert all(any(name in line for line in sentences) for name in listed)
    rows = [row[0] for row in found.table("Effects")[1:]]
    assert [name for name in rows if name] == drawn


def test_a_term_without_a_column_in_the_table_does_no_harm(tmp_path):
    """R has NA for it."""
    rows = of_two_terms()
    rows["ward"] = np.where((rows.arm == "a") & (rows.smoke == 1), "south", "north")
    fit = FederatedGLM("gaussian", "y ~ arm * ward + age").fit(rows, groups="site").result_
    assert len(fit.left_out) == 1
    assert "No effect is" not in page(tmp_path, fit).text
    assert len(_words.effects(fit)) == 3


def test_terms_are_named_whatever_their_columns_are_called():
    rows = of_two_terms().rename(columns={"age": "age (years)", "arm": "a b", "smoke": "1"})
    formula = "y ~ `age (years)` + I(`age (years)`^2) + `a b` * `1` + bmi"
    fit = FederatedGLM("gaussian", formula).fit(rows, groups="site").result_
    assert _alone.entangled(fit)[:2] == (
        ("`age (years)`", "I(`age (years)`^2)"),
        ("`a b`", "`1`", "`a b`:`1`"),
    )
    (line,) = _words.effects(fit)
    assert "bmi" in line
    assert "No effect is listed for a b, 1 and `a b`:`1`: the effect" in _alone.not_listed(fit)[1]


def test_a_column_of_0_and_1_is_compared(tmp_path):
    fit = FederatedGLM("gaussian", "y ~ smoke").fit(of_two_terms(), groups="site").result_
    b = fit.table.loc["smoke", "coef"]
    (line,) = _words.effects(fit)
    assert line.startswith("smoke = 1, against 0, is associated with a mean of y that is")
    assert f"{_text.number(abs(b), 3)} {'higher' if b > 0 else 'lower'}" in line


def test_a_column_that_explains_may_be_called_y():
    rows = rows_of().rename(columns={"y": "out", "dose": "y"})
    fit = FederatedGLM("gaussian", "out ~ y + age").fit(rows, groups="site")
    assert len(_words.effects(fit.result_)) == 2


def test_standardised_effects_are_told_in_the_units_of_the_columns(tmp_path):
    settings = {"family": "gaussian", "formula": "y ~ age + arm", "standardize": True}
    fit = FederatedGLM(**settings).fit(rows_of(), groups="site")
    b = 10 * fit.original_table_.loc["age", "coef"]
    assert f"that is {_text.number(b, 3)} higher" in _words.effects(fit.result_)[0]
    assert "for one standard deviation more" in page(tmp_path, fit).text
    assert (
        "Each coefficient is the effect of one standard deviation more in its column"
        in fit.summary()
    )


def test_writing_twice_gives_the_same_bytes(tmp_path):
    first, second = (report.write(FITS["poisson"], tmp_path / name) for name in "ab")
    assert first.read_bytes() == second.read_bytes()


def test_a_model_that_is_not_fitted_is_refused(tmp_path):
    with pytest.raises(ValueError, match="not fitted"):
        report.write(FederatedGLM(), tmp_path / "a.html")


@pytest.mark.parametrize("family", ["binomial", "gaussian"])
def test_a_real_fit_is_reported(tmp_path, family):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.normal(40, 9, 300), "sex": rng.choice(["f", "m"], 300)})
    frame["hospital"], frame["y"] = np.arange(300) % 3, rng.binomial(1, 0.4, 300)
    fit = FederatedGLM(family, "y ~ age + C(sex)").fit(frame, groups="hospital")
    found = page(tmp_path, fit)
    assert "300 rows of 3 sites. One table contained the rows of all sites, and no" in found.text
    assert len(found.table("All exchanges")) == fit.n_exchanges_ + 1
    assert {"Calibration", "Certified"} <= set(found.figures)
    assert sum(number(row[1]) for row in found.table("Calibration")[1:]) == 300


def test_the_blue_area_is_between_the_curves_of_the_worst_and_the_best_order(tmp_path):
    """Its upper edge went along the curve itself, so the upper half was missing."""
    fit = FITS["binomial"]
    found = page(tmp_path, fit)
    area = next(a["d"] for _, a in found.tags if a.get("class") == "area blue")
    x, y = np.array([p.split() for p in area.strip("MZ").split("L")], float).T
    size = 0.5 * abs(np.dot(x, np.roll(y, 1)) - np.dot(y, np.roll(x, 1)))
    dots = [a for _, a in found.tags if a.get("class") == "dot blue" and a["r"] == "2.5"]
    across, down = np.array([[a["cx"], a["cy"]] for a in dots], float).T
    unit = np.ptp(across) * np.ptp(down)
    curve = _quality.roc(_quality.columns(fit.bins_))
    assert size / unit == pytest.approx(curve.high - curve.low, abs=2e-3)
    assert "The curve of each possible order is inside the light blue area" in found.text


def test_the_report_of_one_table_without_sites_says_nothing_of_sites(tmp_path):
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.normal(size=200), "site": ["a", "b"] * 100})
    rows["death"] = rng.integers(0, 2, 200)
    alone = page(tmp_path, FederatedGLM("binomial", "death ~ age").fit(rows).result_)
    for words in ("invents rows", "which site changes", "diamond", "sites’ own estimates"):
        assert words not in alone.text
    assert "dot pale" not in [a.get("class") for _, a in alone.tags]
    of_two = FederatedGLM("binomial", "death ~ age").fit(rows, groups="site").result_
    text = page(tmp_path, of_two).text
    assert "If a site invents rows" in text
    assert "A grey diamond is the estimate from the rows of one site alone" in text


def test_a_list_of_effects_has_the_same_decimals_in_every_line(tmp_path):
    """One line had 0.57 (0.23 to 1.40), and the next one 0.511 (0.197 to 1.327)."""
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"age": rng.normal(size=300), "rare": rng.random(300) < 0.08})
    rows["sex"], rows["ward"] = rng.choice(["f", "m"], 300), rng.choice(list("abc"), 300)
    rows["death"] = rng.integers(0, 2, 300)
    fit = FederatedGLM("binomial", "death ~ age + rare + sex + ward").fit(rows).result_
    _, *lines, _ = page(tmp_path, fit).table("Effects")
    told = [word for line in lines for word in re.findall(r"[\d.]+", line[2])]
    assert {len(word.partition(".")[2]) for word in told} == {3}
