"""A coordinator that asks for yes or no about one patient, and needs no answer of sums for it.

Two sites are the same but for one patient. Whatever is asked of them before a person has decided,
both must say the same, in bytes. The policy is the careful one.
"""

import json
import re

import numpy as np
import pandas as pd
import pytest
import tomli_w

from feddcd._errors import Refused
from feddcd.analysis.protocol import ColumnsOffer
from feddcd.analysis.registry import ANALYSES, read_plan
from feddcd.federation import wire
from feddcd.federation.site._tables import digest_of
from feddcd.federation.site.answer import SitePlace, _one_line, answer
from feddcd.federation.site.approval import (
    Asker,
    approve,
    deny,
    mark_read,
    require,
    waiting,
    words_of,
)
from feddcd.federation.site.told import REFUSED, SEE_LOG, waits

SITES = ["east", "north", "south"]
ROW = 17  # of the patient whom the coordinator wants to know of
WAITS = "waits for approval by its administrator"
BOOK = {
    "columns": {
        "age": {"type": "number"},
        "crp": {"type": "number", "range": [0, 500]},
        "y": {"type": "number"},
        "code": {"type": "integer"},
        "dx": {"type": "category", "levels": ["flu", "copd", "HIV", "TB"]},
        "smoker": {"type": "boolean"},
    }
}


def patients(there):
    rng = np.random.default_rng(3)
    n = 80
    d = pd.DataFrame({"age": rng.integers(30, 90, n), "crp": rng.gamma(2, 5, n).round(1)})
    d["y"] = rng.normal(size=n).round(2)
    d["dx"] = np.where(d.index % 2, "flu", "copd")
    d["code"] = 100 + d.index % 7
    d["smoker"] = d.index % 3 == 0
    if there:
        d.loc[ROW, ["age", "crp", "dx", "code"]] = [61, 93.5, "HIV", 999]
    else:
        d.loc[ROW, ["age", "crp"]] = [62, 12.5]
    return d


class Site:
    def __init__(self, folder, there, book=None, policy=None):
        folder.mkdir()
        patients(there).to_csv(folder / "data.csv", index=False)
        if book is not None:
            (folder / "codebook.toml").write_text(tomli_w.dumps(book))
        if policy is not None:
            (folder / "policy.toml").write_text(tomli_w.dumps(policy | {"complete": True}))
        self.folder, self.place = folder, SitePlace("north", folder, folder / "data.csv")

    def columns(self, plan):
        return self._say("columns", {"plan": plan.to_dict()})

    def job(self, plan):
        """Of sums that this site alone can be asked for; the offers are of the coordinator."""
        numbers = [c for c in ("age", "crp", "y") if c in plan.formula]
        levels = {"dx": ["flu", "copd"]} if "dx" in plan.formula else {}
        offer = ColumnsOffer(levels, numbers, None, [*numbers, *levels])
        agreed, _ = ANALYSES["regression"].agree(dict.fromkeys(SITES, offer), plan)
        return self._say("sums", {"plan": plan.to_dict(), "agreed": agreed.to_dict()})

    def _say(self, kind, meta):
        said = wire.unpack_message(
            answer(wire.pack_message(wire.Envelope(kind, meta, {})), self.place)
        )
        return said.meta["reason"] if said.kind == "refusal" else said.meta

    def words(self):
        return "\n".join(line for id in waiting(self.folder) for line in words_of(self.folder, id))

    def decide(self, how):
        for id in waiting(self.folder):
            how(self.folder, id)

    def log(self):
        return [json.loads(x) for x in (self.folder / "outgoing.jsonl").read_text().splitlines()]


@pytest.fixture
def sites(tmp_path):
    """With the patient, and without."""

    def made(**more):
        name = f"{digest_of(more)[:8]}"
        return [Site(tmp_path / f"{name}{there}", there, **more) for there in (True, False)]

    return made


def plan(formula="y ~ dx", **more):
    return read_plan({"formula": formula, "family": "gaussian"} | more)


def book(**columns):
    kept = {name: dict(entry) for name, entry in BOOK["columns"].items() if name in columns}
    return {"columns": {name: kept[name] | more for name, more in columns.items()}}


DECLARED = {
    "levels": plan(levels={"dx": ["flu", "copd"]}),
    "no levels": plan(),
    "numbers as levels": plan("y ~ C(code)", levels={"code": list(range(100, 107))}),
    "a codebook": plan(codebook=book(dx={"levels": ["flu", "copd"]}, y={})),
    "classes": plan("dx ~ age", family="multinomial", classes=["flu", "copd"]),
    "describe": read_plan({"analysis": "describe", "columns": ["C(code)", "age"], "by": "dx"}),
    "a response": plan("log(age - crp) ~ y", levels={"dx": ["flu", "copd", "HIV"]}),
}


@pytest.mark.parametrize("name", DECLARED)
def test_names_and_levels_wait_for_a_person(name, sites):
    """Is there somebody with HIV, or with code 999?"""
    there, not_there = sites()
    for _ in range(2):
        said = there.columns(DECLARED[name])
        assert said == not_there.columns(DECLARED[name])
        assert WAITS in said
    assert len(waiting(there.folder)) == 1


def test_a_person_reads_of_levels_what_the_rules_found(sites):
    there, not_there = sites()
    asked = DECLARED["levels"]
    for site in (there, not_there):
        site.columns(asked)
        assert "declared levels of 'dx': 'flu', 'copd'" in site.words()
        assert (
            "a value is missing if the field is empty or is one of these words: 'NA'"
            in site.words()
        )
    assert (
        "the rules of this site refuse this request. The reason is the rule 'values': "
        in there.words()
    )
    assert "'HIV'" in there.words()
    assert "refuse this" not in not_there.words()
    assert "this site would send these levels of 'dx': 'flu', 'copd'" in not_there.words()
    there.decide(approve)
    assert there.columns(asked) == f"north: {REFUSED}"
    assert there.log()[-1]["rule"] == "values"
    not_there.decide(approve)
    assert not_there.columns(asked)["levels"] == {"dx": ["flu", "copd"]}
    assert WAITS in not_there.columns(plan("y ~ age + dx"))  # once for each plan
    not_there.decide(deny)
    assert not_there.columns(plan("y ~ age + dx")) == f"north: {REFUSED}"


def test_columns_of_numbers_are_named_without_a_person(sites):
    there, not_there = sites()
    said = there.columns(plan("y ~ age + crp"))
    assert said == not_there.columns(plan("y ~ age + crp"))
    assert (said["numbers"], said["levels"]) == (["age", "crp"], {})


OFFERED = {
    "y ~ age + dx": {"dx": ["flu", "copd", "HIV", "TB"]},
    "y ~ smoker": {"smoker": [False, True]},
    "log(crp) ~ age": {},
}


@pytest.mark.parametrize("formula", OFFERED)
def test_a_site_with_a_codebook_offers_what_is_in_it(formula, sites):
    """Levels that nobody has are offered, too, and no person is needed."""
    there, not_there = sites(book=BOOK)
    said = there.columns(plan(formula))
    assert said == not_there.columns(plan(formula))
    assert said["levels"] == OFFERED[formula]
    described = read_plan({"analysis": "describe", "columns": ["age", "smoker"], "by": "dx"})
    assert there.columns(described) == not_there.columns(described)
    assert there.columns(described)["numbers"] == ["age"]


OTHER = {
    "levels": (
        DECLARED["levels"],
        "levels of the column 'dx' that the codebook of this site does not list",
    ),
    "numbers": (
        DECLARED["numbers as levels"],
        "levels of the column 'code' that the codebook of this site does not list",
    ),
    "C(code)": (
        plan("y ~ C(code)"),
        "levels of the column 'code', because the codebook of this site does not list them",
    ),
    "classes": (
        DECLARED["classes"],
        "levels of the column 'dx' that the codebook of this site does not list",
    ),
    "range": (
        plan("y ~ crp", codebook=book(crp={"range": [0, 50]}, y={})),
        "the column 'crp', because the codebook of the plan and the codebook of this site describe "
        "this column differently",
    ),
}


@pytest.mark.parametrize("name", OTHER)
def test_another_codebook_than_the_sites_is_refused_by_name(name, sites):
    asked, why = OTHER[name]
    there, not_there = sites(book=BOOK)
    said = there.columns(asked)
    assert said == not_there.columns(asked)
    assert re.search(why, said)
    assert not waiting(there.folder)


@pytest.mark.parametrize(
    ("name", "entry"),
    [("crp", {"range": [0, 50]}), ("age", {"type": "integer", "missing": ["60", "61"]})],
)
def test_a_plan_chooses_no_range_and_no_missing_values(name, entry, sites):
    """A range tells the largest value by halves; words for missing drop rows by value."""
    there, not_there = sites()
    asked = plan(f"y ~ {name}", codebook=book(**{name: entry, "y": {}}))
    for say in (Site.columns, Site.job):
        assert say(there, asked) == say(not_there, asked)
    assert "and this site has no codebook. A person" in there.columns(asked)
    loose = Site(there.folder / "loose", True, policy={"constants": "any", "answers": "each"})
    assert WAITS in loose.job(asked)
    shown = {
        "crp": "range of 'crp': 0 to 50",
        "age": "in the column 'age' a value is missing if it is one of: '', '60', '61'",
    }
    assert shown[name] in loose.words()
    assert "this codebook is NOT from this site; it came with the plan (digest " in loose.words()


MEMBER = plan("y ~ I(age + 0 * log(abs(age - 61) + abs(crp - 93.5)))")
JOBS = {
    "membership": MEMBER,
    "least": plan("y ~ log(93 - crp)"),
    "levels": DECLARED["levels"],
    "support": plan("y ~ I(exp(exp(crp / 20)))"),
}


@pytest.mark.parametrize("approval", ["job", "answer"])
@pytest.mark.parametrize("name", JOBS)
def test_a_job_waits_whatever_the_rules_find(name, approval, sites):
    careful = {"answers": "each", "approve": approval, "constants": "any"}
    there, not_there = sites(policy=careful)
    for _ in range(2):
        said = there.job(JOBS[name])
        assert said == not_there.job(JOBS[name]) == f"north: {waits('this job')}"
    assert (
        "NOTE: even if you approve, the rules of this site refuse this request. " in there.words()
    )
    assert not any("refused" in line for line in there.log())


def test_a_job_that_was_denied_reads_like_one_that_a_rule_refused(sites):
    careful = {"answers": "each", "constants": "any"}
    there, not_there = sites(policy=careful)
    for site in (there, not_there):
        site.job(MEMBER)
    there.decide(approve)
    not_there.decide(deny)
    assert there.job(MEMBER) == not_there.job(MEMBER) == f"north: {REFUSED}"
    assert (there.log()[-1]["rule"], not_there.log()[-1]["rule"]) == ("values", "denied")


def test_the_log_of_what_left_quotes_no_value(sites):
    """Its lines are chained, so that none can be removed when a patient withdraws consent. The
    person who decides reads the value, and site.log has it, which can be deleted."""
    there, _ = sites()
    data = there.folder / "data.csv"
    data.write_text(data.read_text().replace(",93.5,", ",93x5,"))
    level = "the site's column 'dx' has a level that the plan does not list"
    number = "column 'crp' contains neither plain numbers nor categories"
    for asked, value, told in (
        (DECLARED["levels"], "'HIV'", level),
        (plan("y ~ age + crp + dx"), "'93x5'", number),
    ):
        there.columns(asked)
        assert value in there.words()
        there.decide(approve)
        assert there.columns(asked) == f"north: {REFUSED}"
        line = there.log()[-1]
        assert (line["rule"], line["why"]) == ("values", f"{told}; {SEE_LOG}")
        assert value.strip("'") not in (there.folder / "outgoing.jsonl").read_text()
        assert value in (there.folder / "site.log").read_text()


def test_the_log_quotes_no_error_of_a_library():
    """It may quote a value; site.log has all of it."""
    error = ValueError("could not convert string to float: '93x5'")
    assert _one_line(error) == f"ValueError; {SEE_LOG}"


def test_a_denied_job_stays_denied_in_every_study_and_an_approval_is_for_one(tmp_path):
    def ask(id, study):
        asked = Asker(study, "why", bound=True)
        require(tmp_path, id, "this job", {"shown": ["a job"]}, asked=asked)

    for id, decide in (("a" * 32, approve), ("b" * 32, deny)):
        with pytest.raises(Refused, match=WAITS):
            ask(id, "one")
        mark_read(tmp_path, id)
        decide(tmp_path, id)
    ask("a" * 32, "one")
    with pytest.raises(Refused, match=WAITS):
        ask("a" * 32, "two")
    with pytest.raises(Refused, match=REFUSED):
        ask("b" * 32, "two")
