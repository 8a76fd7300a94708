"""A coordinator that wants one patient's row, through the real door of a site, in bytes.

Each attack gives what it believes to know of the patient; the test knows the truth. Everything is
asked of `answer`, as a message from the network is. The policy here is the careful one but for
`answers = "each"` (what the attacker reads is this site's own) and `approve = "none"` (nobody
watches): rules have to do alone.
"""

import json
from dataclasses import fields as fields_of
from functools import cache
from itertools import combinations
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import tomli_w
from typer.testing import CliRunner

from feddcd._errors import DataError, Refused, SpecError
from feddcd.analysis import _finished
from feddcd.analysis._describe_plan import DescribePlan
from feddcd.analysis._sums import PointQuestion, upper
from feddcd.analysis.plan import RegressionPlan
from feddcd.analysis.protocol import SiteRows, arrays
from feddcd.analysis.registry import ANALYSES, read_plan
from feddcd.cli.app import app
from feddcd.federation import wire
from feddcd.federation.site import _columns as numbers
from feddcd.federation.site import _tables, _words
from feddcd.federation.site.answer import SitePlace, answer
from feddcd.federation.site.approval import approve, deny, pause, resume, waiting, words_of
from feddcd.federation.site.log import verify_log
from feddcd.federation.site.memory import difference as difference_of
from feddcd.federation.site.memory import smallest_atom
from feddcd.federation.site.policy import Policy, Ruled
from feddcd.federation.site.rules import check_columns, check_counts, first_counts
from feddcd.federation.site.told import REFUSED

SITES = ["east", "north", "south"]
TARGET = 137  # the row that everybody wants
NONE = np.zeros(0)


class Stopped(Exception):
    """The site refused; the reason is what the attacker was told."""


@cache
def patients():
    rng = np.random.default_rng(5)
    n = 400
    d = pd.DataFrame({"mrn": 100_000 + rng.permutation(9 * n)[:n]})
    d["age"] = rng.uniform(30, 90, n).round(1)
    d.loc[TARGET, "age"] = 93.0
    d["bmi"] = rng.normal(26, 4, n).round(1)
    d["crp"] = rng.gamma(4, 3, n).round(2)
    d["sex"] = rng.choice(["f", "m"], n)
    d["stage"] = rng.choice(["I", "II", "III"], n)
    d.loc[d.index[:3], ["sex", "stage"]] = ["f", "rare"]
    d["carrier"] = (d.stage == "rare").astype(int)  # a rare level, as a number
    d["lab"] = rng.normal(size=n).round(3)
    d.loc[TARGET, "lab"] = np.nan
    d["y"] = (rng.random(n) < 0.4).astype(int)
    return d


class Site:
    """As an attacker sees it: bytes in, bytes out."""

    def __init__(self, folder, policy=None, codebook=None, frame=None):
        self.frame = patients() if frame is None else frame
        folder.mkdir(parents=True, exist_ok=True)
        self.frame.to_csv(folder / "data.csv", index=False)
        if policy is not None:
            (folder / "policy.toml").write_text(tomli_w.dumps(policy | {"complete": True}))
        if codebook is not None:
            (folder / "codebook.toml").write_text(tomli_w.dumps(codebook))
        self.place, self.questions = SitePlace("north", folder, folder / "data.csv"), 0

    def ask(
        self, formula, w=(), family="gaussian", V=NONE, sites=SITES, pilot=True, edges=NONE, **plan
    ):
        """The arrays of one answer."""
        plan = read_plan({"formula": formula, "family": family, **plan})
        analysis = ANALYSES["regression"]
        offer = analysis.offer(self.frame.drop(index=[TARGET], errors="ignore"), plan).offer
        agreed, _ = analysis.agree(dict.fromkeys(sites, offer), plan)
        d = len(agreed.names)
        w = np.zeros((d, 1)) if not len(w) else np.reshape(np.asarray(w, float), (d, 1))
        asked = PointQuestion(w, w, V, np.zeros(1), edges, np.ones(()), pilot)
        meta = {"plan": plan.to_dict(), "agreed": agreed.to_dict()}
        request = wire.pack_message(wire.Envelope("sums", meta, arrays(asked)))
        self.questions += 1
        said = wire.unpack_message(answer(request, self.place))
        if said.kind == "refusal":
            raise Stopped(wire.read_refusal(said).reason)
        return said.arrays

    def log(self):
        path = self.place.folder / "outgoing.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()]


def truth(column):
    return float(patients().loc[TARGET, column])


def indicator(site):
    mrn = int(truth("mrn"))
    return site.ask(f"crp ~ bmi + I(mrn == {mrn})")["moments.xy"][2, 0]


def indicator_offset(site):
    mrn = int(truth("mrn"))
    H = site.ask(f"y ~ bmi + offset(60 * (mrn != {mrn}))", family="binomial")["H"]
    return H[1] / H[0]


def by_age(site):
    return site.ask("bmi ~ I((age == 93) * crp)")["moments.x"][1]


def weight_column(site):
    return site.ask("y ~ bmi", weight="mrn")["moments.weight"]


def identifier_sum(site):
    return site.ask("mrn ~ bmi")["moments.y"]


def window(site):
    """No trick in the formula: w makes the curvature of all other rows 0."""
    H = site.ask("y ~ age + bmi", w=[-9300, 100, 0], family="binomial", pilot=False)["H"]
    return H[2] / H[0]


def window_offset(site):
    H = site.ask("y ~ bmi + offset(50 * (age - 93))", family="binomial")["H"]
    return H[1] / H[0]


def steep(site):
    said = site.ask("crp ~ I(1 / (age - 93.01)**8)")
    return said["moments.xy"][1, 0] / said["moments.x"][1]


def dent(site):
    """One value far below, all others nearly the same, none the most frequent."""
    said = site.ask("crp ~ I(1 / (1 + 1 / (10 * (age - 93.01))**8))")
    return said["moments.xy"][0, 0] - said["moments.xy"][1, 0]


def difference(site):
    """A column that this patient lacks leaves the row out."""
    whole = site.ask("crp ~ bmi")["moments.y"]
    return whole - site.ask("crp ~ bmi + lab")["moments.y"]


def thresholds(site):
    below = sorted(patients().age)[-2]
    a = site.ask("crp ~ I(age > 60)")["moments.xy"][1, 0]
    b = site.ask(f"crp ~ I((age > 60) * (age <= {below}))")["moments.xy"][1, 0]
    return a - b


def smooth_thresholds(site):
    """Steps without a comparison."""
    ages = np.sort(patients().age)
    near = ages[ages > 60][0]  # not the target: any patient will do
    row = patients().index[patients().age == near][0]
    made = "crp ~ I(1 / (1 + exp(-300 * (age - {:.3f}))) + bmi / 1000000)"
    step = lambda x: site.ask(made.format(x))["moments.xy"][1, 0]
    return step(near - 0.05) - step(near + 0.05) - patients().crp[row] + truth("crp")


def signs(site):
    ages = np.sort(patients().age)
    near = ages[ages > 60][0]
    row = patients().index[patients().age == near][0]
    sign = lambda x: site.ask(f"crp ~ I(abs(age - {x:.3f}) / (age - {x:.3f}))")["moments.xy"][1, 0]
    return (sign(near - 0.05) - sign(near + 0.05)) / 2 - patients().crp[row] + truth("crp")


def within_a_job(site):
    """Both thresholds at once."""
    below = sorted(patients().age)[-2]
    said = site.ask(f"crp ~ I(age > 60) + I((age > 60) * (age <= {below}))")["moments.xy"]
    return said[1, 0] - said[2, 0]


def three_columns(site):
    """No two of them are alike, and their difference is one patient."""
    row, near = alone_in_the_middle()
    c = f"I((age > 60) * (age <= 75) - (age == {near}))"
    said = site.ask(f"crp ~ I(age > 60) + I(age > 75) + {c}")["moments.xy"][:, 0]
    return said[1] - said[2] - said[3] - patients().crp[row] + truth("crp")


def alone_in_the_middle():
    """A patient between 60 and 75 whose age nobody shares."""
    ages = patients().age
    near = next(x for x in np.sort(ages) if x > 60 and (ages == x).sum() == 1)
    return patients().index[ages == near][0], near


def faint(site):
    """A difference far below what anybody would see."""
    a = site.ask("crp ~ I(age > 60)")["moments.xy"][1, 0]
    b = site.ask("crp ~ I((age > 60) + 0.00000001 * (age == 93))")["moments.xy"][1, 0]
    return (b - a) * 1e8


def edges(site):
    """Two edges of bins with one patient between."""
    row, near = alone_in_the_middle()
    ask = lambda x: site.ask("crp ~ age", w=[0, 1], pilot=False, edges=np.array([x]))["bins"]
    found = ask(near + 0.01)[1, 0] - ask(near - 0.01)[1, 0]
    return found - patients().crp[row] + truth("crp")


def bmi_of_rare(site):
    """Three carriers: their sum is not one row, but nobody's business."""
    said = site.ask("crp ~ carrier")
    return said["moments.xy"][1, 0] - patients().crp[:3].sum() + truth("crp")


def rare_outcome(site):
    said = site.ask("carrier ~ crp")
    return said["moments.xy"][1, 0] - patients().crp[:3].sum() + truth("crp")


def small_cell(site):
    rows = patients()[(patients().stage == "rare") & (patients().sex == "f")]
    said = site.ask("crp ~ C(sex) + carrier")["moments.xy"]
    return said[2, 0] - rows.crp.sum() + truth("crp")


def oracle(site):
    """An indefinite V: M tells whether a row is beyond an age, which no positive V can ask."""
    ages = np.array([92.0, 94.0])
    beyond = [_beyond(site, age) for age in ages]
    return ages.mean() if beyond == [True, False] else np.nan


def _beyond(site, age):
    V = np.array([[-(age**2), 0.0], [0.0, 1.0]])[upper(2)]  # x'Vx = x² - age²
    said = site.ask("y ~ age", w=[age, 0], family="binomial", V=V, pilot=False)
    return bool(said["M"] > 0)


ATTACKS = {  # who wants what; the rule that the site's log names
    "A1 indicator": (indicator, "crp", "identifiers"),
    "A1 offset": (indicator_offset, "bmi", "identifiers"),
    "A1 by age": (by_age, "crp", "support"),
    "A2 window": (window, "bmi", "dominance"),
    "A3 difference": (difference, "crp", "sets"),
    "A4 oracle": (oracle, "age", "not positive definite"),
    "A6 weight": (weight_column, None, "identifier"),
    "A6 identifier": (identifier_sum, None, "identifier"),
    "A7 rare as a number": (bmi_of_rare, "crp", "support"),
    "A7 rare outcome": (rare_outcome, "crp", "support"),
    "A7 cell": (small_cell, "crp", "support"),
    "window by offset": (window_offset, "bmi", "dominance"),
    "steep function": (steep, "crp", "dominance"),
    "dent": (dent, "crp", "dominance"),
    "thresholds": (thresholds, "crp", "cells"),
    "thresholds in one job": (within_a_job, "crp", "cells"),
    "smooth thresholds": (smooth_thresholds, "crp", "alike"),
    "three columns": (three_columns, "crp", "combinations"),
    "faint": (faint, "crp", "cells"),
    "signs": (signs, "crp", "cells"),
}
ALONE = {"answers": "each", "approve": "none", "constants": "any"}  # else careful


def learned(attack, wanted, site):
    """Whether the attacker has the value, or got an answer where any is too much."""
    found = float(np.ravel(attack(site))[0])
    return wanted is None or abs(found - truth(wanted)) < 0.02 * abs(truth(wanted))


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_fails_and_is_logged_with_its_rule(name, tmp_path):
    attack, wanted, rule = ATTACKS[name]
    site = Site(tmp_path, ALONE)
    with pytest.raises(Stopped) as stopped:
        learned(attack, wanted, site)
    told, logged = str(stopped.value), site.log()[-1]
    assert rule in logged.get("rule", logged["refused"])
    if "rule" in logged:
        assert told == f"north: {REFUSED}"
    assert logged["why" if "rule" in logged else "refused"]


def test_without_a_policy_no_answer_of_its_own_leaves(tmp_path):
    for attack, wanted, _ in ATTACKS.values():
        site = Site(tmp_path)
        with pytest.raises(Stopped, match=r"only sums over sites|an identifier|constants"):
            learned(attack, wanted, site)


def test_bins_and_small_counts_stay(tmp_path):
    """Whoever chooses the edges of bins could read one patient from two choices."""
    site = Site(tmp_path, ALONE)
    assert abs(edges(site) - truth("crp")) > 0.1
    assert not site.ask("crp ~ age", pilot=False, edges=np.array([1.0]))["bins"].any()


def test_levels_are_no_oracle(tmp_path):
    """Is somebody 93? A list of levels without 93 would tell."""
    site, told = Site(tmp_path, ALONE), []
    ages = sorted(set(patients().age))
    for left_out in (93.0, ages[0]):
        plan = read_plan({"formula": "crp ~ C(age)", "family": "gaussian",
                          "levels": {"age": [a for a in ages if a != left_out]}})  # fmt: skip
        request = wire.pack_message(wire.Envelope("columns", {"plan": plan.to_dict()}, {}))
        told.append(wire.read_refusal(wire.unpack_message(answer(request, site.place))).reason)
    assert set(told) == {f"north: {REFUSED}"}


def test_an_honest_job_is_answered(tmp_path):
    """So the attacks did not fail for another reason."""
    site = Site(tmp_path, ALONE)
    said = site.ask("y ~ age + bmi + crp + C(sex)", family="binomial")
    assert said["moments.n"] == len(patients())
    again = site.ask("y ~ age + bmi + crp + C(sex)", w=[0.1, 0, 0, 0, 0.1], family="binomial")
    assert again["value"] != said["value"]
    whole = {"complete": ["lab", "crp", "bmi"]}  # the set is founded over all columns at once
    other = Site(tmp_path / "other", ALONE)
    rows = [other.ask(f, **whole)["moments.n"] for f in ("crp ~ bmi", "crp ~ bmi + lab")]
    assert rows == [len(patients()) - 1] * 2


@pytest.mark.parametrize(
    "formula",
    [
        "y ~ crp",
        "y ~ I(\uff43rp)",
        "y ~ `\uff43rp`",
        "y ~ log(\uff43\uff52\uff50)",
        "y ~ offset(crp)",
    ],
)
def test_a_forbidden_column_has_no_other_spelling(formula, tmp_path):
    """A5; braces and calls of libraries are no formula at all."""
    site = Site(tmp_path, ALONE | {"columns": ["y", "age", "bmi"]})
    with pytest.raises((Stopped, SpecError, DataError)):
        site.ask(formula)
    assert not any("bytes" in line for line in (site.log() if site.questions else []))
    for code in ("y ~ {crp}", "y ~ np.log(crp)", "y ~ __import__('os')"):
        with pytest.raises(SpecError):
            read_plan({"formula": code})


def test_questions_and_jobs_are_counted(tmp_path):
    """A8: asked again, a question counts once; a job that was refused counts."""
    site = Site(tmp_path, ALONE | {"max_exchanges": 3, "max_jobs_per_month": 4})
    asked = lambda w: site.ask("y ~ bmi", w=[0, w], family="binomial", pilot=False)
    for w in (0, 0.01, 0.02, 0.02, 0.01):
        asked(w)
    for w in (0.03, 0.04):
        with pytest.raises(Stopped, match="more than 3 questions in one job"):
            asked(w)
    for k in range(3):
        with pytest.raises(Stopped, match="refused by the rules"):
            site.ask(f"y ~ I(mrn == {k}) + carrier")
    with pytest.raises(Stopped, match="more than 4 jobs in a month"):
        site.ask("y ~ age")
    few = Site(tmp_path / "few", ALONE | {"max_parameters": 5})
    few.ask("y ~ age + bmi")
    with pytest.raises(Stopped, match="max_parameters = 5"):
        few.ask("y ~ age + crp")


@pytest.mark.chaos
def test_two_thousand_questions(tmp_path):
    site, answered = Site(tmp_path, ALONE), 0
    for k in range(2000):
        try:
            site.ask("y ~ bmi", w=[0, k / 1e5], family="binomial", pilot=False)
            answered += 1
        except Stopped:
            pass
    assert answered == 50  # as many as the plan has exchanges


def test_a_refusal_is_no_oracle(tmp_path):
    """Present and absent, computable or not, are told alike."""
    site, told = Site(tmp_path, {"answers": "each", "approve": "none"}), []
    for mrn in (int(truth("mrn")), 99):
        with pytest.raises(Stopped) as stopped:
            site.ask(f"crp ~ I(mrn == {mrn})")
        told.append(str(stopped.value).replace(str(mrn), "x"))
    assert told[0] == told[1]
    site = Site(tmp_path / "any", ALONE)
    for formula in ("crp ~ log(age - 93)", "crp ~ carrier", "crp ~ I(1 / (age - 93.01)**8)"):
        with pytest.raises(Stopped, match=rf"^north: {REFUSED}$"):
            site.ask(formula)
    assert {line.get("rule") for line in site.log()} == {"values", "support", "dominance"}


SHIFTS = (  # all ways to say 61, which is no cut
    "abs(age - 61)", "I(61 - age)", "I((age - 61)^2)", "I(age - 60 - 1)", "I((age - 60) - (2 - 1))",
    "abs(age / 61 - 1)", "abs(log(age / 61))", "abs(age - 61 * bmi / bmi)", "abs(age - 61^1)",
    "abs(abs(age - 60) - 1)", "I(1 / (1 + exp(-9 * (age - 61))))", "log(age + bmi - 61)",
    "offset(abs(age - 61))", "I(age * (age - 61))", "I(61 * (age == age) - age)", "I(age^1.61)",
    "I(age + 0 * log(abs(age - 61) + bmi))", "abs(age - sqrt(3721))", "poly(age - 61, 2, raw=TRUE)",
    "I(age - 61 * (bmi + 1) + 61 * bmi)", "I(exp(age - 61)):bmi", "I(age - 61 * bmi^0)",
)  # fmt: skip
FREE = "age + I((age - 60) / 10) + I(bmi^2) + log(bmi + 1) + I(2 * age - bmi / 3) + (age + bmi)^2"


def test_the_codebook_of_the_site_has_the_cut_points(tmp_path):
    book = {"columns": {c: {"type": "number"} for c in ("age", "bmi", "crp")}}
    book["columns"]["age"]["cuts"] = [60]
    book["columns"]["crp"]["roles"] = ["outcome"]
    site = Site(tmp_path, {"answers": "each", "approve": "none"}, book)
    assert site.ask("crp ~ I(age > 60)", codebook=book)["moments.n"] == 400
    compared = ("I(age > 61)", "I(61 > age)", "I(age + 1 > 60)", "cut(age, c(0, 60.5, 120))")
    for wrong in (*compared, *SHIFTS):
        with pytest.raises(
            Stopped, match=r"codebook of this site (does not list the number|lists under)"
        ):
            site.ask(f"crp ~ {wrong}", codebook=book)
    assert site.ask(f"crp ~ {FREE}", codebook=book)["moments.n"] == 400
    with pytest.raises(
        Stopped,
        match="'crp' as predictor, because the codebook of this site gives this column other roles",
    ):
        site.ask("bmi ~ crp", codebook=book)
    with pytest.raises(Stopped, match="codebook of this site does not have this column"):
        site.ask("crp ~ lab")
    book["columns"]["age"]["cuts"] = [60, 61]  # as the coordinator would like it
    with pytest.raises(
        Stopped,
        match="the codebook of the plan and the codebook of this site describe this column diff",
    ):
        site.ask("crp ~ I(age > 61)", codebook=book)


def test_plans_that_nobody_approves_fill_no_memory(tmp_path):
    """Six codebooks of 12 MB made the file that holds what was answered too large to be read: the
    site answered nothing more."""
    site = Site(tmp_path, {"answers": "each"})
    book = {name: {"type": "number"} for name in ("y", "age")}
    book |= {f"c{i}": {"type": "number", "label": "x" * 480} for i in range(3_000)}
    with pytest.raises(
        Stopped,
        match=r"the plan has 1,\d\d\d,\d\d\d characters, but this site reads at most 1,048,576",
    ):
        site.ask("y ~ age", family="binomial", codebook={"columns": book})
    memory = tmp_path / "rules" / "memory.json"
    assert not memory.exists() or memory.stat().st_size < 1000
    with pytest.raises(Stopped, match="waits for approval"):
        site.ask("y ~ age", family="binomial")


def test_a_person_agrees_once_to_a_job(tmp_path):
    site = Site(tmp_path, {"answers": "each"})
    ask = lambda w=0.0: site.ask("y ~ age + C(sex)", w=[w, 0, 0], family="binomial")
    for _ in range(3):
        with pytest.raises(
            Stopped,
            match="waits for approval by its administrator, who has to decide about this job",
        ):
            ask()
    assert [set(line) & {"waits", "refused"} for line in site.log()] == [{"waits"}]  # no polls
    (id,) = waiting(tmp_path)
    words = "\n".join(words_of(tmp_path, id))
    for said in ("'y ~ age + C(sex)'", "rows: 400", "at most 50", "'east', 'north', 'south'"):
        assert said in words
    assert "smallest cell of categories: " in words
    approve(tmp_path, id)
    assert ask()["moments.n"] == ask(0.1)["moments.n"] == 400
    pause(tmp_path)
    with pytest.raises(Stopped, match="this site is paused"):
        ask()
    resume(tmp_path)
    with pytest.raises(Stopped, match="waits"):
        site.ask("y ~ bmi")
    deny(tmp_path, *waiting(tmp_path))
    with pytest.raises(Stopped, match=rf"^north: {REFUSED}$"):
        site.ask("y ~ bmi")  # as if a rule had refused it
    assert site.log()[-1]["why"] == "a person at this site denied this job"
    assert verify_log(tmp_path).lines == len(site.log())


ELSEWHERE = {"formula", "family", "columns", "levels", "codebook", "answers", "max_exchanges"}
HARMLESS = {"tol", "algorithm", "missing", "level", "latency", "bandwidth"}


def test_a_person_reads_all_that_a_plan_asks_for():
    """A penalty moves the points at which a model is asked for, and so what is told of rows."""
    fields = {field.name for kind in (RegressionPlan, DescribePlan) for field in fields_of(kind)}
    assert fields - ELSEWHERE - HARMLESS <= set(_words.ASKED)
    plan = RegressionPlan("y ~ age", "binomial", link="probit", l2={"age": 1e6}, standardize=True)
    told = "\n".join(_words._asked(plan, ("age", "y")))
    for said in ("link: 'probit'", "{'age': 1000000.0}", "the job scales the columns: True"):
        assert said in told


def test_the_same_rows_with_other_sites_need_a_person(tmp_path):
    site = Site(tmp_path, ALONE)
    site.ask("y ~ age")
    with pytest.raises(Stopped, match="waits for approval"):
        site.ask("y ~ age", sites=["north", "south", "west"])
    words = "\n".join(words_of(tmp_path, *waiting(tmp_path)))
    assert (
        "NOTE: an earlier job used the same rows with another list of sites: the sites 'east' and "
        "'west' are in only one of the two jobs.\n"
        "    The coordinator and everyone at the sites that take part in both jobs can calculate "
        "the sums of the site 'east' minus the sums of the site 'west': they subtract the sums of "
        "the two jobs.\n"
        "    Deny this job, unless the sites 'east' and 'west' agreed to reveal this."
    ) in words


def test_a_patient_who_withdraws_consent(tmp_path):
    site = Site(tmp_path, ALONE)
    (tmp_path / "site.toml").write_text('client-id = "north"\ndata = "data.csv"\n')
    site.ask("crp ~ bmi")
    command = ["federation", "withdraw", str(tmp_path), "--why", "one patient withdrew"]
    early = CliRunner().invoke(app, command)
    said = " ".join(f"{early.output}{early.exception}".split())
    assert f"data.csv has not changed since job {site.log()[-1]['of_job'][:8]}. First" in said
    assert "withdrawal" not in site.log()[-1]
    (tmp_path / "site.toml").write_text('client-id = "north"\ndata = "other.csv"\n')
    wrong = CliRunner().invoke(app, command)
    said = " ".join(f"{wrong.output}{wrong.exception}".split())
    assert "this site remembers no job on" in said
    assert "data.csv. Write the old path into site.toml again" in said
    assert "withdrawal" not in site.log()[-1]
    (tmp_path / "site.toml").write_text('client-id = "north"\ndata = "data.csv"\n')
    patients().drop(index=[7]).to_csv(tmp_path / "data.csv", index=False)
    with pytest.raises(Stopped, match="refused by the rules"):
        site.ask("crp ~ bmi")
    assert site.log()[-1]["rule"] == "frozen"
    with pytest.raises(Stopped, match="refused by the rules"):
        site.ask("crp ~ age")
    assert site.log()[-1]["rule"] == "sets"
    early = CliRunner().invoke(app, command)
    said = " ".join(f"{early.output}{early.exception}".split())
    assert "too early: 1 row of the data file has changed since an earlier job" in said
    assert "At least 20 rows have to change (rule 7 demands this" in said
    assert "withdrawal" not in site.log()[-1]
    with pytest.raises(Stopped, match="refused by the rules"):
        site.ask("crp ~ age")
    said = " ".join(CliRunner().invoke(app, [*command, "--early"]).output.split())
    assert "feddcd closed 1 set of rows" in said
    assert "The differences are the sums of the removed rows alone." in said
    assert (
        "do not approve the repeat until at least 20 rows of the data file have changed (rule 7"
        in said
    )
    assert "). The withdrawn rows count, too." in said
    assert (
        "traces of the removed rows: the folders 'rules', 'jobs', 'results' and 'outgoing'" in said
    )
    with pytest.raises(Stopped, match="waits for approval"):
        site.ask("crp ~ age")
    told = "\n".join(words_of(tmp_path, *waiting(tmp_path)))
    few = (
        "rows were withdrawn at this site after an earlier job. This job and the earlier job "
        "differ by fewer than 20 rows.\n"
    )
    assert few in told.replace("\n    ", "\n")
    assert "can calculate the sums of these rows alone" in told
    assert "until at least 20 rows have changed (rule 7 " in told
    done = CliRunner().invoke(app, ["federation", "approve", str(tmp_path), *waiting(tmp_path)])
    assert done.exit_code == 0
    assert site.ask("crp ~ age")["moments.n"] == 399
    shown = CliRunner().invoke(app, ["federation", "outgoing", str(tmp_path), "--log"]).output
    assert (
        "WITHDRAWAL  one patient withdrew; feddcd closed 1 set of rows of earlier jobs. Rule 7 "
        "does not compare new jobs with a closed set. With --early, feddcd did not check whether "
        "enough rows had changed" in shown
    )
    assert (
        "rule 'sets': only 1 row is in some jobs and not in others. There must be at least 20 such "
        "rows, or none" in " ".join(shown.split())
    )
    used = CliRunner().invoke(app, ["federation", "outgoing", str(tmp_path)]).output
    assert "jobs in the last 30 days: 2 of at most 30" in used


@pytest.mark.parametrize(("others", "warned"), [(18, True), (19, False)])
def test_the_withdrawn_row_counts_among_the_rows_that_changed(others, warned, tmp_path):
    """20 rows: as the message of the command says. New rows and removed rows count."""
    site = Site(tmp_path, ALONE)
    (tmp_path / "site.toml").write_text('client-id = "north"\ndata = "data.csv"\n')
    site.ask("crp ~ bmi")
    patients().drop(index=[7, *range(20, 20 + others)]).to_csv(tmp_path / "data.csv", index=False)
    command = ["federation", "withdraw", str(tmp_path), "--why", "one patient withdrew"]
    done = CliRunner().invoke(app, command)
    assert (done.exit_code != 0) == warned
    if warned:
        assert "too early: 19 rows of the data file have changed" in str(done.exception)
        assert CliRunner().invoke(app, [*command, "--early"]).exit_code == 0
    else:
        said = " ".join(done.output.split())
        enough = "20 rows of the data file have changed. This is enough: at least 20 had to change"
        assert enough in said
        assert "WARNING" not in said
    with pytest.raises(Stopped, match="waits for approval"):
        site.ask("crp ~ age")
    told = "\n".join(words_of(tmp_path, *waiting(tmp_path)))
    few = "after an earlier job. This job and the earlier job differ by fewer than 20 rows"
    assert (few in told) == warned


def test_rows_that_a_job_left_out_do_not_count_as_changed(tmp_path):
    """30 rows have no `crp`: they were in the file before the job, so they are not new."""
    frame = patients()
    frame.loc[300:329, "crp"] = np.nan
    site = Site(tmp_path, ALONE, frame=frame)
    (tmp_path / "site.toml").write_text('client-id = "north"\ndata = "data.csv"\n')
    site.ask("crp ~ bmi")
    command = ["federation", "withdraw", str(tmp_path), "--why", "one patient withdrew"]
    for gone, told in (([310], "not necessary"), ([310, 7], "too early: 1 row of the")):
        frame.drop(index=gone).to_csv(tmp_path / "data.csv", index=False)
        done = CliRunner().invoke(app, command)
        assert done.exit_code != 0
        assert told in str(done.exception)
    new = frame.tail(19).assign(bmi=30.0 + np.arange(19))
    pd.concat([frame.drop(index=[310, 7]), new]).to_csv(tmp_path / "data.csv", index=False)
    assert CliRunner().invoke(app, command).exit_code == 0


def test_what_the_site_remembers_is_its_own(tmp_path):
    site = Site(tmp_path, ALONE)
    site.ask("crp ~ bmi")
    held = [path for path in (tmp_path / "rules").rglob("*") if path.is_file()]
    assert {path.stat().st_mode & 0o777 for path in held} == {0o600}
    assert (tmp_path / "rules").stat().st_mode & 0o777 == 0o700
    (tmp_path / "rules" / "salt").unlink()  # the digests of earlier rows would mean nothing
    with pytest.raises(Stopped, match="this site cannot use its state file"):
        site.ask("crp ~ age")


def test_a_sum_is_judged_on_the_whole_cohort(tmp_path):
    """Parameters per row, and that each column varies at three sites."""
    rows = SiteRows(None, None, 20)
    columns = {"a": np.ones(20), "b": np.arange(20.0), "c": np.zeros(20), "(weight)": np.ones(20)}
    analysis = SimpleNamespace(columns_of=lambda rows: columns)
    told = first_counts(rows, analysis)
    assert (told["n"].tolist(), told["support"].tolist()) == ([20], [0, 1, 0])
    check_counts(Policy(), rows, analysis, {"n": [60], "support": [0, 3, 3]})
    with pytest.raises(Refused, match="the column 'c', because its values differ at only 2 sites"):
        check_counts(Policy(), rows, analysis, {"n": [60], "support": [0, 3, 2]})
    with pytest.raises(Refused, match="3 parameters from a sum over 29 rows"):
        check_counts(Policy(), rows, analysis, {"n": [29], "support": [0, 3, 3]})


def ward(n=100, alike=(17, 40)):
    """Only the rows `alike` are 61 years old; row 17 is alone in its ward and clinic; `lac` and
    `trop` are missing in eleven rows each, in one of them both, `five` in five."""
    rng = np.random.default_rng(0)
    d = pd.DataFrame({"age": rng.integers(30, 90, n).astype(float)})
    d.loc[d.age == 61, "age"] = 63
    d.loc[list(alike), "age"] = 61
    d["bmi"] = rng.normal(27, 4, n).round(1)
    d["ward"] = rng.choice(["A", "B", "C"], n)
    d["clinic"] = np.where(d.ward == "C", rng.choice(["v", "x"], n), rng.choice(list("vxz"), n))
    d.loc[17, ["ward", "clinic"]] = ["C", "z"]
    for name in ("lac", "trop", "five", *(f"lab{i}" for i in range(7))):
        d[name] = rng.uniform(1, 9, n).round(2)
    d["y"] = (0.05 * d.age + rng.normal(size=n)).round(2)
    if n >= 100:
        d.loc[10:20, "lac"] = d.loc[20:30, "trop"] = np.nan
        d.loc[[3, 14, 15, 62, 88], "five"] = np.nan
    return d


KINKS = "y ~ abs(age - 60) + abs(age - 61) + abs(age - 62) + bmi"
LABS = " + ".join(f"lab{i}" for i in range(7))
POWERS = "y ~ age + I(age**2) + I(age**3)"
NO_LIMIT = {"max_parameters_per_row": float("inf")}
SMALL = {"small_cells": "sum", "max_share": 0.8}
TOGETHER = {  # data, settings, jobs of which the last is too much, the rule and what the log says
    "product": (ward(), {}, ["y ~ age:ward + age:clinic"], "cells", "age:clinic[T.z] other"),
    "product in a sum": (ward(), SMALL, ["y ~ age:ward + age:clinic"], "dominance", "two columns"),
    "four sets": (
        ward(), NO_LIMIT, ["y ~ age", "y ~ age + lac", "y ~ age + trop"], "sets", "1 row is in"
    ),
    "powers": (ward(), {}, [POWERS, f"{POWERS} + five"], "sets", "must be at least 50 such rows"),
    "kinks": (ward(), {}, [f"{KINKS} + I(bmi^2)"], "combinations", "a leverage of 0.5"),
    "kinks of four": (
        ward(alike=(17, 40, 50, 60)), {}, [f"{KINKS} + I(bmi^2)"], "combinations", "4 rows alone"
    ),
    "more columns": (
        ward(24, (17,)), SMALL | NO_LIMIT, [f"{KINKS} + {LABS}"], "combinations", "for 24 rows"
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TOGETHER)
def test_sums_that_tell_of_few_rows_together(name, tmp_path, monkeypatch):
    """As a masked job is judged: products of columns, sums over sets of rows that are added and
    taken from each other, combinations of columns."""
    real = _tables.facts_of
    monkeypatch.setattr(_tables, "facts_of", lambda *a: real(*a)._replace(mode="sum"))
    frame, more, jobs, rule, why = TOGETHER[name]
    site = Site(tmp_path, ALONE | {"small_cells": "sum"} | more, frame=frame)
    if name == "product":
        site = Site(tmp_path / "strict", ALONE, frame=frame)
    for formula in jobs[:-1]:
        site.ask(formula)
    with pytest.raises(Stopped, match=rf"^north: {REFUSED}$"):
        site.ask(jobs[-1])
    logged = site.log()[-1]
    assert logged["rule"] == rule
    assert why in logged["why"]
    remedy = "In the plan of every job, write all columns of the study under 'complete': then all"
    assert rule != "sets" or remedy in logged["why"]


def test_a_small_site_takes_part_where_its_policy_says_so():
    rng = np.random.default_rng(1)
    columns = {f"x{i}": x for i, x in enumerate(rng.uniform(1, 9, (12, 24)))}
    with pytest.raises(Ruled) as ruled:
        check_columns(columns, {}, 24, Policy(), "sum")
    assert ruled.value.rule == "combinations"
    assert "together have 13 columns, which is too many for 24 rows" in ruled.value.story
    check_columns(columns, {}, 24, Policy(max_leverage=1), "sum")
    with pytest.raises(Ruled):
        check_columns(columns, {}, 24, Policy(max_leverage=1), "each")


def test_rows_by_the_sets_that_they_are_in():
    sets = [np.array(rows, "u8") for rows in ([1, 2, 3, 4], [2, 3, 4, 5], [4, 5, 6, 7])]
    assert smallest_atom(sets[:1]) == 4
    assert smallest_atom(sets[:2]) == smallest_atom(sets) == 1
    assert smallest_atom([sets[0], sets[0][:2]]) == 2
    assert smallest_atom([np.array([8, 8, 8, 9], "u8"), np.array([8, 9], "u8")]) == 2


def test_products_of_a_large_table_are_those_of_few_rows(monkeypatch):
    rng = np.random.default_rng(3)
    X = rng.normal(size=(3000, 6))
    X[40:, 0], X[:37, 1] = 0, 0  # three rows have both
    curvature = rng.random(3000)
    found = []
    for most in (_finished.MOST_PRODUCTS, 0):
        monkeypatch.setattr(_finished, "MOST_PRODUCTS", most)
        parts = [x for _, x in _finished._products("H", X, curvature)]
        found.append([numbers.dominated(x, 5).sum() for x in parts])
    assert sum(found[0]) == sum(found[1]) > 0
    assert len(found[1]) == 5  # pairs of the column of forty rows


@pytest.mark.chaos
@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_fails_where_small_cells_may_enter_a_sum(name, tmp_path, monkeypatch):
    """As a masked job is judged, with the two settings that let small hospitals take part."""
    real = _tables.facts_of
    monkeypatch.setattr(_tables, "facts_of", lambda *a: real(*a)._replace(mode="sum"))
    attack, wanted, _ = ATTACKS[name]
    with pytest.raises(Stopped):
        learned(attack, wanted, Site(tmp_path, ALONE | {"small_cells": "sum", "max_share": 0.8}))


@pytest.mark.parametrize("seed", range(20))
def test_the_rules_on_numbers_are_what_they_say(seed):
    rng = np.random.default_rng(seed)
    k, n = int(rng.integers(2, 7)), int(rng.integers(8, 40))
    parts = rng.gamma(0.3, 1, (n, 3)) * (rng.random((n, 3)) < 0.7)
    for column, found in zip(parts.T, numbers.dominated(parts, k), strict=True):
        most = max(sum(c) for c in combinations(sorted(column)[-6:], k - 1))
        assert found == (most > column.sum() / 2)
    column = np.repeat([0.0, 1.0], [n - k + 1, k - 1])
    assert numbers.unsupported(rng.permutation(column), k)
    assert not numbers.unsupported(np.repeat([0.0, 1.0], [n, k]), k)
    assert not numbers.unsupported(np.ones(n), k)
    x = rng.normal(size=200)
    other = 3 * x - 7 + np.where(np.arange(200) < k - 1, rng.choice([-1, 1], 200), 0)
    assert list(numbers.nearly_alike({"x": x}, {"other": other}, k)) == [("x", "other")]
    assert not list(numbers.nearly_alike({"x": x}, {"twice": 2 * x + 1, "square": x**2}, k))
    a, b = np.repeat([0.0, 1.0], 100), np.zeros(200)
    b[100 - (k - 1) : 150] = 1
    assert list(numbers.small_cells({"a": a, "b": b}, {}, k)) == [("b", "a")]
    b[100 - k : 150] = 1
    assert not list(numbers.small_cells({"a": a, "b": b}, {}, k))


def test_rows_are_known_again_wherever_they_stand():
    rows = np.array([3, 1, 4, 1, 5], "u8")
    assert difference_of(rows, rows[::-1]) == 0
    assert difference_of(rows, rows[1:]) == 1  # of rows that are alike each counts
    assert difference_of(rows, np.array([3, 1, 4, 5, 9], "u8")) == 2
