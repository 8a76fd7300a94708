"""A federation with an open port: sites enrol and connect, studies run one after the other."""

import time
from collections.abc import Callable
from contextlib import suppress

from ..._errors import Failed, FlowerError, SpecError
from ..coordinator.coordinator import note_cancelled, note_stopped
from ..folder import FederationFolder
from ..run_folder import write_run
from ._keeper import Keeper
from .processes import Group
from .programs import POLL_S, Event, Supervisor, forget_link, link, opened, register, wait_for_link
from .studies import OPEN, end_cancelled, note_state, state_of


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
                if state_of(study)["state"] in OPEN:
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
    before = state_of(study)
    goes_on = before["state"] == "running"
    since = {"time": before["time"]} if goes_on and "time" in before else {}
    ended = _finished(study) if goes_on or study.proven else None  # a proof is not replaced
    if study.cancelled and not ended:
        end_cancelled(study)
        return watch({"event": "study cancelled", "study": study.study})
    watch({"event": "study goes on" if goes_on else "study", "study": study.study})
    note_state(study, "running", **since)
    try:
        last = ended or Supervisor(study, group, watch, 0).to_the_end()
        if study.config().plan is None:
            write_run(study)
        note_state(study, "done", converged=last.get("converged", True))
        watch({"event": "study done", "study": study.study})
    except (Failed, FlowerError, SpecError) as error:
        if [event["event"] for _, event in study.read_events()][-1:] != ["failed"]:
            (note_cancelled if study.cancelled else note_stopped)(study)  # its program died first
        state = "cancelled" if study.cancelled else "failed"
        note_state(study, state, reason=str(error))
        watch({"event": f"study {state}", "study": study.study, "reason": str(error)})
    finally:
        with suppress(KeyError):
            group.stop("coordinator")


def _finished(study: FederationFolder) -> Event | None:
    """How a study ended if its coordinator outlived the process that served. Its sites get no
    second question."""
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
