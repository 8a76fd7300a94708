"""Which rows are counted together in what a job reveals: a number by row for each such thing.

    set            all rows that are told of, by group
    number NAME    the rows with a value that is added up, and those without, by group
    level NAME     the rows of each level, by group
    column NAME    of a table: the rows with each of the two values of a finished column

-1 stands for a row of which nothing is told.
"""

from collections.abc import Mapping

import numpy as np

from ._describe_rows import DescribedRows
from .protocol import SiteRows


def counted(rows: SiteRows, finished: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Of rows as answers count them, over all rows of the job; `finished` are finished columns."""
    return _described(rows) if isinstance(rows.data, DescribedRows) else _table(rows, finished)


def comparable(one: str, other: str) -> bool:
    """Whether sums of both could be subtracted: the same column, or columns of 0 and 1."""
    (kind, name), (its, own) = (each.split(" ", 1) for each in (one, other))
    columns = {kind, its}
    return columns == {"column", "level"} or ("column" not in columns and name == own)


def alone(n: int, columns: tuple[str, ...]) -> dict[str, np.ndarray]:
    """Of rows that are all in one set, with sums of these columns."""
    return dict.fromkeys(("set ", *(f"number {name}" for name in columns)), np.zeros(n, np.int32))


def _described(rows: SiteRows) -> dict[str, np.ndarray]:
    data: DescribedRows = rows.data
    shape = data.shape
    kept = np.ones(len(data.group), bool) if data.kept is None else data.kept
    found = {"set ": data.group}
    if rows.plan.by is not None:
        found[f"level {rows.plan.by}"] = data.group
    for j, name in enumerate(shape.numbers):
        found[f"number {name}"] = 2 * data.group + np.isnan(data.X[:, j])
    for j, (name, levels) in enumerate(shape.levels.items()):
        found[f"level {name}"] = data.group * (len(levels) + 1) + data.codes[:, j] + 1
    return {name: _placed(labels, kept) for name, labels in found.items()}


def labels(rows: SiteRows, most: int) -> dict[str, np.ndarray]:
    """Of a description: by group and level, and by group and value of numbers of so few values."""
    data: DescribedRows = rows.data
    kept = np.ones(len(data.group), bool) if data.kept is None else data.kept
    found = {name: x for name, x in _described(rows).items() if not name.startswith("number ")}
    for j, name in enumerate(data.shape.numbers):
        values, at = np.unique(data.placed[:, j], return_inverse=True)
        if len(values) <= most:  # what is missing is a value, too
            found[f"value {name}"] = _placed(data.group * len(values) + at.ravel(), kept)
    return found


def _placed(labels: np.ndarray, kept: np.ndarray) -> np.ndarray:
    whole = np.full(len(kept), -1, np.int32)
    whole[kept] = labels
    return whole


def _table(rows: SiteRows, finished: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    found = alone(rows.n, rows.columns)
    for name, x in finished.items():
        if len(x) and np.all((x == x.min()) | (x == x.max())) and x.min() < x.max():
            found[f"column {name}"] = (x == x.max()).astype(np.int32)
    return found
