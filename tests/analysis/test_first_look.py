"""What a person who sees a table for the first time would take for something else."""

import numpy as np
import pandas as pd
import pytest

from feddcd import FederatedGLM
from feddcd.analysis import report


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
        assert "federation was run" in text or "On one table, without a federation:" in text
    alone = "240 sites of 240 have only one row each: the sums of a site with one row reveal this"
    assert (alone in fit.to_markdown()) == (groups == "person")
