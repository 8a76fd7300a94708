"""A coordinator that tries plan after plan at one site, and hopes that refusals tell of a row.

Two sites are the same but for one patient, as in test_oracles.py. Every plan is asked of both, for
names of columns and then as a job. Whatever they say has to be the same before a person has
decided; and once the plans of a month are used up, no value is looked at any more.
"""

import numpy as np
import pytest

from feddcd.analysis._sums import PointQuestion
from feddcd.analysis.protocol import ColumnsOffer, arrays
from feddcd.analysis.registry import ANALYSES
from feddcd.federation import wire
from feddcd.federation.site import _tables
from feddcd.federation.site.answer import answer
from feddcd.federation.site.approval import waiting
from feddcd.federation.site.told import REFUSED, waits
from test_oracles import SITES, plan, sites  # noqa: F401

NONE = np.zeros(0)
MANY = [(30, 6), pytest.param(1000, 30, marks=pytest.mark.chaos)]  # plans, and those of a month
SHAPES = (
    "y ~ I(age + 0 * log(abs(age - {a}) + abs(crp - {c})))",  # is there one of age a with crp c?
    "y ~ log({c} - crp)",
    "log(age - {b}) ~ crp",
    "y ~ I(age > {b}) + crp",
    "y ~ I(exp(exp(crp / {b})))",
    "y ~ age + crp + dx",
    "y ~ crp",
)
LEVELS = (["flu", "copd"], ["flu", "copd", "HIV"])


def plans(number):
    """All different: by what is computed, by declared levels, or by a setting that changes nothing
    but the digest of the plan."""
    rng = np.random.default_rng(7)
    for k in range(number):
        a, b, c = int(rng.integers(59, 64)), int(rng.integers(25, 60)), 93.5 + k / 1000
        formula = SHAPES[k % len(SHAPES)].format(a=a, b=b, c=round(c, 3))
        more = {"levels": {"dx": LEVELS[k % 2]}} if "dx" in formula else {}
        yield plan(formula, max_exchanges=10 + k, **more)


def job(asked):
    """One question of it; the offers are those of a coordinator that owns the other sites."""
    numbers = [c for c in ("age", "crp", "y") if c in asked.formula]
    levels = {"dx": asked.levels["dx"]} if asked.levels else {}
    offer = ColumnsOffer(levels, numbers, None, [*numbers, *levels])
    agreed, _ = ANALYSES[asked.analysis].agree(dict.fromkeys(SITES, offer), asked)
    w = np.zeros((len(agreed.names), 1))
    question = PointQuestion(w, w, NONE, np.zeros(1), NONE, np.ones(()), True)
    meta = {"plan": asked.to_dict(), "agreed": agreed.to_dict()}
    return wire.pack_message(wire.Envelope("sums", meta, arrays(question)))


def names(asked):
    return wire.pack_message(wire.Envelope("columns", {"plan": asked.to_dict()}, {}))


def say(site, request):
    """In words where it was refused, in bytes where it was answered."""
    data = answer(request, site.place)
    said = wire.unpack_message(data)
    return said.meta["reason"] if said.kind == "refusal" else data


@pytest.fixture
def looked(monkeypatch):
    """Grows whenever values are looked at for a plan."""
    times = []
    for name in ("_evaluated", "check_identifiers"):
        real = getattr(_tables, name)
        monkeypatch.setattr(_tables, name, lambda *a, real=real: times.append(1) or real(*a))
    return times


def used_up(most, what):
    limit = f"more than {most} {what} in a month (max_jobs_per_month = {most} in policy.toml)"
    return f"north: its policy does not allow {limit}"


@pytest.mark.parametrize(("number", "most"), MANY)
@pytest.mark.parametrize("constants", ["codebook", "any"])
def test_plans_in_a_row_tell_nothing_before_a_person_decides(
    number, most, constants, sites, looked  # noqa: F811
):  # fmt: skip
    policy = {"answers": "each", "constants": constants, "max_jobs_per_month": most}
    there, not_there = sites(policy=policy)
    asked = [(names(each), job(each)) for each in plans(number)]
    first = []
    for requests in asked:
        for request in requests:
            first.append(say(there, request))
            assert first[-1] == say(not_there, request)
    jobs, offers, before = first[1::2], first[::2], len(looked)
    ends = {f"north: {waits('this job')}", used_up(most, "jobs")}
    by_name = [said for said in jobs if said not in ends]
    assert all("constants = 'codebook'" in said for said in by_name)
    assert bool(by_name) == (constants == "codebook")
    kept = [said for said in jobs if said in ends]
    over = len(kept) - most
    assert kept == [f"north: {waits('this job')}"] * most + [used_up(most, "jobs")] * over
    assert offers.count(used_up(most, "plans with questions about columns")) == over > 0
    assert len(waiting(there.folder)) <= 2 * most
    assert 0 < before <= 2 * 2 * 2 * most  # both sites, names and job, two looks at each
    again = [say(there, request) for requests in asked for request in requests]
    assert again == first
    assert len(looked) == before


@pytest.mark.parametrize(("number", "most"), MANY)
def test_where_nobody_watches_as_many_plans_are_judged_as_a_month_has(
    number, most, sites, looked  # noqa: F811
):  # fmt: skip
    """Whether a rule refuses depends on rows then: so it has to end, and one word says it."""
    policy = {"answers": "each", "approve": "none", "constants": "any", "max_jobs_per_month": most}
    both, said = sites(policy=policy), [[], []]
    for k, each in enumerate(plans(number)):
        before = len(looked)
        for site, heard in zip(both, said, strict=True):
            heard.append(say(site, job(each)))
        assert (len(looked) > before) == (k < most)
    for heard in said:
        assert heard[most:] == [used_up(most, "jobs")] * (number - most)
        refused = {words for words in heard[:most] if isinstance(words, str)}
        assert refused == {f"north: {REFUSED}"}
        assert any(isinstance(words, bytes) for words in heard)


FORBIDDEN = {
    "columns": ({"columns": ["y", "age"]}, "'crp'"),
    "methods": ({"methods": ["fedavg"]}, "methods = "),
    "kind of answer": ({"answers": "sum"}, "answers = 'sum'"),
    "sites": ({"min_sites": 4}, "min_sites = 4"),
    "identifiers": ({"identifiers": ["crp"]}, "an identifier"),
    "constants": ({"constants": "codebook"}, "constants = 'codebook'"),
}


@pytest.mark.parametrize("approval", ["none", "job"])
def test_the_policy_is_asked_before_a_value_is_looked_at(approval, sites, looked):  # noqa: F811
    """log(0) or a level that is there would be told otherwise, whatever the policy says."""
    for policy, why in FORBIDDEN.values():
        open_to_all = {"answers": "each", "approve": approval, "constants": "any"}
        there, not_there = sites(policy=open_to_all | policy)
        said = say(there, request := job(plan("y ~ log(93.4 - crp)")))
        assert said == say(not_there, request)
        assert why in said
        assert not looked
        assert not waiting(there.folder)
