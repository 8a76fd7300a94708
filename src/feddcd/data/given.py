"""Data that Python gives: one table, or one for every client, as arrays or as data frames."""

import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from .._errors import DataError
from ._dataset import Dataset, shape_of
from .agreement import SiteData, select
from .frames import Frame
from .tables import site_of


class Pooled(NamedTuple):
    """All rows together, and who holds which where every client gave a table of its own."""

    data: Dataset
    parts: list[np.ndarray] | None = None
    names: tuple[str, ...] | None = None
    shape: tuple[int, ...] | None = None  # of an example, where it is more than a row


def pool(
    data: Any, *, label: str | None = None, group: str | None = None, any_shape: bool = False
) -> Pooled:
    """`any_shape` takes examples of any shape, images for instance, as rows of numbers."""
    if isinstance(data, Dataset):
        return Pooled(data)
    tables = _by_client(data)
    if tables is not None:
        if group is not None:
            raise DataError(f"each client has its own table, so leave out group={group!r}")
        named = {str(name): table for name, table in tables.items()}
        with _counted(isinstance(data, list)):
            return _join(named, label, any_shape)
    if _is_frame(data):
        site = _of_frame("the data frame", data, label, group, divided=True)
        groups = None if group is None else np.asarray(data[group])
        return Pooled(_dataset("data frame from Python", site.X, site.labels, groups))
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise DataError(
            f"data is of type {type(data).__name__}, but must be a name, a path, a Dataset, a pair "
            "(X, y) or a data frame. For several clients, give a list or dict with one pair or "
            "data frame for each client"
        )
    _check_no_label(label)
    X, shape = _flat(data[0], any_shape)
    return Pooled(_dataset("arrays from Python", X, data[1]), shape=shape)


def _dataset(name: str, X: Any, y: Any, groups: Any = None) -> Dataset:
    """Labels that are words are numbered in sorted order, and the words are kept."""
    if not _are_words(y):
        return Dataset(name, X, y, groups)
    classes, codes = np.unique(np.asarray(y).astype(str), return_inverse=True)
    return Dataset(name, X, codes.astype(float), groups, classes=classes)


def _are_words(y: Any) -> bool:
    # NumPy would make words of the numbers in a list that mixes both
    labels = y if isinstance(y, np.ndarray) else np.asarray(y, object)
    if labels.dtype.kind != "O":
        return labels.dtype.kind in "US"
    return labels.size > 0 and all(isinstance(label, str) for label in labels.flat)


@contextmanager
def _counted(numbered: bool) -> Iterator[None]:
    """Clients in a list have only numbers, of which a message says how they are counted."""
    try:
        yield
    except DataError as error:
        if numbered and re.search(r"\bclient \d", error.message):
            error.message += "; clients are counted from 0"
        raise


def _by_client(data: Any) -> Mapping[Any, Any] | None:
    """The clients' tables by name; None where the data are one table.

    A list is one of clients where it holds frames or tuples alone: [X, y] is a pair."""
    if isinstance(data, Mapping):
        return data
    alone = lambda table: isinstance(table, tuple) and len(table) == 2
    if isinstance(data, list) and data and all(_is_frame(t) or alone(t) for t in data):
        return dict(enumerate(data))
    return None


def _join(tables: Mapping[str, Any], label: str | None, any_shape: bool) -> Pooled:
    if len(tables) < 2:
        raise DataError(f"a federation needs at least 2 clients, got {len(tables)}")
    frames = [_is_frame(table) for table in tables.values()]
    if any(frames) != all(frames):
        raise DataError("the tables of the clients must all be data frames or all be pairs (X, y)")
    if all(frames):
        sites = [_of_frame(f"client {name}", t, label) for name, t in tables.items()]
        sites = [select(site, sites[0].names or ()) for site in sites]
        blocks, shape = [(site.X, site.labels) for site in sites], None
    else:
        _check_no_label(label)
        blocks, shape = _blocks(tables, any_shape)
    X: list[Any] = [block for block, _ in blocks]
    together: Any = sparse.vstack if any(map(sparse.issparse, X)) else np.concatenate
    name = "data frames" if all(frames) else "arrays"
    data = _dataset(f"{name} from Python", together(X), _labels(tables, blocks))
    ends = np.cumsum([shape_of(block)[0] for block in X])
    parts = np.split(np.arange(ends[-1]), ends[:-1])
    return Pooled(data, parts, tuple(tables), shape)


def _blocks(
    tables: Mapping[str, Any], any_shape: bool
) -> tuple[list[tuple[Any, Any]], tuple[int, ...] | None]:
    blocks, shapes = [], {}
    for name, table in tables.items():
        if not isinstance(table, tuple | list) or len(table) != 2:
            raise DataError(
                f"the table of client {name} must be a pair (X, y), not {type(table).__name__}"
            )
        X, shape = _flat(table[0], any_shape)
        one = _dataset(f"client {name}", X, table[1])  # checks the numbers and the lengths
        blocks.append((one.X, table[1]))
        shapes[name] = shape or shape_of(one.X)[1:]
    (first, expected), *rest = shapes.items()
    for name, shape in rest:
        if shape != expected:
            raise DataError(
                f"client {first} has examples of shape {expected}, but client {name} has "
                f"examples of shape {shape}"
            )
    return blocks, expected if len(expected) > 1 else None


def _labels(tables: Mapping[str, Any], blocks: Sequence[tuple[Any, Any]]) -> np.ndarray:
    words = [_are_words(y) for _, y in blocks]
    if any(words) != all(words):
        odd = list(tables)[words.index(not words[0])]
        raise DataError(
            f"client {next(iter(tables))} has {'words' if words[0] else 'numbers'} as "
            f"labels, but client {odd} has {'numbers' if words[0] else 'words'}"
        )
    return np.concatenate([np.asarray(y) for _, y in blocks])


def _flat(X: Any, any_shape: bool) -> tuple[Any, tuple[int, ...] | None]:
    if not any_shape or sparse.issparse(X) or np.ndim(X) <= 2:
        return X, None
    X = np.asarray(X)
    return X.reshape(len(X), -1), X.shape[1:]


def _is_frame(data: Any) -> bool:
    pandas = sys.modules.get("pandas")  # not loaded: nobody has made a frame
    return pandas is not None and isinstance(data, pandas.DataFrame)


def _of_frame(
    name: str, frame: Any, label: str | None, group: str | None = None, *, divided: bool = False
) -> SiteData:
    table = Frame(name, frame, lambda row: f"in row {row} (counted from 0)")
    return site_of(table, label, group, divided=divided)


def _check_no_label(label: str | None) -> None:
    if label is not None:
        raise DataError(
            f"label={label!r} is the name of a column, so label works only with data frames; with "
            "arrays, give the pair (X, y)"
        )
