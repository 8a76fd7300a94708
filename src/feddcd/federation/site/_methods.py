"""The methods that a policy may name: tables, and those of training where they are installed."""

from types import ModuleType

from ..._extras import explained

TABLES = {
    "newton": "moments: a Hessian of this site's rows, at every point asked for",
    "describe": "counts, means and parts: rows by level and group, sums, counts in ranges",
}


def _catalogue() -> ModuleType | None:
    """The methods of training, with JAX, which a site that gives tables alone can lack."""
    try:
        from ...algorithms import catalogue
    except ModuleNotFoundError as error:
        if explained(error) is None:
            raise
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
