"""What `feddcd federation serve`, `site` and `study` do."""

import shlex
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from .._errors import SpecError
from .._files import Disk, Locked, owner_only, shown
from .._text import printable
from ..federation.enrolment.departed import ask_standing, is_back, words_at_site
from ..federation.enrolment.invitation import when
from ..federation.enrolment.site import enrolment_words
from ..federation.folder import FederationFolder, load_address, load_limits, load_place
from ..federation.machine.link_state import hangs, link_of
from ..federation.machine.processes import Group
from ..federation.machine.programs import POLL_S, REST_S, is_up, node
from ..federation.machine.serving import EventTail, serve, state_of, want
from ..federation.site.approval import (
    LIST,
    WAITING,
    about_waiting,
    asked_words,
    denied,
    waiting,
    words_of,
)
from ..federation.site.ended import ended_studies
from ..federation.status import RESTARTED, UNKNOWN, is_new
from ._federation import terminable
from ._habits import as_json, found
from ._site import decision_lines
from ._study_text import study_text
from ._tables import show_event, show_table
from ._terminal import note, say

ENDS = ("done", "failed")
WAITS_FOR_CONFIRM = "waits for confirm"
RETIRED = "retired"
KNOWN_BEFORE = (
    "the coordinator knew this site before, and does not know it now. Perhaps the coordinator "
    "has just started; this site tries again"
)


def serve_command(path: Path) -> None:
    folder = FederationFolder(path)
    folder.config()
    again = shlex.quote(shown(folder.path))

    def watch(event: dict[str, Any]) -> None:
        match event["event"]:
            case "serving":
                say(f"the coordinator listens at {event['address']}; to stop it, press Ctrl-C")
            case "enrolled":
                site = event["site"]
                say(f"{site} enrolled; next: feddcd federation confirm {again} {site}")
            case _:
                show_event(event)

    with terminable():
        try:
            serve(folder, watch)
        except KeyboardInterrupt:
            say("stopped")


def study_command(
    path: Path,
    name: str,
    job: Path,
    follow: bool,
    mode: str = "",
    purpose: str = "",
    wait: float | None = None,
) -> None:
    folder = FederationFolder(path)
    folder.config()
    with owner_only():
        study = want(folder, name, study_text(job, mode, purpose, wait))
    found(study=name, folder=study.results, state=state_of(study)["state"])
    if not is_up(folder):
        again = shlex.quote(shown(folder.path))
        return say(
            "the study runs when the port is open; to open the port: feddcd federation "
            f"serve {again}"
        )
    if follow:
        _follow(study)
    else:
        where = shlex.quote(shown(folder.path))
        return say(
            f"the study {name} begins now. People at the sites may have to approve the study. To "
            f"see who has to decide: feddcd federation status {where}"
        )
    state = state_of(study)
    found(state=state["state"], reason=state.get("reason", ""))
    if state["state"] == "failed":
        print(printable(f"error: {state['reason']}"), file=sys.stderr)
        sys.exit(1)
    if study.config().plan is not None:
        show_table(study)
    else:
        found(model=study.results / "model.npz", report=study.results / "report.html")
        say(f"model: {shown(study.results / 'model.npz')}")
        say(f"report: {shown(study.results / 'report.html')}")


def _follow(study: FederationFolder) -> None:
    """Shows its events until it ends; and that nobody serves, as then nothing happens."""
    tail, served = EventTail(study, show_event), True
    while state_of(study)["state"] not in ENDS:
        tail.show()
        if is_up(study) != served:
            served = not served
            for line in ["the port is open again"] if served else unserved(study):
                (note if as_json() else say)(line)
        time.sleep(POLL_S)
    tail.show()


def unserved(study: FederationFolder) -> list[str]:
    return [
        f"study {study.study} does not continue, because nobody serves this federation: the "
        "command `feddcd federation serve` was stopped or killed",
        "  nothing is lost. To continue, give this command in another terminal: feddcd federation "
        f"serve {shlex.quote(shown(study.path))}",
        "  this command waits until then. You can stop this command with Ctrl-C: the study still "
        "continues when `serve` runs",
    ]


def site_command(path: Path) -> None:
    """Until Ctrl-C. A node that dies, or hangs, is started again."""
    place, address, (longest, _) = load_place(path), load_address(path), load_limits(path)
    group, shown_state = Group(place.folder / "process.json"), ("", "")
    news = show_news(place.folder, known_news(place.folder))
    with terminable(), owner_only(), _alone(place.folder, place.client):
        try:
            say(f"{place.client}: the logs of this site are in {place.folder}")
            group.start(node(place.folder))
            while True:
                shown_state = _show_link(place.folder, address, shown_state, place.client)
                news = show_news(place.folder, news)
                for name in group.dead():
                    why = _last_error(group, name)
                    # else it was said what is waited for
                    if not _is_new(place.folder, why) and shown_state[0] != RETIRED:
                        if _says_retired(place.folder):
                            shown_state = RETIRED, ""
                            continue
                        say(f"this site is not connected: {why}")
                        say(f"this site tries again in {REST_S:g} s")
                    time.sleep(REST_S)
                    group.again(name)
                if hangs(link_of(place.folder), longest):
                    say(
                        "the program of this site did not react for too long, so "
                        "feddcd starts it again"
                    )
                    for name in list(group.running):
                        group.again(name)
                    time.sleep(REST_S)
                time.sleep(1)
        except KeyboardInterrupt:
            say("stopped")
        finally:
            group.end()


@contextmanager
def _alone(folder: Path, site: str) -> Iterator[None]:
    """Two programs with one key would push each other off the port."""
    try:
        held = Disk().lock(folder / ".site.lock")
    except Locked as holder:
        raise SpecError(
            f"the site {site} already runs ({holder}). You have nothing to start: the running "
            "program continues by itself, also after a new enrolment"
        ) from None
    with held:
        yield


def _show_link(
    folder: Path, address: str, before: tuple[str, str], site: str = "SITE"
) -> tuple[str, str]:
    """A line when it changes; what a new site waits for is said once."""
    held = link_of(folder)
    now = "connected" if held["state"] == "answering" else held["state"], str(held["why"])
    new = _is_new(folder, now[1])
    if before[0] == RETIRED and (UNKNOWN in now[1] or now[0] in ("connecting", "down")):
        return before
    refused = UNKNOWN in now[1] or RESTARTED in now[1]
    asks = now != before and refused and before[0] != WAITS_FOR_CONFIRM
    if asks and _says_retired(folder):
        return RETIRED, ""
    if new:
        now = WAITS_FOR_CONFIRM, ""
    again = now in (("connecting", ""), ("down", ""))  # it asks anew
    if now == before or (before[0] == WAITS_FOR_CONFIRM and again):
        return before
    if new:
        for line in _unconfirmed(folder, address, site):
            say(line)
    elif now[0] in ("connecting", "connected"):
        if now[0] == "connected":
            is_back(folder)
        to = f"{now[0]} {'to' if now[0] == 'connected' else 'with'} {address}"
        why = KNOWN_BEFORE if UNKNOWN in now[1] else now[1]
        say(f"{to}: {why}" if why else to)
    return now


def _says_retired(folder: Path) -> bool:
    """Asks the coordinator, where it refuses this site, and says so if that is why."""
    retired = ask_standing(folder)
    for line in words_at_site(folder) if retired else ():
        say(line)
    return retired


def _is_new(folder: Path, why: str) -> bool:
    """Whether this is why: nobody has confirmed this site yet."""
    return UNKNOWN in why and is_new(folder)


def _unconfirmed(folder: Path, address: str, site: str) -> list[str]:
    words = enrolment_words(folder)
    lines = [
        f"{site} waits: the person at the coordinator ({address}) has not confirmed this site yet",
        f"  call the person at the coordinator, and compare these six words: {words}"
        if words
        else "",
        f"  then the person at the coordinator gives: feddcd federation confirm DIR {site}",
        "  leave this command running: the site connects by itself when it is confirmed",
    ]
    return [line for line in lines if line]


def known_news(folder: Path) -> set[str]:
    """What was over before."""
    return set(map("\n".join, _past(folder)))


def show_news(folder: Path, before: set[str]) -> set[str]:
    """What waits for a person, with the commands to paste, and studies that ended: once each."""
    now = _past(folder)
    for id in waiting(folder):
        what = asked_words(folder, id)
        read = f"feddcd federation approve {shlex.quote(str(folder))}"
        told = f"this waits for your decision: {what}"
        first = ", and compare the six words by phone" if what == LIST else ""
        now.append([told, f"  read it{first}: {read}", *decision_lines(folder, id)])
    for lines in now:
        if "\n".join(lines) not in before:
            for line in lines:
                say(line)
    return set(map("\n".join, now))


def _past(folder: Path) -> list[list[str]]:
    found, came = ended_studies(folder), sorted((folder / "results").glob("*"))
    ended = [[f"study {ended.study} {ended.words()} ({when(time)})"] for time, ended in found]
    results = [[f"the result of study {path.name} is here: {path}"] for path in came]
    return ended + results + _asked_again(folder)


def _asked_again(folder: Path) -> list[list[str]]:
    """What a person denied, and the coordinator asked for after that."""
    queue, lines = folder / WAITING, []
    for id in denied(folder):
        if (queue / f"{id}.again").exists():
            asked = when((queue / f"{id}.again").stat().st_mtime)
            before, what = about_waiting(folder, id)
            study = printable((queue / f"{id}.again").read_text("utf-8")) or before
            told = (
                "a person at this site denied this request before, but the coordinator asks again: "
                f"{what}{f' of study {study}' if study else ''}"
            )
            question = [f"  {printable(line)}" for line in words_of(folder, id)]
            yes = decision_lines(folder, id)[0].replace("approve:", "approve it now:", 1)
            last = f"  the coordinator asked at {asked}, and this site refused again"
            lines.append([told, *question, yes, last])
    return lines


def _last_error(group: Group, name: str) -> str:
    log = group.programs[name].log
    lines = [line for line in log.read_text(errors="replace").splitlines() if "ERROR:" in line]
    return (
        printable(lines[-1].partition("ERROR:")[2].strip()) if lines else f"the reason is in {log}"
    )
