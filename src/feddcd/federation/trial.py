"""What `simulate` did last, or does now, in a federation with all sites on this machine.

server/trial.json    the study, the process, how it ended
"""

import json
import os
import shlex
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from .._files import shown
from .enrolment.invitation import when
from .folder import FederationFolder
from .machine.processes import processes
from .machine.programs import opened_for
from .site.approval import SHORT, about_waiting, waiting

FILE = "trial.json"
WORDS = {
    "running": "the command `simulate` runs now",
    "done": "the command `simulate` has ended with a result",
    "failed": "the command `simulate` has ended without a result",
    "stopped": "the command `simulate` was stopped before its end",
}


def note_trial(folder: FederationFolder, state: str, command: str, reason: str = "") -> None:
    """`command` is the one that goes on with it."""
    held = {"study": folder.study, "state": state, "reason": reason, "command": command}
    mine = next((p.began for p in processes() if p.pid == os.getpid()), "")
    held |= {"time": round(time.time(), 3), "pid": os.getpid(), "began": mine}
    folder.save(folder.server / FILE, held)


def trial_of(folder: FederationFolder) -> dict[str, Any] | None:
    """Where all sites are on this machine: the last trial, and what waits at its sites now."""
    if not is_trial(folder):
        return None
    held: dict[str, Any] = {"study": "", "state": "", "reason": "", "time": None, "pid": 0}
    with suppress(OSError, ValueError):
        held |= json.loads((folder.server / FILE).read_text())
    if held["state"] == "running" and not _lives(held):
        held["state"] = "stopped"
    simulate = f"feddcd federation simulate {shlex.quote(shown(folder.path))}"
    return {
        "study": held["study"] or "federation.toml", "state": held["state"],
        "time": when(held["time"]) if held["time"] else None, "at": held["time"] or 0.0,
        "reason": held["reason"],
        "words": WORDS.get(held["state"], "the command `simulate` has not run yet"),
        "command": held.get("command") or simulate, "waits": _waits(folder),
    }  # fmt: skip


def was_served(trial: Mapping[str, Any], studies: Sequence[Mapping[str, Any]]) -> bool:
    """Whether somebody gave the command `study` after the last trial: `serve` runs such studies."""
    own = ("federation.toml", trial["study"])
    return any(study["time"] > trial["at"] for study in studies if study["study"] not in own)


def is_trial(folder: FederationFolder) -> bool:
    """Whether `simulate` ran here, or the folders of all its sites are inside, with their data."""
    names = list(folder.invited())
    inside = all(any(folder.site(name).glob("data.*")) for name in names)
    return bool(names) and (inside or (folder.server / FILE).exists())


def in_trial(site: Path) -> FederationFolder | None:
    """The federation of a site that was made for a trial on this machine."""
    home = site.resolve().parent.parent
    inside = site.resolve().parent.name == "sites" and (home / "federation.toml").exists()
    return FederationFolder(home) if inside and (home / "server" / FILE).exists() else None


def _lives(held: Mapping[str, Any]) -> bool:
    named = held["pid"], held.get("began")
    return any((p.pid, p.began) == named and p.at_work for p in processes())


def _waits(folder: FederationFolder) -> list[dict[str, str]]:
    found = []
    for site in folder.invited():
        place = folder.site(site)
        for id in waiting(place):
            study, what = about_waiting(place, id)
            at = shlex.quote(shown(place))
            found.append({
                "site": site, "what": what, "study": study,
                "command": f"feddcd federation approve {at} {id[:SHORT]}",
            })  # fmt: skip
    return found


def next_in_trial(trial: Mapping[str, Any]) -> str:
    """What to do now, with commands that work as they are."""
    waits = [one["command"] for one in trial["waits"]]
    if trial["state"] == "running" and not waits:
        return "wait until the command `simulate` ends"
    if waits:
        read = waits[0].rpartition(" ")[0]
        then = "" if trial["state"] == "running" else f"; then: {trial['command']}"
        return f"read what waits, for example: {read}. To approve: {'; '.join(waits)}{then}"
    if trial["state"] == "done":
        return (
            f"read the result. To run the study again: {trial['command']}. To run another job, "
            "add: --job FILE"
        )
    return f"try the federation on this machine: {trial['command']}"


def put_stopped(alone: dict[str, Any], folder: FederationFolder, up: bool) -> None:
    """`up` was killed before its study ended: `serve`, opened later, does not continue it."""
    if alone["state"] != "running":
        return
    last = max((event.get("time", 0.0) for _, event in folder.read_events()), default=0.0)
    runs = last >= time.time() - (opened_for(folder) or 0.0) if up else trial_of(folder)
    if not runs:
        alone |= {"state": "stopped", "stands": "stopped", "waits": {}, "heard": []}
