"""What the person at the coordinator does next, from how a federation stands."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from .._files import Disk, shown
from .._text import sentence_list
from ..sums.roster import FEWEST
from .folder import STUDY, FederationFolder
from .machine.studies import OPEN
from .site.told import lacked_by
from .trial import is_trial, next_in_trial, trial_of

MOST_BYTES = 1 << 24  # of the file of a study
BEGIN_S = 60.0  # after the port was opened, or a site confirmed: sites connect by themselves
UNREADABLE = "invitation cannot be read"
PAUSE = "the end of a pause"  # in place of what people have to decide about
OWN = "federation.toml"  # in place of the name of a study
UNSURE = "unknown, because `serve` does not respond"
UNSERVED = {"running": "stopped: nobody serves", "wanted": "not begun: nobody serves"}


def next_step(folder: FederationFolder, held: Mapping[str, Any]) -> str:
    """What to do now: first what stops all else, then what a person can do while others decide."""
    at = shlex.quote(shown(folder.path))
    if hang := held.get("silent"):
        return _after_hang(at, hang["holder"], hang.get("programs", ()))
    if thieves := [one["site"] for one in held.get("rivals", ()) if one["now"]]:
        return _after_theft(at, thieves[0])
    if not held["sites"]:
        return f"invite a site: feddcd federation invite {at} NAME"
    stopped = [s["study"] for s in held["studies"] if s.get("stands") in UNSERVED.values()]
    trial = held.get("trial")
    if trial and trial["newer"] and not trial["waits"]:
        ended = next(s for s in held["studies"] if s["study"] == trial["newer"])
        done = ended["state"] == "done"
        return f"read the result in {ended['result']}" if done else _after_failure(at, ended, held)
    if trial and not stopped:
        repeats = {s["study"]: s.get("repeat") for s in held["studies"] if s["state"] == "failed"}
        return repeats.get(trial["study"]) or next_in_trial(trial)
    failed = _newest_failure(held["studies"])
    if failed and failed["study"] == OWN:
        return _after_failure(at, failed, held)
    if not held["open"]:
        if any(s["study"] == OWN and s["state"] == "stopped" for s in held["studies"][-1:]):
            return f"continue the study that the file {OWN!r} describes: feddcd federation up {at}"
        runs = any(s["study"] in stopped[:1] and s["state"] == "running" for s in held["studies"])
        goes_on = "continues" if runs else "begins"
        to = f", so that study {stopped[0]!r} {goes_on}" if stopped else ""
        return f"open the port{to}: feddcd federation serve {at}"
    running = sorted(
        (s for s in held["studies"] if s["state"] in OPEN), key=lambda s: s["state"] != "running"
    )
    told = _waits_for(running[0]) if running else ""
    by_state = _by_state(held)
    if running and running[0]["waits"].get("people"):
        calls = _calls(at, held)
        return f"{told}. Meanwhile: {calls}" if calls else told
    told = told or (_after_failure(at, failed, held) if failed else _new_study(at, by_state))
    return _calls(at, held) or told


def start_again(folder: FederationFolder) -> str:
    """The command for a study that runs now and ends without a result."""
    trial = trial_of(folder)
    if trial and trial["state"] == "running":
        return trial["command"]
    return _again(shlex.quote(shown(folder.path)), folder.study or OWN)


def _again(at: str, study: str) -> str:
    return f"feddcd federation {f'up {at}' if study == OWN else f'study {at} {study}'}"


def allow_repeat(study: FederationFolder, names: Sequence[str]) -> str:
    """How a table that was made with these sites can be made without them, if they agreed."""
    at, own = shlex.quote(shown(study.path)), study.path / "federation.toml"
    file = study.results / STUDY if study.study else own
    path, trial = shlex.quote(shown(file)), is_trial(study)
    again = f"feddcd federation {'simulate' if trial else 'study' if study.study else 'up'} {at}"
    if study.study:
        again += f" --job {path} --study {study.study}" if trial else f" {study.study} --job {path}"
    known = "repeat_without" in (Disk().read(file, MOST_BYTES) or b"").decode(errors="replace")
    line = "change repeat_without to true" if known else "write repeat_without = true at the top"
    line += f" {'in' if known else 'of'} {path}"
    kept = " In this file, feddcd keeps the job of this study." if study.study else ""
    whose = "its sums" if len(names) == 1 else "their sums"
    agreed = f"If {sites_named(names)} agreed to reveal {whose}"
    return f"{agreed}, {line}.{kept} Then give this command: {again}"


def sites_named(names: Sequence[str]) -> str:
    return f"the site{'s' * (len(names) > 1)} {sentence_list([repr(name) for name in names])}"


def _after_theft(at: str, site: str) -> str:
    return (
        f"call the person at {site}: another program uses the key of {site}. If this program "
        "runs from a copy of the folder of the site, ask the person to stop this program. If "
        "nobody knows of a copy, somebody stole the key: remove the site with feddcd federation "
        f"retire {at} {site}"
    )


def _by_state(held: Mapping[str, Any]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for site in held["sites"]:
        found.setdefault(site["state"], []).append(site["site"])
    return found


def _after_hang(at: str, holder: str, programs: Sequence[int]) -> str:
    number = holder.removeprefix("process ")
    known = number.isdigit()
    all_ = " ".join([number, *map(str, programs)])  # each may be suspended
    go_on = f", or give this command: kill -CONT {all_}" if known else ""
    end = f", or with this command: kill {number}" if known else ""
    return (
        f"look at the program `feddcd federation serve` ({holder}), which does not respond. If it "
        f"was suspended with Ctrl-Z, give the command fg in its terminal{go_on}. Otherwise stop it "
        f"with Ctrl-C{end}. Then start it again: feddcd federation serve {at}. Studies continue "
        "where they were"
    )


def waits_in_words(waits: Mapping[str, Any]) -> str:
    """All sites that are waited for, and until when: for people longer than for what is broken."""
    if not waits:
        return ""
    paused = [site for site, what in waits["people"].items() if what == PAUSE]
    people = [f"{site} ({what})" for site, what in waits["people"].items() if what != PAUSE]
    told = [f"people at {sentence_list(people)} have to decide"] if people else []
    if paused:
        be = "is" if len(paused) == 1 else "are"
        told.append(f"{sentence_list(paused)} {be} paused, and a person there has to end the pause")
    told += [f"no answer from {sentence_list(waits['silent'])} yet"] if waits["silent"] else []
    until = "; the coordinator waits until"
    lines = [f"{'; '.join(told)}{until} {waits['until']}"] if told else []
    broken = []
    if looking := waits.get("looking"):
        broken.append(f"the data file is missing at {sentence_list(looking)}")
    if reading := waits.get("reading"):
        broken.append(f"policy.toml has a mistake at {sentence_list(reading)}")
    if broken:  # after a minute the site refuses, whatever others have to decide
        lines.append(f"{'; '.join(broken)}{until} {waits.get('soon') or waits['until']}")
    return f"{'; '.join(lines)} (as of {waits['as_of']})"


def _waits_for(study: Mapping[str, Any]) -> str:
    why = waits_in_words(study["waits"]) or "; ".join(study["heard"]) or "it runs"
    return f"wait for study {study['study']}: {why}"


def _calls(at: str, held: Mapping[str, Any]) -> str:
    """The people whom the person at the coordinator has to call: of sites, then of new sites."""
    by_state, soon = _by_state(held), _just_now(held)
    away, waits = by_state.get("not connected"), by_state.get("waits for confirm")
    if away and not soon:
        return (
            f"ask the people at {', '.join(away)} to start their site: feddcd federation "
            "site SITE_DIR"
        )
    if away and not waits:
        return (
            f"wait a minute, because {soon}. If the programs at {sentence_list(away)} run, they "
            "connect by themselves"
        )
    if waits:
        commands = "; ".join(f"feddcd federation confirm {at} {name}" for name in waits)
        people = "person" if len(waits) == 1 else "people"
        names = sentence_list(waits)
        return f"call the {people} at {names} to compare the enrolment words, then: {commands}"
    return ""


def _just_now(held: Mapping[str, Any]) -> str:
    """Why sites whose programs run may not be connected yet."""
    if held.get("opened_for", BEGIN_S) < BEGIN_S:
        return "`serve` has just started"
    confirmed = held.get("confirmed_for", BEGIN_S) < BEGIN_S
    return "a site was confirmed less than a minute ago" if confirmed else ""


def _new_study(at: str, by_state: Mapping[str, list[str]]) -> str:
    start = f"feddcd federation study {at} NAME --job job.toml"
    enough = len(by_state.get("connected", ())) >= FEWEST
    late = [*by_state.get(UNREADABLE, ()), *by_state.get("invitation ended", ())]
    if late:
        told = (
            f"invite {late[0]} again: feddcd federation invite {at} {late[0]}. Or take the "
            f"invitation back: feddcd federation retire {at} {late[0]}"
        )
    elif invited := by_state.get("invited"):
        told = f"wait until these sites enrol with their invitations: {', '.join(invited)}"
    elif not enough:
        invite = f"feddcd federation invite {at} NAME"
        return f"invite more sites, because sums need at least {FEWEST} sites: {invite}"
    else:
        return f"start a study: {start}"
    return f"{told}. Or start a study without new sites: {start}" if enough else told


def _newest_failure(studies: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The study that ended last, if it has no result, and if none waits or runs now."""
    if not studies or any(study["state"] in OPEN for study in studies):
        return None
    last = max(reversed(studies), key=lambda study: study["time"])
    return last if last["state"] == "failed" else None


def _forbidden(sites: Sequence[str], reasons: Sequence[str]) -> str:
    """A policy is a decision: there is nothing to mend."""
    columns = all("(columns in " in why or "(identifiers in " in why for why in reasons)
    what = "which columns may be used" if columns else "what their policy allows"
    return (
        f"Nothing is broken at {sentence_list(sites)}: the people there decide {what}. Change the "
        "job, or ask these people to change policy.toml"
    )


def _lacks_sites(study: Mapping[str, Any], held: Mapping[str, Any], gone: Sequence[str]) -> bool:
    """Of a study that lost sites: it cannot begin again before others are there."""
    members = sum(bool(site.get("confirmed")) for site in held["sites"])
    lost = bool(gone) or f"needs at least {FEWEST} sites" in study["reason"]
    return members < FEWEST and lost


def _wrong_name(at: str, study: str, column: str, sites: Sequence[str]) -> str:
    """No site has to repair anything where the name of a column is wrong in the job."""
    own = study == OWN
    file = f"{at}/federation.toml" if own else "the job file"
    again = f"up {at}" if own else f"study {at} {study} --job FILE"
    return (
        f"study {study!r} ended without a result, because {sentence_list(sites)} have no column "
        f"{column}. Check this name in {file}, then start the study again: feddcd federation "
        f"{again}. If the name is right, ask the people at these sites to add the column"
    )


def _of_members(
    study: Mapping[str, Any], held: Mapping[str, Any]
) -> tuple[Mapping[str, Any], list[str]]:
    """A study without the refusals of sites that left since: nobody can ask them."""
    here = {site["site"] for site in held["sites"]}
    gone = [site for site in study["refused"] if site not in here]
    kept: dict[str, Any] = {"refused": [site for site in study["refused"] if site in here]}
    for name in ("broken", "forbidden"):
        kept[name] = {site: why for site, why in study.get(name, {}).items() if site in here}
    return {**study, **kept}, gone


def _after_failure(at: str, study: Mapping[str, Any], held: Mapping[str, Any]) -> str:
    """What is broken, whom to call, about which job, and how the study begins again."""
    study, gone = _of_members(study, held)
    name, job, broken = study["study"], study["job"], study["broken"]
    if (column := lacked_by(broken)) and len(broken) == len(study["refused"]):
        return _wrong_name(at, name, column, sorted(broken))
    ended = f"study {name!r} ended without a result"
    told = [] if study["refused"] else [f"read in the line 'study {name}' why {ended}"]
    if gone and not study["refused"]:
        told = [f"{ended}. {sentence_list(gone)} refused, but left the federation after that"]
    if broken:
        told = [
            f"study {name!r} ended without a result",
            *(broken[site] for site in sorted(broken)),
        ]
        told.append(
            f"Ask the people at {sentence_list(sorted(broken))} to repair this. At a site, this "
            "command says what is broken: feddcd federation status SITE_DIR"
        )
    if ruled := [site for site in sorted(study.get("forbidden", ())) if site not in broken]:
        told += [] if broken else [f"study {name!r} ended without a result"]
        told += [study["forbidden"][site] for site in ruled]
        told.append(_forbidden(ruled, [study["forbidden"][site] for site in ruled]))
    if denied := [site for site in study["refused"] if site not in {*broken, *ruled}]:
        told.append(
            f"{'Ask' if told else 'ask'} the people at {sentence_list(denied)} why they refused "
            f"{f'job {job} of ' if job else ''}study {name!r}. If a person there denied the job, a "
            f"person there can still approve it: feddcd federation approve SITE_DIR {job or 'ID'}"
        )
    if study.get("repeat"):
        return ". ".join([*told, study["repeat"]])
    if _lacks_sites(study, held, gone):
        return ". ".join([*told, f"First {_new_study(at, _by_state(held))}"])
    return ". ".join([*told, f"Then start the study again: {_again(at, name)}"])
