"""Before a person agrees: what the rules will refuse, by the name of the column, and what helps."""

import json
import time
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import tomli_w
from typer.testing import CliRunner

from feddcd.analysis import _finished
from feddcd.analysis.registry import ANALYSES
from feddcd.cli.app import app
from feddcd.federation.site import _columns, _foreseen, _words, approval
from feddcd.federation.site.answer import SitePlace, answer
from feddcd.federation.site.approval import approve, waiting, words_of
from feddcd.federation.site.policy import Ruled
from feddcd.federation.site.told import REFUSED
from feddcd.federation.wire import read_refusal, unpack_message
from site_world import asked

REMEDY = (
    "A new plan can use the logarithm of a skewed column of numbers, or leave the column out. The "
    "page 'The rules of a site' explains"
)
OF_LEVELS = "A new plan can join levels with few rows, or leave out a column. The page"


def place(folder, n=120, **policy):
    rng = np.random.default_rng(2)
    d = pd.DataFrame({"age": rng.normal(60, 9, n), "crp": rng.lognormal(1, 1.1, n)})
    d["rare"] = (np.arange(n) < 3).astype(int)
    d["bmi"] = rng.normal(26, 4, n)
    d["y"] = 0.1 * d.age + rng.normal(size=n)
    d["event"] = (rng.random(n) < 0.4).astype(int)
    folder.mkdir()
    d.round(2).to_csv(folder / "data.csv", index=False)
    written = {"answers": "each", "constants": "any", **policy, "complete": True}
    (folder / "policy.toml").write_text(tomli_w.dumps(written))
    return SitePlace("north", folder, folder / "data.csv")


def said(site, formula, family="gaussian"):
    reply = unpack_message(answer(asked(site, formula, family=family), site))
    return read_refusal(reply).reason if reply.kind == "refusal" else reply


def words(site):
    (id,) = waiting(site.folder)
    return "\n".join(words_of(site.folder, id))


def last_line(site):
    return json.loads((site.folder / "outgoing.jsonl").read_text().splitlines()[-1])


def test_a_job_that_a_few_rows_would_dominate_is_foreseen(tmp_path):
    """Which the rule on columns alone lets pass."""
    site = place(tmp_path / "north")
    assert "waits for approval" in said(site, "y ~ age + crp")
    told = words(site)
    assert "NOTE: feddcd tried this job with the rows of this site alone. The rules would" in told
    assert told.splitlines()[-1].startswith("  NOTE: "), "just before the decision"
    assert (
        "question 1, and the job would end. The reason is the rule 'dominance': 4 rows alone "
        "give more than 50 % of a sum of squares of the column 'crp'"
    ) in told
    assert REMEDY in told
    first = told.splitlines()[0]
    assert first.startswith("THE RULES OF THIS SITE WOULD REFUSE THIS JOB. The last lines")
    assert "say what to change in the job. Then deny this job. If you approve it, the" in first
    approve(site.folder, *waiting(site.folder))
    assert said(site, "y ~ age + crp") == f"north: {REFUSED}"  # others hear no more
    line = last_line(site)
    assert line["rule"] == "dominance"
    assert "of squares of the column 'crp' (max_share = 0.5). " + REMEDY in line["why"]


@pytest.mark.parametrize("formula", ["y ~ age + log(crp)", "event ~ age + bmi"])
def test_one_that_passes_says_what_can_still_happen(formula, tmp_path):
    site = place(tmp_path / "north")
    family = "binomial" if formula.startswith("event") else "gaussian"
    assert "waits for approval" in said(site, formula, family)
    assert f"NOTE: {_foreseen.PASSED}" in words(site)
    assert "depend on the sums of all sites, which this site does not know" in _foreseen.PASSED
    assert "would refuse question" not in words(site)
    assert "THE RULES" not in words(site)
    approve(site.folder, *waiting(site.folder))
    assert said(site, formula, family).kind == "sums"


def test_how_long_the_first_reply_takes_does_not_tell_what_the_rules_found(monkeypatch, tmp_path):
    """A column that three rows have is refused at once; another job is tried on all rows."""
    waited = []
    monkeypatch.setattr(approval, "FIRST_S", 0.5)
    clock = iter([0.0, 0.02, 10.0, 10.3, 20.0, 20.7, 30.0, 39.0])
    own = {"sleep": waited.append, "monotonic": lambda: next(clock), "time": time.time}
    monkeypatch.setattr(approval, "time", SimpleNamespace(**own))
    for i, formula in enumerate(["y ~ age + rare", "y ~ age", "y ~ bmi", "y ~ age + bmi"]):
        site = place(tmp_path / str(i))
        for _ in range(2):  # asked again, it waits as it did, and at once
            assert "waits for approval" in said(site, formula)
    assert waited == pytest.approx([0.48, 0.2, 0.3, 0.0])


def agreed(site):
    (site.folder / "site.toml").touch()
    asked = ["federation", "approve", str(site.folder), *waiting(site.folder)]
    return " ".join(CliRunner().invoke(app, asked).output.split())


def test_a_rare_column_is_named_with_what_helps(tmp_path):
    site = place(tmp_path / "north")
    assert "waits for approval" in said(site, "y ~ age + rare")
    told = words(site)
    assert (
        "NOTE: even if you approve, the rules of this site refuse this request. The reason is the "
        "rule 'support': in the column 'rare', fewer"
    ) in told
    assert OF_LEVELS in told
    first, what = told.splitlines()[:2]
    assert first.startswith("THE RULES OF THIS SITE REFUSE THIS REQUEST, also if you approve. ")
    assert what == _words.ASKS, "and what the coordinator says about the job comes after it"
    assert "logarithm" not in told, "of 0 and 1 there is none"
    assert "but the rules of this site refuse a job that you approved" in agreed(site)
    assert "waits for approval" in said(site, "y ~ age")
    told = agreed(site)
    assert "is approved" in told
    assert "but the rules" not in told


def test_the_advice_fits_the_rule():
    cells = "\n".join(_words.against(Ruled("cells", "two rows")))
    assert "join levels with few rows" in cells
    assert "small_cells" in cells
    assert "logarithm" not in cells
    assert "use fewer columns" in "\n".join(_words.against(Ruled("max_numbers_per_value", "44")))
    assert "logarithm" in "\n".join(_words.against(Ruled("dominance", "crp")))


def test_what_cannot_be_tried_is_no_reason_to_stop(tmp_path, monkeypatch):
    """Of these rows alone there may be no table at all."""
    site = place(tmp_path / "north")

    def fail(*_, **__):
        raise np.linalg.LinAlgError

    monkeypatch.setattr(type(ANALYSES["regression"]), "answer", fail)
    assert "waits for approval" in said(site, "y ~ age + bmi")
    assert f"NOTE: {_foreseen.PART}" in words(site)


def test_an_entry_of_a_matrix_names_both_columns():
    X, names = np.ones((40, 4)), ("(Intercept)", "age", "a", "b")
    X[:, 1], X[:20, 2], X[19:, 3] = np.arange(40), 0.0, 0.0
    told = [
        (_columns.entry_of(what, names, None, parts.shape[1], at), parts[:, at].sum())
        for what, parts in _finished._products("the Hessian", X, np.ones(40), names)
        for at in range(parts.shape[1])
    ]
    of = "an entry of the Hessian, from the product of two"
    assert (f"{of} categories, 'a' and 'b'", 0.0) in told
    assert (f"{of} columns, 'age' and 'a'", sum(range(20, 40))) in told
    assert len(told) == 6
    assert _columns.entry_of("the vector", names, None, 9, 3) == "the vector (entry 4 of 9)"


def test_where_the_rules_on_rows_are_off_nothing_is_said(tmp_path):
    site = place(tmp_path / "north", min_support=0)
    assert "waits for approval" in said(site, "y ~ age + crp")
    assert "NOTE" not in words(site)
