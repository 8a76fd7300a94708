"""What a run found."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import PyTree

from .._files import write_atomically
from .._text import fixed, plural, upper
from ..history import History
from . import folder as disk
from .spec import Spec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..report import RunEntry


class Certified(NamedTuple):
    """objective >= optimum >= lower_bound (F/N). Where nothing is proven, the last two are nan, and
    `reason` says why."""

    objective: float
    lower_bound: float
    gap: float
    reason: str = ""

    def __repr__(self) -> str:
        shown = {name: value for name, value in self._asdict().items() if value != ""}
        return f"Certified({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


@dataclass(frozen=True, eq=False)
class Result:
    """What a run found. `run` makes it; `Result.load` reads it from a folder.

    Args:
        spec: The settings of the run.
        history: A `History` with one row for each round; `history.to_pandas()` is a data frame.
        model: The trained numbers: an array with a row for each feature, or your own module with
            its trained numbers.
        certificate: The proof: `objective`, `lower_bound` and `gap`, each divided by the number of
            clients. The optimum is at least `lower_bound`. If nothing is proven, `lower_bound` and
            `gap` are nan, and `reason` says why.
        summary: The last row of the history, and facts such as the seconds for compiling.
        classes: The classes that the columns of the model stand for, if there are any.
        names: The names of the clients, if they have any.

    Examples:
        >>> result = feddcd.run("wine", algorithm="pointsaga", clients=6, rounds=5)
        >>> result.model.shape
        (13, 3)
        >>> result.certificate.objective >= result.certificate.lower_bound
        True
    """

    spec: Spec
    history: History
    model: PyTree
    certificate: Certified
    summary: dict[str, Any]
    classes: np.ndarray | None = None
    names: tuple[str, ...] | None = None  # of the clients, where Python or a column has them

    @classmethod
    def load(cls, folder: str | Path) -> "Result":
        """Read a finished run from its folder.

        Args:
            folder: The folder that `run` wrote (its argument `out`).

        Returns:
            The result. A model of several arrays is a dict of these arrays.

        Raises:
            FolderError: The folder has no run, or one of its files is damaged.

        Examples:
            >>> wine = dict(algorithm="pointsaga", clients=6, rounds=5)
            >>> result = feddcd.run("wine", out="runs/loaded", **wine)
            >>> feddcd.Result.load("runs/loaded").history.rounds
            5
        """
        folder = Path(folder)
        spec, history = disk.read_spec(folder), disk.read_history(folder)
        summary = disk.read_summary(folder)
        model, classes = disk.read_model(folder)
        last = {name: history.last(name) for name in ("objective", "lower_bound")}
        reason = str(summary.get("unproven", ""))
        certificate = Certified(**last, gap=history.last("certified_gap"), reason=reason)
        return cls(spec, history, model, certificate, summary, classes)

    def __repr__(self) -> str:
        objective, _, gap, reason = self.certificate
        proven = f"no certificate ({reason})" if reason else f"certified gap {upper(gap)}"
        return (
            f"Result({self.summary['algorithm']} on {self.spec.data}: "
            f"{plural(self.history.rounds, 'round')}, objective {fixed(objective, 6)}, {proven})"
        )

    def plot(self) -> "Figure":
        """Draw the certified gap, the accuracy and the dual residual by round.

        Returns:
            A figure of Matplotlib, which `savefig` writes to a file.

        Examples:
            >>> result = feddcd.run("wine", algorithm="pointsaga", clients=6, rounds=5)
            >>> result.plot().savefig("wine.png")
        """
        from ..report import single

        return single(self.entry())

    def entry(self) -> "RunEntry":
        from ..report import RunEntry

        return RunEntry(self.summary["algorithm"], self.history, self.summary, self.spec.to_dict())

    def write(self, folder: Path) -> None:
        """Write summary.json, model.npz and report.html.

        A run with `out` writes these files itself, and the other files of its folder.

        Args:
            folder: An existing folder; files with these names are replaced.

        Examples:
            >>> result = feddcd.run("wine", algorithm="pointsaga", clients=6, rounds=5)
            >>> Path("written").mkdir()
            >>> result.write(Path("written"))
            >>> sorted(path.name for path in Path("written").iterdir())
            ['model.npz', 'report.html', 'summary.json']
        """
        from ..report import write

        disk.write_summary(folder, self.summary)
        disk.write_model(folder, self.model, self.classes)
        title = f"{self.summary['algorithm']} on {self.spec.data}"
        write_atomically(
            folder / "report.html", lambda path: write([self.entry()], path, title=title)
        )
