"""How well the pooled rows are described: the numbers beneath a table, as R has them."""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import fdtrc

from ._model import Model
from ._newton import Estimate
from ._pilot import Pilot
from ._points import Point, dispersion, inverse, log_determinant, penalties
from ._theta import theta_fields
from .families import COUNTS

OVERDISPERSED = 1.5  # Pearson's X² by its degrees of freedom, above which it is said


class LinearFit(NamedTuple):
    """What R's summary of a linear model says beside the table."""

    sigma: float  # residual standard error
    r_squared: float
    adjusted: float
    f: float  # nan where a penalty leaves it without a meaning, or there is nothing to test
    f_df: tuple[int, int]
    f_p: float


def measures(pilot: Pilot, estimate: Estimate) -> dict[str, Any]:
    """Fields of a TableResult."""
    model, sums, point = estimate.model, estimate.sums, estimate.point
    n, floor, value = float(sums.n), float(sums.floor), point.value
    # never below zero but for rounding, as where every row is fitted exactly
    deviance, doubt = max(2 * (value - floor), 0.0), _deviance_doubt(model, estimate)
    ll, count = float(model.loss.likelihood(value, sums)), model.p + model.loss.nuisance
    ll_doubt = abs(ll - float(model.loss.likelihood(max(value - doubt / 2, floor), sums)))
    if model.loss.firth:  # penalised, as logistf has it
        ll += log_determinant(point.H) / 2 + float(np.log(estimate.D).sum())
    phi = dispersion(model, value, sums, point.pearson)
    pearson_doubt = _pearson_doubt(model, estimate)
    # the null model has thresholds, too; theta is no coefficient of it, as in R's glm.nb
    constants = len(model.loss.origin) if model.loss.bare else int(model.intercept is not None)
    fall = _fall(pearson_doubt, point.pearson) if model.loss.dispersed else 0.0
    return {
        "deviance": deviance,
        "null_deviance": np.nan if model.loss.bare else 2 * (estimate.null.value - floor),
        "df_residual": (int(n) - model.rows) * model.k,
        "df_null": (int(n) - constants) * model.k,
        "dispersion": phi,
        "log_likelihood": ll,
        "aic": float(-2 * ll + 2 * count),
        "bic": float(-2 * ll + np.log(n) * count),
        "pearson": np.nan if model.loss.bare else point.pearson,
        **theta_fields(model.loss, point.w, point.H),
        "linear": _linear(pilot, estimate) if model.quadratic else None,
        "doubts": {
            "deviance": doubt, "log_likelihood": ll_doubt, "aic": 2 * ll_doubt,
            "bic": 2 * ll_doubt, "null_deviance": estimate.null.most - estimate.null.least,
            "dispersion": fall, "pearson": pearson_doubt,
        },
    }  # fmt: skip


def overdispersed(family: str, pearson: float, df: int, grouped: bool) -> bool:
    """Counts, and shares of several trials: single outcomes of 0 and 1 cannot show it."""
    counts = family in ("poisson", "negative_binomial") or (family == "binomial" and grouped)
    return counts and df > 0 and pearson / df > OVERDISPERSED


def _linear(pilot: Pilot, estimate: Estimate) -> LinearFit:
    """As R: from the squares of the fitted values, about their mean where there is an intercept."""
    model, sums, rss = estimate.model, estimate.sums, 2 * estimate.point.value
    n, constant = float(sums.n), int(model.intercept is not None)
    df, columns = n - model.p, model.p - constant
    if float(sums.o[1]) == 0:
        explained = 2 * estimate.null.value - rss  # the same, and does not cancel
    else:
        explained = _fitted_squares(pilot, estimate.point.w[:, 0], constant)
    whole = explained + rss
    r2 = explained / whole if whole > 0 else np.nan
    f = (
        explained / columns / (rss / df)
        if columns and rss > 0 and not np.any(model.penalty)
        else np.nan
    )
    p = float(fdtrc(columns, df, f)) if columns else np.nan
    adjusted = 1 - (1 - r2) * (n - constant) / df
    return LinearFit(float(np.sqrt(rss / df)), r2, adjusted, f, (columns, int(df)), p)


def _fitted_squares(pilot: Pilot, w: np.ndarray, constant: int) -> float:
    """sum s (x'w + o)², from what the pilot found at w = 0: there the gradient is X's(o - y)."""
    sums, D, first = pilot.sums, pilot.D, pilot.first
    G = first.H - np.diag(penalties(pilot.model, D))
    xo = first.g + sums.xy[:, 0] / D
    squares = w @ G @ w + 2 * w @ xo + float(sums.o[1])
    mean = w @ (sums.x / D) + float(sums.o[0])
    return float(squares - constant * mean**2 / float(sums.weight))


def _deviance_doubt(model: Model, estimate: Estimate) -> float:
    """2(f(w) - f(w*)) at most. With x = λS the objective is at most (x + (1 - x) ln(1 - x))/S²
    above its least, and a penalty w'Pw/2 differs by r |Pw| (in the metric H⁻¹) + r²/2 at most."""
    point, (size, S, r, *_) = estimate.point, estimate.point.bound
    x = size * S
    if not x < 1:
        return np.inf
    above = 1.01 * size**2 / 2 if x < 1e-4 else (x + (1 - x) * np.log1p(-x)) / S**2
    return 2 * (above + point.slack + _penalty_doubt(model, estimate.D, point, r))


def _penalty_doubt(model: Model, D: np.ndarray, point: Point, r: float) -> float:
    P = penalties(model, D) * point.w.reshape(-1)
    return float(r * np.sqrt(P @ inverse(point.H) @ P) + r * r / 2) if np.any(P) else 0.0


def _pearson_doubt(model: Model, estimate: Estimate) -> float:
    """Each row's linear predictor moves by rS at most, and by what it had moved before; its
    residual's square by e to that power and by 2|y - μ|, of which the sum is at most X² + sum V(μ);
    an estimate where the link is not the usual one."""
    if model.quadratic:
        return _deviance_doubt(model, estimate)
    (_, S, r, _, moved), pearson = estimate.point.bound, estimate.point.pearson
    counts = model.loss.like in COUNTS
    rows, turn = float(estimate.sums.y.sum() if counts else estimate.sums.weight / 4), moved + r * S
    return float(turn * (2 * pearson + rows) * np.exp(min(turn, 700)))


def _fall(doubt: float, whole: float) -> float:
    """The log of the factor by which a number may still fall."""
    return -float(np.log1p(-doubt / whole)) if doubt < whole else np.inf
