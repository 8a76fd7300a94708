"""What a run or a comparison looks like to people: figures, tables, one HTML page."""

from ._curves import accuracy, curves, single
from ._entry import RunEntry, best_bound, certified, gap
from ._numbers import (
    latex_table,
    markdown_table,
    proven,
    rich_table,
    rows,
    write_csv,
    write_medians,
)
from ._spread import median_entry
from .figures import save_pdf, save_png, svg
from .run import write

__all__ = [
    "RunEntry",
    "accuracy",
    "best_bound",
    "certified",
    "curves",
    "gap",
    "latex_table",
    "markdown_table",
    "median_entry",
    "proven",
    "rich_table",
    "rows",
    "save_pdf",
    "save_png",
    "single",
    "svg",
    "write",
    "write_csv",
    "write_medians",
]
