"""One analysis, one file: what is asked of the sites, what they answer, and what is made of it.

At a site `rows` makes the finished columns, which the site's rules look at, and `answer` makes
blocks of them. A block says what is done with it: `Sum` and `Count` are added up over the sites,
of `Max` the largest counts, and `Each` is looked at site by site. The server's part, `talk`, is a
pure generator: it yields the questions of one exchange and is sent the blocks of those sites that
answered. So the same code runs over sites in this process and over a network.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from .._errors import DataError
from ..data.codebook import Codebook

Arrays = Mapping[str, np.ndarray]
ALL = "all"  # stands for all sites, where only sums over them are known
AGREED = "the coordinator's list of sites, columns and levels"
APART = (
    "The coordinator read the sums of each site (mode 'each'). So there is no proof file of this "
    "table that others can check."
)
TWO_SITES = (
    "with only two sites, masks cannot hide the sums of a site: the coordinator of a federation "
    "reads the sums of each site, and there is no proof file. With three or more sites, masks hide "
    "the sums of each site"
)


class Misfit(DataError):
    """A site's data do not fit; the message names columns, and no value."""


@dataclass(frozen=True)
class Sum:
    """Added up over the sites."""

    value: np.ndarray


@dataclass(frozen=True)
class Count:
    """Whole numbers, added up exactly."""

    value: np.ndarray


@dataclass(frozen=True)
class Max:
    """The largest of the sites' counts; each is rounded up to a power of 2^(1/grid)."""

    value: np.ndarray
    grid: int


@dataclass(frozen=True)
class Each:
    """Looked at site by site, so that a sum over the sites is not enough."""

    value: np.ndarray


Block = Sum | Count | Max | Each
Kind = Callable[[np.ndarray], Block]
Blocks = Mapping[str, Block]
Watch = Callable[[dict[str, Any]], None]  # shown what each exchange cost and gave


class Question(Protocol):
    """A NamedTuple of arrays; `reveals` is the kind of what its answer tells."""

    def _asdict(self) -> dict[str, Any]: ...
    @property
    def reveals(self) -> str: ...
    @property
    def parameters(self) -> int: ...


class ColumnsOffer(NamedTuple):
    """What a site has: nothing but names."""

    levels: dict[str, list]  # of its categories
    numbers: list[str]  # its columns of numbers; they may have levels, too
    classes: list | None  # of an outcome of classes, or of words
    columns: list[str] | None = None  # all that explain, in the order of its table


class Offered(NamedTuple):
    """An offer, and the rows behind its names, which stay at the site for its rules and its log."""

    offer: ColumnsOffer
    classes: Mapping[str, int]
    levels: Mapping[str, Mapping[str, int]]


OWN = ("cells", "empty")  # of an agreement: what the coordinator alone needs


class Agreement(NamedTuple):
    """The sites of an analysis, and what they agreed on."""

    levels: dict[str, list]
    classes: Sequence[Any] | None
    names: list[str]  # of the finished columns
    sites: Sequence[str]
    numbers: list[str] | None = None  # columns that are no categories
    outcome: Sequence[Any] | None = None  # of two words: the other, the event
    columns: Sequence[str] = ()  # all that explain
    left_out: Sequence[str] = ()  # finished columns about which the rows say nothing
    cells: Mapping[str, bool] = {}  # columns of categories; of several, where it is True
    empty: Mapping[str, Sequence[Any]] = {}  # by category: declared levels that no row has

    def to_dict(self) -> dict[str, Any]:
        """As the sites get it."""
        plain = lambda value: list(value) if isinstance(value, tuple) else value
        told = {name: value for name, value in self._asdict().items() if name not in OWN}
        return {name: plain(value) for name, value in told.items()}


class Again(Exception):
    """Of a talk: it has to begin again, with another agreement."""

    def __init__(self, cohort: Agreement):
        self.cohort = cohort


class SiteRows(NamedTuple):
    """A site's rows and finished columns, and what its rules ask about them."""

    plan: Any
    data: Any  # as the analysis has it
    n: int
    dropped: int = 0
    columns: tuple[str, ...] = ()  # of the site's table that enter
    classes: Mapping[str, int] = {}
    levels: Mapping[str, Mapping[str, int]] = {}
    least: int = 0  # rows of a cell, below which it is left empty
    cluster: np.ndarray | None = None  # a number for each row's, where clusters lie within sites
    k: int = 0  # rows of which bounds, and changes since the questions before, speak at least
    before: tuple[Any, ...] = ()  # that were answered in the same job
    alone: bool = True  # whether it may say what its rows alone would give
    names: tuple[str, ...] = ()  # of the finished columns
    places: np.ndarray | None = None  # of its rows in the site's table; None: all of them
    grouped: np.ndarray | None = None  # a number for each row: bins are made of such groups


class AnalysisResult(Protocol):
    """A frozen dataclass: what an analysis found. `with_sites` gets the rows that each site
    left out, why sites take no part, and whether a coordinator read each `apart`; `facts` are
    noted where it ends; `write` makes all files and yields each as it is done."""

    @property
    def n_dropped(self) -> int: ...
    @property
    def n_exchanges(self) -> int: ...
    def with_sites(
        self, dropped: Mapping[str, int], refused: Mapping[str, str], apart: bool = ...
    ) -> "AnalysisResult": ...
    def facts(self) -> dict[str, Any]: ...
    def write(self, folder: Path) -> Iterator[Path]: ...


Questions = Mapping[str, Any]  # by site
Replies = Mapping[str, Blocks]
Exchange = Callable[[Questions], Replies]


class Analysis(Protocol):
    """`plan` reads plain values, as a file or a message has them; a plan has `analysis`, the name,
    `codebook` and `levels` by column, both empty where none were agreed, and to_dict(). `part` is
    what a job file and federation.toml call its settings, and `method` what a site's policy allows
    or not. `with_codebook` takes levels and roles from a codebook.

    Before: `columns` says which columns of a site enter, `offer` their kinds and levels, and from
    the sites' offers `agree` makes the agreement and says why some sites do not fit.
    At the site: `rows` makes the finished columns, `guarded` the rows as they are told where no
    number may speak of fewer than k (the same, where other rules see to it), `question` reads a
    message (or Refused), `answer` makes blocks that say what is done with them. For the site's
    rules `columns_of` gives the finished columns by name, `contributions` what each row gives to
    the sums of an answer, as absolute values, n by m, and `definite` whether the matrices of a
    question are what they ought to be.
    At the coordinator: `blocks` checks what arrived (or DataError), `talk` asks and concludes.
    Where only sums are known (`summed`) a talk asks ALL, and is sent the sums as its blocks; those
    of kind `Each` come back empty. Then every site follows the same talk: `agreement` reads what
    was agreed, believing nothing that can be worked out, `stand_in` makes an invented row: its
    answer has the shape of all, and `matches` says why a question is not the one that was expected.
    """

    @property
    def name(self) -> str: ...
    @property
    def part(self) -> str: ...
    @property
    def proven(self) -> str: ...  # the file that has to follow from a proof
    @property
    def method(self) -> str: ...
    def plan(self, values: Any) -> Any: ...
    def with_codebook(self, plan: Any, book: Codebook) -> Any: ...
    def columns(self, plan: Any, names: Sequence[str]) -> tuple[str, ...]: ...
    def offer(self, table: Any, plan: Any) -> Offered: ...
    def agree(
        self, offers: Mapping[str, ColumnsOffer], plan: Any
    ) -> tuple[Agreement, dict[str, str]]: ...
    def rows(self, table: Any, plan: Any, cohort: Agreement, site: str) -> SiteRows: ...
    def guarded(self, rows: SiteRows, k: int) -> SiteRows: ...
    def question(self, arrays: Arrays, rows: SiteRows) -> Question: ...
    def answer(self, rows: SiteRows, question: Any) -> Blocks: ...
    def columns_of(self, rows: SiteRows) -> Mapping[str, np.ndarray]: ...
    def contributions(self, rows: SiteRows, question: Any) -> Iterator[tuple[str, np.ndarray]]: ...
    def definite(self, question: Any) -> bool: ...
    def blocks(self, arrays: Arrays, plan: Any, cohort: Agreement) -> Blocks: ...
    def talk(
        self, plan: Any, cohort: Agreement, watch: Watch = ..., *, summed: bool = ...
    ) -> Generator[Questions, Replies, AnalysisResult]: ...
    def agreement(self, values: Any, plan: Any) -> Agreement: ...
    def stand_in(self, plan: Any, cohort: Agreement) -> SiteRows: ...
    def matches(self, own: Any, asked: Any) -> str: ...


class Scrutiny(Protocol):
    """What sites said in one talk; a DataError where an answer cannot be true beside it. `site` may
    stand for all of them together, of which only the sums are known."""

    def hear(self, site: str, asked: Any, blocks: Blocks) -> None: ...


def converse(talk: Generator[Questions, Replies, Any], exchange: Exchange) -> Any:
    """To the end of the talk: `exchange` puts questions to sites and gives the answers it got."""
    questions = next(talk)
    while True:
        answers = exchange(questions)
        try:
            questions = talk.send(answers)
        except StopIteration as end:
            return end.value


def in_process(
    analysis: Analysis, sites: Mapping[str, SiteRows], absent: float = 0.0, seed: int = 0
) -> Exchange:
    """Sites in this process, a share of them absent at random from each exchange."""
    exchange = -1

    def ask(questions: Questions) -> Replies:
        nonlocal exchange
        exchange += 1
        draw = np.random.default_rng([seed, exchange]).random(len(sites))
        there = {site for site, x in zip(sites, draw, strict=True) if x >= absent}
        return {
            site: analysis.answer(sites[site], question)
            for site, question in questions.items()
            if site in there
        }

    return ask


def arrays(parts: Question | Blocks) -> dict[str, np.ndarray]:
    """A question, or the blocks of an answer, as they travel: arrays by name."""
    if isinstance(parts, Mapping):
        return {name: block.value for name, block in parts.items()}
    return {name: np.asarray(value) for name, value in parts._asdict().items()}


def counts(values: Any) -> dict[str, int]:
    """How many rows of a column, a pandas Series, hold each value."""
    return {str(k): int(v) for k, v in values.value_counts().items()}


def tag(given: Arrays, kinds: Mapping[str, Kind], sizes: Mapping[str, int]) -> dict[str, Block]:
    """Arrays as blocks: of known names, right sizes and finite, but for bounds (`Max`)."""
    for name, size in sizes.items():
        if given[name].size != size or given[name].dtype != np.float64:
            raise DataError(f"{name} has a wrong shape or type")
    blocks = {name: kinds[name](array) for name, array in given.items()}
    for name, block in blocks.items():
        bounded = np.isfinite(block.value) | (isinstance(block, Max) & np.isinf(block.value))
        if not bounded.all():
            raise DataError(f"{name} has a value that is not finite")
    return blocks
