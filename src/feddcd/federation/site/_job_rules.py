"""What the rules of a site say of a job of masked sums, and its rows of it."""

import json
from contextlib import suppress
from typing import Any

import numpy as np

from ..._errors import Refused
from ...analysis.protocol import Blocks, SiteRows, arrays
from ...durable.codec import unpack
from ...sums.job import Job
from ..following import FollowedJob
from ._again import check_changes, check_joint, check_steep, once
from ._disclosure import Outgoing, Release
from ._earlier import earlier_jobs, groups_before, keep_question
from ._job_file import JobFile
from ._overlaps import as_told
from ._own_table import table_of
from ._sets import told_by_both
from ._tables import facts_of, judged_rows, memory_of, rows_of
from ._words import only_complete
from .policy import Ruled, limit
from .rules import check_answer, check_counts, first_counts, hides_cells


class JobRules:
    """For one message. `judge` comes first: the rows are made and held against the rules."""

    def __init__(self, place: Any, release: Release, request: bytes):
        self.place, self._release, self._request = place, release, request
        self._policy, self._source = release.policy(), table_of(place)
        self._memory = memory_of(self._source)

    @property
    def study(self) -> str:
        """As the coordinator calls it."""
        return self._release.asked.study

    @property
    def shaping(self) -> tuple[bool, int, int]:
        """What the policy has a say in beside yes and no: counts that are left empty."""
        return self._bins, limit(self._policy.min_per_level), self._policy.min_support

    @property
    def _bins(self) -> bool:
        return self._policy.kinds is None or "bins" in self._policy.kinds

    def judge(self, job: Job, follow: FollowedJob) -> SiteRows:
        """The rows of the job as the talk has them now: without columns that it left out."""
        self._analysis, self._sites = follow.analysis, len(job.cohort)
        facts = facts_of(self._source, job.plan, job.agreement, job.digest.hex(), "sum")
        self._facts = facts._replace(exchanges=follow.begun * facts.exchanges)
        asked = self._release.asked
        rows = judged_rows(self._source, self._policy, self._facts, self._memory, asked)
        if follow.begun > 1:
            left = json.dumps(follow.agreement.to_dict())
            rows = rows_of(self._source, facts._replace(agreed=left))
        return as_told(self._policy, rows, self._analysis)

    def once(self, job: Job, file: JobFile) -> None:
        policy, own = self._policy, self._memory.jobs()[self._facts.job]["set"]
        careful = policy.min_support > 1
        doubts = told_by_both(policy, self._facts, own, self._memory) if careful else []
        once(policy, job, file, self._release.asked, doubts)

    def before(self, file: JobFile, number: int, rows: SiteRows) -> SiteRows:
        """With the questions that were answered before this one, where the columns were those of
        now: what changed since then would reveal rows, too."""
        found = []
        for earlier in range(1, number) if self._policy.min_support > 1 else ():
            if (held := file.sent(earlier)) is not None:
                with suppress(Refused, LookupError, TypeError, ValueError):
                    found.append(self._analysis.question(unpack(held.question)[1], rows))
        return rows._replace(k=self._policy.min_support, before=tuple(found))

    def check_question(self, rows: SiteRows, follow: FollowedJob, asked: Any) -> None:
        if asked is None:
            return self._check(rows, "moments", 0)
        if follow.number == 1:
            check_counts(self._policy, rows, self._analysis, follow.counts)
        self._check(rows, asked.reveals, asked.parameters)
        check_answer(self._policy, rows, self._analysis, asked, self._facts, self._memory)
        check_steep(self._policy, rows, asked)
        check_changes(self._policy, rows, asked)
        earlier, k = earlier_jobs(self._policy, self._facts, self._memory), self._policy.min_support
        hidden = hides_cells(self._policy, "sum")
        check_joint(self._policy, rows, asked, hidden, free=False, earlier=earlier)
        self._grouped = groups_before(rows, asked, k, earlier) if self._bins else None
        if k > 1:
            bins = self._bins and self._grouped is None
            keep_question(self._memory, self._facts.job, rows, asked, bins)

    def _check(self, rows: SiteRows, kind: str, parameters: int) -> None:
        self._out = Outgoing(
            kind, self._analysis.method, rows.columns, rows.n, parameters,
            rows.classes, rows.levels, self._sites, {}, mode="sum",
            complete=only_complete(rows.plan, rows.columns),
        )  # fmt: skip
        self._release.check(self._out, self._request)

    def counts(self, rows: SiteRows) -> dict[str, np.ndarray]:
        """What exchange 0 adds up."""
        dropped = rows.dropped if rows.dropped >= self._policy.min_support else 0  # no small count
        told = first_counts(rows, self._analysis) | {"dropped": np.array([float(dropped)])}
        self._out = self._out._replace(arrays=told)
        return told

    def answer(self, rows: SiteRows, asked: Any) -> Blocks:
        least = limit(self._policy.min_per_level) if self._bins else rows.n + 1
        rows = rows._replace(least=least, alone=False, grouped=self._grouped)
        try:
            blocks = self._analysis.answer(rows, asked)
        except Refused as error:  # it looked at rows: a refusal would reveal something of them
            raise Ruled("answer", str(error)) from None
        self._out = self._out._replace(arrays=arrays(blocks))
        return blocks

    def release(self, data: bytes) -> None:
        """Once a person agrees, where one is to be asked, and the log has it."""
        self._release.release(data, self._out, self._request)
