"""What `feddcd federation study` does: starts a study, follows it, cancels it."""

import shlex
import sys
import time
from pathlib import Path

from .._errors import SpecError
from .._files import owner_only, shown
from .._text import printable
from ..data.codebook import FILE as CODEBOOK
from ..federation.folder import STUDY, FederationFolder
from ..federation.machine.programs import POLL_S, Hang, hang_of, is_up
from ..federation.machine.serving import EventTail
from ..federation.machine.studies import OPEN, ahead_of, cancel, state_of, want
from ._habits import as_json, found
from ._study_text import study_text
from ._tables import show_event, show_table
from ._terminal import note, say

CANCEL_S = 90.0  # in which a study that runs ends by itself
NO_BOOK = (
    "note: this federation has the codebook {}, but the job has none. A site refuses a job without "
    "a codebook if its own codebook caps or rounds a column of the job. Write "
    "codebook = 'codebook.toml' into the job"
)


def study_command(
    path: Path,
    name: str,
    job: Path | None,
    follow: bool,
    mode: str = "",
    purpose: str = "",
    wait: float | None = None,
) -> None:
    folder = FederationFolder(path)
    folder.config()
    kept = folder.of_study(name).results / STUDY
    if job is None and not kept.exists():
        raise SpecError("--job is missing; give the job file of the study: --job FILE")
    with owner_only():
        study = want(folder, name, study_text(job or kept, mode, purpose, wait), job=job)
    if job is None:
        say(f"without --job, study '{name}' uses the job file that feddcd kept: {shown(kept)}")
    plan = study.config().plan
    if plan is not None and not plan.codebook and (folder.path / CODEBOOK).exists():
        note(NO_BOOK.format(shown(folder.path / CODEBOOK)))
    found(study=name, folder=study.results, state=state_of(study)["state"])
    if not is_up(folder):
        return say(
            f"study '{name}' starts when `feddcd federation serve` runs. To start `serve`: feddcd "
            f"federation serve {_at(folder)}"
        )
    if not follow:
        return _say_begun(study)
    _tell(followed(study))
    _follow(study)
    state = state_of(study)
    found(state=state["state"], reason=state.get("reason", ""))
    if state["state"] in ("failed", "cancelled"):
        print(printable(f"error: {state['reason']}"), file=sys.stderr)
        sys.exit(1)
    if plan is not None:
        show_table(study)
    else:
        found(model=study.results / "model.npz", report=study.results / "report.html")
        say(f"model: {shown(study.results / 'model.npz')}")
        say(f"report: {shown(study.results / 'report.html')}")


def _say_begun(study: FederationFolder) -> None:
    if lines := behind(study):
        for line in lines:
            say(line)
        return
    say(
        f"the study '{study.study}' begins now. People at the sites may have to approve the study. "
        f"To see who has to decide: feddcd federation status {_at(study)}"
    )


def cancel_command(path: Path, name: str) -> None:
    """Waits until the study has ended, because its sites hear of it first."""
    folder = FederationFolder(path)
    folder.config()
    with owner_only():
        study = cancel(folder, name, is_up(folder))
    until = time.monotonic() + CANCEL_S
    while state_of(study)["state"] in OPEN and time.monotonic() < until:
        time.sleep(POLL_S)
    state = state_of(study)["state"]
    found(study=name, folder=study.results, state=state)
    if state == "cancelled":
        say(f"study '{name}' is cancelled. It has no result, and `serve` does not start it again.")
        say("Answers that the sites have already sent stay in the logs of the sites.")
        say(f"to see which study runs now: feddcd federation status {_at(study)}")
    elif state in OPEN:
        say(
            f"study '{name}' has not ended yet. It ends when `feddcd federation serve` responds. "
            f"To see what to do: feddcd federation status {_at(study)}"
        )
    else:
        say(f"study '{name}' had ended before it could be cancelled ({state})")


def behind(study: FederationFolder) -> list[str]:
    """Which study has its turn first, and how to end that one."""
    if (ahead := ahead_of(study)) is None:
        return []
    end = f"feddcd federation study {_at(study)} {ahead.study} --cancel"
    return [
        f"study '{study.study}' {ahead.words()}. Studies run one after the other",
        f"  to see whom study '{ahead.study}' waits for: feddcd federation status {_at(study)}",
        f"  to end study '{ahead.study}' without a result: {end}",
    ]


def _at(folder: FederationFolder) -> str:
    return shlex.quote(shown(folder.path))


def _follow(study: FederationFolder) -> None:
    """Shows its events until it ends; and why nothing happens: another study is first, nobody
    serves, or who serves does not respond."""
    tail, served, responds, before = EventTail(study, show_event), True, True, list[str]()
    while state_of(study)["state"] in OPEN:
        tail.show()
        if (now := behind(study)) != before:
            before = now
            _tell(now)
        if is_up(study) != served:
            served, responds = not served, True
            _tell(["the port is open again"] if served else unserved(study))
        hang = hang_of(study) if served else None
        if (hang is None) != responds:
            responds = hang is None
            _tell(unresponsive(study, hang) if hang else ["`serve` responds again"])
        time.sleep(POLL_S)
    tail.show()


def _tell(lines: list[str]) -> None:
    for line in lines:
        (note if as_json() else say)(line)


def followed(study: FederationFolder) -> list[str]:
    """People decide for days: who looks on may leave."""
    return [
        f"this command shows the events of study '{study.study}' until the study ends. You can "
        "stop this command with Ctrl-C, or close its terminal: the study continues, as long as "
        "`serve` runs",
        f"  to see the state of the study later: feddcd federation status {_at(study)}",
        "  with the option --no-follow, this command starts a study and does not wait for the end",
    ]


def unresponsive(study: FederationFolder, hang: Hang) -> list[str]:
    return [
        f"the study '{study.study}' has perhaps stopped: {hang.words()}",
        f"  to see what to do: feddcd federation status {_at(study)}",
        "  this command waits until `serve` responds. You can stop this command with Ctrl-C: the "
        "study does not need this command",
    ]


def unserved(study: FederationFolder) -> list[str]:
    return [
        f"study '{study.study}' does not continue, because the command `feddcd federation serve` "
        "was stopped or killed",
        "  nothing is lost. To continue, give this command in another terminal: feddcd federation "
        f"serve {_at(study)}",
        "  this command waits until `serve` runs. You can stop this command with Ctrl-C: the study "
        "does not need this command",
    ]
