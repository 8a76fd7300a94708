"""A sheet of an Excel file as fields of text, so that it is read as a .csv is."""

from __future__ import annotations

import datetime
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from xml.parsers import expat

from .._errors import DataError
from .._text import listed, meant, size
from .files import MOST_UNPACKED

EMPTY, SHARE = 5_000_000, 0.9  # cells of a sheet that hold nothing, and their share, at most

Row = tuple[int, list[Any]]  # as Excel counts it, and its values up to the last one


class Sheet(NamedTuple):
    name: str
    names: list[str]
    columns: dict[str, list[str]]
    rows: list[int]  # as Excel counts them
    hidden: int  # the number of hidden rows
    shares: list[str]  # columns with numbers that Excel shows as percent


class _Walked(NamedTuple):
    rows: list[Row]  # those that hold anything
    shares: set[int]  # columns, counted from 0


def read_cells(path: Path, wanted: str | None, sign: str) -> Sheet:
    """The sheet of this name, or the only one that holds anything; numbers get this decimal sign,
    as those have that are held as text."""
    with _book(path) as book:
        sheets = {sheet.title: sheet for sheet in book.worksheets}
        _check_name(str(path), sheets, wanted)
        chosen = sheets if wanted is None else {wanted: sheets[wanted]}
        walked = {title: _walk(path, sheet) for title, sheet in chosen.items()}
        title = _choose(str(path), walked)
        marks = _marks(sheets[title])
    if marks.formulas:
        _check_calculated(path, title, walked[title].rows)
    rows, shares = walked[title]
    if not rows:
        told = f"the sheet {title!r} is empty; its first row must contain the names of the columns"
        raise DataError(told, file=str(path))
    width = max(len(row) for _, row in rows)
    (_, header), *body = [(number, row + [None] * (width - len(row))) for number, row in rows]
    names = ["" if value is None else str(value).strip() for value in header]
    columns = {name: [_field(row[j], sign) for _, row in body] for j, name in enumerate(names)}
    numbers = [number for number, _ in body]
    percent = [names[j] for j in sorted(shares) if names[j]]
    return Sheet(title, names, columns, numbers, len(marks.hidden & {*numbers}), percent)


@contextmanager
def _book(path: Path, *, values: bool = True) -> Iterator[Any]:
    try:
        import openpyxl
    except ImportError:
        told = (
            "to read an Excel file, feddcd needs the package openpyxl, which is not installed: "
            "pip install 'feddcd[excel]'; or save the sheet as .csv"
        )
        raise DataError(told, file=str(path)) from None
    try:
        _check_size(path)
        with closing(openpyxl.load_workbook(path, read_only=True, data_only=values)) as book:
            yield book
    except DataError:
        raise
    except Exception as error:  # of zip files, of XML, and its own
        raise DataError(
            f"this file cannot be read as an Excel file: {error}", file=str(path)
        ) from None


def _check_size(path: Path) -> None:
    """What the archive says of its parts is as much as will be unpacked of them."""
    with zipfile.ZipFile(path) as archive:
        unpacked = sum(part.file_size for part in archive.infolist())
    if unpacked > MOST_UNPACKED:
        told = (
            f"this file has {size(unpacked)} when it is unpacked, but feddcd reads at most "
            f"{size(MOST_UNPACKED)}: save the sheet as .csv"
        )
        raise DataError(told, file=str(path))


def _check_name(file: str, sheets: dict[str, Any], wanted: str | None) -> None:
    if wanted is not None and wanted not in sheets:
        hint = meant(wanted, sheets)
        told = f"there is no sheet {wanted!r}; {hint}sheets in this file: {listed(sheets)}"
        raise DataError(told, file=file)


def _choose(file: str, walked: dict[str, _Walked]) -> str:
    filled = [title for title, sheet in walked.items() if sheet.rows]
    if len(filled) > 1:
        told = f"this file has the sheets {listed(filled)}: choose one, for example with <sheet>"
        raise DataError(told, file=file, settings={"sheet": filled[0]})
    return (filled or list(walked))[0]


def _walk(path: Path, sheet: Any) -> _Walked:
    """The rows that hold anything. One value in the last corner makes a sheet of billions of empty
    cells, so they are counted on the way."""
    rows: list[Row] = []
    shares: set[int] = set()
    area = filled = 0
    for number, cells in enumerate(sheet.iter_rows(), 1):
        held = [j for j, cell in enumerate(cells) if cell.value is not None]
        area, filled = area + max(len(cells), 1), filled + len(held)
        if area - filled > max(EMPTY, SHARE * area):
            told = (
                f"the sheet {sheet.title!r} has more than {EMPTY:,} empty cells up to row "
                f"{number:,}: delete the empty rows and columns, or save the sheet as .csv"
            )
            raise DataError(told, file=str(path))
        if held:
            rows.append((number, [cell.value for cell in cells[: held[-1] + 1]]))
            shares |= {j for j in held if j not in shares and _is_share(cells[j])}
    return _Walked(rows, shares)


def _is_share(cell: Any) -> bool:
    return isinstance(cell.value, int | float) and "%" in cell.number_format


class _Marks(NamedTuple):
    hidden: set[int]  # rows
    formulas: bool


def _marks(sheet: Any) -> _Marks:
    """What openpyxl does not say about a sheet that it does not hold as a whole."""
    hidden: set[int] = set()
    seen = {"row": 0, "f": 0}

    def start(tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(":")[2]
        if name == "row":
            seen["row"] = int(float(attributes.get("r", seen["row"] + 1)))
            if attributes.get("hidden") in ("1", "true"):
                hidden.add(seen["row"])
        elif name == "f":
            seen["f"] += 1

    parser = expat.ParserCreate()
    parser.StartElementHandler = start
    with sheet._get_source() as source:
        parser.ParseFile(source)
    return _Marks(hidden, seen["f"] > 0)


def _check_calculated(path: Path, title: str, rows: list[Row]) -> None:
    """A formula without a saved value looks like an empty cell."""
    values = dict(rows)
    with _book(path, values=False) as book:
        formulas = _walk(path, book[title]).rows
    for number, row in formulas:
        known = values.get(number, [])
        for j, formula in enumerate(row):
            missing = j >= len(known) or known[j] is None
            if missing and isinstance(formula, str) and formula.startswith("="):
                told = (
                    f"row {number} of the sheet {title!r} contains the formula "
                    f"{formula[:40]!r}, but the file does not contain the result of this formula: "
                    "open the file in Excel and save it again"
                )
                raise DataError(told, file=str(path))


def _field(value: Any, sign: str) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return repr(value).replace(".", sign)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    return "" if value is None else str(value)
