"""What `feddcd federation simulate` does: coordinator and sites in one process, for a trial."""

import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from .._errors import FeddcdError, SpecError
from .._files import owner_only, shown
from .._text import listed, spoken
from ..federation.coordinator.coordinator import coordinate
from ..federation.coordinator.nodes import LocalExchange
from ..federation.folder import FederationFolder, load_places
from ..federation.machine.programs import Event
from ..federation.machine.studies import note_state, want
from ..federation.site.approval import about_waiting, waiting
from ..federation.site.policy import FILE as POLICY
from ..federation.site.policy import LOOSE, load_policy
from ..federation.site.template import SAID as LOOSE_SAID
from ..federation.site.template import is_loose
from ..federation.trial import note_trial
from ._certain import warn_certain
from ._federation import show_events, show_training
from ._habits import as_json
from ._site import decision_lines
from ._study_text import study_text
from ._tables import show_table
from ._terminal import note, say

EARLIER = (
    "feddcd checked this job without a look at earlier jobs. A site can also refuse a job because "
    "of earlier jobs"
)


class Trial(NamedTuple):
    """How messages travel, and how the run is made."""

    rounds: int = 0
    loss: float = 0.0
    seed: int = 0
    show: bool = False  # a person is asked before anything leaves
    mode: str = ""


def simulate_command(path: Path, trial: Trial, job: Path | None = None, study: str = "") -> None:
    if not 0 <= trial.loss < 1:
        raise SpecError(
            "--loss, the share of lost questions and answers, must be at least 0 and below 1; got "
            f"{trial.loss}"
        )
    if study and job is None:
        raise SpecError("--study gives a name to the study of a job, so give --job FILE, too")
    folder = FederationFolder(path)
    folder.config()
    places = load_places(folder)
    loose = [place.client for place in places if is_loose(place.folder / POLICY)]
    if loose:
        whose = "each site" if len(loose) == len(places) else listed(loose)
        say(f"policy.toml of {whose} {LOOSE_SAID}")
    ask = input if trial.show else None
    exchange = LocalExchange(places, loss=trial.loss, seed=trial.seed, ask=ask)
    if job is not None:
        with owner_only():
            text = study_text(job, trial.mode, "")
            folder = want(folder, study or _named(job), text, trial=True, job=job)
        careful = any(load_policy(place.folder / POLICY) != LOOSE for place in places)
        if careful and folder.config().plan is not None:
            warn_certain(folder, EARLIER)
    config = folder.config()
    given = {"folder": str(folder.path), "rounds": trial.rounds, "mode": trial.mode}
    seen = WaitingSites(folder, config.approvals)
    again = f"feddcd federation simulate {shlex.quote(shown(folder.path))}"
    same = f"{again} --job {shlex.quote(str(job))} --study {folder.study}" if job else again
    _note(folder, "running")
    note_trial(folder, "running", same)
    with (
        show_events(config, trial.rounds, "feddcd asks which sites can take part") as watch,
        owner_only(),
    ):
        try:
            coordinate(exchange, given | {"study": folder.study}, seen.watching(watch))
        except (FeddcdError, KeyboardInterrupt) as error:
            _note(folder, "failed", str(error) or "stopped")
            note_trial(folder, "failed", same, str(error) or "stopped")
            raise
    _note(folder, "done")
    note_trial(folder, "done", same)
    if config.plan is None:
        return show_training(folder)
    show_table(folder)
    (note if as_json() else say)(f"to run another job over the same sites: {again} --job FILE")


def _note(folder: FederationFolder, state: str, reason: str = "") -> None:
    """So that nobody who opens the port runs this study again."""
    if folder.study:
        note_state(folder, state, **({"reason": reason} if reason else {}))


def _named(job: Path) -> str:
    """A study is called as its job's file; `job.toml` as the folder that holds it."""
    file = job.resolve()
    name = file.parent.name if file.stem == "job" else file.stem
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name).strip("-") or "job"


class WaitingSites:
    """All sites are on this machine, so what waits at each can be said, with the commands."""

    def __init__(self, folder: FederationFolder, patience: float):
        self.folder, self.patience = folder, patience
        self.shown: set[tuple[str, str]] = set()

    def watching(self, watch: Callable[[Event], None]) -> Callable[[Event], None]:
        def heard(event: Event) -> None:
            if event["event"] != "waiting" or not self.show():
                watch(event)

        return heard

    def show(self) -> bool:
        """Each thing once; whether anything is new."""
        tell, first = note if as_json() else say, not self.shown
        places = [(name, self.folder.site(name)) for name in self.folder.invited()]
        new = [
            (site, id)
            for site, place in places
            for id in waiting(place)
            if (site, id) not in self.shown
        ]
        for site, id in new:
            place = Path(shown(self.folder.site(site)))
            what = about_waiting(self.folder.site(site), id)[1]
            tell(f"the site {site!r} waits: a person has to decide about {what}")
            tell(f"  read: feddcd federation approve {shlex.quote(str(place))}")
            for line in decision_lines(place, id):
                tell(line)
        self.shown.update(new)
        if new and first:
            tell(
                "Give these commands in another terminal. The simulation waits here for at most "
                f"{spoken(self.patience)}, and continues by itself after the decisions. You can "
                "also stop the simulation (Ctrl-C), decide, and start it again."
            )
        return bool(new)
