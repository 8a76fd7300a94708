"""The outcomes that a family takes, checked and coded."""

from typing import NamedTuple

import numpy as np
import pandas as pd

from .columns import numbers


class Targets(NamedTuple):
    Y: np.ndarray  # n by k
    classes: np.ndarray | None  # of a multinomial model, the base first


def targets(family: str, y: pd.Series, weight: np.ndarray | None) -> Targets:
    """y of all rows, checked and coded; its index holds the rows' numbers."""
    name = "y" if y.name is None else str(y.name)
    if family == "multinomial":
        return _classes(name, y)
    values = coded(family, y, weight, None)[:, 0]
    if family == "binomial" and np.ptp(values) == 0 and values[0] in (0, 1):
        raise ValueError(f"{name} is {values[0]:g} in every row: binomial needs both 0 and 1")
    if family == "poisson" and not values.any():
        raise ValueError(f"{name} is 0 in every row: no finite model fits it")
    if family == "gaussian" and np.ptp(values) == 0:
        raise ValueError(f"{name} is {values[0]:g} in every row")
    return Targets(values[:, None], None)


def coded(family: str, y: pd.Series, weight: np.ndarray | None, classes) -> np.ndarray:
    """Y of some rows: what one row can have wrong is refused."""
    name = "y" if y.name is None else str(y.name)
    if family == "multinomial":
        unknown = ~y.isin(classes)
        _refuse(name, y, np.asarray(unknown), "is a class that was not agreed")
        return (np.asarray(y, object)[:, None] == np.array(classes[1:], object)).astype(float)
    values = numbers(y, name)
    _refuse(name, y, ~np.isfinite(values), "must be finite")
    if family == "binomial":
        _refuse(name, y, (values < 0) | (values > 1), "must be 0 or 1")
        if weight is None:
            why = "must be 0 or 1 (a share needs sample_weight, the number of trials)"
            _refuse(name, y, values % 1 != 0, why)
    if family == "poisson":
        _refuse(name, y, values < 0, "must be a count, >= 0")
    return values[:, None]


def _classes(name: str, y: pd.Series) -> Targets:
    try:
        classes, codes, counts = np.unique(np.asarray(y), return_inverse=True, return_counts=True)
    except TypeError:
        raise ValueError(f"{name} mixes labels that cannot be ordered, such as 1 and 'a'") from None
    if len(classes) < 2:
        raise ValueError(f"{name} is {classes[0]!s} in every row: multinomial needs two classes")
    if counts.min() < 2:
        once = classes[np.argmin(counts)]
        row = y.index[int(np.flatnonzero(codes == np.argmin(counts))[0])]
        raise ValueError(f"{name}: the class {once!s} is seen once only, at row {row}")
    return Targets(np.eye(len(classes))[codes][:, 1:], classes)


def _refuse(name: str, y: pd.Series, bad: np.ndarray, why: str) -> None:
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(f"{name} {why}, got {y.iloc[row]} at row {y.index[row]}")
