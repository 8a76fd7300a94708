"""What one site of a federation holds, read from its own CSV, Parquet or LIBSVM file."""

from __future__ import annotations

import csv
import difflib
import io
import os
from collections import Counter
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from feddcd.data._dataset import DataError, shape_of
from feddcd.data._stream import BYTE_ORDER_MARK, check_file, text_blocks
from feddcd.data.agree import SiteData as SiteData
from feddcd.data.agree import listed
from feddcd.data.agree import select as select
from feddcd.data.libsvm import read_libsvm
from feddcd.data.sources import DENSE_ABOVE

DELIMITERS = {".csv": ",", ".tsv": "\t"}
PACKED = (".gz", ".bz2", ".xz")
MAX_LABEL = 200


class _Table(NamedTuple):
    file: str
    frame: Any
    place: Callable[[int], str]  # where a person finds a row


def read_site(
    path: str | os.PathLike[str], label: str | None = None, index_base: int = 1
) -> SiteData:
    """The rows of a .csv, .tsv (plain or packed) or .parquet file; of LIBSVM with other names."""
    path = Path(path)
    delimiter = DELIMITERS.get(_suffix(path))
    if delimiter is None and _suffix(path) != ".parquet":
        if label is not None:
            raise DataError(
                f"{path}: label={label!r} goes with .csv, .tsv and .parquet; other files are "
                "read as LIBSVM, where the label is the first number of a line"
            )
        return _libsvm(path, index_base)
    if index_base != 1:
        raise DataError(f"{path}: index_base goes with LIBSVM files, got index_base={index_base}")
    if os.path.isdir(path):
        raise DataError(f"{path}: is a directory, expected a {_suffix(path)} file")
    check_file(path)
    return _site(_csv(path, delimiter) if delimiter else _parquet(path), label)


def _suffix(path: Path) -> str:
    name = path.name.lower()
    packed = next((end for end in PACKED if name.endswith(end)), "")
    suffix = Path(name.removesuffix(packed)).suffix
    return suffix if suffix in DELIMITERS or not packed else ""


def _libsvm(path: Path, index_base: int) -> SiteData:
    X, y = read_libsvm(path, index_base=index_base)
    n, d = shape_of(X)
    return SiteData(X.toarray() if X.nnz > DENSE_ABOVE * n * d else X, y, None, str(path))


def _parquet(path: Path) -> _Table:
    import pandas

    try:
        frame = pandas.read_parquet(path, engine="pyarrow")
    except ImportError:
        raise DataError(
            f"{path}: Parquet is read by pyarrow, which is not here: pip install 'feddcd[parquet]'"
        ) from None
    except Exception as error:  # pyarrow has its own, and they are not importable without it
        raise DataError(f"{path}: cannot be read as Parquet: {error}") from None
    _check_names(str(path), list(frame.columns))
    return _Table(str(path), frame, lambda row: f"in row {row + 1}")


def _csv(path: Path, delimiter: str) -> _Table:
    import pandas

    file, text = str(path), _text(path)
    names, n = _check_records(file, text, delimiter)
    frame = pandas.read_csv(
        io.StringIO(text),
        sep=delimiter,
        header=0,
        names=names,
        index_col=False,
        skipinitialspace=True,
        low_memory=False,  # or a column's type could change on the way
    )
    if len(frame) != n:
        raise DataError(f"{file}: {n} rows, of which pandas reads {len(frame)}; check the quotes")

    def place(row: int) -> str:
        return f"on line {next(islice(_records(file, text, delimiter), row + 1, None))[0]}"

    return _Table(file, frame, place)


def _text(path: Path) -> str:
    data = b"".join(text_blocks(path)).removeprefix(BYTE_ORDER_MARK)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        raise DataError(f"{path}:{line}: byte 0x{byte:02x} is not UTF-8 text") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise DataError(f"{path}:{line}: holds a zero byte, so it is not a text file")
    return text


def _records(file: str, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The line on which a record begins, and its fields."""
    lines = io.StringIO(text, newline="")
    reader = csv.reader(lines, delimiter=delimiter, skipinitialspace=True, strict=True)
    line = 1
    try:
        for fields in reader:
            if fields:
                yield line, fields
            line = reader.line_num + 1
    except csv.Error as error:
        raise DataError(f"{file}:{line}: {error}") from None


def _check_records(file: str, text: str, delimiter: str) -> tuple[list[str], int]:
    """The names of the columns and the number of rows; pandas would fill or cut uneven ones."""
    records = _records(file, text, delimiter)
    line, header = next(records, (1, []))
    if not header:
        raise DataError(f"{file}: is empty, expected a line with the names of the columns")
    names = [name.strip() for name in header]
    _check_names(f"{file}:{line}", names)
    n = 0
    for line, fields in records:
        if len(fields) != len(names):
            raise DataError(f"{file}:{line}: {len(fields)} fields, the header has {len(names)}")
        n += 1
    return names, n


def _check_names(where: str, names: list[Any]) -> None:
    for j, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise DataError(f"{where}: column {j + 1} of {len(names)} has no name, got {name!r}")
    twice = [name for name, times in Counter(names).items() if times > 1]
    if twice:
        raise DataError(f"{where}: two columns are called {listed(twice)}")


def _site(table: _Table, label: str | None) -> SiteData:
    file, frame, _ = table
    names = list(frame.columns)
    _check_label(file, label, names)
    features = tuple(name for name in names if name != label)
    if not features or not len(frame):
        raise DataError(f"{file}: no {'rows' if features else f'column beside {label!r}'}")
    absent = frame.isna().to_numpy()
    if absent.any():
        row, column = np.argwhere(absent)[0]
        raise DataError(
            f"{file}: column {names[column]!r} has no value {table.place(row)}; "
            f"missing values in all: {absent.sum()} (empty, NA, nan, None, null)"
        )
    X = np.empty((len(frame), len(features)))
    for j, name in enumerate(features):
        X[:, j] = _feature(table, name)
    return SiteData(X, _labels(table, str(label)), features, file)


def _check_label(file: str, label: str | None, names: list[str]) -> None:
    if label in names:
        return
    if label is None:
        raise DataError(f"{file}: name the column to predict, label=...; columns: {listed(names)}")
    near = difflib.get_close_matches(label, names)
    hint = f"did you mean {listed(near)}? " if near else ""
    if all(_is_number(name) for name in names):
        hint = "the first line should hold the names; "
    raise DataError(f"{file}: no column {label!r}; {hint}columns: {listed(names)}")


def _feature(table: _Table, name: str) -> np.ndarray:
    values = _numbers(table, name)
    if values is not None:
        return values
    column = [str(value) for value in table.frame[name]]
    row = next((i for i, value in enumerate(column) if not _is_number(value)), 0)
    raise DataError(
        f"{table.file}: column {name!r} should hold numbers, has {column[row][:50]!r} "
        f"{table.place(row)}"
    )


def _numbers(table: _Table, name: str) -> np.ndarray | None:
    """The column as float64, True as 1; None where it is something else."""
    column = table.frame[name]
    if column.dtype == "category":
        column = column.astype(column.cat.categories.dtype)
    numeric = column.dtype.kind in "biuf"
    if not numeric and not all(isinstance(v, int | float | Decimal) for v in column):
        return None
    if numeric:
        values = column.to_numpy(np.float64)
    else:  # whole numbers beyond 64 bits; float of one beyond 1e308 raises, of its Decimal not
        values = np.array([float(Decimal(v)) for v in column])
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise DataError(
            f"{table.file}: column {name!r} has {values[bad[0]]} {table.place(bad[0])}; "
            f"such values in the column: {len(bad)}"
        )
    return values


def _labels(table: _Table, name: str) -> np.ndarray:
    values = _numbers(table, name)
    if values is not None:
        return values
    text = list(table.frame[name])
    for row, value in enumerate(text):
        if not isinstance(value, str) or not 0 < len(value.strip()) <= MAX_LABEL:
            raise DataError(
                f"{table.file}: label {name!r} should be a number or a text of 1 to {MAX_LABEL} "
                f"characters, is {str(value)[:50]!r} {table.place(row)}"
            )
    return np.array([value.strip() for value in text])


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text
