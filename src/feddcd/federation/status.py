"""How a federation stands, at both ends, as plain values: from files alone, so it can be asked at
any time. Nothing of the data is in it."""

import json
import shlex
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from .._errors import FeddcdError, SpecError
from .._files import shown
from .._text import printable, sentence_list
from ..sums.roster import FEWEST
from .enrolment import desk
from .enrolment.invitation import when
from .enrolment.site import enrolment_words
from .folder import FederationFolder, load_address, load_place
from .machine.link_state import link_of
from .machine.programs import connected, is_up
from .machine.serving import state_of
from .roster import load_roster
from .site.approval import SHORT, about_waiting, waiting
from .site.ended import ended_studies
from .site.log import LOG
from .site.log_words import told

UNKNOWN = "does not know the key"  # as a node says before it is confirmed
UNREADABLE = "invitation cannot be read"
LAST = 5  # lines of the log, or of events, that are shown
ENDED = ("done", "failed")
HEARD = ("waiting", "refused", "silent", "failed", "each")


def federation_status(folder: FederationFolder) -> dict[str, Any]:
    """At the coordinator."""
    config, up = folder.config(), is_up(folder)
    sites = _sites(folder, up)
    studies = [study_status(folder.of_study(name)) for name in folder.studies()]
    if folder.events.exists() and (alone := study_status(folder))["state"] != "wanted":
        studies.insert(0, alone)
    missing = [site["site"] for site in sites if site["state"] == "not connected"]
    held = {
        "federation": config.name, "address": f"{config.host}:{config.port}", "open": up,
        "sites": sites, "missing": missing, "studies": studies,
    }  # fmt: skip
    return held | {"next": _next(folder, held)}


def _sites(folder: FederationFolder, up: bool) -> list[dict[str, Any]]:
    here, invited = connected(folder) if up else {}, set(folder.invited())
    made, found = desk.records(folder), []
    for name in sorted(invited | set(made)):
        record, state, since = made.get(name), "not connected", None
        if name in invited:
            node = here.get(name, {})
            if node.get("online"):
                state, since = "connected", _spoken_time(node.get("since"))
        elif record is not None and record.claim is not None:
            state, since = "waits for confirm", when(record.used or 0.0)
        elif record is not None:
            state = "invited" if record.expires > time.time() else "invitation ended"
            since = when(record.made)
        else:
            state = UNREADABLE
        found.append({"site": name, "state": state, "since": since})
    return found


def _spoken_time(text: Any) -> str | None:
    """As the link writes it, in the words of all other times."""
    try:
        return when(datetime.fromisoformat(str(text)).timestamp())
    except ValueError:
        return None


def study_status(study: FederationFolder) -> dict[str, Any]:
    """Its state, and what was heard of it last."""
    heard: dict[str, tuple[str, str]] = {}  # of each site the last: what, and in which words
    job, refused = "", set[str]()
    state: dict[str, Any] = state_of(study) if study.study else {"state": "wanted"}
    for _, event in study.read_events():
        if event["event"] == "greeting":
            heard.clear()
            refused.clear()
            state = state if study.study else {"state": "running"}
        elif event["event"] in HEARD:
            text = printable(str(event.get("reason") or event.get("site") or ""))
            site = str(event.get("site") or text)
            heard.pop(site, None)
            heard[site] = event["event"], text
            refused |= {site} if event["event"] == "refused" and "site" in event else set()
        elif event["event"] == "exchange":  # all have answered: nobody is waited for
            heard = {site: told for site, told in heard.items() if told[0] in ("refused", "each")}
        elif event["event"] in ("job", "goes on"):
            job = str(event.get("job", ""))[:SHORT]
        elif event["event"] == "finished" and not study.study:
            state = {"state": "done"}
        if event["event"] == "failed" and not study.study:
            state = {"state": "failed", "reason": event.get("reason", "")}
    if state["state"] in ENDED:  # nothing waits any more, and a failure has its reason
        failed = state["state"] == "failed"
        heard = {s: told for s, told in heard.items() if told[0] == "refused" and not failed}
    texts = [text for _, text in heard.values()]
    told = {"study": study.study or "federation.toml", "job": job, "state": state["state"]}
    since = state.get("time")
    told |= {"since": when(since) if since else None, "reason": state.get("reason", "")}
    told |= {"refused": sorted(refused)}
    return told | {"heard": list(dict.fromkeys(texts))[-LAST:], "folder": str(study.results)}


def study_of_job(folder: FederationFolder, id: str) -> FederationFolder:
    """The last study with this job; the beginning of its name is enough."""
    studies = [folder.of_study(name) for name in ("", *folder.studies())]
    jobs = {study: study_status(study)["job"] for study in studies}
    named = [study for study, job in jobs.items() if job and job.startswith(id[:SHORT])]
    if len({jobs[study] for study in named}) != 1:
        known = ", ".join(dict.fromkeys(job for job in jobs.values() if job)) or "none"
        raise SpecError(
            f"{id!r} is not the beginning of exactly one job in this folder; the jobs are: {known}"
        )
    return named[-1]


def path_of_job(path: Path, id: str) -> Path:
    """The folder that has the result of a job; without a name, the folder itself."""
    study = study_of_job(FederationFolder(path), id) if id else None
    return study.results if study is not None and study.study else path


def _next(folder: FederationFolder, held: Mapping[str, Any]) -> str:
    """The one thing to do now."""
    by_state: dict[str, list[str]] = {}
    for site in held["sites"]:
        by_state.setdefault(site["state"], []).append(site["site"])
    at = shlex.quote(shown(folder.path))
    if waits := by_state.get("waits for confirm"):
        return f"call the person at {waits[0]}, then: feddcd federation confirm {at} {waits[0]}"
    if not held["sites"]:
        return f"invite a site: feddcd federation invite {at} NAME"
    if torn := by_state.get(UNREADABLE):
        return f"invite {torn[0]} again: feddcd federation invite {at} {torn[0]}"
    last = held["studies"][-1] if held["studies"] else {"state": ""}
    if last["state"] == "failed" and last["refused"]:
        return _after_refusal(last)
    if not held["open"]:
        return f"open the port: feddcd federation serve {at}"
    if ended := by_state.get("invitation ended"):
        return f"invite {ended[0]} again: feddcd federation invite {at} {ended[0]}"
    if invited := by_state.get("invited"):
        return f"wait until {', '.join(invited)} enrol with their invitations"
    if away := by_state.get("not connected"):
        return (
            f"ask the people at {', '.join(away)} to start their site: feddcd federation "
            "site SITE_DIR"
        )
    running = [s["study"] for s in held["studies"] if s["state"] in ("running", "wanted")]
    if running:
        return f"wait for {running[0]}: {_waits(folder, running[0])}"
    if len(by_state.get("connected", ())) < FEWEST:
        return f"invite more sites, because sums need at least {FEWEST} sites"
    return f"start a study: feddcd federation study {at} NAME --job job.toml"


def _after_refusal(study: Mapping[str, Any]) -> str:
    """Whom to call, about which job; the person there can think again."""
    job = f"job {study['job']} of study {study['study']}" if study["job"] else study["study"]
    return (
        f"ask the people at {sentence_list(study['refused'])} why they refused {job}. A person "
        "there can approve a job that was denied: feddcd federation approve SITE_DIR "
        f"{study['job'] or 'ID'}. Then start the study again"
    )


def _waits(folder: FederationFolder, study: str) -> str:
    name = "" if study == "federation.toml" else study
    heard = study_status(folder.of_study(name))["heard"]
    return heard[-1] if heard else "it runs"


def site_status(folder: Path) -> dict[str, Any]:
    """At a site."""
    place, link = load_place(folder), link_of(folder)
    state = "connected" if link["state"] == "answering" else link["state"]
    left, refused, last = log_of(folder)
    ids = waiting(folder)
    held = {
        "site": place.client, "coordinator": load_address(folder), "state": state,
        "why": printable(str(link["why"])), "since": when(link["since"]) if link["since"] else None,
        "left": left, "refused": refused, "last": last, "waits": ids,
        "asked": [_asked(folder, id) for id in ids],
        "ended": [{"study": e.study, "time": when(t), "how": e.words()}
                  for t, e in ended_studies(folder)[-LAST:]],
        "paused": (folder / "paused").exists(), "roster": _roster(folder),
        "results": sorted(path.name for path in (folder / "results").glob("*")),
    }  # fmt: skip
    return held | {"next": _next_at_site(folder, held)}


def _asked(folder: Path, id: str) -> str:
    """What waits, in a few words."""
    study, what = about_waiting(folder, id)
    return f"{what}{f' of study {study}' if study else ''} ({id[:SHORT]})"


def log_of(folder: Path) -> tuple[int, int, list[str]]:
    """How many answers left, how many were refused, and the last lines, for a person."""
    path = folder / LOG
    lines = path.read_text("utf-8").splitlines() if path.exists() else []
    entries = []
    for line in lines:
        try:
            entries.append(json.loads(line))
        except ValueError:  # torn: `outgoing --verify` says so
            continue
    refused = sum("refused" in entry for entry in entries)
    left = sum("kind" in entry and "refused" not in entry for entry in entries)
    shown = [f"{e.get('time', '')[:19].replace('T', ' ')}  {told(e)}" for e in entries[-LAST:]]
    return left, refused, list(map(printable, shown))


def _roster(folder: Path) -> str | None:
    """The six words of the sites with which this one may be summed."""
    try:
        return load_roster(folder).words()
    except FeddcdError:
        return None


def _next_at_site(folder: Path, held: Mapping[str, Any]) -> str:
    at = shlex.quote(shown(folder))
    if held["paused"]:
        return f"this site is paused; to end the pause: feddcd federation pause {at} --end"
    if held["waits"]:
        return f"decide about the jobs that wait for you: feddcd federation approve {at}"
    if held["state"] == "down":
        return f"start this site: feddcd federation site {at}"
    if held["state"] == "connecting" and UNKNOWN in held["why"]:
        words = enrolment_words(folder)
        return f"call the person at the coordinator, who has to confirm these words: {words}"
    if held["state"] == "connecting":
        return (
            "wait a minute. If there is still no connection, ask the person at the "
            "coordinator whether the port is open"
        )
    return "you have nothing to do: this site answers when the coordinator asks"
