"""What can be said from sums over bins of predictions: groups, the ROC curve and its area.

No group of weight below SMALL is ever shown: it is joined with its neighbour.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

Columns = dict[str, np.ndarray]

SMALL = 10.0
GROUPS = 10


class Roc(NamedTuple):
    false: np.ndarray  # share of zeros above each threshold, from 0 to 1
    true: np.ndarray  # share of ones
    low: float  # the area if every tie within a group were ranked wrongly
    high: float  # and rightly


def columns(frame: pd.DataFrame) -> Columns:
    return {str(name): frame[name].to_numpy(float) for name in frame.columns}


def joined(bins: Columns, least: float = SMALL) -> Columns | None:
    """Neighbours joined until each group weighs `least`; what is left joins the last one.

    None where all rows together weigh less.
    """
    label, sums, group = [], 0.0, 0
    for weight in bins["weight"]:
        label.append(group)
        sums += weight
        if sums >= least:
            sums, group = 0.0, group + 1
    return _sums(bins, np.minimum(label, group - 1)) if group else None


def groups(bins: Columns, count: int = GROUPS) -> Columns | None:
    """At most `count` groups of about equal weight, from low predictions to high ones."""
    weight = bins["weight"]
    if weight.sum() < SMALL:
        return None
    middle = (np.cumsum(weight) - weight / 2) / weight.sum()
    return joined(_sums(bins, np.minimum((count * middle).astype(int), count - 1)))


def roc(bins: Columns) -> Roc | None:
    """From the highest predictions down; None where ones or zeros are lacking."""
    parts = joined(bins)
    if parts is None:
        return None
    ones = parts["observed"][::-1]
    zeros = np.maximum(parts["weight"][::-1] - ones, 0.0)
    if not (ones.sum() > 0 and zeros.sum() > 0):
        return None
    true = np.append(0.0, np.cumsum(ones) / ones.sum())
    false = np.append(0.0, np.cumsum(zeros) / zeros.sum())
    low = float(np.sum(true[:-1] * np.diff(false)))
    high = float(np.sum(true[1:] * np.diff(false)))
    return Roc(false, true, low, high)


def _sums(bins: Columns, label: np.ndarray) -> Columns:
    """One entry per label, which never falls from one bin to the next."""
    first = np.flatnonzero(np.diff(label, prepend=-1))
    last = np.append(first[1:], len(label)) - 1
    take = {"low": lambda v: v[first], "high": lambda v: v[last]}
    total = lambda v: np.add.reduceat(v, first)
    return {name: take.get(name, total)(v) for name, v in bins.items()}
