"""A sheet of an Excel file as fields of text, so that it is read as a .csv is."""

from __future__ import annotations

import datetime
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from .._errors import DataError
from .._text import listed, meant


class Sheet(NamedTuple):
    name: str
    names: list[str]
    columns: dict[str, list[str]]
    rows: list[int]  # as Excel counts them


def read_cells(path: Path, wanted: str | None, sign: str) -> Sheet:
    """The sheet of this name, or the only one that holds anything; numbers get this decimal sign,
    as those have that are held as text."""
    title, table = _choose(str(path), _sheets(path, values=True), wanted)
    rows = [(i + 1, list(row)) for i, row in enumerate(table) if any(v is not None for v in row)]
    if not rows:
        told = f"the sheet {title!r} is empty, expected a row with the names of the columns"
        raise DataError(told, file=str(path))
    if any(value is None for _, row in rows for value in row):
        _check_calculated(path, title, rows)
    width = max(len(_trimmed(row)) for _, row in rows)
    padded = [(number, (row + [None] * width)[:width]) for number, row in rows]
    (_, header), *body = padded
    names = ["" if value is None else str(value).strip() for value in header]
    columns = {name: [_field(row[j], sign) for _, row in body] for j, name in enumerate(names)}
    return Sheet(title, names, columns, [number for number, _ in body])


def _sheets(path: Path, *, values: bool) -> dict[str, list[tuple[Any, ...]]]:
    try:
        import openpyxl
    except ImportError:
        told = "Excel files are read by openpyxl, which is not here: pip install 'feddcd[excel]'"
        raise DataError(f"{told}; or save the sheet as .csv", file=str(path)) from None
    try:
        with closing(openpyxl.load_workbook(path, read_only=True, data_only=values)) as book:
            sheets = book.worksheets
            return {sheet.title: list(sheet.iter_rows(values_only=True)) for sheet in sheets}
    except Exception as error:  # of zip files, of XML, and its own
        raise DataError(f"cannot be read as an Excel file: {error}", file=str(path)) from None


def _choose(file: str, sheets: dict[str, Any], wanted: str | None) -> tuple[str, Any]:
    holds = lambda rows: any(value is not None for row in rows for value in row)
    filled = [name for name, rows in sheets.items() if holds(rows)]
    if wanted is None and len(filled) > 1:
        told = f"has the sheets {listed(filled)}: say which with <sheet>"
        raise DataError(told, file=file, settings={"sheet": filled[0]})
    name = wanted if wanted is not None else (filled or list(sheets))[0]
    if name not in sheets:
        hint = meant(name, sheets)
        raise DataError(f"no sheet {name!r}; {hint}sheets: {listed(sheets)}", file=file)
    return name, sheets[name]


def _check_calculated(path: Path, title: str, rows: list[tuple[int, list[Any]]]) -> None:
    """A formula whose value was never saved looks like an empty cell."""
    formulas = _sheets(path, values=False)[title]
    for number, row in rows:
        for value, formula in zip(row, formulas[number - 1], strict=False):
            if value is None and isinstance(formula, str) and formula.startswith("="):
                told = (
                    f"row {number} of {title!r} holds the formula {formula[:40]!r} without a value"
                )
                raise DataError(f"{told}: open it in Excel and save it", file=str(path))


def _trimmed(row: list[Any]) -> list[Any]:
    while row and row[-1] is None:
        row = row[:-1]
    return row


def _field(value: Any, sign: str) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, float):
        return repr(value).replace(".", sign)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        value = value.date()
    return "" if value is None else str(value)
