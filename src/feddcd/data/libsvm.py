"""A strict and fast reader of LIBSVM (svmlight) text: `label index:value index:value ...`."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from scipy.sparse import csr_array

from .._errors import DataError
from .._text import plural
from ._dataset import shape_of
from ._parse import MAX_INDEX, RowBlock, Rules, parse_block, parse_lines
from .files import cache_entry, check_file, line_blocks, load_arrays, store_arrays

DENSE_ABOVE = 0.1


def read_libsvm(
    path: str | os.PathLike[str],
    *,
    index_base: int = 1,
    n_features: int | None = None,
    cache: bool = True,
) -> tuple[csr_array, np.ndarray]:
    """Features and labels of a file (plain, .bz2, .gz or .xz); DataError says file:line:column."""
    path = Path(path)
    rules = Rules(str(path), index_base, n_features)
    _check_rules(rules)
    check_file(path)
    rows = _cached(path, rules) if cache else _parse(path, rules)
    if rows.unsorted:
        warnings.warn(
            f"{path}:{rows.first_unsorted}: the indices of this line are not in increasing "
            f"order. feddcd sorted the indices of {plural(rows.unsorted, 'row')}",
            stacklevel=2,
        )
    width = n_features or int(rows.indices.max(initial=-1)) + 1
    if width == 0:
        raise DataError(
            f"{path}: no row has a feature; if the file is right, give n_features, the number of "
            "columns"
        )
    ends = np.concatenate(([0], np.cumsum(rows.counts)))
    ends = ends.astype(np.int32 if ends[-1] <= MAX_INDEX else np.int64)
    return csr_array((rows.data, rows.indices, ends), shape=(rows.y.size, width)), rows.y


def is_dense(X: csr_array) -> bool:
    """Whether so much is stored that a plain array is the better form."""
    n, d = shape_of(X)
    return X.nnz > DENSE_ABOVE * n * d


def _check_rules(rules: Rules) -> None:
    if rules.base not in (0, 1):
        raise DataError(f"index_base must be 0 or 1, got {rules.base!r}")
    n = rules.n_features
    if n is not None and (isinstance(n, bool) or not isinstance(n, int | np.integer) or n < 1):
        raise DataError(f"n_features must be a whole number >= 1, got {n!r}")
    if n is not None and n > MAX_INDEX:
        raise DataError(f"n_features must be at most {MAX_INDEX}, got {n}")


def parsed_blocks(path: Path, rules: Rules) -> Iterator[RowBlock]:
    """The rows of a file, some megabytes of text at a time."""
    line, blocks = 1, line_blocks(path)
    with ThreadPoolExecutor(1) as pool:  # the next block is unpacked while one is parsed
        ready = pool.submit(next, blocks, None)
        while (text := ready.result()) is not None:
            ready = pool.submit(next, blocks, None)
            yield parse_block(text, line, rules) or parse_lines(text, line, rules)
            line += text.count(b"\n")


def _parse(path: Path, rules: Rules) -> RowBlock:
    parts = list(parsed_blocks(path, rules))
    if not sum(part.y.size for part in parts):
        raise DataError(f"{path}: no rows; the file is empty or has only blank lines and comments")
    return RowBlock.join(parts)


def _cached(path: Path, rules: Rules) -> RowBlock:
    file = cache_entry(path, rules.base)
    rows = _from_arrays(load_arrays(file))
    if rows is not None and rows.indices.max(initial=-1) + rules.base <= rules.last:
        return rows
    rows = _parse(path, rules)
    store_arrays(file, {name: np.asarray(value) for name, value in rows._asdict().items()})
    return rows


def _from_arrays(arrays: dict[str, np.ndarray] | None) -> RowBlock | None:
    """RowBlock of a cache entry, or None where it is not what `_cached` writes."""
    if arrays is None or set(arrays) != set(RowBlock._fields):
        return None
    vectors = [arrays[name] for name in RowBlock._fields[:4]]
    if [array.dtype.str[1:] for array in vectors] != ["f8", "f8", "i4", "i8"]:
        return None
    if any(array.ndim != 1 for array in vectors) or arrays["unsorted"].ndim:
        return None
    y, data, indices, counts = vectors
    if not data.size == indices.size == counts.sum() or not y.size == counts.size > 0:
        return None
    if counts.min() < 0 or indices.min(initial=0) < 0:
        return None
    if not (np.isfinite(y).all() and np.isfinite(data).all()):
        return None
    return RowBlock(
        y, data, indices, counts, int(arrays["unsorted"]), int(arrays["first_unsorted"])
    )
