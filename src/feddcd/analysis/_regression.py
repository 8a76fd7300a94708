"""The regression table: Newton's method on sums over the sites, to a proven distance."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtr, ndtri

from .._errors import DataError, Refused
from ..formula import INTERCEPT
from . import _schema
from ._cost import LineCost, Log, Talk, choose
from ._model import Model, model_for, separation
from ._newton import Estimate, Pilot, Separated, newton, run_pilot
from ._outcome import Outcome
from ._points import Point, dispersion, inverse, variances
from ._result import SETTINGS, Predictor, TableResult
from ._robust import check, meat_of, sandwich, settle
from ._sums import (
    KINDS,
    RESIDUALS,
    Moments,
    PointQuestion,
    answer,
    parts,
    read_answer,
    square,
)
from .plan import ModelSettings, RegressionPlan
from .protocol import Again, Agreement, Arrays, Blocks, SiteRows, Watch, tag

Train = Callable[[Pilot, int, Log], np.ndarray]


class RegressionTable:
    name = "regression"
    method = "newton"
    # what is made of single sites' blocks, and has to do without where only sums are known
    site_by_site: Mapping[str, tuple[str, ...]] = {
        "the last quadratic model of an absent site": ("value", "g", "H"),
        "estimates of single sites": ("g", "H"),
    }

    plan = staticmethod(RegressionPlan.from_dict)
    columns = staticmethod(_schema.used)
    offer = staticmethod(_schema.offer)
    agree = staticmethod(_schema.agree)
    rows = staticmethod(_schema.site_rows)

    def question(self, arrays: Arrays, rows: SiteRows) -> PointQuestion:
        d, k = rows.data.X.shape[1], rows.data.Y.shape[1]
        p = d * k
        shapes = {"w": (d, k), "seen": (d, k), "null": (k,), "scale": ()}
        shapes |= {"pilot": (), "closing": ()}
        for name, shape in shapes.items():
            if arrays[name].shape != shape:
                raise Refused(f"a question whose {name} has the shape {arrays[name].shape}")
        if arrays["V"].size not in (0, p * (p + 1) // 2):
            raise Refused("a question whose V has another size")
        if arrays["closing"] and (rows.plan.covariance == "model" or not arrays["V"].size):
            raise Refused("a question for robust standard errors that the plan does not have")
        given = PointQuestion._make(arrays[name] for name in PointQuestion._fields)
        return given._replace(pilot=bool(given.pilot), closing=bool(given.closing))

    def answer(self, rows: SiteRows, question: PointQuestion) -> Blocks:
        given = answer(rows.data, rows.plan.loss(), question, rows.least)
        if question.closing:
            given = given._replace(**meat_of(rows, question)._asdict())
        return {name: KINDS[name](part) for name, part in parts(given).items()}

    def blocks(self, arrays: Arrays, plan: ModelSettings, cohort: Agreement) -> Blocks:
        model = model_for(plan, cohort)
        p, triangle = model.p, model.p * (model.p + 1) // 2
        sizes = {"value": 1, "g": p, "H": triangle, "size": p, "M": 1, "m": 1, "pearson": 1}
        sizes["F"] = 0 if model.loss.expected is None else triangle
        if "meat" in arrays:
            sizes |= {"meat": triangle, "clusters": 1}
        blocks = tag(arrays, KINDS, sizes)
        read_answer(blocks)  # every part is there
        return blocks

    def talk(
        self,
        plan: ModelSettings,
        cohort: Agreement,
        watch: Watch = lambda row: None,
        *,
        absent: float = 0.0,
        train: Train | None = None,
    ) -> Talk[TableResult]:
        """`absent` is the share of sites that is expected to be missing; `train` runs Point-SAGA,
        where there is a way to, and gives its w."""
        model, log = model_for(plan, cohort), Log(plan.max_exchanges, watch)
        check(model, plan.covariance)
        line = LineCost(plan.latency, plan.bandwidth)
        judge = lambda model, point, sums: _error(
            point, _covariance(model, point, sums, plan.covariance)
        )
        try:
            pilot = yield from run_pilot(model, log)
            first = log.rows[0]
            absent = min(max(absent, 1 - first["answered"] / first["asked"]), 0.9)
            saga = train is not None and model.loss.canonical
            choice = choose(pilot.model, pilot.first.H, line, absent, plan.algorithm, saga)
            start = None
            if train is not None and choice.method == "pointsaga":
                start = train(pilot, int(choice.predictions.exchanges["pointsaga"]), log)
            hold = choice.method == "newton" or not model.loss.canonical
            log.reserve = int(plan.covariance != "model")
            estimate = yield from newton(pilot, judge, plan.tol, log, start, hold)
            if plan.covariance != "model":
                estimate = yield from settle(pilot, estimate, judge, plan.tol, log, hold)
        except Separated as lost:
            raise separation(lost.direction, model.names, model.family) from None
        except DataError as error:
            if (again := _schema.without(cohort, error)) is None:
                raise
            raise Again(again) from None
        except np.linalg.LinAlgError as error:
            raise DataError(str(error)) from None
        history = pd.DataFrame(log.rows)
        moved = history["bytes_up"] + history["bytes_down"]
        history = history.assign(seconds=line.seconds(history["exchange"], moved))
        return _result(plan, cohort, estimate, history, choice)


def _result(
    settings: ModelSettings, cohort: Agreement, estimate: Estimate, history: pd.DataFrame, choice
) -> TableResult:
    model, k, w = estimate.model, estimate.model.k, estimate.point.w / estimate.D[:, None]
    labels = list(model.names)
    if cohort.classes is not None:
        labels = [f"{c}: {name}" for c in cohort.classes[1:] for name in model.names]
    A = _flat(_units(settings, estimate), estimate, k)
    table, matrix = _table(settings, estimate, labels, A)
    plain = _flat(np.eye(len(model.names)), estimate, k)
    original_table, original_covariance = _table(settings, estimate, labels, plain)
    bins, residual_bins = _bin_tables(model, estimate)
    last, is_intercept = history.iloc[-1], np.array([name == INTERCEPT for name in model.names])
    rest, first = w[~is_intercept], w[is_intercept].sum(0)
    several = cohort.classes is not None
    return TableResult(
        **{name: getattr(settings, name) for name in SETTINGS},
        table=table,
        covariance_matrix=matrix,
        original_table=original_table,
        original_covariance=original_covariance,
        n_rows=int(estimate.sums.n),
        n_dropped=0,
        n_sites=len(model.sites),
        n_clusters=estimate.point.clusters,
        **_fit_numbers(model, estimate),
        certified_error=estimate.error,
        unproven=model.loss.unproven,
        converged=estimate.converged,
        history=history,
        choice=choice,
        site_table=_by_site(model, estimate, labels, A),
        bins=bins,
        residual_bins=residual_bins,
        n_exchanges=int(last["exchange"]),
        n_uploads=int(last["uploads"]),
        bytes_up=int(last["bytes_up"]),
        bytes_down=int(last["bytes_down"]),
        coef=rest.T if several else rest[:, 0],
        intercept=first if several else float(first[0]),
        classes=np.array(cohort.classes) if several else None,
        sites=np.array(cohort.sites),
        outcome=None if cohort.outcome is None else Outcome(*cohort.outcome),
        row_sums=estimate.sums.of_outcome,
        predictor=Predictor(
            settings.family,
            settings.formula,
            w,
            _schema.design(settings, cohort),
            model.effects,
            link=model.loss.link,
            left_out=tuple(cohort.left_out),
        ),
        left_out=tuple(cohort.left_out),
    )


def _flat(A: np.ndarray, estimate: Estimate, k: int) -> np.ndarray:
    """From coefficients in units of D to A times those of the user, class by class."""
    order = np.arange(len(A) * k).reshape(-1, k).T.ravel()
    return (np.kron(A, np.eye(k)) / np.repeat(estimate.D, k))[order]


def _table(
    settings: ModelSettings, estimate: Estimate, labels: list[str], A: np.ndarray
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """One row per coefficient, the intervals holding 95 %; and the covariance."""
    model, point, sums = estimate.model, estimate.point, estimate.sums
    cov = A @ _covariance(model, point, sums, settings.covariance) @ A.T
    w, std_err = A @ point.w.reshape(-1), np.sqrt(np.diag(cov))
    z, half = w / std_err, ndtri(0.975) * std_err
    columns = {
        "coef": w, "std_err": std_err, "z": z, "p": 2 * ndtr(-np.abs(z)),
        "ci_low": w - half, "ci_high": w + half,
    }  # fmt: skip
    table = pd.DataFrame(columns, index=pd.Index(labels, name="name"))
    return table, pd.DataFrame(cov, labels, labels)


def _units(settings: ModelSettings, estimate: Estimate) -> np.ndarray:
    """From the user's units to standard deviations about means, where that is asked for."""
    model, A = estimate.model, np.eye(len(estimate.D))
    if not settings.standardize:
        return A
    sd = np.sqrt(variances(model, estimate.sums))
    constant = np.arange(len(A)) == model.intercept
    if model.intercept is None:
        constant[len(A) - model.effects :] = True  # every site has its own
    free = np.arange(len(A)) < len(A) - model.effects
    free &= ~constant
    A[np.ix_(constant, free)] = (estimate.sums.x / estimate.sums.weight)[free]
    return A * np.where(np.eye(len(A), dtype=bool), sd[:, None], 1.0)


def _covariance(model: Model, point: Point, sums: Moments, kind: str) -> np.ndarray:
    """Of the coefficients in units of D: φF⁻¹, or the sandwich where its meat is known."""
    if kind == "model" or point.meat is None:
        return dispersion(model, point.value, sums, point.pearson) * inverse(point.F)
    return sandwich(point, sums, kind)


def _error(point: Point, cov: np.ndarray) -> float:
    """The certified distance of the worst coefficient, in the table's standard errors."""
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.sqrt(np.diag(inverse(point.H)) / np.diag(cov))
    return float(point.bound.reach * np.max(ratio)) if point.bound.r > 0 else 0.0


def _fit_numbers(model: Model, estimate: Estimate) -> dict[str, Any]:
    sums, value = estimate.sums, estimate.point.value
    floor = float(sums.floor)
    deviance = 2 * (value - floor)
    ll = model.loss.likelihood(value, sums)
    phi = dispersion(model, value, sums, estimate.point.pearson)
    return {
        "deviance": deviance, "null_deviance": 2 * (estimate.null - floor),
        "dispersion": phi, "log_likelihood": float(ll),
        "aic": float(-2 * ll + 2 * (model.p + model.loss.nuisance)),
    }  # fmt: skip


def _bin_tables(
    model: Model, estimate: Estimate
) -> tuple[pd.DataFrame | None, pd.DataFrame | None]:
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


def _by_site(
    model: Model, estimate: Estimate, labels: list[str], A: np.ndarray
) -> pd.DataFrame | None:
    """Each site's own estimate: one Newton step from the pooled one, with its own Hessian. Sites
    whose rows cannot tell the coefficients apart are left out, and so are the constants of a
    model with site effects. A gives the table's units."""
    point, E = estimate.point, np.repeat(estimate.D, model.k)
    phi = dispersion(model, point.value, estimate.sums, point.pearson)
    effects = model.names[len(model.names) - model.effects :]
    constant = {*effects, INTERCEPT} if effects else set()
    shown = [i for i, label in enumerate(labels) if label.split(": ")[-1] not in constant]
    estimates = {}
    for site, last in estimate.answers.items():
        # effects of others say nothing about this site's rows, nor does its own beside an intercept
        alone = {f"site[{site}]"} if model.intercept is None else set()
        own = [name in alone or name not in effects for name in model.names]
        own = np.repeat(own, model.k)
        H = (square(last.H, model.p) / np.outer(E, E))[np.ix_(own, own)]
        try:
            V = inverse(H, least=1e-8)
        except np.linalg.LinAlgError:
            continue
        B = A[:, own]
        coef = A @ estimate.point.w.reshape(-1) - B @ (V @ (last.g / E)[own])
        std_err = np.sqrt(phi * np.sum((B @ V) * B, 1))
        estimates |= {(labels[i], site): (coef[i], std_err[i]) for i in shown}
    if not estimates:
        return None
    index = pd.MultiIndex.from_tuples(list(estimates), names=["name", "site"])
    return pd.DataFrame(list(estimates.values()), index=index, columns=["coef", "std_err"])
