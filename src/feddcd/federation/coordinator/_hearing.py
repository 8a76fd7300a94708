"""What the coordinator hears of sites while it asks: answers, silence, refusals, and who waits for
a person. Programs answer soon or not at all; people take days, and are waited for as long.

results/waiting.json    who is waited for, as of the last question, for `status`
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ..._text import printable
from .._next_step import PAUSE
from ..config import Config
from ..folder import WAITED, FederationFolder
from ..site.missing import LOOK_S
from ..site.told import LOOKING, READING, decides, is_waiting
from ..wire import Envelope
from ._checks import refusal_of
from ._ending import check_members
from ._silence import Silences
from .nodes import Nodes

ODD = "the site answered another question than the coordinator asked"
WRITE_S = 1.0


class Patience:
    """How long nobody may answer: `people` seconds while somebody has to decide, `machines`
    seconds otherwise, from the moment on when the last of them has decided."""

    def __init__(self, machines: float, people: float):
        self.machines, self.people = machines, people
        self.waiting: dict[str, str] = {}  # by site: what a person there has to decide about
        self.begin()

    def begin(self) -> None:
        """Of a new question."""
        self.waiting.clear()
        self.moved()

    def moved(self) -> None:
        """An answer came."""
        self._people = self._machines = time.monotonic()

    @property
    def limit(self) -> float:
        return self.people if self.waiting else self.machines

    def late(self) -> bool:
        now = time.monotonic()
        if self.waiting:
            self._machines = now
            return now - self._people > self.people
        return now - self._machines > self.machines

    def until(self) -> float:
        """When it ends, as clocks show it."""
        began = self._people if self.waiting else self._machines
        return time.time() + self.limit - (time.monotonic() - began)


class Without(NamedTuple):
    """Who has no part in a job: by site why it refused; and whose people decided too late."""

    refused: Mapping[str, str] = {}
    late: Sequence[str] = ()


class Hearing:
    def __init__(self, folder: FederationFolder, nodes: Nodes, config: Config):
        self.folder, self.nodes = folder, nodes
        self.patience = Patience(config.patience, config.approvals)
        self.refused: dict[str, str] = {}  # by site: why
        self.waiting: set[str] = set()  # to be asked again, in this exchange
        self.looking: dict[str, float] = {}  # for their data files, since when
        self.reading: dict[str, float] = {}  # their policies, which have a mistake
        self.waited: set[tuple[str, str]] = set()  # in any, and for what
        self.members: set[str] = set()  # when the study began
        self._written: tuple[float, Any] = (0.0, None)
        self._silences = Silences(folder)
        (folder.results / WAITED).unlink(missing_ok=True)  # of before it was stopped

    def replies(
        self, requests: Mapping[str, bytes], kind: str, most: int
    ) -> Iterator[tuple[str, Envelope]]:
        """The answers of this kind, of at most this many bytes; silence and refusals are noted."""
        check_members(self.folder, self.members - self.refused.keys())
        silent, left = [], set(requests)
        for site, envelope in self.nodes.ask(requests, work=True, most=most):
            left.discard(site)
            if envelope is None:
                silent.append(site)
                self._silences.note(site)
                self.nodes.lost(site)  # a person there may still have to decide
                continue
            self._silences.ended(site)
            self._looked(site, envelope)
            if envelope.kind == "refusal":
                self._refused(site, refusal_of(site, envelope))
                if site not in self.refused:  # others may take longer, and nobody answered for them
                    known = {*self.patience.waiting, *self.looking, *self.reading}
                    self._write([*silent, *(left - known)])
            elif envelope.kind != kind or envelope.meta.get("client") != site:
                self.refuse(site, f"{site}: {ODD}")
            else:
                self._decided(site, answered=True)
                yield site, envelope
        self._write(silent)

    def refuse(self, site: str, reason: str) -> None:
        self._decided(site, answered=False)
        if site not in self.refused:
            self.folder.note("refused", site=site, reason=reason)
        self.refused[site] = reason

    def without(self, sites: Collection[str]) -> Without:
        """Why others than these have no part in a job that begins now."""
        late = {site for site, _ in self.waited} - {*sites} - self.refused.keys()
        return Without(dict(self.refused), sorted(late))

    def away(self, sites: Collection[str]) -> dict[str, list[str]]:
        """Who refused nothing and has no part in a job of these sites either."""
        late = self.without(sites).late
        others = {*sites, *self.refused, *late}
        silent = [site for site in self.folder.invited() if site not in others]
        return {"late": [*late], "silent": sorted(silent)}

    def take_up(self, before: Without) -> list[str]:
        """What was heard before the job that goes on now. Who had refused."""
        for site, reason in before.refused.items():
            self.refuse(site, reason)
        self.waited |= {(site, "") for site in before.late}
        return list(before.refused)

    def ask_again(self, sites: Collection[str]) -> None:
        """For another job: a person there may have approved in the meantime."""
        for site in sites:
            self.refused.pop(site, None)

    def _refused(self, site: str, reason: str) -> None:
        if not is_waiting(reason):
            return self.refuse(site, reason)
        self.waiting.add(site)
        if LOOKING in reason or READING in reason:
            self.patience.waiting.pop(site, None)  # whether a person decided there, is not known
            return
        what = decides(reason)
        asked = site in self.patience.waiting  # else of a new question, perhaps in the same words
        self.patience.waiting[site] = printable(what) if what else PAUSE
        if not asked or (site, reason) not in self.waited:  # names first, and then the job
            until = round(self.patience.until(), 3)
            self.folder.note("waiting", reason=reason, site=site, until=until)
        self.waited.add((site, reason))

    def _looked(self, site: str, envelope: Envelope) -> None:
        """When a site begins to look for its data file or its policy, and when it has ended."""
        reason = refusal_of(site, envelope) if envelope.kind == "refusal" else ""
        kinds = (LOOKING, self.looking, "looked"), (READING, self.reading, "read")
        for words, sites, ended in kinds:
            if words in reason and site not in sites:
                sites[site] = time.time()
                self.folder.note("waiting", reason=reason, site=site)
            elif words not in reason and site in sites:
                del sites[site]
                self.folder.note(ended, site=site)

    def _decided(self, site: str, answered: bool) -> None:
        """Nobody is waited for there. Who refuses does not say whether a person did."""
        if (what := self.patience.waiting.pop(site, None)) is not None:
            left, paused = sorted(self.patience.waiting), what == PAUSE
            self.folder.note("decided", site=site, left=left, answered=answered, paused=paused)

    def _write(self, silent: list[str]) -> None:
        """At most every second, or when it changes."""
        people = dict(sorted(self.patience.waiting.items()))
        now, held = time.time(), (people, *map(sorted, (silent, self.looking, self.reading)))
        if held == self._written[1] and now - self._written[0] < WRITE_S:
            return
        self._written = now, held
        told = {"time": round(now, 3), "until": round(self.patience.until(), 3)}
        told |= {"people": people, "silent": held[1], "looking": held[2], "reading": held[3]}
        if broken := [*self.looking.values(), *self.reading.values()]:
            told |= {"soon": round(min(broken) + LOOK_S, 3)}  # after that the site refuses
        self.folder.save(self.folder.results / WAITED, told)
