"""One table for a page, one for the terminal: rows of text, in groups, some cells in bold.

The first cell of a row is its name and stands left; the others are numbers and stand right.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING

from .page import text

if TYPE_CHECKING:
    from rich.table import Table

Row = Sequence[str]
Group = tuple[str, Sequence[Row]]  # a heading, or "", and what stands under it

LONG = 30  # letters of a heading that needs a wide column
USUAL_WIDTH = 80  # of a terminal; a wider table has its columns closer together


class Bold(str):
    """A cell that stands out."""


class Drawn(str):
    """A cell that is HTML already, as a figure is."""


def table(caption: str, head: Row, *groups: Group, style: str = "") -> str:
    """A table that scrolls within its own frame where the window is narrow; `style` may be
    `words`, which stand left and break."""
    look = f' class="{style}"' if style else ""
    titles = "".join(f'<th scope="col"{_wide(name)}>{text(name)}</th>' for name in head)
    top = f"<thead><tr>{titles}</tr></thead>\n" if any(head) else ""
    cell = text if style == "words" else _numbers
    body = "\n".join(_group(heading, rows, len(head), cell) for heading, rows in groups)
    return (
        f'<div class="scroll" role="region" tabindex="0" aria-label="{escape(caption)}">\n'
        f"<table{look}><caption><span>{text(caption)}</span></caption>\n"
        f"{top}{body}\n</table></div>"
    )


def pairs(caption: str, rows: Iterable[Row], style: str = "facts") -> str:
    """Names and values downwards: `facts` are numbers, `settings` are words."""
    cell = text if style == "settings" else escape
    body = "\n".join(_row(row, cell) for row in rows) or _row(("none", ""), cell)
    return (
        f'<table class="{style}"><caption>{escape(caption)}</caption>\n'
        f"<tbody>\n{body}\n</tbody></table>"
    )


def _group(heading: str, rows: Iterable[Row], width: int, cell: Callable[[str], str]) -> str:
    place = f'<th class="group" scope="rowgroup" colspan="{width}">'
    first = [f"<tr>{place}{text(heading)}</th></tr>"] if heading else []
    return "\n".join(["<tbody>", *first, *(_row(row, cell) for row in rows), "</tbody>"])


def _row(cells: Row, cell: Callable[[str], str]) -> str:
    first, *rest = cells
    values = "".join(f"<td>{_cell(word, cell)}</td>" for word in rest)
    name = escape(first).replace("_", "_<wbr>")  # body_mass_index breaks between its words
    return f'<tr><th scope="row">{name}</th>{values}</tr>'


def _wide(name: str) -> str:
    """On a phone, a heading of many words has no line for each word."""
    return ' class="long"' if len(name) > LONG else ""


def _numbers(word: str) -> str:
    """Where a wide table breaks them on paper, `(49.8 %)` stays in one piece."""
    return re.sub(r"\([\d.]+ %\)", r'<span class="n">\g<0></span>', escape(word))


def _cell(word: str, cell: Callable[[str], str]) -> str:
    if isinstance(word, Drawn):
        return word
    return f"<b>{cell(word)}</b>" if isinstance(word, Bold) else cell(word)


def terminal_table(head: Row, *groups: Group, notes: Sequence[str] = ()) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    names = [name.replace(" ", "\n", 1) for name in head]
    columns = zip(names, *(row for _, rows in groups for row in rows), strict=True)
    widths = [max(len(line) for cell in c for line in cell.split("\n")) for c in columns]
    gap = 1 if sum(widths) + 2 * len(widths) < USUAL_WIDTH else 0  # beside that of the box
    written = Table(box=SIMPLE_HEAD, padding=(0, gap, 0, 0), pad_edge=False, caption_justify="left")
    written.caption = Text("\n".join(notes)) if notes else None
    for k, name in enumerate(names):
        written.add_column(name, justify="right" if k else "left", overflow="fold")
    for heading, rows in groups:
        if heading:
            written.add_row(Text(heading, "bold"))
        for first, *rest in rows:
            cells = [Text(cell, "bold" if isinstance(cell, Bold) else "") for cell in rest]
            written.add_row(Text(f"  {first}" if heading else first), *cells)
        written.add_section()
    return written
