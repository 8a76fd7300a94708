"""Whose numbers a table hangs on: the change without a site, beside really leaving it out."""

import json
import re
from html import unescape

import numpy as np
import pandas as pd
import pytest

from feddcd import FederatedGLM
from feddcd.analysis import export, report
from slices import thinned

SITES = list("abcdefgh")


def rows(n: int = 800) -> pd.DataFrame:
    rng = np.random.default_rng(11)
    d = pd.DataFrame({"x": rng.normal(size=n), "v": rng.normal(1, 2, n)})
    d["site"] = rng.choice(SITES, n)
    own = d.site.map({site: 0.4 * np.sin(i) for i, site in enumerate(SITES)})
    z = 0.5 * d.x - 0.2 * d.v + own * d.x
    d["gaussian"] = z + rng.normal(size=n)
    d["binomial"] = (rng.random(n) < 1 / (1 + np.exp(-z))).astype(int)
    d["poisson"] = rng.poisson(np.exp(0.5 * z))
    d["multinomial"] = rng.choice(["p", "q", "r"], n)
    return d


@pytest.mark.parametrize(
    ("family", "settings"),
    thinned(
        [
            ("gaussian", {}),
            ("binomial", {}),
            ("binomial", {"l2": 2.0, "standardize": True}),
            ("binomial", {"site_effects": "fixed"}),
            ("poisson", {"covariance": "HC1"}),
            ("multinomial", {}),
            ("binomial", {"firth": True}),
        ],
        3,
    ),
)
def test_one_step_is_near_to_leaving_a_site_out(family, settings):
    d, formula = rows(), f"{family} ~ x + v"
    fit = FederatedGLM(family, formula, tol=1e-6, **settings).fit(d, groups="site").result_
    se, close = fit.original_table["std_err"], 1e-4 if family == "gaussian" else 0.2
    told = fit.leave_one_out
    assert list(told.columns) == SITES
    for site in SITES[::3]:
        other = FederatedGLM(family, formula, tol=1e-6, **settings)
        without = other.fit(d[d.site != site], groups="site").result_.original_table["coef"]
        kept = [name for name in told.index if not name.startswith("site[") and name in without]
        kept = [name for name in kept if settings != {"site_effects": "fixed"} or name in "xv"]
        true = (without[kept] - fit.original_table.loc[kept, "coef"]) / se[kept]
        own = told.loc[kept, site]
        if settings.get("standardize"):  # the unit changes with the rows
            own, true = (x.loc[["x", "v"]] for x in (own, true))
        moved = true.abs() > 0.1
        assert moved.any() or family == "multinomial" or site != "a"
        np.testing.assert_allclose(own[moved], true[moved], rtol=close)
        np.testing.assert_allclose(own[~moved], true[~moved], rtol=0, atol=0.05)


def test_the_site_that_it_hangs_on_is_named(tmp_path):
    d = rows()
    d.loc[d.site == "f", "gaussian"] += 4 * d.x[d.site == "f"]
    d["late"] = ((d.site == "b") & (d.index % 2 == 0)).astype(float)
    fit = FederatedGLM("gaussian", "gaussian ~ x + v").fit(d, groups="site").result_
    site, name, change = fit.hinge
    assert (site, name) == ("f", "x")
    assert change < -3
    text = unescape(report.write(fit, tmp_path / "report.html").read_text())
    assert "Without the site 'f', the coefficient of 'x' would be lower by about " in text
    assert "By this estimate, no other site has a larger influence on a coefficient" in text
    assert re.search(r"<td[^>]*>about −[\d.]+ \(x\)</td>", text)
    assert "invents rows" in text
    told = json.loads(json.dumps(export.document(fit), allow_nan=False))["leave_one_site_out"]
    assert told["largest"]["site"] == "f"
    np.testing.assert_allclose(told["changes"]["f"], fit.leave_one_out["f"])
    alone = FederatedGLM("gaussian", "gaussian ~ x + late").fit(d, groups="site").result_
    assert alone.hinge == ("b", "late", np.inf)
    assert np.isnan(alone.leave_one_out.loc["late", "b"])
    assert "The coefficient of 'late' depends on the site 'b'" in unescape(
        report.write(alone, tmp_path / "other.html").read_text()
    )
    assert export.document(alone)["leave_one_site_out"]["largest"]["change"] is None
    d["early"] = ((d.site == "c") & (d.index % 2 == 0)).astype(float)
    both = FederatedGLM("gaussian", "gaussian ~ x + late + early").fit(d, groups="site").result_
    told = "depend on one site: 'late' on the site 'b' and 'early' on the site 'c'. The rows of the"
    assert told in unescape(report.write(both, tmp_path / "both.html").read_text())


def test_the_intercept_of_the_site_of_reference_is_no_finding(tmp_path):
    """No rows but its own determine it, as with the effect of each other site."""
    d = rows()
    d.loc[d.site == "f", "gaussian"] += 4 * d.x[d.site == "f"]
    model = FederatedGLM("gaussian", "gaussian ~ x + v", site_effects="fixed")
    fit = model.fit(d, groups="site").result_
    assert np.isnan(fit.leave_one_out.loc["Intercept", "a"])
    assert fit.hinge[:2] == ("f", "x")
    text = unescape(report.write(fit, tmp_path / "report.html").read_text())
    assert "Without the site 'f', the coefficient of 'x' would be lower by about " in text
    assert "not determined" not in text
    assert export.document(fit)["leave_one_site_out"]["largest"]["name"] == "x"
