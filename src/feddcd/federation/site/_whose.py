"""To which job a message belongs: each line of the log about it says so, also one on a refusal."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from ..._errors import FeddcdError
from ...sums.job import Job
from ..wire import Envelope
from ._asker import Asker
from ._job_file import JobFile
from ._job_parts import check_size, digest_of, id_of, text_of
from .approval import ID_LENGTH

KINDS = ("columns", "sums", "job", "exchange")  # of messages about tables


def of_message(asker: Asker, envelope: Envelope, folder: Path) -> Asker:
    """With the names of job and question, before anything is decided about the message. Without
    them, where it cannot be read: then it is refused for that."""
    with suppress(FeddcdError, LookupError, TypeError, ValueError, RecursionError):
        job, plan = _named(envelope, folder) if envelope.kind in KINDS else ("", None)
        return asker._replace(job=job[:ID_LENGTH], question=question_of(plan) if plan else "")
    return asker


def question_of(plan: Any) -> str:
    """The question for names and levels of columns before the jobs of a plan, in plain values."""
    from ...analysis.registry import read_plan  # which training does without

    check_size(plan)
    return digest_of("columns", digest_of(read_plan(plan).to_dict()))[:ID_LENGTH]


def _named(envelope: Envelope, folder: Path) -> tuple[str, Any]:
    meta = envelope.meta
    if envelope.kind == "columns":
        return "", meta["plan"]
    if envelope.kind == "sums":
        return digest_of(meta["plan"], meta["agreed"]), meta["plan"]
    if envelope.kind == "job":
        job = Job.from_json(text_of(meta["job"]))
        return job.digest.hex(), job.plan
    founded = JobFile(folder, id_of(envelope)).load()
    return (founded.job.digest.hex(), founded.job.plan) if founded else ("", None)
