"""The methods that a policy may name: tables, and those of training where they are installed."""

from collections.abc import Iterable
from importlib.metadata import entry_points
from types import ModuleType

from ..._errors import MissingExtra
from ..._text import closest

TABLES = {
    "newton": "moments: a gradient and a Hessian of the rows, in each exchange of the job",
    "describe": "counts, means, parts, values: sums, and counts of rows by level, group or range",
}
TRAININGS = (  # by name: the catalogue cannot be asked without JAX
    "feddcd", "accfeddcd", "pointsaga", "fednewton", "fedqn", "fedavg", "fedprox", "scaffold",
    "mbsgd", "feddyn", "fedadmm", "fivegcs", "tamuna", "scaffnew", "fednlpp", "giant", "fedlbfgs",
    "sdane", "accsdane", "mime", "feddualavg",
)  # fmt: skip
GROUP = "feddcd.algorithms"  # as packages offer methods
REVEALS = {
    "columns": "names of columns, classes and category levels",
    "gradient": "one sum over rows for each parameter; a sum over few rows can reveal these rows",
    "bins": "counts of rows by predicted value; a bin with one row can reveal that row",
    "moments": "a gradient and a Hessian; they reveal more than a gradient alone (see hessian)",
    "hessian": "sums of products of columns: variances, correlations, counts of pairs of levels",
    "counts": "counts of rows by level, group and missing values; a count of 1 reveals a row",
    "means": "sums and sums of squares of a column, by group",
    "parts": "counts of rows in ranges of a column; a range with enough rows is divided again",
    "values": "counts of rows in smaller and smaller ranges; the last ranges reveal single values",
    "model": "a model of this site alone; with fewer rows than parameters it can reveal rows",
}


def _catalogue() -> ModuleType | None:
    """The methods of training, with JAX, which a site that gives tables alone can lack."""
    try:
        from ...algorithms import catalogue
    except MissingExtra:
        return None
    return catalogue


def methods() -> dict[str, str]:
    """What may be used here, and what each sends: tables, and the catalogue."""
    known = _catalogue()
    rows = known.methods().values() if known else ()
    return TABLES | {row.name: f"{row.sends}: {row.reveals}" for row in rows}


def is_method(name: str) -> bool:
    """Other packages are asked only for what is not ours."""
    known = None if name in TABLES else _catalogue()
    # where nothing can be trained, whatever is allowed stays undone
    return known is None or known.find_method(name) is not None


def doubtful_methods(names: Iterable[str]) -> dict[str, str]:
    """Names that nobody knows here, each with what it could mean. Where nothing can be trained, a
    name may be that of a package which is not installed here: so a policy may have it."""
    if _catalogue() is not None:  # then a policy with such a name is refused
        return {}
    known = [*TABLES, *TRAININGS, *(point.name for point in entry_points(group=GROUP))]
    return {name: closest(name, known) for name in names if name not in known}
