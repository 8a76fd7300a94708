"""From coefficients as they were computed to those of the table: their units, and its columns."""

from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri, stdtr, stdtrit

from ._model import Model
from ._pilot import Pilot
from ._points import variances
from .plan import ModelSettings
from .protocol import Agreement


class Shown(NamedTuple):
    """The rows of the table: each is a combination of what was computed, p by p, class by class."""

    labels: list[str]
    table: np.ndarray  # per standard deviation, where that is asked for
    original: np.ndarray  # in the columns' own units


def shown_rows(settings: ModelSettings, cohort: Agreement, pilot: Pilot) -> Shown:
    names = pilot.model.names
    labels = list(names[: pilot.model.rows])
    if pilot.model.family == "multinomial" and cohort.classes is not None:
        labels = [f"{c}: {name}" for c in cohort.classes[1:] for name in names]
    original = user_units(pilot)
    table = _standard_deviations(pilot) @ original if settings.standardize else original
    return Shown(labels, _by_class(table, pilot), _by_class(original, pilot))


def user_units(pilot: Pilot) -> np.ndarray:
    """From the pilot's basis to the columns as they are."""
    return pilot.basis if pilot.basis.size else np.eye(len(pilot.D))


def _standard_deviations(pilot: Pilot) -> np.ndarray:
    """Coefficients per standard deviation of a column, about its mean."""
    model, sums, A = pilot.model, pilot.raw, np.eye(len(pilot.D))
    sd = np.sqrt(variances(model, sums))
    constant = np.arange(len(A)) == model.intercept
    if model.intercept is None:
        constant[len(A) - model.effects :] = True  # every site has its own
    free = np.arange(len(A)) < len(A) - model.effects
    free &= ~constant
    A[np.ix_(constant, free)] = (sums.x / sums.weight)[free]
    return A * np.where(np.eye(len(A), dtype=bool), sd[:, None], 1.0)


def _by_class(A: np.ndarray, pilot: Pilot) -> np.ndarray:
    k = pilot.model.k
    order = np.arange(pilot.model.rows * k).reshape(-1, k).T.ravel()
    return (np.kron(A, np.eye(k)) / np.repeat(pilot.D, k))[order]


class Statistic(NamedTuple):
    """What coefficients are divided by their standard errors for: t with the residual degrees of
    freedom where the dispersion is estimated, z elsewhere."""

    name: str  # z or t
    df: float  # inf for z

    def tail(self, x: float) -> float:
        """The chance of a value beyond ±x."""
        return float(2 * (ndtr(-abs(x)) if self.name == "z" else stdtr(self.df, -abs(x))))

    def within(self, level: float) -> float:
        """This share of all values is between minus this number and this number."""
        upper = (1 + level) / 2
        return float(ndtri(upper) if self.name == "z" else stdtrit(self.df, upper))


def statistic_of(model: Model, n: float) -> Statistic:
    return Statistic("t", n - model.p) if model.loss.dispersed else Statistic("z", np.inf)


def table_of(
    w: np.ndarray, cov: np.ndarray, shown: list[str], by: Statistic, ratios: bool, level: float
) -> pd.DataFrame:
    """One row per coefficient, the intervals holding `level`; ratios where they mean anything."""
    std_err = np.sqrt(np.diag(cov))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        value, half = w / std_err, by.within(level) * std_err
        columns = {
            "coef": w, "std_err": std_err, by.name: value, "p": [by.tail(x) for x in value],
            "ci_low": w - half, "ci_high": w + half,
        }  # fmt: skip
        if ratios:
            ends = {"ratio": w, "ratio_low": w - half, "ratio_high": w + half}
            columns |= {name: np.exp(end) for name, end in ends.items()}
    return pd.DataFrame(columns, index=pd.Index(shown, name="name"))


def worst_ratio(V: np.ndarray, cov: np.ndarray, shown: Shown) -> float:
    """Of standard errors, those from V = H⁻¹ and the table's."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = [
            np.diag(A @ V @ A.T) / np.diag(A @ cov @ A.T) for A in (shown.table, shown.original)
        ]
        return float(np.sqrt(np.max(ratios)))


def sandwich_change(V: np.ndarray, meat: np.ndarray, r: float, S: float) -> float:
    """How much a sandwich's standard error can change on the way to the optimum, in those of V.

    With meat = G'G, G the gradients of sites (or clusters), it is |GVa|. No site's Hessian exceeds
    their sum, so that (G* - G)V*a is at most r e^{3rS/2} |a|_V; and V changes by e^{±rS}, hence
    G(V* - V)a by (e^{rS} - 1) |G V^{1/2}| |a|_V."""
    size = np.sqrt(max(np.max(np.linalg.eigvals(V @ meat).real), 0.0))
    return float(r * np.exp(1.5 * r * S) + np.expm1(r * S) * size)
