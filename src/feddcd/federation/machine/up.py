"""A federation on this machine: link, nodes, training, and what to do when one of them dies."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..._errors import Failed, FlowerError, SpecError
from ..._files import Disk, Locked
from ..folder import FederationFolder, load_places
from .init import write_app
from .processes import Group, processes
from .programs import answers, forget_link, link, node, register, stop, submit

Event = dict[str, Any]
START_S = 60.0
POLL_S = 0.3
REST_S = 10.0  # between two starts: a link lets a killed node back in after up to a minute
ATTEMPTS = 5  # without a committed round in between


def up(
    folder: FederationFolder,
    watch: Callable[[Event], None],
    *,
    rounds: int = 0,
    sites: bool = True,
) -> Event:
    """Trains to the end, starting again whatever dies; returns the last event."""
    config, places = folder.config(), load_places(folder) if sites else []
    try:
        lock = Disk().lock(folder.server / ".up.lock")
    except Locked as error:
        raise SpecError(f"{folder.path} is up already, by {error.holder}") from None
    with lock:
        group = Group(folder.server / "processes.json")
        if answers(config.host, config.port):
            raise FlowerError(
                f"port {config.port} of {config.host} is in use; set another in federation.toml"
            )
        write_app(folder.app)  # one of an earlier version may import what is gone
        if sites:  # nobody else is connected, so nobody waits for what the link remembers
            forget_link(folder)
        try:
            group.start(link(folder))
            _wait_for_link(folder, group)
            register(folder)
            address = f"{config.host}:{config.port}"
            for place in places:
                key = place.folder / "key"
                group.start(node(place, address, place.folder / "ca.crt", key))
            return _Supervisor(folder, group, watch, rounds).to_the_end()
        finally:
            group.end()


def _wait_for_link(folder: FederationFolder, group: Group) -> None:
    config, until = folder.config(), time.monotonic() + START_S
    while not answers(config.host, config.port):
        if "superlink" in group.dead() or time.monotonic() > until:
            raise FlowerError(f"the SuperLink did not start; see {group.programs['superlink'].log}")
        time.sleep(0.2)


class _Supervisor:
    """Follows the events of one run, and starts again what dies meanwhile."""

    def __init__(
        self,
        folder: FederationFolder,
        group: Group,
        watch: Callable[[Event], None],
        rounds: int,
    ):
        self.folder, self.group, self.watch, self.rounds = folder, group, watch, rounds
        self.place = folder.events.stat().st_size if folder.events.exists() else 0
        self.coordinator, self.submitted, self.attempts = 0, 0.0, 0
        self.run = ""
        self.rest: dict[str, float] = {}

    def to_the_end(self) -> Event:
        self.submit()
        while True:
            for place, event in list(self.folder.read_events(self.place)):
                self.place = place
                self.watch(event)
                if event["event"] == "greeting":
                    self.coordinator = event["pid"]
                elif event["event"] == "round" and event["summed"]:
                    self.attempts = 0
                elif event["event"] == "failed":
                    raise Failed(event["reason"])
                elif event["event"] == "finished":
                    return event
            self.restart()
            time.sleep(POLL_S)

    def submit(self) -> None:
        self.attempts += 1
        if self.attempts > ATTEMPTS:
            raise Failed(
                f"the coordinator died {ATTEMPTS} times without a round in between; see "
                f"{self.folder.server / 'superlink.log'}"
            )
        if self.run:
            stop(self.folder, self.run)
        self.run = submit(self.folder, self.rounds)
        self.coordinator, self.submitted = 0, time.monotonic()

    def restart(self) -> None:
        """Starts again what died; a run that lost its coordinator is submitted anew."""
        for name in self.group.dead():
            if time.monotonic() < self.rest.get(name, 0.0):
                continue
            self.watch({"event": "died", "program": name})
            self.rest[name] = time.monotonic() + REST_S
            self.group.again(name)
            if name == "superlink":
                _wait_for_link(self.folder, self.group)
                self.coordinator = -1
        late = self.coordinator == 0 and time.monotonic() - self.submitted > START_S
        if late or (self.coordinator != 0 and not _alive(self.coordinator)):
            self.watch({"event": "died", "program": "coordinator"})
            with suppress(FlowerError):
                self.submit()


def _alive(pid: int) -> bool:
    return any(process.pid == pid and process.at_work for process in processes())
