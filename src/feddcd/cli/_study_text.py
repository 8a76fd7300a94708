"""The file of a study, from a job file and from what `feddcd federation study` was given."""

import dataclasses
from pathlib import Path

import tomli_w

from .._errors import SpecError
from ..federation.about import check_purpose
from ._tables import load_job, read_job

DAY_S, MOST_DAYS = 86400.0, 365


def study_text(job: Path, mode: str, purpose: str, days: float | None = None) -> str:
    """Of a table with its codebook inside, as it goes to the sites; of a training as it is."""
    from ..analysis.registry import ANALYSES, parts

    values = read_job(job)
    values |= {"purpose": check_purpose(purpose)} if purpose else {}
    if days is not None:
        if not 0 < days <= MOST_DAYS:
            raise SpecError(f"--wait must be above 0 and at most {MOST_DAYS} days, got {days:g}")
        values |= {"approval_patience": days * DAY_S}
    if not any(name in values for name in parts()):
        if mode:
            raise SpecError(
                "--mode works for tables only; for a training, write the setting `answers` into "
                "the job file"
            )
        return tomli_w.dumps(values)
    plan = load_job(job)
    plan = dataclasses.replace(plan, answers=mode) if mode else plan
    part = ANALYSES[plan.analysis].part
    rest = {name: value for name, value in values.items() if name != part}
    if any(name in parts() for name in rest):
        raise SpecError(f"{job} has more than one analysis; a study can have only one")
    return tomli_w.dumps(rest | {part: plan.to_dict()})
