"""The server's side of a conversation with the sites: whom it asks, what that costs.

A server is a generator that yields an `Ask` and is sent the answers of those who gave one. So the
same code runs over sites in this process and over a network.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .points import Answers, Model
from .site import Answer, Question

BYTES = 8


class Ask(NamedTuple):
    questions: Mapping[str, Question]


Talk = Generator[Ask, Mapping[str, Answer], Any]


class Log:
    """What the exchanges cost, one row each; `say` adds what became known by the last of them."""

    def __init__(self, limit: int, watch: Callable[[dict[str, Any]], None] = lambda row: None):
        self.limit, self.watch = limit, watch
        self.rows: list[dict[str, Any]] = []
        self.uploads = self.bytes_up = self.bytes_down = self.rounds = 0

    @property
    def exchanges(self) -> int:
        return len(self.rows)

    @property
    def left(self) -> int:
        """Exchanges that may follow; rounds of another method do not count."""
        return self.limit - self.exchanges + self.rounds

    @property
    def over(self) -> bool:
        return self.left <= 0

    def count(self, asked: Ask, said: Answers) -> None:
        up, down = sum(map(_bytes, said.values())), sum(map(_bytes, asked.questions.values()))
        self._add(len(asked.questions), len(said), up, down)

    def trained(self, arrived: Sequence[int], numbers: int) -> None:
        """Rounds of another method, in which so many sites sent so many numbers each."""
        self.rounds += len(arrived)
        for count in map(int, arrived):
            self._add(count, count, count * numbers * BYTES, count * numbers * BYTES)

    def _add(self, asked: int, answered: int, up: int, down: int) -> None:
        self.uploads += answered
        self.bytes_up += up
        self.bytes_down += down
        self.rows.append({
            "exchange": self.exchanges + 1, "asked": asked, "answered": answered,
            "uploads": self.uploads, "bytes_up": self.bytes_up, "bytes_down": self.bytes_down,
            "objective": np.nan, "certified_error": np.inf,
        })  # fmt: skip
        if answered < asked:
            self.watch(self.rows[-1])

    def say(self, objective: float, error: float) -> None:
        self.rows[-1] |= {"objective": objective, "certified_error": error}
        self.watch(self.rows[-1])


def _bytes(message: tuple) -> int:
    parts = [part for part in message if isinstance(part, np.ndarray)]
    nested = [part for part in message if isinstance(part, tuple)]
    return sum(part.size * BYTES for part in parts) + sum(map(_bytes, nested))


def visit(
    model: Model, log: Log, question: Question, seen: Mapping[str, np.ndarray], patient: bool
) -> Generator[Ask, Answers, dict[str, Answer]]:
    """The answers at one point: of all sites, or unless `patient` of whoever answers first."""
    got: dict[str, Answer] = {}
    while not log.over and len(got) < len(model.sites):
        missing = [site for site in model.sites if site not in got]
        asked = Ask({site: question._replace(seen=seen[site]) for site in missing})
        said = yield asked
        log.count(asked, said)
        got |= said
        if got and not patient:
            break
    return got
