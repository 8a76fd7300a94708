"""The rows of the paper's tables: which belong together, which is best, and their cells of text.

A block is the rows of one problem, for files, terminal and page.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from .._text import NONE, count, percent
from ..report.methods import title
from ..report.tables import Bold, Group

Row = Mapping[str, Any]
DATA = {"mnist": "MNIST", "rcv1": "RCV1", "rcv1-subset": "RCV1 subset", "digits": "Digits"}
OTHER = {"rcv1-subset": "RCV1"}  # what stands in for the paper's data
BEST_SEEN = {"mnist-mlp": 0.504563}


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


def middle(values: Iterable[float | None]) -> float:
    """The median over the seeds; nan if it is of a run without a value."""
    ranked = [x if math.isfinite(x) else math.inf for x in map(or_nan, values)]
    middle = statistics.median(ranked) if ranked else math.inf
    return middle if math.isfinite(middle) else math.nan


def fewest(rows: Sequence[Row], key: str) -> list[str]:
    """The methods with the smallest value; none if no method got there."""
    values = [row[key] for row in rows if row[key] is not None]
    return [name_of(row) for row in rows if values and row[key] == min(values)]


def most_accurate(rows: Sequence[Row]) -> list[str]:
    values = [or_nan(row["median"]) for row in rows]
    best = max((x for x in values if math.isfinite(x)), default=None)
    return [name_of(row) for row, x in zip(rows, values, strict=True) if x == best]


class Block(NamedTuple):
    """By setup; the first cell of a row is the method, the best ones are bold."""

    title: str
    notes: list[str]
    head: tuple[str, ...]
    groups: Sequence[Group]


def table2_blocks(rows: Sequence[Row]) -> list[Block]:
    head = ("method", "rounds", "uploads", "paper", "authors’ file")
    blocks = []
    for block in together(rows, "problem", "data"):
        setups = sorted(together(block, "tau", "eps"), key=lambda s: (-s[0]["tau"], s[0]["eps"]))
        groups = [(_setup(rows), _lines2(rows)) for rows in setups]
        notes = [*_reference(block[0]), *_footnotes(block)]
        blocks.append(Block(title_of(block), notes, head, groups))
    return blocks


def table3_blocks(rows: Sequence[Row]) -> list[Block]:
    head = ("method", "best accuracy", "at the end", "paper", "authors’ file")
    blocks = []
    for block in together(rows, "problem", "data"):
        setup = f"τ = {block[0]['tau']}, {count(block[0]['rounds'], 'round')}"
        groups = [(setup, _lines3(block))]
        blocks.append(Block(title_of(block), _footnotes(block), head, groups))
    return blocks


def _setup(rows: Sequence[Row]) -> str:
    eps = f"{rows[0]['eps']:.0e}".replace("e-0", "e-")
    return f"τ = {rows[0]['tau']}, ε = {eps}"


def _lines2(rows: Sequence[Row]) -> list[list[str]]:
    rounds, uploads = fewest(rows, "median"), fewest(rows, "median_uploads")
    return [
        [
            name_of(row),
            _bold(rounds_text(row), name_of(row) in rounds),
            _bold(number(row["median_uploads"]), name_of(row) in uploads),
            *(_mark(number(row[key]), row) for key in ("paper", "authors")),
        ]
        for row in rows
    ]


def _lines3(rows: Sequence[Row]) -> list[list[str]]:
    return [
        [
            name_of(row),
            _bold(_accuracies(row), name_of(row) in most_accurate(rows)),
            percent(middle(row["last"])),
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
    if value is None:
        return NONE
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


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
        "*": f"* The paper’s and the authors’ numbers are for {OTHER.get(data)}, another data set "
        f"than {data}, on which this was run: not to be compared.",
        "†": "† FedAvg in truth: the authors’ code never updates SCAFFOLD’s control variates here.",
        "‡": "‡ Of the training data.",
    }
    return [note for mark, note in notes.items() if mark in marks]


def _reference(row: Row) -> list[str]:
    best = BEST_SEEN.get(row["problem"])
    return [] if best is None else [f"The gap is to {best}, the best value the authors saw."]
