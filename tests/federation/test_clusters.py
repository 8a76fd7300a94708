"""Standard errors by cluster add up products of rows that are together: pairs of few rows must not
come out as the difference of two jobs."""

import json

import numpy as np
import pandas as pd
import pytest
import tomli_w

from feddcd._errors import Refused
from feddcd.analysis._robust import site_meat
from feddcd.analysis._sums import NONE, DesignRows, PointQuestion, square
from feddcd.analysis.families import family_of
from feddcd.analysis.registry import read_plan
from feddcd.federation import wire
from feddcd.federation.site._clusters import check_by_site
from feddcd.federation.site.answer import SitePlace, answer
from feddcd.federation.site.policy import Policy
from site_world import asked

POLICY = {"answers": "each", "approve": "none", "max_numbers_per_value": 100.0}
CLUSTER = {"covariance": "cluster"}


def patients(n=300):
    """Two patients have the same crp; visits are of 100 patients."""
    rng = np.random.default_rng(0)
    d = pd.DataFrame({"age": rng.normal(60, 10, n).round(1), "bmi": rng.normal(27, 4, n).round(1)})
    d["crp"] = rng.permutation(n) / 100 + 1
    d.loc[7, "crp"] = d.crp[41]
    d["visits"] = np.arange(n) % 100
    d["moved"] = np.where(np.arange(n) == 5, 6, d.visits)
    d["y"] = (0.1 * d.age + rng.normal(size=n)).round(2)
    return d


@pytest.fixture
def place(tmp_path):
    patients().to_csv(tmp_path / "data.csv", index=False)
    (tmp_path / "policy.toml").write_text(tomli_w.dumps(POLICY | {"complete": True}))
    return SitePlace("north", tmp_path, tmp_path / "data.csv")


def refused(place, **plan):
    said = wire.unpack_message(answer(asked(place, "y ~ age + bmi", **plan), place))
    if said.kind != "refusal":
        return ""
    last = json.loads((place.folder / "outgoing.jsonl").read_text().splitlines()[-1])
    return last.get("rule", wire.read_refusal(said).reason)


def test_two_tables_told_the_two_patients_with_one_value():
    """What the difference of both sums is, at any point."""
    d = patients()
    X = np.column_stack([np.ones(len(d)), d.age, d.bmi])
    rows = DesignRows(X, d.y.to_numpy()[:, None], np.ones(len(d)), np.zeros(len(d)))
    w = np.array([[0.5], [0.1], [0.0]])
    question = PointQuestion(w, w, NONE, np.zeros(1), NONE, np.ones(()), False, closing=True)
    codes = np.unique(d.crp, return_inverse=True)[1]
    meat = lambda kind: site_meat(rows, family_of("gaussian"), question, kind, codes).meat
    D = square(meat("cluster"), 3) - square(meat("HC0"), 3)
    total, product = 2 * D[0] / D[0, 0], np.diag(D) / D[0, 0]
    root = np.sqrt(total**2 / 4 - product)
    found = np.sort([total / 2 - root, total / 2 + root], axis=0)[:, 1:]
    np.testing.assert_allclose(found, np.sort(d.loc[[7, 41], ["age", "bmi"]], axis=0), rtol=1e-6)


def test_few_rows_that_share_a_cluster_are_refused(place):
    assert refused(place, **CLUSTER, cluster="crp") == "clusters"
    assert refused(place, **CLUSTER, cluster="visits") == ""
    assert refused(place, covariance="HC0") == ""


def test_clusters_of_two_jobs_differ_by_many_rows_or_by_none(place):
    assert refused(place, **CLUSTER, cluster="moved") == ""
    assert refused(place, **CLUSTER, cluster="visits") == "clusters"


def test_a_site_is_no_cluster_where_only_sums_may_be_read():
    plan = read_plan({"formula": "y ~ age", "family": "gaussian", "covariance": "cluster"})
    with pytest.raises(
        Refused,
        match="standard errors by site, because these standard errors reveal numbers of single",
    ):
        check_by_site(Policy(), plan)
    check_by_site(Policy(answers="each"), plan)
    check_by_site(Policy(min_support=0), plan)
    check_by_site(Policy(), read_plan(plan.to_dict() | {"cluster": "ward"}))
    check_by_site(Policy(), read_plan(plan.to_dict() | {"covariance": "HC1"}))


def test_one_of_three_sites_could_read_the_gradients_of_the_two_others():
    """From the sums by site, less its own part: as rule 20 and the page on security say."""
    one, two = np.random.default_rng(1).normal(size=(2, 3))
    added, meat = one + two, np.outer(one, one) + np.outer(two, two)
    apart = 2 * meat - np.outer(added, added)  # of the difference, squared
    difference = apart[0] / np.sqrt(apart[0, 0])
    found = sorted(((added + sign * difference) / 2).tolist() for sign in (1, -1))
    np.testing.assert_allclose(found, sorted([one.tolist(), two.tolist()]))
