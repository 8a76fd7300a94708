"""The paper's figures and tables again: cells in, pictures, tables and a report out. Tables 2 and 3
stand beside what the paper printed and the authors' files."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._errors import SpecError
from .._text import nearest
from ._differences import differences
from ._tables import median
from .authors import AUTHORS_OPTIMUM, AuthorsRun, authors_run, load_authors
from .cells import (
    NOT_IN_FIGURE3,
    PAPER_PROBLEMS,
    PARTS,
    TABLE2,
    VARIANTS,
    Cell,
    Variant,
    check_problems,
    figure1,
    figure3,
    grid,
    table2_cells,
)
from .grid import Results, Step, run_grid
from .report import gap_panels, write_figures, write_report, write_table2, write_table3

Authors = Mapping[str, AuthorsRun] | None
ORDER: tuple[str, ...] = ("fedavg", "fedprox", "scaffold", "feddcd", "accfeddcd")
TWO_CLASS = (
    "The paper's authors report an objective that weights each client by its number of rows. The "
    "methods minimise the objective without these weights, so the authors' gap never reaches zero."
)


class Reproduced(NamedTuple):
    table2: list[dict[str, Any]]
    table3: list[dict[str, Any]]
    files: list[Path]


def reproduce(
    what: str = "all",
    *,
    problems: Sequence[str] = PAPER_PROBLEMS,
    variant: Variant = "paper",
    seeds: int = 3,
    out: str | Path,
    watch: Callable[[Step], None] = lambda step: None,
) -> Reproduced:
    """Runs what is missing under `out`/cells, then writes the parts that were asked for."""
    if what != "all" and what not in PARTS:
        raise SpecError(
            f"the part {what!r} of the paper is unknown{nearest(what, (*PARTS, 'all'))}"
        )
    check_problems(problems)
    if variant not in VARIANTS:
        raise SpecError(f"unknown variant {variant!r}{nearest(variant, VARIANTS)}")
    if seeds < 1:
        raise SpecError(f"seeds must be at least 1, got seeds={seeds}")
    parts, folder = list(PARTS) if what == "all" else [what], Path(out)
    cells = grid(parts, list(problems), variant, seeds)
    if not cells:
        raise SpecError(f"the paper has no {what} for {', '.join(map(repr, problems))}")
    results = run_grid(cells, folder, watch)
    folder.mkdir(parents=True, exist_ok=True)
    authors = load_authors()
    unlike = [p for p in problems if p not in NOT_IN_FIGURE3]
    figures, table2, table3 = {}, [], []
    for name, part, chosen in (("figure1", figure1, problems), ("figure3", figure3, unlike)):
        if name in parts:
            groups = [part(problem, variant, seeds) for problem in chosen]
            figures |= _figures(name, groups, results, authors)
    if "table2" in parts:
        table2 = table2_rows(results, problems, variant, seeds, authors)
        write_table2(table2, folder)
    if "table3" in parts:
        table3 = table3_rows(results, unlike, variant, seeds, authors)
        write_table3(table3, folder)
    tables = [name for name in ("table2", "table3") if name in parts]
    files = [folder / f"{name}.{kind}" for name in tables for kind in ("json", "md", "csv")]
    files += write_figures(figures, folder)
    report = write_report(
        folder, variant=variant, seeds=seeds, table2=table2, table3=table3, figures=figures,
        notes=differences(parts, problems, variant),
    )  # fmt: skip
    return Reproduced(table2, table3, [*files, report])


def _figures(name: str, groups, results: Results, authors: Authors) -> dict[str, Any]:
    """NAME against iterations, and NAME-uploads against what was sent in them."""
    curves, data, theirs, notes = {}, {}, {}, {}
    for group in groups:
        for cell in group:
            curves.setdefault(cell.problem, {})[cell.algorithm] = results[cell.id]
            data[cell.problem] = cell.data
            run = authors_run(cell.problem, cell.split, cell.tau, cell.algorithm, authors)
            if run is not None:
                gap = run.objective - AUTHORS_OPTIMUM[cell.problem]
                theirs.setdefault(cell.problem, {})[cell.algorithm] = gap
            if cell.split == "two-class" and cell.problem.startswith("mnist"):
                notes[cell.problem] = TWO_CLASS
    panels = lambda **how: gap_panels(curves, data, notes=notes, **how)
    return {name: panels(authors=theirs), f"{name}-uploads": panels(uploads=True)}


def table2_rows(
    results: Results, problems: Sequence[str], variant: Variant, seeds: int, authors: Authors
) -> list[dict[str, Any]]:
    """One row per problem, cohort size, gap and method; `rounds` counts iterations, as the
    paper does, and is null where the gap was not reached."""
    return [
        _table2_row(cell, eps, results, authors)
        for problem in problems
        for setup in TABLE2
        for eps in sorted(setup.eps)
        for cell in table2_cells(problem, setup, variant, seeds)
    ]


def _table2_row(cell: Cell, eps: float, results: Results, authors: Authors) -> dict[str, Any]:
    curves = results[cell.id]
    reached = [curve.reached(eps) for curve in curves]
    rounds = [k if k is not None and k <= cell.iterations else None for k in reached]
    uploads = [
        None if k is None else int(curve.uploads[k - 1])
        for k, curve in zip(rounds, curves, strict=True)
    ]
    return {
        "problem": cell.problem, "data": cell.data, "tau": cell.tau, "eps": eps,
        "algorithm": cell.algorithm, "limit": cell.iterations, "rounds": rounds,
        "uploads": uploads, "median": median(rounds), "median_uploads": median(uploads),
        "paper": printed_rounds(cell.problem, cell.tau, eps, cell.algorithm),
        "authors": _authors_rounds(cell, eps, authors), "optimum": curves[0].optimum,
    }  # fmt: skip


def _authors_rounds(cell: Cell, eps: float, authors: Authors) -> int | str | None:
    run = authors_run(cell.problem, cell.split, cell.tau, cell.algorithm, authors)
    if run is None:
        return None
    hits = np.flatnonzero(run.objective - AUTHORS_OPTIMUM[cell.problem] <= eps)
    return int(hits[0]) + 1 if len(hits) else f">{len(run.objective)}"


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


def printed_rounds(problem: str, tau: int, eps: float, algorithm: str) -> int | str | None:
    """The paper's Table 2; a string such as ">100" where it was not reached."""
    return _TABLE2.get((problem, tau, eps), {}).get(algorithm)


def printed_accuracy(problem: str, algorithm: str) -> float | None:
    """The paper's Table 3 (the best of 100 rounds; AccFedDCD softmax is of the training data)."""
    return _TABLE3.get(problem, {}).get(algorithm)


def _rows(
    problem: str, *rows: tuple[int, float, tuple[int | str, ...]]
) -> dict[tuple[str, int, float], dict[str, int | str]]:
    return {(problem, t, e): dict(zip(ORDER, values, strict=True)) for t, e, values in rows}


_TABLE2 = {
    **_rows(
        "mnist-softmax",
        (30, 1e-3, (51, 47, 45, 28, 15)),
        (30, 1e-2, (17, 17, 17, 4, 3)),
        (10, 1e-2, (19, 18, 18, 19, 14)),
        (5, 1e-1, (5, 5, 5, 3, 1)),
    ),
    **_rows(
        "rcv1-softmax",
        (30, 1e-3, (">100", ">100", ">100", 24, 30)),
        (30, 1e-2, (10, 10, 11, 10, 5)),
        (10, 1e-2, (11, 11, 11, 27, 14)),
        (5, 1e-1, (3, 3, 3, 5, 1)),
    ),
    **_rows(
        "mnist-mlp",
        (30, 1e-3, (">100", ">100", ">100", ">100", ">100")),
        (30, 1e-2, (">100", 99, 44, 49, 28)),
        (10, 1e-2, (">500", ">500", 418, 96, ">500")),
        (5, 1e-1, (88, 83, 79, 5, 4)),
    ),
}
_TABLE3: dict[str, dict[str, float]] = {
    "mnist-softmax": dict(zip(ORDER, (0.8830, 0.8867, 0.8847, 0.8816, 0.8924), strict=True)),
    "mnist-mlp": dict(zip(ORDER, (0.8817, 0.8792, 0.9023, 0.9002, 0.9032), strict=True)),
}
