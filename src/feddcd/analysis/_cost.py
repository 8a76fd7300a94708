"""What exchanges cost, and which method is quickest over a given line.

    seconds = exchanges x latency + bytes / bandwidth

Newton sends p²/2 numbers a site and exchange and needs about six exchanges, more when sites are
missing; Point-SAGA sends p numbers and needs about (N + sqrt(N κ)) ln(1/ε) uploads, κ being the
ratio of the largest curvature and the smallest at the pilot's point. Both send two Hessians a site
in any case: for the pilot, and for the standard errors.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd

from .._errors import SpecError
from .._text import plural
from ._model import Model
from ._points import Answers
from ._sums import Answer, PointQuestion, read_answer
from .protocol import Blocks, Watch

R = TypeVar("R")
Talk = Generator[Mapping[str, PointQuestion], Mapping[str, Blocks], R]

BYTES = 8
MASKED = 4  # words of a masked number
EXCHANGES = 6
ACCURACY = 1e-8  # of the objective, for a hundredth of a standard error


class LineCost(NamedTuple):
    latency: float = 0.1  # seconds an exchange
    bandwidth: float = 1e7  # bytes a second, of the server's line

    def seconds(self, exchanges: Any, moved: Any) -> Any:
        return exchanges * self.latency + moved / self.bandwidth


class Choice(NamedTuple):
    method: str
    reason: str
    predictions: pd.DataFrame


SHOWN = {
    "newton": "all sites answer in each exchange, and the Hessian is small",
    "newton, remembered": "if a site is absent, the fit can use the last Hessian of this site",
    "pointsaga": "many small rounds take less time than a few exchanges with Hessians",
}


def choose(
    model: Model, H: np.ndarray, line: LineCost, absent: float, asked: str, saga: bool
) -> Choice:
    """The quickest by its prediction, or the one that is asked for; H is the pilot's Hessian, in
    units of D."""
    table = predictions(model, H, line, absent)
    if asked == "pointsaga" and not saga:
        raise SpecError(
            "algorithm='pointsaga' works in simulation only; in a federation use algorithm='newton'"
        )
    if asked == "pointsaga":
        return Choice(asked, "asked for", table)
    kept = [name for name in table.index if name != "pointsaga" or (asked == "auto" and saga)]
    best = str(table.loc[kept, "seconds"].idxmin())
    row = table.loc[best]
    words = "all sites answer, and the Hessian is small" if absent == 0 else SHOWN["newton"]
    words = words if best == "newton" else SHOWN[best]
    alone = (model.summed or len(model.sites)) == 1  # no line, and nobody who could be absent
    if alone and best == "newton" and absent == 0:
        return Choice(best, "the Hessian is small", table)
    exchanges = plural(round(row.exchanges), "exchange")
    reason = f"{words}; estimate before the fit: about {exchanges}, {row.seconds:.1f} s"
    return Choice(best, reason, table)


def predictions(model: Model, H: np.ndarray, line: LineCost, absent: float) -> pd.DataFrame:
    N, p = model.summed or len(model.sites), model.p
    hessian, points = p * (p + 1) / 2, 2 if model.quadratic else EXCHANGES
    again = 1.0 if absent == 0 else 1 + np.log(N) / -np.log(absent)  # until all have answered
    each = N * 2 * (hessian + 4 * p)
    rows = {"newton": (points * again, points * each)}
    if absent > 0:  # the first point and the last wait for all
        between = points - 2
        moved = 2 + between * (1 - absent)
        rows["newton, remembered"] = (between + 2 * again, moved * each)
    values = np.linalg.eigvalsh(H)
    kappa = float(values[-1] / max(values[0], 1e-9 * values[-1]))
    uploads = (N + np.sqrt(N * kappa)) * np.log(1 / ACCURACY)
    rounds = uploads / max(N * (1 - absent), 1.0)
    rows["pointsaga"] = (1 + rounds + again, 2 * each + uploads * 2 * p)
    table = pd.DataFrame.from_dict(rows, orient="index", columns=["exchanges", "bytes"])
    table["bytes"] *= BYTES
    table["seconds"] = line.seconds(table["exchanges"], table["bytes"])
    return table.rename_axis("method")


class Log:
    """What the exchanges cost, one row each; `say` adds what became known by the last of them."""

    def __init__(self, limit: int, watch: Watch = lambda row: None, summed: int = 0):
        self.limit, self.watch, self.summed = limit, watch, summed
        self.rows: list[dict[str, Any]] = []
        self.uploads = self.bytes_up = self.bytes_before = self.bytes_down = self.rounds = 0
        self.reserve = 0  # exchanges that are kept for what follows

    @property
    def exchanges(self) -> int:
        return len(self.rows)

    @property
    def left(self) -> int:
        """Exchanges that may follow; rounds of another method do not count."""
        return self.limit - self.reserve - self.exchanges + self.rounds

    @property
    def over(self) -> bool:
        return self.left <= 0

    def count(self, asked: Mapping[str, PointQuestion], answers: Answers) -> None:
        up, down = (sum(map(_bytes, part.values())) for part in (answers, asked))
        if self.summed:  # masked numbers are longer, and all of them go back to every site
            up, before = self.summed * MASKED * up, self.bytes_up - self.bytes_before
            self.bytes_before = self.bytes_up
            return self._add(self.summed, self.summed, up, self.summed * (down + before))
        self._add(len(asked), len(answers), up, down)

    def trained(self, arrived: Sequence[int], numbers: int) -> None:
        """Rounds of another method: how many sites answered, and how many numbers each sent."""
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

    def history(self, line: LineCost) -> pd.DataFrame:
        """With the seconds that they need over this line."""
        history = pd.DataFrame(self.rows)
        moved = history["bytes_up"] + history["bytes_down"]
        return history.assign(seconds=line.seconds(history["exchange"], moved))


def counted(answers: str) -> str:
    """What the bytes of a simulated fit stand for."""
    return "with masks" if answers == "sum" else "without masks"


def with_masks(history: pd.DataFrame, sites: int) -> tuple[float, float]:
    """The bytes from all sites, and to them, of the same exchanges under masks, as `Log` counts
    them; `history` is of a fit without masks in which every site answered every exchange."""
    up, down = history["bytes_up"].to_numpy(float), history["bytes_down"].to_numpy(float)
    before = up[-2] if len(up) > 1 else 0.0  # all of them but the last go back to every site
    return float(MASKED * up[-1]), float(MASKED * sites * before + down[-1])


def _bytes(message: tuple) -> int:
    parts = [part for part in message if isinstance(part, np.ndarray)]
    nested = [part for part in message if isinstance(part, tuple)]
    return sum(part.size * BYTES for part in parts) + sum(map(_bytes, nested))


def visit(
    model: Model,
    log: Log,
    question: PointQuestion,
    seen: Mapping[str, np.ndarray],
    patient: bool,
    enough: Callable[[Answers], bool] = lambda got: True,
) -> Talk[dict[str, Answer]]:
    """The answers at one point: of all sites, or unless `patient` until they are `enough`."""
    got: dict[str, Answer] = {}
    while not log.over and len(got) < len(model.sites):
        missing = [site for site in model.sites if site not in got]
        asked = {site: question._replace(seen=seen[site]) for site in missing}
        replies = yield asked
        answers = {site: read_answer(blocks) for site, blocks in replies.items()}
        log.count(asked, answers)
        got |= answers
        if 0 < len(got) < len(model.sites) and not patient and enough(got):
            break
    return got
