"""The paper's tables in cells of text: a block per problem, for files, terminal and page."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from ..report._text import NONE, _plural, percent
from ._rows import (
    BEST_SEEN,
    OTHER,
    Row,
    fewest,
    known,
    middle,
    most_accurate,
    name_of,
    title_of,
    together,
)


class Cell(NamedTuple):
    text: str
    best: bool = False


class Block(NamedTuple):
    """The rows of one problem, by setup; the first cell of a row is the method."""

    title: str
    notes: list[str]
    head: tuple[str, ...]
    groups: list[tuple[str, list[list[Cell]]]]


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
        setup = f"τ = {block[0]['tau']}, {_plural(block[0]['rounds'], 'round')}"
        groups = [(setup, _lines3(block))]
        blocks.append(Block(title_of(block), _footnotes(block), head, groups))
    return blocks


def _setup(rows: Sequence[Row]) -> str:
    eps = f"{rows[0]['eps']:.0e}".replace("e-0", "e-")
    return f"τ = {rows[0]['tau']}, ε = {eps}"


def _lines2(rows: Sequence[Row]) -> list[list[Cell]]:
    rounds, uploads = fewest(rows, "median"), fewest(rows, "median_uploads")
    return [
        [
            Cell(name_of(row)),
            Cell(rounds_text(row), name_of(row) in rounds),
            Cell(number(row["median_uploads"]), name_of(row) in uploads),
            *(Cell(_marked(number(row[key]), row)) for key in ("paper", "authors")),
        ]
        for row in rows
    ]


def _lines3(rows: Sequence[Row]) -> list[list[Cell]]:
    return [
        [
            Cell(name_of(row)),
            Cell(_accuracies(row), name_of(row) in most_accurate(rows)),
            Cell(percent(middle(row["last"]))),
            *(Cell(_marked(percent(known(row[key])), row)) for key in ("paper", "authors")),
        ]
        for row in rows
    ]


def rounds_text(row: Row) -> str:
    """28 (26–31): the median, and the range over the seeds; >100 where it was not reached."""
    limit = f">{row['limit']}"
    reached = [k for k in row["rounds"] if k is not None]
    low = min(reached, default=limit)
    high = limit if len(reached) < len(row["rounds"]) else max(reached)
    middle = limit if row["median"] is None else number(row["median"])
    return middle if low == high else f"{middle} ({low}–{high})"


def _accuracies(row: Row) -> str:
    best = [100 * x for x in map(known, row["best"]) if math.isfinite(x)]
    middle = percent(known(row["median"]))
    same = not best or max(best) - min(best) < 0.005
    return middle if same else f"{middle} ({min(best):.2f}–{max(best):.2f})"


def number(value: int | float | str | None) -> str:
    """1530.0 -> 1,530 and 4.5 -> 4.5; a string such as >100 as it is."""
    if value is None:
        return NONE
    if isinstance(value, str):
        return value
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"


def _marked(text: str, row: Row) -> str:
    return text if text == NONE else f"{text}{_mark(row)}"


def _mark(row: Row) -> str:
    """What to know about the paper's and the authors' numbers of this row."""
    other = "*" if row["data"] in OTHER else ""
    softmax = row["problem"].endswith("softmax")
    if softmax and row["algorithm"] == "scaffold":
        return f"{other}†"
    accuracy = "best" in row
    return f"{other}‡" if softmax and accuracy and row["algorithm"] == "accfeddcd" else other


def _footnotes(rows: Sequence[Row]) -> list[str]:
    data = rows[0]["data"]
    marks = "".join(_mark(r) for r in rows if (r["paper"], r["authors"]) != (None, None))
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
