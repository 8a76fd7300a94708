"""The rows of the paper's tables: which belong together, which is best, and their cells of text.

A block is the rows of one problem, for files, terminal and page.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .._text import NONE, count, percent, scientific, sentence_list, trim
from ..report.methods import title
from ..report.tables import Bold, Group
from . import cells
from .cells import PROBLEMS

Row = Mapping[str, Any]
DATA = {"mnist": "MNIST", "rcv1": "RCV1", "rcv1-subset": "RCV1 subset", "digits": "Digits"}
OTHER = {"rcv1-subset": "RCV1"}  # what stands in for the paper's data
BEST_SEEN = {name: kind.reference for name, kind in PROBLEMS.items() if kind.reference}
TITLE = "The paper’s experiments, run again"
FIGURES = {
    "figure1": "Figure 1: primal and dual methods",
    "figure1-uploads": "Figure 1 by vectors sent",
    "figure3": "Figure 3: two classes per client",
    "figure3-uploads": "Figure 3 by vectors sent",
}
COHORTS = (
    "AccFedDCD asks two cohorts in each iteration. The paper’s figures and tables count "
    "one iteration as one round. Our numbers of vectors include both cohorts."
)
SCAFFOLD = (
    "Our SCAFFOLD updates its control variates. The authors’ code never updates the control "
    "variates for softmax, so the authors’ results of SCAFFOLD are results of FedAvg."
)
TABLE2 = (
    "Each number says after how many rounds the gap to the optimum is at most ε. The numbers "
    "are medians over the seeds. If the seeds gave different numbers, the smallest and the largest "
    "number stand in brackets. “>100” means that 100 rounds were not enough; “>500” means the same "
    "of 500 rounds. The smallest medians are bold."
)
VECTORS = {"scaffold": 2}  # in an upload, where it is not one
COUNTED = "vectors: the number of vectors that the clients sent in these rounds."
TWO_VECTORS = "SCAFFOLD sends two vectors in each upload, and the other methods one."
TWO_COHORTS = "AccFedDCD asks two cohorts in each round of this table, and the other methods one."
TABLE3 = (
    "The test accuracy when each client has rows of only two classes. The table has the best "
    "accuracy of all rounds, as in the paper, and the accuracy after the last round. The numbers "
    "are medians over the seeds. If the seeds gave different numbers, the smallest and the largest "
    "number stand in brackets."
)


def together(rows: Sequence[Row], *keys: str) -> list[list[Row]]:
    """The rows that agree in these keys, in the order of their first."""
    groups: dict[tuple, list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[key] for key in keys), []).append(row)
    return list(groups.values())


def problem_title(problem: str, data: str) -> str:
    model = problem.rpartition("-")[2]
    return f"{DATA.get(data, data)}, {'MLP' if model == 'mlp' else model}"


def title_of(rows: Sequence[Row]) -> str:
    return problem_title(rows[0]["problem"], rows[0]["data"])


def name_of(row: Row) -> str:
    return title(row["algorithm"])


def or_nan(value: float | None) -> float:
    return math.nan if value is None else value


def median(values: Iterable[float | None]) -> float | None:
    """Of all seeds, those without a value last; None where the median one has none."""
    ranked = [float(x) if math.isfinite(x) else math.inf for x in map(or_nan, values)]
    middle = statistics.median(ranked) if ranked else math.inf
    return middle if math.isfinite(middle) else None


def fewest(rows: Sequence[Row], key: str) -> list[str]:
    """The methods with the smallest value; none if no method got there."""
    values = [row[key] for row in rows if row[key] is not None]
    return [name_of(row) for row in rows if values and row[key] == min(values)]


def most_accurate(rows: Sequence[Row]) -> list[str]:
    values = [or_nan(row["median"]) for row in rows]
    best = max((x for x in values if math.isfinite(x)), default=None)
    return [name_of(row) for row, x in zip(rows, values, strict=True) if x == best]


def with_vectors(rows: Sequence[Row]) -> list[Row]:
    """What the methods of a table may be compared by: an upload of some is twice as large."""
    times = lambda row: VECTORS.get(row["algorithm"], 1)
    sent = lambda row: None if (n := row["median_uploads"]) is None else times(row) * n
    return [{**row, "median_vectors": sent(row)} for row in rows]


class Block(NamedTuple):
    """By setup; the first cell of a row is the method, the best ones are bold."""

    title: str
    notes: list[str]
    head: tuple[str, ...]
    groups: Sequence[Group]


def table2_blocks(rows: Sequence[Row]) -> list[Block]:
    head = ("method", "rounds", "vectors", "paper", "authors’ file")
    blocks = []
    for block in together(with_vectors(rows), "problem", "data"):
        setups = sorted(together(block, "tau", "eps"), key=lambda s: (-s[0]["tau"], s[0]["eps"]))
        groups = [(_setup(rows[0]), _lines2(rows)) for rows in setups]
        best, notes = BEST_SEEN.get(block[0]["problem"]), _footnotes(block)
        there = {row["algorithm"] for row in block}
        told = {"scaffold": TWO_VECTORS, "accfeddcd": TWO_COHORTS}
        notes = [COUNTED, *(said for name, said in told.items() if name in there), *notes]
        notes += _other_clients(block[0]["problem"])
        if best is not None:
            notes.insert(
                0, f"The gap is the distance to {best}, the best objective that the authors found."
            )
        blocks.append(Block(title_of(block), notes, head, groups))
    return blocks


def _setup(row: Row) -> str:
    name = f"τ = {row['tau']}, ε = {scientific(row['eps'])}"
    alike = [setup for setup in cells.TABLE2 if setup.tau(row["problem"]) == row["tau"]]
    added = any(row["eps"] in setup.added for setup in alike)
    return f"{name} (the paper does not have this setup)" if added else name


def _other_clients(problem: str) -> list[str]:
    """Which numbers of clients in a round belong together, where the paper has more clients."""
    here, paper = PROBLEMS[problem].clients, cells.PAPER_CLIENTS
    if here == paper:
        return []
    ours, theirs = (
        sentence_list([str(setup.tau_of(clients)) for setup in cells.TABLE2])
        for clients in (here, paper)
    )
    return [
        f"The paper has {paper} clients, and this problem has {here}. So τ = {ours} replace "
        f"the paper’s τ = {theirs}."
    ]


def table3_blocks(rows: Sequence[Row]) -> list[Block]:
    head = ("method", "best accuracy", "at the end", "paper", "authors’ file")
    blocks = []
    for block in together(rows, "problem", "data"):
        setup = f"τ = {block[0]['tau']}, {count(block[0]['rounds'], 'round')}"
        groups = [(setup, _lines3(block))]
        blocks.append(Block(title_of(block), _footnotes(block), head, groups))
    return blocks


def shown(blocks: Sequence[Block]) -> list[Block]:
    """Without columns in which none of these blocks has a value."""
    lines = [row for block in blocks for _, rows in block.groups for row in rows]
    columns = zip(*lines, strict=True)
    full = [k for k, column in enumerate(columns) if any(cell != NONE for cell in column)]
    pick = lambda row: [row[k] for k in full]
    less = lambda groups: [(name, [*map(pick, rows)]) for name, rows in groups]
    return [b._replace(head=tuple(pick(b.head)), groups=less(b.groups)) for b in blocks]


def _lines2(rows: Sequence[Row]) -> list[list[str]]:
    rounds, vectors = fewest(rows, "median"), fewest(rows, "median_vectors")
    return [
        [
            name_of(row),
            _bold(rounds_text(row), name_of(row) in rounds),
            _bold(number(row["median_vectors"]), name_of(row) in vectors),
            *(_mark(number(row[key]), row) for key in ("paper", "authors")),
        ]
        for row in rows
    ]


def _lines3(rows: Sequence[Row]) -> list[list[str]]:
    return [
        [
            name_of(row),
            _bold(_accuracies(row), name_of(row) in most_accurate(rows)),
            percent(or_nan(median(row["last"]))),
            *(_mark(percent(or_nan(row[key])), row) for key in ("paper", "authors")),
        ]
        for row in rows
    ]


def _bold(text: str, best: bool) -> str:
    return Bold(text) if best else text


def rounds_text(row: Row) -> str:
    """28 (26–31): the median, and the range over the seeds; >100 where it was not reached."""
    limit = f">{row['limit']}"
    reached = [k for k in row["rounds"] if k is not None]
    low = min(reached, default=limit)
    high = limit if len(reached) < len(row["rounds"]) else max(reached)
    middle = limit if row["median"] is None else number(row["median"])
    return middle if low == high else f"{middle} ({low}–{high})"


def _accuracies(row: Row) -> str:
    best = [100 * x for x in map(or_nan, row["best"]) if math.isfinite(x)]
    middle = percent(or_nan(row["median"]))
    same = not best or max(best) - min(best) < 0.005
    return middle if same else f"{middle} ({min(best):.2f}–{max(best):.2f})"


def number(value: int | float | str | None) -> str:
    """1530.0 -> 1,530 and 4.5 -> 4.5; a string such as >100 as it is."""
    return value if isinstance(value, str) else trim(or_nan(value), 9)


def _mark(text: str, row: Row) -> str:
    return text if text == NONE else f"{text}{_signs(row)}"


def _signs(row: Row) -> str:
    """What to know about the paper's and the authors' numbers of this row."""
    other = "*" if row["data"] in OTHER else ""
    softmax = row["problem"].endswith("softmax")
    if softmax and row["algorithm"] == "scaffold":
        return f"{other}†"
    accuracy = "best" in row
    return f"{other}‡" if softmax and accuracy and row["algorithm"] == "accfeddcd" else other


def _footnotes(rows: Sequence[Row]) -> list[str]:
    data = rows[0]["data"]
    marks = "".join(_signs(r) for r in rows if (r["paper"], r["authors"]) != (None, None))
    notes = {
        "*": (
            f"* The numbers of the paper and of the authors’ files are for {OTHER.get(data)}. "
            f"We used another data set, {data}, so do not compare our numbers with the paper."
        ),
        "†": (
            "† This number belongs to FedAvg, because the authors’ code never updates "
            "SCAFFOLD’s control variates for softmax."
        ),
        "‡": "‡ This number is the accuracy on the training data.",
    }
    told = [note for mark, note in notes.items() if mark in marks]
    if all((r["paper"], r["authors"]) == (None, None) for r in rows):
        told.append(f"The paper and the authors’ files have no numbers for {title_of(rows)}.")
    return told
