"""`feddcd list`: everything that has a name, and the formulas of one method."""

import sys
from inspect import cleandoc
from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from .._errors import SpecError
from .._text import printable, tiny
from ._habits import found
from ._terminal import console, say, say_lines

if TYPE_CHECKING:
    from ..algorithms import Method
    from ..race.problems import RaceProblem


def list_command(what: str | None) -> None:
    from ..algorithms.catalogue import left_out, methods
    from ..data import PARTITIONS, available
    from ..data.federate import MODELS, WEIGHTINGS
    from ..participation import PARTICIPATIONS
    from ..race.problems import PROBLEMS
    from ..solvers import SOLVERS

    groups = {
        "algorithms": {name: row.about for name, row in methods().items()},
        "data": available(),
        "models": MODELS,
        "partitions": PARTITIONS,
        "participation": PARTICIPATIONS,
        "solvers": {name: row.about for name, row in SOLVERS.items()},
        "weightings": WEIGHTINGS,
        "problems": {problem.name: _about(problem) for problem in PROBLEMS},
    }
    if what is not None and (row := methods().get(what)):
        return _show_method(row)
    if what is not None and what not in groups:
        raise SpecError(
            f"there is no list {what!r}; the lists are {', '.join(groups)}. To show the formulas "
            "of an algorithm, give its name"
        )
    shown = {name: entries for name, entries in groups.items() if what in (None, name)}
    found(**shown)
    for name, entries in groups.items():
        if what in (None, name):
            table = Table(title=name, title_justify="left", title_style="bold", box=None)
            table.show_header, table.pad_edge = False, False
            table.add_column(style="cyan", no_wrap=True)
            table.add_column()
            for key, line in entries.items():
                table.add_row(f"  {key}", Text(line))
            console.print(table)
            for key, reason in left_out().items() if name == "algorithms" else ():
                told = printable(f"  left out: {key}: {reason}")
                console.print(told, style="yellow", markup=False)
            console.print()


def _about(problem: "RaceProblem") -> str:
    from ..race.sizes import size_of, source_of

    size = size_of(problem)
    return (
        f"a problem for `feddcd race`: {problem.model}, {problem.partition}, "
        f"l2 = {tiny(problem.l2)}; {size.rows:,} training rows, {size.parameters:,} parameters, "
        f"{size.groups} clients; data: {source_of(problem)}"
    )


def _show_method(row: "Method") -> None:
    """The formulas are what the file of a method begins with, so no copy of them can grow old."""
    formulas = cleandoc(sys.modules[row.algorithm.__module__].__doc__ or "")
    found(name=row.name, title=row.title, about=row.about, formulas=formulas)
    settings = list(dict.fromkeys([*row.settings, "bits"]))  # every method has bits
    found(settings=settings, local_solver=row.solver)
    say(f"{row.name}: {row.about}")
    if formulas:
        say_lines(f"\n{formulas}\n")
    say(f"settings: {', '.join(settings)}")
    if row.solver is not None:
        say(
            f"local solver: {row.solver}. To change its settings, give them with the settings of "
            "the method"
        )
