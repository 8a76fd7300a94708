"""Small joint cells in words, for the people at the site: `stage = III and sex = female`."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..._text import listed, sentence_list
from ...analysis.protocol import SiteRows
from ...analysis.registry import ANALYSES, places_of
from ._columns import OF_LEVELS, cells_of_few

VALUES = 16  # of a column that has more, nobody knows them
MOST = 8  # columns that are named one by one
LEVEL = re.compile(r"(?:C\()?(?P<column>[^\[\]()]+)\)?\[(?:T\.)?(?P<level>[^\[\]]+)\]$")
Levels = Mapping[str, Iterable[Any]]


def small_cells_told(
    columns: Mapping[str, np.ndarray],
    others: Mapping[str, np.ndarray],
    k: int,
    levels: Levels,
) -> Iterator[str]:
    """Of pairs of columns: the cells of fewer than k rows."""
    every = {**others, **columns}
    for pair in cells_of_few(columns, others, k):
        yield " and ".join(_cell_told(name, every[name], rows, levels) for name, rows in pair)


def cells_cure(mode: str) -> str:
    """What helps against small cells; the setting is about sums over sites."""
    own = ". A person at this site can also change the setting 'small_cells' in policy.toml"
    return OF_LEVELS + (own if mode == "sum" else "")


def _cell_told(name: str, x: np.ndarray, rows: np.ndarray, levels: Levels) -> str:
    values = np.unique(x)
    if len(values) > 2:
        rest = np.unique(x[~rows])
        return (
            f"{_bare(name)} other than {rest[0]:g}" if rest.size else f"{_bare(name)} other than 0"
        )
    return _value_told(name, x, float(x[rows][0]), levels)


def _shown(name: str) -> str:
    return "the outcome" if name == "(outcome)" else name


def _bare(name: str) -> str:
    """As before an equals sign."""
    return "outcome" if name == "(outcome)" else name


def _value_told(name: str, x: np.ndarray, value: float, levels: Levels) -> str:
    of = LEVEL.match(name)
    if of is None or set(np.unique(x)) - {0.0, 1.0}:
        return f"{_bare(name)} = {value:g}"
    column, level = of["column"], of["level"]
    if value == 1:
        return f"{column} = {level}"
    left = [str(other) for other in levels.get(column, ()) if str(other) != level]
    return f"{column} = {left[0]}" if len(left) == 1 else f"{column} other than {level}"


def is_of_levels(rows: SiteRows, which: str) -> bool:
    """Whether a sum, in words, is of a finished column of two values, or of two such columns."""
    X = getattr(rows.data, "X", None)
    named = [j for j, name in enumerate(rows.names) if f"the column {name!r}" in which]
    two = X is not None and any(len(np.unique(X[:, j])) == 2 for j in named)
    return two or "of two categories" in which


class Combination(NamedTuple):
    """What few rows have, for a person here; and for the log, out of which nobody can take the
    values of a patient who withdraws."""

    told: str
    in_log: str


def combination_of(rows: SiteRows, places: np.ndarray, k: int) -> Combination:
    """The shortest combination that fewer than k rows have, one of the rows at these places among
    them; where none is found, the columns that the job uses."""
    found: list[list[tuple[str, str]]] = []
    if rows.names:
        columns = ANALYSES[rows.plan.analysis].columns_of(rows)
        few = {name: x for name, x in columns.items() if 1 < len(np.unique(x)) <= VALUES}
        for at in np.flatnonzero(np.isin(places_of(rows), places)):
            if cell := _cell_of(few, int(at), k):
                values = [_value_told(n, few[n], float(few[n][at]), rows.levels) for n in cell]
                found.append([*zip(values, map(_shown, cell), strict=True)])
    what = "a certain combination of values"
    if not found:
        told = f"{what} of the columns {listed(rows.columns, MOST)}"
        return Combination(told, told)
    values, names = zip(*min(found, key=len), strict=True)
    return Combination(f"{what}: {sentence_list(values)}", f"{what} of: {sentence_list(names)}")


def _cell_of(columns: Mapping[str, np.ndarray], at: int, k: int) -> list[str]:
    """Columns in which fewer than k rows have the values of this row, none of them without need."""
    same = {name: x == x[at] for name, x in columns.items()}
    chosen: list[str] = []
    held = np.ones(next((len(x) for x in same.values()), 0), bool)
    while held.sum() >= k:
        name = min(same, key=lambda name: int((held & same[name]).sum()), default="")
        if not name or (held & same[name]).sum() == held.sum():
            return []
        chosen, held = [*chosen, name], held & same.pop(name)
    same = {name: columns[name] == columns[name][at] for name in chosen}
    for name in [*chosen]:
        rest = [same[other] for other in chosen if other != name]
        if rest and np.all(rest, axis=0).sum() < k:
            chosen.remove(name)
    return chosen
