"""What a site would estimate from its rows alone: the same conversation, with itself.

It is told in one block: coefficients and standard errors by column and class (0 where a column is
not of its own model); one 0 where there is no finite estimate, as the rows separate the outcomes
or cannot tell the coefficients apart; nothing where it is not asked for or may not be told. No
penalty enters, and a gaussian site estimates its own dispersion.
"""

from typing import NamedTuple

import numpy as np

from .._errors import DataError, SpecError
from ..formula import INTERCEPT
from ._coefficients import user_units
from ._cost import Log, Talk
from ._model import Model, model_of
from ._newton import Estimate, Separated, newton
from ._pilot import Pilot, run_pilot
from ._points import Point, dispersion, inverse
from ._sums import KINDS, DesignRows, Moments, answer, parts
from .families import Family
from .protocol import Questions, Replies, converse

HERE = "here"
EXCHANGES = 40
TOL = 1e-6  # standard errors
OWN, UNTOLD = "own fit", "not told"
NO_ESTIMATE = np.zeros(1)


class OwnFit(NamedTuple):
    pilot: Pilot
    estimate: Estimate


def own_block(rows: DesignRows, family: Family, chosen: np.ndarray) -> np.ndarray:
    """`chosen` are the columns of the site's own model."""
    kept = np.flatnonzero(chosen)
    if family.extras:
        return np.zeros(0)
    if family.firth:
        family = family._replace(firth=False, unproven="")
    if not len(kept):
        return NO_ESTIMATE
    own = rows._replace(X=rows.X[:, kept])
    ones = [INTERCEPT if np.all(x == 1) else str(i) for i, x in zip(kept, own.X.T, strict=True)]
    names = [n if n not in ones[:i] else str(i) for i, n in enumerate(ones)]
    model = model_of(family, names, rows.Y.shape[1], 0.0, (HERE,), 0, False)
    fit = _fit(model, own, family)
    if fit is None:
        return NO_ESTIMATE
    both = np.zeros((2, rows.X.shape[1], model.k))
    try:
        both[:, kept] = _estimates(fit)
    except np.linalg.LinAlgError:  # no standard errors
        return NO_ESTIMATE
    return both.reshape(-1)


def read_own(block: np.ndarray, p: int) -> np.ndarray | None:
    """Coefficients and standard errors, 2 by p; None where there are none."""
    return block.reshape(2, p) if block.size == 2 * p else None


def own_words(block: np.ndarray) -> str:
    return {0: UNTOLD, 1: "no finite estimate"}.get(block.size, OWN)


def _fit(model: Model, rows: DesignRows, family: Family) -> OwnFit | None:
    def exchange(questions: Questions) -> Replies:
        said = {site: parts(answer(rows, family, asked)) for site, asked in questions.items()}
        return {site: {n: KINDS[n](part) for n, part in a.items()} for site, a in said.items()}

    try:
        fit: OwnFit = converse(_talk(model), exchange)
    except (DataError, SpecError, Separated, np.linalg.LinAlgError):
        return None
    return fit if fit.estimate.converged else None


def _talk(model: Model) -> Talk[OwnFit]:
    log = Log(EXCHANGES)
    pilot = yield from run_pilot(model, log)

    def judge(model: Model, point: Point, sums: Moments) -> float:
        phi = dispersion(model, point.value, sums, point.pearson)
        return float(point.bound.reach / np.sqrt(phi)) if phi > 0 else 0.0

    return OwnFit(pilot, (yield from newton(pilot, judge, TOL, log, None, True)))


def _estimates(fit: OwnFit) -> np.ndarray:
    """Coefficients and standard errors, 2 by d by k."""
    pilot, point = fit.pilot, fit.estimate.point
    k = pilot.model.k
    A = np.kron(user_units(pilot), np.eye(k)) / np.repeat(pilot.D, k)
    phi = dispersion(pilot.model, point.value, pilot.sums, point.pearson)
    variance = phi * np.sum((A @ inverse(point.F)) * A, 1)
    return np.stack([A @ point.w.reshape(-1), np.sqrt(variance)]).reshape(2, -1, k)
