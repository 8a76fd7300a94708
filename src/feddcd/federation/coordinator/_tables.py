"""The coordinator's part of an analysis: the result over all sites' rows, from their blocks.

Where answers are summed (`_masked`) nothing is known of a site, and the coordinator goes on where
it was killed. Where each site is read by itself, sites remember nothing between two questions and
the coordinator begins again. A site that refuses is named, and the result is that of the others.
"""

import shutil
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from typing import Any

import numpy as np

from ..._errors import FeddcdError, Refused, Stalled
from ..._origin import with_origin
from ...analysis.families import SHARES
from ...analysis.protocol import (
    ALL,
    Again,
    Agreement,
    AnalysisResult,
    Blocks,
    ColumnsOffer,
    Questions,
    Replies,
    Scrutiny,
    arrays,
    converse,
)
from ...analysis.registry import ANALYSES, scrutiny
from ...sums.roster import FEWEST
from .. import wire
from .._next_step import start_again
from ..config import Config
from ..folder import FederationFolder, about_data, about_of
from ..roster import ROSTER
from ..wire import Envelope
from ._checks import check_count, in_one_line
from ._ending import EACH, Withdrawn, broken_off, left_over, tell_done, tell_earlier, too_few
from ._hearing import Hearing
from ._masked import PROOF, MaskedRun, begin, unfinished
from ._offers import absent, check_spellings, lone_levels, odd_words, read_columns
from ._rosters import settle_roster
from ._sharing import share, share_earlier
from .nodes import Nodes, greet, unanswered
from .repeats import check_repeat

PAUSE_S = 1.0
SMALL = 1 << 24  # bytes of an answer beside matrices
READ = "the coordinator reads the answers of each site, so there is no proof file of this table"


class AnalysisRun:
    def __init__(self, folder: FederationFolder, nodes: Nodes, config: Config, plan: Any):
        self.folder, self.nodes, self.config, self.plan = folder, nodes, config, plan
        self.analysis = ANALYSES[plan.analysis]
        self.hearing = Hearing(folder, nodes, config)
        self.refused, self.patience = self.hearing.refused, self.hearing.patience
        self._replies, self._refuse = self.hearing.replies, self.hearing.refuse
        self.dropped, self.lone = dict[str, int](), ""

    def run(self) -> AnalysisResult:
        self._check_ahead(self.folder.invited())
        greet(self.folder, self.nodes, self.config)
        self.hearing.members = set(self.folder.invited())
        share_earlier(self.folder, self.nodes)  # a site that hears the end looks for its table
        tell_earlier(self.folder, self.nodes)
        settle_roster(self.folder, self._signatures, self.refused, self.patience)
        kept = unfinished(self.folder, self.plan, self._ask_all, self.patience)
        if kept is not None:
            self.folder.note("goes on", job=kept.job.short)
            before = self.hearing.take_up(kept.folder.without())
            with suppress(Withdrawn):
                return self._finish_sums(kept)
            self.hearing.ask_again(before)
        offers = self._offers()
        while True:
            kept = self._kept(offers)
            cohort, misfits = self.analysis.agree(kept, self.plan)
            for site, reason in misfits.items():
                self._refuse(site, reason)
            if len(cohort.sites) < self.config.fewest:
                told = f"a table needs {self.config.fewest} sites with columns that fit together"
                told = f"{told}, but the number of sites that can take part is"
                again = start_again(self.folder)
                raise too_few(f"{told} {len(cohort.sites)}", self.refused, again=again)
            try:
                if self._mode(cohort.sites) == "sum":
                    return self._summed(cohort)
                self.folder.note("each", reason=READ)
                return self._finish(*self._settled(cohort, kept))
            except Withdrawn:
                continue

    def _check_ahead(self, sites: Collection[str]) -> None:
        """Whether these sites can have a result, before anybody at a site has to decide."""
        if self._mode(sites) == "sum" and not self.config.repeat_without:
            check_repeat(self.folder, self.plan, sites, self.refused)

    def _signatures(self, requests: Mapping[str, bytes]) -> Iterator[tuple[str, Envelope]]:
        """Of those who are here; who came meanwhile is greeted."""
        self.nodes.call(lambda: True)
        here = {site: data for site, data in requests.items() if site in self.nodes.here()}
        yield from self._replies(here, "roster", SMALL)

    def _kept(self, offers: Mapping[str, ColumnsOffer]) -> dict[str, ColumnsOffer]:
        """Of sites that were not refused; one with another outcome than most is."""
        left = lambda: {s: offers[s] for s in sorted(offers) if s not in self.refused}
        if getattr(self.plan, "family", "") in SHARES:
            for site, reason in odd_words(left()).items():
                self._refuse(site, reason)
        check_spellings(left())
        self.lone = lone_levels(left())
        return left()

    def _mode(self, sites: Collection[str]) -> str:
        """Sums where nothing is said. Where sites of a roster went and left too few of them, nobody
        is read by itself unless who asked for the table says so."""
        said = getattr(self.plan, "answers", None)
        never = not (self.folder.server / ROSTER).exists()  # two sites from the beginning
        if said == "each" or never or (not said and getattr(self.plan, "needs_each", "")):
            return said or "each"
        if len(sites) < FEWEST:
            # where a site refused, its people are asked first: they decide, or have to mend it
            more = "" if said or self.refused or len(sites) < self.config.fewest else EACH
            again = start_again(self.folder)
            raise too_few(left_over(sites), self.refused, more, again=again)
        return "sum"

    def _summed(self, cohort: Agreement) -> AnalysisResult:
        self._check_ahead(cohort.sites)
        without = self.hearing.without(cohort.sites)
        run = begin(self.folder, self.plan, cohort, self._ask_all, self.patience, without)
        sites, gone = list(run.job.cohort), sorted(self.refused)
        away = self.hearing.away(sites)
        self.folder.note("job", job=run.job.short, sites=sites, without=gone, **away)
        return self._finish_sums(run)

    def _finish_sums(self, run: MaskedRun) -> AnalysisResult:
        """Who refuses before anything was answered is left out, in a job without it; after that
        the job ends by its name."""
        try:
            result = run.run(self._note)
        except Withdrawn:
            run.folder.close()
            gone = [self.refused[site] for site in run.job.cohort if site in self.refused]
            few = len(run.job.cohort) - len(gone) < FEWEST
            if few or (run.exchanges and not getattr(self.plan, "go_on_without", False)):
                left = [site for site in run.job.cohort if site not in self.refused]
                all_ = dict(self.refused)  # with who was left out before: then too few are left
                sites = all_ if few else {site: why for site, why in all_.items() if why in gone}
                told = run.job.short, self.lone, start_again(self.folder)
                raise broken_off(left, sites, self.plan, *told) from None
            raise
        except FeddcdError as error:
            if not isinstance(error, Stalled):
                run.folder.close()
            raise
        shutil.copy(run.folder.path / PROOF, self.folder.results / PROOF)
        # closed when all is told: who is killed before that goes on with the same job
        return self._write(result, {ALL: result.n_dropped}, run.job.cohort, False, run.folder.close)

    def _ask_all(
        self, requests: Mapping[str, bytes], kind: str, most: int = SMALL
    ) -> Iterator[tuple[str, Envelope]]:
        """Of a cohort that is all or nothing, as they come: who refuses ends it."""
        self.hearing.waiting.clear()
        left = set(requests)
        for site, reply in self._replies(requests, kind, most):
            left.discard(site)
            yield site, reply
        if self.refused.keys() & set(requests):
            raise Withdrawn
        if left:
            time.sleep(PAUSE_S)
            self.nodes.call(lambda: True)

    def _settled(
        self, cohort: Agreement, offers: Mapping[str, ColumnsOffer]
    ) -> tuple[Agreement, Any]:
        """The result, and the agreement that it holds for."""
        while True:
            try:
                return cohort, self._converse(cohort, offers)
            except Again as again:
                cohort = again.cohort
                levels = {name: list(map(str, found)) for name, found in cohort.empty.items()}
                self.folder.note("left out", columns=list(cohort.left_out), levels=levels)

    def _converse(self, cohort: Agreement, offers: Mapping[str, ColumnsOffer]) -> Any:
        trust = scrutiny(self.plan, cohort, offers)
        self.patience.begin()

        def exchange(questions: Questions) -> Replies:
            requests = {
                site: self._pack("sums", cohort, arrays(question))
                for site, question in questions.items()
            }
            size = max(question.parameters for question in questions.values())
            replies = dict(self._approved(requests, SMALL + 64 * size * (size + 1)))
            answers = {
                site: self._blocks(site, reply, cohort, questions[site], trust)
                for site, reply in replies.items()
            }
            if self.refused.keys() & set(cohort.sites):
                raise Withdrawn
            if answers:
                self.patience.moved()
            if self.patience.late():
                raise unanswered(self.patience.limit, requests)
            if len(answers) < len(requests):
                time.sleep(PAUSE_S)
                self.nodes.call(lambda: True)
            return {site: blocks for site, blocks in answers.items() if blocks is not None}

        return converse(self.analysis.talk(self.plan, cohort, self._note), exchange)

    def _finish(self, cohort: Agreement, result: AnalysisResult) -> AnalysisResult:
        dropped = {site: self.dropped.get(site, 0) for site in cohort.sites}
        (self.folder.results / PROOF).unlink(missing_ok=True)  # that of an earlier table
        return self._write(result, dropped, cohort.sites, apart=True)

    def _write(
        self, result: Any, dropped: Any, sites: Any, apart: bool = False, close: Any = bool
    ) -> AnalysisResult:
        gone = self.refused | absent(
            self.folder.invited(), sites, self.refused, self.hearing.waited
        )
        result = result.with_sites(dropped, in_one_line(gone), apart)
        with with_origin(data=about_data(self.folder, sites)):
            list(result.write(self.folder.results / self.analysis.part))
        share(self.folder, self.nodes, self.folder.results / self.analysis.part, sites)
        tell_done(self.folder, self.nodes)
        close()
        self.folder.note(
            "finished", committed=result.n_exchanges, unsettled=[], messages=dict(self.nodes.sent),
            **result.facts(), sites=list(sites), refused=sorted(self.refused),
        )  # fmt: skip
        return result

    def _approved(self, requests: Mapping[str, bytes], most: int) -> Iterator[tuple[str, Envelope]]:
        """Replies that wait for an administrator are asked for again, as long as patience lasts."""
        until = time.monotonic() + self.patience.people
        while requests:
            self.hearing.waiting.clear()
            yield from self._replies(requests, "sums", most)
            requests = {site: requests[site] for site in self.hearing.waiting}
            if requests and time.monotonic() > until:
                raise unanswered(self.patience.people, requests)
            time.sleep(PAUSE_S if requests else 0)

    def _offers(self) -> dict[str, ColumnsOffer]:
        """Of all who answered the greeting, as long as patience lasts."""
        wanted, offers = sorted(self.nodes.here()), {}
        self._check_ahead(wanted)
        self.patience.begin()
        while True:
            self.hearing.waiting.clear()
            left = [site for site in wanted if site not in offers and site not in self.refused]
            requests = {site: self._pack("columns", None, {}) for site in left}
            for site, envelope in self._replies(requests, "columns", SMALL):
                try:
                    offers[site] = read_columns(envelope.meta)
                except Refused as reason:
                    self._refuse(site, f"{site}: {reason}")
            self._mode([site for site in wanted if site not in self.refused])  # or it ends now
            late = self.patience.late()
            if late and self.hearing.waiting and len(offers) < max(FEWEST, self.config.fewest):
                away = sorted(self.hearing.waiting)
                raise unanswered(self.patience.limit, away)  # others are too few
            if late or set(wanted) <= set(offers) | self.refused.keys():
                return offers
            time.sleep(PAUSE_S)
            self.nodes.call(lambda: True)

    def _blocks(
        self, site: str, reply: Envelope, cohort: Agreement, asked: Any, trust: Scrutiny | None
    ) -> Blocks | None:
        try:
            self.dropped[site] = check_count(reply.meta["dropped"], "its number of left-out rows")
            blocks = self.analysis.blocks(reply.arrays, self.plan, cohort)
            if trust is not None:
                trust.hear(site, asked, blocks)
            return blocks
        except (FeddcdError, ArithmeticError, KeyError, TypeError, ValueError) as error:
            told = f"{site}: the coordinator cannot use the answer of this site: {error}"
            self._refuse(site, told)
            return None

    def _pack(self, kind: str, cohort: Agreement | None, given: dict[str, np.ndarray]) -> bytes:
        meta: dict[str, Any] = {"plan": self.plan.to_dict(), **about_of(self.folder).meta()}
        if cohort is not None:
            meta["agreed"] = cohort.to_dict()
        return wire.pack_message(Envelope(kind, meta, given))

    def _note(self, row: dict[str, Any]) -> None:
        self.folder.note("exchange", **{k: v if np.isfinite(v) else None for k, v in row.items()})
