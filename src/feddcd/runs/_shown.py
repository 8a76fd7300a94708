"""What a comparison of methods shows, be it of single runs or of medians over seeds."""

import abc
from pathlib import Path
from typing import TYPE_CHECKING

from .._files import write_atomically

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..report import RunEntry


SHOWN = ("compare.tex", "compare.md", "compare.png", "compare.pdf", "report.html")


class AbstractComparison(abc.ABC):
    """What is made of several methods' entries, be they single runs or medians."""

    @property
    @abc.abstractmethod
    def files(self) -> tuple[str, ...]:
        """What `write` writes."""

    @abc.abstractmethod
    def entries(self) -> "list[RunEntry]": ...

    def to_latex(self) -> str:
        """The table that `feddcd compare` prints, for a paper.

        Returns:
            LaTeX, which needs the package booktabs.

        Examples:
            >>> few = dict(algorithms=["pointsaga", "mbsgd"], clients=6, rounds=5)
            >>> race = feddcd.compare("wine", **few)
            >>> "toprule" in race.to_latex()
            True
        """
        from ..report import latex_table

        return latex_table(self.entries())

    def to_markdown(self) -> str:
        """The table that `feddcd compare` prints, for notes and web pages.

        Returns:
            A table in Markdown.

        Examples:
            >>> few = dict(algorithms=["pointsaga", "mbsgd"], clients=6, rounds=5)
            >>> race = feddcd.compare("wine", **few)
            >>> race.to_markdown().count("|") > 10
            True
        """
        from ..report import markdown_table

        return markdown_table(self.entries())

    def plot(self) -> "Figure":
        """Draw the gap of each method against rounds and against bytes.

        Returns:
            A figure of Matplotlib, which `savefig` writes to a file.

        Examples:
            >>> few = dict(algorithms=["pointsaga", "mbsgd"], clients=6, rounds=5)
            >>> race = feddcd.compare("wine", **few)
            >>> race.plot().savefig("race.png")
        """
        from ..report import curves

        return curves(self.entries())

    def write_shown(self, folder: Path, title: str) -> None:
        """compare.tex, compare.md, compare.png, compare.pdf and report.html."""
        from ..report import curves, latex_table, markdown_table, save_pdf, save_png, write

        entries = self.entries()
        put = lambda name, how: write_atomically(folder / name, how)
        text = lambda made: lambda path: path.write_text(made, encoding="utf-8", newline="\n")
        put("compare.tex", text(latex_table(entries)))
        put("compare.md", text(markdown_table(entries)))
        drawn = curves(entries)
        put("compare.png", lambda path: save_png(drawn, path))
        put("compare.pdf", lambda path: save_pdf(drawn, path))
        put("report.html", lambda path: write(entries, path, title=title, kind="compare"))
