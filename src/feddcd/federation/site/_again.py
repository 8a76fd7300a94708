"""Against a coordinator that owns a site and so steers the sums: no steps, and no second try."""

import hashlib
from typing import Any

import numpy as np

from ...analysis.protocol import SiteRows
from ...analysis.registry import changes, steep
from ...sums.job import Job
from ._columns import FEW, dominated
from ._job_file import JobFile
from .approval import ID_LENGTH, require
from .policy import Policy, Ruled


def check_steep(policy: Policy, rows: SiteRows, question: Any) -> None:
    if told := steep(rows, question, policy.min_support):
        raise Ruled("steep", f"{told}: the answer would cut the rows in two")


def check_changes(policy: Policy, rows: SiteRows, question: Any) -> None:
    """What the answer tells beside those before it: who subtracts two of them has the change, and
    few rows must not hold nearly all of it."""
    k = policy.min_support
    for what, parts in changes(rows, question) if k > 1 else ():
        wrong = np.flatnonzero(dominated(parts, k, max(FEW, policy.max_share), FEW))
        if wrong.size:
            told = f"of entry {wrong[0] + 1} nearly all comes from {k - 1} rows"
            raise Ruled("changes", f"{what} since an earlier question: {told}")


def once(policy: Policy, job: Job, file: JobFile) -> None:
    """A job that was answered before waits for a person, under whatever new name it comes: with
    other sums it would ask other questions about the same rows."""
    if policy.min_support < 2 or not file.twins(job):
        return
    id = hashlib.sha256(job.digest + file.id.encode()).hexdigest()[:ID_LENGTH]
    lines = [
        "The very same job was answered here before, and is asked for again from its beginning:",
        f"  formula: {job.plan.get('formula')!r}",
        f"  sites: {', '.join(map(repr, job.cohort))}",
        "  An honest coordinator does this where a job broke off. One that owns a site could use",
        "  it to ask other questions about the same rows.",
    ]
    require(file.site, id, "this job again", {"job": job.digest.hex(), "shown": lines}, file.disk)
