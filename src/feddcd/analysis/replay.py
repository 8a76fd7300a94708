"""The coordinator's part of an analysis over sums, as everybody can follow it.

A talk is a pure generator: it yields a question, is sent the sums, and yields the next. So every
site and everyone who checks a proof steps the same talk over the same sums, and knows each question
before it is asked. Where the talk begins again with another agreement, so does the replay.
"""

from collections.abc import Iterable
from typing import Any

from .._errors import DataError
from .protocol import ALL, Again, Agreement, Analysis, AnalysisResult, Blocks, Watch
from .registry import scrutiny


class Replay:
    """`expected` is the question that comes next, None at the end, where `result` is known;
    `agreement` is the one that the question is about. Sums of sites elsewhere are checked."""

    def __init__(
        self,
        analysis: Analysis,
        plan: Any,
        agreement: Agreement,
        watch: Watch = lambda row: None,
        *,
        elsewhere: bool = True,
    ):
        self.analysis, self.plan, self.agreement, self.watch = analysis, plan, agreement, watch
        self.elsewhere = elsewhere
        self.exchanges = self.begun = 0
        self.result: AnalysisResult | None = None
        self._begin()

    def _begin(self) -> None:
        self.begun += 1
        self._talk = self.analysis.talk(self.plan, self.agreement, self.watch, summed=True)
        self.expected: Any = next(self._talk)[ALL]
        self._trust = scrutiny(self.plan, self.agreement) if self.elsewhere else None

    def step(self, sums: Blocks) -> None:
        """Raises what the talk raises, as DataError where there is no table of these rows, or no
        rows that could have these sums."""
        self.exchanges += 1
        try:
            if self._trust is not None:
                self._trust.hear(ALL, self.expected, sums)
        except DataError as error:
            told = (
                f"the numbers of one of the sites cannot be true: {error}. The sums do not show "
                "which site this is"
            )
            raise DataError(told) from None
        try:
            self.expected = self._talk.send({ALL: sums})[ALL]
        except Again as again:
            self.agreement = again.cohort
            self._begin()
        except StopIteration as end:
            self.expected, self.result = None, end.value

    def follow(self, each: Iterable[Blocks]) -> "Replay":
        for sums in each:
            self.step(sums)
        return self
