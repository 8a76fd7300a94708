"""The studies of a federation: wanted, run one after the other, ended or cancelled.

studies/NAME/study.toml        what is made, as a job file or federation.toml has it
studies/NAME/state.json        wanted, running, done, failed or cancelled
studies/NAME/cancelled.json    a person wants it to end; whoever works on it looks for this file
"""

import json
import shlex
import shutil
import time
from pathlib import Path
from typing import Any, NamedTuple

from ..._errors import FeddcdError, SpecError
from ..._files import shown
from ..._text import sentence_list
from ..about import CANCELLED_WORDS
from ..coordinator.coordinator import note_cancelled
from ..enrolment.invitation import check_site, when
from ..folder import CANCELLED, STUDY, FederationFolder

STATE = "state.json"
OPEN = ("wanted", "running")


def want(
    folder: FederationFolder, name: str, text: str, *, trial: bool = False, job: Path | None = None
) -> FederationFolder:
    """A new study, or one without a result once more; it is run by the process that serves. In a
    trial a result may be made again. `job`: the file from which the text came."""
    if not check_site(name):
        raise SpecError(f"the name of a study may have letters, digits, - and _ only, got {name!r}")
    made = folder.of_study(name)
    if not trial:
        _check_unfinished(made)
    path, fresh = made.results / STUDY, not made.results.exists()
    again = state_of(made)["state"] in ("failed", "cancelled") and not made.ledger.exists()
    if path.exists() and path.read_text("utf-8") != text and not again:
        raise SpecError(f"there is already another study {name!r}; choose another name")
    if made.cancelled and state_of(made)["state"] == "running":
        told = "is being cancelled; give the same command again in a minute"
        raise SpecError(f"study {name!r} {told}")
    made.results.mkdir(mode=0o700, parents=True, exist_ok=True)
    if fresh:  # before its file: who serves then finds the study and writes its state
        note_state(made, "wanted")
    before = path.read_bytes() if path.exists() else None
    made.save(path, text.encode())
    try:
        made.config()
    except FeddcdError as error:
        if fresh:
            shutil.rmtree(made.results)
        elif before is not None:
            made.save(path, before)
        raise SpecError(str(error).replace(str(path), shown(job or path), 1)) from None
    (made.results / CANCELLED).unlink(missing_ok=True)
    if state_of(made)["state"] not in OPEN:  # else it goes on, and is not begun once more
        note_state(made, "wanted")
    return made


def _check_unfinished(study: FederationFolder) -> None:
    """Raises where it has a result, which stays as it is. A training goes on where sites have to
    leave it, or have not sent their last sums."""
    state = state_of(study)["state"]
    if state in OPEN or not (state == "done" or study.proven):
        return
    ends = [event for _, event in study.read_events() if event["event"] == "finished"]
    if study.requests() or (ends and ends[-1].get("unsettled")):
        return
    at, place = shlex.quote(shown(study.path)), result_of(study)
    where = f" Its result is in {shown(place)}." if place else ""
    raise SpecError(
        f"study {study.study!r} is finished, so it does not start again.{where} For a new table, "
        f"choose another name: feddcd federation study {at} OTHER_NAME --job FILE"
    )


def result_of(study: FederationFolder) -> Path | None:
    """The folder with its table, or with its model."""
    for summary in sorted(study.results.glob("*/summary.txt")):
        return summary.parent
    return study.results if (study.results / "model.npz").exists() else None


def state_of(study: FederationFolder) -> dict[str, Any]:
    try:
        return json.loads((study.results / STATE).read_text())
    except (OSError, ValueError):
        return {"state": "wanted"}


def note_state(study: FederationFolder, state: str, **more: Any) -> None:
    study.save(study.results / STATE, {"state": state, "time": round(time.time(), 3), **more})


class Ahead(NamedTuple):
    """The study that has its turn first."""

    study: str
    runs: bool
    since: str

    def words(self) -> str:
        runs = f"has been running since {self.since}"
        how = runs if self.runs and self.since else "was asked for earlier"
        return f"waits behind study '{self.study}', which {how}"


def ahead_of(study: FederationFolder) -> Ahead | None:
    """Of a study that is wanted: studies run one after the other, the oldest first."""
    names = study.studies()
    if state_of(study)["state"] != "wanted" or study.study not in names:
        return None
    states = {name: state_of(study.of_study(name)) for name in names}
    running = [name for name in names if states[name]["state"] == "running"]
    before = names[: names.index(study.study)]
    for name in running or [name for name in before if states[name]["state"] == "wanted"]:
        since = states[name].get("time")
        return Ahead(name, bool(running), when(since) if since else "")
    return None


def cancel(folder: FederationFolder, name: str, served: bool) -> FederationFolder:
    """A study that is wanted ends at once; one that runs by the program that works on it, which
    tells its sites. Where nobody serves there is no such program."""
    study = folder.of_study(name)
    known = folder.studies()
    if name not in known:
        names = sentence_list(known) if known else "none"
        raise SpecError(f"there is no study {name!r}; the studies are: {names}")
    state = state_of(study)["state"]
    if state not in OPEN:
        raise SpecError(f"study {name!r} has already ended ({state}), so it cannot be cancelled")
    study.save(study.results / CANCELLED, {"time": round(time.time(), 3)})
    if state == "wanted" or not served:
        end_cancelled(study)
    return study


def end_cancelled(study: FederationFolder) -> None:
    """Where nobody works on it."""
    if state_of(study)["state"] == "running":  # its sites may have heard of it
        note_cancelled(study)
    note_state(study, "cancelled", reason=CANCELLED_WORDS)
