"""The numbers of the regression table, from sums over sites."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from ._certificate import Point, dispersion, inverse
from ._model import Model
from ._newton import Estimate
from ._sums import RESIDUALS, Moments, square
from .formula import INTERCEPT


class Fit(NamedTuple):
    deviance: float
    null_deviance: float
    dispersion: float
    log_likelihood: float
    aic: float


def covariance(model: Model, point: Point, sums: Moments, kind: str) -> np.ndarray:
    """Of the coefficients in units of D: φH⁻¹, or the sandwich with the sites as clusters and
    statsmodels' factor for few of them."""
    V, n, p = inverse(point.H), float(sums.n), model.p
    if kind == "model":
        return dispersion(model, point.value, sums) * V
    N = len(point.site_g)
    meat = point.site_g.T @ point.site_g * (N / (N - 1)) * ((n - 1) / (n - p))
    return V @ meat @ V


def error(point: Point, cov: np.ndarray) -> float:
    """The certified distance of the worst coefficient, in the table's standard errors."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt(np.diag(inverse(point.H)) / np.diag(cov))
    return float(point.bound.reach * np.max(ratio)) if point.bound.r > 0 else 0.0


def fit(model: Model, estimate: Estimate) -> Fit:
    sums, value = estimate.sums, estimate.point.value
    n, floor = float(sums.n), float(sums.floor)
    deviance, phi = 2 * (value - floor), dispersion(model, value, sums)
    if model.quadratic:
        ll = -n / 2 * (np.log(2 * np.pi * deviance / n) + 1) + float(sums.constant[1]) / 2
    else:
        ll = float(sums.constant[0]) - value
    return Fit(deviance, 2 * (estimate.null - floor), phi, float(ll), float(-2 * ll + 2 * model.p))


def table(w: np.ndarray, std_err: np.ndarray, names: list[str]) -> pd.DataFrame:
    """One row per coefficient; the intervals hold 95 %."""
    z = w / std_err
    half = ndtri(0.975) * std_err
    columns = {
        "coef": w, "std_err": std_err, "z": z, "p": 2 * ndtr(-np.abs(z)),
        "ci_low": w - half, "ci_high": w + half,
    }  # fmt: skip
    return pd.DataFrame(columns, index=pd.Index(names, name="name"))


def bins(model: Model, estimate: Estimate) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
    """Rows by bins of the predicted mean, and by bins of Pearson's residuals."""
    each = list(estimate.answers.values())
    if each[0].bins.shape[1] == 0:
        return None, None
    first, last = (0.0, 1.0) if model.family == "binomial" else (-np.inf, np.inf)
    weight, observed, predicted = np.sum([a.bins for a in each], 0)
    values = {"weight": weight, "observed": observed, "predicted": predicted}
    by_mean = _bins(np.array([first, *estimate.edges, last]), values)
    if model.family == "binomial":
        return by_mean, None
    rest = {"weight": np.sum([a.residuals for a in each], 0)}
    return by_mean, _bins(np.array([-np.inf, *RESIDUALS, np.inf]), rest)


def _bins(edges: np.ndarray, values: dict[str, np.ndarray]) -> pd.DataFrame:
    return pd.DataFrame({"low": edges[:-1], "high": edges[1:], **values})


def by_site(
    model: Model, estimate: Estimate, labels: list[str], A: np.ndarray
) -> pd.DataFrame | None:
    """Each site's own estimate: one Newton step from the pooled one, with its own Hessian. Sites
    whose rows cannot tell the coefficients apart are left out, and so are the constants of a
    model with site effects. A gives the table's units."""
    phi, E = dispersion(model, estimate.point.value, estimate.sums), np.repeat(estimate.D, model.k)
    constant = {*model.names[len(model.names) - model.effects :]} if model.effects else set()
    constant |= {INTERCEPT} if model.effects else set()
    shown = [i for i, label in enumerate(labels) if label.split(": ")[-1] not in constant]
    estimates = {}
    for site, answer in estimate.answers.items():
        own = np.repeat([_of(name, site, model) for name in model.names], model.k)
        H = (square(answer.H, model.p) / np.outer(E, E))[np.ix_(own, own)]
        try:
            V = inverse(H, least=1e-8)
        except np.linalg.LinAlgError:
            continue
        B = A[:, own]
        coef = A @ estimate.point.w.reshape(-1) - B @ (V @ (answer.g / E)[own])
        std_err = np.sqrt(phi * np.sum((B @ V) * B, 1))
        estimates |= {(labels[i], site): (coef[i], std_err[i]) for i in shown}
    if not estimates:
        return None
    index = pd.MultiIndex.from_tuples(list(estimates), names=["name", "site"])
    return pd.DataFrame(list(estimates.values()), index=index, columns=["coef", "std_err"])


def _of(name: str, site: str, model: Model) -> bool:
    """Whether a column says something about this site's rows alone: effects of others do not, nor
    does its own beside an intercept."""
    effects = model.names[len(model.names) - model.effects :] if model.effects else ()
    return name not in effects or (model.intercept is None and name == f"site[{site}]")
