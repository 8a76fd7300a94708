"""On which sites a table depends most: how far it would move without each site, in one step.

At the estimate w all sites' quadratic models are known. Those of the others have the gradient
g - g_i and the Hessian H - H_i there, so that without site i the optimum is near

    w + (H - H_i)⁻¹ (g_i - g),

exactly so for least squares. No other exchange is needed. A coefficient that the others' rows
cannot tell, as the effect of the site itself, has no number.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import pandas as pd

from ._coefficients import Shown
from ._newton import Estimate
from ._points import solve
from ._sums import Answer, square

ALONE = 1e-9  # of a column's curvature: with less left, the others' rows do not determine it


class Hinge(NamedTuple):
    """The largest change of a coefficient without one site."""

    site: str
    name: str
    change: float  # in standard errors; inf where the others do not determine it


def leave_one_out(
    estimate: Estimate, shown: Shown, table: pd.DataFrame, standard: bool
) -> pd.DataFrame | None:
    """By coefficient and site: the change without it, in standard errors of the table; None where
    answers of single sites are not known."""
    model, answers = estimate.model, estimate.answers
    if len(model.sites) < 2 or len(answers) < len(model.sites):
        return None
    rows = shown.table if standard else shown.original
    std_err = table["std_err"].to_numpy(float)
    moved = {}
    for site in model.sites:
        change = _change(estimate, answers[site])
        untold = np.abs(rows) @ np.isnan(change) > 0
        with np.errstate(divide="ignore", invalid="ignore"):  # a fit without any error
            moved[site] = np.where(untold, np.nan, rows @ np.nan_to_num(change)) / std_err
    return pd.DataFrame(moved, index=pd.Index(shown.labels, name="name"))


def _change(estimate: Estimate, answer: Answer) -> np.ndarray:
    """Of w in units of D; nan where the others do not determine it."""
    point, p = estimate.point, len(estimate.point.g)
    E = np.repeat(estimate.D, estimate.model.k)
    own = square(answer.H, p) / np.outer(E, E)
    g = (answer.g - answer.firth if answer.firth.size else answer.g) / E
    left = point.H - own
    there = np.diag(left) > ALONE * np.diag(point.H)
    change = np.full(p, np.nan)
    change[there] = _told(left[np.ix_(there, there)], (g - point.g)[there])
    return change


def _told(H: np.ndarray, g: np.ndarray) -> np.ndarray:
    """H⁻¹ g, where H tells it. Without the site of reference, the effects of all others and the
    constant are known together alone, and the other coefficients as before."""
    unit = np.sqrt(np.diag(H))
    size, V = np.linalg.eigh(H / np.outer(unit, unit))
    if not len(size) or size[0] > ALONE * size[-1]:
        return solve(H, g)
    open_, V = V[:, size <= ALONE * size[-1]], V[:, size > ALONE * size[-1]]
    found = V @ ((V.T @ (g / unit)) / size[-V.shape[1] :]) / unit
    return np.where(np.abs(open_).max(1) > 1e-6, np.nan, found)


def undetermined(changes: pd.DataFrame | None, apart: Mapping[str, bool]) -> list[tuple[str, str]]:
    """Each coefficient that the other sites' rows cannot tell, with the site."""
    if changes is None:
        return []
    names = [name for name in map(str, changes.index) if not apart.get(name, False)]
    return [
        (name, str(site))
        for name in names
        for site in changes.columns
        if np.isnan(float(changes.loc[name, site]))  # pyright: ignore
    ]


def hinge(changes: pd.DataFrame | None, apart: Mapping[str, bool]) -> Hinge | None:
    """The largest of all; `apart` are coefficients that stand for single sites."""
    if changes is None:
        return None
    kept = changes.loc[[not apart.get(str(name), False) for name in changes.index]]
    size = kept.abs().to_numpy(float)
    if not size.size:
        return None
    size = np.where(np.isnan(size), np.inf, size)
    row, column = np.unravel_index(int(np.argmax(size)), size.shape)
    found = float(kept.iloc[row, column])  # pyright: ignore
    change = np.inf if np.isnan(found) else found
    return Hinge(str(kept.columns[column]), str(kept.index[row]), change)
