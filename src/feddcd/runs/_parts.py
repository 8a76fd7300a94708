"""Which rows each client of a run holds, and what the clients are called."""

import numpy as np

from .._errors import SpecError
from .._text import plural
from ..data import Dataset, partition
from ._inputs import Inputs
from .spec import Spec


def divide(
    spec: Spec, data: Dataset, given: Inputs
) -> tuple[list[np.ndarray], tuple[str, ...] | None]:
    """The rows of each client, and names where Python gave them or the data have groups."""
    if given.parts is not None:
        check_parts(given.parts, len(data.y))
        return given.parts, given.names
    parts = partition(
        data.y, spec.partition, spec.clients, seed=spec.sharing, groups=data.groups, X=data.X
    )
    groups = np.unique(np.asarray(data.groups)) if spec.partition == "group" else None
    return parts, given.names if groups is None else tuple(map(str, groups))


def check_parts(parts: list[np.ndarray], rows: int) -> None:
    """Every row is with exactly one client, and no client is empty."""
    for i, part in enumerate(parts):
        if part.ndim != 1 or part.size == 0 or part.dtype.kind not in "iu":
            raise SpecError(
                f"parts[{i}] must be a list of at least one row number; got an array of type "
                f"{part.dtype} and shape {part.shape}"
            )
        if not 0 <= part.min() <= part.max() < rows:
            odd = part[(part < 0) | (part >= rows)][0]
            raise SpecError(
                f"parts[{i}] contains row {odd}, but the data have only the rows 0 to {rows - 1}"
            )
    held = np.bincount(np.concatenate([np.zeros(0, int), *parts]), minlength=rows)
    if held.max() > 1:
        raise SpecError(
            f"row {held.argmax()} occurs {held.max()} times in the argument 'parts', but each row "
            "must be in exactly one part"
        )
    if absent := int(np.sum(held == 0)):
        raise SpecError(
            f"each row must be in exactly one part, but {plural(absent, 'row')} "
            f"{'is' if absent == 1 else 'are'} in no part; the first is row {held.argmin()}"
        )
