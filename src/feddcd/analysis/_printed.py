"""What every result with a table offers: the table as LaTeX and as Markdown."""

import abc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from ..report.tables import Group, Row


class PrintedTable(NamedTuple):
    head: "Row"
    groups: "Sequence[Group]"
    notes: Sequence[str]


class AbstractPrinted(abc.ABC):
    """A result whose table goes into a paper."""

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
