"""`feddcd.run` and `feddcd.compare`: the whole library in two functions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._files import write_atomically
from ..algorithms import AbstractAlgorithm
from ..data import Dataset
from . import folder as disk
from .build import load_data
from .result import Result
from .run import Progress, execute
from .spec import (Setting, Spec)
from .._errors import SpecError

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

Watch = Callable[[str, Progress], None]


def run(
    data: str | Dataset | tuple[Any, Any] = "digits",
    *,
    algorithm: str | AbstractAlgorithm = "feddcd",
    settings: Mapping[str, Setting] | None = None,
    parts: Sequence[np.ndarray] | None = None,
    out: str | Path | None = None,
    watch: Callable[[Progress], None] = lambda progress: None,
    **options: Any,
) -> Result:
    """Train one model over clients and say how close to the optimum it is proven to be.

    `data` is a name, a path, a `Dataset` or a pair (X, y); `parts` gives each client's rows
    in place of a partition scheme. `options` are the fields of `Spec`: model, partition,
    clients, tau, l2, weighting, rounds, target_gap, seed, ...
    """
    name, loaded = _data(data)
    chosen = algorithm if isinstance(algorithm, str) else "feddcd"
    if parts is not None:
        options["clients"] = len(parts)
    spec = Spec(data=name, algorithm=chosen, settings=dict(settings or {}), **options)
    return execute(
        spec,
        folder=None if out is None else Path(out),
        watch=watch,
        data=loaded,
        parts=None if parts is None else [np.asarray(part) for part in parts],
        algorithm=None if isinstance(algorithm, str) else algorithm,
    )


def resume(
    folder: str | Path,
    *,
    rounds: int | None = None,
    target_gap: float | None = None,
    watch: Callable[[Progress], None] = lambda progress: None,
) -> Result:
    """Go on with a saved run, to more rounds or another target if asked."""
    folder = Path(folder)
    values = disk.read_spec(folder).to_dict()
    if rounds is not None:
        values["rounds"] = rounds
    if target_gap is not None:
        values["target_gap"] = target_gap
    return execute(Spec(**values), folder=folder, resume=True, watch=watch)


@dataclass(frozen=True, eq=False)
class Comparison:
    """Several methods on the same clients, by name."""

    results: dict[str, Result]

    def __getitem__(self, name: str) -> Result:
        return self.results[name]

    def to_pandas(self) -> "pd.DataFrame":
        """One row per method: its summary."""
        import pandas as pd

        return pd.DataFrame({name: r.summary for name, r in self.results.items()}).T

    def plot(self) -> "Figure":
        from ..report import curves

        return curves([r.entry() for r in self.results.values()])

    def write(self, folder: Path) -> None:
        """compare.csv, compare.png and report.html, beside the runs' own folders."""
        from ..report import curves, save_png, write, write_csv

        entries = [r.entry() for r in self.results.values()]
        title = f"{len(entries)} methods on {entries[0].config['data']}"
        put = lambda name, how: write_atomically(folder / name, how)
        put("compare.csv", lambda path: write_csv(entries, path))
        put("compare.png", lambda path: save_png(curves(entries), path))
        put("report.html", lambda path: write(entries, path, title=title, kind="compare"))


def compare(
    data: str | Dataset | tuple[Any, Any] = "digits",
    *,
    algorithms: Sequence[str] = ("feddcd", "accfeddcd", "pointsaga", "fedavg"),
    settings: Mapping[str, Mapping[str, Setting]] | None = None,
    parts: Sequence[np.ndarray] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    watch: Watch = lambda name, progress: None,
    **options: Any,
) -> Comparison:
    """Run several methods on the same clients; `settings` are by algorithm."""
    settings = settings or {}
    if len(set(algorithms)) != len(algorithms) or not algorithms:
        raise SpecError(f"name each algorithm once, got {list(algorithms)}")
    odd = [name for name in settings if name not in algorithms]
    if odd:
        raise SpecError(f"settings for {odd}, which are not compared: {list(algorithms)}")
    name, loaded = _data(data)
    specs = {
        a: Spec(data=name, algorithm=a, settings=dict(settings.get(a, {})), **options)
        for a in algorithms
    }
    from .methods import check_names

    for spec in specs.values():
        check_names(spec)
    first = specs[algorithms[0]]
    loaded = load_data(first) if loaded is None else loaded
    given = None if parts is None else [np.asarray(part) for part in parts]
    results = {}
    for a, spec in specs.items():
        folder = None if out is None else Path(out) / a
        results[a] = execute(
            spec,
            folder=folder,
            resume=resume and folder is not None and (folder / "checkpoint.npz").exists(),
            watch=lambda progress, a=a: watch(a, progress),
            data=loaded,
            parts=given,
        )
        if results[a].summary["status"] == "stopped":
            break
    comparison = Comparison(results)
    if out is not None:
        comparison.write(Path(out))
    return comparison


def _data(data: str | Dataset | tuple[Any, Any]) -> tuple[str, Dataset | None]:
    if isinstance(data, str):
        return data, None
    if isinstance(data, Path):
        return str(data), None
    if isinstance(data, Dataset):
        return data.name, data
    if not isinstance(data, tuple | list) or len(data) != 2:
        raise SpecError(
            f"data is a name, a path, a Dataset or a pair (X, y), not {type(data).__name__}"
        )
    X, y = data
    return "arrays", Dataset("arrays", X, np.asarray(y, float))
