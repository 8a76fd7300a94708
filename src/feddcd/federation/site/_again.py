"""Against a coordinator that owns a site and so steers the sums: no steps, and no second try."""

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..._files import shown
from ..._text import plural
from ...analysis.protocol import SiteRows
from ...analysis.registry import AskedJob, changes, joint, steep
from ...sums.job import Job
from ._columns import FEW, OF_LEVELS, REMEDY, dominated, entry_of, few_that_hold
from ._job_file import JobFile
from ._named_cells import combination_of
from ._words import notes
from .approval import ID_LENGTH, NOBODY, Asker, require
from .policy import Policy, Ruled

AGAIN = "a job that the site answered before"
DOUBT = "a job that the site perhaps answered before"


def check_steep(policy: Policy, rows: SiteRows, question: Any) -> None:
    if told := steep(rows, question, policy.min_support):
        raise Ruled("steep", f"{told}, so the answer would divide the rows into two groups")


def check_changes(policy: Policy, rows: SiteRows, question: Any) -> None:
    """What the answer reveals beside those before it: who subtracts two of them has the change, and
    few rows must not hold nearly all of it."""
    k = policy.min_support
    for what, parts in changes(rows, question) if k > 1 else ():
        wrong = np.flatnonzero(dominated(parts, k, max(FEW, policy.max_share), FEW))
        if wrong.size:
            which = entry_of(what, rows.names, question, parts.shape[1], int(wrong[0]))
            few = f"{plural(k - 1, 'row')} alone give{'s' * (k == 2)}"
            told = f"compared with an earlier answer, {few} nearly all of {which}"
            raise Ruled("changes", f"{told}. {REMEDY}")


def check_joint(
    policy: Policy,
    rows: SiteRows,
    question: Any,
    hidden: bool,
    free: bool,
    earlier: Sequence[AskedJob] = (),
) -> None:
    """What all answers of the job, and of earlier ones, reveal together of joint cells of columns.
    `hidden`: small cells may enter a sum over sites; `free`: whoever asks may choose the points."""
    k = policy.min_support
    if k < 2 or hidden:
        return
    if (few := _few(joint([AskedJob(rows, [*rows.before, question]), *earlier], k, free), k)).size:
        if earlier and _few(joint(earlier, k), k).size:  # revealed already, under earlier rules
            return check_joint(policy, rows, question, hidden, free)
        whose = "this job and earlier jobs" if earlier else "this job"
        what = f"the answers of {whose} together would reveal that fewer than {k} rows have"
        held, in_log = (f"{what} {words}. {OF_LEVELS}" for words in combination_of(rows, few, k))
        raise Ruled("joint_cells", held, in_log=in_log)


def _few(found: tuple[np.ndarray, np.ndarray], k: int) -> np.ndarray:
    """The places of rows of which too much is told."""
    Q, places = found
    share, rows = few_that_hold(Q, k) if Q.size else (0.0, np.zeros(0, int))
    return places[rows] if share > FEW else places[:0]


def once(
    policy: Policy, job: Job, file: JobFile, asked: Asker = NOBODY, doubts: Sequence[str] = ()
) -> None:
    """A job that was answered before waits for a person, under whatever new name it comes: with
    other sums it would ask other questions about the same rows. So does one of which that cannot
    be known, as a file of an older job is damaged. `doubts` are what both jobs reveal together."""
    if policy.min_support < 2:
        return
    same, doubtful = file.twins(job)
    if not same and not doubtful:
        return
    what, lines = (AGAIN, _again(job)) if same else (DOUBT, _doubt(job, file, doubtful))
    text = job.digest + file.id.encode() + b"".join(map(str.encode, () if same else doubtful))
    id = hashlib.sha256(text).hexdigest()[:ID_LENGTH]
    entry = {"job": job.digest.hex(), "shown": lines + notes(doubts)}
    require(file.site, id, what, entry, file.disk, asked=asked)


def _again(job: Job) -> list[str]:
    return [
        "This site answered the same job before. Now the coordinator begins this job again:",
        *_told(job),
        "  An honest coordinator begins a job again if the job stopped before its end.",
        "  A dishonest coordinator that owns one of the sites could use the second job to ask "
        "other questions about the same rows.",
    ]


def _doubt(job: Job, file: JobFile, doubtful: list[str]) -> list[str]:
    return [
        "These files of older jobs at this site are lost or damaged:",
        *(f"  {shown(file.path.with_name(id) / 'job')}" for id in doubtful),
        "feddcd does not know whether this site answered this job before:",
        *_told(job),
        "  If you put the files back from a backup, feddcd can find out whether the site "
        "answered this job.",
        "  Approve without these files only if you are sure that this site has not answered this "
        "job.",
        "  Reason: a dishonest coordinator that owns one of the sites could run a job twice, and "
        "ask other questions about the same rows.",
    ]


def _told(job: Job) -> list[str]:
    sites = ", ".join(map(repr, job.cohort))
    return [f"  formula: {job.plan.get('formula')!r}", f"  sites: {sites}"]
