"""`feddcd.repeat`: several methods over several seeds, with medians and quartiles."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .._errors import SpecError
from .._files import write_atomically
from .api import AbstractComparison, Comparison, compare
from .folder import FolderError
from .run import Progress

if TYPE_CHECKING:
    import pandas as pd

    from ..report import RunEntry

MOST = 1000


@dataclass(frozen=True, eq=False)
class Repeats(AbstractComparison):
    """The comparisons by seed, all on one split of the rows."""

    comparisons: dict[int, Comparison]

    def __getitem__(self, seed: int) -> Comparison:
        return self.comparisons[seed]

    @classmethod
    def load(cls, folder: str | Path) -> "Repeats":
        """From the folder that `repeat` wrote."""
        paths = [path for path in Path(folder).glob("seed-*") if path.is_dir()]
        found = {int(path.name.removeprefix("seed-")): path for path in paths}
        if not found:
            raise FolderError(f"{folder} holds no repeats: no folder seed-0 or the like is in it")
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
        """repeats.csv, compare.tex, compare.png and report.html, above the seeds' own folders."""
        entries = self.entries()
        methods = f"{len(entries)} methods" if len(entries) > 1 else entries[0].label
        write_atomically(folder / "repeats.csv", lambda path: self.to_pandas().to_csv(path))
        data = entries[0].config["data"]
        self.write_shown(folder, f"{methods} on {data}, {len(self.comparisons)} seeds")


def repeat(
    data: Any = "digits",
    *,
    seeds: int = 5,
    seed: int = 0,
    split_seed: int | None = None,
    out: str | Path | None = None,
    watch: Callable[[str, Progress], None] = lambda name, progress: None,
    **options: Any,
) -> Repeats:
    """`compare` with the seeds seed, seed + 1, ..., over one split of the rows, so that all runs
    have the same optimum. The rows are shared out by `split_seed`, or else by the first seed."""
    if isinstance(seeds, bool) or not isinstance(seeds, int) or not 2 <= seeds <= MOST:
        raise SpecError(f"need 2 <= seeds <= {MOST}, got seeds={seeds!r}")
    split = seed if split_seed is None else split_seed
    comparisons = {}
    for one in range(seed, seed + seeds):
        told = lambda name, progress, one=one: watch(f"{name} {one}", progress)
        folder = None if out is None else Path(out) / f"seed-{one}"
        comparisons[one] = compare(
            data, seed=one, split_seed=split, out=folder, watch=told, **options
        )
        if any(r.summary["status"] == "stopped" for r in comparisons[one].results.values()):
            break
    repeats = Repeats(comparisons)
    if out is not None:
        repeats.write(Path(out))
    return repeats
