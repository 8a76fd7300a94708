"""A coordinator that owns a site steers the sums: steps are refused, and there is no second try."""

import shutil

import numpy as np
import pytest

from feddcd._errors import Refused, SpecError
from feddcd.analysis._sums import NONE, DesignRows, PointQuestion
from feddcd.analysis.plan import RegressionPlan
from feddcd.analysis.protocol import SiteRows
from feddcd.federation.site._again import check_steep, once
from feddcd.federation.site._job_file import FoundedJob, HeldAnswer, JobFile
from feddcd.federation.site.approval import Waits, approve, waiting, words_of
from feddcd.federation.site.policy import Policy, Ruled
from feddcd.federation.site.told import REFUSED
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
        assert str(refusal.value) == REFUSED
    check_steep(CAREFUL, rows("gaussian"), asked(5.0))  # which has no steps


def test_an_offset_is_no_way_to_a_step():
    own = rows("binomial")
    steep = own._replace(data=own.data._replace(offset=5000 * (own.data.X[:, 1] - 60.5)))
    with pytest.raises(Ruled):
        check_steep(CAREFUL, steep, asked(0.0, pilot=True))


GATED = np.array([0, -1.25, 0.5, 0.5, 0.5, 0, 0])[:, None]  # above 0: who has g, s1, s2 and s3


def gated(family: str, n: int = 600) -> SiteRows:
    """died ~ g + g:s1 + g:s2 + g:s3 + g:age + age: one patient has g, s1, s2 and s3."""
    rng = np.random.default_rng(3)
    g, s = rng.random(n) < 0.45, rng.random((n, 3)) < 0.3
    cell = np.flatnonzero(g & s.all(1))
    s[cell[1:], 2] = False
    age = np.round(rng.normal(60, 14, n))
    X = np.column_stack([np.ones(n), g, s * g[:, None], g * age, age]).astype(float)
    Y = (rng.random(n) < 0.35).astype(float)[:, None]
    data = DesignRows(X, Y, np.ones(n), np.zeros(n))
    return SiteRows(RegressionPlan(formula="died ~ age", family=family), data, n)


def at(w: np.ndarray) -> PointQuestion:
    return PointQuestion(w, 0 * w, NONE, np.zeros(1), NONE, np.ones(()), False)


def test_a_step_that_only_some_rows_feel_is_refused():
    """The sums at this point and at the pilot tell the patient exactly: most rows, those without g,
    have a class that is open, and so hid the step."""
    own, w = gated("binomial"), 110 * GATED
    X, Y = own.data.X, own.data.Y
    gradient = lambda w: X.T @ (1 / (1 + np.exp(-X @ w)) - Y)
    first = X.T @ X[:, [1]] / 2  # of twice the Hessian at the pilot, in the column of g
    told = (gradient(w) - gradient(0 * w) + first)[1:6, 0]
    (patient,) = X[(X[:, 1:5] == 1).all(1)]
    np.testing.assert_allclose(told, patient[1:6], rtol=1e-6)
    for steered in (w, -w, np.array([[0], [-60.0], [0], [0], [0], [0], [0]])):
        with pytest.raises(Ruled) as refusal:
            check_steep(CAREFUL, own, at(steered))
        assert refusal.value.rule == "steep"
        assert "of a cell" in refusal.value.story
    check_steep(CAREFUL, own, at(0 * w))
    check_steep(CAREFUL, own, at(w / 110))
    check_steep(Policy(min_support=0), own, at(w))


def test_few_rows_hold_no_sum_of_chances_or_means():
    """Less steep, so that no class is certain; and where there are no classes, only means."""
    own = rows("binomial")
    offset = np.where(np.arange(200) == 7, 4.0, -5.0)
    mild = own._replace(data=own.data._replace(offset=offset))
    shift = np.array([0, 10.0, 0, 0, 0, 0, 0])[:, None]
    for site, w in ((mild, np.zeros((2, 1))), (gated("poisson"), 40 * GATED - shift)):
        with pytest.raises(Ruled) as refusal:
            check_steep(CAREFUL, site, at(w))
        assert "4 rows alone would give nearly the whole sum" in refusal.value.story
    check_steep(CAREFUL, gated("poisson"), at(GATED))


def test_an_ordinal_step_is_one_too():
    own = rows("ordinal")
    plan = RegressionPlan(formula="y ~ age", family="ordinal", classes=["a", "b", "c"])
    X = np.column_stack([own.data.X[:, 1], np.zeros((200, 2))])
    Y = np.digitize(X[:, 0], [40, 60]).astype(float)[:, None]
    own = own._replace(plan=plan, data=own.data._replace(X=X, Y=Y))
    check_steep(CAREFUL, own, at(np.array([[0.05], [2.0], [3.0]])))
    with pytest.raises(Ruled):
        check_steep(CAREFUL, own, at(np.array([[50.0], [2000.0], [3000.0]])))


def job(formula: str = "y ~ age", **more) -> Job:
    cohort = ("east", "north", "west")
    return Job({"formula": formula} | more, {}, "", "1", "sum", cohort, "00")


def begun(site, id: str, exchanges: int, plan: Job) -> JobFile:
    file = JobFile(site, id * 32)
    file.found(FoundedJob(plan, SignedNonce(b"n" * 32, b"s" * 64), "digest"), b"k" * 32)
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
    with pytest.raises(Waits, match="decide about a job that the site answered before"):
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


def test_a_job_that_differs_in_its_accuracy_alone_is_the_same_job(tmp_path):
    begun(tmp_path, "b", 2, job(tol=1e-8, max_exchanges=20))
    with pytest.raises(Waits, match="decide about a job that the site answered before"):
        once(CAREFUL, job(tol=1e-9), JobFile(tmp_path, "a" * 32))
    once(CAREFUL, job(covariance="HC1"), JobFile(tmp_path, "a" * 32))


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
    told = r"sums over only 2 of 3 sites; remove tau \(the number of sites in a round\) from the "
    with pytest.raises(Refused, match=told):
        check(X, tau=2)
    rare = np.zeros(60)
    rare[7] = 12.7
    with pytest.raises(Ruled) as refusal:
        check(np.column_stack([X, rare]))
    assert refusal.value.rule == "support"


def test_a_damaged_file_of_an_old_job_is_a_doubt_for_a_person(tmp_path):
    """It neither blocks every new job nor counts as if it had not been."""
    old, lost = begun(tmp_path, "b", 3, job("y ~ old")), begun(tmp_path, "c", 2, job("y ~ lost"))
    counts = begun(tmp_path, "d", 1, job("y ~ counts"))
    for file in (old, counts):
        path = file.path / "job"
        path.write_bytes(path.read_bytes()[:-5])
    (lost.path / "job").unlink()
    new = JobFile(tmp_path, "a" * 32)
    for _ in range(2):
        with pytest.raises(Waits, match="a job that the site perhaps answered before"):
            once(CAREFUL, job(), new)
    (id,) = waiting(tmp_path)
    told = "\n".join(words_of(tmp_path, id))
    assert "feddcd does not know whether this site answered this job before" in told
    assert [name * 32 in told for name in "bcd"] == [True, True, False]
    approve(tmp_path, id)
    once(CAREFUL, job(), new)
    with pytest.raises(Waits):  # a person agreed to that job, and to no other
        once(CAREFUL, job("y ~ bmi"), JobFile(tmp_path, "e" * 32))


def test_an_old_job_whose_answers_were_removed_is_still_known(tmp_path):
    """By the log."""
    old = begun(tmp_path, "b", 2, job())
    for number in range(2):
        old.note(number)
        (old.path / f"{number:04}").unlink()
    with pytest.raises(Waits, match="a job that the site answered before"):
        once(CAREFUL, job(), JobFile(tmp_path, "a" * 32))


def test_who_removes_the_whole_folder_of_an_old_job_forgets_that_job(tmp_path):
    """As the pages on security and on running a federation say of jobs/ID/."""
    old = begun(tmp_path, "b", 2, job())
    for number in range(2):
        old.note(number)
    shutil.rmtree(old.path)
    once(CAREFUL, job(), JobFile(tmp_path, "a" * 32))
