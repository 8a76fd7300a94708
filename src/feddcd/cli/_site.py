"""What an administrator does at a site: approve, deny, pause, and look at the log."""

import shlex
from collections.abc import Callable
from pathlib import Path

from .._errors import PolicyError, SpecError
from .._files import shown
from .._text import plural, printable, sentence_list
from ..federation.about import in_study
from ..federation.folder import load_place
from ..federation.site.approval import (
    SHORT,
    WAITING,
    about_waiting,
    approve,
    asked_words,
    denied,
    deny,
    mark_read,
    pause,
    resume,
    waiting,
    words_of,
)
from ..federation.site.ended import ended_studies
from ..federation.site.log import read_log, verify_log
from ..federation.site.log_words import (
    AFTER_DENIAL,
    IN_VAIN,
    STILL,
    TOO_FEW,
    block_lines,
    time_of,
    told,
)
from ..federation.site.memory import Memory
from ..federation.site.policy import FILE, load_policy
from ..federation.site.reading import Unread
from ..federation.site.rules import budget_lines
from ..federation.status import log_of
from ._ending import judged
from ._habits import found
from ._terminal import say

LATER = "your decision counts if the coordinator starts the study again"
THIRD = ". If this site answered the same job before, the job needs a third approval"
NOTHING = "nothing waits for your decision now. If a job comes later, give this command again"


def outgoing_command(folder: Path, job: str, ids: list[str], check: bool, log: bool) -> None:
    """What waits at a site for its administrator, approval of it, and the log of what left."""
    check_site(folder)
    if check:
        with judged("NOT COMPLETE: do not trust this log before you know the reason"):
            head = verify_log(folder, job)
        left, refused = log_of(folder)[:2]
        found(left=left, refused=refused, lines=head.lines, hash=head.hash)
        sent, of = plural(left, "answer"), plural(refused, "question")
        lines = f"The log has {plural(head.lines, 'line')}. Each line has the right digest of the"
        say(f"this site sent {sent} and refused {of}. {lines} line before it")
        if job:
            return say("up to the line with this digest, nobody has changed the log")
        again = f"feddcd federation outgoing {shlex.quote(shown(folder))} --verify {head.hash}"
        only = "only this command can later show that somebody forged the log"
        return say(f"write this command down outside this machine, because {only}: {again}")
    if log or job:
        return _show_log(folder, job)
    if ids:
        approve_command(folder, ids)
    show_waiting(folder)
    show_budget(folder)


def approve_command(folder: Path, ids: list[str]) -> None:
    shown = [line for id in ids for line in _words(folder, id)]
    _decide(folder, ids, approve, "is approved", "it continues when the coordinator asks again")
    try:
        load_policy(folder / FILE)
    except PolicyError as error:
        until = "Until somebody corrects this, this site sends nothing"
        say(f"PROBLEM: {str(error).rstrip('.')}. {until}")
    if any(IN_VAIN in line for line in shown):
        say(
            "but the rules of this site refuse a job that you approved. The text of this job gives "
            "the reason after the word NOTE. If somebody changes the rules in policy.toml, your "
            "approval stays valid"
        )
    if any("names and levels" in line for line in shown):
        say(
            "you approved only the names and levels of columns. The job itself comes next, and "
            "needs another approval"
            + (THIRD if any(entry.get("exchange", 0) > 0 for entry in read_log(folder)) else "")
        )


def _words(folder: Path, id: str) -> list[str]:
    found = [one for one in waiting(folder) if one.startswith(id)] if id else []
    return words_of(folder, found[0]) if len(found) == 1 else []


def deny_command(folder: Path, ids: list[str]) -> None:
    shown = [line for id in ids for line in _words(folder, id)]
    _decide(folder, ids, deny, "is denied", "you can still approve it")
    if any(AFTER_DENIAL in line for line in shown):
        few = TOO_FEW in " ".join(shown)
        ends = f"the study ends, because {TOO_FEW}. But " if few else ""
        say(
            f"{ends}this site answered an earlier job. If the other sites now run a job without "
            f"this site{f', {STILL}' if few else ''}, the sums of the two jobs together reveal the "
            "sums of this site alone. So call the other sites before they approve such a job"
        )


def _decide(
    folder: Path, ids: list[str], how: Callable[[Path, str], str], outcome: str, then: str
) -> None:
    """Without ids what waits is shown. `then` is what follows while the study has not ended."""
    check_site(folder)
    decided = []
    ended = {ended.study for _, ended in ended_studies(folder)}
    for id in ids:
        try:
            decided.append(how(folder, id))
        except Unread as other:
            _show_one(folder, other.id)
            raise
        told = f"{decided[-1][:SHORT]} ({asked_words(folder, decided[-1])}) {outcome}"
        if (study := about_waiting(folder, decided[-1])[0]) in ended:
            told += f". Study '{study}' has ended, and the coordinator asks nothing now"
        say(f"{told}; {LATER if study in ended else then}")
    found(decided=decided)
    if not ids:
        show_waiting(folder)


def pause_command(folder: Path, end: bool) -> None:
    check_site(folder)
    (resume if end else pause)(folder)
    found(paused=not end)
    again = f"feddcd federation pause {shlex.quote(shown(folder))} --end"
    paused = f"this site is paused and answers nothing; to end the pause: {again}"
    say("the pause has ended: this site answers again" if end else paused)


def show_waiting(folder: Path) -> None:
    ids = waiting(folder)
    found(waits={id: words_of(folder, id) for id in ids})
    if not ids:
        say(NOTHING)
    for id in denied(folder):
        again = f"feddcd federation approve {shlex.quote(shown(folder))} {id[:SHORT]}"
        say(f"denied: {asked_words(folder, id)}, {id[:SHORT]}; to approve it: {again}")
    for id in ids:
        _show_one(folder, id)


def _show_one(folder: Path, id: str) -> None:
    """From now on a person has read it."""
    mark_read(folder, id)
    file = shown((folder / WAITING / f"{id}.json").resolve())
    what = asked_words(folder, id)
    say(f"{id[:SHORT]} ({what}) waits for your decision. All details are in {file}")
    for line in words_of(folder, id):
        say(printable(line))
    for line in decision_lines(Path(shown(folder)), id):
        say(line)


def decision_lines(folder: Path, id: str) -> list[str]:
    """The two commands, each to be pasted into a shell."""
    at = shlex.quote(str(folder))
    return [f"  {how}: feddcd federation {how} {at} {id[:SHORT]}" for how in ("approve", "deny")]


def show_budget(folder: Path) -> None:
    place, policy = load_place(folder), load_policy(folder / FILE)
    lines = budget_lines(policy, Memory(place.folder, place.data))
    found(budget=dict(line.split(": ", 1) for line in lines))
    for line in lines:
        say(line)


def _show_log(folder: Path, job: str = "") -> None:
    """A line for each, as people read it; questions that were refused in a row are one line."""
    verify_log(folder)
    last, whole = ("", 0), read_log(folder)
    entries = entries_of(whole, job)
    found(log=entries)
    if job and not entries:
        say(
            f"the log has no line about {printable(job)}: give the first letters of the id of a "
            "job, or the name of a study"
        )
    for line in _several(folder, job, entries):
        say(printable(line))
    for entry in entries:
        text = told(entry)
        same = last[1] + 1 if text == last[0] else 1
        if same == 2:
            say("    and the same entry again")
        elif same == 1:
            say(printable(f"{time_of(entry)}  {text}"))
        last = text, same
    for line in block_lines(entries) if job else ():
        say(printable(line))
    if job and any("kind" in entry and not {"of_job", "of_question"} & {*entry} for entry in whole):
        say(
            "Some lines of the log are from an earlier version of feddcd and do not name a job. "
            "This list does not show the lines without a job. To see all lines: feddcd federation "
            f"outgoing {shlex.quote(shown(folder))} --log"
        )


def _several(folder: Path, job: str, entries: list[dict]) -> list[str]:
    """Where the same job was asked for in several studies."""
    studies = sorted({_study(entry) for entry in entries} - {""}) if job else []
    if len(studies) < 2 or "/" in job:
        return []
    one = f"feddcd federation outgoing {shlex.quote(shown(folder))} {studies[0]}/{job}"
    told = f"several studies have this job: {sentence_list(list(map(repr, studies)))}"
    return [f"{told}. To see the lines of one study: {one}"]


def entries_of(entries: list[dict], job: str) -> list[dict]:
    """The lines of a job, with those on the question for names of columns that came before it; or
    all lines of the study with this name."""
    if job and (of_study := [entry for entry in entries if _study(entry) == job]):
        return of_study
    study, id = in_study(job)
    in_it = [entry for entry in entries if not study or _study(entry) in ("", study)]
    own = [entry for entry in in_it if is_about(entry, id)]
    asked = {(_study(e), e["of_question"]) for e in own if "of_job" in e and "of_question" in e}
    names = lambda e: "of_job" not in e and (_study(e), e.get("of_question")) in asked
    return [entry for entry in in_it if is_about(entry, id) or names(entry)]


def _study(entry: dict) -> str:
    return str(entry.get("study") or entry.get("ended") or "")


def is_about(entry: dict, job: str) -> bool:
    """Whether a line of the log names this job, by the beginning of its id; lines of earlier
    versions have the beginning alone."""
    keys = ("waits", "approved", "denied", "dropped", "name", "digest", "of_job")
    names = [entry.get(key) for key in keys]
    names += [] if "of_job" in entry else [entry.get("of_question")]
    closed = entry.get("closed")
    names += closed if isinstance(closed, list) else []
    held = [str(name) for name in names if name]
    return not job or any(name.startswith(job) or job.startswith(name) for name in held)


def check_site(folder: Path) -> None:
    if not (folder / "site.toml").exists():
        raise SpecError(f"{folder} is not the folder of a site, because it has no site.toml")
