"""Rows by bins of what was predicted, and of residuals.

Bins beside the other sums of an answer tell much: where each bin has the rows of one value of a
column alone, those beyond the last bin follow from the sums, and one of them is a patient. So where
the policy is careful a site joins bins with their neighbours, to some twenty groups. A group is in
the bin of its mean prediction, and so the sums over all groups are those of the rows.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from ._many import counted, joined, settled, together
from .families import SHARES, Family

RESIDUALS = np.linspace(-6, 6, 49)
GROUPS = 20  # of a careful site's rows: enough for deciles and for a curve
Array = np.ndarray


def binned(
    rows: Any,
    family: Family,
    asked: Sequence[Any],
    least: int,
    k: int,
    grouped: Array | None = None,
) -> tuple[Array, Array]:
    """Of predictions (weight, observed, predicted) and of residuals, at the last of these
    questions; the others were before it. `grouped`: the groups of rows, and then no residuals."""
    edges = asked[-1].edges
    if not edges.size:
        return np.zeros((3, 0)), np.zeros(0)
    mean, s, size = _mean(rows, family, asked[-1]), rows.s, len(edges) + 1
    place, own = (settled(each, least) for each, least in _told(rows, family, asked, k))
    if k > 1:
        place = _at_their_mean(place if grouped is None else grouped, mean, s, edges)
        if family.like in SHARES or grouped is not None:  # nobody is shown those of shares
            own = np.full_like(own, -1)
    return counted(place, (s, s * rows.Y[:, 0], s * mean), size, least), counted(
        own, (s,), len(RESIDUALS) + 1, least
    )[0]


def groups(rows: Any, family: Family, asked: Sequence[Any], k: int) -> list[Array]:
    """Rows that these questions count together, by prediction and by residual; -1 is left out."""
    if not any(each.edges.size for each in asked):
        return []
    found = [together(*each) for each in _told(rows, family, asked, k)]
    return found[:1] if family.like in SHARES else found


def group_of(rows: Any, made: Any, family: Family, asked: Any, k: int) -> Array:
    """The groups of predictions in which other rows would be, these being the site's."""
    own, other = (bins(each, family, asked)[0] for each in (rows, made))
    numbers = joined(own, many(len(own), k))
    return numbers[np.minimum(other, len(numbers) - 1)]


def many(n: int, k: int) -> int:
    """The fewest rows of a group."""
    return max(k, -(-n // GROUPS))


def bins(rows: Any, family: Family, asked: Any) -> tuple[Array, Array]:
    """Of each row: of its prediction, and of its residual."""
    with np.errstate(all="ignore"):
        place = asked.w.shape[0] - len(family.extras)
        steady = family if family.at is None else family.at(asked.w, place)
        mean = _mean(rows, family, asked)
        spread = float(asked.scale) * np.sqrt(np.maximum(steady.variance(mean[:, None]), 1e-300))
        r = np.sqrt(rows.s) * (rows.Y[:, 0] - mean) / spread[:, 0, 0]
    return np.searchsorted(asked.edges, mean), np.searchsorted(RESIDUALS, np.nan_to_num(r))


def _mean(rows: Any, family: Family, asked: Any) -> Array:
    rows = asked.in_basis(rows)
    with np.errstate(all="ignore"):
        place = asked.w.shape[0] - len(family.extras)
        return family.mean(family.geometry(rows, place).z(asked.w))[:, 0]


def _told(
    rows: Any, family: Family, asked: Sequence[Any], k: int
) -> tuple[tuple[list[Array], int], ...]:
    """The places of rows at each question, and how many rows move together."""
    each = [bins(rows, family, one) for one in asked if one.edges.size]
    predicted, residuals = ([one[i] for one in each] for i in (0, 1))
    if k < 2:
        return (predicted, 0), (residuals, 0)
    least = many(len(rows.s), k)
    return ([joined(one, least)[one] for one in predicted], least), (residuals, k)


def _at_their_mean(group: Array, mean: Array, s: Array, edges: Array) -> Array:
    """By row, the bin of its group's mean: it holds what the group predicts."""
    place = np.full(len(group), -1)
    for number in np.unique(group[group >= 0]):
        own = group == number
        weight = s[own] if s[own].sum() > 0 else np.ones(int(own.sum()))
        place[own] = np.searchsorted(edges, np.average(mean[own], weights=weight))
    return place
