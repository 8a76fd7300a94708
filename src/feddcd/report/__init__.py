"""What a run or a comparison looks like to people: figures, tables, one HTML page."""

from ._entry import Entry, best_bound, gap
from .figures import accuracy, curves, save_png, single, svg
from .html import write
from .tables import rich_table, rows, write_csv

__all__ = [
    "Entry",
    "accuracy",
    "best_bound",
    "curves",
    "gap",
    "rich_table",
    "rows",
    "save_png",
    "single",
    "svg",
    "write",
    "write_csv",
]
