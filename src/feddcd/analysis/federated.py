"""A fit that came from a federation, as the estimator that a fit in this process gives."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from . import export, report
from .estimator import FederatedGLM
from .job import Job, Outcome
from .plan import Plan


def fitted(plan: Plan, job: Job, outcome: Outcome, dropped: int) -> FederatedGLM:
    names = FederatedGLM().get_params()
    held = {name: value for name, value in plan.to_dict().items() if name in names}
    model = FederatedGLM(**held)
    model.sites_, model._effects = np.array(job.model.sites), job.model.effects
    model._store(outcome, job, dropped)
    return model


def written(model: FederatedGLM, folder: Path) -> Iterator[Path]:
    """All that a fit leaves behind, each as it is done; the report last."""
    folder.mkdir(parents=True, exist_ok=True)
    history = folder / "history.csv"
    model.history_.to_csv(history, index=False, lineterminator="\n")
    yield history
    yield from export.write(model, folder)
    yield report.write(model, folder / "report.html")
