"""A table that is made again without one of its sites: both sums together reveal those of the site.

Everybody at the other sites has the sums of both jobs, and so has the coordinator. So no such job
begins by itself, whether the site refused, was retired or is away.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple

from ...sums.job import Job
from .._next_step import allow_repeat, sites_named, start_again
from ..about import ALONE
from ..folder import FederationFolder
from ._ending import too_few
from ._masked import PROOF, JobFolder

ELSEWHERE = ("analysis", "answers", "go_on_without")  # of a plan: not what it asks of the rows


class Finished(NamedTuple):
    study: str
    job: Job


def check_repeat(
    folder: FederationFolder, plan: Any, sites: Collection[str], refused: Mapping[str, str]
) -> None:
    """Raises where a finished job with the same plan had more sites than this one."""
    for study, job in _finished(folder):
        gone = sorted(set(job.cohort) - set(sites))
        if gone and _asked(job) == _asked(Job(plan.to_dict(), {}, "", "", "", (), "")):
            names = sites_named(gone)
            told = (
                f"study '{study}' already made a table with the same plan, and {names} took part. "
                f"The new table would be without {names}. From both tables, the coordinator and "
                f"everyone at the other sites could calculate the sums of {names} alone"
            )
            reasons = {site: refused[site] for site in gone if site in refused}
            folder.note("repeats", without=gone)
            more, again = allow_repeat(folder, gone), start_again(folder)
            raise too_few(told, reasons, more, head="there is no new table", again=again)


def repeats_to_avoid(folder: FederationFolder, gone: Collection[str]) -> list[str]:
    """Of sites that leave: with which finished tables they took part."""
    studies: dict[str, set[str]] = {}
    for study, job in _finished(folder):
        if named := set(job.cohort) & set(gone):
            studies.setdefault(study, set()).update(named)
    return [
        f"study '{study}' made a table with {names}. Do not make this table again without {names}: "
        f"both tables together reveal the sums of {names} alone"
        for study, sites in studies.items()
        for names in [sites_named(sorted(sites))]
    ]


def _finished(folder: FederationFolder) -> Iterator[Finished]:
    for study in ("", *folder.studies()):
        home = folder.of_study(study)
        for path in sorted((home.results / "jobs").glob(f"*/{PROOF}")):
            if (job := JobFolder(home, path.parent.name).job()) is not None:
                yield Finished(study or ALONE, job)


def _asked(job: Job) -> dict[str, Any]:
    return {name: value for name, value in job.asked.items() if name not in ELSEWHERE}
