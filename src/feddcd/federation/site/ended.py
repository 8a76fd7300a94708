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
from ..._text import printable
from ..about import OWN, About, StudyEnd, is_ruled, read_ended
from ..wire import Envelope
from ._job_file import close_jobs
from .approval import about_waiting, close, waiting
from .log import append, read_log
from .log_words import reason_of

FOLDER = "ended"
FOR_GOOD = ("done", "refused", "sums", "left", "cancelled")  # its jobs do not go on
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
    took_part = took_part or _answered(place.folder, told.study)
    told = told._replace(why="part") if took_part and told.why == "done" else told
    if closed or told not in before:
        reason = _own_reason(place, told)
        _keep(place.folder, told, reason, place.client)
        how = told.words(reason, place.client)
        append(place.folder, {"ended": told.study, "how": how, "closed": closed})
    return Envelope("ended", {"client": place.client}, {})


def _answered(folder: Path, study: str) -> bool:
    """Whether sums left for a study and none was refused after them: in mode each there is no file
    of a job. What came before an earlier end does not count."""
    answered = over = False
    for entry in read_log(folder):
        if entry.get("ended") == study:
            over = True
        elif entry.get("study") == study:
            sums = "kind" in entry and entry["kind"] != "columns"
            answered = ((answered and not over) or sums) and "refused" not in entry
            over = False
    return answered


def end_all(folder: Path) -> list[str]:
    """At a site that is not in the federation: it hears of no end there, and what waits was asked
    before. It waits again if it is asked again."""
    studies = {about_waiting(folder, id)[0] for id in waiting(folder)} - {""}
    closed = close(folder)
    close_jobs(folder)
    for study in sorted(studies):
        _keep(folder, StudyEnd(study, "gone", {}))
    return closed


def _own_reason(place: Any, told: StudyEnd) -> str:
    """Why this site refused, from its own log, where the study ended for that."""
    if told.why != "refused" or place.client not in told.sites:
        return ""
    for entry in reversed(read_log(place.folder)):
        if "ended" in entry:  # what is before belongs to an earlier study
            return ""
        if "refused" in entry and entry.get("study", told.study) == told.study:
            denied = entry.get("rule") == "denied"
            return printable(str(entry["why"]) if denied else reason_of(entry))
    return ""


def _keep(folder: Path, told: StudyEnd, reason: str = "", own: str = "") -> None:
    held = {"time": time.time(), "reason": reason, "own": own, **told._asdict()}
    with owner_only():
        (folder / FOLDER).mkdir(parents=True, exist_ok=True)
        save(Disk(), _path(folder, told.study), held)
    for path in _by_age(folder)[:-MOST_STUDIES]:
        path.unlink()


def goes_on(folder: Path, about: About) -> None:
    """A question of a study that had ended."""
    if about.study:
        _path(folder, about.study).unlink(missing_ok=True)


def ended_studies(folder: Path) -> list[tuple[float, StudyEnd]]:
    """When and how, the oldest first."""
    return [(when, told) for when, told, *_ in _ended(folder)]


def ended_words(folder: Path) -> list[tuple[float, str, str]]:
    """When, which study, and how as a person at this site reads it, the oldest first."""
    return [(when, told.study, told.words(*own)) for when, told, *own in _ended(folder)]


def ruled_last(folder: Path) -> str:
    """The study that ended last, if a rule of this site refused its job."""
    last = _ended(folder)[-1:]
    return "".join(told.study for _, told, reason, _ in last if is_ruled(reason))


def _ended(folder: Path) -> list[tuple[float, StudyEnd, str, str]]:
    """With the reason of this site and its name, both empty in a file of an earlier version."""
    found = []
    for path in _by_age(folder):
        try:
            held = json.loads(path.read_text("utf-8"))
            when = float(held.pop("time"))
            reason, own = (str(held.pop(name, "")) for name in ("reason", "own"))
            told = read_ended(held)
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            continue
        found += [(when, told, reason, own)] if told is not None else []
    return found


def _path(folder: Path, study: str) -> Path:
    return folder / FOLDER / f"{study}.json"


def _by_age(folder: Path) -> list[Path]:
    return sorted((folder / FOLDER).glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
