"""What `feddcd federation serve` and `study` do."""

import shlex
import sys
import time
from pathlib import Path
from typing import Any

import tomli_w

from .._errors import SpecError
from .._files import owner_only, shown
from .._settings import read_toml
from .._text import printable
from ..federation.folder import FederationFolder
from ..federation.machine.programs import POLL_S, is_up
from ..federation.machine.serving import EventTail, serve, state_of, want
from ._federation import terminable
from ._tables import load_job, show_event, show_table
from ._terminal import say

ENDS = ("done", "failed")


def serve_command(path: Path) -> None:
    folder = FederationFolder(path)
    folder.config()
    again = shlex.quote(shown(folder.path))

    def watch(event: dict[str, Any]) -> None:
        match event["event"]:
            case "serving":
                say(f"open at {event['address']}; stop it with Ctrl-C")
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


def study_command(path: Path, name: str, job: Path, follow: bool) -> None:
    folder = FederationFolder(path)
    folder.config()
    with owner_only():
        study = want(folder, name, _text(job))
    if not is_up(folder):
        again = shlex.quote(shown(folder.path))
        return say(f"it runs as soon as the port is open: feddcd federation serve {again}")
    tail = EventTail(study, show_event)
    while follow and state_of(study)["state"] not in ENDS:
        tail.show()
        time.sleep(POLL_S)
    if not follow:
        return
    state = state_of(study)
    if state["state"] == "failed":
        print(printable(f"error: {state['reason']}"), file=sys.stderr)
        sys.exit(1)
    if study.config().plan is not None:
        show_table(study)
    else:
        say(f"model: {shown(study.results / 'model.npz')}")


def _text(job: Path) -> str:
    """Of a table with its codebook inside, as it goes to the sites; of a training as it is."""
    from ..analysis.registry import ANALYSES, parts

    values = read_toml(job, "; `feddcd glm` writes one, job.toml")
    if not any(name in values for name in parts()):
        return tomli_w.dumps(values)
    plan = load_job(job)
    part = ANALYSES[plan.analysis].part
    rest = {name: value for name, value in values.items() if name != part}
    if any(name in parts() for name in rest):
        raise SpecError(f"{job}: one analysis at a time")
    return tomli_w.dumps(rest | {part: plan.to_dict()})
