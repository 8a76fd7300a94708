"""The paper's figures and tables again: cells in, pictures, tables and a report out."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .._errors import SpecError
from .._text import nearest
from ._comparison import DIFFERENCES, TWO_CLASS, Authors, table2_rows, table3_rows
from .authors import AUTHORS_OPTIMUM, authors_run, load_authors
from .cells import NOT_IN_FIGURE3, PARTS, Cell, figure1, figure3, grid
from .grid import Results, Step, run_grid
from .problems import PAPER_PROBLEMS, VARIANTS, Variant, check_problems

ALL = ("figure1", "table2", "figure3", "table3")


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
    parts = _parts(what)
    _check(problems, variant, seeds)
    folder = Path(out)
    cells = grid(parts, list(problems), variant, seeds)
    if not cells:
        raise SpecError(f"the paper has no {what} for {', '.join(problems)}")
    results = run_grid(cells, folder, watch)
    return _write(parts, list(problems), variant, seeds, results, folder)


def _parts(what: str) -> list[str]:
    if what != "all" and what not in PARTS:
        raise SpecError(f"nothing called {what!r} to reproduce{nearest(what, (*PARTS, 'all'))}")
    return list(ALL) if what == "all" else [what]


def _check(problems: Sequence[str], variant: str, seeds: int) -> None:
    check_problems(problems)
    if variant not in VARIANTS:
        raise SpecError(f"unknown variant {variant!r}{nearest(variant, VARIANTS)}")
    if seeds < 1:
        raise SpecError(f"need seeds >= 1, got seeds={seeds}")


def _write(
    parts: list[str],
    problems: list[str],
    variant: Variant,
    seeds: int,
    results: Results,
    folder: Path,
) -> Reproduced:
    from .report import write_figures, write_report, write_table2, write_table3

    folder.mkdir(parents=True, exist_ok=True)
    authors = load_authors()
    unlike = [p for p in problems if p not in NOT_IN_FIGURE3]
    figures, table2, table3, files = {}, [], [], []
    if "figure1" in parts:
        figures |= _figures(
            "figure1", [figure1(p, variant, seeds) for p in problems], results, authors
        )
    if "table2" in parts:
        table2 = table2_rows(results, problems, variant, seeds, authors)
        write_table2(table2, folder)
        files += [folder / f"table2.{kind}" for kind in ("json", "md", "csv")]
    if "figure3" in parts:
        figures |= _figures(
            "figure3", [figure3(p, variant, seeds) for p in unlike], results, authors
        )
    if "table3" in parts:
        table3 = table3_rows(results, unlike, variant, seeds, authors)
        write_table3(table3, folder)
        files += [folder / f"table3.{kind}" for kind in ("json", "md", "csv")]
    files += write_figures(figures, folder)
    report = write_report(
        folder, variant=variant, seeds=seeds, table2=table2, table3=table3, figures=figures,
        notes=list(DIFFERENCES),
    )  # fmt: skip
    return Reproduced(table2, table3, [*files, report])


def _figures(name: str, groups, results: Results, authors: Authors) -> dict[str, Any]:
    """NAME against iterations, and NAME-uploads."""
    from .report import gap_panels

    curves, data, theirs, notes = {}, {}, {}, {}
    for group in groups:
        for cell in group:
            curves.setdefault(cell.problem, {})[cell.algorithm] = results[cell.id]
            data[cell.problem] = cell.data
            gap = _authors_gap(cell, authors)
            if gap is not None:
                theirs.setdefault(cell.problem, {})[cell.algorithm] = gap
            if cell.split == "two-class" and cell.problem.startswith("mnist"):
                notes[cell.problem] = TWO_CLASS
    panels = lambda **how: gap_panels(curves, data, notes=notes, **how)
    return {name: panels(authors=theirs), f"{name}-uploads": panels(uploads=True)}


def _authors_gap(cell: Cell, authors: Authors) -> np.ndarray | None:
    run = authors_run(cell.problem, cell.split, cell.tau, cell.algorithm, authors)
    return None if run is None else run.objective - AUTHORS_OPTIMUM[cell.problem]
