"""Tables 2 and 3 from the cells' curves, beside what the paper printed and the authors' files."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ._authors import AUTHORS_OPTIMUM, authors_run
from ._printed import printed, printed_accuracy
from .authors import AuthorsRun
from .cells import TABLE2, Cell, figure3, table2_cells
from .grid import Results
from .problems import Variant

Authors = Mapping[str, AuthorsRun] | None


def table2_rows(
    results: Results, problems: Sequence[str], variant: Variant, seeds: int, authors: Authors
) -> list[dict[str, Any]]:
    """One row per problem, cohort size, gap and method; `rounds` counts iterations, as the
    paper does, and is null where the gap was not reached."""
    return [
        _table2_row(cell, eps, results, authors)
        for problem in problems
        for setup in TABLE2
        for cell in table2_cells(problem, setup, variant, seeds)
        for eps in setup.eps
    ]


def _table2_row(cell: Cell, eps: float, results: Results, authors: Authors) -> dict[str, Any]:
    curves = results[cell.id]
    rounds = [_within(curve.reached(eps), cell.iterations) for curve in curves]
    uploads = [
        None if k is None else int(curve.uploads[k - 1])
        for k, curve in zip(rounds, curves, strict=True)
    ]
    return {
        "problem": cell.problem, "data": cell.data, "tau": cell.tau, "eps": eps,
        "algorithm": cell.algorithm, "limit": cell.iterations, "rounds": rounds,
        "uploads": uploads, "median": median(rounds), "median_uploads": median(uploads),
        "paper": printed(cell.problem, cell.tau, eps, cell.algorithm),
        "authors": _authors_rounds(cell, eps, authors), "optimum": curves[0].optimum,
    }  # fmt: skip


def _within(k: int | None, limit: int) -> int | None:
    return k if k is not None and k <= limit else None


def median(values: Sequence[int | None]) -> float | None:
    """Of all seeds, those that did not get there last; null where the median one did not."""
    ranked = sorted(float("inf") if v is None else float(v) for v in values)
    middle = statistics.median(ranked)
    return None if middle == float("inf") else middle


def _authors_rounds(cell: Cell, eps: float, authors: Authors) -> int | str | None:
    run = authors_run(cell.problem, cell.split, cell.tau, cell.algorithm, authors)
    if run is None:
        return None
    for k, objective in enumerate(run.objective):
        if objective - AUTHORS_OPTIMUM[cell.problem] <= eps:
            return k + 1
    return f">{len(run.objective)}"


def table3_rows(
    results: Results, problems: Sequence[str], variant: Variant, seeds: int, authors: Authors
) -> list[dict[str, Any]]:
    """Test accuracy with two classes per client: the best over the rounds, which is what the
    paper's table shows, and the last."""
    rows = []
    for problem in problems:
        for c in figure3(problem, variant, seeds):
            curves = results[c.id]
            run = authors_run(problem, c.split, c.tau, c.algorithm, authors)
            best = [_best(curve.accuracy) for curve in curves]
            rows.append({
                "problem": problem, "data": c.data, "tau": c.tau, "algorithm": c.algorithm,
                "rounds": c.iterations, "best": best,
                "last": [float(curve.accuracy[-1]) for curve in curves],
                "objective": [float(curve.objective[-1]) for curve in curves],
                "median": statistics.median(best), "optimum": curves[0].optimum,
                "paper": printed_accuracy(problem, c.algorithm),
                "authors": None if run is None else _best(run.accuracy[: c.iterations]),
            })  # fmt: skip
    return rows


def _best(accuracy: np.ndarray) -> float:
    """nan for a run that diverged at once."""
    return float(np.nanmax(accuracy)) if np.isfinite(accuracy).any() else float("nan")
