"""What `feddcd federation serve` and `site` do."""

import math
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from .._errors import SpecError
from .._files import Disk, Locked, owner_only, shown
from .._text import printable
from ..federation.enrolment.departed import ask_standing, is_back, left_of, words_at_site
from ..federation.enrolment.invitation import when
from ..federation.enrolment.site import READ_OUT, enrolment_words, first_words
from ..federation.enrolment.unit import of_root
from ..federation.folder import FederationFolder, load_address, load_limits, load_place
from ..federation.health import Trouble, open_server, troubles
from ..federation.machine.link_state import hangs, link_of
from ..federation.machine.processes import Group, last_error
from ..federation.machine.programs import REST_S, SITE_LOCK, node
from ..federation.machine.serving import serve
from ..federation.site.approval import (
    LIST,
    WAITING,
    about_waiting,
    asked_words,
    denied,
    waiting,
    words_of,
)
from ..federation.site.denials import asked_again
from ..federation.site.ended import ended_words
from ..federation.status import RESTARTED, UNKNOWN, is_unconfirmed, looks_words, why_of
from ._federation import terminable
from ._site import decision_lines
from ._tables import show_event
from ._terminal import say

LISTENS = "the coordinator listens at"  # benchmarks/enrol.py waits for this
WAITS_FOR_CONFIRM = "waits for confirm"
RETIRED = "retired"  # or rejected
ENDED = "its program ended"
LOST = "lost"  # for seconds, which is no news
BRIEF_S = 25.0  # for which the coordinator is away when its link starts again
LOOK_S = 30.0  # between two looks at what is broken


def serve_command(path: Path) -> None:
    folder = FederationFolder(path)
    folder.config()
    again = shlex.quote(shown(folder.path))
    for trouble in open_server(folder):
        say(f"WARNING: {trouble.words()}")

    def watch(event: dict[str, Any]) -> None:
        match event["event"]:
            case "serving":
                say(f"{LISTENS} {event['address']}; to stop it, press Ctrl-C")
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


def site_command(path: Path) -> None:
    """Until Ctrl-C. A node that dies, or hangs, is started again."""
    place, address, (longest, _) = load_place(path), load_address(path), load_limits(path)
    group, shown_state, broken = Group(place.folder / "process.json"), ("", ""), Watched()
    news, asked = show_news(place.folder, known_news(place.folder)), -math.inf
    with terminable(), owner_only(), _alone(place.folder, place.client):
        try:
            say(f"the logs of the site {place.client!r} are in {place.folder}")
            if told := of_root():
                say(f"WARNING: {told}")
            broken = show_troubles(place.folder, broken)
            group.start(node(place.folder))
            while True:
                broken = show_troubles(place.folder, broken)
                shown_state = _show_link(place.folder, address, shown_state, place.client)
                shown_state, asked = show_rejected(place.folder, shown_state, asked)
                news = show_news(place.folder, news)
                for name in group.dead():
                    why = last_error(group.programs[name].log)
                    # else it was said what is waited for
                    if not _is_new(place.folder, why) and shown_state[0] != RETIRED:
                        if _says_retired(place.folder):
                            shown_state = RETIRED, ""
                            continue
                        shown_state = _show_ended(shown_state, why, place.folder)
                    time.sleep(REST_S)
                    group.again(name)
                if hangs(link_of(place.folder), longest):
                    say(
                        "the program of this site did not respond for too long, so "
                        "feddcd starts the program again"
                    )
                    for name in list(group.running):
                        group.again(name)
                    time.sleep(REST_S)
                time.sleep(1)
        except KeyboardInterrupt:
            say("stopped")
        finally:
            group.end()


class Watched(NamedTuple):
    """What is broken here as far as it was said, and when that was looked at."""

    known: tuple[Trouble, ...] = ()
    time: float = -math.inf


def show_troubles(folder: Path, before: Watched) -> Watched:
    """What is broken since the last look, and what was mended; now and then, as it reads files."""
    if time.monotonic() - before.time < LOOK_S:
        return before
    now = tuple(troubles(folder))
    kinds, there = ({trouble.kind for trouble in these} for these in (before.known, now))
    for trouble in now:
        if trouble.kind not in kinds or (trouble.stops and trouble not in before.known):
            say(f"{'PROBLEM' if trouble.stops else 'WARNING'}: {trouble.words()}")
    gone = [trouble for trouble in before.known if trouble.kind not in there]
    for trouble in gone:
        if trouble.stops:
            say(f"this problem is solved: {trouble.what}")
        elif not now or not now[0].stops:
            say(f"this warning has ended: {trouble.what}")
        else:  # a file that is missing has no mode: whether it holds is seen when it is back
            now = (*now, trouble)
    return Watched(now, time.monotonic())


@contextmanager
def _alone(folder: Path, site: str) -> Iterator[None]:
    """Two programs with one key would push each other off the port."""
    try:
        held = Disk().lock(folder / SITE_LOCK)
    except Locked as holder:
        raise SpecError(
            f"the site {site!r} already runs ({holder}). Do not start it again: the running "
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
    if before[0] == RETIRED and left_of(folder) is None:  # it enrolled again
        before = "", ""
    if before[0] == RETIRED and (UNKNOWN in now[1] or now[0] in ("connecting", "down")):
        return before
    refused = UNKNOWN in now[1] or RESTARTED in now[1]
    changed = now[1] != before[1] if before[0] == LOST else now != before
    asks = changed and refused and before[0] != WAITS_FOR_CONFIRM
    if asks and _says_retired(folder):
        return RETIRED, ""
    if before[0] == LOST and now[0] == "connected":
        return now
    lost = time.time() - float(held.get("let_in") or 0.0)
    if now[0] == "connecting" and before[0] in ("connected", LOST) and lost < BRIEF_S and not new:
        return LOST, now[1]
    if new:
        now = WAITS_FOR_CONFIRM, enrolment_words(folder)
    again = now in (("connecting", ""), ("down", ""))  # it asks again
    same = now[0] == "connecting" and before == (ENDED, why_of(now[1], folder))
    if now == before or same or (before[0] in (WAITS_FOR_CONFIRM, ENDED) and again):
        return before
    if new:
        for line in _unconfirmed(folder, address, site):
            say(line)
    elif now[0] in ("connecting", "connected"):
        if now[0] == "connected":
            is_back(folder)
        to = f"{now[0]} {'to' if now[0] == 'connected' else 'with'} {address}"
        why = why_of(now[1], folder) if now[0] == "connecting" else now[1]
        say(f"{to}: {why}" if why else to)
        waited = before[0] == WAITS_FOR_CONFIRM
        words = enrolment_words(folder) if waited else first_words(folder)
        last = words.split()[3:]  # those that a person here has to hear
        if now[0] == "connected" and last:
            say(
                "  approve nothing before the person at the coordinator has read these words to "
                f"you: {' '.join(last)}"
            )
    return now


def _show_ended(before: tuple[str, str], said: str, folder: Path | None = None) -> tuple[str, str]:
    """Once for each reason, as the program ends again and again until a person has mended it."""
    why = why_of(said, folder)
    if before != (ENDED, why):
        if before[0] != "connecting" or why_of(before[1], folder) != why:
            say(f"this site is not connected: {why}")
        say(f"this site tries again every {REST_S:g} s")
    return ENDED, why


def _says_retired(folder: Path) -> bool:
    """Asks the coordinator, where it refuses this site, and says so if that is why."""
    retired = ask_standing(folder)
    for line in words_at_site(folder) if retired else ():
        say(line)
    return retired


def show_rejected(
    folder: Path, shown_state: tuple[str, str], asked: float
) -> tuple[tuple[str, str], float]:
    """Asks now and then, of a site that waits for its confirmation; and when that was."""
    if shown_state[0] != WAITS_FOR_CONFIRM or time.monotonic() - asked < LOOK_S:
        return shown_state, asked
    return (RETIRED, "") if _says_retired(folder) else shown_state, time.monotonic()


def _is_new(folder: Path, why: str) -> bool:
    """Whether this is why: nobody has confirmed this site yet."""
    return bool(why) and is_unconfirmed(folder, why)


def _unconfirmed(folder: Path, address: str, site: str) -> list[str]:
    words = enrolment_words(folder)
    return [
        f"the site {site!r} waits: the person at the coordinator ({address}) has not confirmed "
        "this site yet",
        *([f"  call the person at the coordinator. {READ_OUT} {words}"] if words else []),
        "  then the person at the coordinator gives this command, with the folder of the "
        f"federation as DIR: feddcd federation confirm DIR {site}",
        "  leave this command running: the site connects by itself when it is confirmed",
    ]


def known_news(folder: Path) -> set[str]:
    """What was over before."""
    return set(map("\n".join, _past(folder)))


def show_news(folder: Path, before: set[str]) -> set[str]:
    """What waits for a person, with the commands to paste, and studies that ended: once each."""
    now = _past(folder)
    for id in waiting(folder):
        what = asked_words(folder, id)
        read = f"feddcd federation approve {shlex.quote(str(folder))}"
        told = f"{what} waits for your decision"
        is_list = about_waiting(folder, id)[1] == LIST
        first = ", and compare the roster words by phone" if is_list else ""
        now.append([told, f"  read it{first}: {read}", *decision_lines(folder, id)])
    now += [[looks]] if (looks := looks_words(folder)) else []
    for lines in now:
        if "\n".join(lines) not in before:
            for line in lines:
                say(line)
    return set(map("\n".join, now))


def _past(folder: Path) -> list[list[str]]:
    found, came = ended_words(folder), sorted((folder / "results").glob("*"))
    ended = [[f"study '{study}' {how} ({when(time)})"] for time, study, how in found]
    results = [[f"the result of study '{path.name}' is here: {path}"] for path in came]
    return ended + results + _asked_again(folder)


def _asked_again(folder: Path) -> list[list[str]]:
    """What a person denied, and the coordinator asked for after that. The first question for the
    same study is no news of the coordinator: it hears of the denial by asking."""
    queue, lines = folder / WAITING, []
    for id in denied(folder):
        if (again := asked_again(queue, id)) is None:
            continue
        before, what = about_waiting(folder, id)
        study = printable(again.study) or before
        asked = f"{what} of study '{study}'" if study else what
        yes = decision_lines(folder, id)[0].strip().replace("approve:", "to approve it:", 1)
        if again.times == 1 and study == before:
            told = f"this site refused {asked}, because a person at this site denied it"
            lines.append([f"{told}; {yes}"])
            continue
        told = f"the coordinator asks again for {asked}, which a person at this site denied before"
        question = [f"  {printable(line)}" for line in words_of(folder, id)]
        yes = yes.replace("to approve it:", "approve it now:", 1)
        last = f"  the coordinator asked at {when(again.time)}, and this site refused again"
        lines.append([told, *question, f"  {yes}", last])
    return lines
