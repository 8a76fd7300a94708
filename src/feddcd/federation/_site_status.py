"""How a site stands, as plain values: from its files alone."""

import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .._errors import FeddcdError
from .._files import holder_of, shown
from .._proxy import THROUGH
from .._text import printable, spoken
from .about import ENDS
from .enrolment.departed import left_of, words_at_site
from .enrolment.invitation import when
from .enrolment.site import READ_OUT, enrolled_at, enrolment_words, first_words
from .folder import load_address, load_limits, load_place
from .health import troubles
from .machine.link_state import (
    HELD_S,
    RESTARTED,
    SILENT_S,
    UNKNOWN,
    hangs,
    let_in_at,
    link_of,
    refused_since,
)
from .machine.programs import SITE_LOCK, site_runs
from .roster import ROSTER, load_roster
from .site.approval import LIST, SHORT, about_waiting, asked_words, denied, waiting
from .site.denials import denied_last
from .site.ended import ended_words, ruled_last
from .site.log import read_log
from .site.log_words import reason_of, time_of, told
from .site.missing import LOOK_S, looks
from .trial import in_trial

UNCONFIRMED = "the person at the coordinator has not confirmed this site yet"
KNOWN_BEFORE = (
    "the coordinator let this site in before, but does not let it in now. Perhaps the coordinator "
    "has not closed an earlier connection of this site, or has just started. This can last up to a "
    "minute, and this site tries again by itself. If this lasts longer, ask the person at the "
    "coordinator whether this site is still a member"
)
SILENT = "not responding"  # of the program of a site that runs
ELSEWHERE = (
    "the coordinator let this site in before, but has not let it in for more than a minute. "
    "Another program may be connected with the key of this site: perhaps somebody uses a copy of "
    "the folder of this site, or stole the key"
)
NO_TABLE = (
    ". This site did not get the table. Either the coordinator does not give tables to the sites, "
    "or the coordinator could not send this table, and sends this table with the next one"
)
LAST = 5  # lines of the log, or of events, that are shown


def site_status(folder: Path) -> dict[str, Any]:
    """At a site."""
    place, link = load_place(folder), link_of(folder)
    state = "connected" if link["state"] == "answering" else link["state"]
    if state == "down" and site_runs(folder):  # it starts its node again after a pause
        state = "connecting"
    left, refused, last = log_of(folder)
    broken, (names, words) = troubles(folder), _roster(folder)
    left_for_good, gone = words_at_site(folder), left_of(folder)
    dated = link["since"] and not left_for_good  # the time of leaving stands in its own line
    state = "not in the federation" if left_for_good else state
    new = state == "connecting" and is_unconfirmed(folder, str(link["why"]))
    told = printable(why_of(str(link["why"]), folder))
    why = UNCONFIRMED if new else "" if left_for_good else told
    if silent := not left_for_good and hangs(link, load_limits(folder)[0], SILENT_S):
        state, why = SILENT, _silence(link)
    ids = [] if left_for_good else waiting(folder)
    held = {
        "site": place.client, "coordinator": load_address(folder), "state": state,
        "why": why,
        "since": when(link["since"]) if dated and not silent else None,
        "left": left, "refused": refused, "last": last, "waits": ids,
        "denied": [] if left_for_good else _denied(folder),
        "asked": [f"{asked_words(folder, id)} ({id[:SHORT]})" for id in ids],
        "ended": [{"study": study, "time": when(t), "how": how + _without_table(folder, study, how)}
                  for t, study, how in ended_words(folder)[-LAST:]],
        "problems": [t._asdict() for t in broken if t.stops],
        "warnings": [t._asdict() for t in broken if not t.stops],
        "last_refusal": last_refusal(folder), "last_reason": last_reason(folder),
        "approved_later": approved_later(folder),
        "looks": looks_words(folder),
        "left_federation": left_for_good, "how_left": gone.how if gone else "",
        "paused": (folder / "paused").exists(), "summed_with": names, "roster": words,
        "enrolment_words": "" if left_for_good or is_new(folder) else first_words(folder),
        "results": sorted(path.name for path in (folder / "results").glob("*")),
    }  # fmt: skip
    wake = _after_silence(folder, link["pid"]) if silent else ""
    return held | {"next": wake or _next_at_site(folder, held)}


def _silence(link: Mapping[str, Any]) -> str:
    seconds = spoken(round(time.time() - link["seen"]))
    told = f"the program of this site has not responded for {seconds}"
    return f"{told}. The program hangs, or somebody suspended it"


def _after_silence(folder: Path, pid: int) -> str:
    """Who suspends a program with its children has to wake them all."""
    holder = (holder_of(folder / SITE_LOCK) or "").removeprefix("process ")
    numbers = " ".join(filter(str.isdigit, (holder, str(pid))))
    return (
        "if the program of this site was suspended with Ctrl-Z, give the command fg in its "
        f"terminal, or give this command: kill -CONT {numbers}. Otherwise stop it with Ctrl-C, or "
        f"with this command: kill {numbers}. Then start it again: feddcd federation site "
        f"{_at(folder)}"
    )


def looks_words(folder: Path) -> str:
    """That a question waits for the data file; nothing where none does."""
    told = "the coordinator asked a question, but the data file of this site is missing or empty"
    more = f"This site looks for the file for {LOOK_S:g} s, then it refuses the question"
    return f"{told}. {more}" if looks(folder) else ""


def log_of(folder: Path) -> tuple[int, int, list[str]]:
    """How many answers left, how many were refused, and the last lines, for a person."""
    entries = _entries(folder)
    refused = sum("refused" in entry for entry in entries)
    left = sum("kind" in entry and "refused" not in entry for entry in entries)
    return left, refused, list(map(_line, entries[-LAST:]))


def _without_table(folder: Path, study: str, how: str) -> str:
    """Of a study in which this site took part. Who removed a table later knows it."""
    came = any(entry.get("result") == study for entry in _entries(folder))
    return NO_TABLE if how.startswith(ENDS["part"]) and not came else ""


def last_refusal(folder: Path) -> str:
    """With its real reason, for the person at this site; nothing where there is none."""
    return _line(entry) if (entry := _refused_last(folder)) else ""


def last_reason(folder: Path) -> str:
    """The reason alone, as other lines repeat it."""
    return printable(reason_of(entry)) if (entry := _refused_last(folder)) else ""


def approved_later(folder: Path) -> str:
    """When a person approved the question of the last refusal after it; nothing if nobody did."""
    entries = _entries(folder)
    last = max((i for i, entry in enumerate(entries) if "refused" in entry), default=len(entries))
    later = [entry for entry in entries[last + 1 :] if "approved" in entry]
    same = [entry for entry in later if _asked(entry) == _asked(entries[last])]
    return f"{time_of(same[-1])}  {told(same[-1])}" if same and _asked(entries[last]) else ""


def _asked(entry: Mapping[str, Any]) -> str:
    """The job, or the question before it, that a line of the log is about."""
    return str(entry.get("of_job") or entry.get("of_question") or "")


def _refused_last(folder: Path) -> dict[str, Any]:
    return next((entry for entry in reversed(_entries(folder)) if "refused" in entry), {})


def _entries(folder: Path) -> list[dict[str, Any]]:
    """A log that cannot be opened is one of the troubles."""
    try:
        return read_log(folder)
    except OSError:
        return []


def _line(entry: Mapping[str, Any]) -> str:
    return printable(f"{time_of(entry)}  {told(entry)}")


def is_new(folder: Path) -> bool:
    """Whether the coordinator has not let this site in since it enrolled: nobody confirmed it."""
    last, enrolled = let_in_at(folder), enrolled_at(folder)
    if last is None:
        return not (folder / ROSTER).exists()
    return enrolled is not None and last < enrolled


def _roster(folder: Path) -> tuple[list[str], str | None]:
    """The sites with which this one may be summed, and the six words for them."""
    try:
        roster = load_roster(folder)
    except FeddcdError:
        return [], None
    return list(roster.names), roster.words()


def is_unconfirmed(folder: Path, why: str) -> bool:
    """Whether this is why there is no connection. A node that was let in before a new enrolment
    says it in the words for a restart; one that is just started again does not say why."""
    return (not why or UNKNOWN in why or RESTARTED in why) and is_new(folder)


def why_of(said: str, folder: Path | None = None) -> str:
    """Of a site that was let in before: nobody has to confirm it, and its key is the right one."""
    since = refused_since(folder) if folder else None
    refused = not said or UNKNOWN in said or RESTARTED in said
    if refused and since is not None and time.time() - since > HELD_S:
        return ELSEWHERE
    return KNOWN_BEFORE if UNKNOWN in said else said


def _denied(folder: Path) -> list[str]:
    """What a person denied, each with the command that undoes it."""
    undo = f"feddcd federation approve {_at(folder)}"
    return [
        f"{asked_words(folder, id)}; to approve it: {undo} {id[:SHORT]}" for id in denied(folder)
    ]


def _after_denial(folder: Path, id: str) -> str:
    return (
        f"you have nothing to do: a person denied {asked_words(folder, id)} here. feddcd tells the "
        "coordinator and the other sites only that a rule or a person refused. To change your "
        f"decision: feddcd federation approve {_at(folder)} {id[:SHORT]}"
    )


def _after_rule(study: str) -> str:
    return (
        f"tell the person at the coordinator what to change in the job of study {study!r}, because "
        f"a rule of this site refused the job: the line 'study {study}' says why. If this person "
        "knows what to change, you have nothing to do"
    )


def _at(path: Path) -> str:
    return shlex.quote(shown(path))


def _to_read(kinds: list[str]) -> str:
    if LIST not in kinds:
        return "read what waits for you"
    told = "read the list of sites that waits for you, compare its roster words by phone"
    return told if set(kinds) == {LIST} else f"{told}, then read the jobs"


def _next_at_site(folder: Path, held: Mapping[str, Any]) -> str:
    at = shlex.quote(shown(folder))
    if held["left_federation"]:
        return held["left_federation"][1]
    if held["problems"]:
        return held["problems"][0]["todo"]
    if held["paused"]:
        return f"this site is paused; to end the pause: feddcd federation pause {at} --end"
    down = held["state"] == "down" and not in_trial(folder)
    if held["waits"]:
        first = f"start this site: feddcd federation site {at}. Then " if down else ""
        what = _to_read([about_waiting(folder, id)[1] for id in held["waits"]])
        return f"{first}{what}, and decide: feddcd federation approve {at}"
    if held["state"] == "down" and (home := in_trial(folder)):
        see = f"feddcd federation status {_at(home.path)}"
        return f"this site and its coordinator are on one machine; to see the next step: {see}"
    if held["state"] == "down":
        return f"start this site: feddcd federation site {at}"
    if held["why"] == UNCONFIRMED:
        words = enrolment_words(folder)
        return f"call the person at the coordinator. {READ_OUT} {words}"
    if held["why"] == KNOWN_BEFORE:
        return "wait a minute: this site tries again by itself"
    if held["why"] == ELSEWHERE:
        return (
            "look for a second copy of this folder, also in containers and on other machines, and "
            "stop the program that uses it. If you find no copy, call the person at the "
            "coordinator at once: the coordinator can retire this site, and you can enrol it again "
            "with new keys"
        )
    if held["state"] == "connecting" and THROUGH in held["why"]:
        return (
            "ask the administrator of your network whether the proxy runs and lets this machine "
            f"reach {held['coordinator']}. If this machine needs no proxy to reach the "
            f"coordinator, write {held['coordinator'].rpartition(':')[0]} into the environment "
            "variable NO_PROXY, and start this site again"
        )
    if held["state"] == "connecting":
        return (
            "wait a minute. If there is still no connection, ask the person at the "
            f"coordinator whether its port {held['coordinator'].rpartition(':')[2]} is open"
        )
    if id := denied_last(folder):
        return _after_denial(folder, id)
    if study := ruled_last(folder):
        return _after_rule(study)
    if held["warnings"]:
        return held["warnings"][0]["todo"]
    return "you have nothing to do: this site answers when the coordinator asks"
