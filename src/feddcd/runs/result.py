"""What a run found."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import PyTree

from .._files import write_atomically
from ..history import History
from . import folder as disk
from .spec import Spec

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from ..report import RunEntry


class Certified(NamedTuple):
    """objective >= optimum >= lower_bound (F/N); nan where the model is not convex or l2 = 0."""

    objective: float
    lower_bound: float
    gap: float


@dataclass(frozen=True, eq=False)
class Result:
    """The `history` by round, the `model`, and the `certificate` that says how good it is. If you
    gave a module, the model is this module with the trained numbers."""

    spec: Spec
    history: History
    model: PyTree
    certificate: Certified
    summary: dict[str, Any]
    classes: np.ndarray | None = None
    names: tuple[str, ...] | None = None  # of the clients, where Python gave them

    @classmethod
    def load(cls, folder: str | Path) -> "Result":
        """A finished run from its folder. A model of several arrays comes as a dict of them."""
        folder = Path(folder)
        spec, history = disk.read_spec(folder), disk.read_history(folder)
        summary = disk.read_summary(folder)
        model, classes = disk.read_model(folder)
        last = (history.last(name) for name in ("objective", "lower_bound", "certified_gap"))
        return cls(spec, history, model, Certified(*last), summary, classes)

    def plot(self) -> "Figure":
        """The certified gap, the accuracy and the dual residual by round."""
        from ..report import single

        return single(self.entry())

    def entry(self) -> "RunEntry":
        from ..report import RunEntry

        return RunEntry(self.summary["algorithm"], self.history, self.summary, self.spec.to_dict())

    def write(self, folder: Path) -> None:
        """summary.json, model.npz and report.html; the run itself keeps the other files."""
        from ..report import write

        disk.write_summary(folder, self.summary)
        disk.write_model(folder, self.model, self.classes)
        title = f"{self.summary['algorithm']} on {self.spec.data}"
        write_atomically(
            folder / "report.html", lambda path: write([self.entry()], path, title=title)
        )
