"""A study that ended: what waits for a person because of it is closed, and the keys of its jobs are
forgotten.

ended/STUDY.json    how it ended, until the coordinator asks something of that study again
"""

import json
import time
from pathlib import Path
from typing import Any

from ..._errors import Refused
from ..._files import Disk, owner_only, save
from ..about import OWN, About, StudyEnd, read_ended
from ..wire import Envelope
from ._job_file import close_jobs
from .approval import about_waiting, close, waiting
from .log import append

FOLDER = "ended"
FOR_GOOD = ("done", "refused", "sums", "left")  # its jobs do not go on
MOST_STUDIES = 200  # the oldest is forgotten


def keep_ended(envelope: Envelope, place: Any) -> Envelope:
    """Heard twice, it is logged once."""
    told = read_ended(envelope.meta)
    if told is None or told.why in OWN:
        raise Refused(f"{place.client}: this site cannot read the message about the end of a study")
    before = [ended for _, ended in ended_studies(place.folder)]
    # who was too late may still decide: with that the study can be started again
    closed = close(place.folder, told.study) if told.why != "late" else []
    took_part = told.why in FOR_GOOD and close_jobs(place.folder, told.study)
    told = told._replace(why="part") if took_part and told.why == "done" else told
    if closed or told not in before:
        _keep(place.folder, told)
        append(place.folder, {"ended": told.study, "how": told.words(), "closed": closed})
    return Envelope("ended", {"client": place.client}, {})


def end_all(folder: Path) -> list[str]:
    """At a site that is not in the federation: it hears of no end there, and what waits was asked
    before. It waits again if it is asked again."""
    studies = {about_waiting(folder, id)[0] for id in waiting(folder)} - {""}
    closed = close(folder)
    close_jobs(folder)
    for study in sorted(studies):
        _keep(folder, StudyEnd(study, "gone", {}))
    return closed


def _keep(folder: Path, told: StudyEnd) -> None:
    with owner_only():
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        save(Disk(), _path(folder, told.study), {"time": time.time(), **told._asdict()})
    for path in _by_age(folder)[:-MOST_STUDIES]:
        path.unlink()


def goes_on(folder: Path, about: About) -> None:
    """A question of a study that had ended."""
    if about.study:
        _path(folder, about.study).unlink(missing_ok=True)


def ended_studies(folder: Path) -> list[tuple[float, StudyEnd]]:
    """When and how, the oldest first."""
    found = []
    for path in _by_age(folder):
        try:
            held = json.loads(path.read_text("utf-8"))
            when, told = float(held.pop("time")), read_ended(held)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            continue
        found += [(when, told)] if told is not None else []
    return found


def _path(folder: Path, study: str) -> Path:
    return folder / FOLDER / f"{study}.json"


def _by_age(folder: Path) -> list[Path]:
    return sorted((folder / FOLDER).glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
