"""Several methods side by side: one run of each, or several seeds with medians and quartiles."""

import abc
import csv
import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .._files import write_atomically
from .._text import plural
from . import folder as disk
from .result import Result

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ..report import RunEntry


class AbstractComparison(abc.ABC):
    """What is made of several methods' entries, be they single runs or medians."""

    @abc.abstractmethod
    def entries(self) -> "list[RunEntry]": ...

    def to_latex(self) -> str:
        """The table that `feddcd compare` prints, as LaTeX with booktabs."""
        from ..report import latex_table

        return latex_table(self.entries())

    def to_markdown(self) -> str:
        """The same table as Markdown."""
        from ..report import markdown_table

        return markdown_table(self.entries())

    def plot(self) -> "Figure":
        from ..report import curves

        return curves(self.entries())

    def write_shown(self, folder: Path, title: str) -> None:
        """compare.tex, compare.md, compare.png and report.html."""
        from ..report import curves, latex_table, markdown_table, save_png, write

        entries = self.entries()
        put = lambda name, how: write_atomically(folder / name, how)
        text = lambda made: lambda path: path.write_text(made, encoding="utf-8", newline="\n")
        put("compare.tex", text(latex_table(entries)))
        put("compare.md", text(markdown_table(entries)))
        put("compare.png", lambda path: save_png(curves(entries), path))
        put("report.html", lambda path: write(entries, path, title=title, kind="compare"))


@dataclass(frozen=True, eq=False)
class Comparison(AbstractComparison):
    """Several methods on the same clients, by name."""

    results: dict[str, Result]

    def __getitem__(self, name: str) -> Result:
        return self.results[name]

    @classmethod
    def load(cls, folder: str | Path) -> "Comparison":
        """From the folder that `compare` wrote, in the order of its methods."""
        folder = Path(folder)
        if any(folder.glob("seed-*/*/summary.json")):
            raise disk.FolderError(
                f"{folder} contains several seeds: read this folder with "
                f"feddcd.Repeats.load({str(folder)!r})"
            )
        names = sorted(path.parent.name for path in folder.glob("*/summary.json"))
        if (folder / "compare.csv").exists():  # in their order
            with open(folder / "compare.csv", newline="", encoding="utf-8") as file:
                order = [row[0] for row in csv.reader(file) if row]
            names.sort(key=lambda name: order.index(name) if name in order else len(order))
        if not names:
            raise disk.FolderError(
                f"{folder} contains no comparison: no folder in it has a summary.json"
            )
        return cls({name: Result.load(folder / name) for name in names})

    def entries(self) -> "list[RunEntry]":
        return [result.entry() for result in self.results.values()]

    def to_pandas(self) -> "pd.DataFrame":
        """One row per method: its summary. All gaps are to the best bound that any run proved."""
        import pandas as pd

        from ..report import certified

        known = lambda summary: {k: math.nan if x is None else x for k, x in summary.items()}
        entries = self.entries()
        gap = lambda r: {"certified_gap": certified(r.entry(), entries)}
        summaries = {name: known(r.summary) | gap(r) for name, r in self.results.items()}
        return pd.DataFrame.from_dict(summaries, orient="index")

    def write(self, folder: Path) -> None:
        """compare.csv and what `write_shown` writes, beside the runs' own folders."""
        from ..report import write_csv

        entries = self.entries()
        write_atomically(folder / "compare.csv", lambda path: write_csv(entries, path))
        self.write_shown(folder, f"{plural(len(entries), 'method')} on {entries[0].config['data']}")


@dataclass(frozen=True, eq=False)
class Repeats(AbstractComparison):
    """The comparisons by seed, all with the same split of the rows."""

    comparisons: dict[int, Comparison]

    def __getitem__(self, seed: int) -> Comparison:
        return self.comparisons[seed]

    @classmethod
    def load(cls, folder: str | Path) -> "Repeats":
        """From the folder that `repeat` wrote."""
        paths = [path for path in Path(folder).glob("seed-*") if path.is_dir()]
        found = {int(path.name.removeprefix("seed-")): path for path in paths}
        if not found:
            raise disk.FolderError(
                f"{folder} contains no repeated runs: there is no folder such as seed-0 in it"
            )
        return cls({seed: Comparison.load(found[seed]) for seed in sorted(found)})

    def entries(self) -> "list[RunEntry]":
        """One for each method: the median of its runs."""
        from ..report import median_entry

        seeds = list(self.comparisons.values())
        names = [name for name in seeds[0].results if all(name in one.results for one in seeds)]
        return [median_entry([one[name].entry() for one in seeds]) for name in names]

    def to_pandas(self) -> "pd.DataFrame":
        """One row for each method and seed."""
        import pandas as pd

        each = [one.to_pandas().assign(seed=seed) for seed, one in self.comparisons.items()]
        return pd.concat(each).rename_axis("method").set_index("seed", append=True)

    def write(self, folder: Path) -> None:
        """repeats.csv and what `write_shown` writes, above the seeds' own folders."""
        entries = self.entries()
        methods = f"{len(entries)} methods" if len(entries) > 1 else entries[0].label
        write_atomically(folder / "repeats.csv", lambda path: self.to_pandas().to_csv(path))
        data = entries[0].config["data"]
        self.write_shown(folder, f"{methods} on {data}, {plural(len(self.comparisons), 'seed')}")
