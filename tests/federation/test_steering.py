"""A coordinator that owns a site steers the sums: steps are refused, and there is no second try."""

import numpy as np
import pytest

from feddcd._errors import Refused, SpecError
from feddcd.analysis._sums import NONE, DesignRows, PointQuestion
from feddcd.analysis.plan import RegressionPlan
from feddcd.analysis.protocol import SiteRows
from feddcd.federation.site._again import check_steep, once
from feddcd.federation.site._job_file import FoundedJob, HeldAnswer, JobFile
from feddcd.federation.site.approval import Waits, approve, waiting
from feddcd.federation.site.policy import Policy, Ruled
from feddcd.sums.job import Job, SignedNonce
from feddcd.sums.layout import Layout, Slot
from feddcd.sums.proof import SignedAnswer

CAREFUL = Policy()


def asked(slope: float, at: float = 60.0, pilot: bool = False) -> PointQuestion:
    w = np.array([[-slope * at], [slope]])
    return PointQuestion(w, w, NONE, np.zeros(1), NONE, np.ones(()), pilot)


def rows(family: str) -> SiteRows:
    age = np.random.default_rng(0).integers(20, 95, 200).astype(float)
    X = np.column_stack([np.ones(200), age])
    Y = (age > 58).astype(float)[:, None]
    data = DesignRows(X, Y, np.ones(200), np.zeros(200))
    return SiteRows(RegressionPlan(formula="y ~ age", family=family), data, 200)


def test_a_step_is_refused_by_a_rule_of_its_own():
    """At a slope of 7460 all curvature is 0, so that dominance has nothing to look at."""
    check_steep(CAREFUL, rows("binomial"), asked(0.1))
    check_steep(CAREFUL, rows("binomial"), asked(0.0, pilot=True))
    for slope in (5.0, 7460.0, 1e300):
        with pytest.raises(Ruled) as refusal:
            check_steep(CAREFUL, rows("binomial"), asked(slope))
        assert refusal.value.rule == "steep"
        assert str(refusal.value) == "refused by the rules of this site"
    check_steep(CAREFUL, rows("gaussian"), asked(5.0))  # which has no steps


def test_an_offset_is_no_way_to_a_step():
    own = rows("binomial")
    steep = own._replace(data=own.data._replace(offset=5000 * (own.data.X[:, 1] - 60.5)))
    with pytest.raises(Ruled):
        check_steep(CAREFUL, steep, asked(0.0, pilot=True))


def job(formula: str = "y ~ age") -> Job:
    cohort = ("east", "north", "west")
    return Job({"formula": formula}, {}, "", "1", "sum", cohort, "00")


def begun(site, id: str, exchanges: int, plan: Job) -> JobFile:
    file = JobFile(site, id * 32)
    file.found(FoundedJob(plan, SignedNonce(b"n" * 32, b"s" * 64), "digest"))
    layout = Layout([Slot("n", "count", (1,))])
    for number in range(exchanges):
        answer = SignedAnswer(b"", b"s" * 64)
        file.hold(number, HeldAnswer(b"i" * 32, b"q", layout, answer))
        file.let_go(number)
    return file


def test_a_job_that_was_answered_waits_for_a_person_under_a_new_name(tmp_path):
    """Only counts were told of b, so it is no second try; another plan is another job."""
    once(CAREFUL, job(), JobFile(tmp_path, "a" * 32))
    begun(tmp_path, "b", 1, job())
    begun(tmp_path, "c", 3, job("y ~ bmi"))
    once(CAREFUL, job(), JobFile(tmp_path, "a" * 32))
    begun(tmp_path, "d", 2, job())
    new = JobFile(tmp_path, "a" * 32)
    with pytest.raises(Waits, match="this job again waits for approval"):
        once(CAREFUL, job(), new)
    (id,) = waiting(tmp_path)
    assert len(id) == 32  # 128 bits: nobody finds two jobs with one id
    for wrong in (id[:3], "0000" if id[0] != "0" else "1111"):
        with pytest.raises(SpecError, match="does not wait"):
            approve(tmp_path, wrong)
    approve(tmp_path, id[:8])  # its beginning is enough
    once(CAREFUL, job(), new)
    with pytest.raises(Waits):  # each new name is asked for
        once(CAREFUL, job(), JobFile(tmp_path, "e" * 32))


def test_a_refused_question_ends_the_job_here(tmp_path):
    file = begun(tmp_path, "b", 2, job())
    assert not file.ended
    file.end()
    assert JobFile(tmp_path, "b" * 32).ended
    assert issubclass(Ruled, Refused)


def test_training_in_sums_is_held_against_the_rules_of_columns():
    """A column that one row has is told by one gradient; so is a site alone in a cohort."""
    masked = pytest.importorskip("feddcd.federation.site._masked_training")
    X = np.random.default_rng(1).normal(size=(60, 3))
    terms = lambda tau: type("Terms", (), {"tau": tau})()
    check = lambda X, tau=3: masked._check_columns(
        CAREFUL, masked.SiteData(X, np.arange(60) % 2, None), terms(tau), job()
    )
    check(X)
    with pytest.raises(Refused, match="sums over 2 of 3 sites; leave tau out"):
        check(X, tau=2)
    rare = np.zeros(60)
    rare[7] = 12.7
    with pytest.raises(Ruled) as refusal:
        check(np.column_stack([X, rare]))
    assert refusal.value.rule == "support"
