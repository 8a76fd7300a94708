"""What a run found."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import PyTree

from .._files import write_atomically
from .._text import fixed, plural, tiny
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
    names: tuple[str, ...] | None = None  # of the clients, where Python or a column has them

    @classmethod
    def load(cls, folder: str | Path) -> "Result":
        """A finished run from its folder. A model of several arrays comes as a dict of them."""
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
        proven = f"no certificate ({reason})" if reason else f"certified gap {tiny(gap)}"
        return (
            f"Result({self.summary['algorithm']} on {self.spec.data}: "
            f"{plural(self.history.rounds, 'round')}, objective {fixed(objective, 6)}, {proven})"
        )

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
