"""The rows of the paper's tables: which belong together, what they are called, which is best."""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..report._text import title

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
    return title(str(row["algorithm"]))


def known(value: float | None) -> float:
    return math.nan if value is None else value


def middle(values: Iterable[float | None]) -> float:
    """The median over the seeds; nan if it is of a run without a value."""
    ranked = [x if math.isfinite(x) else math.inf for x in map(known, values)]
    middle = statistics.median(ranked) if ranked else math.inf
    return middle if math.isfinite(middle) else math.nan


def fewest(rows: Sequence[Row], key: str) -> list[str]:
    """The methods with the smallest value; none if no method got there."""
    values = [row[key] for row in rows if row[key] is not None]
    return [name_of(row) for row in rows if values and row[key] == min(values)]


def most_accurate(rows: Sequence[Row]) -> list[str]:
    values = [known(row["median"]) for row in rows]
    best = max((x for x in values if math.isfinite(x)), default=None)
    return [name_of(row) for row, x in zip(rows, values, strict=True) if x == best]
