"""Values that few rows have, in columns of whole numbers: what sums tell of them, with and without
cap and step of the codebook, and what a site says to the person who decides."""

import itertools
import json
import math
import re
import tomllib

import numpy as np
import pandas as pd
import pytest
import tomli_w
from scipy.optimize import linprog

from feddcd.analysis._sums import NONE, DesignRows, PointQuestion, answer
from feddcd.analysis.plan import RegressionPlan
from feddcd.analysis.protocol import SiteRows
from feddcd.analysis.registry import ANALYSES
from feddcd.data.capping import Capping, by_others, proposal, proposals
from feddcd.data.draft import draft
from feddcd.data.frames import read_frame
from feddcd.federation.site import _rare
from feddcd.federation.site import answer as site
from feddcd.federation.site._again import check_changes, check_joint, check_steep
from feddcd.federation.site._foreseen import RISK
from feddcd.federation.site._rare import rare_in
from feddcd.federation.site.approval import approve, waiting, words_of
from feddcd.federation.site.policy import Policy
from feddcd.federation.site.rules import check_answer, check_columns
from feddcd.federation.site.told import REFUSED
from feddcd.federation.wire import read_refusal, unpack_message
from site_world import asked as ask
from test_descriptions import describe

K = 5
LINKS = ("logit", "probit", "cloglog", "cauchit")
STEPS = ((74, 0.05), (80, 0.08), (84, 0.12))  # where a coordinator with a site leads the fit
AGES = np.arange(50.0, 101.0)  # that somebody has to expect


def patients(oldest=95.0):
    """400 of them, one of 95 years, the others at most 87."""
    draw = np.random.default_rng(7)
    age = (88 - draw.gamma(3, 5, 400)).round().clip(56, 88)
    dead = (draw.random(400) < 1 / (1 + np.exp(-0.06 * (age - 74)))).astype(float)
    age[0] = oldest
    return age, dead


def rows(x, y, link):
    X = np.column_stack([np.ones(len(x)), x])
    data = DesignRows(X, y[:, None], np.ones(len(x)), np.zeros(len(x)))
    plan = RegressionPlan("y ~ x", "binomial", link=link)
    return SiteRows(plan, data, len(x), k=K, names=("(Intercept)", "x"))


def asked(w, pilot=False):
    w = np.reshape(np.asarray(w, float), (-1, 1))
    return PointQuestion(w, 0 * w, NONE, np.zeros(1), NONE, np.ones(()), pilot)


QUESTIONS = [asked((-slope * middle, slope)) for middle, slope in STEPS]


def told(own, question):
    said = answer(own.data, own.plan.loss(), question)
    return np.concatenate([np.ravel(said.g), np.ravel(said.H)])


def refuse_nothing(own):
    """The careful rules, as a site asks them of each question of a job."""
    analysis, policy = ANALYSES["regression"], Policy()
    check_columns(analysis.columns_of(own), {}, own.n, policy, "sum", own.plan)
    for number, question in enumerate(QUESTIONS):
        known = own._replace(before=tuple(QUESTIONS[:number]))
        check_answer(policy, known, analysis, question)
        check_steep(policy, known, question)
        check_changes(policy, known, question)
        check_joint(policy, known, question, hidden=False, free=False)


def equations(age, dead, values):
    """Four ordinary jobs: the sums, and what one patient of each age and outcome gives to them."""
    cells = np.array(list(itertools.product(values, (0.0, 1.0))))
    parts, sums = [], []
    for link, question in itertools.product(LINKS, QUESTIONS):
        one = [told(rows(c[:1], c[1:], link), question) for c in cells]
        parts.append(np.array(one).T)
        sums.append(told(rows(age, dead, link), question))
    return cells, np.vstack(parts), np.concatenate(sums)


def independent(parts, sums):
    """The same equations, of length one and at right angles: without those that are rounding."""
    scale = abs(parts).max(1)
    U, S, V = np.linalg.svd(parts / scale[:, None], full_matrices=False)
    keep = 1e-9 * S[0] < S
    return V[keep], (U.T[keep] @ (sums / scale)) / S[keep]


def bounds(wanted, parts, sums, off=1e-6):
    """The fewest and the most patients that fit all sums: a linear program."""
    A, b = independent(parts, sums)
    limits = {"A_ub": np.vstack([A, -A]), "b_ub": np.append(b + off, off - b)}
    found = [linprog(sign * wanted, **limits, bounds=(0, None)) for sign in (1, -1)]
    assert all(each.status == 0 for each in found)
    return found[0].fun, -found[1].fun


def test_four_jobs_prove_that_one_patient_is_95():
    age, dead = patients()
    for link in LINKS:
        refuse_nothing(rows(age, dead, link))
    cells, parts, sums = equations(age, dead, AGES)
    low, high = bounds((cells[:, 0] == 95).astype(float), parts, sums)
    assert 0.99 < low <= high < 1.001
    outcome = (cells == [95, dead[0]]).all(1).astype(float)
    assert bounds(outcome, parts, sums)[0] > 0.9  # and whether this patient died
    found = rare_in(age, K)
    assert (found.smallest, found.largest, found.between) == (16, 1, 7)


def test_with_cap_and_step_they_tell_no_cell_of_few_patients():
    """They tell all counts exactly: each is of k patients or more."""
    age, dead = patients()
    capping = proposal([age[dead == 0], age[dead == 1]], K)
    assert capping == Capping((60, 85), 5)
    x = capping.of(age)
    assert rare_in(x, K) is None
    for link in LINKS:
        refuse_nothing(rows(x, dead, link))
    cells, parts, sums = equations(x, dead, np.unique(x))
    counts = np.linalg.lstsq(*independent(parts, sums), rcond=None)[0]
    true = [np.sum((x == a) & (dead == y)) for a, y in cells]
    np.testing.assert_allclose(counts, true, atol=1e-3)
    assert min(true) >= K
    other = patients(oldest=86)[0]  # nobody is 95, and nobody can tell
    np.testing.assert_array_equal(capping.of(other), x)


def test_a_step_alone_leaves_the_end_and_a_cap_alone_what_is_between():
    age, _ = patients()
    assert rare_in(Capping(None, 5).of(age), K).largest == 1
    capped = rare_in(Capping((65, 85)).of(age), K)
    assert capped is None or min(capped.smallest, capped.largest) >= K


def visits():
    return np.repeat(np.arange(8.0), [150, 110, 70, 35, 18, 9, 7, 1])


def exponents(total):
    """Of 2, 3, 5 and 7 in the product of all y!: the only ones that fit its logarithm."""
    logs = np.log([2.0, 3.0, 5.0, 7.0])
    e7, e5, e3 = np.meshgrid(np.arange(12), np.arange(80), np.arange(250), indexing="ij")
    e2 = (total - e3 * logs[1] - e5 * logs[2] - e7 * logs[3]) / logs[0]
    fits = np.argwhere((abs(e2 - np.rint(e2)) < 1e-9) & (e2 > -0.5))
    assert len(fits) == 1
    at = tuple(fits[0])
    return [int(each[at]) for each in (np.rint(e2), e3, e5, e7)]


def constant(y):
    """The number that the AIC of a Poisson model needs: the sum of ln y!."""
    X = np.column_stack([np.ones(len(y)), np.sin(np.arange(len(y)))])
    data = DesignRows(X, y[:, None], np.ones(len(y)), np.zeros(len(y)))
    said = answer(data, RegressionPlan("y ~ x", "poisson").loss(), asked((0, 0), pilot=True))
    return abs(float(np.ravel(said.moments.constant)[0]))


def test_one_poisson_model_tells_the_only_patient_with_7_visits():
    y = visits()
    total = constant(y)
    assert total == pytest.approx(sum(math.lgamma(v + 1) for v in y), rel=1e-12)
    e7 = exponents(total)[3]  # a prime: of 7 visits and more
    assert e7 == 1
    capped = proposal([y], K).of(y)
    assert capped.max() == 6
    _, _, e5, e7 = exponents(constant(capped))
    assert (e5, e7) == (17, 0)  # of 5 visits and more: no cell of few patients
    assert np.unique(capped, return_counts=True)[1].min() >= K


def place(folder, codebook=None, **policy):
    age, dead = patients()
    draw = np.random.default_rng(1)
    frame = pd.DataFrame({"age": age.astype(int), "dead": dead.astype(int)})
    frame["visits"] = draw.permutation(visits()).astype(int)
    frame["crp"] = draw.lognormal(1, 0.4, len(age)).round(3)
    folder.mkdir()
    frame.to_csv(folder / "data.csv", index=False)
    written = {"answers": "each", **policy, "complete": True}
    (folder / "policy.toml").write_text(tomli_w.dumps(written))
    if codebook is not None:
        write_book(folder, **codebook)
    return site.SitePlace("north", folder, folder / "data.csv")


def write_book(folder, **more):
    kinds = {"age": "integer", "dead": "integer", "visits": "integer", "crp": "number"}
    columns = {name: {"type": kind} | more.get(name, {}) for name, kind in kinds.items()}
    (folder / "codebook.toml").write_text(tomli_w.dumps({"columns": columns}))


def said(own, formula, family="binomial", **plan):
    plan = {"codebook": agreed_book(own)} | plan
    reply = unpack_message(site.answer(ask(own, formula, family=family, **plan), own))
    return read_refusal(reply).reason if reply.kind == "refusal" else reply.kind


def agreed_book(own):
    path = own.folder / "codebook.toml"
    return tomllib.loads(path.read_text()) if path.exists() else None


def words(own):
    (id,) = waiting(own.folder)
    return words_of(own.folder, id)


def log(own):
    lines = (own.folder / "outgoing.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_the_person_who_decides_reads_what_is_rare_and_what_helps(tmp_path):
    own = place(tmp_path / "north")
    reason = said(own, "dead ~ age + crp")
    assert "waits for approval" in reason
    assert rare_notes(own)["age"] == [
        "rare values: in the column 'age', 8 values occur in fewer than 5 rows.",
        "The risk: a coordinator that controls one of the sites can invent rows there. With "
        "several jobs on 'age', such a coordinator can find out that one patient has a rare value.",
        "You can approve without a cap if you trust the coordinator and all sites of this job.",
        "To protect these rows with a cap, write cap = [60, 85] and step = 5 under [columns.age] "
        "in codebook.toml. All sites must use the same cap and step: if feddcd proposes another "
        "cap or step at another site, take the narrowest cap and the widest step. The cost: the "
        "cap changes 32 of 400 values, to 60 or 85. Of 32 different values, 6 are left. The column "
        "keeps 95 % of its variation.",
        "The page 'The rules of a site' explains this note (rule 21).",
    ]
    assert "crp" not in rare_notes(own)
    assert not any(number in reason for number in ("95", "85", "60", "cap"))
    approve(own.folder, *waiting(own.folder))
    assert said(own, "dead ~ age + crp") == "sums"


def test_of_counts_one_job_is_enough(tmp_path):
    own = place(tmp_path / "north")
    said(own, "visits ~ crp", "poisson")
    first, risk, _, remedy, _ = rare_notes(own)["visits"]
    assert first.endswith("'visits', 1 value occurs in fewer than 5 rows.")
    assert "of this job. From these sums, they can calculate how many rows have each" in risk
    assert "cap = [0, 5] under [columns.visits]" in remedy  # also with k rows of each outcome


def rare_notes(own):
    """By column: what the person reads, line by line."""
    found, lines = {}, None
    for line in words(own):
        if "NOTE: " in line:
            lines, start = None, "  NOTE: rare values: in the column '"
            if line.startswith(start):
                lines = found.setdefault(line.removeprefix(start).partition("'")[0], [])
        if lines is not None:
            lines.append(line.strip().removeprefix("NOTE: "))
    return found


def proposed(own, formula, family="binomial"):
    """By column: the cap that the person reads, as it would be in a codebook, and whether the rules
    accept the job with it."""
    said(own, formula, family)
    found = {}
    for name, (*_, remedy, _) in rare_notes(own).items():
        told = re.search(r"(cap = \[[^]]*\])(?: and (step = \w+))?", remedy)
        helps = remedy.startswith("To protect these rows with a cap, write ")
        assert helps or "A cap does not help" in remedy or "found no cap" in remedy
        caps = tomllib.loads("\n".join(filter(None, told.groups()))) if told else {}
        found[name] = caps, helps
    approve(own.folder, *waiting(own.folder))
    return found


def test_one_proposal_for_a_column_whatever_the_job(tmp_path):
    own = place(tmp_path / "north")
    told = [proposed(own, f"{y} ~ age", family)["age"][0]
            for y, family in (("dead", "binomial"), ("crp", "gaussian"))]  # fmt: skip
    told.append(proposed(own, "crp ~ age + dead", "gaussian")["age"][0])
    text = draft([read_frame(own.data)], cap_rare=K)
    told.append({k: v for k, v in tomllib.loads(text)["columns"]["age"].items() if k != "type"})
    assert told == [{"cap": [60, 85], "step": 5}] * 4


@pytest.mark.parametrize("formula", ["dead ~ age", "dead ~ age + visits", "dead ~ age * sex"])
@pytest.mark.parametrize("n", [60, 120, 400])
def test_the_rules_accept_what_is_proposed(n, formula, tmp_path):
    """Or the person reads that the cap does not help. It is the same one for all jobs."""
    draw = np.random.default_rng(n)
    age = draw.normal(65, 12, n).round().clip(20, 99).astype(int)
    dead = (draw.random(n) < 1 / (1 + np.exp((66 - age) / 12))).astype(int)
    sex, visits = draw.integers(0, 2, n), draw.poisson(1.5, n)
    frame = pd.DataFrame({"age": age, "dead": dead, "visits": visits, "sex": sex})
    kinds = {name: {"type": "integer"} for name in frame.columns}

    def made(name, more, **policy):
        folder = tmp_path / name
        folder.mkdir()
        frame.to_csv(folder / "data.csv", index=False)
        (folder / "policy.toml").write_text(
            tomli_w.dumps({"answers": "each", **policy, "complete": True})
        )
        book = {column: entry | more.get(column, {}) for column, entry in kinds.items()}
        (folder / "codebook.toml").write_text(tomli_w.dumps({"columns": book}))
        return site.SitePlace("north", folder, folder / "data.csv")

    own = made("asks", {})
    if REFUSED in said(own, formula):
        return
    found = proposed(own, formula)
    table = pd.read_csv(own.data)
    for name, (cap, _) in found.items():
        first = next(iter(proposals(by_others([table], name), K)), None)
        assert cap == ({} if first is None else first.plain())
    if all(helps for _, helps in found.values()):
        caps = {name: cap for name, (cap, _) in found.items()}
        capped = made("capped", caps, approve="none", rare_values="refuse")
        assert said(capped, formula) == "sums"


CAPPED = {"age": {"cap": [60, 85], "step": 5}, "visits": {"cap": ["none", 6]}}


def test_with_a_cap_there_is_nothing_to_say_but_that_it_is_there(tmp_path):
    own = place(tmp_path / "north", CAPPED)
    said(own, "visits ~ age + crp", "poisson")
    told = "\n".join(words(own))
    assert "rare values" not in told
    assert (
        "the job uses no exact values of 'age': each value was capped to 60..85 and rounded "
        "to steps of 5"
    ) in told
    assert "of 'visits': each value was capped to at most 6" in told


@pytest.mark.parametrize("formula", ["dead ~ age + crp", "visits ~ crp"])
def test_a_site_can_refuse_such_jobs_and_tells_nobody_why(formula, tmp_path):
    family = "poisson" if formula.startswith("visits") else "binomial"
    own = place(tmp_path / "north", rare_values="refuse", approve="none", max_jobs_per_month=9)
    assert said(own, formula, family) == f"north: {REFUSED}"
    line = log(own)[-1]
    assert line["rule"] == "rare_values"
    assert "in fewer than 5 rows. To protect these rows with a cap, write cap = " in line["why"]
    assert "approve" not in line["why"]
    assert said(own, formula, family) == f"north: {REFUSED}"  # also when it is asked again
    assert said(own, "dead ~ crp") == "sums"
    capped = place(tmp_path / "south", CAPPED, rare_values="refuse", approve="none")
    assert said(capped, formula, family) == "sums"


def test_off_and_where_rules_on_rows_are_off(tmp_path):
    own = place(tmp_path / "north", rare_values="off")
    said(own, "dead ~ age + crp")
    assert not rare_notes(own)
    own = place(tmp_path / "loose", rare_values="refuse", min_support=0, approve="none")
    assert said(own, "dead ~ age + crp") == "sums"


def test_a_column_that_only_has_to_be_there_is_not_looked_at(tmp_path):
    own = place(tmp_path / "north", rare_values="refuse", approve="none")
    assert said(own, "dead ~ crp", complete=["age"]) == "sums"
    assert said(own, "dead ~ crp", weight="visits") == f"north: {REFUSED}"
    assert log(own)[-1]["rule"] in ("rare_values", "values")


@pytest.mark.parametrize("entry", [{"cap": [60, 85]}, {"step": 5}, {"cap": [60, 85], "step": 5}])
def test_a_table_must_be_able_to_say_that_a_column_is_capped(entry, tmp_path):
    own = place(tmp_path / "north", {"age": entry}, approve="none")
    told = (
        "north: the codebook of this site caps or rounds the column 'age', but the job has no "
        "codebook. So the table of the job could not say that this site changes values. The "
        "coordinator can write "
        "codebook = 'codebook.toml' into the job"
    )
    assert said(own, "dead ~ age", codebook=None) == told
    assert describe(own, ["age"], codebook=None) == told
    assert said(own, "dead ~ crp", codebook=None) == "sums"
    if "cap" in entry:  # without one, the rules refuse the ages
        assert said(own, "dead ~ age") == "sums"


def test_a_plan_brings_no_cap_to_a_site_without_a_codebook(tmp_path):
    """A cap from 60 to 61 makes a threshold of ages, which the coordinator would choose."""
    own = place(tmp_path / "north", approve="none")
    entry = {"columns": {"age": {"type": "integer", "cap": [60, 61]}, "dead": {"type": "integer"}}}
    reason = said(own, "dead ~ age", codebook=entry)
    told = "the codebook of the plan sets 'cap' for the column 'age'. Only the codebook of a site"
    assert told in reason
    write_book(own.folder, age={"cap": [60, 62]})
    reason = said(own, "dead ~ age", codebook=entry)
    assert (
        "the codebook of the plan and the codebook of this site describe this column diff" in reason
    )


def test_two_descriptions_with_different_caps_do_not_either(tmp_path):
    own = place(tmp_path / "north", {"age": {"cap": ["none", 90]}}, approve="none")
    one = describe(own, ["age"], codebook=agreed_book(own))
    write_book(own.folder, age={"cap": ["none", 94]})
    other = describe(own, ["age", "crp"], codebook=agreed_book(own))
    assert other == f"north: {REFUSED}"  # the two sums would differ by 4: of one patient
    assert log(own)[-1]["rule"] == "alike"
    assert one["s1"].size == 1


def test_two_jobs_with_different_caps_do_not_differ_by_few_rows(tmp_path):
    """Where everybody changes the codebook: the difference of two sums of ages is the excess of the
    one patient of 95. So earlier jobs are taken with the caps that they had."""
    own = place(tmp_path / "north", {"age": {"cap": ["none", 90]}}, approve="none")
    assert said(own, "dead ~ age + crp") == "sums"
    write_book(own.folder, age={"cap": ["none", 94]})
    assert said(own, "dead ~ age + log(crp)") == f"north: {REFUSED}"
    assert log(own)[-1]["rule"] == "alike"
    write_book(own.folder, age={"cap": ["none", 90]})
    assert said(own, "dead ~ age + log(crp)") == "sums"
    (own.folder / "codebook.toml").unlink()
    assert said(own, "dead ~ age + sqrt(crp)") == f"north: {REFUSED}"
    assert log(own)[-1]["rule"] == "alike"
    assert describe(own, ["age"]) == f"north: {REFUSED}"  # nor does a description
    assert log(own)[-1]["rule"] == "alike"
    write_book(own.folder, age={"cap": [65, 80], "step": 5})  # many rows change
    assert said(own, "dead ~ age + sqrt(crp)") == "sums"


@pytest.mark.parametrize(
    ("why", "told"),
    [
        ("rule 'cells'", "A cap does not help here: {} would refuse this job (rule 'cells')"),
        (RISK, "A cap perhaps does not help here: {} could refuse this job"),
    ],
)
def test_a_cap_that_is_only_a_risk_is_said_to_be_one(why, told):
    lines = "cap = [60, 85] and step = 5 would protect these rows, but then the rules of this site"
    said = _rare._remedy("age", Capping((60, 85), 5), patients()[0], why)
    assert said.startswith(told.format(lines))
