"""`feddcd list`: everything that has a name."""

from rich.table import Table

from .._errors import SpecError
from .._text import printable
from ._habits import found
from ._terminal import console


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
        "problems": {
            p.name: f"a problem of the race: {p.model}, {p.partition}, l2 = {p.l2:g}"
            for p in PROBLEMS
        },
    }
    if what is not None and what not in groups:
        raise SpecError(f"there is no list {what!r}; the lists are {', '.join(groups)}")
    shown = {name: entries for name, entries in groups.items() if what in (None, name)}
    found(**shown)
    for name, entries in groups.items():
        if what in (None, name):
            table = Table(title=name, title_justify="left", title_style="bold", box=None)
            table.show_header, table.pad_edge = False, False
            table.add_column(style="cyan", no_wrap=True)
            table.add_column()
            for key, line in entries.items():
                table.add_row(f"  {key}", line)
            console.print(table)
            for key, reason in left_out().items() if name == "algorithms" else ():
                told = printable(f"  left out: {key}: {reason}")
                console.print(told, style="yellow", markup=False)
            console.print()
