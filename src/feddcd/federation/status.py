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
from ._next_step import OWN, UNREADABLE, UNSERVED, allow_repeat, next_step
from ._next_step import UNSURE as UNSURE
from ._next_step import waits_in_words as waits_in_words
from ._site_status import LAST
from ._site_status import RESTARTED as RESTARTED
from ._site_status import UNCONFIRMED as UNCONFIRMED
from ._site_status import UNKNOWN as UNKNOWN
from ._site_status import is_unconfirmed as is_unconfirmed
from ._site_status import log_of as log_of
from ._site_status import looks_words as looks_words
from ._site_status import site_status as site_status
from ._site_status import why_of as why_of
from .about import in_study
from .enrolment import desk
from .enrolment.invitation import when
from .folder import WAITED, FederationFolder
from .machine.programs import connected, hang_of, is_up, looked, opened_for
from .machine.rivals import rivals
from .machine.studies import ahead_of, result_of, state_of
from .site.approval import SHORT
from .site.log import LOG
from .site.policy import FILE as POLICY
from .site.told import in_short, kind_of
from .trial import put_stopped, trial_of, was_served
from .unshared import unshared

HERE = "on this machine, to try feddcd"
ENDED = ("done", "failed", "cancelled")
OF_SITE = (POLICY, "key", LOG, "rules")  # in its folder, beside its settings
HEARD = ("waiting", "refused", "silent", "failed", "each")


def federation_status(folder: FederationFolder) -> dict[str, Any]:
    """At the coordinator."""
    config, up = folder.config(), is_up(folder)
    sites, hang = _sites(folder, up), hang_of(folder) if up else None
    for site in sites if hang else ():
        site["state"] = UNSURE if site["confirmed"] else site["state"]
    studies = [study_status(folder.of_study(name)) for name in folder.studies()]
    for study in studies if not up else ():
        study["stands"] = UNSERVED.get(study["state"], study["stands"])
        study["waits"] = {}  # of a coordinator that asks nobody now
    for study in studies if up else ():
        _put_behind(study, studies, folder)
    if folder.events.exists() and (alone := study_status(folder))["state"] != "wanted":
        studies.insert(0, alone)
        put_stopped(alone, folder, up)
    _put_trouble(sites, [study for study in studies if study["state"] != "wanted"])
    trial = None if up else trial_of(folder)
    if trial is not None and was_served(trial, studies):
        trial = None  # as in any federation: `serve` has to run again
    if trial is not None:
        _put_trial(trial, sites, studies)
    missing = [site["site"] for site in sites if site["state"] == "not connected"]
    held = {
        "federation": config.name, "address": f"{config.host}:{config.port}", "open": up,
        "sites": sites, "missing": missing, "studies": studies, "trial": trial,
        "as_of": _age(looked(folder)) if up else None, "rivals": _rivals(folder),
        "silent": hang._asdict() if hang else None,
    }  # fmt: skip
    if (seconds := opened_for(folder) if up else None) is not None:
        held["opened_for"] = round(seconds, 1)
    if (seconds := desk.confirmed_for(folder)) is not None:
        held["confirmed_for"] = round(seconds, 1)
    return held | {"next": next_step(folder, held)}


def unlike(path: Path) -> str:
    """Of a folder without its settings, for example after a restore."""
    if not path.is_dir():
        return f"there is no folder {path}"
    if not any((path / name).exists() for name in OF_SITE):
        return (
            f"the folder {path} is neither the folder of a site nor the folder of a coordinator: "
            "it has no site.toml and no federation.toml"
        )
    return (
        f"the folder {path} has files of a site, but no site.toml. Put site.toml back from a "
        "backup. If there is no backup, ask the person at the coordinator to retire this site and "
        "to send a new invitation. Then give: feddcd federation enrol INVITATION --data FILE "
        f"--out {path}"
    )


def _rivals(folder: FederationFolder) -> list[dict[str, Any]]:
    return [
        {"site": one.site, "since": when(one.since), "last": when(one.last), "now": one.tries_now}
        for one in rivals(folder)
    ]


def _put_trouble(sites: list[dict[str, Any]], studies: list[dict[str, Any]]) -> None:
    """What was heard last of a site that is connected, and could not answer then."""
    last = max(studies, key=lambda study: study["time"], default={"waits": {}, "broken": {}})
    for site in sites:
        name, told = site["site"], ""
        if name in last["waits"].get("looking", ()):
            told = "its data file is missing"
        elif name in last["waits"].get("reading", ()):
            told = "its policy.toml has a mistake"
        elif name in last["broken"]:
            told = f"it could not answer, because {in_short(name, last['broken'][name])}"
        told = f"in study {last['study']}, {told}" if told else ""
        site["trouble"] = told if site["state"] == "connected" else ""


def _put_behind(
    study: dict[str, Any], studies: list[dict[str, Any]], folder: FederationFolder
) -> None:
    """Of a study that waits for its turn: which one is first, and until when that one waits."""
    if (ahead := ahead_of(folder.of_study(study["study"]))) is not None:
        first = next(each for each in studies if each["study"] == ahead.study)
        until = first["waits"].get("until")
        told = f"; the sites of study '{ahead.study}' can answer until {until}" if until else ""
        study["stands"] = f"{ahead.words()}{told}"


def _put_trial(trial: dict[str, Any], sites: list[Any], studies: list[Any]) -> None:
    """In a trial no site connects, and nobody serves."""
    for site in sites:
        site["state"] = HERE if site["state"] == "not connected" else site["state"]
    for study in studies:
        if study["study"] == trial["study"] and study["state"] not in ENDED:
            study["stands"] = "runs" if trial["state"] == "running" else "stopped"
            study["heard"], study["waits"] = [], {}  # what waits is known, as its sites are here
    ended = [s for s in studies if s["state"] in ("done", "failed") and s["time"] > trial["at"]]
    newer = max(ended, key=lambda study: study["time"])["study"] if ended else ""
    trial["newer"] = newer if trial["state"] != "running" else ""  # of `up` or `serve`


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
        member = name in invited
        found.append({"site": name, "state": state, "since": since, "confirmed": member})
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
    job, refused, repeat = "", dict[str, str](), ""
    state: dict[str, Any] = state_of(study) if study.study else {"state": "wanted"}
    for _, event in study.read_events():
        if event["event"] == "greeting":
            heard.clear()
            refused.clear()
            repeat = ""
            state = state if study.study else {"state": "running"}
        elif event["event"] in HEARD:
            text = printable(str(event.get("reason") or event.get("site") or ""))
            site = str(event.get("site") or text)
            text += " does not answer" if event["event"] == "silent" else ""
            heard.pop(site, None)
            heard[site] = event["event"], text
            if event["event"] == "refused" and "site" in event:
                refused[site] = text
        elif event["event"] in ("decided", "looked", "read"):
            heard.pop(str(event.get("site")), None)
        elif event["event"] == "exchange":  # all have answered: nobody is waited for
            heard = {site: told for site, told in heard.items() if told[0] in ("refused", "each")}
        elif event["event"] == "repeats":
            repeat = allow_repeat(study, [str(site) for site in event["without"]])
        elif event["event"] in ("job", "goes on"):
            job = str(event.get("job", ""))[:SHORT]
        elif event["event"] == "finished" and not study.study:
            state = {"state": "done", "time": event.get("time")}
        if event["event"] == "failed" and not study.study:
            state = {"state": "failed", "reason": event.get("reason", "")}
            state |= {"time": event.get("time")}
    if state["state"] == "wanted":  # what was heard belongs to an earlier try
        heard, refused, repeat = {}, {}, ""
    if state["state"] in ENDED:  # nothing waits any more, and a failure has its reason
        failed = state["state"] != "done"
        heard = {s: told for s, told in heard.items() if told[0] == "refused" and not failed}
    waited = _waited(study) if state["state"] not in ENDED else {}
    if waited:  # which is newer, and has all of them
        heard = {s: told for s, told in heard.items() if told[0] not in ("waiting", "silent")}
    texts = [text for _, text in heard.values()]
    told = {"study": study.study or OWN, "job": job, "state": state["state"]}
    told |= {"stands": state["state"]}  # in words, for people
    since = state.get("time")
    told |= {"since": when(since) if since else None, "reason": state.get("reason", "")}
    told |= {"refused": sorted(refused), "waits": waited, "time": since or 0.0}
    failed = state["state"] == "failed"
    told |= {"repeat": repeat, "short": _short(state, refused) if failed else ""}
    done = state["state"] == "done"
    told |= _result(study) if done else {"result": "", "verify": ""}
    told |= {"unshared": unshared(study) if done else []}
    for name, kind in (("broken", "other"), ("forbidden", "policy")):
        told |= {name: {site: why for site, why in refused.items() if kind_of(why) == kind}}
    return told | {"heard": list(dict.fromkeys(texts))[-LAST:], "folder": str(study.results)}


def _short(state: Mapping[str, Any], refused: Mapping[str, str]) -> str:
    """Why a study failed, as long as a line can be: the first sentence, and who refused."""
    reasons: dict[str, list[str]] = {}
    for site in sorted(refused):
        reasons.setdefault(in_short(site, refused[site]), []).append(site)
    each = [f"{sentence_list(sites)}: {why}" for why, sites in reasons.items()]
    refusals = f"Refused: {'; '.join(each)}" if each else ""
    return ". ".join(filter(None, (str(state.get("reason", "")).partition(". ")[0], refusals)))


def _result(study: FederationFolder) -> dict[str, str]:
    """Where it is, and the command that checks it; nothing to check where there is no proof."""
    place, at = result_of(study), shlex.quote(shown(study.path))
    proven = study.proven or study.ledger.exists()
    check = f"feddcd federation verify {at} {study.study}".rstrip()
    return {"result": shown(place) if place else "", "verify": check if proven else ""}


def _waited(study: FederationFolder) -> dict[str, Any]:
    """Who is waited for, by the last question of the coordinator, and how old that is."""
    data = Disk().read(study.results / WAITED, 1_000_000)
    try:
        held = json.loads(data) if data else {}
        if not any(held.get(name) for name in ("people", "silent", "looking", "reading")):
            return {}
        return {
            "people": {str(k): str(v) for k, v in held["people"].items()},
            "silent": [str(site) for site in held["silent"]],
            "looking": [str(site) for site in held.get("looking", ())],
            "reading": [str(site) for site in held.get("reading", ())],
            "soon": when(float(held.get("soon", held["until"]))),
            "until": when(float(held["until"])), "as_of": _age(float(held["time"])),
        }  # fmt: skip
    except (ValueError, LookupError, TypeError, AttributeError):
        return {}


def studies_of_job(folder: FederationFolder, name: str) -> list[dict[str, Any]]:
    """The studies with this job, as they stand; the beginning of its id is enough, and so is the
    name of a study. A job file that is used in two studies makes one job: its id is a digest of
    what is asked of whom."""
    wanted, id = in_study(name)
    if name in folder.studies() or (name == OWN and folder.events.exists()):
        return [study_status(folder.of_study("" if name == OWN else name))]
    made = [study_status(folder.of_study(each)) for each in ("", *folder.studies())]
    found = [s for s in made if s["job"] and s["job"].startswith(id[:SHORT])]
    found = [s for s in found if wanted in ("", s["study"])]
    if len({s["job"] for s in found}) != 1:
        known = ", ".join(f"{s['study']}/{s['job']}" for s in made if s["job"]) or "none"
        none = f"in this folder, no id of a job begins with {name!r}"
        none = none if wanted else f"{none}, and no study has this name"
        several = f"several ids of jobs begin with {name!r}; give more letters of the id"
        raise SpecError(f"{several if found else none}. The jobs are: {known}")
    return found


def path_of_job(path: Path, name: str) -> Path:
    """The folder that has the result of a job; without a name, the folder itself."""
    if not name:
        return path
    found = studies_of_job(FederationFolder(path), name)
    if len(found) > 1:
        names = " or ".join(f"'{s['study']}/{s['job']}'" for s in found)
        raise SpecError(f"several studies have the job {found[0]['job']}; write {names}")
    study = FederationFolder(path).of_study(found[0]["study"])
    return path if found[0]["study"] == OWN else study.results
