"""`feddcd.run` and `feddcd.compare`: the whole library in two functions."""

import abc
import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from .._errors import SpecError
from .._files import write_atomically
from .._types import Params
from ..algorithms import AbstractAlgorithm
from ..problems import AbstractProblem
from . import folder as disk
from ._inputs import choose, collect
from .auto import AUTO
from .build import check_names, load_data
from .result import Result
from .run import Progress, execute
from .spec import Setting, Spec

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from ..report import RunEntry

Watch = Callable[[str, Progress], None]
Algorithms = Sequence[str | AbstractAlgorithm] | Mapping[str, str | AbstractAlgorithm]


def run(
    data: Any = "digits",
    *,
    algorithm: str | AbstractAlgorithm | None = None,
    settings: Mapping[str, Setting] | None = None,
    model: Any = "softmax",
    loss: float | Callable | None = None,
    score: Callable | None = None,
    problem: AbstractProblem | None = None,
    w: Params | None = None,
    parts: Sequence[np.ndarray] | None = None,
    names: Sequence[str] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    watch: Callable[[Progress], None] = lambda progress: None,
    **options: Any,
) -> Result:
    """Train one model over clients and say how close to the optimum it is proven to be.

    `data` is a name, a path, a `Dataset`, a pair (X, y), a data frame with `label=...`, or a list
    or dict with such a pair or frame for every client; `parts` gives each client's rows in place
    of a partition scheme, and `names` what the clients are called. `model` is a name, a family,
    or an equinox module together with `loss` (and `score`), functions of (model, x, y) for one
    example. `problem`, all clients' objectives stacked, is in place of data and model; `w` is
    where the run starts. `algorithm` is a name, with `settings`, or an object; without one and
    without settings the method is chosen (`auto`), and `summary` says why. With `resume` the
    run in the folder `out` goes on. `options` are the fields of `Spec`: partition, clients, tau,
    l2, weighting, rounds, target_gap, seed, ...; `loss=0.1` as a number loses a tenth of the
    uploads.
    """
    spec, given = collect(
        data, problem=problem, model=model, loss=loss, score=score, parts=parts, w=w,
        names=names, options=options,
    )  # fmt: skip
    if algorithm is None:  # settings without a name are FedDCD's
        algorithm = Spec.algorithm if settings else AUTO
    spec, given = choose(spec, given, algorithm, settings)
    if resume and out is None:
        raise SpecError("resume=True goes on with the run in a folder: give out=...")
    folder = None if out is None else Path(out)
    return execute(spec, folder=folder, resume=resume, watch=watch, given=given)


def resume(
    folder: str | Path,
    data: Any = None,
    *,
    rounds: int | None = None,
    target_gap: float | None = None,
    algorithm: AbstractAlgorithm | None = None,
    model: Any = None,
    loss: Callable | None = None,
    score: Callable | None = None,
    problem: AbstractProblem | None = None,
    w: Params | None = None,
    parts: Sequence[np.ndarray] | None = None,
    names: Sequence[str] | None = None,
    watch: Callable[[Progress], None] = lambda progress: None,
) -> Result:
    """Go on with a saved run, to more rounds or another target if asked.

    What Python gave to the run (data, problem, model, algorithm, parts, w) has to be given again,
    as it was: a folder holds names alone, and a checksum by which others are refused.
    """
    folder = Path(folder)
    spec = disk.read_spec(folder)
    changed = {"rounds": rounds, "target_gap": target_gap}
    spec = replace(spec, **{name: x for name, x in changed.items() if x is not None})
    columns = {name: getattr(spec, name) for name in ("label", "group") if data is not None}
    _, given = collect(
        "digits" if data is None else data, problem=problem,
        model="softmax" if model is None else model, loss=loss, score=score, parts=parts, w=w,
        names=names, options={k: v for k, v in columns.items() if v is not None},
    )  # fmt: skip
    if algorithm is not None:
        given = given._replace(algorithm=algorithm)
    return execute(spec, folder=folder, resume=True, watch=watch, given=given)


class AbstractComparison(abc.ABC):
    """What is made of several methods' entries, be they single runs or medians."""

    @abc.abstractmethod
    def entries(self) -> "list[RunEntry]": ...

    def to_latex(self) -> str:
        """The table that `feddcd compare` prints, as LaTeX with booktabs."""
        from ..report import latex_table

        return latex_table(self.entries())

    def plot(self) -> "Figure":
        from ..report import curves

        return curves(self.entries())

    def write_shown(self, folder: Path, title: str) -> None:
        """compare.tex, compare.png and report.html."""
        from ..report import curves, latex_table, save_png, write

        entries = self.entries()
        put = lambda name, how: write_atomically(folder / name, how)
        put("compare.tex", lambda path: path.write_text(latex_table(entries)))
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
        names = sorted(path.parent.name for path in folder.glob("*/summary.json"))
        if (folder / "compare.csv").exists():  # in their order
            with open(folder / "compare.csv", newline="", encoding="utf-8") as file:
                order = [row[0] for row in csv.reader(file) if row]
            names.sort(key=lambda name: order.index(name) if name in order else len(order))
        if not names:
            raise disk.FolderError(f"{folder} holds no comparison: no summary.json lies below it")
        return cls({name: Result.load(folder / name) for name in names})

    def entries(self) -> "list[RunEntry]":
        return [result.entry() for result in self.results.values()]

    def to_pandas(self) -> "pd.DataFrame":
        """One row per method: its summary."""
        import pandas as pd

        return pd.DataFrame({name: r.summary for name, r in self.results.items()}).T

    def write(self, folder: Path) -> None:
        """compare.csv, compare.tex, compare.png and report.html, beside the runs' own folders."""
        from ..report import write_csv

        entries = self.entries()
        write_atomically(folder / "compare.csv", lambda path: write_csv(entries, path))
        self.write_shown(folder, f"{len(entries)} methods on {entries[0].config['data']}")


def compare(
    data: Any = "digits",
    *,
    algorithms: Algorithms = ("feddcd", "accfeddcd", "pointsaga", "fedavg"),
    settings: Mapping[str, Mapping[str, Setting]] | None = None,
    model: Any = "softmax",
    loss: float | Callable | None = None,
    score: Callable | None = None,
    problem: AbstractProblem | None = None,
    w: Params | None = None,
    parts: Sequence[np.ndarray] | None = None,
    names: Sequence[str] | None = None,
    out: str | Path | None = None,
    resume: bool = False,
    watch: Watch = lambda name, progress: None,
    **options: Any,
) -> Comparison:
    """Run several methods on the same clients; all else is as `run` takes it.

    `algorithms` are names and objects, or a dict with a name or an object under each label;
    `settings` are by label. An object in a list is called as its class.
    """
    settings, methods = settings or {}, _labelled(algorithms)
    odd = [label for label in settings if label not in methods]
    if odd:
        raise SpecError(f"settings for {odd}, which are not compared: {list(methods)}")
    spec, given = collect(
        data, problem=problem, model=model, loss=loss, score=score, parts=parts, w=w,
        names=names, options=options,
    )  # fmt: skip
    runs = {
        label: choose(spec, given, method, settings.get(label)) for label, method in methods.items()
    }
    for chosen, own in runs.values():
        check_names(own.named(chosen))
    if given.data is None and given.problem is None:
        loaded = load_data(spec)
        runs = {a: (chosen, own._replace(data=loaded)) for a, (chosen, own) in runs.items()}
    results = {}
    for label, (chosen, own) in runs.items():
        folder = None if out is None else Path(out) / label
        results[label] = execute(
            chosen,
            folder=folder,
            resume=resume and folder is not None and (folder / "checkpoint.npz").exists(),
            watch=lambda progress, label=label: watch(label, progress),
            given=own,
            label=label,
        )
        if results[label].summary["status"] == "stopped":
            break
    comparison = Comparison(results)
    if out is not None:
        comparison.write(Path(out))
    return comparison


def _labelled(algorithms: Algorithms) -> dict[str, str | AbstractAlgorithm]:
    """The methods by what they are called, which names their folders, too."""
    if isinstance(algorithms, Mapping):
        methods = dict(algorithms)
    else:
        label = lambda method: method if isinstance(method, str) else type(method).__name__
        methods = {label(method): method for method in algorithms}
    if len(methods) != len(algorithms) or not methods:
        raise SpecError(f"name each algorithm once, got {list(algorithms)}")
    odd = [label for label in methods if not isinstance(label, str) or Path(label).name != label]
    if odd:
        raise SpecError(f"a label is a word that can name a folder, not {odd[0]!r}")
    return methods
