"""Whose each row is."""

from typing import Any

import numpy as np
from sklearn.utils import column_or_1d

from .._errors import SpecError


def split(groups: Any, n: int, n_clients: int, random: np.random.RandomState) -> list[np.ndarray]:
    """Each client's rows: by the labels given, or even parts at random, none of them empty."""
    if groups is None:
        order = random.permutation(n)
        return np.array_split(order, min(n_clients, n))
    groups = column_or_1d(groups)
    if len(groups) != n:
        raise SpecError(f"groups has {len(groups)} entries, X has {n} rows")
    try:
        labels, code = np.unique(groups, return_inverse=True)
    except TypeError:
        raise SpecError("groups mixes labels that cannot be ordered, such as 1 and 'a'") from None
    if labels.dtype.kind == "f" and np.isnan(labels).any():
        raise SpecError("groups contains NaN: say whose each row is")
    if len(labels) < 2:
        raise SpecError(f"groups has one value only, {labels[0]!s}: a federation needs two sites")
    order = np.argsort(code, kind="stable")
    return np.split(order, np.cumsum(np.bincount(code))[:-1])
