"""A .csv, .tsv (plain or packed) or .parquet file as a data frame, every row with its place."""

from __future__ import annotations

import csv
import io
import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from .._errors import DataError
from .._text import listed, meant
from .files import BYTE_ORDER_MARK, check_file, text_blocks

DELIMITERS = {".csv": ",", ".tsv": "\t"}
PACKED = (".gz", ".bz2", ".xz")


class Frame(NamedTuple):
    file: str
    frame: Any  # pandas.DataFrame; empty cells and NA are missing, words stay words
    place: Callable[[int], str]  # where a person finds a row, counted from 0


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether the name is one of a file with named columns."""
    return suffix(path) in (*DELIMITERS, ".parquet")


def suffix(path: str | os.PathLike[str]) -> str:
    name = Path(path).name.lower()
    packed = next((end for end in PACKED if name.endswith(end)), "")
    end = Path(name.removesuffix(packed)).suffix
    return end if end in DELIMITERS or not packed else ""


def read_frame(path: str | os.PathLike[str], text: Collection[str] = ()) -> Frame:
    """The whole file; the columns in `text` are words whatever they look like (01 is not 1)."""
    path = Path(path)
    if not is_table(path):
        raise DataError(
            f"{path}: a table's name ends in .csv, .tsv (also with .gz, .bz2 or .xz) or .parquet"
        )
    if os.path.isdir(path):
        raise DataError(f"{path}: is a directory, expected a {suffix(path)} file")
    check_file(path)
    delimiter = DELIMITERS.get(suffix(path))
    return _csv(path, delimiter, text) if delimiter else _parquet(path)


def no_column(file: str, name: str, names: Sequence[str], what: str = "") -> DataError:
    """The error for a column that is not there, with the nearest that is."""
    hint = meant(name, names, most=3)
    if all(is_number(column) for column in names):
        hint = "the first line should hold the names; "
    one = len(names) == 1 and any(mark in names[0] for mark in ";|\t,")
    parted = " (commas part those of a .csv, tabs those of a .tsv)" if one else ""
    return DataError(f"{file}: no column {name!r}{what}; {hint}columns: {listed(names)}{parted}")


def is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return "_" not in text


def _parquet(path: Path) -> Frame:
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
    return Frame(str(path), frame, lambda row: f"in row {row + 1}")


def _csv(path: Path, delimiter: str, text_columns: Collection[str]) -> Frame:
    import pandas

    file, text = str(path), _text(path)
    names, n = _check_records(file, text, delimiter)
    frame = pandas.read_csv(
        io.StringIO(text),
        sep=delimiter,
        header=0,
        names=names,
        index_col=False,
        dtype={name: str for name in text_columns if name in names},
        skipinitialspace=True,
        low_memory=False,  # or a column's type could change on the way
    )
    if len(frame) != n:
        raise DataError(f"{file}: {n} rows, of which pandas reads {len(frame)}; check the quotes")

    def place(row: int) -> str:
        return f"on line {next(islice(_records(file, text, delimiter), row + 1, None))[0]}"

    return Frame(file, frame, place)


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
