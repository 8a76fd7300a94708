"""Several methods side by side: one run of each, or several seeds with medians and quartiles."""

import csv
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .._files import write_atomically
from .._text import plural
from . import folder as disk
from ._shown import SHOWN, AbstractComparison
from .result import Result

if TYPE_CHECKING:
    import pandas as pd

    from ..report import RunEntry


@dataclass(frozen=True, eq=False)
class Comparison(AbstractComparison):
    """Several methods on the same clients. `compare` makes it; `Comparison.load` reads it.

    A loop over it gives the names of the methods, and `comparison[name]` is the result of one.

    Args:
        results: The `Result` of each method, by its label.

    Examples:
        >>> race = feddcd.compare("wine", algorithms=["pointsaga", "mbsgd"], clients=6, rounds=5)
        >>> [race[name].history.rounds for name in race]
        [5, 5]
    """

    results: dict[str, Result]

    def __getitem__(self, name: str) -> Result:
        return self.results[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.results)

    def __len__(self) -> int:
        return len(self.results)

    def __repr__(self) -> str:
        return f"Comparison({', '.join(self)})"

    @property
    def files(self) -> tuple[str, ...]:
        return ("compare.csv", *SHOWN)

    @classmethod
    def load(cls, folder: str | Path) -> "Comparison":
        """Read a comparison from its folder.

        Args:
            folder: The folder that `compare` wrote (its argument `out`).

        Returns:
            The comparison, with its methods in their order.

        Raises:
            FolderError: The folder has no comparison, or one with several seeds.

        Examples:
            >>> few = dict(algorithms=["pointsaga", "mbsgd"], clients=6, rounds=5)
            >>> race = feddcd.compare("wine", out="runs/race", **few)
            >>> feddcd.Comparison.load("runs/race")
            Comparison(pointsaga, mbsgd)
        """
        folder = Path(folder)
        if any(folder.glob("seed-*/*/summary.json")):
            raise disk.FolderError(
                f"the folder {str(folder)!r} contains runs with several seeds: read this folder "
                f"with feddcd.Repeats.load({str(folder)!r})"
            )
        names = sorted(path.parent.name for path in folder.glob("*/summary.json"))
        if not names:
            raise disk.FolderError(
                f"the folder {str(folder)!r} contains no comparison: none of its folders has a "
                "file summary.json"
            )
        found, order = {name: Result.load(folder / name) for name in names}, []
        if (folder / "compare.csv").exists():
            with open(folder / "compare.csv", newline="", encoding="utf-8") as file:
                order = [row[0] for row in csv.reader(file) if row]
        label = lambda name: found[name].summary["algorithm"]
        names.sort(key=lambda name: order.index(x) if (x := label(name)) in order else len(order))
        return cls({name: found[name] for name in names})

    def entries(self) -> "list[RunEntry]":
        return [result.entry() for result in self.results.values()]

    def to_pandas(self) -> "pd.DataFrame":
        """One row for each method.

        Returns:
            A data frame with the summary of each run, its `gap` to the largest lower bound that any
                of the runs has proven, and the rounds, uploads and bytes to each gap. The distance
                to the optimum is at most `gap`, and can be much smaller; files call this column
                `gap_at_most`. A `gap` also depends on the other methods: beside a method that
                proves a better bound, it is smaller. Only differences between gaps do not depend
                on them.

        Examples:
            >>> few = dict(algorithms=["pointsaga", "mbsgd"], clients=6, rounds=5)
            >>> race = feddcd.compare("wine", **few)
            >>> race.to_pandas()["uploads"].to_dict()
            {'pointsaga': 10, 'mbsgd': 10}
        """
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
        """Write the table (CSV, LaTeX, Markdown), the curves and report.html.

        `compare` with `out` writes these files itself.

        Args:
            folder: An existing folder; files with these names are replaced.

        Examples:
            >>> few = dict(algorithms=["pointsaga", "mbsgd"], clients=6, rounds=5)
            >>> race = feddcd.compare("wine", **few)
            >>> Path("table").mkdir()
            >>> race.write(Path("table"))
            >>> Path("table", "compare.csv").exists()
            True
        """
        from ..report import write_csv

        entries = self.entries()
        write_atomically(folder / "compare.csv", lambda path: write_csv(entries, path))
        self.write_shown(folder, f"{plural(len(entries), 'method')} on {entries[0].config['data']}")


@dataclass(frozen=True, eq=False)
class Repeats(AbstractComparison):
    """One comparison for each seed, all with the same split of the rows. `repeat` makes it.

    A loop over it gives the seeds, and `repeats[seed]` is the comparison of one.

    Args:
        comparisons: The `Comparison` of each seed.

    Examples:
        >>> repeats = feddcd.repeat("wine", algorithms=["mbsgd"], seeds=2, clients=6, rounds=5)
        >>> repeats[1]["mbsgd"].history.rounds
        5
    """

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

    @property
    def files(self) -> tuple[str, ...]:
        return ("repeats.csv", "medians.csv", *SHOWN)

    @classmethod
    def load(cls, folder: str | Path) -> "Repeats":
        """Read repeated runs from their folder.

        Args:
            folder: The folder that `repeat` wrote (its argument `out`).

        Returns:
            The comparisons, by seed.

        Raises:
            FolderError: The folder has no repeated runs.

        Examples:
            >>> few = dict(algorithms=["mbsgd"], seeds=2, clients=6, rounds=5)
            >>> repeats = feddcd.repeat("wine", out="runs/seeds", **few)
            >>> feddcd.Repeats.load("runs/seeds")
            Repeats(seeds 0, 1 of mbsgd)
        """
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
        """One row for each method and seed.

        Returns:
            A data frame as of a comparison. The column `gap` uses the largest lower bound of all
                methods and seeds.

        Examples:
            >>> few = dict(algorithms=["mbsgd"], seeds=2, clients=6, rounds=5)
            >>> repeats = feddcd.repeat("wine", **few)
            >>> repeats.to_pandas().index.names
            FrozenList(['method', 'seed'])
        """
        import pandas as pd

        runs = [entry for one in self.comparisons.values() for entry in one.entries()]
        each = [one.beside(runs).assign(seed=seed) for seed, one in self.comparisons.items()]
        return pd.concat(each).rename_axis("method").set_index("seed", append=True)

    def write(self, folder: Path) -> None:
        """Write the tables (repeats.csv, medians.csv, LaTeX, Markdown), the curves and report.html.

        `repeat` with `out` writes these files itself.

        Args:
            folder: An existing folder; files with these names are replaced.

        Examples:
            >>> few = dict(algorithms=["mbsgd"], seeds=2, clients=6, rounds=5)
            >>> repeats = feddcd.repeat("wine", **few)
            >>> Path("medians").mkdir()
            >>> repeats.write(Path("medians"))
            >>> Path("medians", "medians.csv").exists()
            True
        """
        from ..report import write_medians

        entries = self.entries()
        methods = f"{len(entries)} methods" if len(entries) > 1 else entries[0].label
        table = self.to_pandas().rename(columns={"gap": "gap_at_most"})
        write_atomically(folder / "repeats.csv", lambda path: table.to_csv(path))
        write_atomically(folder / "medians.csv", lambda path: write_medians(entries, path))
        data = entries[0].config["data"]
        self.write_shown(folder, f"{methods} on {data}, {plural(len(self.comparisons), 'seed')}")
