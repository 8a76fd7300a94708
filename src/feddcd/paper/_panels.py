"""What the paper's figures show: a panel per problem, a series per method."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from ..report._text import title
from ._rows import BEST_SEEN, OTHER, problem_title

ITERATIONS = "iterations (as the paper counts)"
UPLOADS = "uploads (AccFedDCD: two cohorts an iteration)"
ORDER = ("rcv1-softmax", "mnist-softmax", "mnist-mlp")


class Series(NamedTuple):
    """A method's curves, one row per seed: nan where there is no value, inf once a run has
    diverged. `overlay` is the authors' own run at the first of the same x."""

    label: str
    algorithm: str
    x: np.ndarray
    curves: np.ndarray
    overlay: np.ndarray | None = None


class Panel(NamedTuple):
    title: str
    y_title: str
    lines: list[Series]
    log: bool = True
    note: str = ""
    x_title: str = ITERATIONS


class Measured(Protocol):
    """What is needed of a run's curve, by iteration."""

    @property
    def objective(self) -> np.ndarray: ...
    @property
    def uploads(self) -> np.ndarray: ...
    @property
    def optimum(self) -> float: ...


Curves = Mapping[str, Mapping[str, Sequence[Measured]]]  # by problem and algorithm, per seed
Gaps = Mapping[str, Mapping[str, np.ndarray]]  # of the authors, by problem and algorithm


def gap_panels(
    curves: Curves,
    data: Mapping[str, str],
    authors: Gaps | None = None,
    *,
    uploads: bool = False,
    notes: Mapping[str, str] | None = None,
) -> list[Panel]:
    """A panel per problem that was run, in the paper's order; `data` is what each was run on.
    On other data than the paper's, the authors' curves are left out."""
    rank = {problem: k for k, problem in enumerate(ORDER)}
    made = []
    for problem in sorted(curves, key=lambda p: rank.get(p, len(rank))):
        theirs = {} if data[problem] in OTHER else (authors or {}).get(problem, {})
        lines = [
            _series(algorithm, runs, theirs.get(algorithm), uploads)
            for algorithm, runs in curves[problem].items()
        ]
        title, x_title = problem_title(problem, data[problem]), UPLOADS if uploads else ITERATIONS
        note = _note(data[problem], (notes or {}).get(problem, ""))
        made.append(Panel(title, _y_title(problem), lines, True, note, x_title))
    return made


def _series(algorithm: str, runs: Sequence[Measured], overlay, uploads: bool) -> Series:
    n = max(len(run.objective) for run in runs)
    gaps = np.full((len(runs), n), np.nan)
    for row, run in zip(gaps, runs, strict=True):
        gap = run.objective - run.optimum
        row[: len(gap)] = np.where(np.isnan(gap), np.inf, gap)
    longest = max(runs, key=lambda run: len(run.objective))
    x = np.asarray(longest.uploads if uploads else np.arange(1, n + 1), float)
    return Series(title(algorithm), algorithm, x, gaps, overlay)


def _y_title(problem: str) -> str:
    if problem in BEST_SEEN:
        return f"gap to {BEST_SEEN[problem]}, the authors’ best value"
    return "objective" if problem.endswith("mlp") else "gap to the optimum"


def _note(data: str, more: str) -> str:
    if data not in OTHER:
        return more
    return f"Run on {data}, not on {OTHER[data]}: no curves of the authors. {more}".strip()
