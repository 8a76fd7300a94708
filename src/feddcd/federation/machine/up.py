"""A federation on this machine: link, nodes, training, and what to do when one of them dies."""

import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from ..._errors import Failed, FlowerError, SpecError
from ..._files import Disk, Locked
from ..folder import Home, load_place
from .processes import Group, listed
from .programs import answers, forget_link, link, node, register, stop, submit
from .template import write_app

Event = dict[str, Any]
START_S = 60.0
POLL_S = 0.3
REST_S = 10.0  # between two starts: a link lets a killed node back in after up to a minute
ATTEMPTS = 5  # without a committed round in between


def up(home: Home, watch: Callable[[Event], None], *, rounds: int = 0, sites: bool = True) -> Event:
    """Trains to the end, starting again whatever dies; returns the last event."""
    config = home.config()
    leaving = home.leaving()
    staying = [name for name in home.invited() if name not in leaving]
    places = [load_place(home.site(name)) for name in staying] if sites else []
    try:
        lock = Disk().lock(home.server / ".up.lock")
    except Locked as error:
        raise SpecError(f"{home.path} is up already, by {error.holder}") from None
    with lock:
        group = Group(home.server / "processes.json")
        if answers(config.host, config.port):
            raise FlowerError(
                f"port {config.port} of {config.host} is in use; set another in federation.toml"
            )
        write_app(home.app)  # one of an earlier version may import what is gone
        if sites:  # nobody else is connected, so nobody waits for what the link remembers
            forget_link(home)
        try:
            group.start(link(home))
            _wait_for_link(home, group)
            register(home)
            address = f"{config.host}:{config.port}"
            for place in places:
                key = place.folder / "key"
                group.start(node(place, address, place.folder / "ca.crt", key))
            return _Run(home, group, watch, rounds).to_the_end()
        finally:
            group.end()


def _wait_for_link(home: Home, group: Group) -> None:
    config, until = home.config(), time.monotonic() + START_S
    while not answers(config.host, config.port):
        if "superlink" in group.dead() or time.monotonic() > until:
            raise FlowerError(f"the SuperLink did not start; see {group.programs['superlink'].log}")
        time.sleep(0.2)


class _Run:
    def __init__(self, home: Home, group: Group, watch: Callable[[Event], None], rounds: int):
        self.home, self.group, self.watch, self.rounds = home, group, watch, rounds
        self.place = home.events.stat().st_size if home.events.exists() else 0
        self.coordinator, self.submitted, self.attempts = 0, 0.0, 0
        self.run = ""
        self.rest: dict[str, float] = {}

    def to_the_end(self) -> Event:
        self.submit()
        while True:
            for place, event in list(self.home.said(self.place)):
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
            self.mend()
            time.sleep(POLL_S)

    def submit(self) -> None:
        self.attempts += 1
        if self.attempts > ATTEMPTS:
            raise Failed(
                f"the coordinator died {ATTEMPTS} times without a round in between; see "
                f"{self.home.server / 'superlink.log'}"
            )
        if self.run:
            stop(self.home, self.run)
        self.run = submit(self.home, self.rounds)
        self.coordinator, self.submitted = 0, time.monotonic()

    def mend(self) -> None:
        """Starts again what died; a run that lost its coordinator is submitted anew."""
        for name in self.group.dead():
            if time.monotonic() < self.rest.get(name, 0.0):
                continue
            self.watch({"event": "died", "program": name})
            self.rest[name] = time.monotonic() + REST_S
            self.group.again(name)
            if name == "superlink":
                _wait_for_link(self.home, self.group)
                self.coordinator = -1
        late = self.coordinator == 0 and time.monotonic() - self.submitted > START_S
        if late or (self.coordinator != 0 and not _alive(self.coordinator)):
            self.watch({"event": "died", "program": "coordinator"})
            with suppress(FlowerError):
                self.submit()


def _alive(pid: int) -> bool:
    return any(one.pid == pid and not one.state.startswith("Z") for one in listed())
