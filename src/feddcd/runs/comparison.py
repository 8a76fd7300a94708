"""Several methods side by side: one run of each, or several seeds with medians and quartiles."""

import abc
import csv
import math
from collections.abc import Iterator
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


@dataclass(frozen=True, eq=False)
class Comparison(AbstractComparison):
    """Several methods on the same clients, by name: a loop over it has the names."""

    results: dict[str, Result]

    def __getitem__(self, name: str) -> Result:
        return self.results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self)})"

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
        """One row per method: its summary, its `gap` to the best bound that any of the runs proved,
        and the rounds, uploads and bytes to each gap."""
        return self.beside(self.entries())

    def beside(self, entries: "list[RunEntry]") -> "pd.DataFrame":
        """The same, with the best bound of these runs."""
        import pandas as pd

        from ..report import proven

        known = lambda summary: {k: math.nan if x is None else x for k, x in summary.items()}
        row = lambda result: known(result.summary) | proven(result.entry(), entries)
        rows = {name: row(result) for name, result in self.results.items()}
        return pd.DataFrame.from_dict(rows, orient="index")

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

    def __iter__(self) -> Iterator[int]:
        return iter(self.comparisons)

    def __len__(self) -> int:
        return len(self.comparisons)

    def __repr__(self) -> str:
        methods = dict.fromkeys(name for one in self.comparisons.values() for name in one)
        return f"Repeats(seeds {', '.join(map(str, self))} of {', '.join(methods)})"

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
        """One row for each method and seed. The best bound is that of all methods and seeds."""
        import pandas as pd

        runs = [entry for one in self.comparisons.values() for entry in one.entries()]
        each = [one.beside(runs).assign(seed=seed) for seed, one in self.comparisons.items()]
        return pd.concat(each).rename_axis("method").set_index("seed", append=True)

    def write(self, folder: Path) -> None:
        """repeats.csv, medians.csv and what `write_shown` writes, above the seeds' own folders."""
        from ..report import write_medians

        entries = self.entries()
        methods = f"{len(entries)} methods" if len(entries) > 1 else entries[0].label
        write_atomically(folder / "repeats.csv", lambda path: self.to_pandas().to_csv(path))
        write_atomically(folder / "medians.csv", lambda path: write_medians(entries, path))
        data = entries[0].config["data"]
        self.write_shown(folder, f"{methods} on {data}, {plural(len(self.comparisons), 'seed')}")
