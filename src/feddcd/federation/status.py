"""How a federation stands, at both ends, as plain values: from files alone, so it can be asked at
any time. Nothing of the data is in it."""

import json
import shlex
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from .._errors import SpecError
from .._files import Disk, shown
from .._text import printable, sentence_list, spoken
from ..sums.roster import FEWEST
from ._site_status import LAST
from ._site_status import RESTARTED as RESTARTED
from ._site_status import UNKNOWN as UNKNOWN
from ._site_status import is_new as is_new
from ._site_status import log_of as log_of
from ._site_status import site_status as site_status
from .about import in_study
from .enrolment import desk
from .enrolment.invitation import when
from .folder import WAITED, FederationFolder
from .machine.programs import connected, is_up, looked
from .machine.serving import state_of
from .site.approval import SHORT
from .trial import next_in_trial, trial_of

UNREADABLE = "invitation cannot be read"
HERE = "on this machine, for a trial"
OWN = "federation.toml"  # in place of the name of a study
ENDED = ("done", "failed")
UNSERVED = {"running": "stopped: nobody serves", "wanted": "not begun: nobody serves"}
HEARD = ("waiting", "refused", "silent", "failed", "each")


def federation_status(folder: FederationFolder) -> dict[str, Any]:
    """At the coordinator."""
    config, up = folder.config(), is_up(folder)
    sites = _sites(folder, up)
    studies = [study_status(folder.of_study(name)) for name in folder.studies()]
    for study in studies if not up else ():
        study["stands"] = UNSERVED.get(study["state"], study["stands"])
        study["waits"] = {}  # of a coordinator that asks nobody now
    if folder.events.exists() and (alone := study_status(folder))["state"] != "wanted":
        studies.insert(0, alone)
    trial = None if up else trial_of(folder)
    if trial is not None:
        _put_trial(trial, sites, studies)
    missing = [site["site"] for site in sites if site["state"] == "not connected"]
    held = {
        "federation": config.name, "address": f"{config.host}:{config.port}", "open": up,
        "sites": sites, "missing": missing, "studies": studies, "trial": trial,
        "as_of": _age(looked(folder)) if up else None,
    }  # fmt: skip
    return held | {"next": _next(folder, held)}


def _put_trial(trial: Mapping[str, Any], sites: list[Any], studies: list[Any]) -> None:
    """In a trial no site connects, and nobody serves."""
    for site in sites:
        site["state"] = HERE if site["state"] == "not connected" else site["state"]
    for study in studies:
        if study["study"] == trial["study"] and study["state"] not in ENDED:
            study["stands"] = "runs" if trial["state"] == "running" else "stopped"
            study["heard"], study["waits"] = [], {}  # what waits is known, as its sites are here


def _age(then: float | None) -> str | None:
    return None if then is None else f"{spoken(max(0.0, round(time.time() - then)))} ago"


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
        elif event["event"] == "decided":
            heard.pop(str(event.get("site")), None)
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
    waited = _waited(study) if state["state"] not in ENDED else {}
    if waited:  # which is newer, and has all of them
        heard = {s: told for s, told in heard.items() if told[0] != "waiting"}
    texts = [text for _, text in heard.values()]
    told = {"study": study.study or OWN, "job": job, "state": state["state"]}
    told |= {"stands": state["state"]}  # in words, for people
    since = state.get("time")
    told |= {"since": when(since) if since else None, "reason": state.get("reason", "")}
    told |= {"refused": sorted(refused), "waits": waited}
    return told | {"heard": list(dict.fromkeys(texts))[-LAST:], "folder": str(study.results)}


def _waited(study: FederationFolder) -> dict[str, Any]:
    """Who is waited for, by the last question of the coordinator, and how old that is."""
    data = Disk().read(study.results / WAITED, 1_000_000)
    try:
        held = json.loads(data) if data else {}
        if not held.get("people") and not held.get("silent"):
            return {}
        return {
            "people": {str(k): str(v) for k, v in held["people"].items()},
            "silent": [str(site) for site in held["silent"]],
            "until": when(float(held["until"])), "as_of": _age(float(held["time"])),
        }  # fmt: skip
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


def waits_in_words(waits: Mapping[str, Any]) -> str:
    """All sites that are waited for, and until when."""
    if not waits:
        return ""
    people = [f"{site} ({what})" for site, what in waits["people"].items()]
    told = [f"people at {sentence_list(people)} have to decide"] if people else []
    told += [f"no answer from {sentence_list(waits['silent'])} yet"] if waits["silent"] else []
    return f"{'; '.join(told)}; the coordinator waits until {waits['until']} " + (
        f"(as of {waits['as_of']})"
    )


def studies_of_job(folder: FederationFolder, name: str) -> list[dict[str, Any]]:
    """The studies with this job, as they stand; the beginning of its id is enough. A job file that
    is used in two studies makes one job: its id is a digest of what is asked of whom."""
    wanted, id = in_study(name)
    made = [study_status(folder.of_study(each)) for each in ("", *folder.studies())]
    found = [s for s in made if s["job"] and s["job"].startswith(id[:SHORT])]
    found = [s for s in found if wanted in ("", s["study"])]
    if len({s["job"] for s in found}) != 1:
        known = ", ".join(f"{s['study']}/{s['job']}" for s in made if s["job"]) or "none"
        raise SpecError(
            f"no job of this folder, or more than one job, begins with {name!r}; the jobs are: "
            f"{known}"
        )
    return found


def path_of_job(path: Path, name: str) -> Path:
    """The folder that has the result of a job; without a name, the folder itself."""
    if not name:
        return path
    found = studies_of_job(FederationFolder(path), name)
    if len(found) > 1:
        names = sentence_list([f"{s['study']}/{s['job']}" for s in found])
        raise SpecError(f"several studies have the job {found[0]['job']}; give one of {names}")
    study = FederationFolder(path).of_study(found[0]["study"])
    return path if found[0]["study"] == OWN else study.results


def _next(folder: FederationFolder, held: Mapping[str, Any]) -> str:
    """The one thing to do now."""
    by_state: dict[str, list[str]] = {}
    for site in held["sites"]:
        by_state.setdefault(site["state"], []).append(site["site"])
    at = shlex.quote(shown(folder.path))
    if waits := by_state.get("waits for confirm"):
        commands = "; ".join(f"feddcd federation confirm {at} {name}" for name in waits)
        people = "person" if len(waits) == 1 else "people"
        return f"call the {people} at {sentence_list(waits)}, then: {commands}"
    if not held["sites"]:
        return f"invite a site: feddcd federation invite {at} NAME"
    if torn := by_state.get(UNREADABLE):
        return f"invite {torn[0]} again: feddcd federation invite {at} {torn[0]}"
    stopped = [s["study"] for s in held["studies"] if s.get("stands") in UNSERVED.values()]
    if held.get("trial") and not stopped:
        return next_in_trial(held["trial"])
    last = held["studies"][-1] if held["studies"] else {"state": ""}
    if last["state"] == "failed" and last["refused"]:
        return _after_refusal(last)
    if not held["open"]:
        to = f", so that study {stopped[0]} continues" if stopped else ""
        return f"open the port{to}: feddcd federation serve {at}"
    if ended := by_state.get("invitation ended"):
        return f"invite {ended[0]} again: feddcd federation invite {at} {ended[0]}"
    if invited := by_state.get("invited"):
        return f"wait until these sites enrol with their invitations: {', '.join(invited)}"
    if away := by_state.get("not connected"):
        return (
            f"ask the people at {', '.join(away)} to start their site: feddcd federation "
            "site SITE_DIR"
        )
    running = [s for s in held["studies"] if s["state"] in ("running", "wanted")]
    if running:
        why = waits_in_words(running[0]["waits"]) or "; ".join(running[0]["heard"]) or "it runs"
        return f"wait for study {running[0]['study']}: {why}"
    if len(by_state.get("connected", ())) < FEWEST:
        return f"invite more sites, because sums need at least {FEWEST} sites"
    return f"start a study: feddcd federation study {at} NAME --job job.toml"


def _after_refusal(study: Mapping[str, Any]) -> str:
    """Whom to call, about which job; the person there can think again."""
    job = f"job {study['job']} of study {study['study']}" if study["job"] else study["study"]
    return (
        f"ask the people at {sentence_list(study['refused'])} why they refused {job}. A person "
        "at such a site can approve a job that was denied: feddcd federation approve SITE_DIR "
        f"{study['job'] or 'ID'}. Then start the study again"
    )
