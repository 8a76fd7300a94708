"""The numbers of the regression table, from sums over sites."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from scipy.stats import norm

from .certificate import inverse
from .families import LOSS, constant, link, saturated
from .points import Point
from .sites import Rows, Sites


class Fit(NamedTuple):
    deviance: float
    null_deviance: float
    dispersion: float
    log_likelihood: float
    aic: float


def covariance(point: Point, sites: Sites, rows: Rows, kind: str) -> np.ndarray:
    """Of the coefficients in the problem's units: φH⁻¹, or the sandwich with the sites as clusters
    and statsmodels' factor for few of them."""
    V, (n, p) = inverse(point.H), (len(rows.Y), point.w.size)
    if kind == "model":
        return _phi(point, rows) * V
    N = len(rows.parts)
    meat = point.site_g.T @ point.site_g * (N / (N - 1)) * ((n - 1) / (n - p))
    return V @ meat @ V


def error(point: Point, cov: np.ndarray) -> float:
    """The certified distance of the worst coefficient, in the table's standard errors."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt(np.diag(inverse(point.H)) / np.diag(cov))
    return float(point.bound.reach * np.max(ratio)) if point.bound.r > 0 else 0.0


def fit(point: Point, sites: Sites, rows: Rows, steps: int) -> Fit:
    n, p, u = len(rows.Y), point.w.size, sites.unit**2
    floor = float(rows.s @ saturated(rows.family, rows.Y))
    deviance = 2 * (point.value * u - floor)
    if rows.family == "gaussian":
        ll = -n / 2 * (np.log(2 * np.pi * deviance / n) + 1) + np.sum(np.log(rows.s)) / 2
    else:
        ll = float(np.sum(constant(rows.family, rows.Y, rows.s))) - point.value
    null = 2 * (null_loss(rows, steps) - floor)
    return Fit(deviance, null, _phi(point, rows) * u, float(ll), float(-2 * ll + 2 * p))


def null_loss(rows: Rows, steps: int) -> float:
    """The loss of the best constant model. Its sums, k + k² numbers a site, ride on the exchanges
    of the fit, one Newton step on each: hence `steps`."""
    family, s, o = LOSS[rows.family], rows.s[:, None], rows.offset[:, None]
    Y, k = jnp.asarray(rows.Y), rows.Y.shape[1]
    mean = np.sum(s * rows.Y, 0) / np.sum(s)
    c = link(rows.family, mean) - np.sum(s * o) / np.sum(s)
    for _ in range(steps if np.any(o) else 0):
        P = family.mean(jnp.asarray(c + o))
        curved = lambda v, P=P: family.curvature(P, jnp.broadcast_to(v, P.shape))
        C = np.asarray(jax.vmap(curved, out_axes=2)(jnp.eye(k)))
        step = np.linalg.solve(
            np.sum(s[:, :, None] * C, 0), np.sum(s * (np.asarray(P) - rows.Y), 0)
        )
        c = c - step * np.minimum(1, 1 / np.maximum(np.abs(step), 1e-300))
    return float(jnp.sum(rows.s * family.value(jnp.asarray(c + o + 0 * rows.Y), Y)))


def table(w: np.ndarray, std_err: np.ndarray, names: list[str]) -> pd.DataFrame:
    """One row per coefficient; the intervals hold 95 %."""
    z = w / std_err
    half = norm.ppf(0.975) * std_err
    columns = {
        "coef": w, "std_err": std_err, "z": z, "p": 2 * norm.sf(np.abs(z)),
        "ci_low": w - half, "ci_high": w + half,
    }  # fmt: skip
    return pd.DataFrame(columns, index=pd.Index(names, name="name"))


def _phi(point: Point, rows: Rows) -> float:
    """The dispersion, in the square of the problem's unit."""
    return 2 * point.value / (len(rows.Y) - point.w.size) if rows.family == "gaussian" else 1.0
