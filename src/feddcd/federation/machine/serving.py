"""A federation whose port stays open: sites enrol and connect, studies run one after the other.

studies/NAME/study.toml     what is made, as a job file or federation.toml has it
studies/NAME/state.json     wanted, running, done or failed
"""

import json
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..._errors import Failed, FeddcdError, FlowerError, SpecError
from ..coordinator.coordinator import note_stopped
from ..enrolment.invitation import check_site
from ..folder import STUDY, FederationFolder
from ..run_folder import write_run
from ._keeper import Keeper
from .processes import Group
from .programs import POLL_S, Event, Supervisor, forget_link, link, opened, register, wait_for_link

STATE = "state.json"


def want(folder: FederationFolder, name: str, text: str) -> FederationFolder:
    """A new study, or the same once more; it is run by the process that serves."""
    if not check_site(name):
        raise SpecError(f"the name of a study may have letters, digits, - and _ only, got {name!r}")
    made = folder.of_study(name)
    path, fresh = made.results / STUDY, not made.results.exists()
    again = state_of(made)["state"] == "failed" and not made.ledger.exists()
    if path.exists() and path.read_text("utf-8") != text and not again:
        raise SpecError(f"there is already another study with the name {name}; choose another name")
    made.results.mkdir(mode=0o700, parents=True, exist_ok=True)
    made.save(path, text.encode())
    try:
        made.config()
    except FeddcdError:
        if fresh:
            shutil.rmtree(made.results)
        raise
    if state_of(made)["state"] != "running":  # it goes on, and is not begun once more
        note_state(made, "wanted")
    return made


def state_of(study: FederationFolder) -> dict[str, Any]:
    try:
        return json.loads((study.results / STATE).read_text())
    except (OSError, ValueError):
        return {"state": "wanted"}


def serve(folder: FederationFolder, watch: Callable[[Event], None]) -> None:
    """Until it is stopped."""
    tail = EventTail(folder, watch)  # sites may enrol as soon as the port is open
    with opened(folder, forget=True) as group:
        if group.after_crash:
            watch({"event": "after crash"})
        keeper = Keeper(folder, group)
        watch({"event": "serving", "address": f"{folder.config().host}:{folder.config().port}"})
        while True:
            tail.show()
            _mend(folder, group, keeper, watch)
            keeper.look()
            for name in folder.studies():
                study = folder.of_study(name)
                if state_of(study)["state"] in ("wanted", "running"):
                    _run(study, group, watch)
                    break
            time.sleep(POLL_S)


class EventTail:
    """Shows what is noted from now on."""

    def __init__(self, folder: FederationFolder, watch: Callable[[Event], None]):
        self.folder, self.watch = folder, watch
        self.place = folder.events.stat().st_size if folder.events.exists() else 0

    def show(self) -> None:
        for place, event in list(self.folder.read_events(self.place)):
            self.place = place
            self.watch(event)


def _run(study: FederationFolder, group: Group, watch: Callable[[Event], None]) -> None:
    watch({"event": "study", "study": study.study})
    ended = _finished(study) if state_of(study)["state"] == "running" else None
    note_state(study, "running")
    try:
        last = ended or Supervisor(study, group, watch, 0).to_the_end()
        if study.config().plan is None:
            write_run(study)
        note_state(study, "done", converged=last.get("converged", True))
        watch({"event": "study done", "study": study.study})
    except (Failed, FlowerError, SpecError) as error:
        if [event["event"] for _, event in study.read_events()][-1:] != ["failed"]:
            note_stopped(study)  # its program died before it could
        note_state(study, "failed", reason=str(error))
        watch({"event": "study failed", "study": study.study, "reason": str(error)})
    finally:
        with suppress(KeyError):
            group.stop("coordinator")


def _finished(study: FederationFolder) -> Event | None:
    """How a study ended whose coordinator outlived the process that served: its sites are not asked
    once more."""
    kinds = ("started", "finished")
    told = [event for _, event in study.read_events() if event["event"] in kinds]
    return told[-1] if told and told[-1]["event"] == "finished" else None


def _mend(
    folder: FederationFolder, group: Group, keeper: Keeper, watch: Callable[[Event], None]
) -> None:
    """Starts the link again if it died, or has to forget."""
    died = "superlink" in group.dead()
    if not died and not keeper.stale:
        return
    if died:
        watch({"event": "died", "program": "superlink"})
    group.stop("superlink")
    forget_link(folder)
    keeper.stale = False
    group.start(link(folder))
    wait_for_link(folder, group)
    register(folder)


def note_state(study: FederationFolder, state: str, **more: Any) -> None:
    study.save(study.results / STATE, {"state": state, "time": round(time.time(), 3), **more})
