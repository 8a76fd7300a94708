"""A job of masked sums as everybody can follow it: coordinator, sites, and who checks a proof.

Exchange 0 counts rows, and sites by column; the exchanges after it are those of the analysis. From
the sums of one exchange follows the question of the next, so that none has to be believed.
"""

import hashlib
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np

from .._errors import FeddcdError, Refused
from ..analysis.adding import layout_of, opened, template
from ..analysis.protocol import Agreement, AnalysisResult, Watch, arrays
from ..analysis.registry import ANALYSES, read_plan
from ..analysis.replay import Replay
from ..durable.codec import pack, unpack
from ..sums.job import Job
from ..sums.layout import Layout, Slot
from ..sums.roster import Roster

COUNTS = b"feddcd-counts-1"  # the question of exchange 0
COUNTED = ("n", "support", "dropped")


def make_job(plan: Any, agreement: Agreement, roster: Roster) -> Job:
    cohort = tuple(sorted(agreement.sites))
    agreed = agreement._replace(sites=list(cohort)).to_dict()
    values = plan.to_dict() | {"analysis": plan.analysis}
    book = _codebook(plan)
    return Job(values, agreed, book, version("feddcd"), "sum", cohort, roster.digest.hex())


def _codebook(plan: Any) -> str:
    return hashlib.sha256(pack(plan.codebook, {})).hexdigest() if plan.codebook else ""


class FollowedJob:
    """`number` is the exchange that comes next; `question` the one that the sums imply for it,
    None at the end."""

    def __init__(self, job: Job, watch: Watch = lambda row: None):
        self.job, self.number, self.counts = job, 0, {}
        try:
            self.plan = read_plan(job.plan)
            self.analysis = ANALYSES[self.plan.analysis]
            agreement = self.analysis.agreement(job.agreement, self.plan)
            if job.plan != self.plan.to_dict() | {"analysis": self.plan.analysis}:
                raise Refused(
                    "the plan of this job does not have the form in which feddcd writes a plan"
                )
            if tuple(agreement.sites) != job.cohort or agreement.left_out:
                raise Refused(
                    "the agreement of the sites has other sites or fewer columns than this job"
                )
            if job.codebook != _codebook(self.plan) or job.mode != "sum":
                raise Refused(
                    "the codebook of the job and the codebook of the plan are different, or the "
                    "mode of the job is not 'sum'"
                )
            self._replay = Replay(self.analysis, self.plan, agreement, watch)
        except (FeddcdError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            raise Refused(f"the questions of this job cannot be computed: {error}") from None

    @property
    def agreement(self) -> Agreement:
        return self._replay.agreement

    @property
    def begun(self) -> int:
        """How often the analysis has begun: again, where it has to leave something out."""
        return self._replay.begun

    @property
    def result(self) -> AnalysisResult | None:
        return self._replay.result

    @property
    def question(self) -> bytes | None:
        if self.number == 0:
            return COUNTS
        asked = self._replay.expected
        return None if asked is None else pack({}, arrays(asked))

    def read(self, question: bytes) -> Any:
        """A question of this exchange, once it is the one that the sums imply; else Refused."""
        if self.question is None:
            raise Refused("this job has ended, so it has no more questions")
        if self.number == 0:
            if question != COUNTS:
                raise Refused("the first exchange of a job must ask for counts only")
            return None
        try:
            meta, given = unpack(question)
            if meta:
                raise Refused("the question has parts that no question of feddcd has")
            like = self.analysis.stand_in(self.plan, self.agreement)
            if set(given) != set(arrays(self._replay.expected)):
                raise Refused("parts of the question are missing or unknown")
            asked = self.analysis.question(given, like)
        except (FeddcdError, LookupError, TypeError, ValueError) as error:
            raise Refused(f"the question cannot be read: {error}") from None
        if why := self.analysis.matches(self._replay.expected, asked):
            raise Refused(f"the coordinator did not ask the question that must come next: {why}")
        return asked

    @property
    def layout(self) -> Layout:
        """Of the answers to the question that comes next; that of exchange 0 is the sites'."""
        return layout_of(self._like())

    def check_layout(self, layout: Layout) -> None:
        if self.number == 0:
            if [(slot.name, slot.kind) for slot in layout.slots] != [(n, "count") for n in COUNTED]:
                raise Refused("the answers of the first exchange must be counts only")
        elif layout != self.layout:
            raise Refused("the answer does not have the form that the question asks for")

    def _like(self) -> Any:
        return template(self.analysis, self.plan, self.agreement, self._replay.expected)

    def take(self, sums: Mapping[str, np.ndarray]) -> None:
        """The sums of this exchange. Raises what the analysis raises where there is no result, and
        Refused where no sites can have given them."""
        self.number += 1
        if self.number == 1:
            self.counts = _possible(sums, len(self.job.cohort))
            return
        try:
            self._replay.step(opened(sums, self._like()))
        except (FeddcdError, ArithmeticError):
            raise
        except (LookupError, TypeError, ValueError) as error:
            raise Refused(f"no result can be computed from these sums: {error}") from error

    @property
    def dropped(self) -> int:
        """Rows that all sites left out."""
        return int(np.sum(self.counts["dropped"]))


def _possible(sums: Mapping[str, np.ndarray], sites: int) -> dict[str, np.ndarray]:
    """Of sites that add something else than counts nobody can be named."""
    most = {"n": np.inf, "dropped": np.inf, "support": sites}
    for name, values in sums.items():
        if not np.all((values >= 0) & (values <= most[name]) & np.isfinite(values)):
            raise Refused(f"a site sent wrong counts: the sum of {name!r} has an impossible value")
    return dict(sums)


def counts_layout(values: Mapping[str, np.ndarray]) -> Layout:
    return Layout(Slot(name, "count", np.shape(values[name])) for name in COUNTED)
