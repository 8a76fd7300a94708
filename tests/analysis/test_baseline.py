"""What the words beside a table say that its coefficients are compared with."""

import numpy as np
import pandas as pd
import pytest

from feddcd.analysis import FederatedGLM
from feddcd.analysis._more import title
from feddcd.analysis.report._effects import forest

N = 400


def rows():
    rng = np.random.default_rng(5)
    age = rng.normal(60, 10, N).round()
    stage, time = rng.integers(1, 4, N), rng.uniform(0.5, 2, N).round(2)
    death = (rng.random(N) < 1 / (1 + np.exp(2 - 0.02 * age - 0.3 * stage))).astype(int)
    days = rng.poisson(np.exp(0.02 * age) * time)
    site = rng.choice(["Basel", "Graz", "Lyon"], N)
    columns = {"age": age, "stage": stage, "time": time, "death": death, "days": days}
    return pd.DataFrame(columns | {"site": site})


def fitted(formula, family="binomial", **settings):
    return FederatedGLM(family, formula, **settings).fit(rows(), groups="site")


def block_of_ratios(fit, head="odds ratio"):
    return fit.summary().partition(head)[2].partition("\n\n")[0]


ALONE = "This coefficient does not compare levels"


@pytest.mark.parametrize("formula", ["death ~ age + C(stage) - 1", "death ~ 0 + C(stage)"])
def test_a_level_without_an_intercept_has_an_odds_and_no_ratio(formula):
    fit = fitted(formula)
    text, paper, drawn = fit.summary(), fit.result_.to_markdown(), forest(fit.result_)
    assert "C(stage)[1]" not in block_of_ratios(fit)
    line = next(line for line in paper.splitlines() if line.startswith("| stage = 1"))
    assert line.split("|")[4].strip() == "–"
    told = (
        "C(stage): the model has no intercept, so each level has a coefficient of its own. "
        f"{ALONE}, and has no odds ratio"
    )
    assert told in text
    assert told in paper
    if "age" in formula:
        assert "stage = 1" not in drawn.html
        assert "No effect is drawn for C(stage): its coefficients do not compare" in drawn.words


@pytest.mark.parametrize("formula", ["death ~ C(stage)", "death ~ age:C(stage) - 1"])
def test_levels_and_slopes_that_are_compared_keep_their_ratios(formula):
    fit = fitted(formula)
    assert "C(stage)[" in block_of_ratios(fit)
    assert ALONE not in fit.summary()


def test_a_mean_of_a_level_has_no_ratio_to_lack():
    text = fitted("days ~ C(stage) - 1", "gaussian").summary()
    assert ALONE in text
    assert "and has no" not in text


def test_the_site_with_which_the_others_are_compared_is_named():
    fit = fitted("death ~ age", site_effects="fixed")
    assert "site[...]: reference Basel\n" in fit.summary()
    for text in (fit.result_.to_markdown(), fit.result_.to_latex()):
        assert "Each coefficient of a site compares this site with the site 'Basel'." in text


def test_sites_without_an_intercept_are_compared_with_none():
    fit = fitted("death ~ age - 1", site_effects="fixed")
    assert "reference Basel" not in fit.summary()
    assert "site[Basel]" not in block_of_ratios(fit)
    own = "so each site has a coefficient of its own. This coefficient does not compare sites"
    assert own in fit.summary()


def test_the_notes_of_a_table_name_its_offset():
    fit = fitted("days ~ age + offset(log(time))", "poisson")
    assert "The model has the offset log(time)." in fit.result_.to_markdown()
    assert "The model has the offset log(time)." in fit.result_.to_latex()
    assert "The model has the offset" not in fit.summary()  # the formula says so
    data = rows()
    beside = FederatedGLM("poisson", "days ~ age").fit(data, offset=np.log(data["time"]))
    for text in (beside.summary(), beside.result_.to_markdown()):
        assert "The model has an offset." in text
    assert "offset" not in fitted("days ~ age", "poisson").result_.to_markdown()


def test_a_test_with_an_estimated_dispersion_is_called_an_f_test():
    for family, name in {"gaussian": "F test", "poisson": "Likelihood-ratio test"}.items():
        told = title("lr_tests", fitted("days ~ age + stage", family).test())
        assert told == f"{name} of each term: the model against a model without the term"
