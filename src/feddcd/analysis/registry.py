"""All analyses by name; one more is one file and one line here."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from .._errors import SpecError
from .._text import nearest
from . import _binning, _counted, _finished, _joint, _numbers, _steps
from ._describe import Describe
from ._describe_rows import DescribedRows
from ._joint import AskedJob
from ._regression import RegressionTable
from ._sums import DesignRows, PointQuestion
from ._trust import TableTrust
from ._trust_described import DescriptionTrust
from .protocol import Agreement, Analysis, ColumnsOffer, Scrutiny, SiteRows

ANALYSES: dict[str, Analysis] = {each.name: each for each in (RegressionTable(), Describe())}
SCRUTINIES: dict[str, Callable[..., Scrutiny]] = {
    RegressionTable.name: TableTrust,
    Describe.name: DescriptionTrust,
}


def scrutiny(
    plan: Any, cohort: Agreement, offers: Mapping[str, ColumnsOffer] | None = None
) -> Scrutiny | None:
    """Who checks what sites answer to this plan; None where an analysis has nobody for it."""
    make = SCRUTINIES.get(plan.analysis)
    return None if make is None else make(plan, cohort, offers)


def steep(rows: SiteRows, question: Any, k: int) -> str:
    """Why a question cuts rows in two where it should weigh them, or nothing."""
    return _steps.steep(rows, question, k) if isinstance(question, PointQuestion) else ""


def changes(rows: SiteRows, question: Any) -> Iterator[tuple[str, np.ndarray]]:
    """What each row gives to the change of each sum since the questions before."""
    if isinstance(question, PointQuestion):
        yield from _finished.changes(rows, question)


def joint(jobs: Sequence[AskedJob], k: int, free: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Of rows in joint cells of fewer than k: what the answers to all questions of these jobs tell
    together, as `_joint.told` has it, and their places. The first job is the one asked now."""
    known = [each for each in jobs if isinstance(each.rows.data, DesignRows | DescribedRows)]
    if known[:1] != [*jobs][:1]:
        return np.zeros((0, 0)), np.zeros(0, int)
    return _joint.told_of_rows(known, k, free)


def places_of(rows: SiteRows) -> np.ndarray:
    """Of the rows of a job in the site's table."""
    return _joint.places_of(rows)


def told_together(job: AskedJob, k: int) -> list[np.ndarray]:
    """Which rows are in the same bins at all questions of a job; -1 is in none."""
    data, asked = job.rows.data, [q for q in job.questions if isinstance(q, PointQuestion)]
    return _binning.groups(data, job.rows.plan.loss(), asked, k) if asked else []


def numbers_told(rows: SiteRows, question: Any) -> int:
    """By the answer to a question, of rows of this site."""
    return _numbers.told(rows, question)


def numbers_expected(rows: SiteRows, k: int) -> int:
    """By a whole job, as jobs usually are."""
    return _numbers.expected(rows, k)


def counted(rows: SiteRows) -> dict[str, np.ndarray]:
    """Which rows are counted together, for each kind of sum."""
    return _counted.counted(rows, ANALYSES[rows.plan.analysis].columns_of(rows))


def counted_alone(n: int, columns: tuple[str, ...]) -> dict[str, np.ndarray]:
    """The same for a job of which its set and its columns are known alone."""
    return _counted.alone(n, columns)


def comparable(one: str, other: str) -> bool:
    """Whether sums of both could be subtracted."""
    return _counted.comparable(one, other)


def parts() -> dict[str, Analysis]:
    """All analyses by what a job file and federation.toml call their settings."""
    return {each.part: each for each in ANALYSES.values()}


def read_plan(values: Any) -> Any:
    """A plan from the plain values of a message, which name their analysis or mean the regression
    table."""
    name = (
        values.get("analysis", RegressionTable.name)
        if isinstance(values, dict)
        else RegressionTable.name
    )
    if not isinstance(name, str) or name not in ANALYSES:
        raise SpecError(f"there is no analysis {name!r}{nearest(str(name), ANALYSES)}")
    return ANALYSES[name].plan(values)


def read_part(name: str, values: Any) -> Any:
    """A plan from one part of a file, such as [glm]."""
    if isinstance(values, dict) and "analysis" in values:
        return read_plan(values)
    return parts()[name].plan(values)
