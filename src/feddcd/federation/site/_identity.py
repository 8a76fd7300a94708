"""Rows of a site's file as they are known again after a new export of it.

A row has an identity, a salted digest of all its values. A new export may have one more column, or
one that differs in every row, as the days since a visit: all digests are others then. So digests of
single values are kept, too, and rows are looked up by the columns that stayed as they were. Who is
found keeps its identity; who is not is a new row.
"""

import base64
import hashlib
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..._files import stamp
from ..._text import listed
from ...data.frames import Reading
from ._own_table import SiteTable, read_own, table_of
from .memory import Export, Memory

ENOUGH = 0.5  # of the rows: this share is recognised, or the columns are no help


class KnownRows(NamedTuple):
    ids: np.ndarray
    file: str  # a salted digest of all of it
    story: str  # what became of the export before


def known_rows(source: SiteTable, memory: Memory) -> KnownRows:
    """Of the file as it is now, all its rows in their order."""
    salt = memory.salt
    export = _export(source.data, source.how, salt, *stamp(source.data))
    before = memory.export()
    if before is None or before.file != export.file:
        export = export if before is None else found_again(before, export)
        memory.keep_export(export)
        before = export
    return KnownRows(before.ids, before.file, before.story)


def unchanged_since(place: Any, memory: Memory) -> str:
    """The last job, if its rows are still compared and the file is as it was then."""
    jobs = memory.jobs()
    last = max(jobs, key=lambda id: jobs[id]["time"], default="")
    if not last or jobs[last]["set"] in {None, *memory.retired()}:
        return ""  # the rules refused it, or a person closed its set
    now = _export(place.data, place.how, memory.salt, *stamp(place.data)).file
    return last if jobs[last].get("file") == now else ""


def changed_since(place: Any, memory: Memory) -> int | None:
    """The fewest rows that changed since a job whose rows are still compared: rows of the job that
    are gone, and rows that are new in the file. 0 if all rows of all jobs are as they were, and
    None without such a job."""
    closed = {None, *memory.retired()}
    jobs = [job for job in memory.jobs().values() if job["set"] not in closed]
    if not jobs:
        return None
    now = known_rows(table_of(place), memory).ids
    held = [(memory.rows_of(j["set"]), memory.rows_of(j.get("whole") or j["set"])) for j in jobs]
    counts = [_only_in(rows, now) + _only_in(now, whole) for rows, whole in held]
    return min((count for count in counts if count), default=0)


def _only_in(a: np.ndarray, b: np.ndarray) -> int:
    return len(a) - len(_pairs(a, b)[0])


def found_again(before: Export, now: Export) -> Export:
    """With the identities that its rows had before."""
    exact = _pairs(before.ids, now.ids)
    if 2 * len(exact[0]) >= min(len(before.ids), len(now.ids)):
        pairs, dropped = exact, []
    else:
        pairs, dropped = _matched(before, now)
    ids = now.ids.copy()
    ids[pairs[1]] = before.ids[pairs[0]]
    return now._replace(ids=ids, story=_story(before, now, len(pairs[0]), dropped))


def same_rows(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of the rows that both have, by their identities."""
    return _pairs(a, b)


def _matched(before: Export, now: Export) -> tuple[tuple[np.ndarray, np.ndarray], list[str]]:
    """By the columns that both have, less those that changed in most rows: by one at a time, first
    the one without which most rows are found, else the one that has fewest values of before."""
    names = [name for name in now.names if name in before.names]
    cells = [
        {name: export.cells[:, export.names.index(name)] for name in names}
        for export in (before, now)
    ]
    least = ENOUGH * min(len(before.ids), len(now.ids))
    common = {name: len(_pairs(cells[0][name], cells[1][name])[0]) for name in names}
    left, none = list(names), np.zeros(0, int)
    while left:
        a, b = (_total(each, left) for each in cells)
        if len(np.unique(a)) < ENOUGH * len(a):  # they do not identify rows any more
            break
        pairs = _pairs(a, b)
        if len(pairs[0]) >= least:
            return pairs, [name for name in names if name not in left]
        without = {name: len(_pairs(a - cells[0][name], b - cells[1][name])[0]) for name in left}
        best = max(left, key=without.__getitem__)
        left.remove(best if without[best] >= least else min(left, key=common.__getitem__))
    return (none, none), list(names)


def _total(cells: dict[str, np.ndarray], names: Sequence[str]) -> np.ndarray:
    """Of a row's digests modulo 2^64, so that a column is taken out by subtraction."""
    return np.stack([cells[name] for name in names]).sum(0, dtype=np.uint64)


def _pairs(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of equal values; of values that are there several times, as many as both have."""
    one, other = (_numbered(x) for x in (a, b))
    _, first, second = np.intersect1d(one, other, return_indices=True)
    return first, second


def _numbered(x: np.ndarray) -> np.ndarray:
    """Equal values, each with a number of its own: x and its place among its likes."""
    order = np.argsort(x, kind="stable")
    ordered = x[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))[: len(x)]
    sizes = np.diff(np.append(starts, len(x)))
    nth = np.empty(len(x), np.uint64)
    nth[order] = np.arange(len(x)) - np.repeat(starts, sizes)
    made = np.empty(len(x), [("x", np.uint64), ("n", np.uint64)])
    made["x"], made["n"] = x, nth
    return made


def _story(before: Export, now: Export, same: int, dropped: Sequence[str]) -> str:
    """In words, for a person; counts stay at the site."""
    new, gone = len(now.ids) - same, len(before.ids) - same
    parts = [f"new rows: {new:,}, removed rows: {gone:,}, rows as before: {same:,}"]
    more = [name for name in now.names if name not in before.names]
    parts += [f"new columns: {listed(more, 5)}"] if more else []
    changed = dropped if same else []
    parts += [f"columns that changed in most rows: {listed(changed, 5)}"] if changed else []
    return "; ".join(parts)


@lru_cache(maxsize=4)
def _export(data: Path, how: Reading, salt: bytes, *_: int) -> Export:
    frame = read_own(data, how, "{}", *stamp(data)).frame
    names = sorted(frame.columns)
    lists = [frame[name].map(repr).tolist() for name in names]
    each = (
        hashlib.blake2b("\x1f".join(row).encode(), digest_size=8, key=salt).digest()
        for row in zip(*lists, strict=True)
    )
    ids = np.frombuffer(b"".join(each), "<u8")
    cells = np.array([_digests(salt, *pair) for pair in zip(names, lists, strict=True)], np.uint64)
    file = hashlib.blake2b(repr(names).encode() + ids.tobytes(), digest_size=16, key=salt)
    return Export(file.hexdigest(), tuple(names), ids, cells.reshape(len(names), -1).T, "")


def _digests(salt: bytes, name: str, values: list[Any]) -> np.ndarray:
    """Of a column's values: pandas' SipHash, with a key of this site and column."""
    from pandas.util import hash_array

    key = base64.b64encode(hashlib.blake2b(name.encode(), digest_size=12, key=salt).digest())
    made: Any = hash_array  # pandas gives it no type
    return made(np.array(values, object), hash_key=key.decode(), categorize=True)
