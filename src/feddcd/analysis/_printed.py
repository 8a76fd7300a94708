"""What every result with a table offers: the table as LaTeX and as Markdown."""

import abc
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from .._text import listed, plural

if TYPE_CHECKING:
    from ..report.tables import Group, Row


def lacking(refused: Mapping[str, str], most: int | None = None) -> list[str]:
    """Who has no rows in a table, by site why: as its text says it, one line for each, or for the
    first ones."""
    lines, apart = list(refused.values())[:most], "Not part of this table: "
    rest = len(refused) - len(lines)
    return [f"{apart}{why}" for why in [*lines, *([plural(rest, "other site")] if rest else [])]]


def lacking_in_paper(refused: Mapping[str, str]) -> list[str]:
    """The same in one line, by name alone."""
    return [f"Not part of this table: {listed(refused, 10)}."] if refused else []


class PrintedTable(NamedTuple):
    head: "Row"
    groups: "Sequence[Group]"
    notes: Sequence[str]


class AbstractPrinted(abc.ABC):
    """A result with a table for a paper."""

    @abc.abstractmethod
    def printed(self) -> PrintedTable:
        """The table in words."""

    def to_latex(self) -> str:
        """The table for a paper: a tabular that needs \\usepackage{booktabs}."""
        from ..report.printed import latex

        head, groups, notes = self.printed()
        return latex(head, *groups, notes=notes)

    def to_markdown(self) -> str:
        """The table for notes and web pages, with its notes as sentences below it."""
        from ..report.printed import markdown

        head, groups, notes = self.printed()
        return markdown(head, *groups, notes=notes)

    def write_printed(self, folder: Path, name: str) -> Iterator[Path]:
        """NAME.tex and NAME.md."""
        for end, text in (("tex", self.to_latex()), ("md", self.to_markdown())):
            path = folder / f"{name}.{end}"
            path.write_text(text, encoding="utf-8", newline="\n")
            yield path
