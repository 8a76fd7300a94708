"""A .csv, .tsv (plain or packed), .xlsx or .parquet file as a data frame, every row with its place.

What the file does not say of itself is sniffed, and told in one note.
"""

from __future__ import annotations

import os
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from .._errors import DataError
from .._text import listed, meant, plural, sentence_list
from . import _cells as cells
from ._cells import Notation
from ._cells import is_number as is_number
from ._excel import read_cells
from ._foreign import FOREIGN
from ._sniff import CENTRAL, SEPARATORS, WESTERN, WRONG_LETTERS, decode, records, separator
from .files import check_file, whole_text

DELIMITERS = {".csv": ",", ".tsv": "\t"}
PACKED = (".gz", ".bz2", ".xz")
OTHERS = (".parquet", ".xlsx")


class Reading(NamedTuple):
    """What a user knows of a file; None is sniffed. `na` are words for missing, beside NA."""

    sep: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    na: tuple[str, ...] = ()
    sheet: str | None = None

    def check(self, file: str, kind: str) -> None:
        """Refuses what does not go with a file of this kind."""
        if self.decimal not in (None, ".", ","):
            told = f"<decimal> must be '.' or ',' but is {self.decimal!r}"
            raise DataError(told, file=file, settings={"decimal": None})
        text, excel = kind in DELIMITERS, kind == ".xlsx"
        both = text or excel  # a cell of Excel may hold a number as text
        fits = {"sep": text, "decimal": both, "encoding": text, "na": both, "sheet": excel}
        for name, value in self._asdict().items():
            if value and not fits[name]:
                goes = ".xlsx files" if name == "sheet" else ".csv and .tsv files"
                raise DataError(f"<{name}> works only for {goes}", file=file, settings={name: None})


PLAIN = Reading()


class Frame(NamedTuple):
    file: str
    frame: Any  # pandas.DataFrame; empty cells and NA are missing, words stay words
    place: Callable[[int], str]  # where a person finds a row, counted from 0
    notes: tuple[str, ...] = ()  # what was sniffed
    doubts: Mapping[str, DataError] = {}  # by column: why it should not be used as it is
    remarks: Mapping[str, str] = {}  # by column: what somebody who uses it should know
    western: bool = False  # the encoding was guessed, and another one has other letters


def is_table(path: str | os.PathLike[str]) -> bool:
    """Whether the name is one of a file with named columns."""
    return suffix(path) in (*DELIMITERS, *OTHERS)


def suffix(path: str | os.PathLike[str]) -> str:
    name = Path(path).name.lower()
    packed = next((end for end in PACKED if name.endswith(end)), "")
    end = Path(name.removesuffix(packed)).suffix
    return end if end in DELIMITERS or not packed else ""


def read_frame(
    path: str | os.PathLike[str],
    text: Collection[str] = (),
    how: Reading = PLAIN,
    missing: Mapping[str, Collection[str]] | None = None,
) -> Frame:
    """The whole file; the columns in `text` are words whatever they look like (01 is not 1), and
    `missing` has words for missing of single columns, in place of all others."""
    path, kind = Path(path), suffix(path)
    check_kind(path)
    if os.path.isdir(path):
        raise DataError(f"{path}: this is a folder, but a {kind} file is needed")
    check_file(path)
    how.check(str(path), kind)
    wanted = _Wanted({*text}, {*cells.MISSING, *how.na}, dict(missing or {}))
    try:
        if kind == ".parquet":
            return _parquet(path, wanted)
        return _excel(path, how, wanted) if kind == ".xlsx" else _csv(path, how, wanted)
    except DataError as error:
        raise error.told("the site's data file cannot be read as a table") from error.__cause__


def check_kind(path: str | os.PathLike[str]) -> None:
    """Refuses what is no table by its name, with what to do."""
    if is_table(path):
        return
    remedy = FOREIGN.get(Path(path).suffix.lower())
    kinds = ".csv, .tsv (also with .gz, .bz2 or .xz), .xlsx or .parquet"
    told = f"feddcd cannot read this file as a table, because its name does not end in {kinds}"
    raise DataError(f"{path}: {told}{f'; {remedy}' if remedy else ''}")


def is_foreign(path: str | os.PathLike[str]) -> bool:
    """Whether the name is that of another program's file, which nothing here reads."""
    return Path(path).suffix.lower() in FOREIGN


def check_used(table: Frame, names: Iterable[str]) -> None:
    """Refuses columns that are about to be used and should not be as they are."""
    for name in names:
        if name in table.doubts:
            raise table.doubts[name].placed(table.file, table.place)


def no_column(table: Frame, name: str, what: str = "") -> DataError:
    """The error for a column that is not there, with the nearest that is."""
    names = list(map(str, table.frame.columns))
    hint = meant(name, names, most=3)
    if _like_data(names):
        hint = "the first line must contain the names of the columns; "
    more = ""
    if len(names) == 1 and any(mark in names[0] for mark in ";|\t, "):
        more = "; if these are several columns, give the character between them with <sep>"
    if table.western and not all(map(str.isascii, names)):
        more += f"; {WRONG_LETTERS.format('<encoding>')}"
    told = f"there is no column {name!r}{what}; {hint}columns: {listed(names)}{more}"
    public = f"the site's data have no column {name!r}"
    settings = {"sep": None, "encoding": CENTRAL}
    return DataError(told, file=table.file, settings=settings, public=public)


def _parquet(path: Path, wanted: _Wanted) -> Frame:
    import numpy as np
    import pandas

    try:
        frame = pandas.read_parquet(path, engine="pyarrow")
    except ImportError:
        raise DataError(
            f"{path}: to read Parquet, feddcd needs the package pyarrow, which is not "
            "installed: pip install 'feddcd[parquet]'"
        ) from None
    except Exception as error:  # pyarrow has its own, and they are not importable without it
        raise DataError(f"{path}: this file cannot be read as Parquet: {error}") from None
    _check_names(str(path), list(frame.columns), rows_named=False)
    for name in frame.columns:
        words = wanted.own.get(name, wanted.missing)
        numbers = [float(word) for word in words if cells.is_number(word)]
        holes = np.asarray(frame[name].isin([*words, *numbers]), bool)
        if holes.any():
            frame[name] = frame[name].mask(holes)
    return Frame(str(path), frame, lambda row: f"in row {row + 1}")


class _Wanted(NamedTuple):
    text: set[str]
    missing: set[str]
    own: dict[str, Collection[str]]  # words for missing of a column, in place of the others


def _csv(path: Path, how: Reading, wanted: _Wanted) -> Frame:
    file, usual = str(path), DELIMITERS[suffix(path)]
    text, encoding = decode(file, whole_text(path), how.encoding)
    sep, skip = separator(file, text, how.sep, usual)
    names, lines, rows = _records(file, text, sep, skip)
    columns = dict(zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True))
    said = [f"the encoding {encoding}"] if encoding != "UTF-8" else []
    said += [f"fields between {SEPARATORS.get(sep, repr(sep))}"] if sep != usual else []
    place, western = lambda row: f"on line {lines[row]}", encoding == WESTERN and not how.encoding
    point = Notation(how.decimal, chosen=True) if how.decimal else None
    made = _frame(file, columns, point, wanted, place, said, sep)
    if not western:
        return made
    more = WRONG_LETTERS.format(f"--encoding {CENTRAL}")
    return made._replace(notes=("; ".join([*made.notes, more]),), western=True)


def _excel(path: Path, how: Reading, wanted: _Wanted) -> Frame:
    point = Notation(how.decimal or ".", chosen=bool(how.decimal))
    sheet = read_cells(path, how.sheet, point.sign)
    _check_names(f"{path}: sheet {sheet.name!r}", sheet.names)
    columns = {composed(name): column for name, column in sheet.columns.items()}
    place, said = lambda row: f"in row {sheet.rows[row]}", [f"the sheet {sheet.name!r}"]
    made = _frame(str(path), columns, point, wanted, place, said, ",")
    more = []
    if sheet.hidden:
        more.append(
            f"Excel hides {plural(sheet.hidden, 'row')} (by a filter or by hand), but feddcd also "
            "uses hidden rows"
        )
    if sheet.shares:
        told = f"Excel shows {listed(sheet.shares, 5)} in per cent, but feddcd reads 97% as 0.97"
        more.append(told)
    return made._replace(notes=("; ".join([*made.notes, *more]),))


def _frame(
    file: str, columns: Mapping[str, Sequence[str]], point: Notation | None, wanted: _Wanted,
    place: Callable[[int], str], said: list[str], sep: str,
) -> Frame:  # fmt: skip
    """Every column as what its fields are, and a note of what had to be guessed."""
    import pandas

    unnamed = "the first column has no name, so feddcd does not use it (it may have names of rows)"
    tail = [unnamed] if "" in columns else []
    columns = {name: fields for name, fields in columns.items() if name}
    point = point or cells.find_notation([columns[c] for c in columns if c not in wanted.text], sep)
    made = {
        name: cells.words(fields, wanted.own.get(name, wanted.missing))
        if name in wanted.text
        else cells.typed(name, fields, wanted.own.get(name, wanted.missing), point)
        for name, fields in columns.items()
    }
    said += ["decimal commas"] if point.sign == "," else []
    if grouped := [name for name, column in made.items() if column.grouped]:
        said.append(f"thousands separators in the column {listed(grouped, 5)}")
    told = [f"feddcd read this file with {sentence_list(said)}"] if said else []
    note = (f"{file}: {'; '.join(told + tail)}",) if told + tail else ()
    doubts = {name: column.doubt for name, column in made.items() if column.doubt is not None}
    values = {name: column.values for name, column in made.items()}
    lost = (
        "the column {!r} has values that begin with 0. feddcd reads them as numbers (01 is 1). To "
        "keep the zeros, use a codebook with type = 'category' for this column"
    )
    remarks = {
        name: lost.format(name)
        for name, column in columns.items()
        if not isinstance(values[name], list) and cells.zeros_lost(column)
    }
    return Frame(file, pandas.DataFrame(values), place, note, doubts, remarks)


def _records(
    file: str, text: str, sep: str, skip: int
) -> tuple[list[str], list[int], list[list[str]]]:
    """The names of the columns, and the rows with the lines they begin on; uneven ones are
    refused."""
    found = records(file, text, sep, skip)
    line, header = next(found, (1, []))
    if not header:
        raise DataError(
            f"{file}: this file is empty; its first line must contain the names of the columns"
        )
    names = [composed(name.strip()) for name in header]
    _check_names(f"{file}:{line}", names)
    numbered = list(found)
    uneven = [(line, fields) for line, fields in numbered if len(fields) != len(names)]
    if uneven:
        line, fields = uneven[0]
        many = f"{plural(len(fields), 'field')}, but the header has {len(names)}"
        told = f"{file}:{line}: this line has {many}"
        unnamed = len(uneven) == len(numbered) and all(len(f) == len(names) + 1 for _, f in uneven)
        raise DataError(told + (_ROW_NAMES if unnamed else _UNEVEN), settings={"sep": None})
    return names, [line for line, _ in numbered], [fields for _, fields in numbered]


_ROW_NAMES = (
    "; if the first field is the name of the row, give the first column a name, or write the "
    "table with row.names = FALSE"
)
_HEADLESS = ". If the first line has data, add a new first line with the names of the columns"
_UNEVEN = "; put a field that contains the separator into quotes, or name the separator with <sep>"


def composed(name: str) -> str:
    """One spelling of what looks alike: an umlaut can be one letter or two."""
    return unicodedata.normalize("NFC", name)


def _like_data(names: Sequence[Any]) -> bool:
    """Many of them are numbers, as in a row."""
    return 3 * sum(is_number(str(name)) for name in names) >= len(names)


def _check_names(where: str, names: Sequence[Any], rows_named: bool = True) -> None:
    """The first column may be without a name: R's write.csv puts names of rows there."""
    more = _HEADLESS if _like_data(names) else ""
    for j, name in enumerate(names):
        if not isinstance(name, str) or (not name and (j or not rows_named or len(names) == 1)):
            odd = "no name" if name in ("", None) else f"the name {name!r}, which is not text"
            raise DataError(
                f"{where}: column {j + 1} of {len(names)} has {odd}; give this column a name, or "
                f"remove it{more}"
            )
    if twice := [name for name, times in Counter(names).items() if times > 1]:
        told = f"{where}: two columns have the name {listed(twice)}; rename one of them{more}"
        raise DataError(told)
    alike = Counter(unicodedata.normalize("NFKC", name) for name in names)
    if look := [n for n in names if alike[unicodedata.normalize("NFKC", n)] > 1]:
        raise DataError(
            f"{where}: the columns {listed(look)} have names that look alike; rename one of them"
        )
