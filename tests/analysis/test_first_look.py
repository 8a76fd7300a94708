"""What a person who sees a table for the first time would take for something else."""

import re

import numpy as np
import pandas as pd
import pytest

from feddcd import FederatedGLM, describe
from feddcd._text import size
from feddcd.analysis import _describe_page, report
from feddcd.analysis._cost import with_masks


def patients(n=240):
    rng = np.random.default_rng(7)
    rows = pd.DataFrame({
        "hospital": [f"h{i % 4}" for i in range(n)],
        "person": [f"p{i:03}" for i in range(n)],
        "age": rng.normal(60, 8, n).round(1),
        "sex": rng.choice(["female", "male"], n),
        "asa": rng.integers(1, 5, n),
    })  # fmt: skip
    rows["death"] = rng.binomial(1, 1 / (1 + np.exp(3 - 0.04 * rows["age"])))
    rows["sbp"] = (rows["age"] + rng.normal(80, 5, n)).round(1)
    return rows


def written(fit, folder):
    page = report.write(fit, folder / "report.html").read_text(encoding="utf-8")
    return [page, fit.to_markdown(), fit.to_latex(), fit.summary()]


@pytest.mark.parametrize("groups", ["hospital", "person", None])
def test_a_fit_of_one_table_claims_no_federation(tmp_path, groups):
    rows, settings = patients(), {"family": "gaussian", "formula": "sbp ~ age"}
    fit = FederatedGLM(**settings).fit(rows, groups=groups)
    for text in written(fit, tmp_path):
        assert "left its site" not in text
        assert "sent by the sites" not in text
        assert "federation was run" in text or "Nothing was sent: one table has all rows." in text
    alone = "240 sites of 240 have only one row each: the sums of a site with one row reveal this"
    assert (alone in fit.to_markdown()) == (groups == "person")


def test_what_a_federation_would_send_is_not_said_to_be_sent(tmp_path):
    fit = FederatedGLM("gaussian", "sbp ~ age").fit(patients(), groups="hospital")
    sent = f"{fit.n_exchanges_} exchanges with 4 sites, {fit.result_.n_uploads} uploads, "
    assert f"A federation would need {sent}" in fit.summary()
    html = written(fit, tmp_path)[0]
    assert "Uploads, all sites" not in html
    assert "A federation would send" in html
    assert "Nothing was sent. A federation without masks would send these bytes." in html
    figure, tables = html[html.index("Appendix:") :].split("Every exchange as a table")
    assert "times" not in figure
    assert "The times are predicted" in tables


ORDINAL = {"family": "ordinal", "formula": "asa ~ age + sex"}


@pytest.mark.parametrize("settings", [{"formula": "death ~ age + sex"}, ORDINAL])
def test_only_what_compares_groups_is_called_a_ratio(tmp_path, settings):
    fit = FederatedGLM(**settings).fit(patients(), groups="hospital")
    page, markdown, _, summary = written(fit, tmp_path)
    apart = fit.result_.thresholds or ["Intercept"]
    mark = lambda name: "| " + name.replace("|", r"\|")
    ratios = summary.partition("odds ratio")[2].partition("===")[0]
    for name in apart:
        assert f"\n{name}" not in ratios
        row = next(line for line in markdown.splitlines() if line.startswith(mark(name)))
        assert re.split(r"(?<!\\)\|", row)[4].strip() == "–"
        assert f"{name}</" in page
    assert "\nage " in ratios


def test_a_row_of_the_figure_says_at_which_value_it_is_an_effect(tmp_path):
    formula = "sbp ~ age + I(age^2) + sex + age:sex"
    fit = FederatedGLM("gaussian", formula).fit(patients(), groups="hospital")
    page = written(fit, tmp_path)[0]
    assert "sex = male (against female), at age = 0<" in page
    assert "label with ×" not in page


def test_the_numbers_of_one_cell_have_the_same_decimals(tmp_path):
    """1.030 (0.668 to 1.59) reads as three kinds of numbers."""
    rows = patients()
    fit = FederatedGLM(formula="death ~ age + sex").fit(rows, groups="hospital")
    page = written(fit, tmp_path)[0]
    found = re.findall(r"(\d+\.?(\d*)) \((\d+\.?(\d*)) to (\d+\.?(\d*))\)", page)
    assert found
    for _, a, _, b, _, c in found:
        assert len(a) == len(b) == len(c)


def test_a_table_of_sums_has_no_table_of_sites_but_its_events(tmp_path):
    fit = FederatedGLM(formula="death ~ age", answers="sum").fit(patients(), groups="hospital")
    page, markdown, *_ = written(fit, tmp_path)
    assert "What each site holds" not in page
    assert "The sites: h0, h1, h2, h3." in page
    assert f"it occurred {patients().death.sum()} times" in markdown


def test_the_bytes_of_a_simulation_say_if_they_are_those_of_masks(tmp_path):
    rows = patients()
    told = "With masks, the default for three or more sites, a federation would need about"
    fits = {
        answers: FederatedGLM(formula="death ~ age", answers=answers).fit(rows, groups="hospital")
        for answers in ("each", "sum")
    }
    plain, masked = (written(fit, tmp_path)[0] for fit in fits.values())
    assert told in plain
    assert told not in masked
    assert "without masks" not in masked + fits["sum"].summary()
    assert "with masks." in fits["sum"].summary()
    guess = with_masks(fits["each"].history_, 4)
    true = fits["sum"].history_[["bytes_up", "bytes_down"]].iloc[-1]
    assert list(guess) == pytest.approx(list(true), rel=0.03)
    up, down = map(size, guess)
    needed = f"{told} {size(sum(guess))}: {up} from the sites and {down} to the sites. The reasons"
    assert f"{needed}: a number with a mask is about 4 times" in re.sub("<[^>]*>", "", plain)
    two = rows.assign(hospital=[f"h{i % 2}" for i in range(len(rows))])
    alone = FederatedGLM(formula="death ~ age").fit(two, groups="hospital")
    assert told not in written(alone, tmp_path)[0]


def test_the_report_has_the_words_of_r_and_one_minus(tmp_path):
    fit = FederatedGLM(formula="death ~ age + sex").fit(patients(), groups="hospital")
    page = written(fit, tmp_path)[0]
    for words in ("Null deviance", "Requested error (tol)", "in standard errors)</th>"):
        assert words in page
    for words in ("own fit", "In numbers", "weight of rows", "Deviance without columns"):
        assert words not in page
    assert not re.search(r"\de−\d", page)  # as numbers are copied
    ordinal = written(FederatedGLM(**ORDINAL).fit(patients(), groups="hospital"), tmp_path)[0]
    assert "not told" not in ordinal
    assert "not computed" in ordinal
    assert "–: feddcd computes no null deviance" in ordinal


def test_bars_of_whole_numbers_stand_over_them():
    """asa = 4 was drawn from 4 to 5."""
    rows = patients()
    page = _describe_page.html(describe(rows, ["asa", "age"]))
    hover = [f"{k}: {n} rows" for k, n in rows.asa.value_counts().sort_index().items()]
    assert all(f"<title>{line}</title>" in page for line in hover)
    drawn = next(x for x in describe(rows, ["asa"]).table.numbers).histogram
    assert drawn.whole
    assert not next(x for x in describe(rows, ["age"]).table.numbers).histogram.whole


def test_table_1_of_one_table_says_that_no_site_sent_anything():
    page = _describe_page.html(describe(patients(), ["age"], site="hospital"))
    assert "<td>nothing: one table</td>" in page


def test_a_sign_is_explained_only_if_it_is_there():
    rows, told = patients(), "– means that a number is not shown"
    plain = describe(rows, ["age"], least=5).summary()
    assert told not in plain
    few = rows.assign(age=rows.age.where(rows.index > 2))
    hidden = describe(few, ["age"], least=5).summary()
    assert told in hidden
    lacks = (
        "feddcd does not show which columns are missing together, because the counts of such rows"
    )
    assert lacks in " ".join(hidden.split())


@pytest.mark.parametrize("slope", [0.0, 5.0])
def test_a_list_of_effects_says_how_clear_they_are(tmp_path, slope):
    """The only clear coefficient can be in an interaction, which the list leaves out."""
    rows = patients()
    rng = np.random.default_rng(3)
    rows["ward"] = np.arange(len(rows)) % 2
    rows["y"] = rows["age"] + slope * rows["ward"] + rng.normal(0, 1, len(rows))
    fit = FederatedGLM("gaussian", "y ~ age * sex + ward").fit(rows, groups="hospital")
    text = written(fit, tmp_path)[0]
    told = "for example the terms of an interaction. This list leaves out such terms. This list"
    assert f"{told} has the effects" in text
    assert ("No effect in this list is clear: each interval includes 0." in text) == (slope == 0)
    assert ("that the data show most clearly" in text) == (slope > 0)
    assert ("But some coefficients of the regression table are not in this" in text) == (slope == 0)


def test_a_table_of_one_file_has_no_words_of_sites(tmp_path):
    fit = FederatedGLM(formula="death ~ age").fit(patients())
    page, markdown, latex, summary = written(fit, tmp_path)
    assert "Logistic regression of death. " in markdown
    for text in (page, markdown, latex, summary):
        assert "standard errors from the exact coefficient." in text
        assert "1 site" not in text
        assert "rows of all sites" not in text
    assert "The sites</h2>" not in page
    assert "sites send sums" not in page
    assert "If a site joins groups of its rows" not in page
    assert "estimated from all rows." in page
    both = written(FederatedGLM(formula="death ~ age").fit(patients(), groups="hospital"), tmp_path)
    assert "Logistic regression of death across 4 sites" in both[1]
    assert "The sites</h2>" in both[0]
    for text in both:
        assert "standard errors from the coefficient of the pooled rows." in text


@pytest.mark.parametrize(
    ("right", "whole"), [("age + sex", True), ("age + sex + asa + sbp", False)]
)
def test_a_list_of_all_effects_says_so(tmp_path, right, whole):
    fit = FederatedGLM(formula=f"death ~ {right}").fit(patients(), groups="hospital")
    text = written(fit, tmp_path)[0]
    assert ("This list has all effects. The clearest effect stands first: " in text) == whole
    assert ("This list has the effects whose coefficients are furthest" in text) == (not whole)


@pytest.mark.parametrize("n", [240, 20_000])
def test_an_effect_that_is_not_clear_is_not_called_clear(tmp_path, n):
    rows = patients(n)
    z = rows["age"] / 8 - 9 + (rows["sex"] == "male") + rows["asa"] / 2
    rows["death"] = np.random.default_rng(1).binomial(1, 1 / (1 + np.exp(-z)))
    draw = np.random.default_rng(2)
    for name in ("dose", "bmi", "rank"):
        rows[name] = draw.normal(size=n)
    formula = "death ~ dose + age" + (" + sex + asa" if n > 240 else " + bmi + rank")
    text = written(FederatedGLM(formula=formula).fit(rows, groups="hospital"), tmp_path)[0]
    head = text.partition("Effects</h2>")[0]
    assert ("may be no effect" in head) == (n == 240)
    assert ("that the data show most clearly" in head) == (n > 240)


def test_the_calibration_says_how_its_groups_and_bars_are_made(tmp_path):
    rows = patients().assign(count=lambda d: d.asa)
    for outcome, family, width in (
        ("death", "binomial", "1.96 × √(p (1 − p) / rows), with the mean prediction p"),
        ("count", "poisson", "1.96 × √(m / rows), with the mean prediction m"),
        ("sbp", "gaussian", "1.96 × √(dispersion / rows)."),
    ):
        fit = FederatedGLM(family, f"{outcome} ~ age").fit(rows, groups="hospital")
        text = written(fit, tmp_path)[0]
        assert f"in {len(fit.bins_)} ranges of the prediction, of equal width" in text
        told = "feddcd does not divide a range, so the groups can have different numbers of rows"
        assert told in text
        assert width in text


def test_a_ratio_and_its_interval_have_one_place_in_the_report(tmp_path):
    rows = patients(6000)
    rng = np.random.default_rng(5)
    rows["dose"] = rng.normal(size=len(rows))
    rows["sick"] = rng.random(len(rows)) < 1 / (1 + np.exp(-0.08 * rows["dose"]))
    fit = FederatedGLM("binomial", "sick ~ dose").fit(rows, groups="hospital")
    text = written(fit, tmp_path)[0]
    table = text.split("The regression table</h2>")[1].split("</table>")[0]
    row = next(line for line in table.split("<tr>") if ">dose<" in line)
    middle, low, high = re.findall(r">([^<>]+)</td>", row)[-3:]
    assert len({len(each.partition(".")[2]) for each in (middle, low, high)}) == 1
    assert f"{middle} ({low} to {high})" in text, "as in the figure of effects"


def test_the_meaning_of_the_words_is_open(tmp_path):
    fit = FederatedGLM(formula="death ~ age").fit(patients(), groups="hospital")
    page = written(fit, tmp_path)[0]
    assert "<details open><summary>How to read this</summary>" in page
    assert page.count("<details open>") == 1
