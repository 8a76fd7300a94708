"""The parts of the package that are installed on demand, and a message where one is missing."""

from collections.abc import Iterator
from contextlib import contextmanager

from ._errors import MissingExtra

EXTRAS = {  # a library that may be missing: the extra that brings it
    "jax": "train",
    "jaxlib": "train",
    "jaxtyping": "train",
    "equinox": "train",
    "optax": "train",
    "sklearn": "train",
    "joblib": "train",
    "matplotlib": "train",
    "flwr": "flower",
    "grpc": "flower",
    "ray": "simulation",
    "pyarrow": "parquet",
    "openpyxl": "excel",
}


def explained(error: ModuleNotFoundError) -> MissingExtra | None:
    """The same in words that say what to install; None where it is not a library of an extra."""
    library = (error.name or "").split(".")[0]
    extra = EXTRAS.get(library)
    if extra is None:
        return None
    return MissingExtra(
        f"the package {library} is needed, but it is not installed; to install it: "
        f"pip install 'feddcd[{extra}]'"
    )


@contextmanager
def needs(extra: str) -> Iterator[None]:
    """Around an import that `extra` makes possible."""
    try:
        yield
    except ModuleNotFoundError as error:
        missing = explained(error)
        if missing is None or EXTRAS[(error.name or "").split(".")[0]] != extra:
            raise
        raise missing from None
